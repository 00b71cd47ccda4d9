//! Reports what the controllers of a factory see and decide.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use super::{PathFactory, PathFeed, SharedFactory};
use crate::controller::PathSample;

/// Hears what every controller of one factory sees and decides.
///
/// It is called inside the connection's work, for every ACK frame and every batch of packets
/// sent: it must be quick and must not block.
pub trait Observer: Send + Sync {
    /// A controller was built at `now`: a connection begins, or its path has changed.
    fn on_start(&self, now: Instant) {
        let _ = now;
    }

    /// A transmit batch of `bytes` bytes of UDP payload left, packets that hold nothing but
    /// ACKs included; probes for a larger packet size are not reported.
    fn on_sent(&self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// An ACK frame was processed by the controller.
    fn on_acks(&self, report: &AckReport) {
        let _ = report;
    }

    /// A path header told of a round trip; called when its echo arrives, before the ACK of which
    /// the controller hears of it, and possibly by another thread.
    fn on_path(&self, sample: &PathSample) {
        let _ = sample;
    }

    /// Losses were found, or a mark if `lost` is 0 bytes: every detection, also those that
    /// share a recovery period.
    fn on_congestion(&self, now: Instant, lost: u64) {
        let _ = (now, lost);
    }
}

/// One ACK frame and what the controller made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct AckReport {
    /// When it was processed.
    pub now: Instant,
    /// Time since the newest of its packets was sent, the peer's acknowledgement delay included.
    pub rtt: Duration,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Window in bytes after the ACK: the controller's own, not the one that quinn is told.
    pub window: u64,
    /// Bytes in flight after the ACK.
    pub in_flight: u64,
    /// The application, not the window or the pacer, kept the connection from sending more.
    pub app_limited: bool,
}

/// A factory like `factory`, whose controllers report to `observer`.
pub fn observed(factory: SharedFactory, observer: Arc<dyn Observer>) -> SharedFactory {
    Arc::new(TapFactory { factory, observer })
}

struct TapFactory {
    factory: SharedFactory,
    observer: Arc<dyn Observer>,
}

impl ControllerFactory for TapFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl PathFactory for TapFactory {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn Controller> {
        self.observer.on_start(now);
        feed.observe(self.observer.clone());
        Box::new(Tap {
            controller: self.factory.clone().build_fed(now, current_mtu, feed),
            observer: self.observer.clone(),
            batch: None,
        })
    }
}

struct Tap {
    controller: Box<dyn Controller>,
    observer: Arc<dyn Observer>,
    batch: Option<Batch>,
}

/// What the packets of one ACK frame sum up to.
#[derive(Clone, Copy)]
struct Batch {
    now: Instant,
    /// Sending time of the newest packet.
    sent: Instant,
    /// Bytes.
    acked: u64,
}

impl Tap {
    /// One packet of an ACK frame. Without the RTT estimator, so that tests can call it.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.batch = Some(match self.batch {
            Some(batch) if batch.now == now => Batch {
                now,
                sent: batch.sent.max(sent),
                acked: batch.acked + bytes,
            },
            // What was left over belongs to a Retry, which ends without `on_end_acks`.
            _ => Batch {
                now,
                sent,
                acked: bytes,
            },
        });
    }
}

