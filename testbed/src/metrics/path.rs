//! What path headers told a flow's sender.

use evenkeel_apps::path::{SampleRecord, SampleSummary, Samples};

use super::{PathObservation, Timing};

/// What headers told in each interval of a run. An interval in which no header came back, or none
/// told the value, has `None`.
#[derive(Debug, Clone, Default, PartialEq)]
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
mod tests {
    use std::time::Duration;

    use evenkeel::HeaderState;
    use evenkeel_apps::path::{HeaderCounts, HeaderReport};

    use super::*;

    const TIMING: Timing = Timing {
        interval: Duration::from_millis(500),
        warmup: Duration::from_secs(1),
        duration: Duration::from_secs(2),
    };

    fn path(samples: &[(f64, Option<f64>, Option<u64>)]) -> PathObservation {
        let record = |&(at_s, forward_queueing_ms, grant_bps)| SampleRecord {
            at_s,
            rtt_ms: 40.0,
            forward_queueing_ms,
            backward_queueing_ms: None,
            complete: false,
            grant_bps,
            window_change_bytes: None,
            congested: at_s > 1.2,
            flows: None,
        };
        PathObservation {
            headers: HeaderReport {
                state: HeaderState::Confirmed,
                counts: HeaderCounts::default(),
            },
            samples: samples.iter().map(record).collect(),
        }
    }

    #[test]
    fn a_summary_leaves_the_warm_up_out() {
        let path = path(&[
            (0.9, Some(100.0), Some(1)),
            (1.0, Some(4.0), Some(2)),
            (1.5, Some(2.0), None),
        ]);
        let summary = path_summary(&path, &TIMING);
        let forward = summary.forward_queueing_ms.unwrap();
        assert_eq!((forward.last, forward.mean), (2.0, 3.0));
        assert_eq!((summary.samples, summary.congested_share), (2, Some(0.5)));
        assert_eq!(summary.grant_bps, None);
    }

    #[test]
    fn a_series_has_each_intervals_mean_queueing_and_last_grant() {
        let path = path(&[
            (0.1, Some(1.0), Some(8)),
            (0.4, Some(3.0), Some(16)),
            (1.6, None, Some(24)),
            (7.0, Some(9.0), Some(9)),
        ]);
        let series = path_series(&path, &TIMING, 4);
        assert_eq!(series.forward_queueing_ms, [Some(2.0), None, None, None]);
        assert_eq!(series.backward_queueing_ms, [None; 4]);
        assert_eq!(series.grant_bps, [Some(16), None, None, Some(24)]);
    }
}
