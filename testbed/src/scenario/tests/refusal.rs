//! How files and overrides are refused.

use super::*;
use crate::backend::sim;

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_known_ones() {
    let text = DUMBBELL.replace("queue_packets", "qeue_packets");
    assert_eq!(
        refused(&text, &[]),
        "d.toml:9: unknown key \"qeue_packets\" in [[links]]; use one of name, from, to, emulator, reverse, \
         rate_bps, overhead_bytes, trace, cellular, delay_ms, queue_packets, queue_bytes, discipline, stamps, mtu, police_bps, police_burst_bytes, loss, \
         gilbert_elliott, ecn, mark, corrupt, duplicate, jitter_ms, wifi_jitter_ms, reorder, aggregate_ms, aggregate_packets, blackouts, changes, changes_period_s"
    );
    let text = format!("frobnicate = 1\n{DUMBBELL}");
    assert!(
        refused(&text, &[])
            .starts_with("d.toml:1: unknown key \"frobnicate\" in the scenario; use one of name,")
    );
}

#[test]
fn an_override_is_named_instead_of_a_line() {
    assert_eq!(
        refused(DUMBBELL, &["flows.0.cuont=3"])
            .split("; use")
            .next(),
        Some("--set flows.0.cuont=3: unknown key \"cuont\" in [[flows]]")
    );
    assert_eq!(
        refused(DUMBBELL, &["links.1.loss=0"]),
        "--set links.1.loss=0: there is no links.1: links has one element, links.0"
    );
    assert_eq!(
        refused(DUMBBELL, &["links.0.loss=2"]),
        "--set links.0.loss=2: loss = 2 is out of range; use 0 to 1"
    );
    assert_eq!(
        refused(DUMBBELL, &["links.0.reorder=0.1", "links.0.delay_ms=0"]),
        "--set links.0.reorder=0.1: reorder needs a delay that packets can jump; give the link a delay_ms"
    );
    assert!(refused(DUMBBELL, &["foo.bar=1"]).starts_with("--set foo.bar=1: unknown key \"foo\""));
    assert!(refused(DUMBBELL, &["=1"]).starts_with("--set =1: unknown key \"\""));
    assert!(refused(DUMBBELL, &["seed"]).contains("write PATH.TO.KEY=VALUE"));
}

#[test]
fn what_no_application_takes_is_refused_before_the_run() {
    let text = format!("{DUMBBELL}streams = 200\n");
    assert_eq!(
        refused(&text, &[]),
        "d.toml:16: streams = 200 is out of range; use 1 to 128"
    );
    assert!(parse(DUMBBELL, &["flows.0.streams=128"]).is_ok());
    let day = refused(DUMBBELL, &["duration_s=86401", "sampling.interval_ms=500"]);
    assert_eq!(
        day,
        "d.toml:12: no application carries out bulk: the time to send is longer than a day; \
         lower duration_s, or give the flow bytes"
    );
    let whole = [
        "duration_s=86401",
        "sampling.interval_ms=500",
        "flows.0.bytes=1000",
    ];
    assert!(parse(DUMBBELL, &whole).is_ok());
    assert!(parse(DUMBBELL, &["duration_s=86400", "sampling.interval_ms=500"]).is_ok());
}

