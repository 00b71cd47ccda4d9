//! Computes the smoothed round trip time of RFC 5348.

use std::time::Duration;

/// The assumed round trip before the first sample (RFC 9002, section 6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Weight of the old value in the smoothed round trip, and in the mean of square roots (RFC 5348,
/// sections 4.3 and 4.5: q and q2).
const SMOOTHING: f64 = 0.9;

/// The shortest round trip, so that nothing is divided by zero.
pub(super) const LEAST_RTT: Duration = Duration::from_micros(1);

/// R, and the means that the rate follows.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    /// R: smoothed; a guess before the first sample.
    pub(super) smoothed: Duration,
    /// R_sample: the newest sample, `None` before the first.
    pub(super) sample: Option<Duration>,
    /// R_sqmean: the mean of the samples' square roots, in roots of seconds.
    root_mean: f64,
}

impl RoundTrip {
    pub(super) const UNKNOWN: Self = Self {
        smoothed: INITIAL_RTT,
        sample: None,
        root_mean: 0.0,
    };

    /// R = q R + (1 - q) R_sample; R_sqmean = q2 R_sqmean + (1 - q2) sqrt(R_sample)
    pub(super) fn update(&mut self, sample: Duration) {
        let sample = sample.max(LEAST_RTT);
        let root = sample.as_secs_f64().sqrt();
        if self.sample.is_none() {
            self.smoothed = sample;
            self.root_mean = root;
        } else {
            let smoothed = self.smoothed.mul_f64(SMOOTHING) + sample.mul_f64(1.0 - SMOOTHING);
            self.smoothed = smoothed.max(LEAST_RTT);
            self.root_mean = SMOOTHING * self.root_mean + (1.0 - SMOOTHING) * root;
        }
        self.sample = Some(sample);
    }

    /// X_inst / X = R_sqmean / sqrt(R_sample)
    pub(super) fn damping(&self) -> f64 {
        self.sample
            .map_or(1.0, |sample| self.root_mean / sample.as_secs_f64().sqrt())
    }
}
