use evenkeel_queue::description::ChangeKeys;

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
        delay_ms: None,
        loss: None,
        queue_packets: None,
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
    let mean = link.mean_rate_bps(Duration::ZERO, Duration::from_secs(1));
    assert_eq!(mean, Some(3_000_000));
    assert_eq!(trace("0\n").mean_rate_bps(), None);
    assert_eq!(trace("").mean_rate_bps(), None);
}
