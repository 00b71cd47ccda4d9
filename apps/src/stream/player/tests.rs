use proptest::prelude::*;

use super::super::lateness::Delays;
use super::super::track::Track;
use super::*;

const FRAME: Duration = Duration::from_millis(40);

fn player() -> Player {
    Player::new(Duration::from_millis(100), FRAME)
}

/// Frame `sequence` is captured at `40 * sequence` ms and arrives at `at_ms`.
fn arrive(player: &mut Player, sequence: u32, at_ms: i64) -> usize {
    take(player, sequence, Some(40 * i64::from(sequence)), at_ms)
}

/// Frame `sequence` arrives at `at_ms`; it is preroll if it was not captured.
fn take(player: &mut Player, sequence: u32, captured_ms: Option<i64>, at_ms: i64) -> usize {
    let header = Header {
        track: Track::VIDEO,
        sequence,
        captured_us: 0,
        bitrate_bps: 0,
        length: 1,
        entry: sequence.is_multiple_of(10).then_some(0),
        delays: Delays::default(),
        given_up: None,
    };
    player
        .arrived(
            &header,
            captured_ms.map(|ms| ms * 1000),
            at_ms * 1000,
            Bytes::from_static(b"x"),
        )
        .len()
}

#[test]
fn frames_that_come_within_the_buffer_are_on_time() {
    let mut player = player();
    // 20 ms of delay, then up to 100 ms more.
    for (sequence, delay) in (0..).zip([20, 60, 120, 20, 100, 119]) {
        arrive(&mut player, sequence, 40 * i64::from(sequence) + delay);
    }
    player.finish();
    assert_eq!(
        player.counts,
        FrameCounts {
            on_time: 6,
            ..Default::default()
        }
    );
    assert_eq!(player.past_freezes, Freezes::default());
    assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
}

#[test]
fn a_late_frame_stops_the_picture_and_the_player_goes_on_from_there() {
    let mut player = player();
    arrive(&mut player, 0, 20);
    // Due at 160 ms; comes 240 ms later, and the next ones with it.
    arrive(&mut player, 1, 400);
    arrive(&mut player, 2, 400);
    arrive(&mut player, 3, 450);
    player.finish();
    let counts = player.counts;
    assert_eq!((counts.on_time, counts.late), (3, 1));
    // Frame 0 stood from 120 to 400 ms, of which 40 ms are its own.
    let freeze = Duration::from_millis(240);
    let freezes = Freezes {
        count: 1,
        total: freeze,
        longest: freeze,
    };
    assert_eq!(player.past_freezes, freezes);
    assert_eq!(player.playout_delay(), Some(Duration::from_millis(360)));
}

#[test]
fn a_player_that_fell_behind_catches_up_when_frames_come_early_again() {
    let mut player = player();
    arrive(&mut player, 0, 20);
    arrive(&mut player, 1, 400);
    assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
    for sequence in 2..400 {
        arrive(
            &mut player,
            sequence,
            (40 * i64::from(sequence) + 20).max(400),
        );
    }
    player.finish();
    // 240 ms are made up for at 2 ms a frame, down to the delay and the buffer.
    assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
    assert_eq!((player.counts.on_time, player.counts.late), (399, 1));
    assert_eq!(player.past_freezes.count, 1);
}

#[test]
fn a_lost_frame_is_skipped_when_the_next_is_due_and_damages_its_group() {
    let mut player = player();
    for sequence in (0..15).filter(|sequence| *sequence != 3) {
        arrive(&mut player, sequence, 40 * i64::from(sequence) + 20);
    }
    // It comes after frame 4 was shown, at 280 ms.
    arrive(&mut player, 3, 40 * 14 + 30);
    player.finish();
    let counts = player.counts;
    assert_eq!((counts.on_time, counts.late, counts.skipped), (14, 0, 1));
    // Frames 4 to 9; 10 is a key frame.
    assert_eq!(counts.damaged, 6);
    assert_eq!(player.past_freezes.count, 0);
}

