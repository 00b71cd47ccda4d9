//! Measures a path by its ACKs: round trips, their queueing, and what was delivered.
//!
//! A round trip begins with an ACK and ends with the first ACK of a packet that was sent after it.
//! The path delivered what was acknowledged in it, in the longer of the time in which the packets
//! left and the time in which their ACKs came: ACKs that come in a bunch do not make the path look
//! faster (draft-cheng-iccrg-delivery-rate-estimation-02, here once a round trip).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_congestion::AckedPackets;

use crate::path::{PathState, rate};

/// What was delivered counts for this many seconds.
const MEMORY: Duration = Duration::from_secs(10);

/// Rates are kept by intervals of this length.
const INTERVAL: Duration = Duration::from_secs(1);

/// The shortest time that makes a rate. Within a shorter round trip lies a part of a frame.
const LEAST_TIME: Duration = Duration::from_millis(20);

/// The measurements of one path.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    /// When the newest acknowledged packet was sent.
    newest: Option<Instant>,
    round: Option<Round>,
    /// The greatest rate of each interval, with its beginning; oldest first.
    rates: VecDeque<(Instant, u64)>,
}

#[derive(Debug)]
struct Round {
    /// When its first ACK came, and when the newest packet of that was sent.
    began: Instant,
    sent: Instant,
    /// Bytes acknowledged after that.
    bytes: u64,
    least_rtt: Option<Duration>,
}

impl Measure {
    /// Takes in an ACK frame, and updates `path`. Returns its round trip time, if it gives one: one
    /// that [has no sample](evenkeel_congestion::FeedState::has_sample) does not.
    pub(crate) fn on_ack(
        &mut self,
        acked: &AckedPackets,
        has_sample: bool,
        path: &mut PathState,
    ) -> Option<Duration> {
        path.updated = Some(acked.now);
        let is_in_order = self.newest.is_none_or(|newest| acked.sent >= newest);
        if let Some(round) = &mut self.round {
            round.bytes = round.bytes.saturating_add(acked.bytes);
        }
        if !is_in_order || !has_sample {
            return None;
        }
        self.newest = Some(acked.sent);
        let rtt = acked.now.saturating_duration_since(acked.sent);
        path.latest_rtt = Some(rtt);
        let min_rtt = path.min_rtt.map_or(rtt, |least| least.min(rtt));
        path.min_rtt = Some(min_rtt);
        let Some(round) = &mut self.round else {
            self.begin(acked);
            return Some(rtt);
        };
        let least = round.least_rtt.map_or(rtt, |least| least.min(rtt));
        round.least_rtt = Some(least);
        let time = acked.now.saturating_duration_since(round.began);
        if acked.sent < round.began || time < LEAST_TIME {
            return Some(rtt);
        }
        path.queueing_delay = Some(least.saturating_sub(min_rtt));
        let time = time.max(acked.sent.saturating_duration_since(round.sent));
        let delivered = rate(round.bytes, time);
        path.delivered_rate = Some(self.most(acked.now, delivered));
        self.begin(acked);
        Some(rtt)
    }

    fn begin(&mut self, acked: &AckedPackets) {
        self.round = Some(Round {
            began: acked.now,
            sent: acked.sent,
            bytes: 0,
            least_rtt: None,
        });
    }

    /// Adds a rate; returns the greatest that counts.
    fn most(&mut self, now: Instant, rate: u64) -> u64 {
        match self.rates.back_mut() {
            Some((since, most)) if now.saturating_duration_since(*since) < INTERVAL => {
                *most = rate.max(*most);
            }
            _ => self.rates.push_back((now, rate)),
        }
        let is_old = |since: Instant| now.saturating_duration_since(since) > MEMORY;
        while self.rates.front().is_some_and(|(since, _)| is_old(*since)) {
            self.rates.pop_front();
        }
        let rates = self.rates.iter().map(|(_, rate)| *rate);
        rates.max().unwrap_or(rate)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;

    /// A path, and the time in ms since it began.
    struct Path {
        measure: Measure,
        state: PathState,
    }

    impl Path {
        fn new() -> Self {
            Self {
                measure: Measure::default(),
                state: PathState::new(1200),
            }
        }

        fn ack(&mut self, at: u64, sent: u64, bytes: u64) {
            let acked = AckedPackets::new(epoch() + ms(at), epoch() + ms(sent), bytes);
            self.measure.on_ack(&acked, true, &mut self.state);
        }

        /// Sends `bytes` each 10 ms from `from` ms to `to` ms, on a path of 40 ms.
        fn send(&mut self, from: u64, to: u64, bytes: u64) {
            for at in (from..to).step_by(10) {
                self.ack(at + 40, at, bytes);
            }
        }
    }

    #[test]
    fn what_was_delivered_counts_for_ten_seconds() {
        let mut path = Path::new();
        path.send(0, 30, 1000);
        assert_eq!(path.state.delivered_rate, None, "no round trip is over");
        path.send(30, 1000, 1000);
        assert_eq!(path.state.delivered_rate, Some(100_000));
        path.send(1000, 9000, 10);
        assert_eq!(path.state.delivered_rate, Some(100_000));
        path.send(9000, 12_000, 10);
        assert_eq!(path.state.delivered_rate, Some(1000));
    }

    #[test]
    fn acks_in_a_bunch_do_not_make_the_path_look_faster() {
        let mut path = Path::new();
        path.ack(140, 0, 1000);
        // Sent within 140 ms, acknowledged within 50.
        for sent in (10..=140).step_by(10) {
            path.ack(190, sent, 1000);
        }
        assert_eq!(path.state.delivered_rate, Some(100_000));
    }

    #[test]
    fn queueing_is_the_least_of_a_round_trip_over_the_least_of_all() {
        let mut path = Path::new();
        path.send(0, 200, 1000);
        assert_eq!(path.state.queueing_delay, Some(Duration::ZERO));
        // Two round trips with 60 ms more; one ACK is late.
        for at in (200..400).step_by(10) {
            path.ack(at + 100 + at % 20, at, 1000);
        }
        let state = &path.state;
        assert_eq!(state.queueing_delay, Some(ms(60)));
        assert_eq!(
            (state.min_rtt, state.latest_rtt),
            (Some(ms(40)), Some(ms(110)))
        );
        assert_eq!(state.updated, Some(epoch() + ms(500)));
    }

    #[test]
    fn an_ack_that_was_overtaken_or_repeats_a_lost_one_gives_no_round_trip() {
        let mut path = Path::new();
        path.ack(40, 0, 1000);
        path.ack(60, 20, 1000);
        path.ack(500, 10, 1000);
        assert_eq!(path.state.latest_rtt, Some(ms(40)));
        let repeated = AckedPackets::new(epoch() + ms(9000), epoch() + ms(30), 1000);
        assert_eq!(path.measure.on_ack(&repeated, false, &mut path.state), None);
        assert_eq!(path.state.latest_rtt, Some(ms(40)));
    }
}
