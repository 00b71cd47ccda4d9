//! Percentiles of times in bounded memory.

use std::time::Duration;

/// Each power of two is cut into 2^6 equal buckets: 1/64 = 1.6 % is the widest relative error.
const SUB_BITS: u32 = 6;
const SUB_BUCKETS: u64 = 1 << SUB_BITS;

/// How often which time occurred.
///
/// Buckets are 1 ns wide below 128 ns and at most 1/64 of their value above, up to 584 years:
/// at most 3776 of them, allocated up to the longest time seen. Mean, minimum and maximum are exact.
#[derive(Debug, Clone, Default)]
pub struct DurationHistogram {
    buckets: Vec<u64>,
    count: u64,
    sum_nanoseconds: u128,
    min_nanoseconds: u64,
    max_nanoseconds: u64,
}

impl DurationHistogram {
    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Arithmetic mean, rounded down to the nanosecond; `None` if nothing was recorded.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_nanoseconds.checked_div(self.count.into())?;
        Some(Duration::from_nanos(
            u64::try_from(mean).expect("a mean lies below the maximum"),
        ))
    }

    /// All times together, exactly; at most 584 billion years.
    pub fn sum(&self) -> Duration {
        let seconds = self.sum_nanoseconds / 1_000_000_000;
        let rest = self.sum_nanoseconds % 1_000_000_000;
        Duration::new(seconds.try_into().unwrap_or(u64::MAX), rest as u32)
    }

    /// How many of the recorded times are at most this long. Those within 1.6 % below `bound` may be
    /// missing.
    pub fn count_up_to(&self, bound: Duration) -> u64 {
        let nanoseconds = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_of(nanoseconds);
        let is_whole = upper_bound(bucket) == nanoseconds;
        let end = self.buckets.len().min(bucket + usize::from(is_whole));
        self.buckets[..end].iter().sum()
    }

    /// Shortest time; `None` if nothing was recorded.
    pub fn min(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.min_nanoseconds))
    }

    /// Longest time; `None` if nothing was recorded.
    pub fn max(&self) -> Option<Duration> {
        (self.count > 0).then(|| Duration::from_nanos(self.max_nanoseconds))
    }

    /// A time that at least the share `p` of all records do not exceed, the smallest such one
    /// rounded up by less than 1.6 %; `None` if nothing was recorded.
    ///
    /// # Panics
    /// If `p` is not within 0 to 1.
    pub fn percentile(&self, p: f64) -> Option<Duration> {
        let bucket = super::percentile(&self.buckets, self.count, p)?;
        let bound = upper_bound(bucket).clamp(self.min_nanoseconds, self.max_nanoseconds);
        Some(Duration::from_nanos(bound))
    }

    pub(super) fn record(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let bucket = bucket_of(nanoseconds);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.min_nanoseconds = match self.count {
            0 => nanoseconds,
            _ => self.min_nanoseconds.min(nanoseconds),
        };
        self.max_nanoseconds = self.max_nanoseconds.max(nanoseconds);
        self.count += 1;
        self.sum_nanoseconds += u128::from(nanoseconds);
    }

    /// Records everything that another histogram has recorded.
    pub(super) fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let buckets = self.buckets.len().max(other.buckets.len());
        self.buckets.resize(buckets, 0);
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket += more;
        }
        self.min_nanoseconds = match self.count {
            0 => other.min_nanoseconds,
            _ => self.min_nanoseconds.min(other.min_nanoseconds),
        };
        self.max_nanoseconds = self.max_nanoseconds.max(other.max_nanoseconds);
        self.count += other.count;
        self.sum_nanoseconds += other.sum_nanoseconds;
    }

    pub(super) fn clear(&mut self) {
        self.buckets.fill(0);
        *self = Self {
            buckets: std::mem::take(&mut self.buckets),
            ..Self::default()
        };
    }
}

fn bucket_of(value: u64) -> usize {
    let shift = value.max(SUB_BUCKETS).ilog2() - SUB_BITS;
    let bucket = u64::from(shift) * SUB_BUCKETS + (value >> shift);
    usize::try_from(bucket).expect("there are at most 3776 buckets")
}

/// The largest value of a bucket.
fn upper_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket / SUB_BUCKETS).saturating_sub(1);
    let mantissa = bucket - shift * SUB_BUCKETS;
    // The last bucket ends where the numbers end: add before shifting would overflow.
    (mantissa << shift) + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests;
