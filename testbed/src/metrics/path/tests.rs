use std::time::Duration;

use evenkeel::HeaderState;
use evenkeel_apps::path::HeaderReport;

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
            counts: evenkeel::HeaderCounters::default(),
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
