//! Which packets take a link: default routes, rules, marks, tables; gateways that change.

use evenkeel_tests::skip::{Need, can_run};
use rustix::process::Signal;
use serde_json::Value;

use crate::raw::{Injector, Sniffer, v4, v6};
use crate::support::{Host, Lab, Router, Versions, eventually, number, run};

/// A link of everything, in both versions of IP, by the gateway that `vb` has.
const DEFAULT: &str = r#"[[links]]
    name = "wan"
    tun = "ek-wan"
    rate_bps = 10e6
    routes = [
        { to = "0.0.0.0/0", via = "default", dev = "vb" },
        { to = "::/0", via = "default", dev = "vb" },
    ]
"#;

/// A lab whose host R has default routes to B, as DHCP and router advertisements leave them.
fn lab_with_defaults() -> Option<Lab> {
    let lab = Lab::new(Versions::Both)?;
    lab.ip(
        Host::R,
        "route add default via 10.0.9.2 dev vb metric 100 proto dhcp",
    );
    lab.ip(
        Host::R,
        "-6 route add default via fd00:9::2 dev vb metric 1024 proto ra",
    );
    Some(lab)
}

/// Packets that have come to the first link.
fn arrived(router: &Router) -> f64 {
    number(&router.link(), "total.arrived.packets")
}

/// Sends a packet from A to B in both versions; returns how many of them took the link.
fn taken(lab: &Lab, router: &Router) -> f64 {
    let before = arrived(router);
    let sniffer = Sniffer::new(lab, Host::B);
    let injector = Injector::new(lab, Host::A);
    injector.send(&v4(64, 253, 4711, &[], b"by four")).unwrap();
    sniffer.find(|packet| packet.ends_with(b"by four"));
    injector.send(&v6(64, 253, 7, b"by six")).unwrap();
    sniffer.find(|packet| packet.ends_with(b"by six"));
    arrived(router) - before
}

fn is_whole(router: &Router) -> bool {
    router.link()["degraded"] == Value::Null
}

#[test]
fn a_default_route_takes_what_no_other_route_is_for() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let router = lab.start(DEFAULT);
    assert!(is_whole(&router), "{}", router.link());
    assert_eq!(taken(&lab, &router), 2.0);
    // B's own network is R's too, and has a route of its own.
    let before = arrived(&router);
    let neighbour = lab.udp(Host::B, "10.0.9.2:4000");
    lab.udp(Host::A, "10.0.1.1:0")
        .send_to(b"near", "10.0.9.2:4000")
        .unwrap();
    assert_eq!(neighbour.recv(&mut [0; 9]).unwrap(), 4);
    assert_eq!(arrived(&router), before);
    let rules = lab.ip(Host::R, "rule");
    assert!(
        rules.contains("1001:\tfrom all lookup main suppress_prefixlength 0"),
        "{rules}"
    );
    assert!(rules.contains("1002:\tfrom all lookup 2001"), "{rules}");
    assert!(router.link()["routes"][0]["via"] == "default");
    let (status, _) = router.stop(Signal::TERM);
    assert_eq!((status.code(), &lab.leftovers()[..]), (Some(0), ""));
}

