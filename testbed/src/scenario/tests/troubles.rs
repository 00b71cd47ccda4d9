//! What goes wrong on links and at senders: what it becomes, and how it is refused.

use std::time::Duration;

use evenkeel_apps::bulk::LossDetection;
use evenkeel_queue::impairment::{GilbertElliott, Recoding};
use evenkeel_queue::{Change, Service};

use super::*;

#[test]
fn impairments_come_through_and_the_way_back_may_do_without() {
    let set = [
        "links.0.wifi_jitter_ms=7",
        "links.0.police_bps=5M",
        "links.0.police_burst_bytes=64kB",
        "links.0.aggregate_ms=5",
        "links.0.aggregate_packets=64",
        "links.0.changes=[{at_s=0, rate_bps=2e6}, {at_s=1.8, rate_bps=0, wifi_jitter_ms=12}]",
        "links.0.changes_period_s=2",
        "links.0.reorder=0.1",
        "links.0.mtu=1400",
        "links.0.ecn=bleach",
        "links.0.corrupt=0.1",
        "links.0.reverse.ecn=keep",
        "links.0.reverse.mark=0.2",
        "links.0.reverse.reorder=0",
        "links.0.reverse.police_bps=0",
        "links.0.reverse.aggregate_ms=0",
        "links.0.reverse.cellular={min_bps=1e6, max_bps=2e6}",
        "links.0.reverse.changes=[]",
    ];
    let scenario = expanded(DUMBBELL, &set);
    let [forward, reverse] = [0, 1].map(|link| &scenario.links[link].description);
    let config = forward.config(None).unwrap();
    assert_eq!(config.wifi_jitter, Duration::from_millis(7));
    assert!(config.policer.is_some() && config.aggregation.is_some());
    assert_eq!(config.changes_period, Some(Duration::from_secs(2)));
    let suspended = Duration::from_millis(1800);
    assert!(config.changes.contains(&(suspended, Change::Suspend)));
    assert!(
        config
            .changes
            .contains(&(suspended, Change::WifiJitter(Duration::from_millis(12))))
    );
    assert_eq!(config.changes.len(), 3);
    assert_eq!(
        (config.mtu, config.recoding),
        (Some(1400), Some(Recoding::Bleach))
    );
    assert_eq!((config.mark, config.corrupt), (0.0, 0.1));
    let config = reverse.config(None).unwrap();
    assert!(config.policer.is_none() && config.aggregation.is_none());
    assert!(matches!(config.service, Service::Cellular(_)));
    assert_eq!(config.reorder, 0.0);
    assert_eq!((config.recoding, config.mark), (None, 0.2));
    assert_eq!(expanded(&scenario.to_toml(), &[]), scenario);
}

#[test]
fn pauses_rebinds_and_thresholds_come_through() {
    let set = [
        "flows.0.pauses=[{start_s=5, length_s=0.5}, {start_s=6, length_s=1}]",
        "flows.0.rebinds_s=[5, \"7500ms\"]",
        "flows.0.packet_threshold=30",
        "flows.0.time_threshold=1.5",
        "flows.0.remembered={rate_bps=250_000_000, rtt_ms=600}",
    ];
    let scenario = expanded(DUMBBELL, &set);
    let flow = &scenario.flows[0];
    let seconds = Duration::from_secs_f64;
    let pauses = [(5.0, 0.5), (6.0, 1.0)].map(|(start, length)| (seconds(start), seconds(length)));
    assert_eq!(flow.pauses, pauses);
    assert_eq!(flow.rebinds, [5.0, 7.5].map(seconds));
    let remembered = flow.remembered.expect("it was given");
    assert_eq!(remembered.rate_bps, 250_000_000);
    assert_eq!(remembered.min_rtt, seconds(0.6));
    assert_eq!(
        (flow.losses.packet_threshold, flow.losses.time_threshold),
        (30, 1.5)
    );
    assert_eq!(expanded(&scenario.to_toml(), &[]), scenario);
    let plain = expanded(DUMBBELL, &[]);
    assert_eq!(plain.flows[0].losses, LossDetection::default());
    let text = plain.to_toml();
    for key in ["pauses", "rebinds_s", "threshold", "remembered"] {
        assert!(!text.contains(key), "{text}");
    }
}

