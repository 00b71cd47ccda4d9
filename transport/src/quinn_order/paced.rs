//! Wraps a quinn controller: sets the rate of the connection's token bucket, and lets the bucket
//! hold packets back.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::{
    AckFrame, EcnMode, EcnUse, InitialWindow, LEAST_PACED_RTT, Remembered, SharedFactory,
};
use evenkeel_headers::{Allowance, LEAST_DATA, Owner};
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;
use tracing::{debug, trace};

use crate::connection::{Beginning, Connection, Connections, Probe, State};

use crate::pacing::Pacing;
use crate::path::rate;

/// Builds [`Paced`] controllers.
pub(crate) struct PacedFactory {
    pub(crate) factory: SharedFactory,
    pub(crate) connections: Arc<Connections>,
    pub(crate) pacing: Pacing,
    pub(crate) ecn: EcnUse,
    /// The longest time in which nothing leaves while something is in flight.
    pub(crate) probe_interval: Option<Duration>,
    /// What the first path of a connection carried before.
    pub(crate) memory: Option<Remembered>,
}

impl ControllerFactory for PacedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let connection = super::controller_built(|| Connection::new(self.connections.clone()));
        let chosen = connection.new_path(current_mtu);
        if super::polled().is_none() {
            let mut state = connection.state();
            state.kept.feed.remember(self.memory);
            state.path.resumed_window = self.memory.map(|memory| memory.window);
        }
        let factory = chosen.unwrap_or_else(|| self.factory.clone());
        connection.state().kept.feed.ecn.set_use(self.ecn);
        let feed = connection.feed();
        let controller = factory.build_fed(now, current_mtu, feed);
        connection.state().path.window = controller.metrics().congestion_window;
        Box::new(Paced {
            controller,
            connection,
            pacing: self.pacing,
            probe_interval: self.probe_interval,
            mtu: current_mtu,
            smoothed_rtt: None,
            frame: AckFrame::default(),
            estimate: Duration::ZERO,
            without_waits: None,
        })
    }
}

/// A controller with its connection's state.
pub(crate) struct Paced {
    controller: Box<dyn Controller>,
    pub(crate) connection: Arc<Connection>,
    pacing: Pacing,
    probe_interval: Option<Duration>,
    mtu: u16,
    smoothed_rtt: Option<Duration>,
    /// The ACK frame being processed.
    frame: AckFrame,
    /// quinn's estimate of the round trip before this frame; before the first ACK, a guess.
    estimate: Duration,
    /// Smoothed round trips without ACKs that waited while the process stood still, as long as
    /// quinn's estimate, which includes those, is longer.
    without_waits: Option<Duration>,
}

/// A window per round trip is the rate that fills the window exactly. A little more lets a delayed
/// sender catch up, and keeps rounding from making the rate the tighter limit. RFC 9002, section
/// 7.7, suggests 1.25, which leaves a fifth of every round trip without packets.
const GAIN_PERCENT: u64 = 110;

/// In slow start the rate has to fill the window of the next round trip, which is twice as large.
const SLOW_START_GAIN_PERCENT: u64 = 200;

/// Smoothed round trips from one probe to the next, at least: an earlier ACK may still be on its way.
const ROUND_TRIPS_PER_PROBE: u32 = 2;

impl Paced {
    /// The probe that ends the silence after `now`.
    fn next_probe(&self, now: Instant) -> Option<Probe> {
        let (interval, rtt) = self.probe_interval.zip(self.smoothed_rtt)?;
        let silence = interval.max(rtt.saturating_mul(ROUND_TRIPS_PER_PROBE));
        let at = now + silence;
        Some(Probe { at, silence })
    }

    /// Updates the smoothed round trip by an ACK frame whose newest packet was sent `rtt` ago.
    fn smooth(&mut self, rtt: Duration, has_sample: bool, has_waited: bool) {
        let Some(smoothed) = self.smoothed_rtt else {
            self.smoothed_rtt = Some(rtt);
            return;
        };
        let without = self.without_waits.or(has_waited.then_some(smoothed));
        let without = match without {
            // As quinn's (RFC 9002, section 5.3).
            Some(without) if has_sample => Some(without * 7 / 8 + rtt / 8),
            without => without,
        };
        let is_over = !has_waited && without.is_some_and(|without| self.estimate <= without);
        self.without_waits = without.filter(|_| !is_over);
        self.smoothed_rtt = Some(self.without_waits.unwrap_or(self.estimate));
    }

    /// Has what `factory` builds take over from the present controller, which had `in_flight` bytes
    /// in flight.
    fn replace(
        &mut self,
        now: Instant,
        factory: &SharedFactory,
        beginning: Beginning,
        in_flight: u64,
    ) {
        // What the path had in flight, or what any path may have.
        let initial = InitialWindow::default().bytes(self.mtu);
        let resumed = matches!(beginning, Beginning::Resumed).then(|| in_flight.max(initial));
        debug!(
            connection = self.connection.id,
            resumed, "another controller takes over"
        );
        self.connection.state().kept.feed.resume(resumed);
        let feed = self.connection.feed();
        self.controller = factory.clone().build_fed(now, self.mtu, feed);
        if let Beginning::Anew(begun) = beginning {
            // Nobody may wait for it any more.
            let _ = begun.send(());
        }
    }

