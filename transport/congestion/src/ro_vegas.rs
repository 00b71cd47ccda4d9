//! RoVegas: Vegas with routers that report how long packets queue, there and back.
//!
//! Y.-C. Chan, C.-T. Chan and Y.-C. Chen, "RoVegas", section 3. BaseRTT is the round trip time less
//! the queueing times that routers add up in path headers. Actual' also leaves out queueing on the
//! way back, which the window does not cause. So a new route, earlier flows and a congested way
//! back no longer mislead it. All else is Vegas; without such routers it is plain Vegas.
//! What the paper leaves open: `docs/algorithms/ro-vegas.md`; deviations: `docs/deviations.md`.

use std::time::Duration;

use evenkeel_spec::{SpecError, SpecParameter, SpecValues};

use crate::adapter::adapt;
use crate::base_rtt::CorrectedRtt;
use crate::controller::{Ack, Cause, Congestion, Controller, PathSample, Round};
use crate::diff::{DiffWindow, Step};
use crate::freshness::Freshness;
use crate::loss_bound::LossBound;
use crate::row::{ControllerBuild, ControllerRow};
use crate::vegas;
use crate::window::{INITIAL_WINDOW, InitialWindow};

/// After the first loss that contradicts complete headers, they are distrusted for this many
/// rounds; after each further one for twice as many.
const FIRST_DISTRUST: u32 = 256;

/// Settings of RoVegas.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// Thresholds, increment and initial window.
    pub vegas: vegas::Config,
    /// Path headers to ask for per round trip while nothing queues on the way back, and more as
    /// more does (section 3.2); `None` asks for one on every packet, as in section 6.
    pub probes: Option<u16>,
}

impl Config {
    /// Section 6: alpha 1, beta 3, every packet probes.
    pub const PAPER: Self = Self {
        vegas: vegas::Config::VEGAS_1,
        probes: None,
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
    /// If alpha is above beta.
    pub fn read(values: &SpecValues) -> Result<Self, SpecError> {
        Ok(Self {
            vegas: vegas::Config::read(values)?,
            probes: values.optional_count("probes"),
        })
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct RoVegas {
    config: Config,
    /// Its BaseRTT comes from round trips alone.
    window: DiffWindow,
    rtts: CorrectedRtt,
    /// The least round trip time that a stamped header ever measured, queues included. Earlier
    /// packets were smaller, and so are ACKs without headers: on a slow link they take less time.
    least_stamped: Option<Duration>,
    freshness: Freshness,
    bound: LossBound,
    /// The measurements of the present round's headers.
    samples: Option<Samples>,
    trust: Trust,
    /// Share of the last sample's round trip that was queueing on the way back, 0 to 1.
    backward_share: f64,
}

/// Round trip times of one round without their backward queueing: RTT - QTb.
#[derive(Debug, Clone, Copy)]
pub struct Samples {
    /// The least one, for congestion avoidance.
    pub least: Duration,
    /// The newest one, for slow start.
    pub newest: Duration,
}

/// Whether to believe headers that claim to report every queue.
#[derive(Debug, Clone)]
struct Trust {
    /// Rounds until they are believed again.
    rounds_left: u32,
    /// Rounds that the next distrust will last.
    next_distrust: u32,
    /// By how much the round trip exceeds the least ever, if the last round's headers were complete
    /// and only the new BaseRTT kept the window from being too large: the sign of a new route, or
    /// of a queue that no router reported.
    unexplained: Option<Duration>,
    /// The longest reported queueing on the way there, in this round and in the one before.
    reported: [Duration; 2],
}

impl RoVegas {
    /// Creates a controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            window: DiffWindow::new(config.vegas.initial_window, mtu),
            config,
            rtts: CorrectedRtt::default(),
            least_stamped: None,
            freshness: Freshness::default(),
            bound: LossBound::new(InitialWindow::Rfc9002, mtu),
            samples: None,
            trust: Trust::default(),
            backward_share: 0.0,
        }
    }

    /// Ends a round, as a [`Controller`] does. `select` gets the samples of the round's headers,
    /// `None` without a fresh one, and returns the samples to decide by.
    pub fn end_round(&mut self, round: &Round, select: impl FnOnce(Option<Samples>) -> Samples) {
        let before = self.window.bytes();
        let fresh = self.freshness.holds(round.now);
        if !fresh {
            self.rtts = CorrectedRtt::default();
            self.samples = None;
            self.freshness.forget();
        }
        let complete = self.rtts.is_complete();
        let measured = self.window.base_rtt(round);
        let plain = self.least_stamped.filter(|_| fresh).unwrap_or(measured);
        let base_rtt = self.rtts.base_rtt(plain, complete && self.trust.holds());
        let samples = select(self.samples.take());
        let vegas = &self.config.vegas;
        let without_trust = self.rtts.base_rtt(plain, false);
        let too_large = self.window.diff(without_trust, samples.least) > vegas.thresholds.beta;
        let least = self.window.diff(base_rtt, samples.least);
        let newest = self.window.diff(base_rtt, samples.newest);
        let step = self
            .window
            .end_round(round, &vegas.thresholds, least, newest);
        self.window.change(vegas.change(step));
        let unexplained = too_large.then(|| base_rtt.saturating_sub(without_trust));
        self.trust.on_round(complete, step, unexplained);
        self.rtts.end_round();
        self.limit_growth(before, fresh);
    }

    /// Limits growth from `before` bytes to the loss bound while feedback is `fresh`. Growth
    /// without feedback is Vegas's own and raises the bound.
    fn limit_growth(&mut self, before: u64, fresh: bool) {
        if fresh {
            self.window.lower_to(self.bound.window().max(before));
        } else {
            self.bound.raise_to(self.window.bytes());
        }
    }
}

impl Trust {
    fn holds(&self) -> bool {
        self.rounds_left == 0
    }

