//! Round trip times that record whether their packet was small.

use std::time::Duration;

use crate::controller::{Ack, Round};

/// A small packet is one below the full size divided by this.
const SMALL: u64 = 2;

/// A round trip time. The least of several comes from a large packet if there is one: a small
/// packet takes less time on each link, which makes a slow link look shorter than it is for data.
/// If an application sends only small packets, those count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SizedRtt {
    // Compared first: any large packet's round trip counts as less than all small ones'.
    small: bool,
    rtt: Duration,
}

impl SizedRtt {
    /// Makes a round trip of a packet of at least half the full size.
    #[cfg(test)]
    pub(crate) const fn large(rtt: Duration) -> Self {
        Self { small: false, rtt }
    }

    /// Returns the sample of `ack`, if it has one, with full-size packets of `mtu` bytes.
    pub(crate) fn of_ack(ack: &Ack, mtu: u16) -> Option<Self> {
        let small = ack.newest_bytes.saturating_mul(SMALL) < u64::from(mtu);
        ack.rtt.map(|rtt| Self { small, rtt })
    }

    /// Returns the least sample of `round`.
    pub(crate) fn of_round(round: &Round) -> Self {
        Self {
            small: round.small,
            rtt: round.rtt_min,
        }
    }

    /// Returns the lesser of this and the least `before`.
    pub(crate) fn least(self, before: Option<Self>) -> Self {
        before.map_or(self, |before| before.min(self))
    }

    /// Returns true if the packet was below half the full size.
    pub(crate) fn is_small(self) -> bool {
        self.small
    }

    pub(crate) fn rtt(self) -> Duration {
        self.rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, epoch, ms};

    /// Returns the least of samples: bytes of the newest packet, and milliseconds.
    fn least(samples: &[(u64, u64)]) -> Option<(Duration, bool)> {
        let mut least = None;
        for &(newest_bytes, rtt) in samples {
            let ack = Ack {
                newest_bytes,
                ..ack(epoch(), rtt, newest_bytes)
            };
            let sample = SizedRtt::of_ack(&ack, 1200).expect("it has a sample");
            least = Some(sample.least(least));
        }
        least.map(|least| (least.rtt(), least.is_small()))
    }

    #[test]
    fn the_least_is_of_large_packets_as_soon_as_there_is_one() {
        for (samples, expected) in [
            (&[(40, 50), (39, 60)][..], (ms(50), true)),
            (&[(40, 50), (1200, 60)], (ms(60), false)),
            (&[(40, 50), (600, 60)], (ms(60), false)),
            (&[(40, 50), (599, 49)], (ms(49), true)),
            (&[(1200, 60), (40, 50), (1200, 70)], (ms(60), false)),
            (&[(1200, 60), (1100, 55)], (ms(55), false)),
        ] {
            assert_eq!(least(samples), Some(expected), "{samples:?}");
        }
    }

    #[test]
    fn an_ack_without_a_round_trip_gives_no_sample() {
        let reordered = Ack {
            rtt: None,
            ..ack(epoch(), 40, 1200)
        };
        assert_eq!(SizedRtt::of_ack(&reordered, 1200), None);
    }
}
