//! Cuts a connection's acknowledgements into round trips.
//!
//! Sending times separate the rounds. Packet numbers cannot: quinn reports the largest number
//! acknowledged without its number space. In virtual time an ACK and the packets that it releases
//! share one instant, hence "at or after".

use std::time::Instant;

use crate::controller::{Ack, Round};
use crate::sized_rtt::SizedRtt;

/// The round in progress.
#[derive(Debug, Clone)]
pub(super) struct Rounds {
    /// An acknowledged packet sent at or after this ends the round.
    start: Instant,
    sums: Sums,
}

/// What has happened since the last round ended.
#[derive(Debug, Clone)]
struct Sums {
    rtt_min: Option<SizedRtt>,
    /// ACK frames with at least one newly acknowledged packet.
    acks: u64,
    packets: u64,
    /// Bytes.
    acked: u64,
    /// Bytes.
    lost: u64,
    /// The most bytes in flight before an ACK.
    in_flight: u64,
    /// The least bytes of the window not in use before an ACK.
    unused: u64,
    app_limited: bool,
    in_recovery: bool,
}

impl Rounds {
    /// The first round begins at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            start: now,
            sums: Sums::ZERO,
        }
    }

    /// Takes in an ACK. `window` is the window in bytes before it, `mtu` the bytes of a full-size
    /// packet. Returns the round that the ACK ends.
    pub(super) fn on_ack(&mut self, ack: &Ack, window: u64, mtu: u16) -> Option<Round> {
        let sums = &mut self.sums;
        sums.acks += 1;
        sums.packets += ack.packets;
        sums.acked = sums.acked.saturating_add(ack.bytes);
        sums.in_flight = sums.in_flight.max(ack.in_flight);
        sums.unused = sums.unused.min(window.saturating_sub(ack.in_flight));
        sums.app_limited &= ack.app_limited;
        // There is no sample if an earlier ACK had a newer packet: this one cannot begin a round.
        // Nor is there one if the ACK is late: the round ends with the next.
        let sample = SizedRtt::of_ack(ack, mtu)?;
        let rtt = sample.rtt();
        let least = sample.least(sums.rtt_min);
        sums.rtt_min = Some(least);
        if ack.sent < self.start {
            return None;
        }
        let as_many_packets_as_usual = ack.packets.saturating_mul(sums.acks) >= sums.packets;
        let as_large_as_others = sample.is_small() == least.is_small();
        let round = Round {
            now: ack.now,
            rtt_min: least.rtt(),
            small: least.is_small(),
            rtt_end: if as_many_packets_as_usual && as_large_as_others {
                rtt
            } else {
                least.rtt()
            },
            bytes: sums.acked,
            lost: sums.lost,
            in_flight: sums.in_flight,
            unused: sums.unused,
            app_limited: sums.app_limited,
            in_recovery: sums.in_recovery || ack.bytes_after_recovery == 0,
        };
        *self = Self::new(ack.now);
        Some(round)
    }

    /// Counts lost bytes.
    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.sums.lost = self.sums.lost.saturating_add(bytes);
    }

    /// A recovery period begins: the round lasts until a packet sent from now on is acknowledged.
    pub(super) fn on_recovery(&mut self, now: Instant) {
        self.start = now;
        self.sums.in_recovery = true;
    }
}

impl Sums {
    const ZERO: Self = Self {
        rtt_min: None,
        acks: 0,
        packets: 0,
        acked: 0,
        lost: 0,
        in_flight: 0,
        unused: u64::MAX,
        app_limited: true,
        in_recovery: false,
    };
}

#[cfg(test)]
mod tests;
