//! Estimates the round trip time of an empty path by subtracting the queueing that routers report.
//!
//! Y.-C. Chan, C.-T. Chan and Y.-C. Chen, "RoVegas", Eq. (3), and section 6.4 for paths on which
//! not every router reports.

use std::collections::VecDeque;
use std::time::Duration;

use crate::controller::PathSample;

/// Rounds whose samples count, the present one included. The paper replaces BaseRTT at each sample
/// and so forgets at once (section 3.1); a few more rounds even out errors of a single sample.
const MEMORY: usize = 8;

/// Round trip times of the last rounds, less the queueing time that routers reported.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectedRtt {
    /// The least of the present round.
    current: Option<Duration>,
    /// The least of each earlier round, oldest first.
    recent: VecDeque<Duration>,
    /// All samples of the newest round were complete.
    complete: bool,
}

impl CorrectedRtt {
    /// Includes a sample that routers have stamped.
    pub(crate) fn on_path(&mut self, sample: &PathSample) {
        let corrected = corrected(sample);
        self.complete = sample.complete && (self.complete || self.current.is_none());
        self.current = Some(self.current.map_or(corrected, |least| least.min(corrected)));
    }

    /// Ends a round.
    pub(crate) fn end_round(&mut self) {
        let Some(least) = self.current.take() else {
            return;
        };
        if self.recent.len() == MEMORY - 1 {
            self.recent.pop_front();
        }
        self.recent.push_back(least);
    }

    /// Returns true if every router seems to have reported its queue.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns BaseRTT, given the least round trip time ever, `plain`. If every router reports
    /// (`trusted`), only the samples count, so that BaseRTT also follows a change to a longer
    /// route; otherwise they can only lower it (section 6.4).
    pub(crate) fn base_rtt(&self, plain: Duration, trusted: bool) -> Duration {
        match self.recent.iter().chain(&self.current).min() {
            Some(least) if trusted => *least,
            Some(least) => plain.min(*least),
            None => plain,
        }
    }
}

/// Eq. (3): BaseRTT = RTT - (AQT + AQT-Echo).
fn corrected(sample: &PathSample) -> Duration {
    let queueing = [sample.forward_queueing, sample.backward_queueing];
    queueing
        .into_iter()
        .flatten()
        .fold(sample.rtt, Duration::saturating_sub)
}

#[cfg(test)]
mod tests;
