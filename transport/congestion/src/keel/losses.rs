//! Tells losses that a sender causes from those that a path has anyway.

use std::collections::VecDeque;

use super::row::Switches;

/// A share of losses is judged over so many packets' bytes.
const PACKETS: f64 = 250.0;

/// So many shares show what the path loses anyway.
const MEMORY: usize = 8;

/// Losses up to so many times what the path loses anyway, and this share more, are not answered.
/// BBRv3 tolerates 2 % (draft-ietf-ccwg-bbr, section 2.7).
const BASE_GAIN: f64 = 1.5;
const TOLERATED: f64 = 0.02;

/// Beyond that by so much more, the flow is far above what fits.
const MANY: f64 = 0.05;

/// No path is believed to lose more than this by itself: where many flows share a small queue,
/// losses that they cause look the same.
const MOST_BASE: f64 = 0.03;

/// How a share of losses is to be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More than the path loses by itself.
    Some,
    /// Far more.
    Many,
}

/// Losses of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Losses {
    switches: Switches,
    /// Bytes since the share before.
    acked: f64,
    lost: f64,
    shares: VecDeque<f64>,
    /// Bytes of the share before: lost, and in all.
    last: (f64, f64),
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

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.lost += bytes as f64;
    }

    /// What was lost so far was lost to an overshoot that has been answered.
    pub(super) fn forget(&mut self) {
        (self.acked, self.lost) = (0.0, 0.0);
    }

    /// The share of what was sent that the path loses anyway: the mean of the lower half of the last
    /// shares. The least of them would be far too low by chance.
    pub(super) fn base(&self) -> f64 {
        let mut sorted: Vec<f64> = self.shares.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        let half = sorted.len().div_ceil(2);
        let sum: f64 = sorted.iter().take(half).sum();
        (sum / half.max(1) as f64).min(MOST_BASE)
    }

    /// Whether more was lost lately than is tolerated: for windows so small that no share can be told
    /// from chance in time.
    pub(super) fn exceed(&self, stands: bool) -> bool {
        let (lost, seen) = self.last;
        self.lost + lost > self.tolerated(stands) * (self.acked + self.lost + seen)
    }

    /// Whether anything was lost lately.
    pub(super) fn any(&self) -> bool {
        self.lost + self.last.0 > 0.0
    }

    /// The share of losses that is not answered. While a queue `stands`, it explains losses better
    /// than the path does.
    fn tolerated(&self, stands: bool) -> f64 {
        let anyway = if stands { 0.0 } else { self.base() };
        BASE_GAIN * anyway + TOLERATED
    }

    /// Judges what was lost since the share before, at the end of a turn, with full-size packets of
    /// `mtu` bytes, while a queue `stands` or not. What was judged counts no more.
    pub(super) fn judge(&mut self, mtu: u16, stands: bool) -> Option<Verdict> {
        let packet = f64::from(mtu);
        let seen = self.acked + self.lost;
        let share = self.lost / seen.max(1.0);
        let tolerated_share = self.tolerated(stands);
        // Few packets are lost together by chance: two standard deviations more must be.
        let tolerated = tolerated_share * seen / packet;
        let lost = self.lost / packet;
        let by_chance = tolerated + 2.0 * tolerated.sqrt() + 2.0;
        let verdict = if lost <= by_chance && (self.switches.loss_filter() || lost == 0.0) {
            None
        } else if share > tolerated_share + MANY {
            Some(Verdict::Many)
        } else {
            Some(Verdict::Some)
        };
        if seen >= PACKETS * packet || verdict.is_some() {
            if self.shares.len() == MEMORY {
                self.shares.pop_front();
            }
            self.shares.push_back(share);
            self.last = (self.lost, seen);
            (self.acked, self.lost) = (0.0, 0.0);
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1000;

    /// Judges turns of 50 packets, each with so many lost.
    fn turns(losses: &mut Losses, count: u64, lost: u64) -> Vec<Option<Verdict>> {
        let turn = |_| {
            losses.on_acked((50 - lost) * u64::from(MTU));
            losses.on_lost(lost * u64::from(MTU));
            losses.judge(MTU, false)
        };
        (0..count).map(turn).collect()
    }

    #[test]
    fn the_tolerated_share_is_not_answered() {
        let verdicts = turns(&mut Losses::default(), 100, 1);
        assert!(verdicts.iter().all(Option::is_none), "{verdicts:?}");
    }

    #[test]
    fn what_the_path_loses_anyway_is_learnt() {
        let mut losses = Losses::default();
        let verdicts = turns(&mut losses, 100, 2);
        let answered = verdicts.iter().flatten().count();
        assert!(answered <= 8, "{answered}");
        assert!(verdicts[60..].iter().all(Option::is_none), "{verdicts:?}");
        assert!((losses.base() - MOST_BASE).abs() < 0.001, "4 % are lost");
    }

    #[test]
    fn what_the_path_loses_anyway_does_not_excuse_losses_while_a_queue_stands() {
        let mut losses = Losses::default();
        turns(&mut losses, 100, 2);
        for _ in 0..4 {
            losses.on_acked(92 * u64::from(MTU));
            losses.on_lost(8 * u64::from(MTU));
        }
        let mut standing = losses.clone();
        assert_eq!(losses.judge(MTU, false), None, "8 % of 400 packets");
        assert_eq!(standing.judge(MTU, true), Some(Verdict::Many));
    }

    #[test]
    fn a_path_is_not_believed_to_lose_a_fifth() {
        let verdicts = turns(&mut Losses::default(), 100, 12);
        let answered = verdicts[50..].iter().flatten().count();
        assert!(answered >= 20, "{answered}");
    }

    #[test]
    fn losses_after_a_long_time_without_are_answered_in_a_turn_or_two() {
        let mut losses = Losses::default();
        turns(&mut losses, 10_000, 0);
        let verdicts = turns(&mut losses, 2, 15);
        assert_eq!(verdicts.iter().flatten().next(), Some(&Verdict::Many));
    }

    #[test]
    fn losses_are_recent_in_the_share_that_was_judged_last_and_the_one_being_counted() {
        let mut losses = Losses::default();
        assert!(!losses.any());
        turns(&mut losses, 5, 1);
        assert!(losses.any(), "judged");
        turns(&mut losses, 5, 0);
        assert!(!losses.any(), "250 packets since");
        losses.on_lost(u64::from(MTU));
        assert!(losses.any(), "not yet judged");
        losses.forget();
        assert!(!losses.any(), "forgotten");
    }

    #[test]
    fn losses_exceed_what_is_tolerated_over_this_share_and_the_one_before() {
        let mut losses = Losses::default();
        turns(&mut losses, 5, 0);
        losses.on_acked(45 * u64::from(MTU));
        losses.on_lost(6 * u64::from(MTU));
        assert!(!losses.exceed(false), "6 of 301, 2 % are 6.02");
        losses.on_lost(u64::from(MTU));
        assert!(losses.exceed(false), "7 of 302");

        let mut losses = Losses::default();
        turns(&mut losses, 5, 1);
        assert!(!losses.exceed(true), "5 of 250");
        losses.on_lost(u64::from(MTU));
        assert!(losses.exceed(true), "6 of 251");
        assert!(
            !losses.exceed(false),
            "without a queue the path is believed to lose 2 % by itself"
        );
    }

    #[test]
    fn the_lower_half_of_the_last_eight_shares_is_what_the_path_loses_anyway() {
        let mut losses = Losses::default();
        for lost in [0, 0, 0, 0, 0, 1, 2, 1, 2] {
            losses.on_acked((250 - lost) * u64::from(MTU));
            losses.on_lost(lost * u64::from(MTU));
            losses.judge(MTU, false);
        }
        assert_eq!(losses.shares.len(), 8);
        assert_eq!(losses.base(), 0.0, "four of eight without losses");
        for _ in 0..2 {
            losses.on_acked(249 * u64::from(MTU));
            losses.on_lost(u64::from(MTU));
            losses.judge(MTU, false);
        }
        let two_without_two_with = (0.0 + 0.0 + 0.004 + 0.004) / 4.0;
        assert!((losses.base() - two_without_two_with).abs() < 1e-9);
    }
}
