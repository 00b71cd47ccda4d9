//! Figures of one flow.

use std::ops::Range;
use std::time::Duration;

use super::{FlowObservation, SAMPLE, Timing};

/// Round-trip times of a flow, by nearest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttPercentiles {
    /// Smallest sample.
    pub min: Duration,
    /// Median.
    pub p50: Duration,
    /// 95th percentile.
    pub p95: Duration,
    /// 99th percentile.
    pub p99: Duration,
}

/// The time over which a flow's rates are averaged: from its start, but not before the warm-up's
/// end, to its stop. `None` if that is no time at all.
pub fn active_time(flow: &FlowObservation, timing: &Timing) -> Option<Range<Duration>> {
    let active = flow.start.max(timing.warmup)..flow.stop.min(timing.duration);
    (active.start < active.end).then_some(active)
}

/// Bits of IP packets per second that arrived at the receiver in the flow's active time.
///
/// Series count whole intervals: one that the active time begins in counts if the flow, rather
/// than the warm-up's end, begins it; one that it ends in counts.
pub fn throughput_bps(flow: &FlowObservation, timing: &Timing) -> Option<f64> {
    rate_bps(&flow.delivered, flow, timing)
}

/// Bits of application data per second in the flow's active time: goodput as A-AIMD, section 4,
/// defines it, without headers and retransmitted data.
pub fn goodput_bps(flow: &FlowObservation, timing: &Timing) -> Option<f64> {
    rate_bps(&flow.app_delivered, flow, timing)
}

/// Coefficient of variation of the throughput sampled every 0.5 s ("smoothness", section IV-B):
/// sqrt(E(x^2) - E(x)^2) / E(x) over the samples that lie in the flow's active time.
///
/// `None` with fewer than two samples, or if nothing arrived.
pub fn cov(flow: &FlowObservation, timing: &Timing) -> Option<f64> {
    let samples: Vec<f64> = whole_samples(flow, timing)
        .map(|sample| sample_bps(flow, timing, sample))
        .collect();
    if samples.len() < 2 {
        return None;
    }
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    // Around the mean, which is the same and loses no digits.
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean > 0.0).then(|| variance.sqrt() / mean)
}

/// Packets declared lost / packets sent: the wasted effort of A-AIMD, section 4. QUIC sends the
/// data of a lost packet again in another one; a loss declared in error counts as well.
pub fn retransmitted_ratio(flow: &FlowObservation) -> Option<f64> {
    (flow.sent_packets > 0).then(|| flow.lost_packets as f64 / flow.sent_packets as f64)
}

/// Percentiles of the round-trip times measured after the warm-up.
pub fn rtt_percentiles(flow: &FlowObservation, timing: &Timing) -> Option<RttPercentiles> {
    let after = flow.rtt.iter().filter(|sample| sample.at >= timing.warmup);
    let mut sorted: Vec<_> = after.map(|sample| sample.rtt).collect();
    sorted.sort_unstable();
    Some(RttPercentiles {
        min: *sorted.first()?,
        p50: nearest_rank(&sorted, 50)?,
        p95: nearest_rank(&sorted, 95)?,
        p99: nearest_rank(&sorted, 99)?,
    })
}

/// The smallest value that at least `percent` of the sorted values do not exceed.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

/// Numbers of the 0.5 s samples, counted from the run's beginning, that lie wholly in the flow's
/// active time.
pub(super) fn whole_samples(flow: &FlowObservation, timing: &Timing) -> Range<usize> {
    let Some(active) = active_time(flow, timing) else {
        return 0..0;
    };
    let sample = SAMPLE.as_nanos();
    let first = active.start.as_nanos().div_ceil(sample) as usize;
    let end = (active.end.as_nanos() / sample) as usize;
    first..end.max(first)
}

/// Throughput in one 0.5 s sample, in bits per second.
pub(super) fn sample_bps(flow: &FlowObservation, timing: &Timing, sample: usize) -> f64 {
    let width = timing.intervals_per_sample();
    let intervals = flow.delivered.iter().skip(sample * width).take(width);
    intervals.sum::<u64>() as f64 * 8.0 / SAMPLE.as_secs_f64()
}