#[test]
fn what_a_killed_router_has_left_of_rules_the_next_one_removes() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    lab.start(DEFAULT).stop(Signal::KILL);
    assert!(lab.leftovers().contains("suppress_prefixlength"));
    // A start that is refused does so too: they lead packets nowhere.
    assert_eq!(lab.refused("links = 7").0, 2);
    assert_eq!(lab.leftovers(), "");
    lab.start(DEFAULT).stop(Signal::KILL);
    let router = lab.start(DEFAULT);
    assert_eq!(taken(&lab, &router), 2.0);
    assert_eq!(lab.leftovers().matches("suppress_prefixlength").count(), 2);
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn what_a_killed_router_with_other_devices_and_tables_has_left_is_removed_too() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    lab.start(&DEFAULT.replace("tun =", "table = 1777\ntun ="))
        .stop(Signal::KILL);
    assert!(lab.leftovers().contains("2777"));
    let other = DEFAULT.replace("ek-wan", "ek-other");
    for links in [&other, DEFAULT] {
        let router = lab.start(links);
        assert_eq!(taken(&lab, &router), 2.0);
        let left = lab.leftovers();
        assert!(!left.contains("1777") && !left.contains("2777"), "{left}");
        router.stop(Signal::KILL);
    }
    lab.start(DEFAULT).stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_route_whose_packets_another_router_takes_first_is_refused_and_degraded() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let with = |route: &str| {
        format!(
            "[[links]]\nname = \"l\"\ntun = \"ek-l\"\ntable = 1500\n\
             routes = [{{ via = \"10.0.9.2\", dev = \"vb\", {route} }}]\n"
        )
    };
    let first = lab.start_in(Host::R, DEFAULT);
    let check = |links: &str| {
        let path = lab.write_config(links);
        let mut check = lab.evenkeel_router(&["check", "--config"]);
        String::from_utf8(check.arg(path).output().unwrap().stderr).unwrap()
    };
    let from = with("to = \"10.0.2.0/24\", from = \"10.0.1.0/24\"");
    let by =
        |priority: u32| format!("a rule of another router (priority {priority}) leads packets to");
    assert!(check(&from).contains(&by(1002)), "{}", check(&from));
    lab.ip(
        Host::R,
        "route add 10.0.2.0/24 via 10.0.9.2 dev vb metric 9",
    );
    assert!(check(&from).contains(&by(1001)), "{}", check(&from));
    lab.ip(
        Host::R,
        "route del 10.0.2.0/24 via 10.0.9.2 dev vb metric 9",
    );
    // What is routed in the main table comes before the other router's default route.
    let plain = with("to = \"10.0.2.0/24\"");
    let second = lab.start(&plain);
    assert_eq!(taken(&lab, &second), 1.0, "IPv4 alone");
    assert!(is_whole(&second), "{}", second.link());
    second.stop(Signal::TERM);
    first.stop(Signal::TERM);
    // Nor is anything wrong with a router of all that another one leaves.
    let marked = with("to = \"0.0.0.0/0\", mark = 1");
    let first = lab.start_in(Host::R, &marked);
    let second = lab.start(DEFAULT);
    assert!(is_whole(&second), "{}", second.link());
    first.stop(Signal::TERM);
    second.stop(Signal::TERM);
    // A router that starts later may come first, by a route that others add.
    let first = lab.start(&from);
    let second = lab.start_in(Host::R, DEFAULT);
    assert_eq!(taken(&lab, &first), 1.0, "IPv4 alone");
    assert!(is_whole(&first), "{}", first.link());
    lab.ip(
        Host::R,
        "route add 10.0.2.0/24 via 10.0.9.2 dev vb metric 9",
    );
    eventually("packets pass the link", || !is_whole(&first));
    second.stop(Signal::TERM);
    eventually("the other router has gone", || is_whole(&first));
    first.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_link_follows_a_gateway_and_an_address_that_change() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let router = lab.start(DEFAULT);
    let onward = |family: &str| lab.ip(Host::R, &format!("{family} route show table 1001"));
    assert!(
        onward("-4").contains("default via 10.0.9.2 dev vb"),
        "{}",
        onward("-4")
    );
    // Another lease: first another gateway, then another address and gateway at once.
    lab.ip(Host::B, "addr add 10.0.9.3/24 dev eth0");
    lab.ip(
        Host::R,
        "route replace default via 10.0.9.3 dev vb metric 100",
    );
    eventually("the new gateway", || {
        onward("-4").contains("default via 10.0.9.3 dev vb")
    });
    assert_eq!(taken(&lab, &router), 2.0);
    lab.ip(Host::B, "addr add 10.0.5.2/24 dev eth0");
    lab.ip(Host::R, "addr flush dev vb");
    eventually("no gateway", || !is_whole(&router));
    lab.ip(Host::R, "addr add 10.0.5.1/24 dev vb");
    lab.ip(Host::R, "route add default via 10.0.5.2 dev vb metric 100");
    lab.ip(Host::R, "-6 addr add fd00:9::1/64 dev vb nodad");
    lab.ip(
        Host::R,
        "-6 route replace default via fd00:9::2 dev vb metric 1024",
    );
    eventually("the new address", || {
        onward("-4").contains("default via 10.0.5.2 dev vb") && is_whole(&router)
    });
    let into = lab.ip(Host::R, "route show table 2001");
    assert!(into.contains("src 10.0.5.1"), "{into}");
    assert_eq!(taken(&lab, &router), 2.0);
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_route_for_some_packets_takes_them_from_a_default_route_listed_before_it() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let later = "[[links]]\nname = \"near\"\ntun = \"ek-near\"\n\
                 routes = [{ to = \"10.0.9.0/24\", dev = \"vb\", iif = \"va\" }]\n";
    let router = lab.start(&format!("{DEFAULT}{later}"));
    let links = || {
        let status = router.ask(r#"{"request":"status"}"#);
        [0, 1].map(|link| number(&status["links"][link], "total.arrived.packets"))
    };
    // R is in B's network: only the default route would leave it alone.
    let neighbour = lab.udp(Host::B, "10.0.9.2:4000");
    lab.udp(Host::A, "10.0.1.1:0")
        .send_to(b"near", "10.0.9.2:4000")
        .unwrap();
    assert_eq!(neighbour.recv(&mut [0; 9]).unwrap(), 4);
    assert_eq!(links(), [0.0, 1.0]);
    assert_eq!(taken(&lab, &router), 2.0);
    assert_eq!(links(), [2.0, 1.0]);
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn packets_are_selected_by_where_they_come_from() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    for (key, takes) in [
        ("from = \"10.0.1.0/24\"", 1.0),
        ("from = \"10.0.7.0/24\"", 0.0),
        ("iif = \"va\"", 1.0),
        ("iif = \"vb\"", 0.0),
    ] {
        let router = lab.start(&format!(
            "[[links]]\nname = \"l\"\ntun = \"ek-l\"\n\
             routes = [{{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\", {key} }}]\n"
        ));
        assert_eq!(taken(&lab, &router), takes, "{key}");
        router.stop(Signal::TERM);
        assert_eq!(lab.leftovers(), "");
    }
}

