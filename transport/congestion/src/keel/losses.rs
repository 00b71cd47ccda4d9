//! One law for loss: what the path loses anyway is not answered, and the rest is.
//!
//! A path that loses a part of the packets by itself loses the same part of a smaller window: what
//! it delivers falls with the window. A link or a policer that is sent too much delivers the same
//! after the window fell, and loses less.

use std::time::Instant;

use super::COUNTED_PACKETS;
use super::rate::Round;
use super::routers::DISTRUST;
use super::row::Switches;
use super::search::{COMPARED, FOLLOWS, Seen, followed};

/// A share of losses is judged over this many packets' bytes.
const PACKETS: f64 = 250.0;

/// Losses up to this many times what the path loses anyway are not answered, nor is this share.
/// BBRv3 tolerates 2 % (draft-ietf-ccwg-bbr, section 2.7).
const PATH_GAIN: f64 = 2.0;
const TOLERATED: f64 = 0.02;

/// Beyond that by this much more, the flow is far above what fits.
const MANY: f64 = 0.05;

/// No path is believed to lose more by itself.
const MOST_PATH: f64 = 0.22;

/// What the path loses anyway falls towards a lower share by the first part of the difference. It
/// rises by the second one towards what is lost at short queues, while that is tolerated anyway.
const PATH_FALL: f64 = 0.125;
const PATH_RISE: f64 = 0.25;

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
    /// Since the last judgement, and of that judgement.
    counts: Counts,
    last: Counts,
    /// The share of what was sent that the path loses anyway, and when that was wrong.
    path: f64,
    wrong_at: Option<Instant>,
    trial: Option<Trial>,
}

/// What was acknowledged and lost, in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    acked: f64,
    lost: f64,
    /// Of the lost, at short queues, and the rows of packets in which those were.
    short: f64,
    rows: f64,
}

impl Counts {
    fn seen(&self) -> f64 {
        self.acked + self.lost
    }

    fn share(&self) -> f64 {
        self.lost / self.seen().max(1.0)
    }
}

/// Excess losses that made the window shrink.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// The window in bytes and the share of losses at the beginning.
    window: f64,
    share: f64,
    /// Bytes per second that the round after it delivered.
    rate: Option<f64>,
}

impl Losses {
    pub(super) fn new(switches: Switches) -> Self {
        Self {
            switches,
            ..Self::default()
        }
    }

    pub(super) fn on_acked(&mut self, bytes: u64) {
        self.counts.acked += bytes as f64;
    }

    /// Bytes were lost at once, while round trips showed a short queue or a longer one.
    pub(super) fn on_lost(&mut self, bytes: u64, is_short: bool) {
        self.counts.lost += bytes as f64;
        if is_short {
            self.counts.short += bytes as f64;
            self.counts.rows += 1.0;
        }
    }

    /// What was lost since the last judgement was lost to an overshoot that has been answered.
    pub(super) fn forget(&mut self) {
        self.counts = Counts::default();
        self.trial = None;
    }

    /// Whether more was lost lately than is tolerated: for windows so small that no share can be
    /// told from chance in time.
    pub(super) fn exceed(&self, stands: bool) -> bool {
        let (lost, seen) = self.lately();
        lost > self.tolerated(stands) * seen
    }

    /// Bytes of this and the last judgement: lost, and in all.
    fn lately(&self) -> (f64, f64) {
        let (counts, last) = (self.counts, self.last);
        (counts.lost + last.lost, counts.seen() + last.seen())
    }

    /// The share of losses that is not answered. While a queue `stands`, it explains losses better
    /// than the path does.
    fn tolerated(&self, stands: bool) -> f64 {
        let path = if stands { 0.0 } else { self.path };
        (PATH_GAIN * path).max(self.switches.tolerated(TOLERATED))
    }

    /// What queues may have been taken for a part of the path, and what is lost there for its own.
    pub(super) fn doubt(&mut self, now: Instant) {
        self.wrong_at = Some(now);
    }

    /// Whether more was lost lately than the path loses anyway: beside others the rest counts.
    pub(super) fn exceed_path(&self, mtu: u16) -> bool {
        let (lost, seen) = self.lately();
        let packet = f64::from(mtu);
        let path = PATH_GAIN * self.path * seen / packet;
        lost / packet > path + 2.0 * path.sqrt()
    }

