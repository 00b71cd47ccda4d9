//! Tracks how often losses come: the history of loss intervals (RFC 5348, sections 5.3 to 5.5).

/// Weights of the newest to the oldest interval, n = 8 (RFC 5348, section 5.4).
const WEIGHTS: [f64; 8] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];

/// The least factor by which one discount lowers an interval's weight (RFC 5348, section 5.5,
/// THRESHOLD).
const LEAST_DISCOUNT: f64 = 0.25;

/// The intervals between the starts of loss events, in packets.
#[derive(Debug, Clone)]
pub(super) struct LossIntervals {
    /// Whether the history counts less while the open interval is long (RFC 5348, section 5.5).
    discounting: bool,
    /// I_0: packets since the last loss event began.
    open: f64,
    /// I_1, I_2, ..., newest first; as many as there are weights.
    closed: Vec<Interval>,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    /// I_i: packets, at least 1.
    packets: f64,
    /// DF_i: the factor that discounts leave of its weight, above 0, at most 1.
    discount: f64,
}

impl LossIntervals {
    /// Creates a history without losses.
    pub(super) fn new(discounting: bool) -> Self {
        Self {
            discounting,
            open: 0.0,
            closed: Vec::with_capacity(WEIGHTS.len() + 1),
        }
    }

    /// Returns true if nothing was ever lost.
    pub(super) fn is_empty(&self) -> bool {
        self.closed.is_empty()
    }

    /// Counts `packets` that were acknowledged, or lost in the newest loss event.
    pub(super) fn count(&mut self, packets: f64) {
        self.open += packets;
    }

    /// Begins the first loss event. `packets` replaces what was sent before (RFC 5348,
    /// section 6.3.1).
    pub(super) fn first_loss_event(&mut self, packets: f64) {
        self.open = packets;
        self.loss_event();
    }

    /// Begins a loss event: I_0 becomes I_1.
    pub(super) fn loss_event(&mut self) {
        let discount = self.discount();
        for interval in &mut self.closed {
            interval.discount *= discount;
        }
        self.closed.truncate(WEIGHTS.len() - 1);
        let newest = Interval {
            packets: self.open.max(1.0),
            discount: 1.0,
        };
        self.closed.insert(0, newest);
        self.open = 0.0;
    }

    /// Returns p, the loss event rate, above 0, at most 1; `None` if nothing was ever lost.
    ///
    /// p = 1 / max(mean of I_1, ..., I_n; mean of I_0, ..., I_(n-1))
    pub(super) fn loss_event_rate(&self) -> Option<f64> {
        let without_open = self.mean_of_closed()?;
        let discount = self.discount();
        let older = self.closed.iter().take(self.closed.len() - 1);
        let with_open = weighted_mean(
            std::iter::once((self.open, 1.0))
                .chain(older.map(|interval| (interval.packets, interval.discount * discount))),
        );
        Some(1.0 / without_open.max(with_open))
    }

    /// DF = 2 mean / I_0 once I_0 exceeds twice the mean of the others, at least the threshold.
    fn discount(&self) -> f64 {
        match self.mean_of_closed() {
            Some(mean) if self.discounting && self.open > 2.0 * mean => {
                (2.0 * mean / self.open).max(LEAST_DISCOUNT)
            }
            _ => 1.0,
        }
    }

    fn mean_of_closed(&self) -> Option<f64> {
        let closed = self.closed.iter();
        let closed = closed.map(|interval| (interval.packets, interval.discount));
        (!self.closed.is_empty()).then(|| weighted_mean(closed))
    }
}

/// Sum of I_i w_i DF_i divided by the sum of w_i DF_i, over pairs of I_i and DF_i, newest first.
fn weighted_mean(intervals: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut total, mut weights) = (0.0, 0.0);
    for ((packets, discount), weight) in intervals.zip(WEIGHTS) {
        total += packets * weight * discount;
        weights += weight * discount;
    }
    total / weights
}

#[cfg(test)]
mod tests;
