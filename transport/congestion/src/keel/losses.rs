//! One law for loss: what the path loses anyway is not answered, and the rest is.
//!
//! A path that loses a part of the packets by itself loses the same part of a smaller window: what
//! it delivers falls with the window. A link or a policer that is sent too much delivers the same
//! after the window fell, and loses less.

use std::time::{Duration, Instant};

use super::COUNTED_PACKETS;
use super::rate::Round;
use super::routers::DISTRUST;
use super::row::Switches;
use super::search::{COMPARED, FOLLOWS, Seen, followed};

/// A share of losses is judged over this many packets' bytes.
const PACKETS: f64 = 250.0;

/// Losses up to this many times what the path loses anyway, and this share more, are not answered.
/// BBRv3 tolerates 2 % (draft-ietf-ccwg-bbr, section 2.7).
const PATH_GAIN: f64 = 1.5;
const TOLERATED: f64 = 0.02;

/// Beyond that by this much more, the flow is far above what fits.
const MANY: f64 = 0.05;

/// No path is believed to lose more by itself.
const MOST_PATH: f64 = 0.22;

/// What the path loses anyway falls towards a lower share by this part of the difference.
const PATH_FALL: f64 = 0.125;

/// What to do about the losses of a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Verdict {
    /// No more than the path loses anyway.
    Tolerated,
    /// More than that; far more, if `many`.
    Excess { many: bool },
    /// The path has lost them by itself; this window, in bytes, is right again.
    Path(f64),
}

/// Losses of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    switches: Switches,
    /// Bytes since the share before.
    acked: f64,
    lost: f64,
    /// Rows of packets in which they were.
    rows: f64,
    /// Bytes of the share before: lost, and in all.
    last: (f64, f64),
    /// The share of what was sent that the path loses anyway, and when that was wrong.
    path: f64,
    wrong_at: Option<Instant>,
    trial: Option<Trial>,
}

/// Excess losses that made the window shrink.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The window in bytes and the share of losses at the beginning.
    window: f64,
    share: f64,
    /// Bytes per second that the round after it delivered.
    rate: Option<f64>,
    /// Losses since then, and the sum of the queues at them, in seconds.
    losses: f64,
    queues: f64,
}

impl Losses {
    pub(super) fn new(switches: Switches) -> Self {
        Self {
            switches,
            ..Self::default()
        }
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.acked += bytes as f64;
    }

    /// Bytes were lost while round trips showed this queue, in this number of rows of packets.
    pub(super) fn on_lost(&mut self, bytes: u64, queue: Duration, rows: f64) {
        self.lost += bytes as f64;
        self.rows += rows;
        if let Some(trial) = &mut self.trial {
            trial.losses += 1.0;
            trial.queues += queue.as_secs_f64();
        }
    }

    /// What was lost so far was lost to an overshoot that has been answered.
    pub(super) fn forget(&mut self) {
        (self.acked, self.lost, self.rows) = (0.0, 0.0, 0.0);
        self.trial = None;
    }

    /// Whether more was lost lately than is tolerated: for windows so small that no share can be
    /// told from chance in time.
    pub(super) fn exceed(&self, stands: bool) -> bool {
        let (lost, seen) = self.last;
        self.lost + lost > self.tolerated(stands) * (self.acked + self.lost + seen)
    }

    /// The share of losses that is not answered. While a queue `stands`, it explains losses better
    /// than the path does.
    fn tolerated(&self, stands: bool) -> f64 {
        let path = if stands { 0.0 } else { self.path };
        PATH_GAIN * path + self.switches.tolerated(TOLERATED)
    }

    fn last_share(&self) -> f64 {
        self.last.0 / self.last.1.max(1.0)
    }

    /// Counts what was lost since the share before, at the end of a round, with full-size packets
    /// of `mtu` bytes, while a queue `stands` or not: whether it is more than is tolerated. What
    /// was judged counts no more.
    pub(super) fn count(&mut self, mtu: u16, stands: bool) -> bool {
        let packet = f64::from(mtu);
        let seen = self.acked + self.lost;
        let tolerated = self.tolerated(stands) * seen / packet;
        let lost = self.lost / packet;
        // By chance two standard deviations more are lost. Packets that are lost in a row are one
        // chance, up to what a path is believed to lose by itself.
        let in_rows_of = |row: f64| tolerated + 2.0 * (tolerated * row).sqrt() + 2.0 * row;
        let row = (lost / self.rows).max(1.0);
        let most = MOST_PATH * seen / packet;
        let by_chance = in_rows_of(row).min(most).max(in_rows_of(1.0));
        let is_excess = lost > by_chance || !self.switches.loss_filter() && lost > 0.0;
        if seen >= PACKETS * packet || is_excess {
            self.last = (self.lost, seen);
            (self.acked, self.lost, self.rows) = (0.0, 0.0, 0.0);
            let share = self.last_share();
            if share < self.path {
                self.path += PATH_FALL * (share - self.path);
            }
        }
        is_excess
    }