#[test]
fn wrong_types_are_refused_at_their_line() {
    let message = |from: &str, to: &str| refused(&DUMBBELL.replace(from, to), &[]);
    assert_eq!(
        message("delay_ms = 18", "delay_ms = \"soon\""),
        "d.toml:8: delay_ms: 'soon' is no number of milliseconds; write for example 10, 0.5 or 1s"
    );
    assert_eq!(
        message("queue_packets = 50", "queue_packets = \"50\""),
        "d.toml:9: queue_packets is a string; it must be a whole number"
    );
    assert_eq!(
        message("1_964_800", "\"2MB\""),
        "d.toml:7: rate_bps: '2MB' is no bitrate; write for example 3M or 500k"
    );
    assert_eq!(
        message("\"vegas\"", "3"),
        "d.toml:15: controller is an integer; it must be a string in quotes"
    );
    assert_eq!(
        message("1_964_800", "0.5"),
        "d.toml:7: rate_bps is a number with a fraction; it must be a whole number"
    );
    assert_eq!(
        message("1_964_800", "1979-05-27"),
        "d.toml:7: rate_bps is a date; it must be a number"
    );
    assert_eq!(
        refused("name = \"x\"\nduration_s = 1\nlinks = 3\n", &[]),
        "d.toml:3: links is an integer; it must be an array"
    );
    assert_eq!(
        refused("name = \"x\"\nduration_s = 1\nlinks = [3]\n", &[]),
        "d.toml:3: [[links]] is an integer; it must be a table"
    );
}

#[test]
fn numbers_out_of_range_are_refused_at_their_line() {
    let message = |from: &str, to: &str| refused(&DUMBBELL.replace(from, to), &[]);
    for (rate, shown) in [("-1", "-1"), ("0", "0"), ("9999999999999", "9999999999999")] {
        assert_eq!(
            message("1_964_800", rate),
            format!("d.toml:7: rate_bps = {shown} is out of range; use 1 to 1000000000000")
        );
    }
    for delay in ["nan", "inf", "-inf", "-1"] {
        let shown = delay.replace("nan", "NaN");
        assert_eq!(
            message("delay_ms = 18", &format!("delay_ms = {delay}")),
            format!("d.toml:8: delay_ms = {shown} is out of range; use 0 to 600000")
        );
    }
    assert!(
        message("1_964_800", "99999999999999999999999999999999999999999")
            .contains("too large a number")
    );
    assert_eq!(
        message("duration_s = 100", "duration_s = 0"),
        "d.toml:2: duration_s must be above 0"
    );
    assert!(
        message("warmup_s = 20", "mtu = 1227").starts_with("d.toml:3: mtu = 1227 is out of range")
    );
}

#[test]
fn missing_keys_are_refused_at_their_table() {
    let without = |line: &str| refused(&DUMBBELL.replace(line, ""), &[]);
    assert_eq!(
        without("controller = \"vegas\"\n"),
        "d.toml:12: [[flows]] has no controller; add one"
    );
    assert_eq!(
        without("app = \"bulk\"\n"),
        "d.toml:12: [[flows]] has no app; add one"
    );
    assert_eq!(
        without("name = \"bottleneck\"\n"),
        "d.toml:5: [[links]] has no name; add one"
    );
    assert_eq!(
        without("name = \"d\"\n"),
        "d.toml:1: the scenario has no name; add one"
    );
    assert_eq!(
        without("duration_s = 100\n"),
        "d.toml:1: the scenario has no duration_s; add one"
    );
}

