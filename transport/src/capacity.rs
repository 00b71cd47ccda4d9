//! Tries for a while to send faster than a controller allows, to find out what the path carries.

use std::time::{Duration, Instant};

use evenkeel_congestion::AckedPackets;
use tokio::sync::oneshot;

use crate::path::{PathState, rate};

/// What a probe of the path's capacity found; see [`Context::probe_capacity`](crate::Context::probe_capacity).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CapacityReport {
    /// The rate that was tried, in bytes of UDP payload per second.
    pub tried_rate: u64,
    /// The rate at which the path delivered what was sent in the probe, in bytes of UDP payload per
    /// second; 0 if the probe ended too soon to tell.
    pub delivered_rate: u64,
    /// Why it ended.
    pub end: CapacityProbeEnd,
}

/// Why a probe ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CapacityProbeEnd {
    /// Its time is up: the path carries [`CapacityReport::delivered_rate`], and the controller goes on
    /// from there.
    Carried,
    /// Its time is up, but the application had too little to send to try the rate: less than three
    /// quarters of it was delivered, and nothing was lost or queued.
    TooLittleData,
    /// Packets of the probe were lost or marked.
    Congestion,
    /// A queue grew.
    Queueing,
}

/// A probe tries at most this many times the estimate: what slow start would try in a round trip.
const MOST_GAIN: u64 = 2;

/// The longest probe.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The queue that ends a probe: this part of the least round trip, but at least the second.
const QUEUE_PART: u32 = 4;
const LEAST_QUEUE: Duration = Duration::from_millis(10);

/// The window of a probe has room for so much lateness of ACKs: the peer's timer.
const LATENESS: Duration = Duration::from_millis(25);

/// A probe of a connection's capacity, from the request to the report.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Bytes of UDP payload per second.
    rate: u64,
    time: Duration,
    reply: oneshot::Sender<CapacityReport>,
    run: Option<Run>,
}

/// A probe that has begun.
#[derive(Debug)]
struct Run {
    began: Instant,
    /// From here on, packets leave as before.
    until: Instant,
    /// When what has left is acknowledged, or never will be.
    deadline: Instant,
    /// Bytes per second.
    rate: u64,
    /// Bytes that may be in flight.
    window: u64,
    /// A longer round trip shows a queue.
    longest_rtt: Duration,
    /// When the first ACK of a packet of the probe came, and when that packet was sent.
    first: Option<(Instant, Instant)>,
    /// The same of the last.
    last: Option<(Instant, Instant)>,
    /// Bytes acknowledged after the first ACK.
    bytes: u64,
}

impl Probe {
    pub(crate) fn new(rate: u64, time: Duration, reply: oneshot::Sender<CapacityReport>) -> Self {
        Self {
            rate,
            time,
            reply,
            run: None,
        }
    }

    /// Takes in an ACK with the round trip time that it gives; begins if the probe has not begun.
    /// Returns why the probe ends, if it does.
    pub(crate) fn on_ack(
        &mut self,
        acked: &AckedPackets,
        rtt: Option<Duration>,
        path: &PathState,
    ) -> Option<CapacityProbeEnd> {
        let AckedPackets { now, sent, .. } = *acked;
        let Some(run) = &mut self.run else {
            self.run = Run::new(self.rate, self.time, now, path);
            return None;
        };
        if sent >= run.began && sent < run.until {
            match run.first {
                Some(_) => run.bytes = run.bytes.saturating_add(acked.bytes),
                None => run.first = Some((now, sent)),
            }
            run.last = Some((now, sent));
            if rtt.is_some_and(|rtt| rtt > run.longest_rtt) {
                return Some(CapacityProbeEnd::Queueing);
            }
        }
        (sent >= run.until).then(|| run.outcome())
    }

    /// Packets sent up to `sent` were lost or marked. Returns why the probe ends, if it does.
    pub(crate) fn on_congestion(&self, sent: Instant) -> Option<CapacityProbeEnd> {
        let run = self.run.as_ref()?;
        (sent >= run.began).then_some(CapacityProbeEnd::Congestion)
    }

    /// Returns why the probe ends, if its last ACKs are overdue at `now`.
    pub(crate) fn overdue(&self, now: Instant) -> Option<CapacityProbeEnd> {
        let run = self.run.as_ref()?;
        (now >= run.deadline).then(|| run.outcome())
    }

    /// Returns when to ask whether it is [`overdue`](Self::overdue).
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.run.as_ref().map(|run| run.deadline)
    }

    /// Returns the rate in bytes per second at which packets may leave at `now`, and the bytes that
    /// may be in flight, while the probe sends.
    pub(crate) fn allows(&self, now: Instant) -> Option<(u64, u64)> {
        let run = self.run.as_ref()?;
        (now < run.until).then_some((run.rate, run.window))
    }

    /// Returns what to report, and to whom.
    pub(crate) fn finish(self, end: CapacityProbeEnd) -> Answer {
        let report = CapacityReport {
            tried_rate: self.run.as_ref().map_or(self.rate, |run| run.rate),
            delivered_rate: self.run.as_ref().map_or(0, Run::delivered_rate),
            end,
        };
        Answer {
            reply: self.reply,
            report,
        }
    }
}

/// What a probe found, on its way to who asked.
#[derive(Debug)]
pub(crate) struct Answer {
    reply: oneshot::Sender<CapacityReport>,
    pub(crate) report: CapacityReport,
}

impl Answer {
    /// Sends it. Unlock before: this wakes a task.
    pub(crate) fn send(self) {
        // Who asked may have given up waiting.
        let _ = self.reply.send(self.report);
    }
}

