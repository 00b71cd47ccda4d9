//! Retransmission timeouts of TCP around a controller.
//!
//! quinn does not report probe timeouts to controllers, but only their packets leave beyond the
//! window. [`Timer`] finds them around the adapter that makes a quinn controller of ours. A
//! timeout reaches the adapter as persistent congestion, which also begins a recovery period: what
//! was sent until then and turns out lost is no further congestion. [`WithTimeouts`], inside the
//! adapter, tells timeouts from true persistent congestion by a flag that both share.

mod silence;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use evenkeel_congestion::abgd::Abgd;
use evenkeel_congestion::gaimd::Gaimd;
use evenkeel_congestion::{
    Ack, Congestion, Controller, PathFactory, PathFeed, Round, SharedFactory, adapt,
};
use evenkeel_congestion::{SpecParameter, SpecValues};
use quinn::congestion::{self, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use silence::Silence;

pub(super) const TIMEOUT: SpecParameter = SpecParameter::choice(
    "timeout",
    "what a probe timeout does: nothing; or each collapses the window as in ns-2's TCP; and so do three losses in a window, as without SACK",
    &["quic", "tcp", "reno"],
    Some("quic"),
);

/// Packets lost of one window that TCP without SACK recovers from without a retransmission timeout
/// (K. Fall and S. Floyd, "Simulation-based Comparisons of Tahoe, Reno, and SACK TCP", 1996).
const REPAIRABLE: u64 = 2;

/// What collapses the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeouts {
    /// Only persistent congestion (RFC 9002, section 7.6).
    Quic,
    /// Every probe timeout, as in ns-2's TCP. RFC 5681, section 3.1, would reduce the threshold
    /// only at the first of several.
    Tcp,
    /// Also more than two packets lost of one window, because TCP without SACK mostly waits for
    /// its retransmission timeout then.
    Reno,
}

/// A controller that has TCP's retransmission timeout.
pub(super) trait TcpController: Controller + Clone + 'static {
    /// Reduces the threshold as at a loss, every time, and leaves the minimum window.
    fn on_timeout(&mut self, event: &Congestion) {
        self.on_congestion(event);
        self.on_persistent_congestion();
    }
}

impl TcpController for Gaimd {}
impl TcpController for Abgd {}

/// A factory for what `build` returns for a packet size, with the timeouts that `values` asks for.
pub(super) fn with_timeouts<C: TcpController>(
    values: &SpecValues,
    build: impl Fn(u16) -> C + Clone + Send + Sync + 'static,
) -> SharedFactory {
    let kinds = [Timeouts::Quic, Timeouts::Tcp, Timeouts::Reno];
    match values.choice("timeout", &kinds) {
        Timeouts::Quic => adapt(move |_, mtu| Box::new(build(mtu))),
        timeouts => Arc::new(Factory(Box::new(move |now, mtu, feed| {
            let adapter = |factory: SharedFactory| factory.build_fed(now, mtu, feed);
            Box::new(Timer::new(timeouts, now, mtu, build.clone(), adapter))
        }))),
    }
}

/// Builds a controller for a path that begins now, from the bytes of a full-size packet.
type Build = dyn Fn(Instant, u16, PathFeed) -> Box<dyn congestion::Controller> + Send + Sync;

