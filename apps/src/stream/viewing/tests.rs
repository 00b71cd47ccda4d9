use super::super::lateness::Delays;
use super::super::report::{FrameCounts, JitterReport};
use super::*;
use evenkeel_tests::time::{epoch, ms};

fn begin(began: Instant, omit: Duration, clock: Comparison) -> Viewing {
    begin_with(Viewing::default(), began, omit, clock)
}

fn begin_with(viewing: Viewing, began: Instant, omit: Duration, clock: Comparison) -> Viewing {
    let player = viewing.player(ms(100), ms(50));
    let beginning = Beginning {
        began,
        began_us: 5_000_000,
        accepted_us: 0,
        omit_until: began + omit,
        is_encoded: true,
    };
    viewing.begin(beginning, clock, player);
    viewing
}

/// Frame `sequence`, captured `50 * sequence` ms after the beginning.
fn header(sequence: u32) -> Header {
    Header {
        track: Track::VIDEO,
        sequence,
        captured_us: 5_000_000 + 50_000 * u64::from(sequence),
        bitrate_bps: 1_000_000 + sequence / 10,
        length: 1000,
        entry: (sequence == 0).then_some(0),
        delays: Delays::default(),
        given_up: None,
    }
}

fn receive(viewing: &Viewing, began: Instant, sequence: u32, delay_ms: u64) {
    let at = began + ms(50 * u64::from(sequence) + delay_ms);
    viewing.bytes(at, 1000);
    viewing.frame(at, &header(sequence), Bytes::from_static(b"x"));
}

#[test]
fn an_even_stream_has_even_figures() {
    let began = epoch();
    let viewing = begin(began, Duration::ZERO, Comparison::default());
    (0..41).for_each(|sequence| receive(&viewing, began, sequence, 20));
    viewing.cut(began + ms(2020));
    let report = viewing.report(began + ms(2020)).unwrap();
    assert_eq!(
        report.frames,
        FrameCounts {
            received: 41,
            on_time: 41,
            ..Default::default()
        }
    );
    let delay = report.delay_ms.unwrap();
    assert_eq!((delay.min, delay.p50, delay.max), (20.0, 20.0, 20.0));
    assert_eq!(
        report.jitter_ms.unwrap(),
        JitterReport {
            mean: 0.0,
            rfc3550: 0.0
        }
    );
    // 20 ms of delay and the buffer.
    assert_eq!(
        (report.startup_s, report.playout_delay_ms),
        (Some(0.12), Some(120.0))
    );
    assert_eq!((report.duration_s, report.bytes), (2.0, 41_000));
    // Two frames in every tenth of a second.
    let tenth = report.variation[0];
    assert_eq!(
        (tenth.interval_s, tenth.cov, tenth.peak_to_mean),
        (0.1, Some(0.0), Some(1.0))
    );
    // No interval of 5 s is whole.
    assert_eq!(
        (report.variation[3].interval_s, report.variation[3].cov),
        (5.0, None)
    );
    let bitrate = report.bitrate.unwrap();
    assert_eq!(
        (bitrate.min_bps, bitrate.max_bps, bitrate.switches),
        (1_000_000, 1_000_004, 4)
    );
}

#[test]
fn lost_frames_are_those_between_the_first_and_the_last_that_came() {
    let began = epoch();
    let viewing = begin(began, Duration::ZERO, Comparison::default());
    for sequence in [3, 4, 7, 9] {
        receive(&viewing, began, sequence, 20);
    }
    let report = viewing.report(began + ms(1000)).unwrap();
    assert_eq!((report.frames.received, report.frames.lost), (4, 3));
}

#[test]
fn what_is_missing_and_not_yet_due_when_the_viewer_leaves_is_not_lost() {
    let began = epoch();
    let viewing = begin(began, Duration::ZERO, Comparison::default());
    for sequence in (0..40).filter(|sequence| ![10, 38].contains(sequence)) {
        receive(&viewing, began, sequence, 20);
    }
    viewing.cut(began + ms(1980));
    let report = viewing.report(began + ms(1980)).unwrap();
    assert_eq!((report.frames.received, report.frames.lost), (38, 1));
    assert_eq!(report.causes.total(), 1);
    // 11 to 37; what 39 refers to may yet come.
    assert_eq!(report.frames.damaged, 27);
}

