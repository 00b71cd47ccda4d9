//! What path headers told a flow's sender.

use evenkeel_apps::path::{SampleRecord, SampleSummary, Samples};
use serde::Serialize;

use super::{PathObservation, Timing};

/// What headers told in each interval of a run. An interval in which no header came back, or none
/// told the value, has `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PathSeries {
    /// Mean of the queueing times on the way to the receiver, in milliseconds.
    pub forward_queueing_ms: Vec<Option<f64>>,
    /// Mean of the queueing times on the way back, in milliseconds.
    pub backward_queueing_ms: Vec<Option<f64>>,
    /// What routers granted last, in bits per second.
    pub grant_bps: Vec<Option<u64>>,
    /// Flows at the most crowded link as counted last.
    pub flows: Vec<Option<u32>>,
}

/// The samples after the warm-up, summed up.
pub fn path_summary(path: &PathObservation, timing: &Timing) -> SampleSummary {
    let warmup_s = timing.warmup.as_secs_f64();
    let mut samples = Samples::default();
    let after = path.samples.iter().filter(|sample| sample.at_s >= warmup_s);
    after.for_each(|sample| samples.add(sample));
    samples.summary()
}

/// The samples of each of the run's first `count` intervals.
pub fn path_series(path: &PathObservation, timing: &Timing, count: usize) -> PathSeries {
    let mut intervals = vec![Samples::default(); count];
    let interval_s = timing.interval.as_secs_f64();
    for sample in &path.samples {
        if let Some(samples) = intervals.get_mut(interval_of(sample, interval_s)) {
            samples.add(sample);
        }
    }
    let mut series = PathSeries::default();
    for samples in &intervals {
        let summary = samples.summary();
        let mean = |time: Option<evenkeel_apps::path::LastAndMean>| time.map(|time| time.mean);
        series
            .forward_queueing_ms
            .push(mean(summary.forward_queueing_ms));
        series
            .backward_queueing_ms
            .push(mean(summary.backward_queueing_ms));
        series.grant_bps.push(summary.grant_bps);
        series.flows.push(summary.flows);
    }
    series
}

fn interval_of(sample: &SampleRecord, interval_s: f64) -> usize {
    (sample.at_s / interval_s) as usize
}

#[cfg(test)]
mod tests;
