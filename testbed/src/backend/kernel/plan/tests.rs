use super::*;

fn plan(text: &str) -> Plan {
    let scenario =
        Scenario::parse(text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    Plan::new(&scenario, "ek1", Path::new("/run/test"), false)
}

#[test]
fn netem_makes_what_it_can_and_the_router_the_rest() {
    let with_stamps = LINE.replace("[[flows]]", "stamps = ['aqt']\n[[flows]]");
    let text = with_stamps.replace("[[flows]]", "rate_bps = 5000000\n[[flows]]");
    let scenario = Scenario::parse(&text, "test.toml", &[]);
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
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

const LINE: &str = "name = 'line'\nduration_s = 1\n\
    [[links]]\nname = 'ab'\nfrom = 'a'\nto = 'b'\nrate_bps = 1000000\ndelay_ms = 2.5\n\
    [[links]]\nname = 'bc'\nfrom = 'b'\nto = 'c'\n\
    [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'a'\nto = 'c'\n";

#[test]
fn every_node_is_a_host_and_every_link_a_pair_with_addresses_of_its_own() {
    let plan = plan(LINE);
    let names: Vec<_> = plan
        .hosts
        .iter()
        .map(|host| (host.name.as_str(), host.label.as_str()))
        .collect();
    assert_eq!(names, [("a", "ek1-0"), ("b", "ek1-1"), ("c", "ek1-2")]);
    assert_eq!(plan.pairs.len(), 2);
    let mut addresses: Vec<_> = plan
        .pairs
        .iter()
        .flat_map(|p| p.ends.map(|(_, address)| address))
        .collect();
    addresses.extend(plan.hosts.iter().map(|host| host.address));
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 7);
}

#[test]
fn a_router_runs_only_where_a_link_needs_one_and_knows_its_routes() {
    let plan = plan(LINE);
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
