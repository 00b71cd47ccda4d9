//! The round trip time of an empty path, with what routers told of their queues taken off.
//!
//! Y.-C. Chan, C.-T. Chan and Y.-C. Chen, "RoVegas", Eq. (3), and section 6.4 for paths on which
//! not every router tells.

use std::collections::VecDeque;
use std::time::Duration;

use crate::controller::PathSample;

/// Rounds whose samples count, the present one included. The paper replaces BaseRTT at each
/// sample and so forgets at once (section 3.1): a few rounds more even out what a single sample
/// got wrong.
const MEMORY: usize = 8;

/// Round trip times of the last rounds, less the queueing time that routers told.
#[derive(Debug, Clone, Default)]
pub(crate) struct CorrectedRtt {
    /// The least of the present round.
    current: Option<Duration>,
    /// The least of each round before, the oldest first.
    recent: VecDeque<Duration>,
    /// All samples of the newest round were complete.
    complete: bool,
}

impl CorrectedRtt {
    /// Takes in a sample that routers have stamped.
    pub(crate) fn on_path(&mut self, sample: &PathSample) {
        let corrected = corrected(sample);
        self.complete = sample.complete && (self.complete || self.current.is_none());
        self.current = Some(self.current.map_or(corrected, |least| least.min(corrected)));
    }

    /// A round is over.
    pub(crate) fn end_round(&mut self) {
        let Some(least) = self.current.take() else {
            return;
        };
        if self.recent.len() == MEMORY - 1 {
            self.recent.pop_front();
        }
        self.recent.push_back(least);
    }

    /// Whether every router seems to have told of its queue.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// BaseRTT, if the least round trip time ever was `plain`. On a path that is known
    /// completely (`trusted`) the samples alone count, so that another route is followed to
    /// longer round trips too; on others they can only lower it (section 6.4).
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
mod tests {
    use super::*;
    use crate::testing::{ms, path_sample};

    /// A complete sample: round trip, queueing there and back, in milliseconds.
    fn sample(rtt: u64, forward: u64, backward: u64) -> PathSample {
        PathSample {
            rtt: ms(rtt),
            forward_queueing: Some(ms(forward)),
            backward_queueing: Some(ms(backward)),
            ..path_sample()
        }
    }

    #[test]
    fn what_routers_told_is_taken_off() {
        for (sample, expected) in [
            (sample(100, 20, 30), 50),
            (sample(100, 80, 30), 0),
            (
                PathSample {
                    backward_queueing: None,
                    ..sample(100, 20, 0)
                },
                80,
            ),
            (
                PathSample {
                    forward_queueing: None,
                    ..sample(100, 0, 30)
                },
                70,
            ),
        ] {
            assert_eq!(corrected(&sample), ms(expected), "{sample:?}");
        }
    }

    #[test]
    fn a_complete_path_is_followed_both_ways_within_eight_rounds() {
        let mut rtts = CorrectedRtt::default();
        assert_eq!(rtts.base_rtt(ms(70), true), ms(70), "nothing was told");
        rtts.on_path(&sample(100, 10, 10));
        rtts.on_path(&sample(100, 10, 20));
        rtts.on_path(&sample(100, 10, 0));
        rtts.end_round();
        assert_eq!(
            rtts.base_rtt(ms(60), true),
            ms(70),
            "plain round trips do not count"
        );
        for round in 1..=7 {
            assert_eq!(rtts.base_rtt(ms(60), true), ms(70), "round {round}");
            rtts.on_path(&sample(200, 10, 10));
            rtts.end_round();
        }
        assert_eq!(rtts.base_rtt(ms(60), true), ms(180));
        rtts.end_round();
        assert_eq!(
            rtts.base_rtt(ms(60), true),
            ms(180),
            "a round without samples"
        );
        rtts.on_path(&sample(50, 10, 10));
        assert_eq!(
            rtts.base_rtt(ms(60), true),
            ms(30),
            "the present round counts"
        );
    }

    #[test]
    fn an_incomplete_path_only_lowers_it() {
        let mut rtts = CorrectedRtt::default();
        rtts.on_path(&sample(100, 10, 10));
        assert_eq!(rtts.base_rtt(ms(60), false), ms(60));
        assert_eq!(rtts.base_rtt(ms(90), false), ms(80));
    }

    #[test]
    fn a_round_is_complete_if_all_its_samples_are() {
        let incomplete = PathSample {
            complete: false,
            ..sample(100, 0, 0)
        };
        let mut rtts = CorrectedRtt::default();
        assert!(!rtts.is_complete());
        for (samples, complete) in [
            (vec![&incomplete], false),
            (vec![&incomplete, &sample(100, 0, 0)], false),
            (vec![&sample(100, 0, 0), &incomplete], false),
            (vec![&sample(100, 0, 0), &sample(100, 0, 0)], true),
            (vec![], true),
        ] {
            for sample in samples {
                rtts.on_path(sample);
            }
            rtts.end_round();
            assert_eq!(rtts.is_complete(), complete);
        }
    }
}
