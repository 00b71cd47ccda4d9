//! A token bucket: how much may leave now, and when more may.

use std::time::{Duration, Instant};

/// When packets of one connection may leave.
///
/// Sizes are bytes of UDP payload, as congestion controllers count them.
#[derive(Debug)]
pub(crate) struct Pacer {
    /// Bytes per second; `None` lets everything leave at once.
    rate: Option<u64>,
    /// Bytes in a full-size packet.
    packet: u64,
    /// What may leave at `updated`, in billionths of a byte: exact for whole nanoseconds.
    tokens: i128,
    /// `None` before there has been a rate.
    updated: Option<Instant>,
    /// How often something was held back.
    waits: u64,
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
            rate: None,
            packet: u64::from(packet),
            tokens: 0,
            updated: None,
            waits: 0,
        }
    }

    /// Bytes per second at which packets leave; `None` while nothing is held back.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// How often [`check`](Self::check) has held something back.
    pub(crate) fn waits(&self) -> u64 {
        self.waits
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
        let rest = scaled(self.packet).max(per(rate, REST));
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
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{epoch, ms, us};

    const PACKET: u64 = 1200;

    fn paced(now: Instant, rate: u64) -> Pacer {
        let mut pacer = Pacer::new(PACKET as u16);
        pacer.set_rate(now, Some(rate));
        pacer
    }

    #[test]
    fn without_a_rate_nothing_is_held_back() {
        let t0 = epoch();
        let mut pacer = Pacer::new(1200);
        for _ in 0..100 {
            assert_eq!((pacer.check(t0), pacer.batch(t0, 10)), (Ok(()), 10));
            pacer.sent(t0, 12_000);
        }
    }

    #[test]
    fn two_packets_leave_then_one_at_a_time() {
        // 200 kB/s: a packet takes 6 ms.
        let t0 = epoch();
        let mut pacer = paced(t0, 200_000);
        assert_eq!((pacer.check(t0), pacer.batch(t0, 10)), (Ok(()), 2));
        pacer.sent(t0, 2 * PACKET);
        let next = pacer.check(t0).expect_err("the bucket is empty");
        assert_eq!(next, t0 + ms(6) + Duration::from_nanos(1));
        assert!(pacer.check(t0 + us(5999)).is_err());
        assert_eq!((pacer.check(next), pacer.batch(next, 10)), (Ok(()), 1));
        pacer.sent(next, PACKET);
        assert!(pacer.check(next + us(5990)).is_err());
        assert_eq!(pacer.check(next + us(6000)), Ok(()));
    }

    #[test]
    fn idle_time_is_not_saved_beyond_the_depth() {
        let t0 = epoch();
        let mut pacer = paced(t0, 200_000);
        pacer.sent(t0, 2 * PACKET);
        let later = t0 + Duration::from_secs(60);
        assert_eq!(pacer.batch(later, 10), 2);
        // 125 MB/s: a millisecond is 104 packets.
        let mut fast = paced(t0, 125_000_000);
        fast.sent(t0, 200 * PACKET);
        assert_eq!(fast.batch(later, 1000), 104);
    }

    #[test]
    fn at_high_rates_the_bucket_rests_half_a_millisecond() {
        let t0 = epoch();
        let mut pacer = paced(t0, 125_000_000);
        pacer.sent(t0, 125_000);
        let back = pacer.check(t0).expect_err("the bucket is empty");
        assert_eq!(back - t0, us(500) + Duration::from_nanos(1));
        // Something else woke the connection: whole batches go.
        assert!(pacer.check(t0 + us(90)).is_err());
        assert_eq!(pacer.check(t0 + us(96)), Ok(()));
        assert_eq!(pacer.batch(t0 + us(96), 10), 10);
    }

    #[test]
    fn batches_divide_what_there_is_evenly() {
        let t0 = epoch();
        // Depth 12 packets: two batches of 6 use it up, where 10 and 10 would overdraw.
        let mut pacer = paced(t0, 14_400_000);
        assert_eq!(pacer.batch(t0, 10), 6);
        pacer.sent(t0, 2 * PACKET);
        assert_eq!(pacer.batch(t0, 10), 10);
        pacer.sent(t0, 10 * PACKET);
        assert_eq!(pacer.batch(t0, 10), 1);
    }

    #[test]
    fn no_rate_is_so_low_that_a_connection_stops() {
        let t0 = epoch();
        let mut pacer = paced(t0, 0);
        pacer.sent(t0, 100 * PACKET);
        let next = pacer.check(t0).expect_err("the bucket is empty");
        assert!(next <= t0 + 2 * LONGEST_GAP);
    }

    #[test]
    fn a_clock_that_steps_back_gives_nothing() {
        let t0 = epoch();
        let mut pacer = paced(t0 + ms(100), 200_000);
        pacer.sent(t0 + ms(100), 2 * PACKET);
        assert!(pacer.check(t0).is_err());
        assert!(pacer.check(t0 + ms(105)).is_err());
        assert_eq!(pacer.check(t0 + ms(107)), Ok(()));
    }

    proptest! {
        #[test]
        fn what_leaves_is_the_rate_and_at_most_a_bucket_and_a_batch_more(
            rate in 1_000_u64..1_000_000_000,
            lateness in prop::collection::vec(0_u64..400, 1..200),
        ) {
            let t0 = epoch();
            let mut pacer = paced(t0, rate);
            let (mut now, mut left) = (t0, 0);
            for late in lateness {
                while pacer.check(now).is_ok() {
                    let bytes = pacer.batch(now, 10) as u64 * PACKET;
                    pacer.sent(now, bytes);
                    left += bytes;
                }
                let allowed = (now - t0).as_nanos() * u128::from(rate) / 1_000_000_000;
                let slack = (rate / 1000).max(2 * PACKET) + 10 * PACKET;
                prop_assert!(u128::from(left) <= allowed + u128::from(slack), "{left} of {allowed}");
                // Wake-ups late by less than half the depth cost no throughput.
                prop_assert!(u128::from(left) + u128::from(slack) >= allowed, "{left} of {allowed}");
                let next = pacer.check(now).expect_err("the loop ended");
                prop_assert!(next > now);
                now = next + us(late);
            }
        }
    }
}
