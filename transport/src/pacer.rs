//! A token bucket: decides how much may leave now, and when more may.

use std::time::{Duration, Instant};

use evenkeel_congestion::LONGEST_GAP;

/// Decides when the packets of one connection may leave.
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
    /// Bursts are short, and catch up at twice the rate.
    is_smooth: bool,
    /// With short bursts, when the next may leave.
    next_burst: Option<Instant>,
    /// Tokens at `updated`, in billionths of a byte: exact for whole nanoseconds.
    tokens: i128,
    /// `None` until the first rate is set.
    updated: Option<Instant>,
    /// How often [`check`](Self::check) has held something back.
    pub(crate) waits: u64,
}

/// The bucket holds what the rate gives in this time: tokio and a loaded machine may wake up this
/// late, and the rate must not suffer.
const DEPTH: Duration = Duration::from_millis(1);

/// The bucket never holds less than this many packets, so that one late wake-up costs nothing at
/// low rates either. RFC 9002, section 7.7, allows an initial window; smooth flows want far less.
const LEAST_DEPTH: u64 = 2;

/// An empty bucket fills for this long, because a wake-up costs some microseconds of CPU however
/// much it lets go. Half the depth, so that the other half covers lateness.
const REST: Duration = Duration::from_micros(500);

/// The longest burst of packets that leave as ECT(1): such queues are marked, and RFC 9331, section 4.3,
/// wants those that bursts make no longer than this.
const SMOOTH_BURST: Duration = Duration::from_micros(250);

/// A batch of this many packets may leave earlier when something else wakes the connection: quinn
/// 0.11 sends no more in one call (`MAX_TRANSMIT_SEGMENTS`).
const BATCH: u64 = 10;

impl Pacer {
    /// Creates a bucket that holds nothing back until it has a rate.
    pub(crate) fn new(packet: u16) -> Self {
        Self {
            packet: u64::from(packet),
            ..Self::default()
        }
    }

    /// Returns the sending rate in bytes per second; `None` while nothing is held back.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Sets the rate in bytes per second; with `None`, everything leaves at once.
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

    /// Sets the size of a full-size packet in bytes.
    pub(crate) fn set_packet(&mut self, packet: u16) {
        self.packet = u64::from(packet);
    }

    /// From the next rate on, limits the bytes that leave at once to `bytes` or a packet, whichever
    /// is more; `None` leaves the limit to the bucket.
    pub(crate) fn set_burst(&mut self, bytes: Option<u64>) {
        self.burst = bytes;
    }

    /// From now on, lets no more leave at once than the rate gives in 250 us, or a packet if that is
    /// more. A sender that wakes up late catches up at twice the rate.
    pub(crate) fn set_smooth(&mut self, is_smooth: bool) {
        self.is_smooth = is_smooth;
        if !is_smooth {
            self.next_burst = None;
        }
    }

    /// Takes `bytes` that have left. Excess becomes a debt, up to the bucket's depth.
    pub(crate) fn sent(&mut self, now: Instant, bytes: u64) {
        if let Some(rate) = self.rate {
            self.refill(now);
            self.tokens = (self.tokens - scaled(bytes)).max(-self.depth());
            if self.is_smooth {
                let gap = time_for(scaled(bytes) / 2, rate).min(LONGEST_GAP);
                self.next_burst = Some(now + gap);
            }
        }
    }

    /// Returns `Ok` if packets may leave now, else the time to come back.
    pub(crate) fn check(&mut self, now: Instant) -> Result<(), Instant> {
        let Some(rate) = self.rate else {
            return Ok(());
        };
        self.refill(now);
        if let Some(next) = self.next_burst.filter(|next| now < *next) {
            self.waits += 1;
            return Err(next);
        }
        let rest = if self.is_smooth {
            SMOOTH_BURST / 2
        } else {
            REST
        };
        let rest = scaled(self.packet).max(per(rate, rest)).min(self.depth());
        if self.tokens >= rest.min(scaled(BATCH * self.packet)) {
            return Ok(());
        }
        self.waits += 1;
        let missing = rest - self.tokens;
        Err(now + time_for(missing, rate).min(LONGEST_GAP * 2))
    }

    /// Returns how many packets one batch may have, from 1 to `most`, so that equal batches use up
    /// what the bucket holds.
    pub(crate) fn batch(&mut self, now: Instant, most: usize) -> usize {
        let Some(rate) = self.rate else {
            return most;
        };
        self.refill(now);
        let tokens = if self.is_smooth {
            self.tokens.min(per(rate, SMOOTH_BURST))
        } else {
            self.tokens
        };
        let packets = usize::try_from(tokens / scaled(self.packet.max(1))).unwrap_or(1);
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

    /// Returns the most tokens that the bucket holds.
    fn depth(&self) -> i128 {
        if let Some(burst) = self.burst {
            return scaled(burst.max(self.packet));
        }
        let packets = scaled(LEAST_DEPTH * self.packet);
        self.rate
            .map_or(packets, |rate| packets.max(per(rate, DEPTH)))
    }
}

/// Converts bytes to tokens.
fn scaled(bytes: u64) -> i128 {
    i128::from(bytes) * 1_000_000_000
}

/// Returns the time in which `rate` bytes per second give `tokens`, rounded up.
fn time_for(tokens: i128, rate: u64) -> Duration {
    let wait = tokens.div_euclid(i128::from(rate.max(1))) + 1;
    Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX))
}

/// Returns the tokens that `rate` bytes per second give in `time`.
fn per(rate: u64, time: Duration) -> i128 {
    let nanoseconds = i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    i128::from(rate).saturating_mul(nanoseconds)
}

#[cfg(test)]
mod tests;
