//! A sender that routers guide: the part that ACP, XCP and RCP share.
//!
//! Their papers assume that every router guides, no packet is lost, and nobody lies. Here a
//! fallback decides before the first grant, and once feedback has expired (`docs/path-header.md`,
//! section 4.3). Rule and fallback take over each other's window. A bound limits the window to what
//! losses would allow, and even the lowest rate still sends often enough to notice a better one.

mod config;
mod fallback;
mod rule;

use std::time::Duration;

use crate::adapter::adapt;
use crate::base_rtt::CorrectedRtt;
use crate::controller::{
    Ack, Congestion, Controller, DEFAULT_OVERHEAD, Feedback, PathSample, Round,
};
use crate::freshness::Freshness;
use crate::loss_bound::LossBound;
use crate::row::{ControllerBuild, ControllerRow};
use crate::sized_rtt::SizedRtt;
use config::PARAMETERS;

pub use config::Config;
pub use fallback::FallbackKind;
pub use rule::{Facts, Rtts, Rule};

/// The longest time between packets that a rate can ask for, unless feedback holds for longer. Each
/// packet brings new feedback, so a wrong rate lasts this time and a round trip. Only a link that
/// cannot carry a packet per second from each sender suffers.
const LONGEST_GAP: Duration = Duration::from_secs(1);

/// The shortest round trip time assumed: that of a loop through one host.
const LEAST_RTT: Duration = Duration::from_micros(1);

/// The largest window, in bytes: a second at 8 petabit/s.
const MOST_WINDOW: f64 = 1e15;

/// Returns the row of a sender that follows `R`.
pub(crate) const fn row<R: Rule + Default>(
    name: &'static str,
    summary: &'static str,
) -> ControllerRow {
    ControllerRow {
        name,
        summary,
        parameters: &PARAMETERS,
        build: ControllerBuild {
            uses_path: |_| true,
            factory: |values| {
                let config = Config::read(values);
                Ok(adapt(move |_, mtu| {
                    Box::new(Guided::new(R::default(), config, mtu))
                }))
            },
        },
    }
}

/// A sender that follows `R`.
#[derive(Debug, Clone)]
pub struct Guided<R> {
    rule: R,
    /// `None` while the fallback decides.
    guidance: Option<Guidance>,
    /// Keeps measuring while the rule decides.
    fallback: Box<dyn Controller>,
    bound: LossBound,
    freshness: Freshness,
    /// The least round trip time that an ACK ever measured.
    least_acked: Option<SizedRtt>,
    /// The least round trip time that a path header ever measured; it counts before that of ACKs.
    least_echoed: Option<Duration>,
    /// The round trip time of the newest path header.
    latest_rtt: Duration,
    corrected_rtt: CorrectedRtt,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes of a full-size IP packet beyond that payload.
    overhead: u16,
}

/// A rule's decision.
#[derive(Debug, Clone, Copy)]
struct Guidance {
    /// In bytes, down to less than a packet.
    window: f64,
    /// The empty round trip for which the rule chose the window.
    base_rtt: Duration,
    /// The time in which the window leaves, above 0.
    period: Duration,
    /// Bytes per second that leave however small the window is.
    least_rate: f64,
}

impl<R: Rule> Guided<R> {
    /// Creates a controller without feedback so far, for full-size packets of `mtu` bytes.
    pub fn new(rule: R, config: Config, mtu: u16) -> Self {
        Self {
            rule,
            guidance: None,
            fallback: config.fallback.build(config.initial_window, mtu),
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
        // A QUIC stack reads its clock before it reads its socket. If its process is kept from
        // running in between, an ACK seems to have come early, by as much as all of the round trip.
        let acked = || self.least_acked.map(SizedRtt::rtt);
        let plain = self.least_echoed.or_else(acked).unwrap_or_default();
        let corrected = self
            .corrected_rtt
            .base_rtt(plain, self.corrected_rtt.is_complete());
        Rtts {
            // A router that reports all delay as queueing must not make the window vanish.
            base: corrected.max(plain / 2).max(LEAST_RTT),
            latest: self.latest_rtt.max(LEAST_RTT),
            smoothed: self.freshness.smoothed_rtt().max(LEAST_RTT),
        }
    }

    /// Limits a window of `window` bytes to the loss bound.
    fn within_bound(&self, window: f64) -> f64 {
        window.min(self.bound.window() as f64)
    }

    /// Returns the window in force in bytes, without the slack beyond it.
    fn in_force(&self) -> u64 {
        match self.guidance {
            Some(guidance) => self.within_bound(guidance.window) as u64,
            None => self.fallback.window(),
        }
    }

    /// Lets the fallback continue with the window in force, because feedback has expired.
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
            None => self.fallback.window() as f64,
        };
        let facts = Facts {
            ack,
            rtts,
            mtu: self.mtu,
            payload: f64::from(self.mtu) / (f64::from(self.mtu) + f64::from(self.overhead)),
        };
        // From the bounded window: one that a lie has raised would otherwise take years to fall.
        let next = self.rule.next(self.within_bound(window), &facts);
        let packets = next.max(0.0) / f64::from(self.mtu);
        let queueing = rtts.latest.saturating_sub(rtts.base);
        let considered = Rtts {
            latest: rtts.latest.min(rtts.base) + queueing.mul_f64(R::queueing_share(packets)),
            ..rtts
        };
        let gap = self.freshness.hold().max(LONGEST_GAP);
        self.guidance = Some(Guidance {
            window: next.clamp(0.0, MOST_WINDOW),
            base_rtt: rtts.base,
            period: R::period(&considered),
            least_rate: f64::from(self.mtu) / gap.as_secs_f64(),
        });
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
        if self.rule.on_path(sample) {
            self.freshness.on_feedback(sample.now);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(sample) = SizedRtt::of_ack(ack, self.mtu) {
            self.least_acked = Some(sample.least(self.least_acked));
            self.freshness.on_rtt(sample.rtt());
        }
        self.fallback.on_ack(ack);
        self.bound.on_ack(ack);
        let holds = self.freshness.holds(ack.now);
        // Do not begin in a recovery period: the rule allows slack beyond its window.
        let may_begin = ack.bytes_after_recovery > 0;
        if holds && (self.guidance.is_some() || may_begin) {
            self.follow_rule(ack);
        } else {
            if !holds {
                self.leave_rule();
            }
            // Losses and round trips have allowed the fallback's window.
            self.bound.raise_to(self.fallback.window());
        }
    }

    fn on_round(&mut self, round: &Round) {
        self.fallback.on_round(round);
        self.corrected_rtt.end_round();
        if self.guidance.is_none() {
            self.bound.raise_to(self.fallback.window());
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.bound.on_congestion(event, self.in_force());
        self.fallback.on_congestion(event);
    }

    fn on_persistent_congestion(&mut self) {
        self.bound.on_persistent_congestion();
        self.fallback.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.bound.on_mtu(mtu);
        self.fallback.on_mtu(mtu);
    }

    fn resume(&mut self, window: u64) {
        // While routers guide, their word counts.
        if self.guidance.is_none() {
            self.fallback.resume(window);
        }
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
            None => self.fallback.window(),
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
            None => self.fallback.slow_start_threshold(),
        }
    }
}

#[cfg(test)]
mod tests;
