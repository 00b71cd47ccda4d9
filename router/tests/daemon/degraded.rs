//! What a router does when others take away what it has set up.

use evenkeel_tests::skip::{Need, can_run};
use rustix::process::Signal;
use serde_json::Value;

use crate::raw::{Injector, Sniffer, forwards, v4};
use crate::support::{Host, Lab, Router, Versions, eventually, link, number, run};

/// A link with an IPv4 route alone.
const LINK: &str = "[[links]]\nname = \"bottleneck\"\ntun = \"ek-bn\"\nrate_bps = 10e6\n\
                    routes = [{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\" }]\n";

fn reason(router: &Router) -> Option<String> {
    Some(router.link()["degraded"]["reason"].as_str()?.to_owned())
}

/// Waits until the link lacks something that is described so.
fn degraded(router: &Router, text: &str) {
    eventually(text, || {
        reason(router).is_some_and(|reason| reason.contains(text))
    });
}

/// Checks that packets take the link.
fn takes_the_link(lab: &Lab, router: &Router) {
    let arrived = || number(&router.link(), "total.arrived.packets");
    let before = arrived();
    forwards(lab);
    assert!(arrived() > before, "packets pass beside the link");
}

#[test]
fn what_others_take_away_the_router_puts_back() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    let whole = lab.leftovers();
    for disturbances in [
        &["link set ek-bn down"][..],
        &["link set ek-bn down", "link set ek-bn up"],
        &["link set ek-bn down", "link set ek-bn name ek-other"],
        &["link set ek-bn mtu 1400"],
        &["route del 10.0.2.0/24 dev ek-bn"],
        &["-6 route del fd00:2::/64 dev ek-bn"],
        &["route flush table 1001", "-6 route flush table 1001"],
        &["rule del priority 1000", "-6 rule del priority 1000"],
        &[
            "link set vb down",
            "link set vb up",
            "-6 addr add fd00:9::1/64 dev vb nodad",
        ],
    ] {
        for disturbance in disturbances {
            lab.ip(Host::R, disturbance);
        }
        eventually(&format!("{disturbances:?}"), || {
            lab.leftovers() == whole && router.link()["degraded"] == Value::Null
        });
        takes_the_link(&lab, &router);
    }
    let (status, _) = router.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn settings_of_its_device_that_others_change_the_router_sets_again() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    let whole = lab.leftovers();
    for (name, value, other) in [
        ("ipv4/conf/ek-bn/rp_filter", "0", "1"),
        ("ipv4/conf/ek-bn/accept_local", "1", "0"),
        ("ipv4/conf/ek-bn/forwarding", "1", "0"),
        ("ipv6/conf/ek-bn/disable_ipv6", "0", "1"),
    ] {
        // In processes of their own, as people do.
        let shell = |script: String| {
            let mut command = lab.command(Host::R, "sh");
            let output = command.args(["-c", &script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        shell(format!("echo {other} >/proc/sys/net/{name}"));
        eventually(name, || {
            shell(format!("cat /proc/sys/net/{name}")).trim() == value && lab.leftovers() == whole
        });
    }
    takes_the_link(&lab, &router);
}

#[test]
fn a_link_whose_exit_is_down_or_gone_says_so_until_it_is_back() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(LINK);
    assert_eq!(router.link()["degraded"], Value::Null);
    lab.ip(Host::R, "link set vb down");
    degraded(
        &router,
        "device \"vb\" is down; switch it on: ip link set dev vb up",
    );
    let mut status = lab.evenkeel_router(&["status", "--socket"]);
    let printed = status.arg(lab.socket()).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    assert!(
        printed.contains("DEGRADED") && printed.contains("device \"vb\" is down"),
        "{printed}"
    );
    lab.ip(Host::R, "link set vb up");
    eventually("up again", || reason(&router).is_none());
    takes_the_link(&lab, &router);

    lab.ip(Host::R, "link del vb");
    degraded(&router, "there is no device \"vb\"");
    let since = || number(&router.link(), "degraded.since_s");
    let before = since();
    eventually("time passes", || since() > before);
    lab.join_b();
    eventually("there again", || reason(&router).is_none());
    takes_the_link(&lab, &router);

    lab.set(Host::R, "ipv4/ip_forward", "0");
    degraded(&router, "sysctl -w net/ipv4/ip_forward=1");
    lab.set(Host::R, "ipv4/ip_forward", "1");
    eventually("allowed again", || reason(&router).is_none());
    takes_the_link(&lab, &router);

    let (status, stderr) = router.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    let said = |text: &str| stderr.matches(text).count();
    assert_eq!(said("link bottleneck has everything again"), 3, "{stderr}");
    assert_eq!(said("device \"vb\" is down"), 1, "{stderr}");
    assert_eq!(said("there is no device \"vb\""), 1, "{stderr}");
}

#[test]
fn what_cannot_be_put_back_degrades_the_link() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(LINK);
    let whole = lab.leftovers();
    // Somebody else's route in the place of ours.
    lab.ip(Host::R, "route replace 10.0.2.0/24 via 10.0.9.2 dev vb");
    degraded(&router, "another route to 10.0.2.0/24");
    lab.ip(Host::R, "route del 10.0.2.0/24 via 10.0.9.2 dev vb");
    eventually("routed again", || {
        reason(&router).is_none() && lab.leftovers() == whole
    });
    // Somebody else's device with the name of ours.
    eventually("the name is taken", || {
        let ip = |arguments: &str| {
            let mut command = std::process::Command::new("ip");
            command.args(["-n", &lab.namespace(Host::R)]);
            let output = command.args(arguments.split(' ')).output().unwrap();
            output.status.success()
        };
        ip("link set ek-bn down");
        ip("link set ek-bn name ek-other") && ip("link add ek-bn type veth peer name ek-peer")
    });
    degraded(&router, "renaming ek-other to ek-bn again failed");
    // By this device packets would come round and round.
    let routes = lab.ip(Host::R, "route show");
    assert!(!routes.contains("dev ek-other"), "{routes}");
    lab.ip(Host::R, "link del ek-bn");
    eventually("named again", || {
        reason(&router).is_none() && lab.leftovers() == whole
    });
    takes_the_link(&lab, &router);
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}

