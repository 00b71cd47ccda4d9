//! Tracks the least and greatest round trip times for `abgd`, and computes the queue's fill.

use std::collections::VecDeque;

use crate::sized_rtt::SizedRtt;

/// Losses after which a least or greatest round trip is forgotten. The paper never forgets one.
pub(super) const REMEMBERED_LOSSES: usize = 8;

/// The least and the greatest round trip times since the last few losses.
#[derive(Debug, Clone, Default)]
pub(super) struct Extremes {
    /// Since the last loss.
    pub(super) current: Option<Range>,
    /// Between earlier losses, oldest first.
    past: VecDeque<Range>,
}

/// Round trip times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    /// The least sample, of large packets if there was one.
    pub(super) least: SizedRtt,
    /// The greatest smoothed sample, in seconds.
    pub(super) greatest: f64,
}

impl Extremes {
    pub(super) fn include(&mut self, sample: SizedRtt, smoothed: f64) {
        let new = Range {
            least: sample,
            greatest: smoothed,
        };
        self.current = Some(self.current.map_or(new, |range| range.union(new)));
    }

    /// Ends an epoch at a loss; its range counts for some more losses.
    pub(super) fn end_epoch(&mut self) {
        self.past.extend(self.current.take());
        if self.past.len() > REMEMBERED_LOSSES {
            self.past.pop_front();
        }
    }

    pub(super) fn range(&self) -> Option<Range> {
        self.past
            .iter()
            .copied()
            .chain(self.current)
            .reduce(Range::union)
    }
}

impl Range {
    fn union(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            greatest: self.greatest.max(other.greatest),
        }
    }
}

/// Eq. (10) and (12): (RTT - minRTT) / (maxRTT - minRTT); `None` if they are the same.
pub(super) fn fill(rtt: f64, range: Range) -> Option<f64> {
    let least = range.least.rtt().as_secs_f64();
    let span = range.greatest - least;
    (span > 0.0).then(|| (rtt - least) / span)
}

/// Eq. (11): minRTT / (Th_upper maxRTT + (1 - Th_upper) minRTT), in 0..=1.
pub(super) fn gamma(range: Range, upper: f64) -> f64 {
    let least = range.least.rtt().as_secs_f64();
    let at_threshold = upper * range.greatest + (1.0 - upper) * least;
    if at_threshold > 0.0 {
        least / at_threshold
    } else {
        1.0
    }
}