#[test]
fn a_player_begins_with_what_can_be_decoded_but_does_not_wait_for_ever() {
    let mut late_key = player();
    arrive(&mut late_key, 1, 60);
    arrive(&mut late_key, 2, 100);
    assert_eq!(late_key.playout_delay(), None);
    arrive(&mut late_key, 0, 400);
    assert_eq!(late_key.playout_delay(), Some(Duration::from_millis(500)));
    assert_eq!(late_key.finish().len(), 3);
    assert_eq!((late_key.counts.on_time, late_key.counts.damaged), (3, 0));

    let mut no_key = player();
    for sequence in 1..10 {
        arrive(&mut no_key, sequence, 40 * i64::from(sequence) + 20);
    }
    assert_eq!(no_key.first_due_us(), None);
    // A second after the first, the next one has to do.
    arrive(&mut no_key, 11, 1070);
    assert_eq!(no_key.playout_delay(), Some(Duration::from_millis(730)));
    no_key.finish();
    assert_eq!((no_key.counts.on_time, no_key.counts.damaged), (10, 10));
}

#[test]
fn after_a_gap_pictures_are_whole_when_a_recovery_is_complete() {
    let mut player = player();
    let mut arrive = |sequence, entry| {
        let header = Header {
            track: Track::VIDEO,
            sequence,
            captured_us: 0,
            bitrate_bps: 0,
            length: 1,
            entry,
            delays: Delays::default(),
            given_up: None,
        };
        let captured_us = 40_000 * i64::from(sequence);
        let content = Bytes::from_static(b"x");
        player.arrived(&header, Some(captured_us), captured_us, content);
    };
    // Recovery points at 0, 10 and 20, each complete with the third picture after it.
    for sequence in (0..30).filter(|sequence| *sequence != 17) {
        let entry = (sequence % 10 == 0).then_some(3);
        arrive(sequence, entry);
    }
    player.finish();
    // 0 to 2, 18 and 19, 20 to 22.
    assert_eq!(player.counts.damaged, 8);
}

#[test]
fn a_stream_that_breaks_off_is_a_freeze_that_lasts() {
    let mut player = player();
    arrive(&mut player, 0, 20);
    arrive(&mut player, 1, 20);
    player.advance(160_000);
    assert_eq!(player.freezes(240_000).count, 0);
    let freezes = player.freezes(1_200_000);
    assert_eq!((freezes.count, freezes.total), (1, Duration::from_secs(1)));
}

#[test]
fn what_is_shown_comes_out_in_order_when_it_is_due() {
    let mut player = player();
    assert_eq!(arrive(&mut player, 0, 20), 0);
    assert_eq!(player.first_due_us(), Some(120_000));
    assert_eq!(arrive(&mut player, 1, 60), 0);
    assert_eq!(player.buffered(60_000), Duration::from_millis(100));
    assert_eq!(arrive(&mut player, 2, 130), 1);
    assert_eq!(player.finish().len(), 2);
}

proptest! {
    #[test]
    fn every_frame_that_arrives_is_shown_or_skipped_once(
        arrivals in proptest::collection::btree_map(0_u32..60, 0_i64..3_000, 1..60)
    ) {
        let mut order: Vec<(i64, u32)> = arrivals
            .iter()
            .map(|(sequence, delay)| (40 * i64::from(*sequence) + delay, *sequence))
            .collect();
        order.sort_unstable();
        let mut player = player();
        let mut shown = 0;
        for (at, sequence) in &order {
            shown += arrive(&mut player, *sequence, *at);
        }
        shown += player.finish().len();
        let counts = player.counts;
        prop_assert_eq!(counts.on_time + counts.late, shown as u64);
        prop_assert_eq!(counts.on_time + counts.late + counts.skipped, order.len() as u64);
        prop_assert!(player.past_freezes.longest <= player.past_freezes.total);
    }
}

#[test]
fn a_player_that_began_late_shows_the_present_once_frames_come_early_for_3_seconds() {
    let mut player = player();
    // The first frame waited for what was captured before it; the others take 20 ms.
    arrive(&mut player, 0, 1_300);
    for sequence in 1..200 {
        let at_ms = (40 * i64::from(sequence) + 20).max(1_300);
        arrive(&mut player, sequence, at_ms);
    }
    assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
    player.finish();
    let last = player.displayed.last().expect("all were displayed");
    assert_eq!(last.delay_us, 120_000);
    assert_eq!((player.counts.on_time, player.past_freezes.count), (200, 0));
    // Time does not go back where it jumps.
    let times = player.displayed.iter().map(|displayed| displayed.at_ms);
    assert!(times.is_sorted());
    assert_eq!(player.displayed.len(), 200);
}

