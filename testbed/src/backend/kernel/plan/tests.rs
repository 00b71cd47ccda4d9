use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::scenario::{FlowBuilder, LinkBuilder, ScenarioBuilder};

/// Three hosts in a row: a link with a rate and a delay, and `second` from `b` to `c`.
fn line(second: LinkBuilder) -> ScenarioBuilder {
    let first = LinkBuilder::between("ab", "a", "b").rate_bps(1_000_000);
    Scenario::builder("line", Duration::from_secs(1))
        .link(first.delay(Duration::from_micros(2500)))
        .link(second)
        .flow(FlowBuilder::bulk("f", "reno").between("a", "c"))
}

fn second() -> LinkBuilder {
    LinkBuilder::between("bc", "b", "c")
}

fn built(scenario: ScenarioBuilder) -> Scenario {
    scenario.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Without netem.
fn plan(scenario: ScenarioBuilder) -> Plan {
    Plan::new(&built(scenario), "ek1", Path::new("/run/test"), false)
}

#[test]
fn netem_makes_what_it_can_and_the_router_the_rest() {
    let scenario = built(line(second().rate_bps(5_000_000).stamps(&["aqt"])));
    assert!(wants_netem(&scenario));
    let plan = Plan::new(&scenario, "ek1", Path::new("/run/test"), true);
    let made: Vec<_> = plan
        .netem
        .iter()
        .map(|link| (scenario.links[link.index.0].name.as_str(), link.far.0))
        .collect();
    assert_eq!(made, [("ab", 1), ("ab.reverse", 0)]);
    let [a, b, c] = &plan.hosts[..] else {
        panic!("three nodes")
    };
    assert!(a.router.is_none(), "netem needs none");
    assert_eq!(a.routes.len(), 2, "and is routed to as usual");
    assert!(
        b.router.is_some() && c.router.is_some(),
        "netem cannot stamp"
    );
}

#[test]
fn every_node_is_a_host_and_every_link_a_pair_with_addresses_of_its_own() {
    let plan = plan(line(second()));
    let names: Vec<_> = plan
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.label.as_str()))
        .collect();
    assert_eq!(names, [("a", "ek1-0"), ("b", "ek1-1"), ("c", "ek1-2")]);
    assert_eq!(plan.pairs.len(), 2);
    let commands = (0..3).map(|node| plan.ip_commands(node));
    let commands: String = commands.collect();
    let added = commands
        .lines()
        .filter(|line| line.starts_with("address add "));
    let addresses: BTreeSet<_> = added.map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(addresses.len(), 3 + 4, "{commands}");
    assert!(!commands.contains("fd00:"), "{commands}");
}

#[test]
fn hosts_and_devices_have_addresses_of_ipv6_too_if_anything_uses_it() {
    let plan = plan(line(second()).set("ip_version", 6));
    assert_eq!(
        plan.hosts[1].routes,
        [
            "10.0.0.3/32 via 10.128.0.3 dev link1 src 10.0.0.2",
            "fd00::a00:3/128 via fd00::a80:3 dev link1 src fd00::a00:2",
        ]
    );
    let commands = plan.ip_commands(1);
    for command in [
        "address add fd00::a00:2 dev lo nodad",
        "address add fd00::a80:2 dev link1 noprefixroute nodad",
        "neighbour add fd00::a80:3 lladdr 02:00:0a:80:00:03 dev link1 nud permanent",
    ] {
        assert!(commands.lines().any(|line| line == command), "{commands}");
    }
    let router = plan.hosts[0].router.as_ref().expect("its link has a rate");
    assert!(router.contains("fd00::a00:3/128"), "{router}");
    assert!(plan.hosts_file().contains("fd00::a00:3 c\n"));
    assert!(plan.settings().contains(&"net.ipv6.conf.all.forwarding=1"));
}

#[test]
fn a_router_runs_only_where_a_link_needs_one_and_knows_its_routes() {
    let plan = plan(line(second()));
    let [a, b, c] = &plan.hosts[..] else {
        panic!("three nodes")
    };
    let config = a
        .router
        .as_deref()
        .expect("a sends over a link with a rate");
    let config: toml::Table = config.parse().expect("it is TOML");
    let link = &config["links"].as_array().expect("links")[0];
    assert_eq!(link["rate_bps"].as_integer(), Some(1_000_000));
    assert_eq!(link["delay_ms"].as_float(), Some(2.5));
    let routes: Vec<_> = link["routes"]
        .as_array()
        .expect("routes")
        .iter()
        .map(|r| r["to"].as_str())
        .collect();
    assert_eq!(routes, [Some("10.0.0.2/32"), Some("10.0.0.3/32")]);
    assert!(a.routes.is_empty());
    assert_eq!(
        b.routes,
        ["10.0.0.3/32 via 10.128.0.3 dev link1 src 10.0.0.2"]
    );
    assert!(b.router.is_some(), "the way back over ab has the rate too");
    assert!(c.router.is_none());
    assert_eq!(c.routes.len(), 2);
}

#[test]
fn hosts_of_a_kernels_own_tcp_forget_what_earlier_connections_found_out() {
    let forgets = |scenario: ScenarioBuilder| {
        let settings = plan(scenario).settings();
        settings.contains(&"net.ipv4.tcp_no_metrics_save=1")
    };
    assert!(!forgets(line(second())));
    let neighbour = FlowBuilder::tcp("n", "cubic").between("a", "c");
    assert!(forgets(line(second()).flow(neighbour)));
}

#[test]
fn devices_that_are_too_small_for_ipv6_are_not_told_how_to_do_it() {
    let commands = |mtu: u16| plan(line(second()).set("mtu", i64::from(mtu))).ip_commands(0);
    assert!(commands(1280).contains("link set link0 addrgenmode none address"));
    assert!(commands(1279).contains("link set link0 address"));
}
