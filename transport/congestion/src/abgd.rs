//! TCP(alpha, beta, gamma, delta): Reno flows that reduce their windows together, before the queue
//! overflows.
//!
//! C. Zhang and V. Tsaoussidis, "TCP Smoothness and Window Adjustment Strategy", section III. The
//! round trip time, between the least and the greatest one, shows the queue's fill. A round trip
//! after the queue is half full, the window falls by gamma to what the path holds without a queue
//! (Eq. 10 and 11); while it is nearly empty, the window grows by delta instead of alpha (Eq. 12).
//! A loss halves the window. Slow start is Reno's, slower once round trips grow: by overflowing the
//! queue it shows the greatest round trip.
//! What the paper leaves open: `docs/algorithms/abgd.md`; deviations: `docs/deviations.md`.

mod extremes;

use std::time::Instant;

use evenkeel_spec::{SpecError, SpecParameter, SpecValues};

use crate::adapter::adapt;
use crate::controller::{Ack, Congestion, Controller, Round};
use crate::gaimd::{self, Gaimd};
use crate::row::{ControllerBuild, ControllerRow};
use crate::sized_rtt::SizedRtt;
use crate::slow_start::{HYSTART, SlowStart};
use crate::window::{INITIAL_WINDOW, InitialWindow};
use extremes::{Extremes, fill, gamma};

/// Share of a new sample in the smoothed round trip time: RFC 6298, section 2; the paper gives
/// none.
const SMOOTHING: f64 = 1.0 / 8.0;

/// Settings of TCP(alpha, beta, gamma, delta).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Packets added per round trip.
    pub alpha: f64,
    /// Factor of the window after a loss, in 0..1.
    pub beta: f64,
    /// Packets added per round trip while the queue is nearly empty; alpha turns it off.
    pub delta: f64,
    /// Th_upper: fill of the queue, 0 to 1, from which gamma reduces the window.
    pub upper: f64,
    /// Th_lower: fill of the queue, 0 to 1, up to which delta replaces alpha.
    pub lower: f64,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// How the first slow start ends; by a loss, since that shows the greatest round trip.
    pub slow_start: SlowStart,
}

impl Config {
    /// Section III, with delta enabled.
    pub const PAPER: Self = Self {
        alpha: gaimd::Config::RENO.alpha,
        beta: gaimd::Config::RENO.beta,
        delta: 2.0,
        upper: 0.5,
        lower: 0.1,
        initial_window: InitialWindow::Rfc9002,
        slow_start: SlowStart::Loss,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::PAPER
    }
}

impl Config {
    /// Reads the parameters of [`PARAMETERS`] and `iw`.
    ///
    /// # Errors
    ///
    /// If alpha is above delta, or the lower fill above the upper one.
    pub fn read(values: &SpecValues) -> Result<Self, SpecError> {
        values.in_order("alpha", "delta")?;
        values.in_order("lower", "upper")?;
        Ok(Self {
            alpha: values.number("alpha"),
            beta: values.number("beta"),
            delta: values.number("delta"),
            upper: values.number("upper"),
            lower: values.number("lower"),
            initial_window: InitialWindow::read(values, "iw"),
            slow_start: SlowStart::Loss,
        })
    }
}

/// All parameters except the initial window.
pub const PARAMETERS: [SpecParameter; 5] = {
    let default = Config::PAPER;
    let [alpha, beta] = gaimd::parameters(gaimd::Config::RENO);
    [
        alpha,
        beta,
        SpecParameter::number(
            "delta",
            "packets added per round trip while the queue is nearly empty; alpha turns it off",
            0.01,
            100.0,
            Some(default.delta),
        ),
        SpecParameter::number(
            "upper",
            "fill of the queue from which gamma reduces the window",
            0.01,
            1.0,
            Some(default.upper),
        ),
        SpecParameter::number(
            "lower",
            "fill of the queue up to which delta counts instead of alpha",
            0.0,
            1.0,
            Some(default.lower),
        ),
    ]
};

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Abgd {
    config: Config,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Does slow start, additive increase and the reaction to losses.
    aimd: Gaimd,
    samples: Samples,
    /// In seconds.
    smoothed_rtt: Option<f64>,
    extremes: Extremes,
    excursion: Excursion,
}

/// A fill of `upper` or more, from its detection to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excursion {
    /// The queue is less full.
    None,
    /// Detected at that time; the window has not yet been reduced.
    Detected(Instant),
    /// The window has been reduced for it.
    Answered,
}

