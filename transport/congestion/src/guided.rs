//! A sender that routers guide: what ACP, XCP and RCP have in common.
//!
//! Their papers know a network in which every router guides, no packet is lost, and nobody lies.
//! Here a fallback decides while no router of the kind is heard: before the first of them, and
//! once feedback has expired (`docs/path-header.md`, section 4.3). The window passes from one to
//! the other as it is. What losses would allow bounds it in any case, and a rate however low is
//! tried again in time to notice a better one.

use std::fmt::Debug;
use std::time::Duration;

use crate::base_rtt::CorrectedRtt;
use crate::controller::{
    Ack, Congestion, Controller, DEFAULT_OVERHEAD, Feedback, PathSample, Round,
};
use crate::freshness::Freshness;
use crate::gaimd::{self, Gaimd};
use crate::loss_bound::LossBound;
use crate::sized_rtt::SizedRtt;
use crate::vegas::{self, Vegas};
use crate::window::InitialWindow;

/// The longest time between packets that a rate can ask for, unless feedback holds for longer.
/// Each packet brings news, so that a rate that was wrong is left after this time and a round
/// trip. A packet a second of each sender is too much only for a link that cannot carry it.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// The least round trip time to count with: that of a loop through one host.
const LEAST_RTT: Duration = Duration::from_micros(1);

/// No window is larger, in bytes: a second at 8 petabit/s.
const MOST_WINDOW: f64 = 1e15;

/// Packets in flight beyond the window, rounded up to whole ones: the receiver waits for a second
/// packet, or for its timer, before it acknowledges one. The rate, not the window, is to be what
/// limits; but when packets queue, the window is.
const UNACKNOWLEDGED_PACKETS: f64 = 1.0;

/// How a sender answers what routers grant it.
pub trait Rule: Debug + Clone + Send + Sync + 'static {
    /// Whose feedback it follows.
    const FOLLOWS: Feedback;

    /// Takes in what path headers told. Returns whether routers of its kind had a say.
    fn hear(&mut self, sample: &PathSample) -> bool;

    /// The window in bytes, after one of `window` bytes and an ACK. Called after the samples that
    /// came with it, and only while what was heard holds.
    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64;

    /// The rule is about a rate: its window is that times the empty round trip, and follows when
    /// that is found to be another.
    const KEEPS_RATE: bool = true;

    /// The time in which a window of packets leaves, which gives the pacing rate. By default a
    /// round trip as it is: while packets queue, a window leaves more slowly.
    fn period(rtts: &Rtts) -> Duration {
        rtts.latest
    }

    /// The part, 0 to 1, of the newest queueing time that counts in `period`'s round trip, for a
    /// window of so many full-size packets.
    fn heed(_packets: f64) -> f64 {
        1.0
    }

    /// Bytes that may be in flight beyond a window of `window` bytes, with full-size packets of
    /// `mtu` bytes.
    fn slack(window: f64, mtu: u16) -> f64 {
        let packet = f64::from(mtu);
        ((window / packet).ceil() + UNACKNOWLEDGED_PACKETS) * packet - window
    }
}

/// What a rule may go by.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The ACK.
    pub ack: &'a Ack,
    /// Round trip times.
    pub rtts: Rtts,
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// Part of a full-size IP packet that is UDP payload, in 0..1: routers count the former,
    /// windows the latter.
    pub payload: f64,
}

/// Round trip times, above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtts {
    /// Of the empty path.
    pub base: Duration,
    /// Of the newest path header, without the time for which the peer held it.
    pub latest: Duration,
    /// Smoothed (RFC 9002, section 5.3).
    pub smoothed: Duration,
}

/// Who decides while no router is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FallbackKind {
    /// TCP Vegas.
    #[default]
    Vegas,
    /// NewReno of RFC 9002.
    Reno,
}

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Who decides while no router is heard.
    pub fallback: FallbackKind,
    /// The window to begin with.
    pub initial_window: InitialWindow,
    /// What may be in flight, whatever routers grant, before ACKs have shown that the path takes
    /// more. RFC 9002's unless nobody on the path lies.
    pub bound: InitialWindow,
}

impl Config {
    /// A window of one packet, for a sender that knows nothing of the network yet (M. Lestas et
    /// al., "Adaptive Congestion Protocol", section II-B).
    pub const PAPER: Self = Self {
        fallback: FallbackKind::Vegas,
        initial_window: InitialWindow::Packets(1),
        bound: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::PAPER
    }
}

