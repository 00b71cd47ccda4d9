use super::*;

const HELD: Delays = Delays {
    encoder_cs: 0,
    own_queue_cs: 0,
    window_cs: 0,
    flow_control_cs: 0,
    queue_cs: 1,
    hop_cs: 0,
    losses: 255,
    held_clock_cs: 250,
    blocked_clock_cs: 0,
};

/// The cause of a frame that came 500 ms later than the fastest, and of whose sender the next
/// frames' say `later`.
fn cause(delays: Delays, later: Delays) -> Cause {
    let mut lateness = Lateness::default();
    lateness.arrived(0, 50_000, HELD);
    lateness.arrived(100_000, 650_000, delays);
    lateness.late(100_000, 650_000);
    assert_eq!(lateness.causes().total(), 1);
    // It was captured before the late one had arrived, and tells nothing of its fate.
    lateness.arrived(640_000, 700_000, Delays::default());
    lateness.arrived(660_000, 710_000, later);
    only(lateness.causes())
}

/// The cause of the only frame.
fn only(causes: Causes) -> Cause {
    assert_eq!(causes.total(), 1, "{causes:?}");
    let mut all = Cause::ALL.into_iter();
    all.find(|cause| causes.of(*cause) == 1).expect("it is one")
}

#[test]
fn the_greatest_part_of_a_delay_is_its_cause() {
    let mut held = Delays {
        own_queue_cs: 15,
        window_cs: 20,
        ..HELD
    };
    assert_eq!(cause(held, HELD), Cause::Window);
    held.own_queue_cs = 25;
    assert_eq!(cause(held, HELD), Cause::OwnQueue);
    held.encoder_cs = 30;
    assert_eq!(cause(held, HELD), Cause::Encoder);
    held.encoder_cs = 0;
    held.flow_control_cs = 30;
    assert_eq!(cause(held, HELD), Cause::Viewer);
    assert_eq!(cause(HELD, HELD), Cause::OthersQueue);
    held = Delays {
        queue_cs: 40,
        hop_cs: 30,
        ..HELD
    };
    assert_eq!(cause(held, HELD), Cause::Hop);
}

#[test]
fn what_nothing_else_explains_is_a_loss_if_one_was_found() {
    let found = Delays { losses: 0, ..HELD };
    assert_eq!(cause(HELD, found), Cause::Loss);
    // The queue has grown meanwhile: that explains it.
    let queued = Delays {
        queue_cs: 40,
        ..found
    };
    assert_eq!(cause(HELD, queued), Cause::OthersQueue);
}

#[test]
fn what_held_the_connection_after_it_took_a_frame_counts_unless_a_loss_was_found() {
    // For 300 ms, and for a second, which is longer than the frame took.
    let held = Delays {
        held_clock_cs: 24,
        ..HELD
    };
    assert_eq!(cause(HELD, held), Cause::Window);
    let blocked = Delays {
        blocked_clock_cs: 100,
        ..held
    };
    assert_eq!(cause(HELD, blocked), Cause::Viewer);
    let lost = Delays {
        losses: 1,
        ..blocked
    };
    assert_eq!(cause(HELD, lost), Cause::Loss);
}

#[test]
fn the_time_for_which_the_viewers_machine_stood_still_is_its_own() {
    let mut lateness = Lateness::default();
    lateness.arrived(0, 50_000, HELD);
    lateness.stood(60_000, 100_000);
    // Of the 500 ms 300.
    lateness.stood(300_000, 600_000);
    lateness.arrived(100_000, 650_000, HELD);
    lateness.late(100_000, 650_000);
    assert_eq!(only(lateness.causes()), Cause::Viewer);
    let spans = lateness.stacked().spans;
    assert_eq!(
        spans.last(),
        Some(&Some([0.0, 0.0, 0.0, 200.0, 0.0, 0.0, 300.0]))
    );
    for _ in 0..1_000 {
        lateness.stood(i64::MIN, i64::MAX);
    }
    assert!(lateness.stood.len() <= MAX_STOOD);
}

#[test]
fn the_longest_delays_of_a_day_fit_into_a_picture() {
    let mut lateness = Lateness::default();
    lateness.arrived(0, 20_000, HELD);
    for nth in 1..864_000 {
        let late_us = if nth == 432_000 { 80_000 } else { 0 };
        let captured_us = nth * 100_000;
        lateness.arrived(captured_us, captured_us + 20_000 + late_us, HELD);
    }
    let stacked = lateness.stacked();
    assert_eq!((stacked.least_ms, stacked.span_s), (20.0, 819.2));
    assert_eq!(stacked.spans.len(), 106);
    let parts = |span: &Option<[f64; 7]>| span.expect("frames came").iter().sum::<f64>();
    let sums: Vec<f64> = stacked.spans.iter().map(parts).collect();
    assert_eq!((sums[52], sums.iter().sum::<f64>()), (80.0, 80.0));
}

#[test]
fn a_peers_absurd_claims_are_counted_all_the_same() {
    let mut lateness = Lateness::default();
    let most = Delays {
        encoder_cs: 255,
        own_queue_cs: 255,
        window_cs: 255,
        flow_control_cs: 255,
        queue_cs: 255,
        hop_cs: 255,
        losses: 255,
        held_clock_cs: 255,
        blocked_clock_cs: 255,
    };
    for nth in 0..3_000 {
        lateness.arrived(i64::MIN, i64::MAX - nth, most);
        lateness.late(i64::MIN, i64::MAX - nth);
    }
    lateness.arrived(i64::MAX, i64::MIN, most);
    assert!(lateness.unexplained.len() <= MAX_UNEXPLAINED + 1);
    assert_eq!(lateness.causes().total(), 3_000);
    assert!(lateness.stacked().spans.len() <= MAX_BINS);
}