    /// Judges the losses of a round.
    pub(super) fn judge(&mut self, mtu: u16, seen: &Seen, round: &Round) -> Verdict {
        let is_excess = self.count(mtu, seen.stands());
        let share = self.last_share();
        let goes_on = is_excess || share > self.tolerated(seen.stands());
        self.trial.take_if(|_| seen.stands() || !goes_on);
        if let Some(trial) = &mut self.trial
            && round.is_used
        {
            trial.rate.get_or_insert(round.rate);
        }
        if !is_excess {
            return Verdict::Tolerated;
        }
        if self.path > TOLERATED && !seen.stands() {
            // A path does not lose more because more is sent: a policer that others share does.
            (self.path, self.wrong_at) = (0.0, Some(seen.now));
        }
        let is_wrong = |at| seen.now.saturating_duration_since(at) < DISTRUST;
        let is_believed = self.switches.path_losses() && !self.wrong_at.is_some_and(is_wrong);
        match self.trial {
            _ if seen.stands() => {}
            // A window of few packets cannot fall enough to show what follows.
            Some(trial) if seen.window <= COMPARED * trial.window || trial.is_small(mtu) => {
                self.trial = None;
                if is_believed && trial.shows_path(share, seen, round.rate, mtu) {
                    self.path = (share + trial.share) / 2.0;
                    return Verdict::Path(trial.window);
                }
            }
            Some(trial) if seen.window <= trial.window => {}
            _ => {
                self.trial = Some(Trial {
                    window: seen.window,
                    share,
                    rate: None,
                    losses: 0.0,
                    queues: 0.0,
                });
            }
        }
        Verdict::Excess {
            many: share > self.tolerated(seen.stands()) + MANY,
        }
    }
}

impl Trial {
    /// Whether losses came at short queues, and the smaller window did not leave the rate, now `rate`
    /// bytes per second, as it was.
    fn shows_path(&self, share: f64, seen: &Seen, rate: f64, mtu: u16) -> bool {
        let is_short = self.queues <= self.losses * seen.short.as_secs_f64();
        let follows = |before: f64| {
            followed(before, rate, before * seen.window / self.window)
                > seen.switches.follows(FOLLOWS)
        };
        is_short
            && share.max(self.share) <= MOST_PATH
            && (self.is_small(mtu) || self.rate.is_some_and(follows))
    }

