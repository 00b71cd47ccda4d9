//! Forged headers and routers that lie.

use std::time::Duration;

use evenkeel_noq::HeaderState;
use evenkeel_wire::{CompactRate, PATH_HEADER_MAGIC};

use super::ends::{Kind, Pair};
use super::support::stamped;

/// Length of a path header.
const HEADER: usize = 32;

#[test]
fn forged_headers_are_no_signals_and_do_not_stop_the_packets_behind_them() {
    for (client, server) in [(Kind::Noq, Kind::Quinn), (Kind::Quinn, Kind::Noq)] {
        let mut pair = Pair::new(client, server, "reno");
        // Every header arrives with a tag that is not its own.
        pair.client_socket.interfere(|datagram| {
            let mut forged = datagram.to_vec();
            if datagram.starts_with(&PATH_HEADER_MAGIC) {
                forged[HEADER - 1] ^= 1;
            }
            vec![forged]
        });
        pair.run(7.0);
        let [(state, _), (_, counters)] = pair.headers();
        assert_eq!((state, counters.accepted), (HeaderState::Plain, 0));
        assert!(counters.forged >= 6, "{counters:?}");
        assert!(pair.received() > 6_000_000, "{}", pair.received());
    }
}

#[test]
fn spoofed_datagrams_change_nothing() {
    let mut pair = Pair::new(Kind::Noq, Kind::Noq, "reno");
    pair.run(1.0);
    // With each datagram come garbage behind the magic, the same header with other fields, and an
    // older header again.
    let (mut count, mut old) = (0_u8, vec![0x40]);
    pair.client_socket.interfere(move |datagram| {
        count = count.wrapping_add(1);
        let mut garbage = datagram.to_vec();
        for (at, byte) in garbage.iter_mut().enumerate().skip(4) {
            *byte ^= count.wrapping_mul(at as u8) | 1;
        }
        let mut flipped = datagram.to_vec();
        if let Some(byte) = flipped.get_mut(16 + usize::from(count % 12)) {
            *byte ^= 1 << (count % 8);
        }
        let replayed = std::mem::replace(&mut old, datagram.to_vec());
        vec![garbage, flipped, datagram.to_vec(), replayed]
    });
    let [(_, sent_before), (_, before)] = pair.headers();
    pair.run(5.0);
    let [(state, sent), (_, after)] = pair.headers();
    assert_eq!(state, HeaderState::Confirmed);
    assert!(after.accepted - before.accepted <= sent.sent - sent_before.sent + 50);
    assert!(after.forged > before.forged + 500, "{after:?}");
    assert!(after.old > before.old + 100, "{after:?}");
    assert_eq!(sent.unusable_echoes, 0);
}

/// The largest window of a client that follows ACP while the routers claim a rate, and what a
/// second got through in the mean.
fn lied_to(client: Kind, bytes_per_second: u64) -> (u64, u64) {
    let mut pair = Pair::new(client, Kind::Quinn, "acp");
    pair.client_socket.interfere(move |datagram| {
        stamped(datagram, |header| {
            header.limit_rate(CompactRate::from_bytes_per_second(bytes_per_second));
        })
    });
    let mut largest = 0;
    for _ in 0..100 {
        pair.run(0.1);
        if pair.net.runtime().elapsed() > Duration::from_secs(1) {
            largest = largest.max(pair.ends()[0].window());
        }
    }
    (largest, pair.received() / 10)
}

#[test]
fn a_router_that_claims_a_thousandfold_rate_lifts_no_window_above_what_losses_allow() {
    // The link carries 1.25 MB/s for 40 ms, and queues 50 packets: 110 kB and what slow start adds.
    let [noq, quinn] = [Kind::Noq, Kind::Quinn].map(|client| lied_to(client, 1_250_000_000));
    println!("largest window and bytes per second: noq {noq:?}, quinn {quinn:?}");
    assert!(noq.0 < 300_000, "{noq:?}");
    assert!(noq.0 < quinn.0 + quinn.0 / 2, "{noq:?}, {quinn:?}");
    assert!(noq.1 > 800_000, "{noq:?}");
}

#[test]
fn a_router_that_claims_no_rate_at_all_does_not_stop_a_connection() {
    for client in [Kind::Noq, Kind::Quinn] {
        let (_, rate) = lied_to(client, 0);
        assert!((100..100_000).contains(&rate), "{client:?}: {rate}");
    }
}
