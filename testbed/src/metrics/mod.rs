//! The figures as the papers define them, from what a backend has observed.
//!
//! A figure is `None` where its definition gives no number: the throughput of a flow that was
//! not active after the warm-up, the fairness among fewer than two flows.

mod fairness;
mod flow;
mod link;
mod observations;
mod path;

use std::time::Duration;

pub use fairness::{jain_index, short_term_fairness, worst_case_fairness};
pub use flow::{
    RttPercentiles, active_time, cov, goodput_bps, retransmitted_ratio, rtt_percentiles,
    rtt_series, throughput_bps,
};
pub(crate) use flow::{median, nearest_rank};
pub use link::{loss_rate, utilization};
pub(crate) use observations::seconds;
pub use observations::{
    Arrived, ControllerSample, DelaySample, FlowObservation, LinkObservation, Observations,
    PacketSample, PathObservation, QueueObservation, QueueSample, RttSample, SojournObservation,
    StampObservation, StreamObservation, StreamSample, Transfer, WireObservation,
};
pub use path::{PathSeries, path_series, path_summary};

/// Time over which throughput is sampled for CoV and short-term fairness: "smoothness",
/// section IV-B.
pub const SAMPLE: Duration = Duration::from_millis(500);

/// When a run was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Width of the intervals of series; above zero, divides [`SAMPLE`].
    pub interval: Duration,
    /// What is left out of averages, from the run's beginning.
    pub warmup: Duration,
    /// The end of the run.
    pub duration: Duration,
}

impl Timing {
    /// Length of the measured time.
    pub fn measured(&self) -> Duration {
        self.duration.saturating_sub(self.warmup)
    }

    /// Intervals of series in one [`SAMPLE`].
    ///
    /// # Panics
    /// If the interval is zero or longer than a sample.
    fn intervals_per_sample(&self) -> usize {
        assert!(
            !self.interval.is_zero() && self.interval <= SAMPLE,
            "an interval divides a sample"
        );
        (SAMPLE.as_nanos() / self.interval.as_nanos()) as usize
    }
}