#[test]
fn frames_received_in_the_warm_up_and_shown_after_it_are_not_counted() {
    let began = epoch();
    let viewing = begin(began, ms(1000), Comparison::default());
    // The buffer holds two of the frames that came within the warm-up.
    for sequence in 0..40 {
        let late = if sequence % 10 == 5 { 300 } else { 0 };
        receive(&viewing, began, sequence, 20 + late);
    }
    viewing.cut(began + ms(2500));
    let frames = viewing.report(began + ms(2500)).unwrap().frames;
    assert_eq!(
        frames.received,
        frames.on_time + frames.late + frames.skipped,
        "{frames:?}"
    );
}

#[test]
fn the_warm_up_is_in_no_figure() {
    let began = epoch();
    let viewing = begin(began, ms(1000), Comparison::default());
    (0..15).for_each(|sequence| receive(&viewing, began, sequence, 200));
    (20..40).for_each(|sequence| receive(&viewing, began, sequence, 20));
    viewing.cut(began + ms(2000));
    let report = viewing.report(began + ms(2000)).unwrap();
    assert_eq!((report.duration_s, report.bytes), (1.0, 20_000));
    assert_eq!((report.frames.received, report.frames.lost), (20, 0));
    assert_eq!(report.delay_ms.unwrap().max, 20.0);
    assert_eq!(viewing.received(), 35_000);
}

#[test]
fn an_estimated_offset_is_taken_off_and_absurd_times_are_bounded() {
    let began = epoch();
    let mut clock = Comparison::default();
    clock.exchange(4_999_000, 1_000_000, 5_001_000);
    let viewing = begin(began, Duration::ZERO, clock);
    let ours = Header {
        captured_us: 1_000_000,
        ..header(0)
    };
    viewing.frame(began + ms(30), &ours, Bytes::new());
    let absurd = Header {
        captured_us: u64::MAX,
        ..header(1)
    };
    viewing.frame(began + ms(80), &absurd, Bytes::new());
    let report = viewing.report(began + ms(100)).unwrap();
    let delay = report.delay_ms.unwrap();
    assert_eq!(delay.max, 30.0);
    assert!(delay.min < -2_000_000.0);
    let ClockReport::Estimated {
        offset_us,
        error_ms,
    } = report.clock
    else {
        panic!("{report:?}");
    };
    assert_eq!(offset_us, -4_000_000);
    assert!((1.0..1.01).contains(&error_ms), "{error_ms}");
}

#[test]
fn a_snapshot_tells_what_came_since_the_one_before() {
    let began = epoch();
    let viewing = begin(began, Duration::ZERO, Comparison::default());
    receive(&viewing, began, 0, 20);
    receive(&viewing, began, 1, 40);
    let first = viewing.snapshot(began + ms(100)).unwrap();
    assert_eq!(
        (first.bytes, first.frames, first.delay_ms),
        (2000, 2, Some(30.0))
    );
    // Frame 1 is due 120 ms after its capture, at 170 ms.
    assert_eq!(first.buffer_ms, 70.0);
    let second = viewing.snapshot(began + ms(110)).unwrap();
    assert_eq!((second.bytes, second.frames, second.delay_ms), (0, 0, None));
    assert_eq!(second.bitrate_bps, Some(1_000_000));
}

#[test]
fn frames_from_before_the_viewer_came_are_decoded_and_counted_apart() {
    let began = epoch();
    let viewing = Viewing::default();
    let beginning = Beginning {
        began,
        began_us: 5_500_000,
        accepted_us: 5_500_000,
        omit_until: began,
        is_encoded: false,
    };
    let player = Player::new(ms(100), ms(50));
    viewing.begin(beginning, Comparison::default(), player);
    let receive = |sequence: u32, at: Duration| {
        let content = Bytes::copy_from_slice(&[sequence as u8]);
        viewing.frame(began + at, &header(sequence), content);
        viewing.shown(began + at)
    };
    // Frames 0 to 9 are from before 5.5 s. Number 4 comes last.
    for sequence in [0, 1, 2, 3, 5, 6, 7, 8, 9, 4] {
        assert_eq!(receive(sequence, ms(20)).len(), 0);
    }
    assert_eq!(receive(10, ms(20)).len(), 0);
    // All are decoded when number 10 is due.
    let shown = receive(11, ms(121));
    let numbers: Vec<u8> = shown.iter().map(|content| content[0]).collect();
    assert_eq!(numbers, (0..=10).collect::<Vec<_>>());
    viewing.finish();
    let report = viewing.report(began + ms(200)).unwrap();
    let expected = FrameCounts {
        received: 2,
        on_time: 2,
        preroll: 10,
        ..FrameCounts::default()
    };
    assert_eq!(report.frames, expected);
    assert_eq!(report.delay_ms.unwrap().max, 71.0);
    assert_eq!((report.startup_s, report.stalls.count), (Some(0.12), 0));
}