#[test]
fn packets_with_a_mark_take_the_link_and_others_pass_by() {
    if !can_run(&[Need::program("nft", "nftables")]) {
        return;
    }
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let router = lab.start(
        "[[links]]\nname = \"l\"\ntun = \"ek-l\"\nroutes = [\n\
         { to = \"0.0.0.0/0\", via = \"default\", dev = \"vb\", mark = \"0x1/0xf\" },\n\
         { to = \"::/0\", via = \"default\", dev = \"vb\", mark = \"0x1/0xf\" },\n]\n",
    );
    assert_eq!(taken(&lab, &router), 0.0);
    let nft = |line: &str| {
        let namespace = lab.namespace(Host::R);
        let command = ["netns", "exec", &namespace, "nft", line];
        run("ip", &command);
    };
    nft("add table inet marks");
    nft("add chain inet marks pre { type filter hook prerouting priority mangle; }");
    nft("add rule inet marks pre iifname va meta mark set 0x21");
    assert_eq!(taken(&lab, &router), 2.0);
    assert!(is_whole(&router), "{}", router.link());
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn behind_nat_a_link_has_connections_of_its_own_as_the_manual_says() {
    if !can_run(&[Need::program("nft", "nftables")]) {
        return;
    }
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let manual = include_str!("../../../docs/router.md");
    let begin = manual.find("table ip links {").unwrap();
    let end = begin + manual[begin..].find("```").unwrap();
    let rules = lab.directory().join("rules");
    let translation = "table ip nat {\nchain post {\n\
         type nat hook postrouting priority srcnat\noifname vb masquerade\n}\n}\n";
    std::fs::write(&rules, format!("{translation}{}", &manual[begin..end])).unwrap();
    let nft = lab.command(Host::R, "nft").arg("-f").arg(&rules).status();
    assert!(nft.unwrap().success());
    // B knows no way to A but by R's own address.
    lab.ip(Host::B, "route del default");
    let router = lab.start(DEFAULT);
    let (here, there) = (
        lab.udp(Host::A, "10.0.1.1:0"),
        lab.udp(Host::B, "10.0.2.1:4000"),
    );
    here.send_to(b"who", "10.0.2.1:4000").unwrap();
    let (_, from) = there.recv_from(&mut [0; 9]).unwrap();
    assert_eq!(from.ip().to_string(), "10.0.9.1");
    there.send_to(b"you", from).unwrap();
    assert_eq!(here.recv(&mut [0; 9]).unwrap(), 3);
    assert_eq!(arrived(&router), 1.0);
}

#[test]
fn rules_of_the_hosts_own_lead_to_a_table_that_the_file_names() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let config = "[[links]]\nname = \"l\"\ntun = \"ek-l\"\n\
                  routes = [{ to = \"0.0.0.0/0\", via = \"default\", dev = \"vb\", table = 100 }]\n";
    let path = lab.write_config(config);
    let check = || {
        let check = lab
            .evenkeel_router(&["check", "--config", path.to_str().unwrap()])
            .output();
        String::from_utf8(check.unwrap().stderr).unwrap()
    };
    assert!(
        check().contains("no IPv4 rule leads to table 100"),
        "{}",
        check()
    );
    lab.ip(Host::R, "rule add iif va lookup 100 priority 200");
    assert_eq!(check(), "");
    let router = lab.start(config);
    assert_eq!(taken(&lab, &router), 1.0, "IPv4 alone");
    lab.ip(Host::R, "rule del priority 200");
    eventually("no rule", || !is_whole(&router));
    lab.ip(Host::R, "rule add iif va lookup 100 priority 200");
    eventually("a rule", || is_whole(&router));
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_rule_that_others_remove_is_put_back_and_the_link_degraded_meanwhile() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let router = lab.start(DEFAULT);
    let whole = lab.leftovers();
    for disturbance in ["rule del priority 1002", "route flush table 2001"] {
        lab.ip(Host::R, disturbance);
        eventually(disturbance, || lab.leftovers() == whole);
        let link = router.link();
        let reason = link["degraded"]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("another program has removed"), "{link}");
        assert_eq!(taken(&lab, &router), 2.0);
        eventually("left alone", || is_whole(&router));
    }
    lab.ip(Host::R, "rule add iif va lookup main priority 900");
    eventually("a rule ahead of ours", || !is_whole(&router));
    lab.ip(Host::R, "rule del priority 900");
    lab.ip(Host::R, "rule add fwmark 0x100 lookup main priority 900");
    eventually("a rule for some packets", || !is_whole(&router));
}

#[test]
fn a_reload_changes_rules_without_a_trace() {
    let Some(lab) = lab_with_defaults() else {
        return;
    };
    let router = lab.start(DEFAULT);
    let routes = |routes: &str| {
        lab.write_config(&format!(
            "[[links]]\nname = \"wan\"\ntun = \"ek-wan\"\nrate_bps = 10e6\nroutes = [{routes}]\n"
        ));
        let answer = router.ask(r#"{"request":"reload"}"#);
        assert_eq!(answer.get("error"), None, "{answer}");
    };
    routes(r#"{ to = "10.0.2.0/24", via = "10.0.9.2", dev = "vb" }"#);
    let left = lab.leftovers();
    assert!(
        !left.contains("suppress") && !left.contains("2001"),
        "{left}"
    );
    assert_eq!(taken(&lab, &router), 1.0);
    routes(r#"{ to = "0.0.0.0/0", via = "default", dev = "vb", iif = "va" }"#);
    let left = lab.leftovers();
    assert!(left.contains("from all iif va lookup 2001"), "{left}");
    assert!(!left.contains("10.0.2.0/24"), "{left}");
    assert_eq!(taken(&lab, &router), 1.0);
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}