    /// Counts what was lost since the share before, at the end of a round, with full-size packets
    /// of `mtu` bytes, while a queue `stands` or not: whether it is more than is tolerated. What
    /// was judged counts no more.
    pub(super) fn count(&mut self, mtu: u16, stands: bool) -> bool {
        let packet = f64::from(mtu);
        let counts = self.counts;
        let (lost, seen) = (counts.lost / packet, counts.seen() / packet);
        let tolerated = self.tolerated(stands) * seen;
        // By chance two standard deviations more are lost. Packets that are lost in a row are one
        // chance, up to what a path is believed to lose by itself. Only a short queue shows rows: a
        // full one drops them, too.
        let in_rows_of = |row: f64| tolerated + 2.0 * (tolerated * row).sqrt() + 2.0 * row;
        let rows = counts.rows + lost - counts.short / packet;
        let row = (lost / rows).max(1.0);
        let by_chance = in_rows_of(row).min(MOST_PATH * seen).max(in_rows_of(1.0));
        let is_excess = lost > by_chance || !self.switches.loss_filter() && lost > 0.0;
        if seen >= PACKETS || is_excess {
            (self.last, self.counts) = (counts, Counts::default());
            if counts.share() < self.path {
                self.path += PATH_FALL * (counts.share() - self.path);
            } else if !stands && !is_excess {
                let path = self.path + PATH_RISE * (counts.short / counts.seen() - self.path);
                let most = self.switches.tolerated(TOLERATED) / PATH_GAIN;
                self.path = path.min(most).max(self.path);
            }
        }
        is_excess
    }

    /// Judges the losses of a round.
    pub(super) fn judge(&mut self, mtu: u16, seen: &Seen, round: &Round) -> Verdict {
        let is_excess = self.count(mtu, seen.stands());
        let share = self.last.share();
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
                if is_believed && trial.shows_path(&self.last, seen, round.rate, mtu) {
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
                });
            }
        }
        Verdict::Excess {
            many: share > self.tolerated(seen.stands()) + MANY,
        }
    }
}

impl Trial {
    /// Whether most of the `last` losses came at short queues, and the smaller window did not leave
    /// the rate, now `rate` bytes per second, as it was.
    fn shows_path(&self, last: &Counts, seen: &Seen, rate: f64, mtu: u16) -> bool {
        let follows = |before: f64| {
            followed(before, rate, before * seen.window / self.window)
                > seen.switches.follows(FOLLOWS)
        };
        2.0 * last.short >= last.lost
            && last.share().max(self.share) <= MOST_PATH
            && (self.is_small(mtu) || self.rate.is_some_and(follows))
    }

