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
        let next = self.rule.next(window.min(MOST_WINDOW), &facts);
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
mod tests {
    use std::time::Instant;

    use proptest::prelude::*;

    use super::*;
    use crate::controller::Grant;
    use crate::testing::{ack, epoch, loss, ms, path_sample, round};

    const MTU: u16 = 1000;

    /// Takes the window that it is granted, in 256ths of a byte.
    #[derive(Debug, Clone, Default)]
    struct Obedient {
        window: f64,
    }

    impl Rule for Obedient {
        const FOLLOWS: Feedback = Feedback::Xcp;

        fn hear(&mut self, sample: &PathSample) -> bool {
            if let Some(Grant::WindowChange(window)) = sample.grant {
                self.window = window as f64 / 256.0;
            }
            sample.grant.is_some()
        }

        fn next(&mut self, _window: f64, _facts: &Facts<'_>) -> f64 {
            self.window
        }
    }

    const TEN: Config = Config {
        fallback: FallbackKind::Vegas,
        initial_window: InitialWindow::Packets(10),
        bound: InitialWindow::Rfc9002,
    };

    fn guided() -> Guided<Obedient> {
        Guided::new(Obedient::default(), TEN, MTU)
    }

    /// A sample at `now` that grants a window of `bytes` bytes on a path of 100 ms.
    fn grant(now: Instant, bytes: i64) -> PathSample {
        PathSample {
            now,
            grant: Some(Grant::WindowChange(256 * bytes)),
            forward_queueing: None,
            backward_queueing: None,
            ..path_sample()
        }
    }

    /// Hears of a window of `bytes` bytes at `now`, then of an ACK for two packets of as many as
    /// the window allows.
    fn follow(guided: &mut Guided<Obedient>, now: Instant, bytes: i64) {
        guided.on_path(&grant(now, bytes));
        guided.on_ack(&Ack {
            in_flight: guided.in_force(),
            ..ack(now, 100, 2000)
        });
    }

    #[test]
    fn the_rule_takes_over_with_the_first_grant_and_the_fallback_when_it_has_expired() {
        let t0 = epoch();
        let mut guided = guided();
        guided.on_ack(&ack(t0, 100, 2000));
        assert_eq!((guided.window(), guided.pacing_rate()), (10_000, None));
        follow(&mut guided, t0 + ms(100), 7000);
        // A packet more may be in flight. 7000 bytes in 100 ms.
        assert_eq!(
            (guided.window(), guided.pacing_rate()),
            (8000, Some(70_000))
        );
        // Four round trips.
        guided.on_ack(&ack(t0 + ms(500), 100, 2000));
        assert_eq!(guided.window(), 8000);
        guided.on_ack(&ack(t0 + ms(501), 100, 2000));
        assert_eq!((guided.window(), guided.pacing_rate()), (7000, None));
        assert_eq!(
            guided.slow_start_threshold(),
            Some(7000),
            "congestion avoidance"
        );
        guided.on_round(&round(100));
        assert_eq!(guided.window(), 8000, "Vegas goes on from there");
        follow(&mut guided, t0 + ms(600), 5200);
        assert_eq!(guided.window(), 7000, "six whole packets and one");
    }

    #[test]
    fn what_has_expired_does_not_come_back_when_round_trips_grow() {
        let t0 = epoch();
        let mut guided = guided();
        follow(&mut guided, t0, 7000);
        guided.on_ack(&ack(t0 + ms(401), 100, 2000));
        assert!(guided.guidance.is_none());
        guided.on_ack(&ack(t0 + ms(402), 900, 2000));
        assert!(guided.guidance.is_none());
    }

    #[test]
    fn the_rule_takes_over_with_data_sent_after_a_recovery_period_began() {
        let t0 = epoch();
        let mut guided = guided();
        guided.on_path(&grant(t0, 7000));
        guided.on_ack(&Ack {
            bytes_after_recovery: 0,
            ..ack(t0, 100, 2000)
        });
        assert_eq!((guided.window(), guided.pacing_rate()), (10_000, None));
        guided.on_ack(&ack(t0, 100, 2000));
        assert_eq!(guided.window(), 8000);
    }

    #[test]
    fn a_path_header_without_a_grant_is_none() {
        let t0 = epoch();
        let mut guided = guided();
        guided.on_path(&path_sample());
        guided.on_ack(&ack(t0, 100, 2000));
        assert!(guided.guidance.is_none());
    }

