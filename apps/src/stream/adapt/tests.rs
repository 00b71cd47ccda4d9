use proptest::prelude::*;

use super::*;
use evenkeel_tests::time::epoch;

const RTT: Duration = Duration::from_millis(100);

fn path(estimate_bps: u64, backlog: bool) -> Path {
    Path {
        estimate_bps: Some(estimate_bps),
        rtt: RTT,
        backlog,
        waiting: 0,
        given_up: 0,
        is_alive: true,
    }
}

fn config(start_bps: u64) -> AdaptConfig {
    AdaptConfig {
        ceiling_bps: 10_000_000,
        start_bps,
        ..AdaptConfig::default()
    }
}

/// Decides 30 times a second for `seconds`.
fn run(adaptation: &mut Adaptation, from: Instant, seconds: f64, path: Path) -> Instant {
    let frames = (seconds * 30.0) as u32;
    let at = |frame: u32| from + Duration::from_secs(1) * frame / 30;
    (1..=frames).for_each(|frame| adaptation.decide(at(frame), path));
    at(frames)
}

#[test]
fn it_falls_at_once_to_the_estimate_less_the_headroom() {
    let start = epoch();
    let mut adaptation = Adaptation::new(config(8_000_000), start);
    adaptation.decide(start + RTT, path(5_000_000, true));
    assert_eq!(adaptation.target_bps, 4_500_000);
    // And not again before that can have had an effect.
    adaptation.decide(start + RTT * 3 / 2, path(2_000_000, true));
    assert_eq!(adaptation.target_bps, 4_500_000);
    adaptation.decide(start + RTT * 2, path(2_000_000, true));
    assert_eq!(adaptation.target_bps, 1_800_000);
}

#[test]
fn it_doubles_four_times_a_second_until_the_connection_limits_it() {
    let start = epoch();
    let mut adaptation = Adaptation::new(config(1_000_000), start);
    let now = run(&mut adaptation, start, 0.6, path(50_000_000, false));
    let soon = adaptation.target_bps;
    assert!((4_500_000..=5_300_000).contains(&soon), "{soon}");
    run(&mut adaptation, now, 0.7, path(50_000_000, false));
    assert_eq!(adaptation.target_bps, 10_000_000);
}

/// One that the connection has limited to 1 Mb/s.
fn limited(start: Instant) -> Adaptation {
    let mut adaptation = Adaptation::new(config(2_000_000), start - RTT);
    adaptation.decide(start, path(1_111_112, true));
    assert_eq!(adaptation.target_bps, 1_000_000);
    adaptation
}

#[test]
fn later_it_rises_by_eight_percent_a_second_to_the_estimate_while_nothing_waits() {
    let start = epoch() + RTT;
    let mut adaptation = limited(start);
    let now = run(&mut adaptation, start, 8.0, path(2_000_000, false));
    // 1.08^8 = 1.85; a little less because it rises in steps of the deadband.
    let after_eight = adaptation.target_bps as f64 / 1e6;
    assert!((1.68..=1.85).contains(&after_eight), "{after_eight}");
    run(&mut adaptation, now, 30.0, path(3_000_000, false));
    let end = adaptation.target_bps;
    assert!((2_850_000..=3_000_000).contains(&end), "{end}");
}

#[test]
fn far_below_the_estimate_it_rises_as_fast_as_at_first_up_to_half_of_it() {
    let start = epoch() + RTT;
    let mut adaptation = limited(start);
    let now = run(&mut adaptation, start, 1.0, path(6_000_000, false));
    let soon = adaptation.target_bps;
    assert!((2_850_000..=3_200_000).contains(&soon), "{soon}");
    // From there it takes its time: 3 Mb/s x 1.08^4 = 4.1 Mb/s.
    run(&mut adaptation, now, 4.0, path(6_000_000, false));
    let later = adaptation.target_bps;
    assert!((3_700_000..=4_300_000).contains(&later), "{later}");
}

#[test]
fn a_backlog_keeps_it_below_the_estimate() {
    let start = epoch();
    let mut adaptation = Adaptation::new(config(1_000_000), start);
    run(&mut adaptation, start, 60.0, path(3_000_000, true));
    let end = adaptation.target_bps;
    assert!((2_565_000..=2_700_000).contains(&end), "{end}");
}

#[test]
fn changes_within_the_deadband_are_not_made() {
    let start = epoch();
    let mut adaptation = Adaptation::new(config(4_500_000), start);
    for (nth, estimate) in (1..).zip([4_900_000, 5_100_000, 4_800_000, 5_200_000]) {
        adaptation.decide(start + RTT * nth, path(estimate, true));
    }
    assert_eq!((adaptation.target_bps, adaptation.switches), (4_500_000, 0));
}

