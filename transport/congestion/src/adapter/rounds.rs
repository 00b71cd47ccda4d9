//! Cuts a connection's acknowledgements into round trips.
//!
//! Rounds are told apart by sending times, not packet numbers: quinn names the largest packet
//! number acknowledged without the number space it belongs to. In virtual time an ACK and the
//! packets it releases share one instant, hence "at or after".

use std::time::{Duration, Instant};

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
    /// The sum of the RTT samples, and how many they are.
    rtts: (Duration, u32),
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

    /// Takes in an ACK that found a window of `window` bytes, with full-size packets of `mtu`
    /// bytes; returns the round it ends.
    pub(super) fn on_ack(&mut self, ack: &Ack, window: u64, mtu: u16) -> Option<Round> {
        let sums = &mut self.sums;
        sums.acks += 1;
        sums.packets += ack.packets;
        sums.acked = sums.acked.saturating_add(ack.bytes);
        sums.in_flight = sums.in_flight.max(ack.in_flight);
        sums.unused = sums.unused.min(window.saturating_sub(ack.in_flight));
        sums.app_limited &= ack.app_limited;
        // Without a sample the packet is older than one acknowledged before it, so that it
        // cannot be the first of a round.
        let sample = SizedRtt::of_ack(ack, mtu)?;
        let rtt = sample.rtt();
        let least = sample.least(sums.rtt_min);
        sums.rtt_min = Some(least);
        let (total, samples) = sums.rtts;
        sums.rtts = (total.saturating_add(rtt), samples.saturating_add(1));
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
            rtt_mean: sums.rtts.0 / sums.rtts.1,
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

    /// Counts bytes that were found lost.
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
        rtts: (Duration::ZERO, 0),
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
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const PACKET: u64 = 1200;

    /// An ACK at `now` of `packets` packets, the newest sent at `sent`; in milliseconds from `t0`.
    fn ack(t0: Instant, now: u64, sent: u64, packets: u64) -> Ack {
        Ack {
            now: t0 + ms(now),
            sent: t0 + ms(sent),
            rtt: Some(ms(now - sent)),
            newest_bytes: PACKET,
            packets,
            bytes: packets * PACKET,
            bytes_after_recovery: packets * PACKET,
            in_flight: 10 * PACKET,
            app_limited: false,
        }
    }

    #[test]
    fn a_round_ends_with_the_ack_of_a_packet_sent_since_it_began() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        let first = rounds
            .on_ack(&ack(t0, 40, 0, 2), 12_000, 1200)
            .expect("sent at the start");
        assert_eq!(
            (first.now, first.rtt_min, first.bytes),
            (t0 + ms(40), ms(40), 2400)
        );
        assert_eq!(
            rounds.on_ack(&ack(t0, 45, 5, 2), 12_000, 1200),
            None,
            "sent before 40"
        );
        assert_eq!(
            rounds.on_ack(&ack(t0, 79, 39, 2), 12_000, 1200),
            None,
            "sent before 40"
        );
        let second = rounds
            .on_ack(&ack(t0, 82, 40, 2), 12_000, 1200)
            .expect("sent at 40");
        assert_eq!(
            (second.rtt_min, second.rtt_end, second.bytes),
            (ms(40), ms(42), 7200)
        );
    }

    #[test]
    fn times_that_repeat_end_a_round_per_ack_and_nothing_worse() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        for _ in 0..5 {
            let round = rounds
                .on_ack(&ack(t0, 0, 0, 1), 12_000, 1200)
                .expect("sent at the start");
            assert_eq!((round.rtt_min, round.rtt_end), (ms(0), ms(0)));
        }
    }

    #[test]
    fn an_ack_of_fewer_packets_than_usual_is_not_taken_for_queueing() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        rounds
            .on_ack(&ack(t0, 40, 0, 2), 12_000, 1200)
            .expect("the first round");
        assert_eq!(rounds.on_ack(&ack(t0, 41, 1, 2), 12_000, 1200), None);
        // The peer's timer held a lone packet back by 25 ms.
        let round = rounds
            .on_ack(&ack(t0, 105, 40, 1), 12_000, 1200)
            .expect("sent at 40");
        assert_eq!((round.rtt_min, round.rtt_end), (ms(40), ms(40)));
    }

    #[test]
    fn a_small_packets_round_trip_counts_only_in_a_round_without_large_ones() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        let small = |ack| Ack {
            newest_bytes: 60,
            ..ack
        };
        let first = rounds
            .on_ack(&small(ack(t0, 40, 0, 1)), 12_000, 1200)
            .expect("the first round");
        assert_eq!((first.rtt_min, first.rtt_end), (ms(40), ms(40)));
        assert!(first.small);
        let early = small(ack(t0, 45, 5, 1));
        assert_eq!(rounds.on_ack(&early, 12_000, 1200), None);
        assert_eq!(rounds.on_ack(&ack(t0, 60, 8, 1), 12_000, 1200), None);
        let round = rounds
            .on_ack(&small(ack(t0, 85, 40, 1)), 12_000, 1200)
            .expect("sent at 40");
        assert_eq!((round.rtt_min, round.rtt_end), (ms(52), ms(52)));
        assert!(!round.small);
    }

    #[test]
    fn the_mean_counts_every_sample_of_the_round_once() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        let first = rounds
            .on_ack(&ack(t0, 40, 0, 2), 12_000, 1200)
            .expect("the first round");
        assert_eq!(first.rtt_mean, ms(40));
        assert_eq!(rounds.on_ack(&ack(t0, 51, 1, 2), 12_000, 1200), None);
        let reordered = Ack {
            rtt: None,
            ..ack(t0, 60, 0, 1)
        };
        assert_eq!(rounds.on_ack(&reordered, 12_000, 1200), None);
        // 50 and 58 ms, also of an ACK that was held back.
        let round = rounds
            .on_ack(&ack(t0, 98, 40, 1), 12_000, 1200)
            .expect("sent at 40");
        assert_eq!((round.rtt_min, round.rtt_mean), (ms(50), ms(54)));
    }

    #[test]
    fn a_peer_that_acknowledges_every_packet_is_believed() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        rounds
            .on_ack(&ack(t0, 40, 0, 1), 12_000, 1200)
            .expect("the first round");
        assert_eq!(rounds.on_ack(&ack(t0, 41, 1, 1), 12_000, 1200), None);
        let round = rounds
            .on_ack(&ack(t0, 90, 40, 1), 12_000, 1200)
            .expect("sent at 40");
        assert_eq!((round.rtt_min, round.rtt_end), (ms(40), ms(50)));
    }

    #[test]
    fn unused_is_what_no_ack_of_the_round_found_in_use() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        rounds
            .on_ack(&ack(t0, 40, 0, 2), 12_000, 1200)
            .expect("the first round");
        let idle = Ack {
            in_flight: 2 * PACKET,
            ..ack(t0, 50, 10, 2)
        };
        assert_eq!(rounds.on_ack(&idle, 12_000, 1200), None);
        let busy = Ack {
            in_flight: 7 * PACKET,
            ..ack(t0, 80, 40, 2)
        };
        let round = rounds.on_ack(&busy, 12_000, 1200).expect("sent at 40");
        assert_eq!((round.unused, round.in_flight), (3 * PACKET, 7 * PACKET));
        let over = Ack {
            in_flight: 11 * PACKET,
            ..ack(t0, 120, 80, 2)
        };
        assert_eq!(
            rounds
                .on_ack(&over, 12_000, 1200)
                .expect("sent at 80")
                .unused,
            0
        );
    }

    #[test]
    fn a_round_is_app_limited_only_if_all_of_it_was() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        let limited = |ack| Ack {
            app_limited: true,
            ..ack
        };
        assert!(
            rounds
                .on_ack(&limited(ack(t0, 40, 0, 2)), 0, 1200)
                .expect("a round")
                .app_limited
        );
        assert_eq!(rounds.on_ack(&ack(t0, 50, 10, 2), 0, 1200), None);
        assert!(
            !rounds
                .on_ack(&limited(ack(t0, 80, 40, 2)), 0, 1200)
                .expect("a round")
                .app_limited
        );
    }

    #[test]
    fn a_recovery_period_lengthens_the_round_it_begins_in() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        rounds
            .on_ack(&ack(t0, 40, 0, 2), 12_000, 1200)
            .expect("the first round");
        rounds.on_lost(1200);
        rounds.on_recovery(t0 + ms(60));
        assert_eq!(
            rounds.on_ack(&ack(t0, 90, 50, 2), 12_000, 1200),
            None,
            "sent before the loss was found"
        );
        let round = rounds
            .on_ack(&ack(t0, 100, 60, 2), 12_000, 1200)
            .expect("sent when the loss was found");
        assert!(round.in_recovery);
        assert_eq!((round.lost, round.bytes), (1200, 4800));
        assert!(
            !rounds
                .on_ack(&ack(t0, 140, 100, 2), 12_000, 1200)
                .expect("the next round")
                .in_recovery
        );
    }

    #[test]
    fn a_reordered_packet_counts_but_gives_no_sample() {
        let t0 = epoch();
        let mut rounds = Rounds::new(t0);
        rounds
            .on_ack(&ack(t0, 40, 0, 2), 12_000, 1200)
            .expect("the first round");
        let reordered = Ack {
            rtt: None,
            ..ack(t0, 50, 0, 1)
        };
        assert_eq!(rounds.on_ack(&reordered, 12_000, 1200), None);
        let round = rounds
            .on_ack(&ack(t0, 85, 40, 2), 12_000, 1200)
            .expect("sent at 40");
        assert_eq!((round.rtt_min, round.bytes), (ms(45), 3600));
    }
}
