//! Reports what one side of a transfer measured.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use quinn::{Connection, ConnectionStats};
use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use crate::lock::lock;

/// A successful transfer, as both sides saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether both sides computed a checksum, which then agreed; the sizes always did.
    pub verified: bool,
    /// The controller of the server if it sent and named it.
    #[serde(skip)]
    pub controller: Option<String>,
    /// The side that sent the data.
    pub sender: Report,
    /// The side that received it; its goodput is the result of a measurement.
    pub receiver: Report,
}

/// The figures of one side. Packets and UDP bytes are those that this side sent and received on the
/// connection during the transfer, acknowledgements included.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Application bytes, warm-up included.
    pub bytes: u64,
    /// Seconds: at the receiver from the arrival of the first data stream to the last data, at the
    /// sender from its first write to the receiver's confirmation.
    pub duration_s: f64,
    /// Application bits per second after the warm-up; `None` if that left no time.
    pub goodput_bps: Option<f64>,
    /// Seconds from the same moment to the first 10^6 application bytes; `None` if there were less.
    pub first_1mb_s: Option<f64>,
    /// The same for 10^7 bytes.
    pub first_10mb_s: Option<f64>,
    /// QUIC packets sent, without path MTU probes.
    pub packets_sent: u64,
    /// Part of `packets_sent` that was declared lost (RFC 9002, section 6.1).
    pub packets_lost: u64,
    /// `packets_lost / packets_sent`, 0 to 1: QUIC retransmits the content of each lost packet.
    pub retransmitted_ratio: f64,
    /// Minimum round-trip time of the connection, milliseconds.
    pub rtt_min_ms: f64,
    /// Smoothed round-trip time at the end (RFC 9002, section 5.3), milliseconds.
    pub rtt_smoothed_ms: f64,
    /// Congestion window at the end, bytes.
    pub window_bytes: u64,
    /// Congestion events reported to the controller.
    pub congestion_events: u64,
    /// UDP payload bytes sent.
    pub udp_bytes_sent: u64,
    /// UDP payload bytes received.
    pub udp_bytes_received: u64,
    /// Checksum of the data if the job asked for it. Over several streams: of the streams' digests,
    /// 32 bytes each, in the order of their ranges.
    pub checksum: Option<Checksum>,
    /// Processor time of the whole program during the transfer; `None` if this side does not
    /// measure it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<CpuReport>,
}

/// Processor time, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuReport {
    /// In the program's own code.
    pub user_s: f64,
    /// In the kernel, for the program.
    pub system_s: f64,
    /// Both for each 10^9 application bytes; `None` without any.
    pub s_per_gb: Option<f64>,
}

/// Processor time that this process has taken since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In its own code.
    pub user: Duration,
    /// In the kernel.
    pub system: Duration,
}

/// Reads the processor time of this process. The simulator has none: its results must not depend
/// on the machine.
pub type CpuClock = fn() -> CpuTime;

/// The counters of one side when a transfer began.
pub(super) struct Start {
    stats: ConnectionStats,
    cpu: Option<(CpuClock, CpuTime)>,
}

/// Counts bytes over time, on one side.
#[derive(Debug)]
pub(super) struct Meter {
    omit: Duration,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    start: Option<Instant>,
    last: Option<Instant>,
    bytes: u64,
    after_omit: u64,
    /// When each of [`MILESTONES`] was reached, since the start.
    reached: [Option<Duration>; 2],
}

/// Bytes whose arrival is reported.
const MILESTONES: [u64; 2] = [1_000_000, 10_000_000];

impl Report {
    /// Makes a report on what `connection` has done since `start`.
    pub(super) fn new(
        connection: &Connection,
        start: &Start,
        meter: &Meter,
        checksum: Option<Checksum>,
    ) -> Self {
        let before = &start.stats;
        let now = connection.stats();
        let packets_sent = packets_sent(&now).saturating_sub(packets_sent(before));
        let (path, path_before) = (&now.path, &before.path);
        let packets_lost = path.lost_packets.saturating_sub(path_before.lost_packets);
        let (bytes, duration, goodput_bps) = meter.read();
        let [first_1mb_s, first_10mb_s] = meter.reached().map(|at| Some(at?.as_secs_f64()));
        Self {
            bytes,
            duration_s: duration.as_secs_f64(),
            goodput_bps,
            first_1mb_s,
            first_10mb_s,
            packets_sent,
            packets_lost,
            retransmitted_ratio: packets_lost as f64 / packets_sent.max(1) as f64,
            rtt_min_ms: now.path.min_rtt.as_secs_f64() * 1e3,
            rtt_smoothed_ms: now.path.rtt.as_secs_f64() * 1e3,
            window_bytes: now.path.cwnd,
            congestion_events: (path.congestion_events)
                .saturating_sub(path_before.congestion_events),
            udp_bytes_sent: now.udp_tx.bytes.saturating_sub(before.udp_tx.bytes),
            udp_bytes_received: now.udp_rx.bytes.saturating_sub(before.udp_rx.bytes),
            checksum,
            cpu: (start.cpu).map(|(clock, before)| CpuReport::new(before, clock(), bytes)),
        }
    }
}