#[test]
fn a_backlog_that_stands_for_a_second_is_carried_away() {
    let start = epoch();
    let mut adaptation = Adaptation::new(config(2_000_000), start);
    // 40 kB wait behind a key frame, and are gone in between.
    for frame in 1..=60 {
        let waiting = if frame % 20 == 0 { 0 } else { 40_000 };
        let path = Path {
            waiting,
            ..path(2_000_000, true)
        };
        adaptation.decide(start + Duration::from_secs(1) * frame / 30, path);
    }
    assert_eq!(adaptation.target_bps, 1_800_000);
    // At least 50 kB wait for a second: 400 kb/s less.
    for frame in 61..=95 {
        let path = Path {
            waiting: 50_000 + u64::from(frame),
            ..path(2_000_000, true)
        };
        adaptation.decide(start + Duration::from_secs(1) * frame / 30, path);
    }
    let after = adaptation.target_bps;
    assert!((1_390_000..1_400_000).contains(&after), "{after}");
    // Never to less than half at once.
    let mut before = after;
    for frame in 96..=200 {
        let path = Path {
            waiting: 10_000_000,
            ..path(2_000_000, true)
        };
        adaptation.decide(start + Duration::from_secs(1) * frame / 30, path);
        assert!(adaptation.target_bps >= before / 2);
        before = adaptation.target_bps;
    }
    assert!(before < after / 2, "{before}");
}

#[test]
fn a_bitrate_that_left_a_standing_backlog_is_not_tried_again_at_once() {
    let start = epoch();
    // The round trip is short: a small window permits any bitrate.
    let permitted = Path {
        rtt: Duration::from_millis(1),
        ..path(50_000_000, false)
    };
    let mut adaptation = Adaptation::new(config(4_000_000), start);
    adaptation.ramps = false;
    let stood = Path {
        backlog: true,
        waiting: 400_000,
        ..permitted
    };
    let now = run(&mut adaptation, start, 3.1, stood);
    let low = adaptation.target_bps;
    assert!(low <= 1_000_000, "{low}");
    let now = run(&mut adaptation, now, 0.8, permitted);
    let soon = adaptation.target_bps;
    assert!((2_850_000..=3_100_000).contains(&soon), "{soon}");
    // Then by 8 % a second; after ten seconds without a backlog the path may be another.
    let now = run(&mut adaptation, now, 4.0, permitted);
    let later = adaptation.target_bps;
    assert!((3_500_000..4_200_000).contains(&later), "{later}");
    run(&mut adaptation, now, 7.0, permitted);
    assert_eq!(adaptation.target_bps, 10_000_000);
}

#[test]
fn a_group_that_was_given_up_lowers_the_bitrate_unless_the_path_is_away() {
    let start = epoch();
    for (is_alive, expected) in [(true, 2_800_000), (false, 4_000_000)] {
        let given_up = Path {
            given_up: 1,
            is_alive,
            ..path(4_000_000, true)
        };
        let mut adaptation = Adaptation::new(config(4_000_000), start);
        adaptation.decide(start, given_up);
        assert_eq!(adaptation.target_bps, expected);
        // Once.
        adaptation.decide(start, given_up);
        assert_eq!(adaptation.target_bps, expected);
    }
}

#[test]
fn a_fixed_rate_stays_whatever_the_path_is_like() {
    let start = epoch();
    let fixed = AdaptConfig {
        fixed: true,
        ..config(1_000_000)
    };
    let mut adaptation = Adaptation::new(fixed, start);
    run(&mut adaptation, start, 5.0, path(100_000, true));
    assert_eq!(
        (adaptation.target_bps, adaptation.switches),
        (10_000_000, 0)
    );
}

#[test]
fn contradictory_settings_are_refused() {
    let fine = AdaptConfig::default();
    for wrong in [
        AdaptConfig {
            ceiling_bps: 0,
            ..fine
        },
        AdaptConfig {
            ceiling_bps: 1 << 33,
            ..fine
        },
        AdaptConfig {
            floor_bps: fine.ceiling_bps + 1,
            ..fine
        },
        AdaptConfig {
            headroom: 0.0,
            ..fine
        },
        AdaptConfig {
            headroom: f64::NAN,
            ..fine
        },
        AdaptConfig {
            deadband: 0.6,
            ..fine
        },
        AdaptConfig {
            rise_per_s: 0.0,
            ..fine
        },
    ] {
        assert!(wrong.check().is_err(), "{wrong:?}");
    }
    fine.check().unwrap();
}

proptest! {
    #[test]
    fn the_bitrate_is_always_between_floor_and_ceiling(
        steps in proptest::collection::vec((any::<u64>(), any::<bool>(), 0_u64..5000), 1..100)
    ) {
        let mut now = epoch();
        let mut adaptation = Adaptation::new(AdaptConfig::default(), now);
        for (estimate, backlog, ms) in steps {
            now += Duration::from_millis(ms);
            adaptation.decide(now, path(estimate, backlog));
            prop_assert!((100_000..=3_000_000).contains(&adaptation.target_bps));
        }
    }
}
