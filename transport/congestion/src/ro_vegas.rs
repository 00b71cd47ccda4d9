//! RoVegas: Vegas that knows from routers how long packets have queued, there and back.
//!
//! Y.-C. Chan, C.-T. Chan and Y.-C. Chen, "RoVegas", section 3. BaseRTT is what a round trip
//! takes without the queueing times that routers add up in path headers; Actual' leaves out those
//! of the way back, which is not what the window is for. So another route, flows that were there
//! before, and a congested way back no longer mislead it. All else is Vegas, and without such
//! routers everything is.
//! What the paper leaves open: `docs/algorithms/ro-vegas.md`; deviations: `docs/deviations.md`.

use std::time::Duration;

use crate::base_rtt::CorrectedRtt;
use crate::controller::{Ack, Cause, Congestion, Controller, PathSample, Round};
use crate::freshness::Freshness;
use crate::loss_bound::LossBound;
use crate::vegas::{self, Step, Vegas};
use crate::window::InitialWindow;

/// Rounds for which a path is not taken for completely known after the first loss that speaks
/// against it; twice as many after each further one.
const FIRST_DISTRUST: u32 = 256;

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Config {
    /// alpha, beta, increment, gamma and the initial window.
    pub vegas: vegas::Config,
    /// Path headers to ask for per round trip while nothing queues on the way back, the more the
    /// more does (section 3.2); `None` asks for one on every packet, as the paper's section 6 has
    /// it.
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

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct RoVegas {
    /// Window, slow start, and BaseRTT from round trips alone.
    vegas: Vegas,
    probes: Option<u16>,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    rtts: CorrectedRtt,
    /// The least round trip time ever that a stamped header measured, queues included. Packets
    /// before were smaller, and ACKs without headers are: on a slow link that is a shorter path.
    least_stamped: Option<Duration>,
    freshness: Freshness,
    bound: LossBound,
    /// What the present round's headers told.
    samples: Option<Samples>,
    trust: Trust,
    /// Part of the last sample's round trip that was queueing on the way back, 0 to 1.
    backward_share: f64,
}

/// Round trip times of one round without their backward queueing: RTT - QTb.
#[derive(Debug, Clone, Copy)]
struct Samples {
    least: Duration,
    newest: Duration,
    sum: Duration,
    count: u32,
}

/// Whether headers that claim to know every queue are believed.
#[derive(Debug, Clone)]
struct Trust {
    /// Rounds until they are again.
    rounds_left: u32,
    /// Rounds that the next doubt lasts.
    next_doubt: u32,
    /// By how much the round trip is longer than the least ever, if the last round claimed so and
    /// found the window not too large only for that: another route, or a queue that no router
    /// told of.
    unexplained: Option<Duration>,
    /// The longest queueing on the way there that was told in this round and in the one before.
    told: [Duration; 2],
}

impl RoVegas {
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(config: Config, mtu: u16) -> Self {
        Self {
            vegas: Vegas::new(config.vegas, mtu),
            probes: config.probes,
            mtu,
            rtts: CorrectedRtt::default(),
            least_stamped: None,
            freshness: Freshness::default(),
            bound: LossBound::new(InitialWindow::Rfc9002, mtu),
            samples: None,
            trust: Trust::default(),
            backward_share: 0.0,
        }
    }

    /// Keeps growth from `before` bytes within what losses allow if it follows routers; growth
    /// without them is Vegas's own, which losses have allowed.
    fn bind(&mut self, before: u64, fresh: bool) {
        if fresh {
            self.vegas.lower_to(self.bound.window().max(before));
        } else {
            self.bound.raise_to(self.vegas.window());
        }
    }
}

impl Samples {
    fn join(before: Option<Self>, new: Duration) -> Self {
        let (least, sum, count) = before.map_or((new, Duration::ZERO, 0), |before| {
            (before.least, before.sum, before.count)
        });
        Self {
            least: least.min(new),
            newest: new,
            sum: sum.saturating_add(new),
            count: count.saturating_add(1),
        }
    }

    /// At least one was joined.
    fn mean(&self) -> Duration {
        self.sum / self.count
    }
}

impl Trust {
    fn holds(&self) -> bool {
        self.rounds_left == 0
    }

    /// Routers told of a queue of `forward` on the way there.
    fn hear(&mut self, forward: Duration) {
        self.told[0] = self.told[0].max(forward);
    }

    /// A round is over whose samples were complete or not, and which asked for `step`. If the
    /// least round trip ever would have made the window too large, the round trip was
    /// `unexplained` longer than that.
    fn on_round(&mut self, complete: bool, step: Option<Step>, unexplained: Option<Duration>) {
        let at_ease = complete && self.holds() && matches!(step, Some(Step::Grow | Step::Keep));
        self.unexplained = unexplained.filter(|_| at_ease);
        self.told = [Duration::ZERO, self.told[0]];
        self.rounds_left = self.rounds_left.saturating_sub(1);
    }

    /// Packets were lost. If trust alone had kept the window from shrinking, and no longer queue
    /// was told of than the one that may hide there, it hides there. The next losses are not news
    /// of it. Other losses, of a burst that met a short queue or by chance, say nothing.
    fn on_loss(&mut self) {
        let hidden = self.unexplained.take();
        if hidden.is_some_and(|hidden| self.told.iter().all(|told| *told < hidden)) {
            self.rounds_left = self.next_doubt;
            self.next_doubt = self.next_doubt.saturating_mul(2);
        }
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self {
            rounds_left: 0,
            next_doubt: FIRST_DISTRUST,
            unexplained: None,
            told: [Duration::ZERO; 2],
        }
    }
}

/// Section 3.2: one packet in how many is to probe, of `packets` per round trip, at least
/// `probes` of them, and the more the larger the share of the round trip is that queued on the
/// way back.
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
        self.freshness.hear(sample.now);
        self.trust.hear(sample.forward_queueing.unwrap_or_default());
        self.rtts.on_path(sample);
        let least = self
            .least_stamped
            .map_or(sample.rtt, |least| least.min(sample.rtt));
        self.least_stamped = Some(least);
        let without_backward = sample.rtt.saturating_sub(backward);
        self.samples = Some(Samples::join(self.samples, without_backward));
        self.backward_share = if sample.rtt.is_zero() {
            0.0
        } else {
            backward.min(sample.rtt).div_duration_f64(sample.rtt)
        };
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.freshness.measure(rtt);
        }
        let before = self.vegas.window();
        self.vegas.on_ack(ack);
        self.bound.on_ack(ack);
        self.bind(before, self.freshness.holds(ack.now));
    }

    fn on_round(&mut self, round: &Round) {
        let before = self.vegas.window();
        let fresh = self.freshness.holds(round.now);
        if !fresh {
            self.rtts = CorrectedRtt::default();
            self.samples = None;
            self.freshness.forget();
        }
        let complete = self.rtts.is_complete();
        let measured = self.vegas.measure(round);
        let plain = self.least_stamped.filter(|_| fresh).unwrap_or(measured);
        let base_rtt = self.rtts.base_rtt(plain, complete && self.trust.holds());
        let (least, mean, end) = match self.samples.take() {
            Some(samples) => (samples.least, samples.mean(), samples.newest),
            None => (round.rtt_min, round.rtt_mean, round.rtt_end),
        };
        let (least, end) = self.vegas.round_trips(least, mean, end);
        let without_trust = self.rtts.base_rtt(plain, false);
        let unexplained = self
            .vegas
            .is_too_large(without_trust, least)
            .then(|| base_rtt.saturating_sub(without_trust));
        let step = self.vegas.judge(round, base_rtt, least, end);
        self.vegas.take(step);
        self.trust.on_round(complete, step, unexplained);
        self.rtts.end_round();
        self.bind(before, fresh);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if event.cause == Cause::Loss {
            self.trust.on_loss();
        }
        self.bound.on_congestion(event, self.vegas.window());
        self.vegas.on_congestion(event);
    }

    fn on_persistent_congestion(&mut self) {
        self.vegas.on_persistent_congestion();
        self.bound.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.vegas.on_mtu(mtu);
        self.bound.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.vegas.window()
    }

    fn header_interval(&self) -> u32 {
        let packets = self.vegas.window() as f64 / f64::from(self.mtu);
        self.probes
            .map_or(1, |probes| interval(packets, probes, self.backward_share))
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.vegas.slow_start_threshold()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