#[test]
fn a_better_offset_corrects_all_delays_and_moves_no_frame() {
    let began = epoch();
    let mut clock = Comparison::default();
    // On one machine; the first answer took 30 ms.
    clock.exchange(4_970_000, 4_970_100, 5_000_000);
    let viewing = begin(began, Duration::ZERO, clock);
    for sequence in 0..40 {
        receive(&viewing, began, sequence, 2);
        let error = viewing.snapshot(began + ms(50 * u64::from(sequence) + 2));
        assert!(error.unwrap().delay_ms.unwrap() >= 0.0);
        if sequence == 20 {
            viewing.exchange(6_003_000, 6_003_050, 6_003_100);
        }
    }
    viewing.finish();
    let report = viewing.report(began + ms(2002)).unwrap();
    let delay = report.delay_ms.unwrap();
    assert!(delay.min > 1.9 && delay.max < 2.1, "{delay:?}");
    assert_eq!(report.jitter_ms.unwrap().mean, 0.0);
    assert_eq!((report.frames.on_time, report.frames.late), (40, 0));
    let playout_ms = report.playout_delay_ms.unwrap();
    assert!((101.9..102.1).contains(&playout_ms), "{playout_ms}");
}

#[test]
fn a_picture_is_due_although_nothing_follows_it() {
    let began = epoch();
    let viewing = begin(began, Duration::ZERO, Comparison::default());
    assert_eq!(viewing.next_due(), None);
    receive(&viewing, began, 0, 20);
    receive(&viewing, began, 1, 20);
    assert_eq!(viewing.next_due(), Some(began + ms(120)));
    assert_eq!(viewing.shown(began + ms(119)).len(), 0);
    assert_eq!(viewing.shown(began + ms(120)).len(), 1);
    assert_eq!(viewing.next_due(), Some(began + ms(170)));
    assert_eq!(viewing.shown(began + ms(170)).len(), 1);
    assert_eq!(viewing.next_due(), None);
}

#[test]
fn a_fixed_delay_holds_from_the_first_picture_although_the_server_waited_before_it_answered() {
    let began = epoch();
    let mut clock = Comparison::default();
    clock.exchange(4_600_000, 5_000_000, 5_000_000);
    let viewing = begin_with(Viewing::with_latency(ms(50)), began, ms(0), clock);
    viewing.exchange(5_001_000, 5_001_000, 5_001_000);
    for sequence in 0..20 {
        let header = Header {
            captured_us: 5_010_000 + 40_000 * u64::from(sequence),
            ..header(sequence)
        };
        let at = began + ms(15 + 40 * u64::from(sequence));
        viewing.frame(at, &header, Bytes::from_static(b"x"));
    }
    viewing.finish();
    let frames = viewing.report(began + ms(1000)).unwrap().frames;
    assert_eq!((frames.on_time, frames.dropped), (20, 0));
}

