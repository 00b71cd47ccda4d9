//! A quinn controller around another, which lets the connection's bucket hold packets back and
//! tells it the rate.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::SharedFactory;
use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

use crate::cell::{Cell, Probe, Shared};
use crate::pacing::Pacing;
use crate::runtime::seam::{self, Built, Leave};
use crate::state::rate;

/// Builds [`Paced`] controllers.
pub(crate) struct PacedFactory {
    pub(crate) factory: SharedFactory,
    pub(crate) shared: Arc<Shared>,
    pub(crate) pacing: Pacing,
    /// The longest time in which nothing leaves while something is in flight.
    pub(crate) probe_interval: Option<Duration>,
}

impl ControllerFactory for PacedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let (cell, chosen) = match seam::built(|| Cell::new(self.shared.clone())) {
            Built::Connection(cell) => (cell, None),
            Built::Path(cell) => {
                let chosen = cell.chosen();
                (cell, chosen)
            }
        };
        cell.new_path(current_mtu);
        let factory = chosen.unwrap_or_else(|| self.factory.clone());
        let controller = factory.build_fed(now, current_mtu, cell.feed.clone());
        cell.state().window = controller.metrics().congestion_window;
        Box::new(Paced {
            controller,
            cell,
            pacing: self.pacing,
            probe_interval: self.probe_interval,
            mtu: current_mtu,
            smoothed_rtt: None,
            batch: None,
        })
    }
}

/// A controller with its connection's cell.
pub(crate) struct Paced {
    controller: Box<dyn Controller>,
    pub(crate) cell: Arc<Cell>,
    pacing: Pacing,
    probe_interval: Option<Duration>,
    mtu: u16,
    smoothed_rtt: Option<Duration>,
    batch: Option<Batch>,
}

/// The packets of one ACK frame.
#[derive(Debug, Clone, Copy)]
struct Batch {
    now: Instant,
    /// Sending time of the newest packet.
    sent: Instant,
    /// What quinn's estimator said before this ACK; before the first, a guess.
    smoothed_rtt: Duration,
}

/// Window per round trip is the rate that fills the window exactly; a little more lets a window
/// that has been held up catch up, and keeps rounding from making the rate the tighter limit.
/// RFC 9002, section 7.7, suggests 1.25, which leaves a fifth of every round trip without packets.
const GAIN_PERCENT: u64 = 110;

/// In slow start the window of a round trip later is to be filled: it doubles.
const SLOW_START_GAIN_PERCENT: u64 = 200;

/// Derived pacing stands aside on shorter round trips: there, a window leaves within the time by
/// which wake-ups are late.
const SHORTEST_RTT: Duration = Duration::from_millis(2);

/// Probes are not nearer to each other than so many smoothed round trips: what is missing by then
/// may still be on its way.
const ROUND_TRIPS_PER_PROBE: u32 = 2;

/// A batch of so many bytes holds more than ACKs.
const LEAST_DATA: u64 = 600;

impl Paced {
    /// One packet of an ACK frame.
    fn acked(&mut self, now: Instant, sent: Instant, smoothed_rtt: Duration) {
        let newest = match self.batch {
            Some(batch) if batch.now == now => batch.sent.max(sent),
            _ => sent,
        };
        self.batch = Some(Batch {
            now,
            sent: newest,
            smoothed_rtt,
        });
    }

    /// Data has left: the next packet leaves in time.
    fn schedule_probe(&self, now: Instant) {
        if let (Some(interval), Some(rtt)) = (self.probe_interval, self.smoothed_rtt) {
            let silence = interval.max(rtt.saturating_mul(ROUND_TRIPS_PER_PROBE));
            let at = now + silence;
            *self.cell.probe() = Some(Probe { at, silence });
        }
    }

    /// Tells the cell what the controller wants now.
    fn publish(&self, now: Instant) {
        let metrics = self.controller.metrics();
        let own_rate = metrics
            .pacing_rate
            .map(|bits| bits / 8)
            .filter(|rate| *rate > 0);
        let pacing_rate = match self.smoothed_rtt {
            Some(rtt) if self.pacing == Pacing::Controller => match own_rate {
                Some(own) => Some(own),
                None if rtt < SHORTEST_RTT => None,
                None => Some(derived_rate(&metrics, rtt)),
            },
            _ => None,
        };
        let mut pacer = self.cell.pacer();
        pacer.set_rate(now, pacing_rate);
        let pacing_rate = pacer.rate();
        drop(pacer);
        let mut state = self.cell.state();
        state.window = metrics.congestion_window;
        state.slow_start_threshold = metrics.ssthresh;
        state.smoothed_rtt = self.smoothed_rtt;
        state.own_rate = own_rate;
        state.pacing_rate = pacing_rate;
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
        seam::sent(&self.cell, bytes);
        let probe = *self.cell.probe();
        // An ACK that answers a peer tells nothing of what is in flight, and puts nothing off.
        let is_news = match probe {
            None => seam::is_data(&self.cell),
            Some(probe) => probe.at <= now || bytes >= LEAST_DATA,
        };
        if is_news {
            self.schedule_probe(now);
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
        self.acked(now, sent, rtt.get());
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
        // What a Retry left is older than now.
        let Some(batch) = self.batch.take().filter(|batch| batch.now == now) else {
            return;
        };
        self.cell.validated();
        self.smoothed_rtt = Some(match self.smoothed_rtt {
            None => now.saturating_duration_since(batch.sent),
            Some(_) => batch.smoothed_rtt,
        });
        if let Some(factory) = self.cell.newly_chosen() {
            self.controller = factory.build_fed(now, self.mtu, self.cell.feed.clone());
        }
        {
            let mut state = self.cell.state();
            state.in_flight = in_flight;
            state.app_limited = app_limited;
        }
        if in_flight == 0 {
            *self.cell.probe() = None;
        }
        self.publish(now);
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
        self.publish(now);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.cell.pacer().set_packet(new_mtu);
        self.cell.state().mtu = new_mtu;
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        if self.cell.is_closed() {
            // CONNECTION_CLOSE is all that is left; quinn-proto 0.11.19 would hold it back.
            return u64::MAX;
        }
        match seam::may_leave(&self.cell) {
            // More than any that quinn paces.
            Leave::Window if self.pacing == Pacing::Unpaced && seam::is_for_pacer(&self.cell) => {
                u64::MAX
            }
            Leave::Window => self.controller.window(),
            // Less than any packet: quinn builds nothing that counts against a window.
            Leave::Nothing => 1,
            // More than anything in flight; a batch has one packet then.
            Leave::Probe => u64::MAX,
        }
    }

    fn metrics(&self) -> ControllerMetrics {
        self.controller.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            controller: self.controller.clone_box(),
            cell: self.cell.clone(),
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