    #[test]
    fn routers_double_the_window_at_most_in_a_round_trip_until_a_loss() {
        let t0 = epoch();
        let mut guided = guided();
        for doubled in [20_000_u64, 40_000, 80_000] {
            let acks = guided.window().max(10_000) / 2000;
            for _ in 0..acks {
                guided.on_path(&grant(t0, i64::MAX / 256));
                guided.on_ack(&Ack {
                    in_flight: guided.window(),
                    ..ack(t0, 100, 2000)
                });
            }
            assert_eq!(guided.window(), doubled);
            assert_eq!(guided.pacing_rate(), Some(doubled * 10));
        }
        guided.on_congestion(&loss());
        assert_eq!(guided.window(), 40_000);
        assert_eq!(guided.pacing_rate(), Some(400_000));
        assert_eq!(guided.slow_start_threshold(), Some(40_000));
        // A packet more per window acknowledged.
        for _ in 0..20 {
            guided.on_path(&grant(t0, i64::MAX / 256));
            guided.on_ack(&Ack {
                in_flight: 40_000,
                ..ack(t0, 100, 2000)
            });
        }
        assert_eq!(guided.window(), 41_000);
        guided.on_persistent_congestion();
        assert_eq!(
            (guided.window(), guided.pacing_rate()),
            (2000, Some(20_000))
        );
    }

    #[test]
    fn a_loss_halves_what_was_in_force_not_what_might_have_been() {
        let t0 = epoch();
        let mut guided = guided();
        for _ in 0..20 {
            follow(&mut guided, t0, 6000);
        }
        assert_eq!(
            guided.bound.window(),
            14_000,
            "as long as half of it was in use"
        );
        guided.on_congestion(&loss());
        assert_eq!((guided.in_force(), guided.window()), (3000, 3000));
        assert_eq!(guided.pacing_rate(), Some(30_000));
    }

    #[test]
    fn below_a_packet_the_rate_decides_and_has_a_least_value() {
        let t0 = epoch();
        let mut guided = guided();
        follow(&mut guided, t0, 250);
        assert_eq!(
            (guided.window(), guided.pacing_rate()),
            (2000, Some(2500)),
            "a quarter of a packet in 100 ms"
        );
        for nothing in [0, -5, i64::MIN / 256] {
            follow(&mut guided, t0, nothing);
            assert_eq!(
                (guided.window(), guided.pacing_rate()),
                (1000, Some(1000)),
                "a packet a second"
            );
        }
        // Where feedback holds for longer, a packet in that time.
        let mut far = self::guided();
        far.on_path(&PathSample {
            rtt: ms(500),
            ..grant(t0, 0)
        });
        far.on_ack(&ack(t0, 500, 2000));
        assert_eq!(far.pacing_rate(), Some(500));
    }

    /// Ten bytes for each millisecond of the empty round trip.
    #[derive(Debug, Clone)]
    struct Measure;

    impl Rule for Measure {
        const FOLLOWS: Feedback = Feedback::Acp;

        fn hear(&mut self, _sample: &PathSample) -> bool {
            true
        }

        fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64 {
            if facts.ack.bytes == 0 {
                return window;
            }
            facts.rtts.base.as_secs_f64() * 10_000.0
        }
    }

    #[test]
    fn queueing_that_routers_tell_is_no_part_of_the_empty_round_trip() {
        let t0 = epoch();
        // (queueing there and back of 100 ms, window): at most half of it is believed.
        for (forward, backward, window) in
            [(0, 0, 1000), (10, 30, 600), (10, 60, 500), (100, 0, 500)]
        {
            let mut guided = Guided::new(Measure, TEN, MTU);
            guided.on_path(&PathSample {
                forward_queueing: Some(ms(forward)),
                backward_queueing: Some(ms(backward)),
                ..grant(t0, 0)
            });
            guided.on_ack(&ack(t0, 100, 2000));
            assert_eq!(guided.in_force(), window);
            assert_eq!(guided.pacing_rate(), Some(window * 10), "in 100 ms");
        }
    }

    #[test]
    fn another_empty_round_trip_changes_the_window_and_not_the_rate() {
        let t0 = epoch();
        let mut guided = Guided::new(Measure, TEN, MTU);
        let mut hear = |rtt, forward, bytes| {
            guided.on_path(&PathSample {
                rtt: ms(rtt),
                forward_queueing: Some(ms(forward)),
                ..grant(t0, 0)
            });
            guided.on_ack(&ack(t0, rtt, bytes));
            (guided.in_force(), guided.pacing_rate())
        };
        assert_eq!(hear(200, 0, 2000), (2000, Some(10_000)));
        assert_eq!(hear(160, 0, 0), (1600, Some(10_000)), "a shorter route");
        assert_eq!(
            hear(160, 40, 0),
            (1200, Some(7500)),
            "a queue on a yet shorter one"
        );
        assert_eq!(
            hear(240, 120, 0),
            (1200, Some(5000)),
            "it leaves in a round trip as it is"
        );
    }