/// The state of a sender that follows `R`.
#[derive(Debug, Clone)]
pub struct Guided<R> {
    rule: R,
    /// `None` while the fallback decides.
    guidance: Option<Guidance>,
    /// It goes on measuring while the rule decides.
    fallback: Fallback,
    bound: LossBound,
    freshness: Freshness,
    /// The least round trip time that an ACK ever measured.
    least_acked: Option<SizedRtt>,
    /// The least one that a path header did.
    least_echoed: Option<Duration>,
    /// Of the newest path header.
    latest_rtt: Duration,
    corrected_rtt: CorrectedRtt,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes of a full-size IP packet beyond that.
    overhead: u16,
}

/// What a rule has decided.
#[derive(Debug, Clone, Copy)]
struct Guidance {
    /// Bytes, down to less than a packet.
    window: f64,
    /// The empty round trip that it was made for.
    base_rtt: Duration,
    /// The time in which it leaves, above 0.
    period: Duration,
    /// Bytes per second that leave however small the window is.
    least_rate: f64,
}

#[derive(Debug, Clone)]
enum Fallback {
    Vegas(Vegas),
    Reno(Gaimd),
}

impl<R: Rule> Guided<R> {
    /// A controller for full-size packets of `mtu` bytes, which has heard of no router.
    pub fn new(rule: R, config: Config, mtu: u16) -> Self {
        Self {
            rule,
            guidance: None,
            fallback: Fallback::new(config, mtu),
            bound: LossBound::new(config.bound, mtu),
            freshness: Freshness::default(),
            least_acked: None,
            least_echoed: None,
            latest_rtt: Duration::ZERO,
            corrected_rtt: CorrectedRtt::default(),
            mtu,
            overhead: DEFAULT_OVERHEAD,
        }
    }

    fn rtts(&self) -> Rtts {
        let acked = self.least_acked.map(SizedRtt::rtt);
        let plain = acked
            .into_iter()
            .chain(self.least_echoed)
            .min()
            .unwrap_or_default();
        let corrected = self
            .corrected_rtt
            .base_rtt(plain, self.corrected_rtt.is_complete());
        Rtts {
            // A router that tells of nothing but queueing must not make windows of nothing.
            base: corrected.max(plain / 2).max(LEAST_RTT),
            latest: self.latest_rtt.max(LEAST_RTT),
            smoothed: self.freshness.smoothed_rtt().max(LEAST_RTT),
        }
    }

    /// What losses leave of a window of `window` bytes.
    fn within_bound(&self, window: f64) -> f64 {
        window.min(self.bound.window() as f64)
    }

    /// The window in force, in bytes, without what may be in flight beyond it.
    fn in_force(&self) -> u64 {
        match self.guidance {
            Some(guidance) => self.within_bound(guidance.window) as u64,
            None => self.fallback.get().window(),
        }
    }

    /// Feedback has expired: the fallback goes on with the window in force.
    fn leave_rule(&mut self) {
        if self.guidance.is_some() {
            self.fallback.resume(self.in_force());
            self.guidance = None;
            self.corrected_rtt = CorrectedRtt::default();
            self.freshness.forget();
        }
    }

    fn follow_rule(&mut self, ack: &Ack) {
        let rtts = self.rtts();
        let window = match self.guidance {
            Some(before) if R::KEEPS_RATE => {
                let change = rtts.base.div_duration_f64(before.base_rtt);
                // No growth in a recovery period (RFC 9002, section 7.3.2).
                let most = if ack.bytes_after_recovery > 0 {
                    change
                } else {
                    1.0
                };
                before.window * change.min(most)
            }
            Some(before) => before.window,
            None => self.fallback.get().window() as f64,
        };
        let facts = Facts {
            ack,
            rtts,
            mtu: self.mtu,
            payload: f64::from(self.mtu) / (f64::from(self.mtu) + f64::from(self.overhead)),
        };
        // From what is in force: a window that a lie left beyond all bounds would take years to fall.
        let next = self.rule.next(self.within_bound(window), &facts);
        let packets = next.max(0.0) / f64::from(self.mtu);
        let queueing = rtts.latest.saturating_sub(rtts.base);
        let heeded = Rtts {
            latest: rtts.latest.min(rtts.base) + queueing.mul_f64(R::heed(packets)),
            ..rtts
        };
        let gap = self.freshness.hold().max(LONGEST_GAP);
        self.guidance = Some(Guidance {
            window: next.clamp(0.0, MOST_WINDOW),
            base_rtt: rtts.base,
            period: R::period(&heeded),
            least_rate: f64::from(self.mtu) / gap.as_secs_f64(),
        });
    }
}

