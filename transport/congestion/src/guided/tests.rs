//! Tests of `guided.rs`.

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::controller::Grant;
use crate::testing::{ack, epoch, loss, ms, path_sample, round};
use crate::vegas::{self, Vegas};
use crate::window::InitialWindow;

const MTU: u16 = 1000;

/// Takes the window that it is granted, in 256ths of a byte.
#[derive(Debug, Clone, Default)]
struct Obedient {
    window: f64,
}

impl Rule for Obedient {
    const FOLLOWS: Feedback = Feedback::Xcp;

    fn on_path(&mut self, sample: &PathSample) -> bool {
        if let Some(Grant::WindowChange(window)) = sample.grant {
            self.window = window as f64 / 256.0;
        }
        sample.grant.is_some()
    }

    fn next(&mut self, _window: f64, _facts: &Facts<'_>) -> f64 {
        self.window
    }
}

const TEN: Config = Config {
    fallback: FallbackKind::Vegas,
    initial_window: InitialWindow::Packets(10),
    bound: InitialWindow::Rfc9002,
};

fn guided() -> Guided<Obedient> {
    Guided::new(Obedient::default(), TEN, MTU)
}

/// A sample at `now` that grants a window of `bytes` bytes on a path of 100 ms.
fn grant(now: Instant, bytes: i64) -> PathSample {
    PathSample {
        now,
        grant: Some(Grant::WindowChange(256 * bytes)),
        forward_queueing: None,
        backward_queueing: None,
        ..path_sample()
    }
}

/// Hears of a window of `bytes` bytes at `now`, then of an ACK for two packets of as many as
/// the window allows.
fn follow(guided: &mut Guided<Obedient>, now: Instant, bytes: i64) {
    guided.on_path(&grant(now, bytes));
    guided.on_ack(&Ack {
        in_flight: guided.in_force(),
        ..ack(now, 100, 2000)
    });
}

#[test]
fn an_ack_that_a_busy_machine_dates_too_early_takes_nothing_off_a_round_trip_of_headers() {
    let t0 = epoch();
    let mut guided = guided();
    guided.on_ack(&ack(t0, 110, 2000));
    assert_eq!(guided.rtts().base, ms(110), "there are ACKs only");
    follow(&mut guided, t0 + ms(100), 7000);
    // On a path of 100 ms: the process read its clock, and its socket 85 ms later.
    guided.on_ack(&ack(t0 + ms(200), 15, 2000));
    assert_eq!(guided.rtts().base, ms(100));
}

#[test]
fn the_rule_takes_over_with_the_first_grant_and_the_fallback_when_it_has_expired() {
    let t0 = epoch();
    let mut guided = guided();
    guided.on_ack(&ack(t0, 100, 2000));
    assert_eq!((guided.window(), guided.pacing_rate()), (10_000, None));
    follow(&mut guided, t0 + ms(100), 7000);
    // A packet more may be in flight. 7000 bytes in 100 ms.
    assert_eq!(
        (guided.window(), guided.pacing_rate()),
        (8000, Some(70_000))
    );
    // Four round trips.
    guided.on_ack(&ack(t0 + ms(500), 100, 2000));
    assert_eq!(guided.window(), 8000);
    guided.on_ack(&ack(t0 + ms(501), 100, 2000));
    assert_eq!((guided.window(), guided.pacing_rate()), (7000, None));
    assert_eq!(
        guided.slow_start_threshold(),
        Some(7000),
        "congestion avoidance"
    );
    guided.on_round(&round(100));
    assert_eq!(guided.window(), 8000, "Vegas goes on from there");
    follow(&mut guided, t0 + ms(600), 5200);
    assert_eq!(guided.window(), 7000, "six whole packets and one");
}

#[test]
fn what_has_expired_does_not_come_back_when_round_trips_grow() {
    let t0 = epoch();
    let mut guided = guided();
    follow(&mut guided, t0, 7000);
    guided.on_ack(&ack(t0 + ms(401), 100, 2000));
    assert!(guided.guidance.is_none());
    guided.on_ack(&ack(t0 + ms(402), 900, 2000));
    assert!(guided.guidance.is_none());
}

#[test]
fn the_rule_takes_over_with_data_sent_after_a_recovery_period_began() {
    let t0 = epoch();
    let mut guided = guided();
    guided.on_path(&grant(t0, 7000));
    guided.on_ack(&Ack {
        bytes_after_recovery: 0,
        ..ack(t0, 100, 2000)
    });
    assert_eq!((guided.window(), guided.pacing_rate()), (10_000, None));
    guided.on_ack(&ack(t0, 100, 2000));
    assert_eq!(guided.window(), 8000);
}

#[test]
fn a_path_header_without_a_grant_is_none() {
    let t0 = epoch();
    let mut guided = guided();
    guided.on_path(&path_sample());
    guided.on_ack(&ack(t0, 100, 2000));
    assert!(guided.guidance.is_none());
}