    #[test]
    fn a_rule_may_heed_a_part_of_the_newest_queueing_time() {
        /// Half of it.
        #[derive(Debug, Clone)]
        struct Half;

        impl Rule for Half {
            const FOLLOWS: Feedback = Feedback::Acp;

            fn hear(&mut self, _sample: &PathSample) -> bool {
                true
            }

            fn next(&mut self, _window: f64, _facts: &Facts<'_>) -> f64 {
                2000.0
            }

            fn heed(packets: f64) -> f64 {
                assert_eq!(packets, 2.0);
                0.5
            }
        }
        let t0 = epoch();
        let mut guided = Guided::new(Half, TEN, MTU);
        // (round trip of the header, rate in bytes per second): the empty path has 100 ms.
        for (rtt, rate) in [(100, 20_000), (300, 10_000), (700, 5000)] {
            guided.on_path(&PathSample {
                rtt: ms(rtt),
                ..grant(t0, 0)
            });
            guided.on_ack(&ack(t0, rtt, 2000));
            assert_eq!(guided.pacing_rate(), Some(rate), "{rtt} ms");
        }
    }

    #[test]
    fn where_nobody_lies_a_first_grant_may_take_more_than_slow_start() {
        let t0 = epoch();
        for (bound, window) in [
            (InitialWindow::Rfc9002, 12_000),
            (InitialWindow::Packets(300), 300_000),
        ] {
            let mut guided = Guided::new(Obedient::default(), Config { bound, ..TEN }, MTU);
            guided.on_path(&grant(t0, 900_000));
            guided.on_ack(&Ack {
                in_flight: 10_000,
                ..ack(t0, 100, 2000)
            });
            assert_eq!(guided.window(), window, "{bound:?}");
            guided.on_congestion(&loss());
            assert_eq!(guided.window(), window / 2, "{bound:?}");
        }
    }

    #[test]
    fn the_fallback_can_be_reno() {
        let reno = Config {
            fallback: FallbackKind::Reno,
            ..TEN
        };
        let t0 = epoch();
        let mut guided = Guided::new(Obedient::default(), reno, MTU);
        guided.on_ack(&ack(t0, 100, 2000));
        assert_eq!(guided.window(), 12_000);
        follow(&mut guided, t0, 6000);
        guided.on_ack(&ack(t0 + ms(1000), 100, 6000));
        assert_eq!(guided.window(), 6000);
        guided.on_ack(&ack(t0 + ms(1000), 100, 6000));
        assert_eq!(guided.window(), 7000);
    }

    #[test]
    fn packets_of_another_size_change_the_least_window_and_the_share_of_payload() {
        #[derive(Debug, Clone)]
        struct Payload;

        impl Rule for Payload {
            const FOLLOWS: Feedback = Feedback::Acp;

            fn hear(&mut self, _sample: &PathSample) -> bool {
                true
            }

            fn next(&mut self, _window: f64, facts: &Facts<'_>) -> f64 {
                facts.payload * 10_000.0
            }
        }
        let t0 = epoch();
        let mut guided = Guided::new(Payload, TEN, MTU);
        let window = |guided: &mut Guided<Payload>| {
            guided.on_path(&grant(t0, 0));
            guided.on_ack(&ack(t0, 100, 2000));
            guided.in_force()
        };
        assert_eq!(window(&mut guided), 9433, "10000 x 1000 / 1060");
        guided.on_overhead(80);
        assert_eq!(window(&mut guided), 9259, "10000 x 1000 / 1080");
        guided.on_mtu(1420);
        assert_eq!(window(&mut guided), 9466, "10000 x 1420 / 1500");
    }

    proptest! {
        #[test]
        fn without_grants_it_is_the_fallback(
            events in prop::collection::vec((0_u8..8, 1_u64..400, 0_u64..40_000, any::<bool>()), 1..200),
        ) {
            let t0 = epoch();
            let mut guided = guided();
            let mut vegas = Vegas::new(vegas::Config { initial_window: InitialWindow::Packets(10), ..vegas::Config::VEGAS_1 }, MTU);
            for (at, (event, rtt, bytes, flag)) in events.into_iter().enumerate() {
                let now = t0 + ms(400 + at as u64 * 10);
                let both: [&mut dyn Controller; 2] = [&mut guided, &mut vegas];
                for controller in both {
                    match event {
                        0..3 => controller.on_ack(&Ack { app_limited: flag, ..ack(now, rtt, bytes) }),
                        3..6 => controller.on_round(&Round { now, in_recovery: flag, ..round(rtt) }),
                        6 if flag => controller.on_congestion(&loss()),
                        6 => controller.on_persistent_congestion(),
                        _ => controller.on_path(&PathSample { now, rtt: ms(rtt), ..path_sample() }),
                    }
                }
                prop_assert_eq!(guided.window(), vegas.window());
                prop_assert_eq!(guided.slow_start_threshold(), vegas.slow_start_threshold());
                prop_assert_eq!(guided.pacing_rate(), None);
            }
        }
    }
}
