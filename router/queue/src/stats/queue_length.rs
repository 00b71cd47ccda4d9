//! Queue length, weighted by the time for which it held.

use std::time::Duration;

/// How long a queue was how long, in packets.
///
/// Exact: it keeps the time spent at each length, one number per length up to the largest.
#[derive(Debug, Clone, Default)]
pub struct QueueLength {
    /// `held[n]`: nanoseconds at a length of n packets.
    held: Vec<u64>,
    max: u64,
    interval: Interval,
}

/// What [`QueueLength`] says of a sampling interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueueInterval {
    /// Time-weighted mean in packets; the present length if no time has passed.
    pub mean: f64,
    /// Greatest length in packets.
    pub max: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    nanoseconds: u64,
    packet_nanoseconds: u128,
    max: u64,
}

impl QueueLength {
    /// Mean in packets; `None` before any time has passed.
    pub fn mean(&self) -> Option<f64> {
        let total = self.nanoseconds();
        let weighted: f64 = lengths(&self.held)
            .map(|(length, time)| length * time)
            .sum();
        (total > 0).then(|| weighted / total as f64)
    }

    /// Standard deviation in packets; `None` before any time has passed.
    pub fn standard_deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares: f64 = lengths(&self.held)
            .map(|(length, time)| (length - mean).powi(2) * time)
            .sum();
        Some((squares / self.nanoseconds() as f64).sqrt())
    }

    /// The smallest length in packets that was not exceeded for at least the share `p` of the
    /// time; `None` before any time has passed.
    ///
    /// # Panics
    /// If `p` is not within 0 to 1.
    pub fn percentile(&self, p: f64) -> Option<u64> {
        super::percentile(&self.held, self.nanoseconds(), p).map(|length| length as u64)
    }

    /// Greatest length in packets.
    pub fn max(&self) -> u64 {
        self.max
    }

    pub(super) fn hold(&mut self, packets: u64, time: Duration) {
        let length = usize::try_from(packets).expect("a queue in memory has a length in memory");
        if length >= self.held.len() {
            self.held.resize(length + 1, 0);
        }
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.held[length] += nanoseconds;
        self.interval.nanoseconds += nanoseconds;
        self.interval.packet_nanoseconds += u128::from(packets) * u128::from(nanoseconds);
    }

    pub(super) fn reach(&mut self, packets: u64) {
        self.max = self.max.max(packets);
        self.interval.max = self.interval.max.max(packets);
    }

    pub(super) fn restart(&mut self, packets: u64) {
        self.held.fill(0);
        self.max = packets;
    }

    pub(super) fn take_interval(&mut self, packets: u64) -> QueueInterval {
        let interval = self.interval;
        self.interval = Interval {
            max: packets,
            ..Interval::default()
        };
        QueueInterval {
            mean: match interval.nanoseconds {
                0 => packets as f64,
                nanoseconds => interval.packet_nanoseconds as f64 / nanoseconds as f64,
            },
            max: interval.max,
        }
    }

    fn nanoseconds(&self) -> u64 {
        self.held.iter().sum()
    }
}

/// Lengths and the times for which they held, as numbers to calculate with.
fn lengths(held: &[u64]) -> impl Iterator<Item = (f64, f64)> {
    held.iter()
        .enumerate()
        .map(|(length, time)| (length as f64, *time as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ms;

    #[test]
    fn figures_are_weighted_by_time() {
        let mut queue = QueueLength::default();
        queue.hold(0, ms(10));
        queue.reach(4);
        queue.hold(4, ms(30));
        // Mean 4 x 30 / 40 = 3; variance (9 x 10 + 1 x 30) / 40 = 3.
        assert_eq!(queue.mean(), Some(3.0));
        assert!((queue.standard_deviation().unwrap() - 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(queue.max(), 4);
        assert_eq!(queue.percentile(0.0), Some(0));
        assert_eq!(queue.percentile(0.25), Some(0));
        assert_eq!(queue.percentile(0.26), Some(4));
        assert_eq!(queue.percentile(1.0), Some(4));
    }

    #[test]
    fn nothing_is_said_before_time_has_passed() {
        let queue = QueueLength::default();
        assert_eq!(
            (
                queue.mean(),
                queue.standard_deviation(),
                queue.percentile(0.5)
            ),
            (None, None, None)
        );
    }

    #[test]
    fn an_interval_begins_at_the_length_at_which_the_last_one_ended() {
        let mut queue = QueueLength::default();
        queue.reach(6);
        queue.hold(6, ms(1));
        queue.hold(2, ms(3));
        assert_eq!(queue.take_interval(2), QueueInterval { mean: 3.0, max: 6 });
        queue.hold(2, ms(1));
        assert_eq!(queue.take_interval(2), QueueInterval { mean: 2.0, max: 2 });
        assert_eq!(queue.take_interval(1), QueueInterval { mean: 1.0, max: 2 });
    }

    #[test]
    fn a_restart_does_not_touch_the_interval() {
        let mut queue = QueueLength::default();
        queue.reach(3);
        queue.hold(3, ms(1));
        queue.restart(1);
        assert_eq!((queue.mean(), queue.max()), (None, 1));
        assert_eq!(queue.take_interval(1), QueueInterval { mean: 3.0, max: 3 });
    }
}