impl Run {
    /// Begins at `now`; `None` while nothing is known of the path.
    fn new(asked: u64, time: Duration, now: Instant, path: &PathState) -> Option<Self> {
        let (estimate, min_rtt, smoothed) =
            (path.rate_estimate()?, path.min_rtt?, path.smoothed_rtt?);
        let rate = asked.min(estimate.saturating_mul(MOST_GAIN));
        let queue = (min_rtt / QUEUE_PART).max(LEAST_QUEUE);
        let longest_rtt = min_rtt + queue + LATENESS;
        let window = u128::from(rate) * longest_rtt.as_nanos() / 1_000_000_000;
        let until = now + time.min(MOST_TIME);
        Some(Self {
            began: now,
            until,
            deadline: until + 2 * smoothed + LATENESS,
            rate,
            window: u64::try_from(window).unwrap_or(u64::MAX),
            longest_rtt,
            first: None,
            last: None,
            bytes: 0,
        })
    }

    fn outcome(&self) -> CapacityProbeEnd {
        if self.delivered_rate() >= self.rate / 4 * 3 {
            CapacityProbeEnd::Carried
        } else {
            CapacityProbeEnd::TooLittleData
        }
    }

    fn delivered_rate(&self) -> u64 {
        let Some(((first_ack, first_sent), (last_ack, last_sent))) = self.first.zip(self.last)
        else {
            return 0;
        };
        let acks = last_ack.saturating_duration_since(first_ack);
        let time = acks.max(last_sent.saturating_duration_since(first_sent));
        if time.is_zero() {
            return 0;
        }
        rate(self.bytes, time)
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;

    fn path() -> PathState {
        // 1 MB/s are permitted, and were delivered.
        let mut path = PathState::new(1200);
        path.window = 40_000;
        (path.smoothed_rtt, path.min_rtt) = (Some(ms(40)), Some(ms(40)));
        path.delivered_rate = Some(1_000_000);
        path
    }

    /// The ACK of a packet of 1500 bytes.
    fn acked(now: Instant, sent: Instant) -> AckedPackets {
        AckedPackets::new(now, sent, 1500)
    }

    /// A probe of 1.5 MB/s for 100 ms.
    fn begun() -> (Probe, oneshot::Receiver<CapacityReport>) {
        let (reply, report) = oneshot::channel();
        let mut probe = Probe::new(1_500_000, ms(100), reply);
        assert_eq!(probe.allows(epoch()), None, "it has not begun");
        let end = probe.on_ack(&acked(epoch(), epoch() - ms(40)), Some(ms(40)), &path());
        assert_eq!(end, None);
        (probe, report)
    }

    #[test]
    fn a_path_that_delivers_what_is_tried_carries_it() {
        let (mut probe, _) = begun();
        // 40 ms, a queue of 10 ms, and 25 ms for late ACKs.
        assert_eq!(probe.allows(epoch() + ms(99)), Some((1_500_000, 112_500)));
        assert_eq!(probe.allows(epoch() + ms(100)), None);
        for at in 0..100 {
            let (now, sent) = (epoch() + ms(at + 40), epoch() + ms(at));
            assert_eq!(probe.on_ack(&acked(now, sent), Some(ms(40)), &path()), None);
        }
        let now = epoch() + ms(140);
        let end = probe.on_ack(&acked(now, now - ms(40)), Some(ms(40)), &path());
        assert_eq!(end, Some(CapacityProbeEnd::Carried));
        let report = probe.finish(CapacityProbeEnd::Carried).report;
        assert_eq!(
            (report.tried_rate, report.delivered_rate),
            (1_500_000, 1_500_000)
        );
    }

    #[test]
    fn an_application_with_too_little_data_tries_nothing() {
        let (mut probe, _) = begun();
        for at in (0..100).step_by(10) {
            let (now, sent) = (epoch() + ms(at + 40), epoch() + ms(at));
            assert_eq!(probe.on_ack(&acked(now, sent), Some(ms(40)), &path()), None);
        }
        let deadline = epoch() + ms(100 + 80 + 25);
        assert_eq!(probe.deadline(), Some(deadline));
        assert_eq!(probe.overdue(deadline - ms(1)), None);
        assert_eq!(
            probe.overdue(deadline),
            Some(CapacityProbeEnd::TooLittleData)
        );
    }

    #[test]
    fn a_queue_or_a_loss_of_its_own_packets_ends_it() {
        let (mut probe, _) = begun();
        let before = epoch() - ms(1);
        let late = probe.on_ack(&acked(epoch() + ms(90), before), Some(ms(91)), &path());
        assert_eq!((late, probe.on_congestion(before)), (None, None));
        assert_eq!(
            probe.on_congestion(epoch()),
            Some(CapacityProbeEnd::Congestion)
        );
        let (now, sent) = (epoch() + ms(96), epoch() + ms(20));
        let end = probe.on_ack(&acked(now, sent), Some(ms(76)), &path());
        assert_eq!(end, Some(CapacityProbeEnd::Queueing));
    }

    #[test]
    fn it_tries_at_most_twice_the_estimate() {
        let (reply, _) = oneshot::channel();
        let mut probe = Probe::new(u64::MAX, ms(100), reply);
        probe.on_ack(&acked(epoch(), epoch()), None, &PathState::new(1200));
        assert_eq!(probe.allows(epoch()), None, "nothing is known of the path");
        probe.on_ack(&acked(epoch(), epoch()), None, &path());
        let (rate, _) = probe.allows(epoch()).expect("it has begun");
        assert_eq!(rate, 2_000_000);
    }
}
