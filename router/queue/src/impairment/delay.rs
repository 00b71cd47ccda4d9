//! Propagation delay.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use super::line::Line;
use super::{Node, NodeCounters};
use crate::Packet;

/// Every packet comes out a fixed time after it went in.
///
/// A changed delay is that of the packets that go in from then on; those inside keep theirs. After
/// a shortening, packets wait for the last one with the longer delay: nothing is reordered.
#[derive(Debug)]
pub struct Delay<P> {
    delay: Duration,
    line: Line<P>,
}

impl<P> Delay<P> {
    /// An empty node.
    pub fn new(delay: Duration) -> Self {
        Self {
            delay,
            line: Line::new(),
        }
    }

    /// Changes the delay of packets that go in from now on.
    pub fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }
}

impl<P: Debug + Send> Node<P> for Delay<P> {
    fn name(&self) -> &'static str {
        "delay"
    }

    fn push(&mut self, now: Instant, packet: Packet<P>) {
        self.line.admit(now + self.delay, packet);
    }

    fn pop(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        self.line.pop(now)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.line.next_timeout()
    }

    fn least_delay(&self) -> Duration {
        self.delay
    }

    fn counters(&self) -> NodeCounters {
        self.line.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms, packet};

    #[test]
    fn a_packet_comes_out_after_the_delay_and_not_before() {
        let start = epoch();
        let mut delay = Delay::new(ms(5));
        delay.push(start, packet(100, 1));
        assert_eq!(delay.next_timeout(), Some(start + ms(5)));
        assert_eq!(delay.pop(start + ms(4)), None);
        assert_eq!(
            delay.pop(start + ms(9)),
            Some((start + ms(5), packet(100, 1)))
        );
        assert_eq!(delay.counters().check("delay"), Ok(()));
    }

    #[test]
    fn a_shorter_delay_does_not_overtake() {
        let start = epoch();
        let mut delay = Delay::new(ms(10));
        delay.push(start, packet(100, 1));
        delay.set_delay(ms(1));
        delay.push(start + ms(2), packet(100, 2));
        delay.push(start + ms(12), packet(100, 3));
        let out = [(); 3].map(|()| {
            delay
                .pop(start + ms(20))
                .map(|(at, packet)| (at - start, packet.payload))
        });
        assert_eq!(
            out,
            [Some((ms(10), 1)), Some((ms(10), 2)), Some((ms(13), 3))]
        );
    }
}
