use super::*;
use crate::scenario::Scenario;

fn first_link(keys: &str) -> LinkSpec {
    let text = format!(
        "name = 'line'\nduration_s = 2\n[[links]]\nname = 'ab'\nfrom = 'a'\nto = 'b'\n{keys}\n\
         [[flows]]\nname = 'f'\napp = 'bulk'\ncontroller = 'reno'\nfrom = 'a'\nto = 'b'\n"
    );
    let scenario = Scenario::parse(&text, "test.toml", &[]);
    scenario.unwrap_or_else(|error| panic!("{error}")).links[0].clone()
}

#[test]
fn delay_and_loss_come_before_rate_and_queue_and_ethernet_is_not_counted() {
    let link = first_link("rate_bps = 2000000\ndelay_ms = 18.5\nqueue_packets = 50\nloss = 0.01");
    assert_eq!(
        qdiscs(&link),
        [
            "root handle 1: netem limit 10000000 delay 18500us loss random 1%",
            "parent 1:1 handle 2: netem rate 2000000bit -14 limit 51"
        ]
    );
}

#[test]
fn jitter_is_spread_above_the_delay_and_keeps_the_order() {
    let link = first_link("delay_ms = 10\njitter_ms = 4");
    assert_eq!(
        qdiscs(&link),
        ["root handle 1: netem limit 10000000 delay 12000us 2000us rate 32gbit"]
    );
}

#[test]
fn packets_that_jump_the_delay_are_netems_reordering() {
    let link = first_link("delay_ms = 10\nreorder = 0.25\nloss = 0.01");
    assert_eq!(
        qdiscs(&link),
        ["root handle 1: netem limit 10000000 delay 10000us reorder 25% loss random 1%"]
    );
}

#[test]
fn loss_in_bursts_is_netems_gilbert_elliott_model() {
    let link = first_link("delay_ms = 10\ngilbert_elliott = { p = 0.01, r = 0.25 }");
    assert_eq!(unsupported_key(&link), None);
    assert_eq!(
        qdiscs(&link),
        ["root handle 1: netem limit 10000000 delay 10000us loss gemodel 1% 25% 100% 0%"]
    );
    let link = first_link(
        "rate_bps = 1e6\ngilbert_elliott = { p = 0.01, r = 0.25, bad = 0.5, good = 0.001 }",
    );
    assert_eq!(
        qdiscs(&link),
        [
            "root handle 1: netem limit 10000000 loss gemodel 1% 25% 50% 0.1%",
            "parent 1:1 handle 2: netem rate 1000000bit -14 limit 101"
        ]
    );
}

#[test]
fn netems_own_corruption_is_taken_where_netem_is_asked_for() {
    let link = first_link("rate_bps = 1e6\ncorrupt = 0.01\nemulator = 'netem'");
    assert_eq!(unsupported_key(&link), None);
    assert_eq!(
        qdiscs(&link),
        [
            "root handle 1: netem limit 10000000 corrupt 1%",
            "parent 1:1 handle 2: netem rate 1000000bit -14 limit 101"
        ]
    );
}

#[test]
fn a_mere_rate_is_a_single_netem() {
    let link = first_link("rate_bps = 1000000");
    assert_eq!(
        qdiscs(&link),
        ["root handle 2: netem rate 1000000bit -14 limit 101"]
    );
}

#[test]
fn a_discipline_that_linux_has_too_replaces_netems_queue_where_netem_is_asked_for() {
    let keys = "rate_bps = 20_000_000\ndelay_ms = 5\nqueue_packets = 100\nemulator = 'netem'\n";
    let link = first_link(&format!(
        "{keys}discipline = 'fq-codel:target_ms=2.5,ecn=false'"
    ));
    assert_eq!(unsupported_key(&link), None);
    assert_eq!(
        qdiscs(&link),
        [
            "root handle 1: stab overhead -14 linklayer ethernet netem limit 10000000 delay 5000us",
            "parent 1:1 handle 2: tbf rate 20000000bit burst 12500 limit 12500",
            "parent 2:1 fq_codel limit 101 flows 1024 quantum 1514 \
             target 2500us interval 100000us noecn",
        ]
    );
    let link = first_link("rate_bps = 1e6\ndiscipline = 'codel'\nemulator = 'netem'");
    assert_eq!(
        qdiscs(&link),
        [
            "root handle 2: stab overhead -14 linklayer ethernet \
             tbf rate 1000000bit burst 1600 limit 1600",
            "parent 2:1 codel limit 101 target 5000us interval 100000us noecn",
        ]
    );
    for (keys, named) in [
        ("discipline = 'codel'\nrate_bps = 1e6", "discipline"),
        ("discipline = 'codel'\nemulator = 'netem'", "discipline"),
        (
            "discipline = 'guided'\nrate_bps = 1e6\nemulator = 'netem'",
            "discipline",
        ),
    ] {
        assert_eq!(unsupported_key(&first_link(keys)), Some(named), "{keys}");
    }
}

#[test]
fn each_key_that_netem_does_not_have_is_named() {
    for (keys, named) in [
        (
            "rate_bps = 1e6\ndelay_ms = 1\njitter_ms = 1\nloss = 0.1",
            None,
        ),
        ("cellular = { min_bps = 1, max_bps = 2 }", Some("cellular")),
        ("police_bps = 1\npolice_burst_bytes = 1", Some("police_bps")),
        ("duplicate = 0.1", Some("duplicate")),
        ("mtu = 1300", Some("mtu")),
        ("changes = [{ at_s = 1, mtu = 1300 }]", Some("mtu")),
        ("mark = 0.1", Some("mark")),
        ("ecn = 'bleach'", Some("ecn")),
        ("ecn = 'keep'\nmark = 0\ncorrupt = 0", None),
        ("corrupt = 0.1", Some("corrupt")),
        ("wifi_jitter_ms = 7", Some("wifi_jitter_ms")),
        ("aggregate_ms = 5", Some("aggregate_ms")),
        (
            "changes = [{ at_s = 0, delay_ms = 1 }]\nchanges_period_s = 1",
            Some("changes"),
        ),
    ] {
        assert_eq!(unsupported_key(&first_link(keys)), named);
    }
}

#[test]
fn losses_are_told_from_what_the_queue_refused() {
    let qdisc = |handle: &str, packets, bytes, drops, qlen| Qdisc {
        kind: "netem".into(),
        handle: handle.into(),
        dev: "ifb0".into(),
        bytes,
        packets,
        drops,
        qlen,
    };
    let both = [
        qdisc("1:", 90, 90_000, 15, 12),
        qdisc("2:", 90, 91_260, 5, 4),
    ];
    assert_eq!(
        Counters::of(&both, "ifb0", true),
        Counters {
            forwarded: 90,
            forwarded_bytes: 90_000,
            dropped: 5,
            lost: 10,
            inside: 4
        }
    );
}

#[test]
fn the_summary_of_sampled_lengths_is_that_of_their_distribution() {
    let summary = summary(vec![4, 0, 2, 2]);
    assert_eq!((summary.mean, summary.p95, summary.max), (2.0, 4, 4));
    assert!((summary.sd - 2.0_f64.sqrt()).abs() < 1e-12);
}