#[test]
fn a_fixed_delay_holds_for_an_hour_while_the_clocks_drift_apart() {
    let began = epoch();
    // The sender's clock gains 30 us a second.
    let sender = |at_us: u64| at_us + (at_us - 5_000_000) * 30 / 1_000_000;
    let mut clock = Comparison::default();
    clock.exchange(4_990_000, 5_000_000, 5_010_000);
    let viewing = begin_with(Viewing::with_latency(ms(250)), began, ms(0), clock);
    for sequence in 0..72_000_u32 {
        let captured_us = 5_000_000 + 50_000 * u64::from(sequence);
        let header = Header {
            captured_us: sender(captured_us),
            ..header(sequence)
        };
        let at = began + ms(50 * u64::from(sequence) + 20 + u64::from(sequence % 7) * 5);
        viewing.frame(at, &header, Bytes::from_static(b"x"));
        viewing.shown(at);
        if let Some(due) = viewing.next_due() {
            // 108 ms would be missing in the end by an offset that stays.
            let off_us = (due.duration_since(began).as_micros() + 25_000) % 50_000;
            assert!((20_000..30_000).contains(&off_us), "{sequence}: {off_us}");
        }
        if sequence % 100 == 0 {
            let asked_us = captured_us + 20_000;
            viewing.exchange(asked_us, sender(asked_us + 20_000), asked_us + 40_000);
        }
    }
    viewing.finish();
    let end = began + ms(72_000 * 50);
    let report = viewing.report(end).unwrap();
    let frames = report.frames;
    assert_eq!(
        (frames.on_time, frames.late, frames.dropped),
        (72_000, 0, 0)
    );
    let display = report.display_ms.unwrap();
    assert!((245.0..255.0).contains(&display.min), "{display:?}");
    assert!((245.0..255.0).contains(&display.max), "{display:?}");
    let playout_ms = report.playout_delay_ms.unwrap();
    assert!((249.0..251.0).contains(&playout_ms), "{playout_ms}");
}

#[test]
fn a_snapshot_counts_what_was_late_also_where_an_output_takes_the_frames() {
    let began = epoch();
    for (viewing, dropped) in [(Viewing::default(), 0), (Viewing::with_latency(ms(120)), 1)] {
        let viewing = begin_with(viewing, began, ms(0), Comparison::default());
        receive(&viewing, began, 0, 20);
        assert_eq!(viewing.shown(began + ms(120)).len(), 1);
        receive(&viewing, began, 1, 300);
        viewing.shown(began + ms(350));
        assert_eq!(viewing.snapshot(began + ms(360)).unwrap().late, 1);
        assert_eq!(viewing.snapshot(began + ms(370)).unwrap().late, 0);
        let report = viewing.report(began + ms(380)).unwrap();
        assert_eq!(report.frames.dropped, dropped);
    }
}

#[test]
fn a_late_picture_makes_no_gap_in_the_sound_which_follows_it_slowly() {
    let began = epoch();
    let viewing = begin(began, Duration::ZERO, Comparison::default());
    let sound = Track::new(Kind::Sound, 0);
    let delay = |viewing: &Viewing, track| {
        let player = viewing.with(|state| state.tracks[&track].player.playout_delay());
        player.unwrap().unwrap()
    };
    // Pictures come again after 400 ms without any.
    let stalled = |n: u32| (20..29).contains(&n);
    let pictures = (0..101).map(|n| (if stalled(n) { 1420 } else { 50 * n + 20 }, false, n));
    let mut events: Vec<_> = (0..101)
        .map(|n| (50 * n + 20, true, n))
        .chain(pictures)
        .collect();
    events.sort_unstable();
    for (at_ms, is_sound, sequence) in events {
        let at = began + ms(u64::from(at_ms));
        let header = Header {
            track: if is_sound { sound } else { Track::VIDEO },
            entry: Some(0),
            ..header(sequence)
        };
        viewing.frame(at, &header, Bytes::new());
        if (at_ms, is_sound) == (1470, true) {
            assert_eq!(delay(&viewing, Track::VIDEO), ms(420));
            assert!(delay(&viewing, sound) < ms(150));
        }
    }
    viewing.cut(began + ms(6000));
    // Both come nearer to each other: pictures play faster, sound slower.
    let (seen, heard) = (delay(&viewing, Track::VIDEO), delay(&viewing, sound));
    assert!(seen.abs_diff(heard) <= ms(5), "{seen:?} {heard:?}");
    let report = viewing.report(began + ms(6000)).unwrap();
    assert_eq!(report.tracks[0].frames.on_time, 101);
    assert_eq!((report.frames.on_time, report.frames.late), (100, 1));
    let queueing = report.tracks[1].queueing_ms.unwrap();
    assert_eq!(queueing.max, 400.0);
}
