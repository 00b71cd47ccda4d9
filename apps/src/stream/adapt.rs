//! The bitrate an encoder is told to aim at: it follows what the connection can carry, down at
//! once and up slowly.
//!
//! While an application sends less than its controller allows, the controller does not try more,
//! and its estimate is only what it knows to be possible. An encoder that stayed below the
//! estimate for good would never see it grow. Hence two bounds: the estimate less a headroom
//! while the connection has a backlog, the estimate itself while it has none.

use std::time::{Duration, Instant};

use tracing::{debug, trace};

/// How long something has to wait without a break to be a standing backlog, 1 s: twice as long as
/// a key frame five times as large as others takes to pass where a tenth is to spare.
const STANDING: Duration = Duration::from_secs(1);

/// How an encoder follows the connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdaptConfig {
    /// The most to aim at, bits per second.
    pub ceiling_bps: u64,
    /// The least to aim at, bits per second.
    pub floor_bps: u64,
    /// What to begin with, bits per second.
    pub start_bps: u64,
    /// Share of the estimate to use while there is a backlog, above 0 to 1.
    pub headroom: f64,
    /// Smaller changes than this share of the bitrate are not made, 0 to 0.5.
    pub deadband: f64,
    /// Greatest rise per second as a share of the bitrate, above 0 to 10.
    pub rise_per_s: f64,
    /// Always the ceiling, whatever the connection can carry.
    pub fixed: bool,
}

/// The bitrate of one viewer's encoder.
#[derive(Clone, Debug)]
pub(super) struct Adaptation {
    config: AdaptConfig,
    target_bps: u64,
    /// When it last changed.
    changed: Instant,
    switches: u64,
    /// The least that has waited since the watch began, bytes.
    standing: Option<u64>,
    /// When the watch for a standing backlog began.
    watched: Instant,
}

/// What the connection says when a frame is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Bits per second that the controller lets the path carry; `None` while it does not know.
    pub(super) estimate_bps: Option<u64>,
    /// Smoothed round-trip time.
    pub(super) rtt: Duration,
    /// What was captured before is not yet on its way.
    pub(super) backlog: bool,
    /// Bytes of frames that are not yet handed to the connection.
    pub(super) waiting: u64,
}

impl Default for AdaptConfig {
    /// A tenth stays for headers, retransmissions and audio. The rise is that of Google's
    /// congestion control for real-time media far from convergence, 8 % a second
    /// (draft-ietf-rmcat-gcc-02, section 5.5). The initial window of RFC 9002 over 100 ms is
    /// about 1 Mb/s.
    fn default() -> Self {
        Self {
            ceiling_bps: 3_000_000,
            floor_bps: 100_000,
            start_bps: 1_000_000,
            headroom: 0.9,
            deadband: 0.05,
            rise_per_s: 0.08,
            fixed: false,
        }
    }
}

impl AdaptConfig {
    /// # Errors
    /// Which value is out of its range, or contradicts another.
    pub fn check(&self) -> Result<(), String> {
        let most = u64::from(u32::MAX);
        if self.ceiling_bps == 0 || self.ceiling_bps > most {
            return Err(format!(
                "the bitrate is not between 1 and {most} bits per second"
            ));
        }
        if self.floor_bps == 0 || self.floor_bps > self.ceiling_bps {
            return Err("the floor is not between 1 bit per second and the bitrate".into());
        }
        for (name, value, above, most) in [
            ("headroom", self.headroom, 0.0, 1.0),
            ("rise", self.rise_per_s, 0.0, 10.0),
        ] {
            if !(value > above && value <= most) {
                return Err(format!(
                    "the {name} {value} is not above {above} and at most {most}"
                ));
            }
        }
        if !(0.0..=0.5).contains(&self.deadband) {
            return Err(format!(
                "the deadband {} is not between 0 and 0.5",
                self.deadband
            ));
        }
        Ok(())
    }
}

impl Adaptation {
    /// Begins at `now`.
    pub(super) fn new(config: AdaptConfig, now: Instant) -> Self {
        let start = config.start_bps.clamp(config.floor_bps, config.ceiling_bps);
        Self {
            target_bps: if config.fixed {
                config.ceiling_bps
            } else {
                start
            },
            config,
            changed: now,
            switches: 0,
            standing: None,
            watched: now,
        }
    }

    /// Bits per second to aim at.
    pub(super) fn target_bps(&self) -> u64 {
        self.target_bps
    }

    /// How often that has changed.
    pub(super) fn switches(&self) -> u64 {
        self.switches
    }

