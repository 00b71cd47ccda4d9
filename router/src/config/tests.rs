use std::time::Duration;

use evenkeel_queue::{Change, Limit, Service};
use proptest::prelude::*;

mod routes;

use super::*;

const ROUTES: &str = r#"routes = [{ to = "10.0.2.0/24", via = "10.0.9.2", dev = "veth1" }]"#;

fn parse(text: &str) -> Result<Config, Failure> {
    Config::parse(text, "r.toml", Path::new("/nowhere"))
}

/// A configuration whose only link begins in line 2 and has `lines` from line 5 on.
fn with(lines: &str) -> String {
    format!("name = \"r\"\n[[links]]\nname = \"l\"\ntun = \"ek-l\"\n{lines}\n{ROUTES}\n")
}

fn link(lines: &str) -> LinkSpec {
    parse(&with(lines)).unwrap().links.remove(0)
}

fn refusal(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn the_configuration_of_the_manual_is_read_as_it_says() {
    let text = r#"
        name = "r1"
        seed = 7
        socket = "here/r1.sock"
        [[links]]
        name = "bottleneck"
        tun = "ek-bn"
        rate_bps = 1964800
        delay_ms = 18.0
        queue_packets = 50
        queue_bytes = 1e6
        discipline = "drop-tail"
        stamps = ["aqt", "acp:gamma=0.2", "flows"]
        loss = 0.01
        jitter_ms = 1
        reorder = 0.25
        blackouts = [{ start_s = 10, length_s = 0.5 }]
        changes = [{ at_s = 20, rate_bps = 1e6, delay_ms = 9 }, { at_s = 30, queue_packets = 20 }]
        mtu = 1400
        offload = false
        timing = "exact"
        routes = [
            { to = "10.0.2.0/24", via = "10.0.9.2", dev = "veth1" },
            { to = "fd00:2::/64", via = "fe80::1", dev = "veth1" },
        ]
        table = 70000
    "#;
    let config = parse(text).unwrap();
    assert_eq!((&config.name[..], config.seed), ("r1", 7));
    assert_eq!(config.socket, Path::new("/nowhere/here/r1.sock"));
    assert_eq!(config.families().collect::<Vec<_>>(), Family::ALL);
    let link = &config.links[0];
    let description = &link.description;
    let config = description.config(None).unwrap();
    assert_eq!(description.delay(), Duration::from_millis(18));
    assert_eq!(
        (config.jitter, config.reorder),
        (Duration::from_millis(1), 0.25)
    );
    assert_eq!(
        config.limit,
        Limit {
            packets: Some(50),
            bytes: Some(1_000_000)
        }
    );
    assert_eq!((link.mtu, link.table, config.loss), (1400, 70_000, 0.01));
    assert_eq!((link.offload, link.timing), (false, Timing::Exact));
    let seconds = Duration::from_secs;
    assert_eq!(
        config.blackouts,
        [(seconds(10), Duration::from_millis(500))]
    );
    assert_eq!(config.changes.len(), 3);
    assert_eq!(description.rate_bps_after(seconds(19)), Some(1_964_800));
    assert_eq!(description.rate_bps_after(seconds(20)), Some(1_000_000));
    let last = Change::Limit(Limit {
        packets: Some(20),
        bytes: Some(1_000_000),
    });
    assert_eq!(config.changes[2], (seconds(30), last));
    assert_eq!(link.routes[1].via, Via::Router("fe80::1".parse().unwrap()));
    let stamps: Vec<_> = description.stamps.iter().map(|s| &s.value).collect();
    assert_eq!(stamps, ["aqt", "acp:gamma=0.2", "flows"]);
    assert_eq!(link.routes[1].place.line, 24);
    assert_eq!(link.place.to_string(), "r.toml:5");
}

#[test]
fn a_wrong_stamp_is_refused_where_it_stands() {
    let refused = |stamps: &str| refusal(&with(stamps));
    assert!(
        refused("stamps = [\n  \"aqt\",\n  \"apc\",\n]")
            .starts_with("r.toml:7: links.0.stamps.1: unknown stamp \"apc\": did you mean acp? use one of aqt, acp")
    );
    assert_eq!(
        refused("stamps = [\"acp\",\n\"acp\"]"),
        "r.toml:6: links.0.stamps.1: the stamp acp is given twice; a port stamps once, give it once"
    );
    assert_eq!(
        refused("stamps = [\"acp:gamma=2\"]"),
        "r.toml:5: links.0.stamps.0: acp: gamma=2 is not allowed; use a number from 0.001 to 1"
    );
    assert!(link("").description.stamps.is_empty());
}

#[test]
fn what_is_left_out_has_the_documented_default() {
    let config = parse(&with("")).unwrap();
    assert_eq!(config.seed, 1);
    assert_eq!(config.socket, Path::new("/run/evenkeel/r.sock"));
    let link = &config.links[0];
    assert_eq!((link.mtu, link.table), (1500, 1001));
    assert_eq!((link.offload, link.timing), (true, Timing::Efficient));
    let default = LinkDescription {
        queue_packets: Some(100),
        ..LinkDescription::default()
    };
    assert_eq!(link.description, default);
    assert_eq!(config.families().collect::<Vec<_>>(), [Family::V4]);
}

#[test]
fn the_impairments_of_scenarios_are_those_of_the_router() {
    let link = link(
        "cellular = { min_bps = \"1M\", max_bps = 2e7, outage_every_s = 20 }\npolice_bps = 1e6\n\
         police_burst_bytes = \"64kB\"\nduplicate = 0.1\nwifi_jitter_ms = 7\naggregate_ms = 5\n\
         changes = [{ at_s = 0, delay_ms = 20 }, { at_s = 15, delay_ms = 40, wifi_jitter_ms = 1 }]\n\
         changes_period_s = 30",
    );
    let config = link.description.config(None).unwrap();
    assert!(matches!(config.service, Service::Cellular(_)));
    assert!(config.policer.is_some() && config.aggregation.is_some());
    let times = (config.wifi_jitter, config.changes_period);
    assert_eq!(
        times,
        (Duration::from_millis(7), Some(Duration::from_secs(30)))
    );
    assert_eq!((config.changes.len(), config.duplicate), (3, 0.1));
    assert_eq!(link.description.rate_bps_after(Duration::ZERO), None);
}

#[test]
fn the_device_takes_what_the_link_loses_only_where_its_mtu_is_given() {
    let sized = link("mtu = 1300");
    assert_eq!((sized.mtu, sized.description.mtu), (1300, None));
    let hole = link("mtu = 1300\ntun_mtu = 1500");
    assert_eq!((hole.mtu, hole.description.mtu), (1500, Some(1300)));
    let later = link("tun_mtu = 1400\nchanges = [{ at_s = 5, mtu = 1300 }]");
    assert_eq!((later.mtu, later.description.mtu), (1400, None));
    assert!(later.description.has_mtu());
    assert_eq!(
        refusal(&with("tun_mtu = 67")),
        "r.toml:5: links.0.tun_mtu = 67 is out of range; use 68 to 65535"
    );
}

#[test]
fn reordering_needs_a_delay_to_jump() {
    let error =
        "r.toml:5: links.0.reorder needs a delay that packets can jump; give the link a delay_ms";
    assert_eq!(refusal(&with("reorder = 0.1\njitter_ms = 5")), error);
    assert_eq!(
        link("reorder = 0.1\ndelay_ms = 5").description.reorder,
        Some(0.1)
    );
    let later = "reorder = 0.1\nchanges = [{ at_s = 1, delay_ms = 5 }]";
    assert_eq!(link(later).description.reorder, Some(0.1));
    assert_eq!(link("reorder = 0").description.reorder, Some(0.0));
    assert_eq!(
        refusal(&with("delay_ms = 5\nreorder = 1.5")),
        "r.toml:6: links.0.reorder = 1.5 is out of range; use 0 to 1"
    );
}

#[test]
fn the_tables_of_links_follow_their_position() {
    let second =
        "[[links]]\nname = \"m\"\ntun = \"ek-m\"\nroutes = [{ to = \"::/0\", dev = \"v\" }]\n";
    let config = parse(&(with("") + second)).unwrap();
    assert_eq!(config.links[1].table, 1002);
    let error = refusal(&(with("table = 1002") + second));
    assert!(
        error.starts_with("r.toml:8: links.1.name: table = 1002 is taken by link \"l\""),
        "{error}"
    );
}

#[test]
fn a_bounded_queue_in_bytes_alone_has_no_bound_in_packets() {
    let config = link("queue_bytes = 9000").description.config(None);
    assert_eq!(config.unwrap().limit, Limit::bytes(9000));
}

#[test]
fn every_mistake_is_told_with_its_line_and_a_remedy() {
    let cases = [
        ("speed = 3", 5, "unknown key \"speed\" in [[links]]"),
        (
            "rate_bps = 0",
            5,
            "rate_bps = 0 is out of range; use 1 to 1000000000000",
        ),
        ("rate_bps = 1.5", 5, "it must be a whole number"),
        ("rate_bps = \"fast\"", 5, "no bitrate"),
        (
            "\n\nloss = 1.5",
            7,
            "loss = 1.5 is out of range; use 0 to 1",
        ),
        ("loss = nan", 5, "out of range"),
        ("delay_ms = -1", 5, "delay_ms = -1 is out of range"),
        ("delay_ms = 1e300", 5, "out of range"),
        ("queue_packets = 0", 5, "queue_packets = 0 is out of range"),
        (
            "discipline = \"rde\"",
            5,
            "unknown discipline \"rde\": did you mean red? use one of drop-tail, red",
        ),
        (
            "discipline = \"red:min=60\"",
            5,
            "red: min=60 is not below max=50; make min the smaller",
        ),
        (
            "rate_bps = 1\ntrace = \"x\"",
            6,
            "a rate_bps or a trace, not both",
        ),
        (
            "trace = \"none.trace\"",
            5,
            "relative to the configuration's directory",
        ),
        ("trace = \"\"", 5, "name a file"),
        ("mtu = 67", 5, "mtu = 67 is out of range; use 68 to 65535"),
        (
            "rate_bps = 1e30",
            5,
            "is out of range; use 1 to 1000000000000",
        ),
        ("offload = 1", 5, "it must be true or false"),
        (
            "timing = \"fast\"",
            5,
            "use one of \"efficient\", \"exact\"",
        ),
        ("table = 254", 5, "one of the kernel's own"),
        ("table = 0", 5, "table = 0 is out of range"),
        (
            "blackouts = [{ start_s = 1, length_s = 0 }]",
            5,
            "length_s must be above 0",
        ),
        (
            "blackouts = [{ start_s = 1, length_s = 2 }, { start_s = 2, length_s = 1 }]",
            5,
            "overlap",
        ),
        (
            "blackouts = [{ start_s = 1 }]",
            5,
            "blackouts has no length_s; add one",
        ),
        ("changes = [{ at_s = 1 }]", 5, "changes nothing"),
        (
            "changes = [{ at_s = 1, rate_bps = 1 }]",
            5,
            "begins without one",
        ),
        (
            "changes = [{ at_s = 2, loss = 0 }, { at_s = 1, loss = 0 }]",
            5,
            "out of order",
        ),
        (
            "name = \"twice\"",
            5,
            "duplicate key, in \"name = \\\"twice\\\"\"",
        ),
        ("= 3", 5, ""),
    ];
    for (lines, line, said) in cases {
        let error = refusal(&with(lines));
        assert!(
            error.starts_with(&format!("r.toml:{line}: ")),
            "{lines}: {error}"
        );
        assert!(error.contains(said), "{lines}: {error}");
        assert_eq!(error.lines().count(), 1, "{lines}: {error}");
    }
}

#[test]
fn all_mistakes_of_a_file_are_told_in_its_order_and_with_the_paths_to_them() {
    let text = r#"
name = "r"
sead = 1
[[links]]
name = "one"
tun = "a device"
rate_bps = "fast"
delay_ms = true
discipline = "rde"
stamps = [
    "aqt",
    "acp:gamma=2",
    "apc",
]
trace = "none.trace"
changes = [{ at_s = 1, loss = 2 }]
routes = [
    { to = "10.0.2.1/24", dev = "all" },
    { via = "fd00::1", dev = "v" },
    { to = "10.0.3.0/24", via = "gateway", dev = "v" },
]
[[links]]
speed = 3
name = "one"
tun = "ek-two"
reorder = 0.1
police_bps = 1e6
routes = []
[[links]]
tun = "ek-two"
mtu = 1
cellular = { min_bps = 0, max_bps = 1 }
"#;
    let expected = [
        "3: sead: unknown key \"sead\" in the configuration",
        "6: links.0.tun = \"a device\" is no name",
        "7: links.0.rate_bps: 'fast' is no bitrate",
        "8: links.0.delay_ms is true or false; it must be a number",
        "9: links.0.discipline: unknown discipline \"rde\": did you mean red?",
        "12: links.0.stamps.1: acp: gamma=2 is not allowed",
        "13: links.0.stamps.2: unknown stamp \"apc\": did you mean acp?",
        "15: links.0.trace ",
        "16: links.0.changes.0: loss = 2 is out of range",
        "18: links.0.routes.0: to: ",
        "18: links.0.routes.0: dev = \"all\" means all interfaces",
        "19: links.0.routes.1: routes has no to",
        "20: links.0.routes.2: via: not an IP address",
        "23: links.1.speed: unknown key \"speed\" in [[links]]",
        "24: links.1.name = \"one\" is taken by link \"one\"",
        "26: links.1.reorder needs a delay",
        "27: links.1.police_bps needs a bucket",
        "28: links.1.routes is empty",
        "29: links.2: [[links]] has no name; add one",
        "29: links.2: [[links]] has no routes; add one",
        "30: links.2.tun = \"ek-two\" is taken by link \"one\"",
        "31: links.2.mtu = 1 is out of range",
        "32: links.2.cellular: min_bps = 0 is out of range",
    ];
    let refused = refusal(text);
    let lines: Vec<_> = refused.lines().collect();
    for (line, expected) in lines.iter().zip(expected) {
        let expected = format!("r.toml:{expected}");
        assert!(line.starts_with(&expected), "{line:?} for {expected:?}");
    }
    assert_eq!(lines.len(), expected.len(), "{refused}");
}

#[test]
fn a_file_that_is_not_toml_gets_a_line_for_each_place_where_it_is_not() {
    let refused = refusal("name = \"r\nseed = = 3\n[[links]\n[[links]]\nname = \"l\"\n");
    let places: Vec<_> = refused
        .lines()
        .map(|line| line.split(": ").collect::<Vec<_>>()[..2].join(": "))
        .collect();
    let not_toml = |line: u8| format!("r.toml:{line}: not TOML");
    assert_eq!(places, [1, 2, 3].map(not_toml), "{refused}");
}

#[test]
fn what_is_said_of_the_whole_file_names_no_value() {
    assert_eq!(
        refusal("socket = \"x\""),
        "r.toml:1: the configuration has no name; add one\n\
         r.toml:1: the configuration has no links; add a table [[links]] with name, tun and routes"
    );
}

#[test]
fn of_very_many_mistakes_the_first_fifty_are_told() {
    let keys: Vec<_> = (0..1000).map(|key| format!("key-{key} = 1")).collect();
    let refused = refusal(&keys.join("\n"));
    assert_eq!(refused.lines().count(), 51);
    assert!(refused.contains("r.toml:50: key-49: unknown key"));
    assert!(
        refused.ends_with("there may be more mistakes; mend these first"),
        "{refused}"
    );
}

#[test]
fn names_devices_and_destinations_are_checked() {
    let head = "name = \"r\"\n[[links]]\nname = \"l\"\n";
    let tun = |name: &str| refusal(&format!("{head}tun = {name:?}\n{ROUTES}"));
    for name in ["", "sixteen-bytes-xx", "a/b", "a b", "-a", "\u{e9}", ".."] {
        assert!(tun(name).contains("is no name; use up to 15 of"), "{name}");
    }
    assert!(tun("all").contains("means all interfaces"));
    let route = |route: &str| refusal(&format!("{head}tun = \"ek-l\"\nroutes = [{route}]"));
    assert!(route("").starts_with("r.toml:5: links.0.routes is empty"));
    assert!(route("{ to = \"10.0.2.1/24\", dev = \"v\" }").contains("did you mean 10.0.2.0/24?"));
    assert!(
        route("{ to = \"::/0\", via = \"10.0.0.1\", dev = \"v\" }")
            .contains("of another IP version")
    );
    assert!(
        route("{ to = \"::/0\", via = \"gateway\", dev = \"v\" }").contains("not an IP address")
    );
    assert!(
        route("{ to = \"::/0\", via = \"ff02::1\", dev = \"v\" }")
            .contains("no host has this address")
    );
    assert!(route("{ to = \"::/0\", dev = \"ek-l\" }").contains("is the tun of a link"));
    let twice = "{ to = \"10.0.0.0/8\", dev = \"v\" }, { to = \"10.0.0.0/8\", dev = \"w\" }";
    assert!(route(twice).contains("10.0.0.0/8 is routed over link \"l\" already"));
    let small =
        format!("{head}tun = \"ek-l\"\nmtu = 1279\nroutes = [{{ to = \"::/0\", dev = \"v\" }}]");
    assert!(refusal(&small).starts_with("r.toml:5: links.0.mtu = 1279 is below 1280"));
    assert!(refusal("name = \"r\"\nlinks = []").contains("links is empty"));
    assert!(refusal("name = \"../r\"\n[[links]]\n").starts_with("r.toml:"));
}

#[test]
fn a_trace_is_read_from_beside_the_configuration() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("r.toml");
    fs::write(&path, with("trace = \"t.trace\"")).unwrap();
    fs::write(directory.path().join("t.trace"), "3\n1\n").unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(
        error.contains("t.trace: line 2: 1 ms comes after 3 ms"),
        "{error}"
    );
    fs::write(directory.path().join("t.trace"), "3\n10\n").unwrap();
    let config = Config::load(&path).unwrap();
    assert!(config.links[0].trace.is_some());
    assert_eq!(config.links[0].description.rate_bps, None);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_value_makes_the_reader_panic(
        key in prop::sample::select(vec![
            "rate_bps", "delay_ms", "queue_packets", "queue_bytes", "loss", "jitter_ms", "reorder", "mtu", "table",
            "police_bps", "police_burst_bytes", "duplicate", "wifi_jitter_ms", "aggregate_ms", "aggregate_packets",
            "changes_period_s", "cellular", "gilbert_elliott", "mark", "corrupt", "tun_mtu", "overhead_bytes",
        ]),
        value in prop_oneof![
            any::<i64>().prop_map(|value| value.to_string()),
            any::<f64>().prop_map(|value| format!("{value:e}")),
            Just("[]".to_owned()), Just("inf".to_owned()), Just("{}".to_owned()),
        ],
    ) {
        if let Err(error) = parse(&with(&format!("{key} = {value}"))) {
            let error = error.to_string();
            prop_assert!(error.starts_with("r.toml:5: "), "{}", error);
        }
    }
}