#[test]
fn a_program_that_keeps_removing_a_route_meets_the_router_once_a_second() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(LINK);
    let uptime = || number(&router.ask(r#"{"request":"status"}"#), "uptime_s");
    let began = uptime();
    let mut removed = 0;
    while removed < 4 {
        if lab.ip(Host::R, "route").contains("10.0.2.0/24 dev ek-bn") {
            lab.ip(Host::R, "route del 10.0.2.0/24 dev ek-bn");
            removed += 1;
        }
    }
    // The first is put back at once, and the fourth has been put back twice a second later.
    let took = uptime() - began;
    assert!(took > 1.5, "{took} s");
    eventually("put back", || {
        lab.ip(Host::R, "route").contains("10.0.2.0/24 dev ek-bn")
    });
    takes_the_link(&lab, &router);
}

#[test]
fn a_link_that_packets_pass_beside_is_degraded() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(LINK);
    lab.ip(
        Host::R,
        "route add 10.0.2.0/24 via 10.0.9.2 dev vb table 100",
    );
    lab.ip(Host::R, "rule add from 10.0.1.0/24 lookup 100 priority 500");
    degraded(
        &router,
        "a rule (priority 500) leads packets to 10.0.2.0/24 past",
    );
    let beside = || number(&router.link(), "passed_beside.packets");
    let before = beside();
    forwards(&lab);
    assert_eq!(beside() - before, 1.0, "it is counted");
    lab.ip(Host::R, "rule del priority 500");
    eventually("no rule", || reason(&router).is_none());
    forwards(&lab);
    assert_eq!(beside() - before, 1.0, "this one took the link");

    lab.ip(Host::R, "route prepend 10.0.2.0/24 via 10.0.9.2 dev vb");
    degraded(
        &router,
        "another route to 10.0.2.0/24 comes before the link's",
    );
    lab.ip(Host::R, "route del 10.0.2.0/24 via 10.0.9.2 dev vb");
    eventually("no other route", || reason(&router).is_none());
    takes_the_link(&lab, &router);

    // One for some packets alone, whatever its metric.
    let interactive = "10.0.2.0/24 tos 0x10 via 10.0.9.2 dev vb metric 7";
    lab.ip(Host::R, &format!("route add {interactive}"));
    degraded(
        &router,
        "another route to 10.0.2.0/24 comes before the link's",
    );
    lab.ip(Host::R, &format!("route del {interactive}"));
    eventually("no route for some packets", || reason(&router).is_none());
}