#[test]
fn a_player_that_skips_what_is_damaged_goes_on_with_a_key_frame() {
    let mut player = player();
    player.skips_damaged = true;
    let shown: usize = (0..15)
        .filter(|sequence| *sequence != 3)
        .map(|sequence| arrive(&mut player, sequence, 40 * i64::from(sequence) + 20))
        .sum();
    let rest = player.finish();
    assert_eq!(shown + rest.len(), 14);
    // 4 to 9 are left out, and 3 never came.
    assert_eq!((player.counts.damaged, player.dropped), (6, 6));
    assert_eq!(player.displayed.len(), 8);
    // 2 stands for 8 frames.
    let freeze = Duration::from_millis(7 * 40);
    assert_eq!(player.past_freezes.total, freeze);
}

fn fixed() -> Player {
    let mut player = Player::fixed(Duration::from_millis(100), FRAME);
    player.follow(0, 0);
    player
}

#[test]
fn with_a_fixed_delay_what_is_earlier_waits_and_what_is_later_is_dropped() {
    let mut player = fixed();
    let delays = (0..).zip([20, 99, 100, 140, 30, 0, 400]);
    let mut order: Vec<_> = delays
        .map(|(nth, delay)| (40 * i64::from(nth) + delay, nth))
        .collect();
    order.sort_unstable();
    for (at_ms, sequence) in order {
        arrive(&mut player, sequence, at_ms);
    }
    player.finish();
    let counts = player.counts;
    assert_eq!((counts.on_time, counts.dropped), (5, 2));
    assert_eq!((counts.late, counts.skipped), (0, 0));
    assert!(
        player
            .displayed
            .iter()
            .all(|shown| shown.delay_us == 100_000)
    );
    assert_eq!(player.playout_delay(), Some(Duration::from_millis(100)));
    // Number 3 is missing to 4 and 5.
    assert_eq!((counts.damaged, player.dropped), (2, 2));
    assert_eq!(player.past_freezes.count, 0);
}

#[test]
fn with_a_fixed_delay_a_frame_that_comes_before_the_next_is_due_is_shown_for_those_that_refer_to_it()
 {
    let mut player = fixed();
    for (sequence, delay) in (0..).zip([20, 139, 120, 20]) {
        arrive(&mut player, sequence, 40 * i64::from(sequence) + delay);
    }
    player.finish();
    let counts = player.counts;
    assert_eq!((counts.on_time, counts.late, counts.dropped), (2, 2, 0));
    assert_eq!((counts.damaged, player.dropped), (0, 0));
    let shown = player.displayed.iter().map(|shown| shown.delay_us);
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [100_000, 139_000, 120_000, 100_000]
    );

    // A picture a second: the next is far, but sound would be too far ahead.
    let mut slow = fixed();
    for (nth, delay) in (0..).zip([20, 20, 144, 145]) {
        let captured_ms = 1000 * i64::from(nth);
        take(&mut slow, nth, Some(captured_ms), captured_ms + delay);
    }
    slow.finish();
    assert_eq!((slow.counts.late, slow.counts.dropped), (1, 1));
}

#[test]
fn a_frame_that_comes_after_a_later_one_was_shown_is_dropped_by_a_fixed_delay() {
    let mut player = fixed();
    for sequence in [0, 1, 3, 4, 5, 6] {
        arrive(&mut player, sequence, 40 * i64::from(sequence) + 10);
    }
    arrive(&mut player, 2, 260);
    assert_eq!((player.counts.skipped, player.counts.dropped), (0, 1));
}

#[test]
fn a_fixed_delay_decodes_a_late_beginning_for_what_follows_but_shows_none_of_it() {
    let mut player = fixed();
    // What the server had when the viewer came takes 400 ms.
    for sequence in 0..20 {
        let at_ms = (40 * i64::from(sequence) + 20).max(400);
        arrive(&mut player, sequence, at_ms);
    }
    let rest = player.finish().len();
    let counts = player.counts;
    // Number 7 is due at 380 ms, 8 at 420.
    assert_eq!((counts.late, counts.on_time, counts.dropped), (8, 12, 0));
    assert_eq!((counts.damaged, player.dropped), (0, 0));
    assert!(rest > 0 && player.displayed.len() == 12);
    assert!(
        player
            .displayed
            .iter()
            .all(|shown| shown.delay_us == 100_000)
    );
    assert_eq!(player.first_due_us(), Some(420_000));
    assert_eq!(player.past_freezes.count, 0);

    // Where nothing comes in time, all is dropped after two seconds.
    let mut slow = fixed();
    for sequence in 0..100 {
        arrive(&mut slow, sequence, 40 * i64::from(sequence) + 300);
    }
    slow.finish();
    assert_eq!((slow.counts.late, slow.counts.dropped), (50, 50));
    assert_eq!((slow.first_due_us(), slow.displayed.len()), (None, 0));
}