#[test]
fn metrics_are_at_a_loopback_port_or_a_socket_and_nowhere_unless_asked_for() {
    let metrics = |value: &str| {
        let lines = format!("metrics = {value:?}\n{}", with(""));
        parse(&lines).map(|config| config.metrics.unwrap())
    };
    assert_eq!(parse(&with("")).unwrap().metrics, None);
    let port = MetricsAddress::Tcp("127.0.0.1:9310".parse().unwrap());
    assert_eq!(metrics("127.0.0.1:9310").unwrap(), port);
    let port = MetricsAddress::Tcp("[::1]:9310".parse().unwrap());
    assert_eq!(metrics("[::1]:9310").unwrap(), port);
    let socket = MetricsAddress::Unix("/nowhere/./r.metrics".into());
    assert_eq!(metrics("./r.metrics").unwrap(), socket);
    for (wrong, why) in [
        ("0.0.0.0:9310", "no port of a loopback address"),
        ("[::]:9310", "no port of a loopback address"),
        ("10.0.0.1:9310", "no port of a loopback address"),
        ("127.0.0.1:0", "no port of a loopback address"),
        ("9310", "neither ADDRESS:PORT nor a path"),
        ("localhost:9310", "neither ADDRESS:PORT nor a path"),
        ("", "neither ADDRESS:PORT nor a path"),
        ("/run/evenkeel/r.sock", "is the status socket"),
    ] {
        let refusal = metrics(wrong).unwrap_err().to_string();
        assert!(refusal.starts_with("r.toml:1: "), "{refusal}");
        assert!(refusal.contains(why), "{refusal}");
    }
}

#[test]
fn paths_in_a_file_are_absolute_however_the_file_is_named() {
    let working = std::env::current_dir().unwrap();
    let directory = tempfile::tempdir_in(&working).unwrap();
    let path = directory.path().join("r.toml");
    let link = "[[links]]\nname = \"l\"\ntun = \"ek-l\"\nroutes = [{ to = \"192.0.2.2/32\", dev = \"x\" }]";
    let text = format!("name = \"r\"\nsocket = \"./r.sock\"\nmetrics = \"./r.metrics\"\n{link}\n");
    std::fs::write(&path, text).unwrap();
    let [relative, absolute] = [path.strip_prefix(&working).unwrap(), &path].map(|path| {
        let config = Config::load(path).unwrap();
        (config.socket, config.metrics)
    });
    assert_eq!(relative, absolute);
    assert!(relative.0.is_absolute());
}