impl Controller for Tap {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.controller.on_sent(now, bytes, last_packet_number);
        self.observer.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
        self.acked(now, sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        self.controller
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
        if let Some(batch) = self.batch.take().filter(|batch| batch.now == now) {
            self.observer.on_acks(&AckReport {
                now,
                rtt: now.saturating_duration_since(batch.sent),
                acked: batch.acked,
                window: self.controller.metrics().congestion_window,
                in_flight,
                app_limited,
            });
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.controller
            .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        self.observer.on_congestion(now, lost_bytes);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.controller.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            controller: self.controller.clone_box(),
            observer: self.observer.clone(),
            batch: self.batch,
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.controller.into_any()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::FeedState;
    use super::*;
    use crate::table::controller;
    use crate::testing::{epoch, ms, path_sample};

    /// Writes down what it hears, in milliseconds since its beginning.
    struct Recorder {
        t0: Instant,
        heard: Mutex<Vec<String>>,
    }

    impl Recorder {
        fn new() -> Arc<Self> {
            Arc::new(Self {
                t0: epoch(),
                heard: Mutex::default(),
            })
        }

        fn hear(&self, now: Instant, what: &str) {
            let at = (now - self.t0).as_millis();
            self.heard
                .lock()
                .expect("no test panics in here")
                .push(format!("{at}: {what}"));
        }

        fn heard(&self) -> Vec<String> {
            std::mem::take(&mut self.heard.lock().expect("no test panics in here"))
        }
    }

    impl Observer for Recorder {
        fn on_start(&self, now: Instant) {
            self.hear(now, "start");
        }

        fn on_sent(&self, now: Instant, bytes: u64) {
            self.hear(now, &format!("sent {bytes}"));
        }

        fn on_acks(&self, report: &AckReport) {
            let AckReport {
                now,
                rtt,
                acked,
                window,
                in_flight,
                app_limited,
            } = report;
            self.hear(
                *now,
                &format!("acked {acked} after {rtt:?}, {in_flight} of {window} in flight, limited {app_limited}"),
            );
        }

        fn on_path(&self, sample: &PathSample) {
            self.hear(sample.now, &format!("path {:?}", sample.rtt));
        }

        fn on_congestion(&self, now: Instant, lost: u64) {
            self.hear(now, &format!("lost {lost}"));
        }
    }

    /// Reno, of which `recorder` hears.
    fn tapped(recorder: &Arc<Recorder>) -> Tap {
        Tap {
            controller: controller("reno")
                .expect("a name of the table")
                .build(recorder.t0, 1200),
            observer: recorder.clone(),
            batch: None,
        }
    }

    #[test]
    fn an_observer_hears_of_every_path_sample_also_where_the_controller_takes_none() {
        for name in ["vegas", "cubic"] {
            let recorder = Recorder::new();
            let t0 = recorder.t0;
            let feed = PathFeed::default();
            let observed = observed(controller(name).expect("a name"), recorder.clone());
            let _controller = observed.build_fed(t0, 1200, feed.clone());
            for nth in 1..=FeedState::MOST_WAITING as u64 + 1 {
                feed.push(PathSample {
                    now: t0 + ms(nth),
                    rtt: ms(7),
                    ..path_sample()
                });
            }
            let heard = recorder.heard();
            assert_eq!(heard.len(), FeedState::MOST_WAITING + 2, "{name}");
            assert_eq!(heard[1], "1: path 7ms", "{name}");
        }
    }

    #[test]
    fn an_observer_hears_what_happens_and_the_controllers_own_window() {
        let recorder = Recorder::new();
        let t0 = recorder.t0;
        let mut tap = tapped(&recorder);
        tap.on_sent(t0, 2400, 1);
        tap.acked(t0 + ms(40), t0 + ms(1), 1200);
        tap.acked(t0 + ms(40), t0, 1200);
        tap.on_end_acks(t0 + ms(40), 3600, true, Some(1));
        tap.on_congestion_event(t0 + ms(50), t0 + ms(2), false, 1200);
        tap.on_congestion_event(t0 + ms(50), t0 + ms(2), false, 0);
        assert_eq!(
            recorder.heard(),
            [
                "0: sent 2400",
                "40: acked 2400 after 39ms, 3600 of 12000 in flight, limited true",
                "50: lost 1200",
                "50: lost 0",
            ]
        );
        assert_eq!((tap.window(), tap.initial_window()), (6001, 12_000));
    }

    #[test]
    fn what_a_retry_leaves_over_is_not_reported() {
        let recorder = Recorder::new();
        let t0 = recorder.t0;
        let mut tap = tapped(&recorder);
        tap.acked(t0 + ms(40), t0, 1200);
        tap.on_end_acks(t0 + ms(80), 0, true, None);
        tap.acked(t0 + ms(90), t0, 1200);
        tap.acked(t0 + ms(100), t0 + ms(60), 1000);
        tap.on_end_acks(t0 + ms(100), 0, true, Some(1));
        assert_eq!(
            recorder.heard(),
            ["100: acked 1000 after 40ms, 0 of 12000 in flight, limited true"]
        );
    }

    #[test]
    fn every_row_can_be_observed_connection_by_connection() {
        for row in crate::table::controllers() {
            let recorder = Recorder::new();
            let t0 = recorder.t0;
            let plain = controller(row.name).expect("a name of the table");
            let observed = observed(plain.clone(), recorder.clone());
            let mut first = observed.clone().build(t0, 1200);
            let second = observed.build(t0 + ms(5), 1200);
            assert_eq!(recorder.heard(), ["0: start", "5: start"], "{}", row.name);
            first.on_sent(t0 + ms(6), 1200, 0);
            first.on_mtu_update(1400);
            first.on_congestion_event(t0 + ms(50), t0 + ms(6), true, 1200);
            let copy = first.clone_box();
            assert_eq!(
                recorder.heard(),
                ["6: sent 1200", "50: lost 1200"],
                "{}",
                row.name
            );
            assert_eq!(copy.window(), first.window());
            assert!(
                first.window() > 1400 && first.window() <= second.window().max(2 * 1400 + 1),
                "{}",
                row.name
            );
        }
    }
}
