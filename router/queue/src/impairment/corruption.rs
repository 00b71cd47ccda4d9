//! Bits that flip on the way.

use std::fmt::Debug;
use std::time::Instant;

use rand::{Rng, RngExt};

use super::{Fate, Impairment, NotAProbability};
use crate::packet::PacketMeta;

/// Flips a bit of each packet's UDP payload with the same probability, independently.
///
/// The UDP checksum stays right, as behind a faulty router that computes it anew: a receiver's
/// kernel passes the packet on, and QUIC discards what it cannot decrypt. Other packets than UDP pass
/// unchanged. (netem's `corrupt` flips a bit anywhere, and leaves the checksum wrong.)
#[derive(Debug)]
pub struct Corruption<R> {
    probability: f64,
    rng: R,
}

impl<R> Corruption<R> {
    /// An impairment that flips a bit with `probability`, 0 to 1.
    ///
    /// # Errors
    /// [`NotAProbability`] for anything else.
    pub fn new(probability: f64, rng: R) -> Result<Self, NotAProbability> {
        Ok(Self {
            probability: NotAProbability::check(probability)?,
            rng,
        })
    }
}

impl<R: Rng + Debug + Send> Impairment for Corruption<R> {
    fn name(&self) -> &'static str {
        "corruption"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        if self.rng.random_bool(self.probability) {
            Fate::Flips(self.rng.random())
        } else {
            Fate::Out(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_wire::Ecn;
    use rand_pcg::Pcg64;

    use super::*;
    use crate::impairment::Node;
    use crate::testing::epoch;
    use crate::{Carrier, Packet};

    #[derive(Debug, Clone, PartialEq)]
    struct Payload(Vec<u8>);

    impl Carrier for Payload {
        fn flip_bit(&mut self, bit: u64) -> bool {
            let bits = self.0.len() as u64 * 8;
            let Some(bit) = bit.checked_rem(bits) else {
                return false;
            };
            self.0[(bit / 8) as usize] ^= 1 << (bit % 8);
            true
        }
    }

    /// Of packets with `bytes` of payload, how many have how many bits flipped.
    fn flipped(probability: f64, bytes: usize) -> (u64, u32) {
        let now = epoch();
        let mut node = Node::new(Corruption::new(probability, Pcg64::new(1, 0)).unwrap());
        let mut most = 0;
        for _ in 0..10_000 {
            let meta = PacketMeta::new(100, Ecn::NotEct);
            node.push(now, Packet::new(meta, Payload(vec![0; bytes])));
            let (at, packet) = node.pop(now).expect("nothing is lost");
            assert_eq!(at, now);
            let ones = packet.payload.0.iter().map(|byte| byte.count_ones());
            most = most.max(ones.sum());
        }
        assert_eq!(node.counters().check("corruption"), Ok(()));
        (node.counters().altered.packets, most)
    }

    #[test]
    fn one_bit_of_as_many_packets_as_asked_flips() {
        assert_eq!(flipped(0.0, 100), (0, 0));
        assert_eq!(flipped(1.0, 100), (10_000, 1));
        // Binomial(10000, 0.1): standard deviation 30; four of them either way.
        let (packets, most) = flipped(0.1, 100);
        assert!((880..=1120).contains(&packets), "{packets}");
        assert_eq!(most, 1);
    }

    #[test]
    fn what_has_no_payload_passes_unchanged_and_uncounted() {
        assert_eq!(flipped(1.0, 0), (0, 0));
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for value in [-0.1, 1.1, f64::NAN] {
            assert!(Corruption::new(value, Pcg64::new(1, 0)).is_err());
        }
    }
}
