//! Policers.

use std::time::Instant;

use super::{Fate, Impairment};
use crate::packet::PacketMeta;
use crate::rate::Rate;

/// 10^-9 bit: what one bit per second brings in a nanosecond.
const NANOBITS_PER_BYTE: u128 = 8_000_000_000;

/// A token bucket that drops what exceeds it, and holds nothing.
///
/// The bucket is full at first. Tokens come at the rate until it is full; a packet takes a token per
/// byte, or is dropped and takes none if there are too few. So are up to 7 % of connections treated,
/// depending on the region (T. Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM
/// 2016). Arithmetic is exact.
#[derive(Debug, Clone)]
pub struct Policer {
    rate: Rate,
    burst_nanobits: u128,
    tokens_nanobits: u128,
    /// Until when tokens have come; `None` before the first packet.
    filled: Option<Instant>,
}

impl Policer {
    /// A policer that lets `rate` through in the long run, and bursts of up to `burst_bytes`.
    pub fn new(rate: Rate, burst_bytes: u64) -> Self {
        let burst_nanobits = u128::from(burst_bytes) * NANOBITS_PER_BYTE;
        Self {
            rate,
            burst_nanobits,
            tokens_nanobits: burst_nanobits,
            filled: None,
        }
    }
}

impl Impairment for Policer {
    fn name(&self) -> &'static str {
        "policer"
    }

    fn decide(&mut self, now: Instant, packet: &PacketMeta) -> Fate {
        let elapsed = self
            .filled
            .map_or(0, |filled| now.saturating_duration_since(filled).as_nanos());
        self.filled = Some(now);
        let come = elapsed.saturating_mul(self.rate.bits_per_second().into());
        let tokens = self.tokens_nanobits.saturating_add(come);
        self.tokens_nanobits = tokens.min(self.burst_nanobits);
        let needed = u128::from(packet.bytes) * NANOBITS_PER_BYTE;
        match self.tokens_nanobits.checked_sub(needed) {
            Some(left) => {
                self.tokens_nanobits = left;
                Fate::Out(now)
            }
            None => Fate::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::impairment::Node;
    use crate::testing::{epoch, ms, packet};

    fn policer(bits_per_second: u64, burst_bytes: u64) -> Node<u64, Policer> {
        let rate = Rate::new(bits_per_second).expect("not zero");
        Node::new(Policer::new(rate, burst_bytes))
    }

    /// Which of packets of 1000 bytes, one each `gap`, pass.
    fn passed(policer: &mut Node<u64, Policer>, gap: Duration, count: u32) -> Vec<u64> {
        let start = epoch();
        let passes = |number: &u64| {
            let now = start + gap * u32::try_from(*number).unwrap();
            policer.push(now, packet(1000, *number));
            policer.pop(now).is_some()
        };
        (0..count.into()).filter(passes).collect()
    }

    #[test]
    fn a_full_bucket_lets_a_burst_through_and_then_its_rate() {
        // 8 Mb/s are a packet of 1000 bytes a millisecond; twice as many come.
        let mut policer = policer(8_000_000, 5000);
        let passed = passed(&mut policer, Duration::from_micros(500), 20);
        // Five at once would empty it; it lasts nine, because it fills meanwhile. Then every other.
        assert_eq!(passed, [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 18]);
        assert_eq!(policer.counters().dropped.packets, 6);
        assert_eq!(policer.counters().check("policer"), Ok(()));
    }

    #[test]
    fn a_bucket_holds_no_more_than_its_burst_and_a_larger_packet_never_passes() {
        let start = epoch();
        let mut policer = policer(8_000_000, 2000);
        policer.push(start, packet(2001, 0));
        for number in 1..=3 {
            policer.push(start + ms(1000), packet(1000, number));
        }
        assert_eq!(policer.counters().dropped.packets, 2);
    }

    #[test]
    fn in_the_long_run_exactly_its_rate_passes() {
        let mut policer = policer(5_000_000, 30_000);
        // 1000 bytes each 100 us are 80 Mb/s; 20 s bring 12.5 MB of tokens and 30 kB at first.
        let passed = passed(&mut policer, Duration::from_micros(100), 200_000);
        assert!(
            (12_528..=12_530).contains(&passed.len()),
            "{}",
            passed.len()
        );
    }

    proptest! {
        #[test]
        fn no_interval_lets_more_through_than_burst_and_rate(
            packets in vec((0..20_000u64, 40..1500u32), 1..80),
            kbps in 1..20_000u64,
            burst in 0..20_000u64,
        ) {
            let start = epoch();
            let mut policer = policer(kbps * 1000, burst);
            let mut now = start;
            let mut passed: Vec<(Instant, u64)> = Vec::new();
            for (number, (gap, bytes)) in (0..).zip(packets) {
                now += Duration::from_micros(gap);
                policer.push(now, packet(bytes, number));
                while let Some((at, packet)) = policer.pop(now) {
                    prop_assert_eq!(at, now);
                    passed.push((at, packet.meta.bytes.into()));
                }
            }
            prop_assert_eq!(policer.counters().check("policer"), Ok(()));
            for first in 0..passed.len() {
                let mut bytes = 0;
                for (at, more) in &passed[first..] {
                    bytes += more;
                    let seconds = (*at - passed[first].0).as_secs_f64();
                    let most = burst as f64 + seconds * (kbps * 125) as f64;
                    prop_assert!(bytes as f64 <= most + 1e-6);
                }
            }
        }
    }
}
