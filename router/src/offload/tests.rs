use std::io::IoSlice;

use evenkeel_wire::{Ecn, Ipv4Repr, Ipv4View, Ipv6Repr};
use proptest::prelude::*;

use super::*;
use crate::device::Offloads;

const ALL: Offloads = Offloads {
    tcp: true,
    udp: true,
};

/// A packet of a flow, as a sender makes it.
#[derive(Debug, Clone)]
struct Spec {
    family: Family,
    transport: Transport,
    is_pending: bool,
    dont_fragment: bool,
    identification: u16,
    hops: u8,
    port: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

impl Spec {
    fn new(family: Family, transport: Transport, payload_len: usize) -> Self {
        Self {
            family,
            transport,
            is_pending: true,
            dont_fragment: true,
            identification: 7,
            hops: 64,
            port: 4433,
            sequence: 1000,
            flags: tcp::ACK,
            payload: (0..payload_len).map(|at| at as u8).collect(),
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    fn packet(&self) -> Outgoing {
        let mut transport = match self.transport {
            Transport::Udp => vec![0; UDP_HEADER_LEN],
            // With an option of twelve bytes, as timestamps are.
            Transport::Tcp => vec![1; 32],
        };
        let header_len = transport.len();
        transport[..2].copy_from_slice(&9u16.to_be_bytes());
        transport[2..4].copy_from_slice(&self.port.to_be_bytes());
        transport.extend_from_slice(&self.payload);
        let length = transport.len() as u16;
        match self.transport {
            Transport::Udp => write_word(&mut transport, UDP_LENGTH, length),
            Transport::Tcp => {
                transport[tcp::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
                transport[tcp::DATA_OFFSET] = ((header_len / 4) << 4) as u8;
                transport[tcp::FLAGS] = self.flags;
            }
        }
        let protocol = self.transport.protocol();
        let (mut bytes, addresses) = match self.family {
            Family::V4 => {
                let repr = Ipv4Repr {
                    source: [10, 0, 0, 1].into(),
                    destination: [10, 0, 2, 1].into(),
                    protocol,
                    ecn: Ecn::Ect0,
                    dscp: 0,
                    ttl: self.hops,
                    identification: self.identification,
                    dont_fragment: self.dont_fragment,
                    payload_len: length,
                };
                (repr.emit().to_vec(), ipv4::ADDRESSES)
            }
            Family::V6 => {
                let repr = Ipv6Repr {
                    source: "fd00::1".parse().unwrap(),
                    destination: "fd00:2::1".parse().unwrap(),
                    protocol,
                    ecn: Ecn::Ect0,
                    dscp: 0,
                    flow_label: 77,
                    hop_limit: self.hops,
                    payload_len: length,
                };
                (repr.emit().to_vec(), ipv6::ADDRESSES)
            }
        };
        let field = self.transport.checksum_at();
        let pseudo_header = Sum::default()
            .bytes(&bytes[addresses])
            .word(protocol.into())
            .word(length);
        write_word(&mut transport, field..field + 2, !pseudo_header.checksum());
        let start = bytes.len() as u16;
        bytes.extend_from_slice(&transport);
        let packet = Outgoing {
            bytes,
            checksum: Checksum::Pending {
                start,
                offset: field as u16,
            },
        };
        if self.is_pending {
            return packet;
        }
        Outgoing {
            bytes: complete(&packet),
            checksum: Checksum::Complete,
        }
    }
}

/// The packet on a wire.
fn complete(packet: &Outgoing) -> Vec<u8> {
    packet.checksum.completed(packet.bytes.clone())
}

/// What a device is given for packets that leave at once.
fn written(packets: &[Outgoing], offloads: Offloads) -> Vec<Vec<u8>> {
    let mut train = Train::new(offloads);
    let mut written = Vec::new();
    let mut flush = |train: &mut Train| {
        let write = |slices: &[IoSlice<'_>]| {
            written.push(slices.iter().flat_map(|slice| slice.to_vec()).collect());
            Ok(())
        };
        train.write(write).unwrap();
        train.drain().count()
    };
    for packet in packets {
        if !train.takes(packet) {
            flush(&mut train);
        }
        train.push(packet.clone());
    }
    flush(&mut train);
    written
}

/// What becomes of one piece that a device with offloads was given.
fn split(piece: &[u8]) -> Result<Vec<Outgoing>, Malformed> {
    let (header, packet) = piece.split_first_chunk().unwrap();
    let mut segments = Segments::new(OffloadHeader::parse(header), packet)?;
    let next = || {
        let mut bytes = Vec::new();
        let checksum = segments.next_into(&mut bytes)?;
        Some(Outgoing { bytes, checksum })
    };
    Ok(std::iter::from_fn(next).collect())
}

/// Blanks the identification of packets that must not be fragmented: it means nothing.
fn without_identification(mut packet: Vec<u8>) -> Vec<u8> {
    let is_atomic = packet[0] >> 4 == 4 && packet[6] & 0x40 != 0;
    if is_atomic {
        write_word(&mut packet, ipv4::IDENTIFICATION, 0);
        write_word(&mut packet, ipv4::CHECKSUM, 0);
    }
    packet
}

fn every_kind() -> impl Iterator<Item = (Family, Transport)> {
    [Transport::Udp, Transport::Tcp]
        .into_iter()
        .flat_map(|transport| Family::ALL.map(|family| (family, transport)))
}

/// Packets of one flow, one behind the other: three of 100 bytes and one of 40.
fn flow(family: Family, transport: Transport) -> Vec<Spec> {
    let spec = |index: u16| {
        let payload_len = if index == 3 { 40 } else { 100 };
        Spec::new(family, transport, payload_len).with(|spec| {
            spec.identification += index;
            spec.sequence += 100 * u32::from(index);
        })
    };
    (0..4).map(spec).collect()
}

fn packets(specs: &[Spec]) -> Vec<Outgoing> {
    specs.iter().map(Spec::packet).collect()
}

#[test]
fn packets_of_a_flow_that_leave_at_once_are_one_piece_and_become_the_same_packets_again() {
    for (family, transport) in every_kind() {
        for is_pending in [true, false] {
            let mut specs = flow(family, transport);
            specs
                .iter_mut()
                .for_each(|spec| spec.is_pending = is_pending);
            specs[3].flags |= tcp::PSH;
            let sent = packets(&specs);
            let pieces = written(&sent, ALL);
            assert_eq!(pieces.len(), 1, "{family:?} {transport:?} {is_pending}");
            let headers = sent[3].bytes.len() - 40;
            assert_eq!(pieces[0].len(), OffloadHeader::LEN + headers + 340);
            let again = split(&pieces[0]).unwrap();
            let again: Vec<_> = again.iter().map(complete).collect();
            let sent: Vec<_> = sent.iter().map(complete).collect();
            assert_eq!(again, sent);
        }
    }
}

#[test]
fn the_offload_header_of_a_superpacket_is_what_the_kernel_reads() {
    let sent = packets(&flow(Family::V4, Transport::Udp));
    let word = u16::to_ne_bytes;
    // Flags, kind; header length, segment size, start and offset of the checksum.
    let words = [word(28), word(100), word(20), word(6)].concat();
    let expected = [&[1, 5][..], &words].concat();
    assert_eq!(written(&sent, ALL)[0][..OffloadHeader::LEN], expected);
    let sent = packets(&flow(Family::V6, Transport::Tcp));
    let words = [word(72), word(100), word(40), word(16)].concat();
    let expected = [&[1, 4][..], &words].concat();
    assert_eq!(written(&sent, ALL)[0][..OffloadHeader::LEN], expected);
}

#[test]
fn a_packet_that_differs_in_anything_but_its_payload_travels_alone() {
    type Change = fn(&mut Spec);
    let changes: [(&str, Transport, Change); 9] = [
        ("longer", Transport::Udp, |spec| spec.payload.push(0)),
        ("port", Transport::Udp, |spec| spec.port += 1),
        ("hops", Transport::Udp, |spec| spec.hops -= 1),
        ("may be fragmented", Transport::Udp, |spec| {
            spec.dont_fragment = false;
        }),
        ("no payload", Transport::Udp, |spec| spec.payload.clear()),
        ("gap", Transport::Tcp, |spec| spec.sequence += 1),
        ("FIN", Transport::Tcp, |spec| spec.flags |= tcp::FIN),
        ("CWR", Transport::Tcp, |spec| spec.flags |= tcp::CWR),
        ("ECE", Transport::Tcp, |spec| spec.flags |= tcp::ECE),
    ];
    for (what, transport, change) in changes {
        let mut specs = flow(Family::V4, transport);
        change(&mut specs[1]);
        let sent = packets(&specs[..2]);
        assert_eq!(written(&sent, ALL).len(), 2, "{what}");
    }
    let mut specs = flow(Family::V4, Transport::Udp);
    specs.iter_mut().for_each(|spec| spec.dont_fragment = false);
    assert_eq!(written(&packets(&specs), ALL).len(), 1);
    specs[1].identification = 0;
    assert_eq!(
        written(&packets(&specs[..2]), ALL).len(),
        2,
        "identification"
    );
}

#[test]
fn a_damaged_packet_travels_alone_and_stays_damaged() {
    for (family, transport) in every_kind() {
        let mut specs = flow(family, transport);
        specs.iter_mut().for_each(|spec| spec.is_pending = false);
        for damaged in 0..3 {
            let mut sent = packets(&specs[..3]);
            *sent[damaged].bytes.last_mut().unwrap() ^= 1;
            let again: Vec<_> = written(&sent, ALL)
                .iter()
                .flat_map(|piece| split(piece).unwrap())
                .map(|packet| complete(&packet))
                .collect();
            let sent: Vec<_> = sent.into_iter().map(|packet| packet.bytes).collect();
            assert_eq!(again, sent);
        }
    }
}

#[test]
fn a_shorter_packet_or_psh_ends_a_train() {
    for (family, transport) in every_kind() {
        let mut specs = flow(family, transport);
        specs[1].payload.truncate(99);
        assert_eq!(written(&packets(&specs[..3]), ALL).len(), 2);
    }
    let mut specs = flow(Family::V4, Transport::Tcp);
    specs[1].flags |= tcp::PSH;
    assert_eq!(written(&packets(&specs), ALL).len(), 2);
}

#[test]
fn a_train_has_at_most_64_packets_and_65535_bytes() {
    let spec = |payload_len| Spec::new(Family::V4, Transport::Udp, payload_len).packet();
    let pieces = |packet: Outgoing| written(&vec![packet; 130], ALL).len();
    assert_eq!((pieces(spec(10)), pieces(spec(1200))), (3, 3));
    // 28 bytes of headers, and 45 times 1455 bytes are one too many.
    assert_eq!(written(&vec![spec(1456); 45], ALL).len(), 2);
    assert_eq!(written(&vec![spec(1455); 45], ALL).len(), 1);
}

#[test]
fn a_device_gets_no_superpackets_that_it_cannot_take() {
    let without_udp = Offloads {
        tcp: true,
        udp: false,
    };
    let udp = packets(&flow(Family::V4, Transport::Udp));
    let tcp = packets(&flow(Family::V4, Transport::Tcp));
    assert_eq!(written(&udp, without_udp).len(), 4);
    assert_eq!(written(&tcp, without_udp).len(), 1);
    let plain = written(&udp, Offloads::default());
    let sent: Vec<_> = udp.into_iter().map(|packet| packet.bytes).collect();
    assert_eq!(plain, sent, "without offload headers");
}

#[test]
fn of_the_flags_of_tcp_the_first_segment_keeps_cwr_and_the_last_fin_and_psh() {
    let flags = tcp::ACK | tcp::FIN | tcp::PSH | tcp::CWR;
    let whole = Spec::new(Family::V6, Transport::Tcp, 250).with(|spec| spec.flags = flags);
    let word = u16::to_ne_bytes;
    let words = [word(0), word(100), word(40), word(16)].concat();
    // Kind TCP over IPv6, with CWR.
    let piece = [&[1, 0x84][..], &words, &whole.packet().bytes].concat();
    let segments = split(&piece).unwrap();
    let expected = [
        (100, tcp::ACK | tcp::CWR, 1000u32),
        (100, tcp::ACK, 1100),
        (50, tcp::ACK | tcp::FIN | tcp::PSH, 1200),
    ];
    assert_eq!(segments.len(), expected.len());
    for (segment, (payload_len, flags, sequence)) in segments.iter().zip(expected) {
        let bytes = complete(segment);
        assert_eq!(bytes.len(), 72 + payload_len);
        assert_eq!(bytes[40 + tcp::FLAGS], flags);
        assert_eq!(bytes[44..48], sequence.to_be_bytes());
        let layout = Layout::of(&bytes).unwrap();
        let sum = layout.pseudo_header(&bytes, bytes.len() - 40);
        assert_eq!(sum.bytes(&bytes[40..]).checksum(), 0);
    }
}

#[test]
fn segments_that_were_verified_before_get_new_checksums() {
    let whole = Spec::new(Family::V4, Transport::Udp, 250).with(|spec| spec.is_pending = false);
    let word = u16::to_ne_bytes;
    let words = [word(28), word(100), word(0), word(0)].concat();
    // "Data valid", as a guest's packets have it.
    let piece = [&[2, 5][..], &words, &whole.packet().bytes].concat();
    for segment in split(&piece).unwrap() {
        let bytes = complete(&segment);
        let view = Ipv4View::parse(&bytes).unwrap();
        let pseudo = evenkeel_wire::PseudoHeader::V4 {
            source: view.source(),
            destination: view.destination(),
        };
        assert!(view.checksum_holds());
        assert!(view.udp().unwrap().unwrap().checksum_holds(&pseudo));
    }
}

#[test]
fn superpackets_that_contradict_their_header_are_refused() {
    let packet = Spec::new(Family::V4, Transport::Udp, 250).packet().bytes;
    let word = u16::to_ne_bytes;
    let refused = [
        ("UDP as TCP", 1, [28, 100, 20, 16]),
        ("IPv4 as IPv6", 4, [28, 100, 20, 16]),
        ("segments of nothing", 5, [28, 0, 20, 6]),
        ("a header elsewhere", 5, [28, 100, 24, 6]),
        ("a checksum beyond the end", 5, [28, 100, 277, 0]),
        (
            "fragments of UDP, which nobody asked for",
            3,
            [28, 100, 20, 6],
        ),
    ];
    for (what, kind, words) in refused {
        let piece = [&[1, kind][..], &words.map(word).concat(), &packet].concat();
        assert_eq!(split(&piece), Err(Malformed), "{what}");
    }
}

#[test]
fn a_superpacket_that_stands_for_thousands_of_packets_is_refused() {
    let word = u16::to_ne_bytes;
    for (transport, kind, header_len, field) in
        [(Transport::Tcp, 1, 40, 16), (Transport::Udp, 5, 28, 6)]
    {
        let packet = Spec::new(Family::V4, transport, 60_000).packet().bytes;
        let split = |segment_len: u16| {
            let words = [header_len, segment_len, 20, field].map(word).concat();
            split(&[&[1, kind][..], &words, &packet].concat())
        };
        assert_eq!(split(1), Err(Malformed));
        assert_eq!(split(117), Err(Malformed), "513 packets");
        assert_eq!(split(118).map(|packets| packets.len()), Ok(509));
    }
}

/// What may happen to the packets of a flow on the way here.
fn arbitrary_flow() -> impl Strategy<Value = Vec<Outgoing>> {
    let family = prop::sample::select(&Family::ALL[..]);
    let transport = prop_oneof![Just(Transport::Udp), Just(Transport::Tcp)];
    let shape = (family, transport, any::<bool>(), any::<bool>(), 1usize..300);
    let odd = prop_oneof![
        12 => Just(0u8),
        1 => 1u8..10,
    ];
    (shape, prop::collection::vec((odd, any::<u8>()), 1..100)).prop_map(|(shape, oddities)| {
        let (family, transport, is_pending, dont_fragment, payload_len) = shape;
        let mut sequence = 0u32.wrapping_sub(500);
        let mut identification = 0u16.wrapping_sub(5);
        let packet = |(odd, value): (u8, u8)| {
            let mut spec = Spec::new(family, transport, payload_len);
            spec.is_pending = is_pending != (odd == 1);
            spec.dont_fragment = dont_fragment != (odd == 2);
            match odd {
                3 => spec.payload.truncate(1 + usize::from(value) % payload_len),
                4 => spec.payload.clear(),
                5 => spec.flags = value,
                6 => spec.hops = value,
                7 => sequence = sequence.wrapping_add(value.into()),
                8 => spec.port = value.into(),
                _ => spec.payload[0] = value,
            }
            spec.sequence = sequence;
            spec.identification = identification;
            sequence = sequence.wrapping_add(spec.payload.len() as u32);
            identification = identification.wrapping_add(1);
            let mut packet = spec.packet();
            if odd == 9 {
                let at = usize::from(value) % packet.bytes.len();
                packet.bytes[at] ^= 1 << (value % 8);
            }
            packet
        };
        oddities.into_iter().map(packet).collect()
    })
}

proptest! {
    #[test]
    fn whatever_is_put_together_comes_apart_again_in_order_and_unchanged(sent in arbitrary_flow()) {
        let pieces = written(&sent, ALL);
        let again = pieces.iter().map(|piece| split(piece).expect("our own"));
        let bare = |packet: &Outgoing| without_identification(complete(packet));
        let again: Vec<_> = again.flatten().map(|packet| bare(&packet)).collect();
        let sent: Vec<_> = sent.iter().map(bare).collect();
        prop_assert_eq!(again, sent);
    }

    #[test]
    fn no_bytes_from_a_device_cause_a_panic(
        header in any::<[u8; OffloadHeader::LEN]>(),
        junk in prop::collection::vec(any::<u8>(), 0..200),
        sent in arbitrary_flow(),
    ) {
        for packet in [&junk, &sent[0].bytes] {
            let piece = [&header[..], packet].concat();
            if let Ok(segments) = split(&piece) {
                let _ = written(&segments, ALL);
            }
        }
    }
}
