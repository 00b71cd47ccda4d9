//! Tests of which packets routes are for.

use super::*;

/// A configuration with these routes, the first in line 6.
fn routed(routes: &[&str]) -> String {
    let routes = routes.join(",\n");
    format!("name = \"r\"\n[[links]]\nname = \"l\"\ntun = \"ek-l\"\nroutes = [\n{routes}\n]\n")
}

fn route(text: &str) -> RouteSpec {
    parse(&routed(&[text])).unwrap().links[0].routes[0].clone()
}

#[test]
fn a_route_to_some_destinations_is_in_the_main_table_and_others_have_rules() {
    let of = |keys: &str| route(&format!("{{ to = \"10.0.2.0/24\", dev = \"va\"{keys} }}"));
    assert_eq!(of("").entry, Entry::Table(254));
    assert_eq!(of(", table = 100").entry, Entry::Table(100));
    for (keys, text) in [
        (", mark = 0x10", " fwmark 0x10"),
        (", mark = \"0x10/0xf0\"", " fwmark 0x10/0xf0"),
        (", from = \"10.0.1.0/24\"", " from 10.0.1.0/24"),
        (", iif = \"vc\"", " iif vc"),
    ] {
        let route = of(keys);
        assert_eq!(route.entry, Entry::Rule(1002), "{keys}");
        assert_eq!(route.selector.to_string(), text);
    }
    let everywhere = of(", from = \"0.0.0.0/0\"");
    assert!(everywhere.selector.is_empty());
    let default = route("{ to = \"0.0.0.0/0\", via = \"default\", dev = \"va\" }");
    assert_eq!(
        (default.entry, default.via),
        (Entry::Rule(1002), Via::Default)
    );
    assert!(default.is_default());
}

#[test]
fn rules_have_the_order_of_the_file() {
    let config = parse(&routed(&[
        "{ to = \"0.0.0.0/0\", dev = \"va\", mark = 1 }",
        "{ to = \"10.0.2.0/24\", dev = \"va\" }",
        "{ to = \"::/0\", dev = \"va\" }",
    ]));
    let config = config.unwrap();
    let entries: Vec<_> = config.links[0]
        .routes
        .iter()
        .map(|route| route.entry)
        .collect();
    assert_eq!(
        entries,
        [Entry::Rule(1002), Entry::Table(254), Entry::Rule(1004)]
    );
    assert_eq!(config.links[0].own_tables(), [1001, 2001]);
}

#[test]
fn rules_of_default_routes_come_behind_those_of_all_others() {
    let config = parse(&routed(&[
        "{ to = \"0.0.0.0/0\", dev = \"va\" }",
        "{ to = \"10.0.2.0/24\", dev = \"va\", iif = \"vb\" }",
        "{ to = \"0.0.0.0/0\", dev = \"va\", mark = 1 }",
        "{ to = \"10.0.3.0/24\", dev = \"va\", mark = 1 }",
    ]));
    let entries = config.unwrap().links[0].routes.clone();
    let entries: Vec<_> = entries.iter().map(|route| route.entry).collect();
    assert_eq!(entries, [1006, 1002, 1008, 1004].map(Entry::Rule));
}

#[test]
fn what_cannot_be_told_apart_or_contradicts_itself_is_refused() {
    for (routes, why) in [
        (
            &["{ to = \"10.0.2.0/24\", dev = \"va\", mark = \"1/2\" }"][..],
            "r.toml:6: links.0.routes.0: mark: \"1/2\" is no mark; write VALUE or VALUE/MASK",
        ),
        (
            &["{ to = \"10.0.2.0/24\", dev = \"va\", mark = -1 }"],
            "\"-1\" is no mark",
        ),
        (
            &["{ to = \"10.0.2.0/24\", dev = \"va\", from = \"fd00::/8\" }"],
            "from is of another IP version than to",
        ),
        (
            &["{ to = \"10.0.2.0/24\", dev = \"va\", table = 100, mark = 1 }"],
            "leave out mark, from and iif",
        ),
        (
            &["{ to = \"10.0.2.0/24\", dev = \"va\", table = 1001 }"],
            "is a link's own; name one that rules of yours lead to",
        ),
        (
            &[
                "{ to = \"10.0.2.0/24\", dev = \"va\", mark = 1 }",
                "{ to = \"10.0.2.0/24\", dev = \"va\", mark = 1 }",
            ],
            "r.toml:7: links.0.routes.1: 10.0.2.0/24 is routed over link \"l\" already",
        ),
        (
            &[
                "{ to = \"10.0.2.0/24\", dev = \"va\", mark = 1 }",
                "{ to = \"10.0.2.0/24\", dev = \"vb\", mark = 2 }",
            ],
            "packets to 10.0.2.0/24 leave link \"l\" in another way already",
        ),
    ] {
        let refused = refusal(&routed(routes));
        assert!(refused.contains(why), "{refused}");
    }
    let alike = [
        "{ to = \"10.0.2.0/24\", dev = \"va\", mark = 1 }",
        "{ to = \"10.0.2.0/24\", dev = \"va\", mark = 2 }",
    ];
    assert_eq!(parse(&routed(&alike)).unwrap().links[0].routes.len(), 2);
}

#[test]
fn a_links_second_table_is_nobody_elses() {
    let text = format!(
        "{}[[links]]\nname = \"m\"\ntun = \"ek-m\"\ntable = 2001\nroutes = [{{ to = \"10.0.3.0/24\", dev = \"va\" }}]\n",
        routed(&["{ to = \"0.0.0.0/0\", dev = \"va\" }"])
    );
    let refused = refusal(&text);
    assert!(
        refused.contains("table = 2001 is taken by link \"l\""),
        "{refused}"
    );
}

proptest! {
    #[test]
    fn a_mark_reads_back_as_it_is_written(value: u32, mask: u32) {
        if let Some(mark) = Mark::new(value & mask, mask) {
            prop_assert_eq!(mark.to_string().parse(), Ok(mark));
        }
    }

    #[test]
    fn no_text_makes_a_mark_panic(text: String) {
        let _: Result<Mark, _> = text.parse();
    }
}