    fn is_small(&self, mtu: u16) -> bool {
        self.window < COUNTED_PACKETS * f64::from(mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const MTU: u16 = 1000;

    /// Counts rounds of 50 packets, each with this many lost, while no queue stands.
    fn rounds(losses: &mut Losses, count: u64, lost: u64) -> Vec<bool> {
        let round = |_| {
            losses.on_acked((50 - lost) * u64::from(MTU));
            losses.on_lost(lost * u64::from(MTU), Duration::ZERO, lost as f64);
            losses.count(MTU, false)
        };
        (0..count).map(round).collect()
    }

    /// keel's answers to rounds with a window of `window` packets over a path that loses this part,
    /// and of what is left over `most` packets a round drops the rest, with this queue at losses;
    /// returns the windows.
    fn answered(loses: f64, most: f64, queue: Duration) -> Vec<f64> {
        let mut losses = Losses::default();
        // A round delivers what the window of the round before sent.
        let (mut window, mut next) = (100.0, 100.0);
        (0..40)
            .map(|_| {
                let sent = std::mem::replace(&mut window, next);
                let delivered = (sent * (1.0 - loses)).min(most);
                losses.on_acked((1000.0 * delivered) as u64);
                for _ in 0..(sent - delivered) as u64 {
                    losses.on_lost(u64::from(MTU), queue, 1.0);
                }
                let seen = Seen {
                    window: 1000.0 * window,
                    ..Seen::standing(ms(50))
                };
                match losses.judge(MTU, &seen, &Round::used(1000.0 * delivered / 0.05)) {
                    Verdict::Tolerated => next = window + 1.0,
                    Verdict::Excess { .. } => next = 0.85 * window,
                    Verdict::Path(before) => next = before / 1000.0,
                }
                next
            })
            .collect()
    }

    #[test]
    fn a_path_that_loses_a_tenth_by_itself_gets_its_window_back() {
        let windows = answered(0.1, f64::MAX, ms(1));
        assert!(
            windows[6..].is_sorted() && windows[39] > 90.0,
            "{windows:?}"
        );
    }

    #[test]
    fn a_policer_is_given_way_although_it_drops_a_third() {
        let windows = answered(0.0, 60.0, ms(0));
        assert!(
            windows[8..].iter().all(|window| *window < 80.0),
            "{windows:?}"
        );
    }

    #[test]
    fn losses_at_a_queue_are_not_the_path_s() {
        let windows = answered(0.1, f64::MAX, ms(20));
        assert!(windows[39] < 60.0, "{windows:?}");
    }

    #[test]
    fn the_tolerated_share_is_not_answered() {
        assert!(!rounds(&mut Losses::default(), 100, 1).contains(&true));
    }

    #[test]
    fn what_the_path_loses_anyway_does_not_excuse_losses_while_a_queue_stands() {
        let mut losses = Losses {
            path: 0.1,
            ..Losses::default()
        };
        losses.on_acked(368 * u64::from(MTU));
        for _ in 0..32 {
            losses.on_lost(u64::from(MTU), Duration::ZERO, 1.0);
        }
        let mut standing = losses.clone();
        assert!(!losses.count(MTU, false), "8 % of 400 packets");
        assert!(standing.count(MTU, true));
    }

    #[test]
    fn a_path_that_loses_less_than_before_is_believed_to() {
        let mut losses = Losses {
            path: 0.1,
            ..Losses::default()
        };
        rounds(&mut losses, 5, 0);
        assert_eq!(losses.path, 0.1 * 7.0 / 8.0, "250 packets, a share");
        rounds(&mut losses, 200, 0);
        assert!(losses.path < 0.001, "{}", losses.path);
    }

    #[test]
    fn packets_lost_in_a_row_are_one_chance() {
        let is_excess = |acked: u64, rows: u64| {
            let mut losses = Losses::default();
            losses.on_acked(acked * u64::from(MTU));
            for _ in 0..rows {
                losses.on_lost(20 / rows * u64::from(MTU), Duration::ZERO, 1.0);
            }
            losses.count(MTU, false)
        };
        assert!(!is_excess(380, 1), "20 of 400 in one row");
        assert!(is_excess(380, 20), "one after the other");
        assert!(is_excess(60, 1), "a quarter of all");
    }

    #[test]
    fn a_path_that_loses_more_than_believed_is_not_believed_again_for_a_minute() {
        let believed_after = |time: Duration| {
            let mut losses = Losses {
                path: 0.1,
                ..Losses::default()
            };
            let mut judge = |after, window: f64, lost: f64| {
                losses.on_acked((1000.0 * (window - lost)) as u64);
                losses.on_lost((1000.0 * lost) as u64, Duration::ZERO, lost);
                let seen = Seen {
                    now: epoch() + after,
                    window: 1000.0 * window,
                    ..Seen::standing(ms(50))
                };
                losses.judge(MTU, &seen, &Round::used(1000.0 * (window - lost) / 0.05))
            };
            assert_eq!(judge(ms(0), 100.0, 40.0), Verdict::Excess { many: true });
            // A tenth is lost of each window, and of what a smaller one delivers.
            for window in [70.0, 100.0, 100.0, 85.0] {
                let verdict = judge(time, window, 0.1 * window);
                assert!(matches!(verdict, Verdict::Excess { .. }), "{window}");
            }
            judge(time, 70.0, 7.0) == Verdict::Path(100_000.0)
        };
        assert!(!believed_after(ms(59_999)));
        assert!(believed_after(ms(60_000)));
    }

    #[test]
    fn losses_after_a_long_time_without_are_answered_in_a_round_or_two() {
        let mut losses = Losses::default();
        rounds(&mut losses, 10_000, 0);
        assert!(rounds(&mut losses, 2, 15).contains(&true));
    }

    #[test]
    fn losses_exceed_what_is_tolerated_over_this_share_and_the_one_before() {
        let mut losses = Losses::default();
        rounds(&mut losses, 5, 0);
        losses.on_acked(45 * u64::from(MTU));
        losses.on_lost(6 * u64::from(MTU), Duration::ZERO, 6.0);
        assert!(!losses.exceed(false), "6 of 301, 2 % are 6.02");
        losses.on_lost(u64::from(MTU), Duration::ZERO, 1.0);
        assert!(losses.exceed(false), "7 of 302");
    }
}
