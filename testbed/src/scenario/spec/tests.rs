use super::*;

fn link(service: ServiceSpec, changes: Vec<LinkChange>) -> LinkSpec {
    LinkSpec {
        name: "a".into(),
        from: NodeIndex(0),
        to: NodeIndex(1),
        service,
        queue: QueueLimit {
            packets: Some(1),
            bytes: None,
        },
        discipline: "drop-tail".into(),
        stamps: Vec::new(),
        delay: Duration::ZERO,
        loss: 0.0,
        jitter: Duration::ZERO,
        reorder: 0.0,
        blackouts: Vec::new(),
        changes,
        emulator: Emulator::Auto,
        reported: true,
    }
}

fn rate_change(at_s: u64, rate_bps: u64) -> LinkChange {
    LinkChange {
        at: Duration::from_secs(at_s),
        rate_bps: Some(rate_bps),
        delay: None,
        loss: None,
        queue_packets: None,
    }
}

#[test]
fn the_mean_rate_weighs_each_rate_with_its_time() {
    let link = link(
        ServiceSpec::Rate(100),
        vec![
            rate_change(5, 200),
            rate_change(30, 400),
            rate_change(90, 1),
        ],
    );
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
    let service = ServiceSpec::Trace(trace("0\n5\n12\n"));
    let link = link(service, Vec::new());
    let mean = link.mean_rate_bps(Duration::ZERO, Duration::from_secs(1));
    assert_eq!(mean, Some(3_000_000));
    assert_eq!(trace("0\n").mean_rate_bps(), None);
    assert_eq!(trace("").mean_rate_bps(), None);
}