#[test]
fn routers_double_the_window_at_most_in_a_round_trip_until_a_loss() {
    let t0 = epoch();
    let mut guided = guided();
    for doubled in [20_000_u64, 40_000, 80_000] {
        let acks = guided.window().max(10_000) / 2000;
        for _ in 0..acks {
            guided.on_path(&grant(t0, i64::MAX / 256));
            guided.on_ack(&Ack {
                in_flight: guided.window(),
                ..ack(t0, 100, 2000)
            });
        }
        assert_eq!(guided.window(), doubled);
        assert_eq!(guided.pacing_rate(), Some(doubled * 10));
    }
    guided.on_congestion(&loss());
    assert_eq!(guided.window(), 40_000);
    assert_eq!(guided.pacing_rate(), Some(400_000));
    assert_eq!(guided.slow_start_threshold(), Some(40_000));
    // A packet more per window acknowledged.
    for _ in 0..20 {
        guided.on_path(&grant(t0, i64::MAX / 256));
        guided.on_ack(&Ack {
            in_flight: 40_000,
            ..ack(t0, 100, 2000)
        });
    }
    assert_eq!(guided.window(), 41_000);
    guided.on_persistent_congestion();
    assert_eq!(
        (guided.window(), guided.pacing_rate()),
        (2000, Some(20_000))
    );
}

#[test]
fn a_loss_halves_what_was_in_force_not_what_might_have_been() {
    let t0 = epoch();
    let mut guided = guided();
    for _ in 0..20 {
        follow(&mut guided, t0, 6000);
    }
    assert_eq!(
        guided.bound.window(),
        14_000,
        "as long as half of it was in use"
    );
    guided.on_congestion(&loss());
    assert_eq!((guided.in_force(), guided.window()), (3000, 3000));
    assert_eq!(guided.pacing_rate(), Some(30_000));
}

#[test]
fn below_a_packet_the_rate_decides_and_has_a_least_value() {
    let t0 = epoch();
    let mut guided = guided();
    follow(&mut guided, t0, 250);
    assert_eq!(
        (guided.window(), guided.pacing_rate()),
        (2000, Some(2500)),
        "a quarter of a packet in 100 ms"
    );
    for nothing in [0, -5, i64::MIN / 256] {
        follow(&mut guided, t0, nothing);
        assert_eq!(
            (guided.window(), guided.pacing_rate()),
            (1000, Some(1000)),
            "a packet a second"
        );
    }
    // Where feedback holds for longer, a packet in that time.
    let mut far = self::guided();
    far.on_path(&PathSample {
        rtt: ms(500),
        ..grant(t0, 0)
    });
    far.on_ack(&ack(t0, 500, 2000));
    assert_eq!(far.pacing_rate(), Some(500));
}

/// Ten bytes for each millisecond of the empty round trip.
#[derive(Debug, Clone)]
struct Measure;

impl Rule for Measure {
    const FOLLOWS: Feedback = Feedback::Acp;

    fn on_path(&mut self, _sample: &PathSample) -> bool {
        true
    }

    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64 {
        if facts.ack.bytes == 0 {
            return window;
        }
        facts.rtts.base.as_secs_f64() * 10_000.0
    }
}

#[test]
fn queueing_that_routers_tell_is_no_part_of_the_empty_round_trip() {
    let t0 = epoch();
    // (queueing there and back of 100 ms, window): at most half of it is believed.
    for (forward, backward, window) in [(0, 0, 1000), (10, 30, 600), (10, 60, 500), (100, 0, 500)] {
        let mut guided = Guided::new(Measure, TEN, MTU);
        guided.on_path(&PathSample {
            forward_queueing: Some(ms(forward)),
            backward_queueing: Some(ms(backward)),
            ..grant(t0, 0)
        });
        guided.on_ack(&ack(t0, 100, 2000));
        assert_eq!(guided.in_force(), window);
        assert_eq!(guided.pacing_rate(), Some(window * 10), "in 100 ms");
    }
}

#[test]
fn another_empty_round_trip_changes_the_window_and_not_the_rate() {
    let t0 = epoch();
    let mut guided = Guided::new(Measure, TEN, MTU);
    let mut hear = |rtt, forward, bytes| {
        guided.on_path(&PathSample {
            rtt: ms(rtt),
            forward_queueing: Some(ms(forward)),
            ..grant(t0, 0)
        });
        guided.on_ack(&ack(t0, rtt, bytes));
        (guided.in_force(), guided.pacing_rate())
    };
    assert_eq!(hear(200, 0, 2000), (2000, Some(10_000)));
    assert_eq!(hear(160, 0, 0), (1600, Some(10_000)), "a shorter route");
    assert_eq!(
        hear(160, 40, 0),
        (1200, Some(7500)),
        "a queue on a yet shorter one"
    );
    assert_eq!(
        hear(240, 120, 0),
        (1200, Some(5000)),
        "it leaves in a round trip as it is"
    );
}

