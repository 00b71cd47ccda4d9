use evenkeel_queue::description::{CellularKeys, ChangeKeys};
use evenkeel_spec::document::Located;

use super::*;

fn link(description: LinkDescription, trace: Option<TraceFile>) -> LinkSpec {
    LinkSpec {
        name: "a".into(),
        from: NodeIndex(0),
        to: NodeIndex(1),
        description,
        trace,
        emulator: Emulator::Auto,
        reported: true,
    }
}

fn rate_change(at_s: f64, rate_bps: u64) -> Located<ChangeKeys> {
    let change = ChangeKeys {
        at_s,
        rate_bps: Some(rate_bps),
        ..ChangeKeys::default()
    };
    change.into()
}

#[test]
fn the_mean_rate_weighs_each_rate_with_its_time() {
    let description = LinkDescription {
        rate_bps: Some(100),
        changes: vec![
            rate_change(5.0, 200),
            rate_change(30.0, 400),
            rate_change(90.0, 1),
        ],
        ..LinkDescription::default()
    };
    let link = link(description, None);
    // 20 s to 40 s: 10 s at 200 and 10 s at 400.
    let mean = link.mean_rate_bps(Duration::from_secs(20), Duration::from_secs(40));
    assert_eq!(mean, Some(300));
}

#[test]
fn a_trace_has_the_rate_of_its_opportunities() {
    let trace = |contents: &str| TraceFile {
        path: "t".into(),
        contents: contents.into(),
    };
    // Three times 1500 bytes in 12 ms: 3 Mb/s.
    let link = link(LinkDescription::default(), Some(trace("0\n5\n12\n")));
    let period = link.mean_rate_bps(Duration::ZERO, Duration::ZERO);
    assert_eq!(period, Some(3_000_000));
    // Four begin after 2 ms and until 14 ms, as it begins again at 12 ms.
    let offered = |from, to| {
        let [from, to] = [from, to].map(Duration::from_millis);
        trace("0\n5\n12\n").offered_bps(from, to)
    };
    assert_eq!(offered(2, 14), Ok(3_000_000.0));
    assert_eq!(offered(2, 4), Ok(0.0));
    for wrong in ["0\n", ""] {
        assert_eq!(
            trace(wrong).mean_rate_bps(Duration::ZERO, Duration::ZERO),
            None
        );
    }
}

#[test]
fn a_trace_offers_what_comes_in_the_window_and_not_its_mean() {
    // 12 Mb/s for 100 ms, then nothing until one opportunity at 1 s.
    let fast: String = (1..=100).map(|ms| format!("{ms}\n")).collect();
    let file = TraceFile {
        path: "t".into(),
        contents: (fast + "1000\n").into(),
    };
    let link = link(LinkDescription::default(), Some(file));
    let mean =
        |from, to| link.mean_rate_bps(Duration::from_millis(from), Duration::from_millis(to));
    assert_eq!(mean(20, 100), Some(12_000_000));
    assert_eq!(mean(100, 900), Some(0));
    // Ten whole periods, and the fast part of the eleventh.
    assert_eq!(mean(0, 10_000), Some(1_212_000));
    assert_eq!(mean(10_000, 10_100), Some(12_000_000));
}

#[test]
fn a_rate_series_has_the_mean_of_each_interval() {
    let description = LinkDescription {
        rate_bps: Some(100),
        changes: vec![
            rate_change(0.0, 200),
            rate_change(2.5, 0),
            rate_change(3.0, 400),
        ],
        changes_period_s: Some(4.0),
        ..LinkDescription::default()
    };
    let second = Duration::from_secs(1);
    let series = link(description, None).rate_series(second, Duration::from_millis(5500));
    assert_eq!(series, [200, 200, 100, 400, 200, 200].map(Some));
    let unlimited = link(LinkDescription::default(), None);
    assert_eq!(unlimited.rate_series(second, second), [None]);
    let trace = TraceFile {
        path: "t".into(),
        contents: "500\n1500\n2000\n".into(),
    };
    let series = link(LinkDescription::default(), Some(trace)).rate_series(second, 3 * second);
    assert_eq!(series, [12_000, 24_000, 12_000].map(Some));
}

#[test]
fn the_mean_rate_counts_changes_again_after_their_period() {
    // 100 for 6 s and nothing for 4 s, again and again; the first 2 s are part of it.
    let description = LinkDescription {
        rate_bps: Some(100),
        changes: vec![rate_change(2.0, 100), rate_change(6.0, 0)],
        changes_period_s: Some(8.0),
        ..LinkDescription::default()
    };
    let mean = |from, to| {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        link(description.clone(), None).mean_rate_bps(from, to)
    };
    assert_eq!(mean(0, 8), Some(75));
    assert_eq!(mean(6, 10), Some(0));
    assert_eq!(mean(8, 800), Some(50));
    let rate_after = |elapsed| description.rate_bps_after(Duration::from_secs(elapsed));
    let rates = [0, 2, 6, 9, 10, 15, 801, 802].map(|elapsed| rate_after(elapsed).unwrap());
    assert_eq!(rates, [100, 100, 0, 0, 100, 0, 0, 100]);
}

#[test]
fn a_cellular_rate_has_the_mean_of_its_bounds_less_its_outages() {
    let cellular = CellularKeys {
        min_bps: 1_000_000,
        max_bps: 19_000_000,
        volatility: 0.2,
        outage_every_s: 9.0,
        outage_s: 1.0,
    };
    let description = LinkDescription {
        cellular: Some(cellular),
        ..LinkDescription::default()
    };
    let mean = link(description, None).mean_rate_bps(Duration::ZERO, Duration::from_secs(1));
    assert_eq!(mean, Some(9_000_000));
}