    fn is_small(&self, mtu: u16) -> bool {
        self.window < COUNTED_PACKETS * f64::from(mtu)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::{epoch, ms};

    const MTU: u16 = 1000;

    /// Loses packets one after the other, at short queues or longer ones.
    fn lose(losses: &mut Losses, packets: u64, is_short: bool) {
        for _ in 0..packets {
            losses.on_lost(u64::from(MTU), is_short);
        }
    }

    /// Counts rounds of 50 packets, each with this many lost, while no queue stands.
    fn rounds(losses: &mut Losses, count: u64, lost: u64) -> Vec<bool> {
        let round = |_| {
            losses.on_acked((50 - lost) * u64::from(MTU));
            lose(losses, lost, true);
            losses.count(MTU, false)
        };
        (0..count).map(round).collect()
    }

    /// keel's answers to rounds with a window of `window` packets over a path that loses this part,
    /// and of what is left over `most` packets a round drops the rest, at short queues or longer
    /// ones; returns the windows.
    fn answered(loses: f64, most: f64, is_short: bool) -> Vec<f64> {
        let mut losses = Losses::default();
        // A round delivers what the window of the round before sent.
        let (mut window, mut next) = (100.0, 100.0);
        (0..40)
            .map(|_| {
                let sent = std::mem::replace(&mut window, next);
                let delivered = (sent * (1.0 - loses)).min(most);
                losses.on_acked((1000.0 * delivered) as u64);
                lose(&mut losses, (sent - delivered) as u64, is_short);
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
        let windows = answered(0.1, f64::MAX, true);
        assert!(
            windows[6..].is_sorted() && windows[39] > 90.0,
            "{windows:?}"
        );
    }

    #[test]
    fn a_policer_is_given_way_although_it_drops_a_third() {
        let windows = answered(0.0, 60.0, true);
        assert!(
            windows[8..].iter().all(|window| *window < 80.0),
            "{windows:?}"
        );
    }

    #[test]
    fn losses_at_a_queue_are_not_the_path_s() {
        let windows = answered(0.1, f64::MAX, false);
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
        lose(&mut losses, 32, true);
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
    fn what_short_queues_lose_is_the_path_s_up_to_what_is_tolerated_anyway() {
        let path_after = |count, lost, is_short| {
            let mut losses = Losses::default();
            for _ in 0..count {
                losses.on_acked((250 - lost) * u64::from(MTU));
                lose(&mut losses, lost, is_short);
                losses.count(MTU, false);
            }
            losses.path
        };
        assert_eq!(path_after(1, 2, true), 0.002, "a quarter of 0.8 %");
        assert!((0.0079..0.008).contains(&path_after(20, 2, true)));
        assert_eq!(path_after(20, 4, true), 0.01, "half of 2 %");
        assert_eq!(path_after(20, 4, false), 0.0, "a queue explains them");
    }

    #[test]
    fn beside_others_twice_what_the_path_loses_is_its_own() {
        let mut losses = Losses {
            path: 0.01,
            ..Losses::default()
        };
        losses.on_acked(90 * u64::from(MTU));
        lose(&mut losses, 4, true);
        assert!(!losses.exceed_path(MTU), "1.9 of 94, and 2.7 by chance");
        lose(&mut losses, 1, true);
        assert!(losses.exceed_path(MTU));
        losses.path = 0.0;
        assert!(losses.exceed_path(MTU), "each one");
    }

    #[test]
    fn packets_lost_in_a_row_are_one_chance() {
        let is_excess = |acked: u64, rows: u64| {
            let mut losses = Losses::default();
            losses.on_acked(acked * u64::from(MTU));
            for _ in 0..rows {
                losses.on_lost(20 / rows * u64::from(MTU), true);
            }
            losses.count(MTU, false)
        };
        assert!(!is_excess(380, 1), "20 of 400 in one row");
        assert!(is_excess(380, 20), "one after the other");
        assert!(is_excess(60, 1), "a quarter of all");
    }

    #[test]
    fn a_path_that_loses_more_than_believed_or_is_longer_is_not_believed_for_a_minute() {
        let believed_after = |is_longer, time: Duration| {
            let mut losses = Losses::default();
            match is_longer {
                true => losses.doubt(epoch()),
                false => losses.path = 0.1,
            }
            let mut judge = |after, window: f64, lost: f64| {
                losses.on_acked((1000.0 * (window - lost)) as u64);
                lose(&mut losses, lost as u64, true);
                let seen = Seen {
                    now: epoch() + after,
                    window: 1000.0 * window,
                    ..Seen::standing(ms(50))
                };
                losses.judge(MTU, &seen, &Round::used(1000.0 * (window - lost) / 0.05))
            };
            if !is_longer {
                assert_eq!(judge(ms(0), 100.0, 40.0), Verdict::Excess { many: true });
            }
            // A tenth is lost of each window, and of what a smaller one delivers.
            for window in [70.0, 100.0, 100.0, 85.0] {
                let verdict = judge(time, window, 0.1 * window);
                assert!(matches!(verdict, Verdict::Excess { .. }), "{window}");
            }
            judge(time, 70.0, 7.0) == Verdict::Path(100_000.0)
        };
        for is_longer in [true, false] {
            assert!(!believed_after(is_longer, ms(59_999)));
            assert!(believed_after(is_longer, ms(60_000)));
        }
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
        lose(&mut losses, 6, true);
        assert!(!losses.exceed(false), "6 of 301, 2 % are 6.02");
        lose(&mut losses, 1, true);
        assert!(losses.exceed(false), "7 of 302");
    }
}
