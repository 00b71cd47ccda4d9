//! Makes a quinn controller of a [`Controller`]. Nothing else in this crate imports quinn-proto.
//!
//! What quinn-proto 0.11.19 does (`connection/mod.rs`), and how the adapter handles it:
//!
//! - `on_ack_received` calls `on_ack` for each packet, then `on_end_acks` with the bytes in flight
//!   *after* it removed the packets, then `on_congestion_event` if it finds losses or marks. The
//!   adapter gathers the packets into one [`Ack`]. In flight before = after + acknowledged.
//! - At a Retry, `on_ack` comes without `on_end_acks`. The adapter forgets packets that it gathered
//!   at an earlier instant. ACKs of ACK-only packets, and ACKs that arrive while quinn validates a
//!   new path, bring `on_end_acks` without `on_ack`. They make no event.
//! - quinn updates the RTT estimator of `on_ack` only after `on_end_acks`, and the estimator does
//!   not reveal its last sample. The adapter's sample is now - sending time of the newest packet.
//!   A late ACK gives none ([`FeedState::set_repeated`]). quinn's own estimate includes late ACKs,
//!   as RFC 9002, section 5.3, says: delays beyond `max_ack_delay` count as the path's. A
//!   controller that looks for queues would see seconds of queueing where an ACK was lost.
//! - quinn calls `on_congestion_event` for every detection, even if several belong to one recovery
//!   period. The adapter reports one event per period. A period begins with the event and covers
//!   packets sent up to then (RFC 9002, section 7.3.2). 0 lost bytes mean ECN.
//! - A packet leaves while in flight + a full packet < window, *strictly*. A window of n packets
//!   would let n - 1 fly, and a window of one packet none. The adapter gives quinn the window + 1
//!   byte, and never less than one packet + 1. `ControllerMetrics`, and so qlog, has the
//!   controller's own window.
//! - A path that changed more than its port gets a controller built anew; otherwise a clone.

mod deliveries;
mod feed;
mod observer;
mod rounds;
mod tap;

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{self, BbrConfig, ControllerFactory, ControllerMetrics, CubicConfig};

use crate::controller::{Ack, Cause, Congestion, Controller, DEFAULT_OVERHEAD};
use deliveries::Deliveries;
use rounds::Rounds;

pub use feed::{FeedHolder, FeedState, PathFeed};
pub use observer::{AckReport, Observer};
pub use tap::observed;

/// A factory of quinn controllers, as `quinn::TransportConfig::congestion_controller_factory`
/// takes it.
pub type SharedFactory = Arc<dyn PathFactory + Send + Sync>;

/// A factory of quinn controllers which can be told what quinn cannot tell them.
pub trait PathFactory: ControllerFactory {
    /// Builds a controller like [`ControllerFactory::build`] does; it hears of its path through
    /// `feed`, before each ACK that it processes.
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller>;

    /// Whether its controllers decide the same again if they are told the same. `false` for those
    /// that draw random numbers of their own, which no seed reaches.
    fn repeats(&self) -> bool {
        true
    }
}

/// A factory of quinn controllers that run what `build` returns.
///
/// `build` is called for every new path, with the present time and the bytes of UDP payload
/// in a full-size packet.
pub fn adapt<B>(build: B) -> SharedFactory
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    Arc::new(Factory { build })
}

/// Wraps a factory that is written for quinn. Its controllers learn nothing from path headers.
pub fn foreign(factory: Arc<dyn ControllerFactory + Send + Sync>) -> SharedFactory {
    Arc::new(Foreign {
        factory,
        repeats: true,
    })
}

/// quinn's own CUBIC.
pub(crate) fn quinn_cubic() -> SharedFactory {
    foreign(Arc::new(CubicConfig::default()))
}

/// quinn's own BBR. It seeds a generator from the operating system, and has no setting for it
/// (quinn-proto 0.11.19, `Bbr::new`): runs do not repeat.
pub(crate) fn quinn_bbr() -> SharedFactory {
    Arc::new(Foreign {
        factory: Arc::new(BbrConfig::default()),
        repeats: false,
    })
}

struct Factory<B> {
    build: B,
}

impl<B> ControllerFactory for Factory<B>
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl<B> PathFactory for Factory<B>
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller> {
        let controller = (self.build)(now, current_mtu);
        feed.follow(controller.follows());
        Box::new(Adapter {
            feed,
            ..Adapter::new(controller, now, current_mtu)
        })
    }
}

struct Foreign {
    factory: Arc<dyn ControllerFactory + Send + Sync>,
    repeats: bool,
}

impl ControllerFactory for Foreign {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        self.factory.clone().build(now, current_mtu)
    }
}

impl PathFactory for Foreign {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller> {
        feed.follow(None);
        self.build(now, current_mtu)
    }

    fn repeats(&self) -> bool {
        self.repeats
    }
}