#[test]
fn a_fixed_delay_that_runs_follows_the_clocks_gently_and_a_clock_that_is_set_at_once() {
    let mut player = fixed();
    let delay = |player: &Player| player.playout_delay().unwrap().as_micros();
    player.follow(5_000, 0);
    assert_eq!(delay(&player), 95_000, "before a picture was in time");
    player.follow(0, 0);
    player.fixed.as_mut().unwrap().is_running = true;
    // 10 ms are made up for in 200 ms, however often it is asked.
    for at_us in (0..=100_000).step_by(7) {
        player.follow(10_000, at_us);
    }
    assert!((94_999..95_010).contains(&delay(&player)), "{player:?}");
    player.follow(10_000, 300_000);
    assert_eq!(delay(&player), 90_000);
    player.follow(-2_000, 340_000);
    assert_eq!(delay(&player), 92_000);
    player.follow(-3_600_000_000, 340_001);
    assert_eq!(delay(&player), 3_600_100_000);
}

proptest! {
    #[test]
    fn a_fixed_delay_shows_or_drops_every_frame_once_and_shows_none_a_frame_later(
        arrivals in proptest::collection::btree_map(0_u32..60, 0_i64..300, 1..60)
    ) {
        let mut order: Vec<(i64, u32)> = arrivals
            .iter()
            .map(|(sequence, delay)| (40 * i64::from(*sequence) + delay, *sequence))
            .collect();
        order.sort_unstable();
        let mut player = fixed();
        for (at, sequence) in &order {
            arrive(&mut player, *sequence, *at);
        }
        player.finish();
        let counts = player.counts;
        let in_time = arrivals.values().filter(|delay| **delay <= 100).count() as u64;
        prop_assert_eq!(counts.on_time, in_time);
        prop_assert_eq!(counts.on_time + counts.late + counts.dropped, order.len() as u64);
        let mut shown = player.displayed.iter().map(|shown| shown.delay_us);
        prop_assert!(shown.all(|delay_us| (100_000..140_000).contains(&delay_us)));
    }
}

#[test]
fn a_stream_of_one_picture_a_second_does_not_stall() {
    let mut player = player();
    for nth in 0..20_u32 {
        let captured_ms = 1000 * i64::from(nth);
        take(&mut player, nth, Some(captured_ms), captured_ms + 20);
        assert_eq!(player.freezes((captured_ms + 1000) * 1000).count, 0);
    }
    player.finish();
    assert_eq!(player.past_freezes, Freezes::default());
    assert!(player.freezes(24_000_000).count == 1, "the last one stands");
}

#[test]
fn an_outage_until_another_server_sends_is_a_stall() {
    let mut player = player();
    for nth in 0..10 {
        arrive(&mut player, nth, 40 * i64::from(nth) + 20);
    }
    player.rejoin();
    // Frame 9 was due at 480 ms. Another stream begins at 3 s, with preroll.
    take(&mut player, 20, None, 3000);
    for nth in 0..10 {
        let at_ms = 3000 + 40 * i64::from(nth);
        take(&mut player, 21 + nth, Some(at_ms), at_ms + 20);
    }
    player.finish();
    let Freezes { count, total, .. } = player.past_freezes;
    assert_eq!(count, 1);
    // Until 3120 ms, and 40 ms are its own.
    assert_eq!(total, Duration::from_millis(2600));
}

#[test]
fn no_picture_stands_before_a_fixed_delay_has_shown_one() {
    let mut player = fixed();
    for nth in 0..10 {
        arrive(&mut player, nth, 40 * i64::from(nth) + 1000);
    }
    assert!(player.counts.late > 0);
    assert_eq!(player.freezes(1_900_000).count, 0);
}
