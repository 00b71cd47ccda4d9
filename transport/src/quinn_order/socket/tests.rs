//! Taking headers off buffers that hold several datagrams.

use std::time::{Duration, Instant};

use evenkeel_headers::{MOST_TRIED, work};
use evenkeel_tests::time::{epoch, ms};
use evenkeel_wire::PATH_HEADER_LEN;
use proptest::prelude::*;

use super::*;
use crate::fuzzing::{Arrival, HeaderConnection, HeaderSocket};

const HEADER: [u8; PATH_HEADER_LEN] = {
    let mut header = [0; PATH_HEADER_LEN];
    let magic = evenkeel_wire::PATH_HEADER_MAGIC;
    (header[0], header[1], header[2], header[3]) = (magic[0], magic[1], magic[2], magic[3]);
    // Version 1, kind ACP, 32 bytes.
    header[4] = 0x4f;
    header
};

/// What quinn sees of `buffers`, each with the stride of its datagrams.
fn received(buffers: Vec<(Vec<u8>, usize)>) -> Vec<Vec<u8>> {
    let from = SocketAddr::from(([127, 0, 0, 1], 9));
    let arrival = |(bytes, stride)| Arrival {
        from,
        bytes,
        stride,
    };
    let given = HeaderSocket::new(1, epoch()).receive(buffers.into_iter().map(arrival).collect());
    given.into_iter().map(|(_, datagram)| datagram).collect()
}

fn headed(packet: &[u8]) -> Vec<u8> {
    [&HEADER, packet].concat()
}

#[test]
fn every_datagram_of_a_batch_loses_its_header() {
    let packets: Vec<Vec<u8>> = (0..10).map(|i| vec![0x40 | i; 100]).collect();
    let mut bytes: Vec<u8> = packets.iter().flat_map(|packet| headed(packet)).collect();
    bytes.extend(headed(&[0x41; 7]));
    let seen = received(vec![(bytes, 132)]);
    assert_eq!(seen[..10], packets);
    assert_eq!(seen[10..], [vec![0x41; 7]]);
}

#[test]
fn one_header_is_taken_off_and_no_second_one() {
    let nested = headed(&headed(&[0x40; 50]));
    assert_eq!(
        received(vec![(nested.clone(), nested.len())]),
        [headed(&[0x40; 50])]
    );
}

#[test]
fn a_header_with_nothing_behind_it_is_no_datagram() {
    let seen = received(vec![(HEADER.to_vec(), 32), (vec![0x40; 9], 9)]);
    assert_eq!(seen, [vec![0x40; 9]]);
}

#[test]
fn a_stride_of_zero_ends() {
    assert_eq!(received(vec![(vec![0x40; 3], 0)]).concat(), [0x40; 3]);
}

/// An endpoint with as many connections to one address as are tried, and their far ends.
struct Proxied {
    now: Instant,
    near: HeaderSocket,
    far: HeaderSocket,
    connections: Vec<(HeaderConnection, HeaderConnection)>,
}

/// The headers that a forger sends at once.
const FLOOD: usize = 10_000;

impl Proxied {
    fn new() -> Self {
        let now = epoch();
        let (near, far) = (HeaderSocket::new(1, now), HeaderSocket::new(1, now));
        let connections = (0..MOST_TRIED as u8)
            .map(|nth| {
                let (sending, receiving) = ([nth; 16], [nth | 0x80; 16]);
                let ours = near.connect(sending, receiving);
                near.send(&ours, Self::peer(), &[vec![0x40; 40]]);
                (ours, far.connect(receiving, sending))
            })
            .collect();
        let now = now + ms(1000);
        near.set_time(now);
        far.set_time(now);
        Self {
            now,
            near,
            far,
            connections,
        }
    }

    fn peer() -> SocketAddr {
        SocketAddr::from(([192, 0, 2, 1], 9))
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.near.set_time(self.now);
        self.far.set_time(self.now);
    }

    /// A datagram with a header of the far end of `connection`.
    fn header(&self, connection: &HeaderConnection) -> Vec<u8> {
        let sent = self.far.send(connection, Self::peer(), &[vec![0x40; 40]]);
        let first = sent.into_iter().next().expect("something leaves");
        assert_eq!(first.len(), PATH_HEADER_LEN + 40, "it carries a header");
        first
    }