impl Fallback {
    fn new(config: Config, mtu: u16) -> Self {
        let initial_window = config.initial_window;
        match config.fallback {
            FallbackKind::Vegas => Self::Vegas(Vegas::new(
                vegas::Config {
                    initial_window,
                    ..vegas::Config::VEGAS_1
                },
                mtu,
            )),
            FallbackKind::Reno => Self::Reno(Gaimd::new(
                gaimd::Config {
                    initial_window,
                    ..gaimd::Config::RENO
                },
                mtu,
            )),
        }
    }

    fn get(&self) -> &dyn Controller {
        match self {
            Self::Vegas(vegas) => vegas,
            Self::Reno(reno) => reno,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Controller {
        match self {
            Self::Vegas(vegas) => vegas,
            Self::Reno(reno) => reno,
        }
    }

    /// Goes on in congestion avoidance with `window` bytes.
    fn resume(&mut self, window: u64) {
        match self {
            Self::Vegas(vegas) => vegas.leave_slow_start(window),
            Self::Reno(reno) => reno.leave_slow_start(window),
        }
    }
}

impl<R: Rule> Controller for Guided<R> {
    fn on_path(&mut self, sample: &PathSample) {
        let least = self.least_echoed.unwrap_or(sample.rtt);
        self.least_echoed = Some(least.min(sample.rtt));
        self.latest_rtt = sample.rtt;
        if sample.forward_queueing.is_some() || sample.backward_queueing.is_some() {
            self.corrected_rtt.on_path(sample);
        }
        if self.rule.hear(sample) {
            self.freshness.hear(sample.now);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(sample) = SizedRtt::of_ack(ack, self.mtu) {
            self.least_acked = Some(sample.least(self.least_acked));
            self.freshness.measure(sample.rtt());
        }
        self.fallback.get_mut().on_ack(ack);
        self.bound.on_ack(ack);
        let holds = self.freshness.holds(ack.now);
        // The rule lets somewhat more fly than its window: not in the middle of a recovery period.
        let may_begin = ack.bytes_after_recovery > 0;
        if holds && (self.guidance.is_some() || may_begin) {
            self.follow_rule(ack);
        } else {
            if !holds {
                self.leave_rule();
            }
            // What the fallback reaches, losses and round trips have allowed.
            self.bound.raise_to(self.fallback.get().window());
        }
    }

    fn on_round(&mut self, round: &Round) {
        self.fallback.get_mut().on_round(round);
        self.corrected_rtt.end_round();
        if self.guidance.is_none() {
            self.bound.raise_to(self.fallback.get().window());
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.bound.on_congestion(event, self.in_force());
        self.fallback.get_mut().on_congestion(event);
    }

    fn on_persistent_congestion(&mut self) {
        self.bound.on_persistent_congestion();
        self.fallback.get_mut().on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.bound.on_mtu(mtu);
        self.fallback.get_mut().on_mtu(mtu);
    }

    fn on_overhead(&mut self, bytes: u16) {
        self.overhead = bytes;
    }

    fn window(&self) -> u64 {
        match self.guidance {
            Some(Guidance { window, .. }) => {
                let packet = f64::from(self.mtu);
                self.within_bound((window + R::slack(window, self.mtu)).max(packet)) as u64
            }
            None => self.fallback.get().window(),
        }
    }

    fn pacing_rate(&self) -> Option<u64> {
        let guidance = self.guidance?;
        let rate = self.within_bound(guidance.window) / guidance.period.as_secs_f64();
        Some(rate.max(guidance.least_rate) as u64)
    }

    fn follows(&self) -> Option<Feedback> {
        Some(R::FOLLOWS)
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        match self.guidance {
            Some(_) => self.bound.threshold(),
            None => self.fallback.get().slow_start_threshold(),
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests;
