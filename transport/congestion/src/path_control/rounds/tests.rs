//! Tests of `rounds.rs`.

use super::*;
use crate::testing::{epoch, ms};

const PACKET: u64 = 1200;

/// An ACK at `now` for `packets` packets, the newest sent at `sent`: milliseconds from `t0`.
fn ack(t0: Instant, now: u64, sent: u64, packets: u64) -> Ack {
    Ack {
        newest_bytes: PACKET,
        packets,
        in_flight: 10 * PACKET,
        ..Ack::new(t0 + ms(now), t0 + ms(sent), packets * PACKET)
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
    // The peer's timer held back the ACK of a single packet for 25 ms.
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
