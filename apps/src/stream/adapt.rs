//! Sets the bitrate at which an encoder aims: it follows the connection's capacity, up fast until
//! the connection first limits it, then down at once and up slowly.
//!
//! While an application sends less than its controller allows, the controller does not try more,
//! and its estimate covers only what it knows to be possible. An encoder that stayed below the
//! estimate for good would never see it grow. Hence two bounds: the estimate less a headroom while
//! the connection has a backlog, the estimate itself while it has none. A controller lets a window
//! grow only if about half of it is in use (RFC 7661, section 4.2). So the bitrate does not stay
//! below half of the estimate while nothing waits.

use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_spec::quantity;
use tracing::{debug, trace};

use super::encoder::in_ranges;

/// How long something must wait without a break to count as a standing backlog, 1 s: twice the time
/// that a key frame five times as large as others takes to pass if a tenth of the rate is spare.
const STANDING: Duration = Duration::from_secs(1);

/// Until the connection first limits it, the bitrate doubles in this time, or in a round trip if
/// that is longer: from 1 to 8 Mb/s in three quarters of a second.
const RAMP: Duration = Duration::from_millis(250);

/// Below this share of the estimate the bitrate rises as fast as it does at first, unless something
/// waits.
const USED: f64 = 0.5;

/// For this long after a bitrate left a backlog that stood or was given up, the bitrate rises fast to
/// [`REFUSED_PART`] of that one only: on short paths the estimate is a permission far above what the
/// path carries.
const REFUSED: Duration = Duration::from_secs(10);
const REFUSED_PART: f64 = 0.75;

/// A group that was given up leaves this part of the bitrate, as a loss leaves that of CUBIC's window.
const GIVEN_UP: f64 = 0.7;

/// How an encoder follows the connection; also options of `evenkeel stream server`.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct AdaptConfig {
    /// The encoder's highest bitrate, such as 3M or 500k, in bits per second
    #[arg(long = "bitrate", value_name = "RATE", value_parser = quantity::rate, default_value = "3M", conflicts_with = "input")]
    pub ceiling_bps: u64,
    /// The encoder's lowest bitrate, bits per second
    #[arg(long = "floor", value_name = "RATE", value_parser = quantity::rate, default_value = "100k", conflicts_with = "input")]
    pub floor_bps: u64,
    /// The encoder's first bitrate, at most --bitrate
    #[arg(long = "start-rate", value_name = "RATE", value_parser = quantity::rate, default_value = "1M", conflicts_with = "input")]
    pub start_bps: u64,
    /// Share of the connection's rate to use while frames wait, above 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().headroom, conflicts_with = "input")]
    pub headroom: f64,
    /// Ignore changes smaller than this share of the bitrate, 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = AdaptConfig::default().deadband, conflicts_with = "input")]
    pub deadband: f64,
    /// Once the connection has limited the bitrate, raise it by at most this share of it per
    /// second, above 0 to 10; before, it doubles four times a second
    #[arg(long = "rise", value_name = "SHARE", default_value_t = AdaptConfig::default().rise_per_s, conflicts_with = "input")]
    pub rise_per_s: f64,
    /// Always use --bitrate, whatever the connection can carry
    #[arg(long, conflicts_with_all = ["input", "start_bps", "floor_bps", "headroom", "deadband", "rise_per_s"])]
    pub fixed: bool,
}

/// Adapts the bitrate of one viewer's encoder.
#[derive(Clone, Debug)]
pub(super) struct Adaptation {
    config: AdaptConfig,
    /// The target in bits per second.
    pub(super) target_bps: u64,
    /// The connection has not limited the target yet.
    ramps: bool,
    /// When the target last changed.
    changed: Instant,
    /// How often the target has changed.
    pub(super) switches: u64,
    /// The least that has waited since the watch began, in bytes.
    standing: Option<u64>,
    /// When the watch for a standing backlog began.
    watched: Instant,
    /// When a backlog last stood or was given up, and the bitrate that left it, in bits per second.
    refused: Option<(Instant, f64)>,
    /// [`Path::given_up`] of the frame before.
    given_up: u64,
}

/// The state of the connection when a frame is captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// Bits per second that the controller lets the path carry; `None` while unknown.
    pub(super) estimate_bps: Option<u64>,
    /// Smoothed round-trip time.
    pub(super) rtt: Duration,
    /// An earlier frame is not yet on its way.
    pub(super) backlog: bool,
    /// Bytes of frames not yet handed to the connection.
    pub(super) waiting: u64,
    /// How many groups of the first pictures were given up because they were too late.
    pub(super) given_up: u64,
    /// The peer has acknowledged something in the last second: it is no outage.
    pub(super) is_alive: bool,
}