fn rate_bps(bytes: &[u64], flow: &FlowObservation, timing: &Timing) -> Option<f64> {
    let active = active_time(flow, timing)?;
    let interval = timing.interval.as_nanos();
    let first = if flow.start > timing.warmup {
        flow.start.as_nanos() / interval
    } else {
        timing.warmup.as_nanos().div_ceil(interval)
    };
    let end = active.end.as_nanos().div_ceil(interval);
    let counted = bytes
        .iter()
        .skip(first as usize)
        .take(end.saturating_sub(first) as usize);
    let bits = counted.sum::<u64>() as f64 * 8.0;
    Some(bits / (active.end - active.start).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::super::RttSample;
    use super::*;

    const TIMING: Timing = Timing {
        interval: Duration::from_millis(250),
        warmup: Duration::from_secs(1),
        duration: Duration::from_secs(3),
    };

    fn flow(start_ms: u64, stop_ms: u64, delivered: &[u64]) -> FlowObservation {
        FlowObservation {
            start: Duration::from_millis(start_ms),
            stop: Duration::from_millis(stop_ms),
            delivered: delivered.to_vec(),
            ..FlowObservation::default()
        }
    }

    #[test]
    fn throughput_leaves_the_warm_up_out() {
        let delivered = [900, 900, 900, 900, 100, 200, 300, 400, 100, 200, 300, 400];
        // 2000 bytes in 2 s.
        let flow = flow(0, 3000, &delivered);
        assert_eq!(throughput_bps(&flow, &TIMING), Some(8000.0));
    }

    #[test]
    fn a_flow_is_averaged_over_its_own_time() {
        let delivered = [0, 0, 0, 0, 0, 0, 0, 500, 500, 0, 0, 0];
        // 1000 bytes between 1.75 s and 2.25 s.
        let flow = flow(1750, 2250, &delivered);
        assert_eq!(throughput_bps(&flow, &TIMING), Some(16_000.0));
        assert_eq!(goodput_bps(&flow, &TIMING), Some(0.0));
    }

    #[test]
    fn a_start_within_an_interval_counts_what_came_in_it() {
        let delivered = [0, 0, 0, 0, 0, 300, 700, 0, 0, 0, 0, 0];
        // 1000 bytes between 1.4 s and 1.9 s.
        let flow = flow(1400, 1900, &delivered);
        assert_eq!(throughput_bps(&flow, &TIMING), Some(16_000.0));
    }

    #[test]
    fn a_flow_that_ended_in_the_warm_up_has_no_throughput() {
        let flow = flow(0, 1000, &[900; 12]);
        assert_eq!(active_time(&flow, &TIMING), None);
        assert_eq!(throughput_bps(&flow, &TIMING), None);
        assert_eq!(cov(&flow, &TIMING), None);
    }

    #[test]
    fn cov_is_the_deviation_of_half_second_samples_over_their_mean() {
        // Samples after the warm-up: 300, 300, 100, 100 bytes: mean 200, deviation 100.
        let delivered = [0, 0, 0, 0, 100, 200, 150, 150, 50, 50, 100, 0];
        assert_eq!(cov(&flow(0, 3000, &delivered), &TIMING), Some(0.5));
        // Even rates vary nowhere.
        assert_eq!(cov(&flow(0, 3000, &[7; 12]), &TIMING), Some(0.0));
    }

    #[test]
    fn cov_needs_two_whole_samples_and_some_data() {
        // Active from 1.25 s to 2.25 s: only the sample from 1.5 s to 2 s is whole.
        assert_eq!(cov(&flow(1250, 2250, &[7; 12]), &TIMING), None);
        assert_eq!(cov(&flow(0, 3000, &[0; 12]), &TIMING), None);
    }

    #[test]
    fn a_series_that_is_shorter_than_the_run_counts_as_silence() {
        let flow = flow(0, 3000, &[0, 0, 0, 0, 1000]);
        assert_eq!(throughput_bps(&flow, &TIMING), Some(4000.0));
    }

    #[test]
    fn the_retransmitted_ratio_is_lost_over_sent() {
        let mut flow = flow(0, 3000, &[]);
        assert_eq!(retransmitted_ratio(&flow), None);
        (flow.sent_packets, flow.lost_packets) = (200, 3);
        assert_eq!(retransmitted_ratio(&flow), Some(0.015));
    }

    #[test]
    fn percentiles_are_by_nearest_rank_after_the_warm_up() {
        let mut flow = flow(0, 3000, &[]);
        assert_eq!(rtt_percentiles(&flow, &TIMING), None);
        let sample = |at_ms, rtt_ms| RttSample {
            at: Duration::from_millis(at_ms),
            rtt: Duration::from_millis(rtt_ms),
        };
        flow.rtt.push(sample(999, 1));
        flow.rtt
            .extend((1..=20).rev().map(|n| sample(1000 + n, 10 * n)));
        let ms = Duration::from_millis;
        let percentiles = rtt_percentiles(&flow, &TIMING).unwrap();
        // Of 20 samples: the 1st, 10th, 19th, and 19.8th, that is the 20th.
        let expected = RttPercentiles {
            min: ms(10),
            p50: ms(100),
            p95: ms(190),
            p99: ms(200),
        };
        assert_eq!(percentiles, expected);
    }
}