#[test]
fn a_link_whose_route_a_program_keeps_removing_is_degraded_all_the_time_and_says_so_once() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(LINK);
    let remove = || {
        let mut command = lab.command(Host::R, "ip");
        let _ = command
            .args(["route", "del", "10.0.2.0/24", "dev", "ek-bn"])
            .output();
    };
    remove();
    degraded(
        &router,
        "another program has removed the route to 10.0.2.0/24",
    );
    for _ in 0..60 {
        remove();
        crate::support::pause();
        assert!(reason(&router).is_some());
    }
    eventually("left alone", || reason(&router).is_none());
    takes_the_link(&lab, &router);
    let (_, stderr) = router.stop(Signal::TERM);
    let said = stderr.matches("link bottleneck is degraded").count();
    assert_eq!(said, 1, "{stderr}");
}

#[test]
fn a_link_whose_packets_come_round_into_it_is_degraded_and_they_end() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(LINK);
    // It gets the priority above that of the router's, 999.
    lab.ip(Host::R, "rule add lookup main suppress_prefixlength 0");
    let injector = Injector::new(&lab, Host::A);
    injector
        .send(&v4(64, 253, 4711, &[], b"round and round"))
        .unwrap();
    degraded(
        &router,
        "a rule (priority 999) keeps packets to 10.0.2.0/24 that come out of the link from leaving by vb",
    );
    let arrived = || number(&router.link(), "total.arrived.packets");
    eventually("no packet goes round", || {
        let before = arrived();
        crate::support::pause();
        arrived() == before
    });
    lab.ip(Host::R, "rule del priority 999");
    eventually("no rule", || reason(&router).is_none());
    let sniffer = Sniffer::new(&lab, Host::B);
    let before = arrived();
    injector.send(&v4(64, 253, 4712, &[], b"straight")).unwrap();
    let packet = sniffer.find(|packet| packet.ends_with(b"straight"));
    assert_eq!((packet[8], arrived() - before), (63, 1.0));
    let (_, stderr) = router.stop(Signal::TERM);
    let said = stderr.matches("link bottleneck is degraded").count();
    assert_eq!(said, 1, "{stderr}");
}

#[test]
fn packets_that_a_mark_leads_round_are_dropped_and_degrade_the_link() {
    if !can_run(&[Need::program("nft", "nftables")]) {
        return;
    }
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    lab.ip(Host::R, "rule add fwmark 1 lookup 100 priority 200");
    let router = lab.start(
        "[[links]]\nname = \"l\"\ntun = \"ek-l\"\n\
         routes = [{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\", table = 100 }]\n",
    );
    let nft = |line: &str| {
        run(
            "ip",
            &["netns", "exec", &lab.namespace(Host::R), "nft", line],
        )
    };
    nft("add table inet marks");
    nft("add chain inet marks pre { type filter hook prerouting priority mangle; }");
    nft("add rule inet marks pre meta mark set 1");
    assert_eq!(reason(&router), None);
    let injector = Injector::new(&lab, Host::A);
    injector
        .send(&v4(64, 253, 4711, &[], b"round and round"))
        .unwrap();
    degraded(
        &router,
        "packets that came out of a link were led into ek-l again",
    );
    assert_eq!(number(&router.link(), "total.arrived.packets"), 1.0);
    nft("flush chain inet marks pre");
    nft("add rule inet marks pre iifname != ek-l meta mark set 1");
    eventually("marked once", || reason(&router).is_none());
    let sniffer = Sniffer::new(&lab, Host::B);
    injector.send(&v4(64, 253, 4712, &[], b"straight")).unwrap();
    sniffer.find(|packet| packet.ends_with(b"straight"));
    router.stop(Signal::TERM);
    assert_eq!(lab.leftovers(), "");
}