    /// Notes that routers reported a queue of `forward` on the way there.
    fn on_report(&mut self, forward: Duration) {
        self.reported[0] = self.reported[0].max(forward);
    }

    /// Ends a round that asked for `step` and whose samples were `complete` or not. If the window
    /// would have been too large on the shortest path ever measured, `unexplained` is by how much
    /// the path seems longer than that.
    fn on_round(&mut self, complete: bool, step: Option<Step>, unexplained: Option<Duration>) {
        let at_ease = complete && self.holds() && matches!(step, Some(Step::Grow | Step::Hold));
        self.unexplained = unexplained.filter(|_| at_ease);
        self.reported = [Duration::ZERO, self.reported[0]];
        self.rounds_left = self.rounds_left.saturating_sub(1);
    }

    /// Reacts to a loss. If only trust kept the window from shrinking, and routers reported no
    /// queue as long as the unexplained delay, a queue hides there, and the headers are no longer
    /// believed. Losses by chance, or of a burst at a short queue, prove nothing.
    fn on_loss(&mut self) {
        let hidden = self.unexplained.take();
        if hidden.is_some_and(|hidden| self.reported.iter().all(|queue| *queue < hidden)) {
            self.rounds_left = self.next_distrust;
            self.next_distrust = self.next_distrust.saturating_mul(2);
        }
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            rounds_left: 0,
            next_distrust: FIRST_DISTRUST,
            unexplained: None,
            reported: [Duration::ZERO; 2],
        }
    }
}

/// Section 3.2: returns how many packets share one header, for `packets` per round trip. At least
/// `probes` carry one, and more as backward queueing takes a larger share of it.
fn interval(packets: f64, probes: u16, backward_share: f64) -> u32 {
    let least = f64::from(probes).min(packets);
    let wanted = least + (packets - least) * backward_share;
    (packets / wanted).max(1.0) as u32
}

impl Controller for RoVegas {
    fn on_path(&mut self, sample: &PathSample) {
        if sample.forward_queueing.is_none() && sample.backward_queueing.is_none() {
            return;
        }
        let backward = sample.backward_queueing.unwrap_or_default();
        self.freshness.on_feedback(sample.now);
        self.trust
            .on_report(sample.forward_queueing.unwrap_or_default());
        self.rtts.on_path(sample);
        let least = self.least_stamped.unwrap_or(sample.rtt);
        self.least_stamped = Some(least.min(sample.rtt));
        let without_backward = sample.rtt.saturating_sub(backward);
        let least = self.samples.map_or(without_backward, |before| before.least);
        self.samples = Some(Samples {
            least: least.min(without_backward),
            newest: without_backward,
        });
        self.backward_share = if sample.rtt.is_zero() {
            0.0
        } else {
            backward.min(sample.rtt).div_duration_f64(sample.rtt)
        };
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.freshness.on_rtt(rtt);
        }
        let before = self.window.bytes();
        self.window.on_ack(ack);
        self.bound.on_ack(ack);
        self.limit_growth(before, self.freshness.holds(ack.now));
    }

    fn on_round(&mut self, round: &Round) {
        self.end_round(round, |samples| {
            samples.unwrap_or(Samples {
                least: round.rtt_min,
                newest: round.rtt_end,
            })
        });
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if event.cause == Cause::Loss {
            self.trust.on_loss();
        }
        self.bound.on_congestion(event, self.window.bytes());
        self.window.reduce(vegas::LOSS_FACTOR);
    }

    fn on_persistent_congestion(&mut self) {
        self.window.collapse();
        self.bound.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.window.on_mtu(mtu);
        self.bound.on_mtu(mtu);
    }

    fn resume(&mut self, window: u64) {
        self.window.avoid_congestion(window);
    }

    fn window(&self) -> u64 {
        self.window.bytes()
    }

    fn header_interval(&self) -> u32 {
        let packets = self.window.bytes() as f64 / f64::from(self.window.mtu());
        self.config
            .probes
            .map_or(1, |probes| interval(packets, probes, self.backward_share))
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.window.slow_start_threshold()
    }
}

/// All parameters except the initial window.
pub const PARAMETERS: [SpecParameter; 5] = {
    let [alpha, beta, increment, gamma] = vegas::parameters(Config::PAPER.vegas);
    let probes = SpecParameter::count(
        "probes",
        "path headers asked for per round trip, more when the way back queues; not given, on every packet",
        1,
        1000,
        None,
    );
    [alpha, beta, increment, gamma, probes]
};

pub(crate) const ROW: ControllerRow = ControllerRow {
    name: "ro-vegas",
    summary: "RoVegas: vegas to which routers report how long packets queue, there and back",
    parameters: &{
        let [alpha, beta, increment, gamma, probes] = PARAMETERS;
        [alpha, beta, increment, gamma, probes, INITIAL_WINDOW]
    },
    build: ControllerBuild {
        uses_path: |_| true,
        factory: |values| {
            let config = Config::read(values)?;
            Ok(adapt(move |_, mtu| Box::new(RoVegas::new(config, mtu))))
        },
    },
};

#[cfg(test)]
mod tests;
