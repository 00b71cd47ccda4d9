//! Packets that are released together.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use super::{Fate, Impairment};
use crate::packet::PacketMeta;

/// Holds packets and lets them out together: a given time after the first of them came in, or as
/// soon as there is a given number of them.
///
/// So do links that send frames together: IEEE 802.11n carries up to 64 frames in one A-MPDU, which
/// takes at most 5.484 ms; cable modems and cellular links wait for grants. On the way back of a flow
/// this is ACK aggregation (N. Cardwell et al., "BBR Congestion Control Work at Google: IETF 101
/// Update", 2018). netem's `slot` is alike. Order is kept.
#[derive(Debug, Clone)]
pub struct Aggregation {
    time: Duration,
    packets: Option<NonZeroU32>,
    /// When the packets that are held come out, and how many they are.
    batch: Option<(Instant, u32)>,
}

impl Aggregation {
    /// An impairment that holds packets for at most `time`, and at most `packets` less one of them.
    pub fn new(time: Duration, packets: Option<NonZeroU32>) -> Self {
        Self {
            time,
            packets,
            batch: None,
        }
    }

    /// How long a packet is held at most.
    pub(crate) fn time(&self) -> Duration {
        self.time
    }
}

impl Impairment for Aggregation {
    fn name(&self) -> &'static str {
        "aggregation"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        // What is due now has gone.
        let (due, others) = match self.batch {
            Some((due, held)) if now < due => (due, held),
            _ => (now + self.time, 0),
        };
        if self.packets.is_some_and(|most| others + 1 >= most.get()) {
            self.batch = None;
            return Fate::Releases(others as usize);
        }
        self.batch = Some((due, others.saturating_add(1)));
        Fate::Out(due)
    }

    fn hastens(&self) -> bool {
        self.packets.is_some()
    }
}

#[cfg(test)]
mod tests;