#[test]
fn a_loss_and_loss_in_bursts_replace_each_other_on_the_way_back() {
    let bursts = "gilbert_elliott={p=0.01, r=0.25}";
    let of = |forward: &str, reverse: &str| {
        let set = [
            format!("links.0.{forward}"),
            format!("links.0.reverse.{reverse}"),
        ];
        let scenario = expanded(DUMBBELL, &set.each_ref().map(String::as_str));
        assert_eq!(expanded(&scenario.to_toml(), &[]), scenario);
        [0, 1].map(|link| {
            let config = scenario.links[link].description.config(None).unwrap();
            (config.loss, config.gilbert_elliott)
        })
    };
    let model = GilbertElliott {
        p: 0.01,
        r: 0.25,
        bad: 1.0,
        good: 0.0,
    };
    assert_eq!(of(bursts, "loss=0.15"), [(0.0, Some(model)), (0.15, None)]);
    assert_eq!(of("loss=0.15", bursts), [(0.15, None), (0.0, Some(model))]);
    assert_eq!(of(bursts, "loss=0"), [(0.0, Some(model)), (0.0, None)]);
}

#[test]
fn what_a_zero_switches_off_takes_the_keys_that_belong_to_it_along() {
    let set = [
        "links.0.police_bps=0",
        "links.0.police_burst_bytes=5",
        "links.0.aggregate_ms=0",
        "links.0.aggregate_packets=5",
        "links.0.changes=[]",
        "links.0.changes_period_s=5",
    ];
    let scenario = expanded(DUMBBELL, &set);
    let link = &scenario.links[0].description;
    assert_eq!((link.police_bps, link.police_burst_bytes), (Some(0), None));
    assert_eq!(
        (link.aggregate_ms, link.aggregate_packets),
        (Some(0.0), None)
    );
    assert_eq!(link.changes_period_s, None);
    assert_eq!(expanded(&scenario.to_toml(), &[]), scenario);
}