    /// A frame is captured at `now`: decides what it should have.
    pub(super) fn decide(&mut self, now: Instant, path: Path) {
        let Some(estimate) = path.estimate_bps.filter(|_| !self.config.fixed) else {
            return;
        };
        trace!(?path, target_bps = self.target_bps, "encoder asks");
        let estimate = estimate as f64;
        let limit = estimate * self.config.headroom;
        let target = self.target_bps as f64;
        let since = now.saturating_duration_since(self.changed);
        if let Some(standing) = self.standing_backlog(now, path.waiting) {
            // The rate that carries it away in as long as it was watched, on top of the frames.
            let drain = standing as f64 * 8.0 / STANDING.as_secs_f64();
            self.set(now, (target.min(limit) - drain).max(target / 2.0));
            return;
        }
        let bound = if path.backlog { limit } else { estimate };
        if target > bound {
            // What the last change did shows a round trip later.
            if limit < target * (1.0 - self.config.deadband) && since >= path.rtt {
                self.set(now, limit);
            }
            return;
        }
        // The rise of a long time without room is not made up for at once.
        let most = self.config.deadband.max(self.config.rise_per_s / 4.0);
        let rise = (self.config.rise_per_s * since.as_secs_f64()).min(most);
        let next = (target * (1.0 + rise))
            .min(bound)
            .min(self.config.ceiling_bps as f64);
        let reaches_ceiling = next >= self.config.ceiling_bps as f64 && next > target;
        if next >= target * (1.0 + self.config.deadband) && next > target || reaches_ceiling {
            self.set(now, next);
        }
    }

    /// What has waited all the time of a watch, once that is over: a large frame passes, a backlog
    /// that stands means that the encoder makes more than the path takes. (CoDel tells good queues
    /// from bad by the least sojourn time in an interval: RFC 8289, section 3.)
    fn standing_backlog(&mut self, now: Instant, waiting: u64) -> Option<u64> {
        let least = self.standing.map_or(waiting, |least| least.min(waiting));
        self.standing = Some(least);
        if now.saturating_duration_since(self.watched) < STANDING {
            return None;
        }
        (self.standing, self.watched) = (None, now);
        Some(least).filter(|least| *least > 0)
    }