    /// The headers that the `nth` connection has accepted after one of its own came.
    fn accepted(&self, nth: usize) -> u64 {
        let (ours, theirs) = &self.connections[nth];
        let before = ours.path_headers().1.accepted;
        self.receive(&self.header(theirs));
        ours.path_headers().1.accepted - before
    }

    fn receive(&self, bytes: &[u8]) {
        self.near.receive(vec![Arrival {
            from: Self::peer(),
            bytes: bytes.to_vec(),
            stride: bytes.len(),
        }]);
    }

    /// Both phases of what somebody has made up who does not know the keys.
    fn forged(&self) -> [Vec<u8>; 2] {
        let header = self.header(&self.far.connect([0xee; 16], [0xef; 16]));
        let mut other = header.clone();
        other[9] ^= 0x80;
        [header, other]
    }
}

#[test]
fn a_forged_header_derives_no_keys() {
    let proxied = Proxied::new();
    let forged = proxied.forged();
    let before = (work::DERIVED.get(), work::TAGS.get());
    for header in &forged {
        proxied.receive(header);
    }
    assert_eq!(work::DERIVED.get(), before.0);
    let tags = work::TAGS.get() - before.1;
    let most = 3 * 2 * MOST_TRIED as u64;
    assert!((2 * MOST_TRIED as u64..=most).contains(&tags), "{tags}");
}

#[test]
fn a_flood_of_forged_headers_searches_the_connections_a_bounded_number_of_times() {
    let mut proxied = Proxied::new();
    let forged = proxied.forged();
    let before = work::TAGS.get();
    for header in forged.iter().cycle().take(FLOOD) {
        proxied.receive(header);
    }
    // Without a bound all 64 connections are tried on each.
    let tags = work::TAGS.get() - before;
    let searches = 4096 + MOST_TRIED;
    assert!(tags <= 3 * (FLOOD + searches) as u64, "{tags}");
    // The connection in use still gets its headers, and a moment later all others do.
    assert_eq!(proxied.accepted(MOST_TRIED - 1), 1);
    assert_eq!(proxied.accepted(0), 0);
    proxied.pass(ms(1000));
    assert_eq!(proxied.accepted(0), 1);
}

#[test]
fn connections_with_one_peer_find_their_headers_however_many_they_are() {
    let mut proxied = Proxied::new();
    for _ in 0..3 {
        for nth in 0..MOST_TRIED {
            assert_eq!(proxied.accepted(nth), 1);
        }
        proxied.pass(ms(1000));
    }
}

proptest! {
    #[test]
    fn any_mixture_arrives_whole_and_in_order(
        messages in prop::collection::vec(
            (1_usize..120, prop::collection::vec((any::<bool>(), 0x40_u8..=0xff), 1..6), 1_usize..=120),
            1..12,
        ),
    ) {
        let (mut buffers, mut expected) = (Vec::new(), Vec::new());
        for (size, datagrams, last) in messages {
            // All on the wire as long as the first, but for the last.
            let stride = size + PATH_HEADER_LEN;
            let mut bytes = Vec::new();
            let count = datagrams.len();
            for (nth, (with, fill)) in datagrams.into_iter().enumerate() {
                let on_wire = if nth + 1 == count { stride.min(last + PATH_HEADER_LEN) } else { stride };
                let packet = vec![fill; if with { on_wire - PATH_HEADER_LEN } else { on_wire }];
                bytes.extend(if with { headed(&packet) } else { packet.clone() });
                expected.push(packet);
            }
            buffers.push((bytes, stride));
        }
        prop_assert_eq!(received(buffers), expected);
    }

    #[test]
    fn no_bytes_cause_a_panic_or_grow(bytes in prop::collection::vec(any::<u8>(), 1..300), stride in 0_usize..300, ours: bool) {
        let mut bytes = bytes;
        if ours {
            for datagram in bytes.chunks_mut(stride.max(1)).filter(|datagram| datagram.len() > 5) {
                datagram[..4].copy_from_slice(&evenkeel_wire::PATH_HEADER_MAGIC);
            }
        }
        let len = bytes.len();
        prop_assert!(received(vec![(bytes, stride)]).concat().len() <= len);
    }
}