impl Start {
    pub(super) fn new(connection: &Connection, cpu: Option<CpuClock>) -> Self {
        Self {
            stats: connection.stats(),
            cpu: cpu.map(|clock| (clock, clock())),
        }
    }
}

impl CpuReport {
    fn new(before: CpuTime, now: CpuTime, bytes: u64) -> Self {
        let user_s = now.user.saturating_sub(before.user).as_secs_f64();
        let system_s = now.system.saturating_sub(before.system).as_secs_f64();
        Self {
            user_s,
            system_s,
            s_per_gb: (bytes > 0).then(|| (user_s + system_s) * 1e9 / bytes as f64),
        }
    }
}

/// Returns how many QUIC packets a connection has sent, without path MTU probes.
pub(crate) fn packets_sent(stats: &ConnectionStats) -> u64 {
    let path = &stats.path;
    path.sent_packets.saturating_sub(path.sent_plpmtud_probes)
}

impl Meter {
    pub(super) fn new(omit: Duration) -> Self {
        Self {
            omit,
            counts: Mutex::default(),
        }
    }

    /// Notes that the data begins; only the first call counts.
    pub(super) fn start(&self, now: Instant) {
        lock(&self.counts).start.get_or_insert(now);
    }

    pub(super) fn add(&self, now: Instant, bytes: u64) {
        let mut counts = lock(&self.counts);
        let start = *counts.start.get_or_insert(now);
        counts.last = Some(now);
        counts.bytes += bytes;
        let (elapsed, total) = (now.duration_since(start), counts.bytes);
        for (reached, milestone) in counts.reached.iter_mut().zip(MILESTONES) {
            if reached.is_none() && total >= milestone {
                *reached = Some(elapsed);
            }
        }
        if elapsed >= self.omit {
            counts.after_omit += bytes;
        }
    }

    /// Notes that the transfer ended now, later than its last bytes.
    pub(super) fn end(&self, now: Instant) {
        lock(&self.counts).last = Some(now);
    }

    /// Returns bytes, duration, and bits per second after the warm-up.
    fn read(&self) -> (u64, Duration, Option<f64>) {
        let counts = lock(&self.counts);
        let duration = match (counts.start, counts.last) {
            (Some(start), Some(last)) => last.duration_since(start),
            _ => Duration::ZERO,
        };
        let measured = duration.saturating_sub(self.omit);
        let goodput =
            (!measured.is_zero()).then(|| counts.after_omit as f64 * 8.0 / measured.as_secs_f64());
        (counts.bytes, duration, goodput)
    }

    fn reached(&self) -> [Option<Duration>; 2] {
        lock(&self.counts).reached
    }

    pub(super) fn bytes(&self) -> u64 {
        lock(&self.counts).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_tests::time::epoch;

    #[test]
    fn the_warm_up_counts_neither_in_bytes_nor_in_time() {
        let start = epoch();
        let at = |s| start + Duration::from_secs(s);
        let meter = Meter::new(Duration::from_secs(2));
        meter.start(start);
        meter.add(at(1), 5_000);
        meter.add(at(3), 1_000);
        meter.add(at(4), 1_000);
        // 2000 bytes in the two seconds after the warm-up: 8000 bit/s.
        assert_eq!(meter.read(), (7_000, Duration::from_secs(4), Some(8_000.0)));
    }

    #[test]
    fn the_time_to_the_first_megabyte_counts_from_the_start_with_the_warm_up() {
        let start = epoch();
        let at = |s| start + Duration::from_secs(s);
        let meter = Meter::new(Duration::from_secs(2));
        meter.start(start);
        meter.add(at(1), 999_999);
        assert_eq!(meter.reached(), [None, None]);
        meter.add(at(3), 1);
        meter.add(at(4), 8_999_999);
        assert_eq!(meter.reached(), [Some(Duration::from_secs(3)), None]);
        meter.add(at(5), 20_000_000);
        assert_eq!(meter.reached()[1], Some(Duration::from_secs(5)));
    }

    #[test]
    fn processor_time_is_that_of_the_transfer_and_of_a_billion_bytes() {
        let at = |user, system| CpuTime {
            user: Duration::from_secs(user),
            system: Duration::from_secs(system),
        };
        let report = CpuReport::new(at(1, 10), at(2, 13), 2_000_000_000);
        assert_eq!((report.user_s, report.system_s), (1.0, 3.0));
        assert_eq!(report.s_per_gb, Some(2.0));
        assert_eq!(CpuReport::new(at(1, 1), at(2, 2), 0).s_per_gb, None);
    }

    #[test]
    fn data_within_one_instant_has_no_rate() {
        let meter = Meter::new(Duration::ZERO);
        meter.add(epoch(), 10);
        assert_eq!(meter.read(), (10, Duration::ZERO, None));
    }
}