/// One of our controllers as quinn sees it.
#[derive(Debug)]
struct Adapter {
    controller: Box<dyn Controller>,
    feed: PathFeed,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes that each full-size packet adds to its UDP payload, as the controller knows them.
    overhead: u16,
    /// Bytes.
    initial_window: u64,
    /// When the current recovery period began; packets sent up to then belong to it.
    recovery_start: Option<Instant>,
    /// The latest sending time of any acknowledged packet.
    newest_acked: Option<Instant>,
    /// Packets of the ACK frame being processed.
    batch: Option<Batch>,
    rounds: Rounds,
    deliveries: Deliveries,
}

impl Adapter {
    fn new(controller: Box<dyn Controller>, now: Instant, mtu: u16) -> Self {
        Self {
            initial_window: controller.window(),
            controller,
            feed: PathFeed::default(),
            mtu,
            overhead: DEFAULT_OVERHEAD,
            recovery_start: None,
            newest_acked: None,
            batch: None,
            rounds: Rounds::new(now),
            deliveries: Deliveries::new(now),
        }
    }

    /// Takes in one packet of an ACK frame. Tests call it: they cannot make an RTT estimator.
    fn acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        let after_recovery = if self.in_recovery(sent) { 0 } else { bytes };
        match &mut self.batch {
            Some(batch) if batch.now == now => {
                // Of packets that left at the same time the largest: the ACK is for all of them.
                (batch.sent, batch.newest_bytes) =
                    (batch.sent, batch.newest_bytes).max((sent, bytes));
                batch.packets += 1;
                batch.bytes += bytes;
                batch.bytes_after_recovery += after_recovery;
            }
            stale_or_none => {
                *stale_or_none = Some(Batch {
                    now,
                    sent,
                    newest_bytes: bytes,
                    packets: 1,
                    bytes,
                    bytes_after_recovery: after_recovery,
                });
            }
        }
    }

    fn begin_recovery(&mut self, now: Instant) {
        self.recovery_start = Some(now);
        self.rounds.on_recovery(now);
    }

    /// Whether a packet sent at `sent` belongs to the current recovery period or an earlier one.
    fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }
}

impl congestion::Controller for Adapter {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.deliveries.on_sent(now, bytes);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        _app_limited: bool,
        _rtt: &RttEstimator,
    ) {
        self.acked(now, sent, bytes);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_acked: Option<u64>,
    ) {
        let Some(batch) = self.batch.take().filter(|batch| batch.now == now) else {
            return;
        };
        let in_order = self.newest_acked.is_none_or(|newest| batch.sent >= newest);
        if in_order {
            self.newest_acked = Some(batch.sent);
        }
        let delivery = self
            .deliveries
            .on_ack(now, batch.sent, batch.bytes, in_flight, app_limited);
        let has_sample = in_order && !self.feed.is_repeated(largest_acked);
        let ack = Ack {
            now,
            sent: batch.sent,
            rtt: has_sample.then(|| now.saturating_duration_since(batch.sent)),
            newest_bytes: batch.newest_bytes,
            packets: batch.packets,
            bytes: batch.bytes,
            bytes_after_recovery: batch.bytes_after_recovery,
            in_flight: in_flight.saturating_add(batch.bytes),
            app_limited,
            delivery: delivery.filter(|_| in_order),
        };
        let (overhead, samples) = self.feed.take();
        if overhead != self.overhead {
            self.overhead = overhead;
            self.controller.on_overhead(overhead);
        }
        for sample in samples {
            self.controller.on_path(&sample);
        }
        let window = self.controller.window();
        self.controller.on_ack(&ack);
        if let Some(round) = self.rounds.on_ack(&ack, window, self.mtu) {
            self.controller.on_round(&round);
        }
        self.feed.ask_for_headers(self.controller.header_interval());
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        // A Retry left what is still gathered: quinn reports losses after `on_end_acks`.
        self.batch = None;
        if lost_bytes > 0 {
            self.rounds.on_lost(lost_bytes);
            self.controller.on_lost(now, lost_bytes);
        }
        if !self.in_recovery(sent) {
            self.begin_recovery(now);
            self.controller.on_congestion(&Congestion {
                now,
                cause: if lost_bytes == 0 {
                    Cause::Ecn
                } else {
                    Cause::Loss
                },
                lost: lost_bytes,
            });
        }
        // RFC 9002, appendix B.8: this collapses the window even within a recovery period.
        if is_persistent_congestion {
            self.controller.on_persistent_congestion();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.controller.on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.controller
            .window()
            .max(u64::from(self.mtu))
            .saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.controller.window();
        metrics.ssthresh = self.controller.slow_start_threshold();
        metrics.pacing_rate = self
            .controller
            .pacing_rate()
            .map(|bytes| bytes.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(Self {
            controller: self.controller.clone_box(),
            feed: self.feed.clone(),
            batch: self.batch.clone(),
            rounds: self.rounds.clone(),
            deliveries: self.deliveries.clone(),
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Packets of one ACK frame, gathered until quinn says that it was the last one.
#[derive(Debug, Clone)]
struct Batch {
    now: Instant,
    /// Sending time of the newest packet.
    sent: Instant,
    /// Its size.
    newest_bytes: u64,
    packets: u64,
    bytes: u64,
    bytes_after_recovery: u64,
}

#[cfg(test)]
mod tests;
