//! Every controller of the table as noq's own connections drive it, over random paths.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_noq::controller::{Controller, ControllerRow, PathFactory, adapt};
use evenkeel_noq::{Controllers, SharedFactory, controllers, from_table};
use evenkeel_queue::{Limit, LinkConfig, Rate, Service};
use noq_proto::RttEstimator;
use noq_proto::congestion::{self, ControllerFactory, ControllerMetrics};
use proptest::prelude::*;

use super::network::Pair;

/// A factory whose controllers' answers are checked at every call.
struct CheckedFactory(SharedFactory);

impl ControllerFactory for CheckedFactory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn congestion::Controller> {
        let controller = self.0.clone().build(now, mtu);
        Box::new(Checked { controller, mtu })
    }
}

impl PathFactory for CheckedFactory {}

#[derive(Debug)]
struct Checked {
    controller: Box<dyn congestion::Controller>,
    mtu: u16,
}

impl congestion::Controller for Checked {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.controller.on_sent(now, bytes, largest_pn);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.controller
            .on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest: Option<u64>,
    ) {
        self.controller
            .on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        // What PathControl takes for the sign of a mark.
        assert_eq!(is_ecn, lost_bytes == 0);
        self.controller.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.controller.window();
        assert!(window >= 2 * u64::from(self.mtu), "{window}: too little");
        window
    }

    fn metrics(&self) -> ControllerMetrics {
        let metrics = self.controller.metrics();
        assert_eq!(metrics.congestion_window, self.window());
        assert!(metrics.pacing_rate.is_none_or(|rate| rate >= 120));
        let copy = self.controller.clone_box();
        assert_eq!(copy.window(), self.window());
        assert_eq!(copy.metrics().pacing_rate, metrics.pacing_rate);
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        let controller = self.controller.clone_box();
        Box::new(Self {
            controller,
            mtu: self.mtu,
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// One way of a path.
#[derive(Debug, Clone, Copy)]
struct Way {
    rate_bps: u64,
    queue_packets: u64,
    delay_ms: u64,
    jitter_ms: u64,
    loss: f64,
    reorder: f64,
    duplicate: f64,
}

impl Way {
    fn link(self) -> LinkConfig {
        LinkConfig {
            service: Service::Rate(Rate::new(self.rate_bps).expect("a rate")),
            limit: Limit::packets(self.queue_packets),
            delay: Duration::from_millis(self.delay_ms),
            jitter: Duration::from_millis(self.jitter_ms),
            loss: self.loss,
            reorder: self.reorder,
            duplicate: self.duplicate,
            ..LinkConfig::default()
        }
    }
}

/// Ways of 1 to 100 Mb/s that lose, reorder, duplicate and delay at random.
fn way() -> impl Strategy<Value = Way> {
    let quantities = (
        1_000_000..100_000_000_u64,
        4..100_u64,
        0..100_u64,
        0..30_u64,
    );
    let chances = (0.0..0.1, 0.0..0.05, 0.0..0.02);
    (quantities, chances).prop_map(
        |((rate_bps, queue_packets, delay_ms, jitter_ms), (loss, reorder, duplicate))| Way {
            rate_bps,
            queue_packets,
            delay_ms,
            jitter_ms,
            loss,
            reorder,
            duplicate,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn every_controller_of_the_table_carries_a_transfer_over_any_path(
        (there, back, seed) in (way(), way(), any::<u64>())
    ) {
        for row in controllers() {
            let controller = evenkeel_noq::controller(row.name).expect("a name of the table");
            let checked = Arc::new(CheckedFactory(controller));
            let mut pair = Pair::new(checked, 100_000, there.link(), back.link(), seed);
            let end = pair.now + Duration::from_secs(300);
            prop_assert!(pair.run(end), "{} came to nothing", row.name);
        }
    }
}

/// Keeps as many packets in flight, and sends them at a rate of its own.
#[derive(Debug, Clone)]
struct Fixed {
    window: u64,
    rate: Option<u64>,
}

impl Controller for Fixed {
    fn on_congestion(&mut self, _event: &evenkeel_congestion::Congestion) {}
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.rate
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

/// Seconds that 1 MB takes over a link without a rate, 20 ms there and 20 back.
fn seconds(fixed: Fixed) -> f64 {
    let factory = adapt(move |_now, _mtu| Box::new(fixed.clone()));
    let link = || LinkConfig {
        delay: Duration::from_millis(20),
        ..LinkConfig::default()
    };
    let mut pair = Pair::new(factory, 1_000_000, link(), link(), 1);
    let begin = pair.now;
    assert!(pair.run(begin + Duration::from_secs(1000)));
    (pair.now - begin).as_secs_f64()
}

#[test]
fn noq_paces_at_the_controllers_rate() {
    let (window, rate) = (1_000_000, Some(125_000));
    let took = seconds(Fixed { window, rate });
    // 8 s for 1 MB; headers of QUIC add 3 %.
    assert!((8.0..8.7).contains(&took), "{took}");
}

#[test]
fn a_window_of_n_packets_lets_n_packets_fly() {
    // A noq packet has 1200 bytes here, of which some 1160 are the stream's. The pacer does not matter.
    for packets in [2, 10] {
        let (window, rate) = (packets * 1200, Some(1_000_000_000));
        let took = seconds(Fixed { window, rate });
        let round_trips = took / 0.04;
        let needed = 1_000_000.0 / (packets as f64 * 1160.0);
        assert!(
            (0.95..1.15).contains(&(round_trips / needed)),
            "{packets}: {round_trips} for {needed}"
        );
    }
}

#[test]
fn a_window_and_a_rate_of_nothing_stop_no_connection() {
    let (window, rate) = (0, Some(0));
    let fixed = Fixed { window, rate };
    let factory = adapt(move |_now, _mtu| Box::new(fixed.clone()));
    let mut pair = Pair::new(
        factory,
        3000,
        LinkConfig::default(),
        LinkConfig::default(),
        1,
    );
    let end = pair.now + Duration::from_secs(100);
    assert!(pair.run(end));
}

#[test]
fn a_table_brings_its_own_controllers_and_names_what_is_quinns() {
    const OWN: ControllerRow = ControllerRow {
        name: "own",
        summary: "a fixed window",
        parameters: &[],
        build: evenkeel_congestion::ControllerBuild {
            uses_path: |_| false,
            factory: |_| {
                Ok(evenkeel_congestion::adapt(|_, _| {
                    let (window, rate) = (30_000, None);
                    Box::new(Fixed { window, rate })
                }))
            },
        },
    };
    const FOREIGN: ControllerRow = ControllerRow {
        name: "foreign",
        build: evenkeel_congestion::ControllerBuild {
            uses_path: |_| false,
            factory: |_| evenkeel_congestion::controller("cubic"),
        },
        ..OWN
    };
    let table = Controllers::shipped().with(OWN).with(FOREIGN);
    let own = from_table(&table, "own").expect("it is in the table");
    let built = own.build(evenkeel_tests::time::epoch(), 1200);
    assert_eq!(built.window(), 30_000);
    let error = from_table(&table, "foreign").err().expect("it is quinn's");
    assert_eq!(
        error.to_string(),
        "controller \"foreign\" is written for quinn and does not run on noq: take another, or \
         give its row a factory made with adapt"
    );
}

#[test]
fn a_server_that_begins_with_one_packet_finishes_its_handshake() {
    // A server's window that its first 1-RTT packet, here lost, filled had no room for
    // HANDSHAKE_DONE, and noq set no timer that would have sent it: nothing left any more.
    let there = Way {
        rate_bps: 1_000_000,
        queue_packets: 5,
        delay_ms: 31,
        jitter_ms: 7,
        loss: 0.050750055937846615,
        reorder: 0.037791330202672606,
        duplicate: 0.019648260603713632,
    };
    let back = Way {
        rate_bps: 88_725_732,
        queue_packets: 59,
        delay_ms: 88,
        jitter_ms: 4,
        loss: 0.06570081770720669,
        reorder: 0.010692187323089698,
        duplicate: 0.0091594937579368,
    };
    let factory = adapt(|_now, _mtu| {
        Box::new(Fixed {
            window: 1200,
            rate: None,
        })
    });
    let seed = 13_769_583_397_987_372_687;
    let mut pair = Pair::new(factory, 100_000, there.link(), back.link(), seed);
    let end = pair.now + Duration::from_secs(100);
    assert!(pair.run(end));
}