#[test]
fn a_rule_may_heed_a_part_of_the_newest_queueing_time() {
    /// Half of it.
    #[derive(Debug, Clone)]
    struct Half;

    impl Rule for Half {
        const FOLLOWS: Feedback = Feedback::Acp;

        fn on_path(&mut self, _sample: &PathSample) -> bool {
            true
        }

        fn next(&mut self, _window: f64, _facts: &Facts<'_>) -> f64 {
            2000.0
        }

        fn queueing_share(packets: f64) -> f64 {
            assert_eq!(packets, 2.0);
            0.5
        }
    }
    let t0 = epoch();
    let mut guided = Guided::new(Half, TEN, MTU);
    // (round trip of the header, rate in bytes per second): the empty path has 100 ms.
    for (rtt, rate) in [(100, 20_000), (300, 10_000), (700, 5000)] {
        guided.on_path(&PathSample {
            rtt: ms(rtt),
            ..grant(t0, 0)
        });
        guided.on_ack(&ack(t0, rtt, 2000));
        assert_eq!(guided.pacing_rate(), Some(rate), "{rtt} ms");
    }
}

#[test]
fn where_nobody_lies_a_first_grant_may_take_more_than_slow_start() {
    let t0 = epoch();
    for (bound, window) in [
        (InitialWindow::Rfc9002, 12_000),
        (InitialWindow::Packets(300), 300_000),
    ] {
        let mut guided = Guided::new(Obedient::default(), Config { bound, ..TEN }, MTU);
        guided.on_path(&grant(t0, 900_000));
        guided.on_ack(&Ack {
            in_flight: 10_000,
            ..ack(t0, 100, 2000)
        });
        assert_eq!(guided.window(), window, "{bound:?}");
        guided.on_congestion(&loss());
        assert_eq!(guided.window(), window / 2, "{bound:?}");
    }
}

#[test]
fn the_fallback_can_be_reno() {
    let reno = Config {
        fallback: FallbackKind::Reno,
        ..TEN
    };
    let t0 = epoch();
    let mut guided = Guided::new(Obedient::default(), reno, MTU);
    guided.on_ack(&ack(t0, 100, 2000));
    assert_eq!(guided.window(), 12_000);
    follow(&mut guided, t0, 6000);
    guided.on_ack(&ack(t0 + ms(1000), 100, 6000));
    assert_eq!(guided.window(), 6000);
    guided.on_ack(&ack(t0 + ms(1000), 100, 6000));
    assert_eq!(guided.window(), 7000);
}

#[test]
fn packets_of_another_size_change_the_least_window_and_the_share_of_payload() {
    #[derive(Debug, Clone)]
    struct Payload;

    impl Rule for Payload {
        const FOLLOWS: Feedback = Feedback::Acp;

        fn on_path(&mut self, _sample: &PathSample) -> bool {
            true
        }

        fn next(&mut self, _window: f64, facts: &Facts<'_>) -> f64 {
            facts.payload * 10_000.0
        }
    }
    let t0 = epoch();
    let mut guided = Guided::new(Payload, TEN, MTU);
    let window = |guided: &mut Guided<Payload>| {
        guided.on_path(&grant(t0, 0));
        guided.on_ack(&ack(t0, 100, 2000));
        guided.in_force()
    };
    assert_eq!(window(&mut guided), 9433, "10000 x 1000 / 1060");
    guided.on_overhead(80);
    assert_eq!(window(&mut guided), 9259, "10000 x 1000 / 1080");
    guided.on_mtu(1420);
    assert_eq!(window(&mut guided), 9466, "10000 x 1420 / 1500");
}

proptest! {
    #[test]
    fn without_grants_it_is_the_fallback(
        events in prop::collection::vec((0_u8..8, 1_u64..400, 0_u64..40_000, any::<bool>()), 1..200),
    ) {
        let t0 = epoch();
        let mut guided = guided();
        let mut vegas = Vegas::new(vegas::Config { initial_window: InitialWindow::Packets(10), ..vegas::Config::VEGAS_1 }, MTU);
        for (at, (event, rtt, bytes, flag)) in events.into_iter().enumerate() {
            let now = t0 + ms(400 + at as u64 * 10);
            let both: [&mut dyn Controller; 2] = [&mut guided, &mut vegas];
            for controller in both {
                match event {
                    0..3 => controller.on_ack(&Ack { app_limited: flag, ..ack(now, rtt, bytes) }),
                    3..6 => controller.on_round(&Round { now, in_recovery: flag, ..round(rtt) }),
                    6 if flag => controller.on_congestion(&loss()),
                    6 => controller.on_persistent_congestion(),
                    _ => controller.on_path(&PathSample { now, rtt: ms(rtt), ..path_sample() }),
                }
            }
            prop_assert_eq!(guided.window(), vegas.window());
            prop_assert_eq!(guided.slow_start_threshold(), vegas.slow_start_threshold());
            prop_assert_eq!(guided.pacing_rate(), None);
        }
    }
}