    /// Stores in `state` what the controller, with these `metrics`, wants now.
    fn publish(&self, state: &mut State, now: Instant, metrics: &ControllerMetrics) {
        let controller_rate = metrics
            .pacing_rate
            .map(|bits| bits / 8)
            .filter(|rate| *rate > 0);
        let pacing_rate = match self.smoothed_rtt {
            Some(rtt) if self.pacing == Pacing::Controller => match controller_rate {
                Some(own) => Some(own),
                None if rtt < LEAST_PACED_RTT => None,
                None => Some(derived_rate(metrics, rtt)),
            },
            _ => None,
        };
        let probe = state.capacity.as_ref();
        let pacing_rate = match probe.and_then(|probe| probe.allows(now)) {
            Some((tried, _)) => pacing_rate.max(Some(tried)),
            None => pacing_rate,
        };
        let own_burst = controller_rate.and_then(|_| state.kept.feed.largest_burst());
        state.pacer.set_burst(own_burst);
        let ecn = state.kept.feed.ecn.sends();
        state.pacer.set_smooth(ecn == Some(EcnMode::Scalable));
        state.pacer.set_rate(now, pacing_rate);
        let path = &mut state.path;
        path.window = metrics.congestion_window;
        path.slow_start_threshold = metrics.ssthresh;
        path.smoothed_rtt = self.smoothed_rtt;
        path.controller_rate = controller_rate;
        path.pacing_rate = state.pacer.rate();
        state
            .notifier
            .changed(now, self.smoothed_rtt.unwrap_or_default());
        trace!(
            connection = self.connection.id,
            window = path.window,
            slow_start_threshold = path.slow_start_threshold,
            smoothed_rtt = ?path.smoothed_rtt,
            pacing_rate = path.pacing_rate,
            "controller decided"
        );
    }
}

/// The rate for a controller that has only a window.
fn derived_rate(metrics: &ControllerMetrics, rtt: Duration) -> u64 {
    let window = metrics.congestion_window;
    let slow_start = metrics.ssthresh.is_none_or(|threshold| window < threshold);
    let gain = if slow_start {
        SLOW_START_GAIN_PERCENT
    } else {
        GAIN_PERCENT
    };
    rate(window.saturating_mul(gain) / 100, rtt)
}

impl Controller for Paced {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        {
            let mut state = self.connection.state();
            super::sent(&self.connection, &mut state, bytes);
            // A packet with nothing but ACKs is not in flight, and delays no probe.
            let is_news = match state.probe {
                None => self.probe_interval.is_some() && super::is_data(&self.connection),
                Some(probe) => probe.at <= now || bytes >= LEAST_DATA,
            };
            if is_news {
                state.probe = self.next_probe(now).or(state.probe);
            }
        }
        self.controller.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.frame.add(now, sent, bytes);
        self.estimate = rtt.get();
        self.controller.on_ack(now, sent, bytes, app_limited, rtt);
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
        let Some(packets) = self.frame.take(now) else {
            return;
        };
        let (has_sample, has_waited) = {
            let feed = &self.connection.state().kept.feed;
            let has_sample = feed.has_sample(largest_packet_num_acked);
            (has_sample, feed.has_waited())
        };
        let rtt = now.saturating_duration_since(packets.sent);
        self.smooth(rtt, has_sample, has_waited);
        let newly_chosen = self.connection.state().newly_chosen();
        if let Some((factory, beginning)) = newly_chosen {
            self.replace(now, &factory, beginning, in_flight + packets.bytes);
        }
        let metrics = self.controller.metrics();
        let mut guard = self.connection.state();
        let state = &mut *guard;
        state.kept.validated();
        let rtt = state.measure.on_ack(&packets, has_sample, &mut state.path);
        let probe = state.capacity.as_mut();
        let end = probe.and_then(|probe| probe.on_ack(&packets, rtt, &state.path));
        let answer = end.and_then(|end| state.end_capacity(end));
        (state.path.in_flight, state.path.app_limited) = (in_flight, app_limited);
        if in_flight == 0 {
            state.probe = None;
        }
        self.publish(state, now, &metrics);
        drop(guard);
        if let Some(answer) = answer {
            answer.send();
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
        let metrics = self.controller.metrics();
        debug!(
            connection = self.connection.id,
            lost_bytes,
            is_persistent_congestion,
            window = metrics.congestion_window,
            "congestion"
        );
        let mut state = self.connection.state();
        let losses = &mut state.path.losses;
        losses.bytes += lost_bytes;
        losses.detections += u64::from(lost_bytes > 0);
        losses.marks += u64::from(lost_bytes == 0);
        losses.persistent += u64::from(is_persistent_congestion);
        let probe = state.capacity.as_ref();
        let end = probe.and_then(|probe| probe.on_congestion(sent));
        let answer = end.and_then(|end| state.end_capacity(end));
        self.publish(&mut state, now, &metrics);
        drop(state);
        if let Some(answer) = answer {
            answer.send();
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        debug!(
            connection = self.connection.id,
            mtu = new_mtu,
            "packet size changed"
        );
        self.mtu = new_mtu;
        {
            let mut state = self.connection.state();
            state.pacer.set_packet(new_mtu);
            state.path.mtu = new_mtu;
        }
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let allowance = {
            let mut state = self.connection.state();
            if state.is_closed {
                // quinn-proto 0.11.19 would hold CONNECTION_CLOSE back behind a full window.
                return u64::MAX;
            }
            super::allowance(&self.connection, &mut state)
        };
        match allowance {
            // More than any window that quinn paces: its pacer goes by quinn's estimate.
            Allowance::Window
                if (self.pacing == Pacing::Unpaced || self.without_waits.is_some())
                    && super::is_for_pacer(&self.connection) =>
            {
                u64::MAX
            }
            Allowance::Window => self.controller.window(),
            Allowance::AtLeast(window) => self.controller.window().max(window),
            // Less than any packet: quinn builds no packet that counts against a window.
            Allowance::Nothing => 1,
            // More than anything in flight. A batch that holds a probe has one packet.
            Allowance::Probe => u64::MAX,
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            controller: self.controller.clone_box(),
            connection: self.connection.clone(),
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