impl Default for AdaptConfig {
    /// A tenth stays free for headers, retransmissions and audio. The rise is that of Google's
    /// congestion control for real-time media far from convergence, 8 % a second
    /// (draft-ietf-rmcat-gcc-02, section 5.5). The initial window of RFC 9002 over 100 ms is about
    /// 1 Mb/s.
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
    /// Does not adapt: frames need `rate_bps`, whatever the connection carries.
    pub fn fixed(rate_bps: u64) -> Self {
        Self {
            ceiling_bps: rate_bps,
            floor_bps: rate_bps,
            start_bps: rate_bps,
            fixed: true,
            ..Self::default()
        }
    }

    /// # Errors
    /// Which value is out of its range, or contradicts another.
    pub fn check(&self) -> Result<(), String> {
        let above_0 = f64::MIN_POSITIVE;
        in_ranges(&[
            ("bitrate", self.ceiling_bps as f64, 1.0, u32::MAX.into()),
            ("floor", self.floor_bps as f64, 1.0, self.ceiling_bps as f64),
            ("headroom", self.headroom, above_0, 1.0),
            ("rise", self.rise_per_s, above_0, 10.0),
            ("deadband", self.deadband, 0.0, 0.5),
        ])
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
            ramps: true,
            changed: now,
            switches: 0,
            standing: None,
            watched: now,
            refused: None,
            given_up: 0,
        }
    }

    /// Decides on the bitrate of a frame that is captured at `now`.
    pub(super) fn decide(&mut self, now: Instant, path: Path) {
        let Some(estimate) = path.estimate_bps.filter(|_| !self.config.fixed) else {
            return;
        };
        trace!(?path, target_bps = self.target_bps, "encoder asks");
        let estimate = estimate as f64;
        let limit = estimate * self.config.headroom;
        let target = self.target_bps as f64;
        let since = now.saturating_duration_since(self.changed);
        if path.given_up > std::mem::replace(&mut self.given_up, path.given_up) && path.is_alive {
            self.refuse(now);
            self.set(now, GIVEN_UP * target);
            return;
        }
        if let Some(standing) = self.standing_backlog(now, path.waiting) {
            // The rate that drains it within the time that it was watched, besides the frames.
            let drain = standing as f64 * 8.0 / STANDING.as_secs_f64();
            self.ramps = false;
            if path.is_alive {
                self.refuse(now);
            }
            self.set(now, (target.min(limit) - drain).max(target / 2.0));
            return;
        }
        let bound = if path.backlog { limit } else { estimate };
        if target > bound {
            // A change takes effect a round trip later.
            if limit < target * (1.0 - self.config.deadband) && since >= path.rtt {
                self.ramps = false;
                self.set(now, limit);
            }
            return;
        }
        let doublings = since.as_secs_f64() / RAMP.max(path.rtt).as_secs_f64();
        let ramp = doublings.min(1.0).exp2() - 1.0;
        // A long time without room to rise does not allow one large step.
        let most = self.config.deadband.max(self.config.rise_per_s / 4.0);
        let slow = (self.config.rise_per_s * since.as_secs_f64()).min(most);
        let rise = if self.ramps {
            ramp
        } else if path.backlog {
            slow
        } else {
            let refused = self.refused_within(now, REFUSED);
            let carried = refused.map_or(f64::MAX, |refused| REFUSED_PART * refused);
            let used = carried.min(USED * estimate);
            slow.max(ramp.min(used / target - 1.0))
        };
        let next = (target * (1.0 + rise))
            .min(bound)
            .min(self.config.ceiling_bps as f64);
        let reaches_ceiling = next >= self.config.ceiling_bps as f64 && next > target;
        if next >= target * (1.0 + self.config.deadband) && next > target || reaches_ceiling {
            self.set(now, next);
        }
    }

    /// Returns the bytes that waited throughout a watch, once it is over. A large frame passes, but
    /// a standing backlog means that the encoder makes more than the path carries. (CoDel tells
    /// good queues from bad by the least sojourn time in an interval: RFC 8289, section 3.)
    fn standing_backlog(&mut self, now: Instant, waiting: u64) -> Option<u64> {
        let least = self.standing.map_or(waiting, |least| least.min(waiting));
        self.standing = Some(least);
        if now.saturating_duration_since(self.watched) < STANDING {
            return None;
        }
        (self.standing, self.watched) = (None, now);
        Some(least).filter(|least| *least > 0)
    }

    /// Remembers that the path does not carry the bitrate of now.
    fn refuse(&mut self, now: Instant) {
        self.ramps = false;
        // What stood a second ago as well may be the rest of it.
        let before = self.refused_within(now, 2 * STANDING);
        self.refused = Some((now, before.unwrap_or(self.target_bps as f64)));
    }

    /// Returns the bitrate that has left a standing backlog within a time before `now`.
    fn refused_within(&self, now: Instant, time: Duration) -> Option<f64> {
        let (at, bps) = self.refused?;
        (now.saturating_duration_since(at) <= time).then_some(bps)
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
mod tests;