#[test]
fn times_that_contradict_each_other_are_refused() {
    assert_eq!(
        refused(&DUMBBELL.replace("warmup_s = 20", "warmup_s = 100"), &[]),
        "d.toml:3: warmup_s = 100 leaves nothing of a run of 100 s; make it less than duration_s"
    );
    assert_refused(DUMBBELL, "stop_s = 0", "stop_s must be above 0");
    assert_eq!(
        refused(DUMBBELL, &["flows.0.start_s=50", "flows.0.stop_s=40"]),
        "d.toml:12: bulk stops at 40 s, before its start at 50 s; raise stop_s or lower start_s"
    );
    assert_eq!(
        refused(DUMBBELL, &["flows.0.count=3", "flows.0.stagger_s=50"]),
        "d.toml:12: bulk-2 starts at 100 s but the run ends at 100 s; lower start_s, stagger_s or count, or raise duration_s"
    );
    assert_eq!(
        refused(DUMBBELL, &["sampling.interval_ms=30"]),
        "--set sampling.interval_ms=30: interval_ms = 30 does not divide 500; use 1, 2, 4, 5, 10, 20, 25, 50, 100, 125, 250 or 500"
    );
    for value in ["-1", "1000001"] {
        let message = refused(DUMBBELL, &[&format!("flows.0.path_headers={value}")]);
        assert!(
            message.contains("out of range; use 0 to 1000000"),
            "{message}"
        );
    }
    let message = refused(DUMBBELL, &["flows.0.pacing=yes"]);
    assert!(
        message.ends_with(r#"is unknown; use one of "controller", "quinn", "none""#),
        "{message}"
    );
    let message = refused(DUMBBELL, &["sampling.path_samples=1"]);
    assert!(message.contains("must be true or false"), "{message}");
    assert_eq!(
        refused(DUMBBELL, &["mtu=1259", "flows.0.path_headers=1"]),
        "d.toml:12: path headers make packets of 1260 bytes, and the mtu is 1259; raise mtu, or set path_headers = 0"
    );
    expanded(DUMBBELL, &["mtu=1260", "flows.0.path_headers=1"]);
    let blackouts = "links.0.blackouts=[{start_s=5, length_s=3}, {start_s=7, length_s=1}]";
    assert!(refused(DUMBBELL, &[blackouts]).contains("blackouts overlap or are out of order"));
    let changes = "links.0.changes=[{at_s=5, loss=0}, {at_s=4, loss=0}]";
    assert!(refused(DUMBBELL, &[changes]).contains("changes are out of order"));
    assert!(refused(DUMBBELL, &["links.0.changes=[{at_s=5}]"]).contains("changes nothing"));
}

#[test]
fn a_kernels_own_tcp_refuses_what_only_quic_has_and_virtual_time_refuses_it() {
    let tcp = DUMBBELL.replace("\"bulk\"\ncontroller", "\"tcp\"\ncontroller");
    let scenario = expanded(&tcp, &["flows.0.bytes=1000"]);
    assert_eq!(scenario.flows[0].app, App::Tcp { bytes: Some(1000) });
    assert!(scenario.needs_kernel());
    let again = expanded(&scenario.to_toml(), &[]);
    assert_eq!(again.flows, scenario.flows);
    let keel = expanded(&tcp, &["flows.0.controller=keel"]);
    assert_eq!(keel.flows[0].path_headers, 0, "the name is the kernel's");
    for set in [
        "streams=2",
        "verify=true",
        "ack_every=10",
        "max_ack_delay_ms=5",
        "mtu_discovery=true",
        "pacing=none",
        "ecn=off",
        "path_headers=1",
        "idle_timeout_s=5",
        "probe_interval_s=1",
    ] {
        let (key, _) = set.split_once('=').expect("a key and a value");
        assert_eq!(
            refused(&tcp, &[&format!("flows.0.{set}")]),
            format!(
                "d.toml:12: {key} means nothing to app = \"tcp\", a kernel's own TCP; remove it"
            )
        );
    }
    assert!(refused(&tcp, &["flows.0.file=data"]).contains("file is for app = \"bulk\" alone"));
    assert_eq!(
        refused(&tcp, &["flows.0.controller=cubic:beta=0.5"]),
        "--set flows.0.controller=cubic:beta=0.5: \"cubic:beta=0.5\" is no name of a kernel's \
         controller, which takes no parameters; use one such as \"cubic\", \"reno\" or \"bbr\""
    );
    let error = sim::check(&scenario, &sim::Options::default()).expect_err("it has no kernel");
    assert_eq!(
        error.to_string(),
        "flow bulk: app = \"tcp\" is the kernel's own TCP, which virtual time does not have; use --on netns"
    );
    assert!(error.is_usage());
}

#[test]
fn an_unknown_controller_is_refused_with_its_line_or_the_override() {
    let refused = |text: &str, overrides: &[&str]| {
        let scenario = parse(text, overrides).expect("who builds the controller refuses it");
        let error = sim::check(&scenario, &sim::Options::default());
        error.expect_err("nobody has it").to_string()
    };
    let line = DUMBBELL
        .lines()
        .position(|line| line.starts_with("controller"));
    let place = format!("d.toml:{}", line.expect("a flow has one") + 1);
    let text = DUMBBELL.replace("controller = \"", "controller = \"x");
    let error = refused(&text, &[]);
    let expected = format!("{place}: flow bulk: unknown controller \"x");
    assert!(error.starts_with(&expected), "{error}");
    for (spec, what) in [
        ("nope", "unknown controller \"nope\""),
        ("vegas:gama=1", "vegas has no parameter \"gama\""),
    ] {
        let set = format!("flows.0.controller={spec}");
        let error = refused(DUMBBELL, &[&set]);
        let expected = format!("--set {set}: flow bulk: {what}");
        assert!(error.starts_with(&expected), "{error}");
    }
}

#[test]
fn names_are_unique_and_fit_for_file_names() {
    let second = "[[flows]]\nname = \"bulk\"\napp = \"bulk\"\ncontroller = \"reno\"\n";
    let text = format!("{DUMBBELL}{second}");
    assert_eq!(
        refused(&text, &[]),
        "d.toml:17: there are two flows or sources \"bulk\"; rename one"
    );
    let text = text.replace(
        "name = \"bulk\"\napp = \"bulk\"\ncontroller = \"reno\"",
        "name = \"bulk-1\"\napp = \"bulk\"\ncontroller = \"reno\"",
    );
    assert_eq!(
        refused(&text, &["flows.0.count=2"]),
        "d.toml:17: there are two flows or sources \"bulk-1\"; rename one"
    );
    let graph = GRAPH.replace("bc2", "ab.reverse");
    assert_eq!(
        refused(&graph, &[]),
        "d.toml:12: there are two links \"ab.reverse\"; rename one"
    );
    for name in ["../up", ".hidden", "", "a b", "a\\u0000", "ü"] {
        let message = refused(&DUMBBELL.replace("\"d\"", &format!("\"{name}\"")), &[]);
        assert!(message.starts_with("d.toml:1: name = "), "{message}");
        assert!(message.contains("is no name; use up to 64 of"), "{message}");
    }
}

#[test]
fn networks_that_do_not_hang_together_are_refused() {
    let message = |from: &str, to: &str| refused(&GRAPH.replace(from, to), &[]);
    assert_eq!(
        message(
            "to = \"c\"\n[[links]]\nname = \"far\"",
            "to = \"b\"\n[[links]]\nname = \"far\""
        ),
        "d.toml:12: \"bc2\" leads from a node to itself; change from or to"
    );
    assert_eq!(
        refused(GRAPH, &["flows.0.to=z"]),
        "--set flows.0.to=z: there is no node \"z\"; there are a, b, c, x, y"
    );
    assert_eq!(
        refused(GRAPH, &["flows.0.to=y"]),
        "d.toml:19: f has no way from a to y; add a link"
    );
    assert_eq!(
        refused(GRAPH, &["flows.0.to=a"]),
        "d.toml:19: f goes from a to itself; change from or to"
    );
    assert_eq!(
        message("from = \"a\"\nto = \"c\"\n", ""),
        "d.toml:19: f needs from and to, the names of its hosts; add them"
    );
    let hosts = format!("{GRAPH}[[hosts]]\nname = \"a\"\n");
    assert_eq!(
        refused(&hosts, &[]),
        "d.toml:6: \"b\" is not among the [[hosts]]; add it there"
    );
    assert!(refused(GRAPH, &["access.delay_ms=1"]).contains("access needs topology"));
    assert!(refused(DUMBBELL, &["links.0.from=left"]).contains("from is set by the topology"));
    let by_topology = "hosts are made by the topology; remove them, or remove topology";
    let listed = format!("{DUMBBELL}[[hosts]]\nname = \"a\"\n");
    assert!(refused(&listed, &[]).contains(by_topology));
    assert_eq!(
        refused(DUMBBELL, &["hosts=[]"]),
        format!("--set hosts=[]: {by_topology}")
    );
    assert!(refused(DUMBBELL, &["flows.0.to=bulk.sender"]).contains("there is no node"));
    let two = "[[links]]\nname = \"second\"";
    assert_eq!(
        refused(
            &DUMBBELL.replace("[access]", &format!("{two}\n[access]")),
            &[]
        ),
        "d.toml:11: a dumbbell has one link; remove the others, or use topology = \"chain\""
    );
}

#[test]
fn a_scenario_without_links_or_traffic_is_refused() {
    let head = "name = \"x\"\nduration_s = 1\n";
    assert_eq!(
        refused(head, &[]),
        "d.toml:1: there is no link; add [[links]]"
    );
    let links = "[[links]]\nname = \"l\"\nfrom = \"a\"\nto = \"b\"\n";
    assert_eq!(
        refused(&format!("{head}{links}"), &[]),
        "d.toml:1: nothing is sent; add [[flows]] or [[cross]]"
    );
}

#[test]
fn keys_that_nothing_would_read_are_refused() {
    assert_refused(
        DUMBBELL,
        "onoff = {on_s = 1, off_s = 1}",
        "onoff is for app = \"onoff\" alone; remove it",
    );
    let onoff = [
        "flows.0.app=onoff",
        "flows.0.onoff={on_s=1, off_s=1, begins='of'}",
    ];
    assert!(
        refused(DUMBBELL, &onoff).contains(r#"begins = "of" is unknown; use one of "on", "off""#)
    );
    assert!(refused(DUMBBELL, &["links.0.trace=x"]).contains("a rate_bps or a trace, not both"));
    assert!(
        refused(DUMBBELL, &["flows.0.bytes=1", "flows.0.file=x"])
            .contains("its bytes or a file, not both")
    );
    let cross = format!("{DUMBBELL}[[cross]]\nname = \"u\"\nkind = \"cbr\"\nrate_bps = 1000\n");
    assert!(refused(&cross, &["cross.0.on_s=1"]).contains("on_s is for kind = "));
    assert!(refused(&cross, &["cross.0.shape=2"]).contains("shape is for kind = "));
    let small = ["cross.0.acp_rtt_ms=50", "cross.0.packet_bytes=59"];
    assert!(refused(&cross, &small).contains("raise packet_bytes to 60"));
    assert!(refused(&cross, &["cross.0.load=0.5"]).contains("either rate_bps or load"));
    assert!(
        refused(&cross, &["cross.0.kind=pareto", "cross.0.on_s=1"]).contains("two of rate_bps")
    );
}

#[test]
fn loads_that_cannot_be_are_refused() {
    let cross = format!(
        "{DUMBBELL}[[cross]]\nname = \"u\"\nkind = \"exponential\"\nrate_bps = 1_964_800\nload = 0.5\non_s = 1\n"
    );
    expanded(&cross, &[]);
    for load in ["1", "1.5", "1e-300"] {
        let message = refused(&cross, &[&format!("cross.0.load={load}")]);
        assert!(message.starts_with("d.toml:16: a load of"), "{message}");
    }
    let unlimited = cross.replace("rate_bps = 1_964_800\ndelay", "delay");
    assert!(
        refused(&unlimited, &[]).starts_with("d.toml:19: load is a share of the first link's rate")
    );
    assert!(refused(&cross, &["cross.0.packet_bytes=1501"]).contains("do not fit the mtu of 1500"));
}

#[test]
fn sizes_that_no_machine_holds_are_refused() {
    assert!(
        refused(DUMBBELL, &["flows.0.count=1000000000"]).contains("out of range; use 1 to 2000")
    );
    let two = format!(
        "{DUMBBELL}[[flows]]\nname = \"b\"\napp = \"bulk\"\ncontroller = \"reno\"\ncount = 2000\n"
    );
    assert_eq!(
        refused(&two, &[]),
        "d.toml:12: 2001 flows and cross-traffic sources are too many; lower count until they are 2000"
    );
    assert!(
        refused(DUMBBELL, &["duration_s=1e5", "sampling.interval_ms=1"])
            .contains("sampling intervals are too many")
    );
    assert!(
        refused(DUMBBELL, &["duration_s=90000", "flows.0.count=100"])
            .contains("too many for memory")
    );
    assert!(refused(DUMBBELL, &["duration_s=1e300"]).contains("out of range"));
}

#[test]
fn files_that_are_not_there_are_refused_at_their_line() {
    let text = DUMBBELL.replace("rate_bps = 1_964_800", "trace = \"no.trace\"");
    assert!(refused(&text, &[]).starts_with("d.toml:7: cannot read the trace no.trace: "));
    assert_refused(
        DUMBBELL,
        "file = \"none\"",
        "there is no file none; paths are relative to the scenario's directory",
    );
    let error = Scenario::load(Path::new("/no/such.toml"), &[]).unwrap_err();
    assert!(error.is_usage());
    assert!(
        error
            .to_string()
            .starts_with("cannot read the scenario /no/such.toml: ")
    );
}

#[cfg(unix)]
#[test]
fn a_device_that_never_ends_is_refused() {
    let text = DUMBBELL.replace("rate_bps = 1_964_800", "trace = \"/dev/zero\"");
    assert!(refused(&text, &[]).contains("not a regular file"));
    let endless = Scenario::load(Path::new("/dev/zero"), &[]).unwrap_err();
    assert!(
        endless.to_string().contains("it is longer than"),
        "{endless}"
    );
}

#[test]
fn what_is_not_toml_is_refused_at_its_line() {
    assert!(refused("name = \"a\"\nlinks = [[\n", &[]).starts_with("d.toml:"));
    assert!(refused("a = 1\na = 2\n", &[]).starts_with("d.toml:2: not TOML: duplicate key"));
    // Deep nesting must not exhaust the stack.
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(refused(&deep, &[]).starts_with("d.toml:1: not TOML: "));
}

#[test]
fn ip_has_two_versions_and_the_sixth_needs_room() {
    let of_flow = "flows.0.ip_version=5";
    assert_eq!(
        refused(DUMBBELL, &[of_flow]),
        "--set flows.0.ip_version=5: ip_version = 5 is no version of IP in use; write 4 or 6"
    );
    let small = refused(DUMBBELL, &["ip_version=6", "mtu=1279"]);
    assert!(
        small.contains(
            "IPv6 needs an mtu of 1280, and it is 1279; raise mtu, or set ip_version = 4"
        )
    );
    let text = format!(
        "{DUMBBELL}[[cross]]\nname = \"u\"\nkind = \"cbr\"\nrate_bps = 1e6\npacket_bytes = 40\nip_version = 6\n"
    );
    assert!(
        refused(&text, &[]).contains("no room for the headers of IPv6; raise packet_bytes to 48")
    );
}

#[test]
fn what_would_happen_after_the_end_is_refused() {
    let sets = [
        (
            "links.0.blackouts=[{start_s=5, length_s=1}, {start_s=60, length_s=1}]",
            "blackouts",
        ),
        ("links.0.changes=[{at_s=60, loss=0.1}]", "changes"),
        ("links.0.reverse.changes=[{at_s=60, loss=0.1}]", "changes"),
        ("flows.0.pauses=[{start_s=60, length_s=1}]", "pauses"),
        ("flows.0.rebinds_s=[5, 60]", "rebinds_s"),
    ];
    for (set, key) in sets {
        assert!(parse(DUMBBELL, &["duration_s=61", set]).is_ok(), "{set}");
        assert_eq!(
            refused(DUMBBELL, &["duration_s=60", set]),
            format!(
                "--set {set}: {key} has one at 60 s, but the run ends at 60 s; \
                 remove it, or raise duration_s"
            )
        );
    }
}