#[test]
fn keys_of_impairments_that_need_each_other_say_so() {
    let refused = |set: &[&str]| {
        let set: Vec<_> = set.iter().map(|set| format!("links.0.{set}")).collect();
        let set: Vec<_> = set.iter().map(String::as_str).collect();
        refused(DUMBBELL, &set)
    };
    let change = "changes=[{at_s=1, delay_ms=5}]";
    for (set, said) in [
        (
            &["police_bps=5M"][..],
            "police_bps needs a bucket; give the link a police_burst_bytes",
        ),
        (
            &["police_burst_bytes=5"],
            "police_burst_bytes is of a policer; give the link a police_bps",
        ),
        (
            &["aggregate_packets=5"],
            "could hold packets for ever; give the link an aggregate_ms",
        ),
        (
            &["changes_period_s=5"],
            "changes_period_s repeats changes; give the link some",
        ),
        (
            &[change, "changes_period_s=1"],
            "let at_s be below changes_period_s",
        ),
        (
            &["changes=[{at_s=0, delay_ms=5}]", "changes_period_s=1e-4"],
            "too short; use 0, or 0.001 or more",
        ),
        (
            &["changes=[{at_s=1}]"],
            "add one of rate_bps, delay_ms, wifi_jitter_ms, loss, mtu, queue_packets",
        ),
        (
            &["wifi_jitter_ms=86"],
            "wifi_jitter_ms = 86 is out of range; use 0 to 85",
        ),
        (
            &["duplicate=2"],
            "duplicate = 2 is out of range; use 0 to 1",
        ),
        (
            &["loss=0.1", "gilbert_elliott={p=0.1, r=0.5}"],
            "a link has a loss or a gilbert_elliott; remove one: good is the loss between bursts",
        ),
        (
            &[
                "gilbert_elliott={p=0.1, r=0.5}",
                "changes=[{at_s=1, loss=0.1}]",
            ],
            "a change sets a loss on a link with a gilbert_elliott; remove one",
        ),
        (
            &["gilbert_elliott={p=0.1, r=1.5}"],
            "r = 1.5 is out of range; use 0 to 1",
        ),
        (
            &["gilbert_elliott={p=0.1}"],
            "gilbert_elliott has no r; add one",
        ),
        (
            &["gilbert_elliott={p=0.1, r=0.5, h=0.1}"],
            "unknown key \"h\" in gilbert_elliott; use one of p, r, bad, good",
        ),
        (&["mark=2"], "mark = 2 is out of range; use 0 to 1"),
        (&["corrupt=-1"], "corrupt = -1 is out of range; use 0 to 1"),
        (&["mtu=67"], "mtu = 67 is out of range; use 68 to 65535"),
        (
            &["changes=[{at_s=1, mtu=70_000}]"],
            "mtu = 70000 is out of range; use 68 to 65535",
        ),
        (&["ecn=lose"], "ecn"),
        (
            &["mark=0.1", "ecn=bleach"],
            "no mark comes through ecn = \"bleach\"; remove one of the two",
        ),
        (
            &["mark=0.1", "reverse.ecn=bleach"],
            "no mark comes through ecn = \"bleach\"; set mark = 0, or remove ecn",
        ),
        (
            &["cellular={min_bps=1, max_bps=2}"],
            "a cellular rate, a rate_bps or a trace; remove all but one",
        ),
    ] {
        let message = refused(set);
        assert!(message.contains(said), "{set:?}: {message}");
    }
    // A link's own rate can only be replaced in the other direction.
    for (cellular, said) in [
        (
            "{min_bps=2, max_bps=1}",
            "min_bps of cellular is above its max_bps; exchange them",
        ),
        (
            "{min_bps=1, max_bps=2, outage_every_s=0.01}",
            "outage_every_s = 0.01 is too short; use 0, or 0.02 or more",
        ),
        (
            "{min_bps=1, max_bps=2, outage_s=0.01}",
            "outage_s = 0.01 is out of range; use 0.02 to 100000",
        ),
        (
            "{min_bps=1, max_bps=2, volatility=11}",
            "volatility = 11 is out of range; use 0 to 10",
        ),
        ("{min_bps=1}", "cellular has no max_bps; add one"),
    ] {
        let message = refused(&[&format!("reverse.cellular={cellular}")]);
        assert!(message.contains(said), "{cellular}: {message}");
    }
}

#[test]
fn pauses_rebinds_and_thresholds_are_in_order_and_in_range() {
    for (set, said) in [
        (
            "pauses=[{start_s=5, length_s=2}, {start_s=6, length_s=1}]",
            "pauses overlap or are out of order; order them by start_s and let each end before the next",
        ),
        (
            "pauses=[{start_s=5, length_s=0}]",
            "length_s must be above 0",
        ),
        ("pauses=[{start_s=5}]", "has no length_s; add one"),
        (
            "rebinds_s=[5, 5]",
            "rebinds_s are out of order; let each come after the one before",
        ),
        ("rebinds_s=[-1]", "= -1 is out of range; use 0 to 100000"),
        (
            "packet_threshold=2",
            "packet_threshold = 2 is out of range; use 3 to 1000000",
        ),
        (
            "time_threshold=0.9",
            "time_threshold = 0.9 is out of range; use 1 to 100",
        ),
    ] {
        let message = refused(DUMBBELL, &[&format!("flows.0.{set}")]);
        assert!(message.contains(said), "{set}: {message}");
    }
}
