//! A token bucket: how much may leave now, and when more may.

use std::time::{Duration, Instant};

/// When packets of one connection may leave.
///
/// Sizes are bytes of UDP payload, as congestion controllers count them.
#[derive(Debug, Default)]
pub(crate) struct Pacer {
    /// Bytes per second; `None` lets everything leave at once.
    rate: Option<u64>,
    /// Bytes in a full-size packet.
    packet: u64,
    /// The most bytes that may leave at once, if the controller limits them.
    burst: Option<u64>,
    /// What may leave at `updated`, in billionths of a byte: exact for whole nanoseconds.
    tokens: i128,
    /// `None` before there has been a rate.
    updated: Option<Instant>,
    /// How often [`check`](Self::check) has held something back.
    pub(crate) waits: u64,
}

/// The bucket holds what the rate gives in this time: as much as a wake-up may be late without
/// the rate suffering. tokio and a loaded machine are late by that.
const DEPTH: Duration = Duration::from_millis(1);

/// And never less than this many packets, so that one late wake-up costs nothing at low rates
/// either. RFC 9002, section 7.7, allows an initial window; smooth flows want far less.
const LEAST_DEPTH: u64 = 2;

/// A bucket found empty is left to fill for this long: a wake-up costs some microseconds of CPU,
/// whatever it lets go. Half the depth, so that the other half covers lateness.
const REST: Duration = Duration::from_micros(500);

/// But a batch of this many packets may leave earlier when something else wakes the connection:
/// quinn 0.11 sends no more in one call (`MAX_TRANSMIT_SEGMENTS`).
const BATCH: u64 = 10;

/// The longest time between two packets. A rate below that, a router's lie or a controller's
/// mistake, must not stop a connection for good.
const LONGEST_GAP: Duration = Duration::from_secs(10);

impl Pacer {
    /// A bucket that holds nothing back until it has a rate.
    pub(crate) fn new(packet: u16) -> Self {
        Self {
            packet: u64::from(packet),
            ..Self::default()
        }
    }

    /// Bytes per second at which packets leave; `None` while nothing is held back.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// From now on `rate` bytes leave per second; with `None`, all at once.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Option<u64>) {
        self.refill(now);
        let least = self.packet.div_ceil(LONGEST_GAP.as_secs());
        let starts = self.rate.is_none();
        self.rate = rate.map(|rate| rate.max(least));
        if starts {
            self.tokens = self.depth();
        }
        self.tokens = self.tokens.min(self.depth());
    }

    /// From now on a full-size packet has `packet` bytes.
    pub(crate) fn set_packet(&mut self, packet: u16) {
        self.packet = u64::from(packet);
    }

    /// From the next rate on at most `bytes` bytes leave at once, or a packet if that is more;
    /// `None` leaves it to the bucket.
    pub(crate) fn set_burst(&mut self, bytes: Option<u64>) {
        self.burst = bytes;
    }

    /// `bytes` bytes have left. What left too much is owed, up to the bucket's depth.
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        if self.rate.is_some() {
            self.refill(now);
            self.tokens = (self.tokens - scaled(bytes)).max(-self.depth());
        }
    }

    /// When packets may leave: `Ok` if they may now, else the time to come back.
    pub(crate) fn check(&mut self, now: Instant) -> Result<(), Instant> {
        let Some(rate) = self.rate else {
            return Ok(());
        };
        self.refill(now);
        let rest = scaled(self.packet).max(per(rate, REST)).min(self.depth());
        if self.tokens >= rest.min(scaled(BATCH * self.packet)) {
            return Ok(());
        }
        self.waits += 1;
        let missing = rest - self.tokens;
        let wait = missing.div_euclid(i128::from(rate)) + 1;
        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
        Err(now + wait.min(LONGEST_GAP * 2))
    }

    /// How many packets one batch may have, at least 1 and at most `most`: such that equal
    /// batches use up what the bucket holds.
    pub(crate) fn batch(&mut self, now: Instant, most: usize) -> usize {
        if self.rate.is_none() {
            return most;
        }
        self.refill(now);
        let packets = usize::try_from(self.tokens / scaled(self.packet.max(1))).unwrap_or(1);
        let batches = packets.div_ceil(most.max(1)).max(1);
        packets.div_ceil(batches).clamp(1, most.max(1))
    }

    fn refill(&mut self, now: Instant) {
        let updated = self.updated.unwrap_or(now);
        let passed = now.saturating_duration_since(updated);
        self.updated = Some(updated.max(now));
        if let Some(rate) = self.rate {
            self.tokens = (self.tokens + per(rate, passed)).min(self.depth());
        }
    }

    /// The most tokens.
    fn depth(&self) -> i128 {
        if let Some(burst) = self.burst {
            return scaled(burst.max(self.packet));
        }
        let packets = scaled(LEAST_DEPTH * self.packet);
        self.rate
            .map_or(packets, |rate| packets.max(per(rate, DEPTH)))
    }
}

/// Bytes as tokens.
fn scaled(bytes: u64) -> i128 {
    i128::from(bytes) * 1_000_000_000
}

/// The tokens that `rate` bytes per second give in `time`.
fn per(rate: u64, time: Duration) -> i128 {
    let nanoseconds = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    i128::from(rate).saturating_mul(nanoseconds)
}

#[cfg(test)]
mod tests;