struct Factory(Box<Build>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl PathFactory for Factory {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller> {
        (self.0)(now, current_mtu, feed)
    }
}

/// A controller that learns of timeouts from a [`Timer`].
#[derive(Debug, Clone)]
struct WithTimeouts<C> {
    controller: C,
    /// The next events stand for a timeout.
    timed_out: Arc<AtomicBool>,
    /// The newest congestion event.
    newest: Option<Congestion>,
}

impl<C: TcpController> Controller for WithTimeouts<C> {
    fn on_ack(&mut self, ack: &Ack) {
        self.controller.on_ack(ack);
    }

    fn on_round(&mut self, round: &Round) {
        self.controller.on_round(round);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.newest = Some(event.clone());
        if !self.timed_out.load(Ordering::Relaxed) {
            self.controller.on_congestion(event);
        }
    }

    fn on_persistent_congestion(&mut self) {
        if self.timed_out.swap(false, Ordering::Relaxed) {
            let event = self.newest.as_ref();
            let event = event.expect("a congestion event begins each recovery period");
            self.controller.on_timeout(event);
        } else {
            self.controller.on_persistent_congestion();
        }
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.controller.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.controller.window()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.controller.slow_start_threshold()
    }
}

/// Finds timeouts, and reports them to the adapter of a [`WithTimeouts`].
struct Timer {
    adapter: Box<dyn congestion::Controller>,
    timed_out: Arc<AtomicBool>,
    /// More losses than TCP can repair are a timeout.
    after_losses: bool,
    silence: Silence,
    /// When the ACK frame that is being processed arrived, and when its newest packet was sent.
    newest_acked: Option<(Instant, Instant)>,
    /// When the current recovery period began; packets sent up to then belong to it.
    recovery_start: Option<Instant>,
    /// Bytes found lost in the current recovery period.
    lost_in_recovery: u64,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
}

impl Timer {
    /// Around what `adapter` makes of a factory for `build`.
    fn new<C: TcpController>(
        timeouts: Timeouts,
        now: Instant,
        mtu: u16,
        build: impl Fn(u16) -> C + Send + Sync + 'static,
        adapter: impl FnOnce(SharedFactory) -> Box<dyn congestion::Controller>,
    ) -> Self {
        let timed_out = Arc::<AtomicBool>::default();
        let flag = timed_out.clone();
        let factory = adapt(move |_, mtu| {
            Box::new(WithTimeouts {
                controller: build(mtu),
                timed_out: flag.clone(),
                newest: None,
            })
        });
        Self {
            adapter: adapter(factory),
            timed_out,
            after_losses: timeouts == Timeouts::Reno,
            silence: Silence::new(now),
            newest_acked: None,
            recovery_start: None,
            lost_in_recovery: 0,
            mtu,
        }
    }

    /// Reports a timeout to the controller; packets sent at `sent` belong to its congestion.
    fn time_out(&mut self, now: Instant, sent: Instant) {
        self.timed_out.store(true, Ordering::Relaxed);
        self.adapter.on_congestion_event(now, sent, true, 0);
    }

    /// Counts `bytes` lost of packets sent up to `sent`. Returns whether they are a timeout: once
    /// per recovery period.
    fn lose(&mut self, now: Instant, sent: Instant, bytes: u64) -> bool {
        if self.recovery_start.is_none_or(|start| sent > start) {
            self.recovery_start = Some(now);
            self.lost_in_recovery = 0;
        }
        let before = self.lost_in_recovery;
        self.lost_in_recovery = before.saturating_add(bytes);
        let repairable = REPAIRABLE * u64::from(self.mtu);
        self.after_losses && before <= repairable && self.lost_in_recovery > repairable
    }
}

impl congestion::Controller for Timer {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.adapter.on_sent(now, bytes, last_packet_number);
        if self.silence.on_sent(now, bytes, self.adapter.window()) {
            self.newest_acked = None;
            self.time_out(now, now);
            self.recovery_start = Some(now);
            // The timeout answers all losses of its recovery period, however many.
            self.lost_in_recovery = u64::MAX;
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.newest_acked = match self.newest_acked {
            Some((at, newest)) if at == now => Some((now, newest.max(sent))),
            _ => Some((now, sent)),
        };
        self.adapter.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        if let Some((at, sent)) = self.newest_acked.take()
            && at == now
        {
            self.silence.on_ack(now, sent, in_flight);
        }
        self.adapter
            .on_end_acks(now, in_flight, app_limited, largest_packet_num_acked);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        self.newest_acked = None;
        self.silence.on_lost(lost_bytes);
        let timed_out = self.lose(now, sent, lost_bytes);
        self.adapter
            .on_congestion_event(now, sent, false, lost_bytes);
        if timed_out {
            self.time_out(now, sent);
        }
        if is_persistent_congestion {
            self.adapter.on_congestion_event(now, sent, true, 0);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.adapter.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.adapter.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.adapter.metrics()
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(Self {
            adapter: self.adapter.clone_box(),
            timed_out: self.timed_out.clone(),
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        self.adapter.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests;