    fn set(&mut self, now: Instant, bps: f64) {
        let bps = (bps as u64).clamp(self.config.floor_bps, self.config.ceiling_bps);
        if bps != self.target_bps {
            debug!(
                from_bps = self.target_bps,
                to_bps = bps,
                "encoder's bitrate changes"
            );
            (self.target_bps, self.changed) = (bps, now);
            self.switches += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tests::epoch;

    const RTT: Duration = Duration::from_millis(100);

    fn path(estimate_bps: u64, backlog: bool) -> Path {
        Path {
            estimate_bps: Some(estimate_bps),
            rtt: RTT,
            backlog,
            waiting: 0,
        }
    }

    fn config(start_bps: u64) -> AdaptConfig {
        AdaptConfig {
            ceiling_bps: 10_000_000,
            start_bps,
            ..AdaptConfig::default()
        }
    }

    /// Decides 30 times a second for `seconds`.
    fn run(adaptation: &mut Adaptation, from: Instant, seconds: f64, path: Path) -> Instant {
        let frames = (seconds * 30.0) as u32;
        let at = |frame: u32| from + Duration::from_secs(1) * frame / 30;
        (1..=frames).for_each(|frame| adaptation.decide(at(frame), path));
        at(frames)
    }

    #[test]
    fn it_falls_at_once_to_the_estimate_less_the_headroom() {
        let start = epoch();
        let mut adaptation = Adaptation::new(config(8_000_000), start);
        adaptation.decide(start + RTT, path(5_000_000, true));
        assert_eq!(adaptation.target_bps(), 4_500_000);
        // And not again before that can have had an effect.
        adaptation.decide(start + RTT * 3 / 2, path(2_000_000, true));
        assert_eq!(adaptation.target_bps(), 4_500_000);
        adaptation.decide(start + RTT * 2, path(2_000_000, true));
        assert_eq!(adaptation.target_bps(), 1_800_000);
    }

    #[test]
    fn it_rises_by_eight_percent_a_second_to_the_estimate_while_nothing_waits() {
        let start = epoch();
        let mut adaptation = Adaptation::new(config(1_000_000), start);
        let now = run(&mut adaptation, start, 10.0, path(50_000_000, false));
        // 1.08^10 = 2.16; a little less because it rises in steps of the deadband.
        let after_ten = adaptation.target_bps() as f64 / 1e6;
        assert!((1.9..=2.16).contains(&after_ten), "{after_ten}");
        run(&mut adaptation, now, 30.0, path(3_000_000, false));
        let end = adaptation.target_bps();
        assert!((2_850_000..=3_000_000).contains(&end), "{end}");
    }

    #[test]
    fn a_backlog_keeps_it_below_the_estimate() {
        let start = epoch();
        let mut adaptation = Adaptation::new(config(1_000_000), start);
        run(&mut adaptation, start, 60.0, path(3_000_000, true));
        let end = adaptation.target_bps();
        assert!((2_565_000..=2_700_000).contains(&end), "{end}");
    }

    #[test]
    fn changes_within_the_deadband_are_not_made() {
        let start = epoch();
        let mut adaptation = Adaptation::new(config(4_500_000), start);
        for (nth, estimate) in (1..).zip([4_900_000, 5_100_000, 4_800_000, 5_200_000]) {
            adaptation.decide(start + RTT * nth, path(estimate, true));
        }
        assert_eq!(
            (adaptation.target_bps(), adaptation.switches()),
            (4_500_000, 0)
        );
    }

    #[test]
    fn a_backlog_that_stands_for_a_second_is_carried_away() {
        let start = epoch();
        let mut adaptation = Adaptation::new(config(2_000_000), start);
        // 40 kB wait behind a key frame, and are gone in between.
        for frame in 1..=60 {
            let waiting = if frame % 20 == 0 { 0 } else { 40_000 };
            let path = Path {
                waiting,
                ..path(2_000_000, true)
            };
            adaptation.decide(start + Duration::from_secs(1) * frame / 30, path);
        }
        assert_eq!(adaptation.target_bps(), 1_800_000);
        // At least 50 kB wait for a second: 400 kb/s less.
        for frame in 61..=95 {
            let path = Path {
                waiting: 50_000 + u64::from(frame),
                ..path(2_000_000, true)
            };
            adaptation.decide(start + Duration::from_secs(1) * frame / 30, path);
        }
        let after = adaptation.target_bps();
        assert!((1_390_000..1_400_000).contains(&after), "{after}");
        // Never to less than half at once.
        let mut before = after;
        for frame in 96..=200 {
            let path = Path {
                waiting: 10_000_000,
                ..path(2_000_000, true)
            };
            adaptation.decide(start + Duration::from_secs(1) * frame / 30, path);
            assert!(adaptation.target_bps() >= before / 2);
            before = adaptation.target_bps();
        }
        assert!(before < after / 2, "{before}");
    }

    #[test]
    fn a_fixed_rate_stays_whatever_the_path_is_like() {
        let start = epoch();
        let fixed = AdaptConfig {
            fixed: true,
            ..config(1_000_000)
        };
        let mut adaptation = Adaptation::new(fixed, start);
        run(&mut adaptation, start, 5.0, path(100_000, true));
        assert_eq!(
            (adaptation.target_bps(), adaptation.switches()),
            (10_000_000, 0)
        );
    }

    #[test]
    fn contradictory_settings_are_refused() {
        let fine = AdaptConfig::default();
        for wrong in [
            AdaptConfig {
                ceiling_bps: 0,
                ..fine
            },
            AdaptConfig {
                ceiling_bps: 1 << 33,
                ..fine
            },
            AdaptConfig {
                floor_bps: fine.ceiling_bps + 1,
                ..fine
            },
            AdaptConfig {
                headroom: 0.0,
                ..fine
            },
            AdaptConfig {
                headroom: f64::NAN,
                ..fine
            },
            AdaptConfig {
                deadband: 0.6,
                ..fine
            },
            AdaptConfig {
                rise_per_s: 0.0,
                ..fine
            },
        ] {
            assert!(wrong.check().is_err(), "{wrong:?}");
        }
        fine.check().unwrap();
    }

    proptest! {
        #[test]
        fn the_bitrate_is_always_between_floor_and_ceiling(
            steps in proptest::collection::vec((any::<u64>(), any::<bool>(), 0_u64..5000), 1..100)
        ) {
            let mut now = epoch();
            let mut adaptation = Adaptation::new(AdaptConfig::default(), now);
            for (estimate, backlog, ms) in steps {
                now += Duration::from_millis(ms);
                adaptation.decide(now, path(estimate, backlog));
                prop_assert!((100_000..=3_000_000).contains(&adaptation.target_bps()));
            }
        }
    }
}
