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
    /// Whether both sides computed SHA-256, which then agreed; the sizes always did.
    pub verified: bool,
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
    /// SHA-256 of the data if the job asked for it. Over several streams: SHA-256 of the streams'
    /// digests, 32 bytes each, in the order of their ranges.
    pub checksum: Option<Checksum>,
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
}

impl Report {
    /// Makes a report; `before` are the connection's counters when the transfer began.
    pub(super) fn new(
        connection: &Connection,
        before: &ConnectionStats,
        meter: &Meter,
        checksum: Option<Checksum>,
    ) -> Self {
        let now = connection.stats();
        let packets_sent = packets_sent(&now).saturating_sub(packets_sent(before));
        let packets_lost = now
            .path
            .lost_packets
            .saturating_sub(before.path.lost_packets);
        let (bytes, duration, goodput_bps) = meter.read();
        Self {
            bytes,
            duration_s: duration.as_secs_f64(),
            goodput_bps,
            packets_sent,
            packets_lost,
            retransmitted_ratio: packets_lost as f64 / packets_sent.max(1) as f64,
            rtt_min_ms: now.path.min_rtt.as_secs_f64() * 1e3,
            rtt_smoothed_ms: now.path.rtt.as_secs_f64() * 1e3,
            window_bytes: now.path.cwnd,
            congestion_events: now
                .path
                .congestion_events
                .saturating_sub(before.path.congestion_events),
            udp_bytes_sent: now.udp_tx.bytes.saturating_sub(before.udp_tx.bytes),
            udp_bytes_received: now.udp_rx.bytes.saturating_sub(before.udp_rx.bytes),
            checksum,
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
        if now.duration_since(start) >= self.omit {
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

    pub(super) fn bytes(&self) -> u64 {
        lock(&self.counts).bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::epoch;

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
    fn data_within_one_instant_has_no_rate() {
        let meter = Meter::new(Duration::ZERO);
        meter.add(epoch(), 10);
        assert_eq!(meter.read(), (10, Duration::ZERO, None));
    }
}
