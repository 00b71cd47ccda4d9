//! Random extra delay.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use rand::{Rng, RngExt};

use super::{Fate, Impairment};
use crate::packet::PacketMeta;

/// Delays each packet by a time drawn uniformly from zero to a maximum, independently.
///
/// Nothing is reordered: a packet that draws less than the one before it comes out with it. So
/// where packets follow each other faster than the maximum, delays are longer than uniform.
#[derive(Debug)]
pub struct Jitter<R> {
    max_nanoseconds: u64,
    rng: R,
}

impl<R> Jitter<R> {
    /// An impairment that delays by up to `max`; beyond 584 years it is cut to them.
    pub fn new(max: Duration, rng: R) -> Self {
        Self {
            max_nanoseconds: u64::try_from(max.as_nanos()).unwrap_or(u64::MAX),
            rng,
        }
    }
}

impl<R: Rng + Debug + Send> Impairment for Jitter<R> {
    fn name(&self) -> &'static str {
        "jitter"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        let extra = self.rng.random_range(0..=self.max_nanoseconds);
        Fate::Out(now + Duration::from_nanos(extra))
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64;

    use super::*;
    use crate::impairment::Node;
    use crate::testing::{epoch, ms, packet};

    #[test]
    fn packets_far_apart_are_delayed_uniformly() {
        let start = epoch();
        let mut jitter = Node::new(Jitter::new(ms(10), Pcg64::new(1, 0)));
        let mut total = Duration::ZERO;
        for number in 0..10_000 {
            let sent = start + ms(20) * u32::try_from(number).unwrap();
            jitter.push(sent, packet(100, number));
            let (at, _) = jitter
                .pop(sent + ms(10))
                .expect("at most 10 ms later it is out");
            assert!(at >= sent && at <= sent + ms(10));
            total += at - sent;
        }
        // Mean 5 ms; standard deviation of it 10 / sqrt(12) / sqrt(10000) = 0.029 ms; four of them.
        let mean = total / 10_000;
        assert!(
            mean.abs_diff(ms(5)) < Duration::from_micros(116),
            "{mean:?}"
        );
    }

    #[test]
    fn packets_close_together_stay_in_order() {
        let start = epoch();
        let mut jitter = Node::new(Jitter::new(ms(10), Pcg64::new(1, 0)));
        for number in 0..1000 {
            jitter.push(start + Duration::from_micros(number), packet(100, number));
        }
        let mut last = start;
        for number in 0..1000 {
            let (at, packet) = jitter.pop(start + ms(20)).unwrap();
            assert_eq!(packet.payload, number);
            assert!(at >= last);
            last = at;
        }
        assert_eq!(jitter.counters().check("jitter"), Ok(()));
    }
}
