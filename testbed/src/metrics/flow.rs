//! Figures of one flow.

use std::ops::Range;
use std::time::Duration;

use super::{DelaySample, FlowObservation, SAMPLE, Timing};

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
/// than the warm-up's end, begins it; of one that it ends in counts what came until then, if that
/// is known ([`FlowObservation::until_stop`]), else all.
pub fn throughput_bps(flow: &FlowObservation, timing: &Timing) -> Option<f64> {
    let last = flow.until_stop.map(|arrived| arrived.ip_bytes);
    rate_bps(&flow.delivered, last, flow, timing)
}

/// Bits of application data per second in the flow's active time: goodput as A-AIMD, section 4,
/// defines it, without headers and retransmitted data.
pub fn goodput_bps(flow: &FlowObservation, timing: &Timing) -> Option<f64> {
    let last = flow.until_stop.map(|arrived| arrived.app_bytes);
    rate_bps(&flow.app_delivered, last, flow, timing)
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
    let mut times: Vec<_> = after.map(|sample| sample.rtt).collect();
    let min = *times.iter().min()?;
    // What is below one percentile need not be looked at for the next.
    let (count, mut below) = (times.len(), 0);
    let mut next = |percent| {
        let rank = rank(count, percent);
        let (_, time, _) = times[below..].select_nth_unstable(rank - below);
        below = rank;
        *time
    };
    Some(RttPercentiles {
        min,
        p50: next(50),
        p95: next(95),
        p99: next(99),
    })
}

/// Mean and greatest of the round-trip times measured in each of the run's first `count` intervals.
pub fn rtt_series(
    flow: &FlowObservation,
    timing: &Timing,
    count: usize,
) -> Vec<Option<DelaySample>> {
    let mut sums = vec![(Duration::ZERO, 0, Duration::ZERO); count];
    for sample in &flow.rtt {
        let index = (sample.at.as_nanos() / timing.interval.as_nanos()) as usize;
        if let Some((sum, number, max)) = sums.get_mut(index) {
            *sum += sample.rtt;
            *number += 1;
            *max = sample.rtt.max(*max);
        }
    }
    let of = |(sum, number, max): (Duration, u32, Duration)| {
        let mean = sum.checked_div(number)?;
        Some(DelaySample { mean, max })
    };
    sums.into_iter().map(of).collect()
}

/// The smallest value that at least `percent` of the sorted values do not exceed.
pub(crate) fn nearest_rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    sorted.get(rank(sorted.len(), percent)).copied()
}

/// The position of that value among `count` sorted ones.
fn rank(count: usize, percent: usize) -> usize {
    (count * percent).div_ceil(100).max(1) - 1
}

/// The middle of sorted values, at least one: of an even number the mean of the middle two.
pub(crate) fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
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

/// The mean of `bytes` per interval over the active time; `last` is what counts of the interval
/// that it ends in.
fn rate_bps(
    bytes: &[u64],
    last: Option<u64>,
    flow: &FlowObservation,
    timing: &Timing,
) -> Option<f64> {
    let active = active_time(flow, timing)?;
    let interval = timing.interval.as_nanos();
    let first = if flow.start > timing.warmup {
        flow.start.as_nanos() / interval
    } else {
        timing.warmup.as_nanos().div_ceil(interval)
    };
    let whole = active.end.as_nanos() / interval;
    let counted = bytes.iter().skip(first as usize);
    let mut counted: u64 = counted.take(whole.saturating_sub(first) as usize).sum();
    let ends_within = !active.end.as_nanos().is_multiple_of(interval);
    if ends_within && whole >= first {
        let all = bytes.get(whole as usize).copied().unwrap_or(0);
        counted += last.unwrap_or(all);
    }
    let bits = counted as f64 * 8.0;
    Some(bits / (active.end - active.start).as_secs_f64())
}

#[cfg(test)]
mod tests;
