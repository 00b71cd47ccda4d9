//! Packets that come twice.

use std::fmt::Debug;
use std::time::Instant;

use rand::{Rng, RngExt};

use super::{Fate, Impairment, NotAProbability};
use crate::packet::PacketMeta;

/// Sends each packet twice with the same probability, independently: the copy right behind it.
/// So does netem's `duplicate`.
#[derive(Debug)]
pub struct Duplication<R> {
    probability: f64,
    rng: R,
}

impl<R> Duplication<R> {
    /// An impairment that duplicates with `probability`, 0 to 1.
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

impl<R: Rng + Debug + Send> Impairment for Duplication<R> {
    fn name(&self) -> &'static str {
        "duplication"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        if self.rng.random_bool(self.probability) {
            Fate::Twice
        } else {
            Fate::Out(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;

    use super::*;
    use crate::Amount;
    use crate::impairment::Node;
    use crate::testing::{epoch, packet};

    #[test]
    fn a_copy_follows_its_original_and_as_many_are_made_as_asked() {
        let start = epoch();
        for (probability, range) in [
            (0.0, 0..=0),
            (1.0, 10_000..=10_000),
            // Binomial(10000, 0.1): standard deviation 30; four of them either way.
            (0.1, 880..=1120),
        ] {
            let rng = Pcg64::new(1, 0);
            let mut node = Node::new(Duplication::new(probability, rng).unwrap());
            let mut copies = 0;
            for number in 0..10_000 {
                node.push(start, packet(100, number));
                assert_eq!(node.pop(start), Some((start, packet(100, number))));
                if let Some(copy) = node.pop(start) {
                    assert_eq!(copy, (start, packet(100, number)));
                    copies += 1;
                }
                assert_eq!(node.pop(start), None);
            }
            assert!(range.contains(&copies), "{copies} copies");
            let counters = node.counters();
            assert_eq!(counters.duplicated.packets, copies);
            assert_eq!(counters.arrived.packets, 10_000);
            assert_eq!(counters.dropped, Amount::ZERO);
            assert_eq!(counters.check("duplication"), Ok(()));
        }
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for value in [-0.1, 1.1, f64::NAN] {
            assert!(Duplication::new(value, Pcg64::new(1, 0)).is_err());
        }
    }
}