/// Recognises samples that the peer's timer may have delayed: their ACKs cover fewer packets than
/// those of the round before.
#[derive(Debug, Clone, Default)]
struct Samples {
    /// ACKs and packets of this round so far.
    current: (u64, u64),
    /// ACKs and packets of the round before.
    last: (u64, u64),
}

impl Abgd {
    /// Creates a controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        let reno = gaimd::Config {
            alpha: config.alpha,
            beta: config.beta,
            initial_window: config.initial_window,
            slow_start: config.slow_start,
        };
        Self {
            config,
            mtu,
            aimd: Gaimd::new(reno, mtu),
            samples: Samples::default(),
            smoothed_rtt: None,
            extremes: Extremes::default(),
            excursion: Excursion::None,
        }
    }

    /// Includes a round trip sample. Returns the queue's fill, `None` if unknown.
    fn measure(&mut self, sample: SizedRtt) -> Option<f64> {
        let rtt = sample.rtt().as_secs_f64();
        let smoothed = self
            .smoothed_rtt
            .map_or(rtt, |before| before + SMOOTHING * (rtt - before));
        self.smoothed_rtt = Some(smoothed);
        self.extremes.include(sample, smoothed);
        fill(smoothed, self.extremes.range()?)
    }

    /// Reacts to a fill of `fill`, seen by an ACK of a packet sent at `sent`.
    fn react(&mut self, fill: f64, now: Instant, sent: Instant) {
        let alpha = if fill <= self.config.lower {
            self.config.delta
        } else {
            self.config.alpha
        };
        self.aimd.set_alpha(alpha);
        match self.excursion {
            Excursion::None if fill >= self.config.upper => {
                self.excursion = Excursion::Detected(now);
            }
            // A round trip later all others have seen the fill too. It counts even if their
            // reductions have already emptied the queue.
            Excursion::Detected(at) if sent >= at => {
                if let Some(range) = self.extremes.range() {
                    self.aimd.reduce(gamma(range, self.config.upper));
                }
                self.excursion = Excursion::Answered;
            }
            Excursion::Answered if fill < self.config.upper => self.excursion = Excursion::None,
            Excursion::None | Excursion::Detected(_) | Excursion::Answered => {}
        }
    }
}

impl Samples {
    /// Counts an ACK of `packets` packets. Returns true if the peer's timer did not delay it.
    fn at_once(&mut self, packets: u64) -> bool {
        let (current_acks, current_packets) = self.current;
        self.current = (
            current_acks.saturating_add(1),
            current_packets.saturating_add(packets),
        );
        let (acks, all) = self.last;
        packets.saturating_mul(acks) >= all
    }

    fn end_round(&mut self) {
        self.last = std::mem::take(&mut self.current);
    }
}

impl Controller for Abgd {
    fn on_ack(&mut self, ack: &Ack) {
        let at_once = self.samples.at_once(ack.packets);
        let fill = SizedRtt::of_ack(ack, self.mtu)
            .filter(|_| at_once)
            .and_then(|sample| self.measure(sample));
        // Slow start is Reno's, and a recovery period has had its reduction.
        if let Some(fill) = fill
            && !self.aimd.in_slow_start()
            && ack.bytes_after_recovery > 0
        {
            self.react(fill, ack.now, ack.sent);
        }
        self.aimd.on_ack(ack);
    }

    fn on_round(&mut self, _round: &Round) {
        self.samples.end_round();
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.aimd.on_congestion(event);
        self.extremes.end_epoch();
        self.excursion = Excursion::Answered;
    }

    fn on_persistent_congestion(&mut self) {
        self.aimd.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.aimd.on_mtu(mtu);
    }

    fn resume(&mut self, window: u64) {
        self.aimd.resume(window);
    }

    fn window(&self) -> u64 {
        self.aimd.window()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.aimd.slow_start_threshold()
    }
}

pub(crate) const ROW: ControllerRow = ControllerRow {
    name: "abgd",
    summary: "TCP(alpha, beta, gamma, delta): reno that all flows reduce together, before losses",
    parameters: &{
        let [alpha, beta, delta, upper, lower] = PARAMETERS;
        [alpha, beta, delta, upper, lower, INITIAL_WINDOW, HYSTART]
    },
    build: ControllerBuild {
        uses_path: |_| false,
        factory: |values| {
            let config = Config {
                slow_start: SlowStart::read(values, SlowStart::SlowLoss),
                ..Config::read(values)?
            };
            Ok(adapt(move |_, mtu| Box::new(Abgd::new(config, mtu))))
        },
    },
};

#[cfg(test)]
mod tests;
