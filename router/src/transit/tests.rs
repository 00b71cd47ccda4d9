use std::path::Path;

use evenkeel_queue::{Discipline, DisciplineConfig, DropTail};
use evenkeel_wire::{
    CompactRate, CompactTime, Ecn, HeaderTimestamp, Ipv4Repr, Ipv4View, Ipv6Repr, PathHeaderKind,
    PathHeaderRepr, PathHeaderView, PseudoHeader, Signals, Sum, UdpRepr,
};
use proptest::prelude::*;

use super::*;
use crate::clock;
use crate::config::Config;
use crate::plumbing::Counts;
use crate::status::{LinkStatus, Meter};

fn spec(values: &str) -> LinkSpec {
    let text = format!(
        "name = \"r\"\n[[links]]\nname = \"l\"\ntun = \"ek-l\"\n{values}\nroutes = [{{ to = \"::/0\", dev = \"v\" }}]"
    );
    Config::parse(&text, "r.toml", Path::new("."))
        .unwrap()
        .links
        .remove(0)
}

fn transit(epoch: Instant, values: &str) -> Transit {
    Transit::new(epoch, &spec(values), 1, 0, [7; 16]).unwrap()
}

impl Transit {
    /// Takes a packet from a device without offloads.
    fn take(&mut self, now: Instant, packet: &[u8]) {
        self.arrive(now, now, OffloadHeader::PLAIN, packet);
    }

    /// Gives the next packet to one.
    fn give(&mut self, now: Instant) -> Option<Vec<u8>> {
        let Outgoing { bytes, checksum } = self.depart(now)?;
        assert_eq!(checksum, Checksum::Complete);
        Some(bytes)
    }
}

fn v4(ttl: u8, payload_len: u16) -> Vec<u8> {
    let repr = Ipv4Repr {
        source: [10, 0, 0, 1].into(),
        destination: [10, 0, 2, 1].into(),
        protocol: 17,
        ecn: Ecn::Ect0,
        dscp: 0,
        ttl,
        identification: 0,
        dont_fragment: true,
        payload_len,
    };
    let mut packet = repr.emit().to_vec();
    packet.resize(packet.len() + usize::from(payload_len), 0xaa);
    packet
}

fn v6(hop_limit: u8) -> Vec<u8> {
    let repr = Ipv6Repr {
        source: "fd00::1".parse().unwrap(),
        destination: "fd00:2::1".parse().unwrap(),
        protocol: 59,
        ecn: Ecn::NotEct,
        dscp: 0,
        flow_label: 0,
        hop_limit,
        payload_len: 0,
    };
    repr.emit().to_vec()
}

#[test]
fn a_packet_comes_out_at_its_instant_with_its_hop_back() {
    let epoch = clock::now();
    let mut transit = transit(epoch, "rate_bps = 8e6\ndelay_ms = 10");
    transit.take(epoch, &v4(63, 980));
    // 1000 bytes at a byte per microsecond, and 10 ms on the way.
    let due = epoch + Duration::from_millis(11);
    assert_eq!(transit.next_timeout(), Some(due));
    assert_eq!(transit.give(due - Duration::from_nanos(1)), None);
    assert_eq!(transit.give(due), Some(v4(64, 980)));
    assert_eq!(transit.next_timeout(), None);
    assert_eq!(transit.total().delivered, Amount::one(1000));
}

#[test]
fn a_packet_that_may_come_round_does_not_get_its_hop_back() {
    let epoch = clock::now();
    let mut transit = transit(epoch, "");
    transit.comes_round = true;
    transit.take(epoch, &v4(63, 980));
    assert_eq!(transit.give(epoch), Some(v4(63, 980)));
    transit.comes_round = false;
    transit.take(epoch, &v4(63, 980));
    assert_eq!(transit.give(epoch), Some(v4(64, 980)));
}

#[test]
fn another_link_in_its_place_gives_all_packets_in_their_order() {
    let epoch = clock::now();
    let ms = Duration::from_millis;
    let mut before = transit(epoch, "rate_bps = 800_000\ndelay_ms = 50");
    for length in 80..84 {
        before.take(epoch, &v4(64, length));
    }
    // Each takes a millisecond: two are on their way, one is being transmitted, one waits.
    let now = epoch + ms(1) * 5 / 2;
    let values = "rate_bps = 8_000_000\nqueue_packets = 1";
    let mut after = Transit::new(now, &spec(values), 1, 0, [7; 16]).unwrap();
    after.succeed(now, before);
    assert_eq!(after.give(now + ms(10)), None, "none overtakes");
    let mut lengths = Vec::new();
    while let Some(at) = after.next_timeout() {
        lengths.extend(after.give(at).map(|packet| packet.len() - 20));
    }
    assert_eq!(lengths, [80, 81, 82, 83]);
    assert_eq!(after.total().delivered.packets, 2);
    assert_eq!(after.link.stats(now).total().arrived.packets, 2);
}

#[test]
fn what_is_no_traffic_is_counted_apart() {
    let epoch = clock::now();
    let mut transit = transit(epoch, "");
    let mut multicast = v4(1, 0);
    multicast[16..20].copy_from_slice(&[224, 0, 0, 22]);
    transit.take(epoch, &multicast);
    transit.take(epoch, &[0; 60]);
    transit.take(epoch, &[]);
    assert_eq!(transit.give(epoch), None);
    let total = transit.total();
    assert_eq!(total.link_scope, Amount::one(20));
    assert_eq!(
        total.not_ip,
        Amount {
            packets: 2,
            bytes: 60
        }
    );
    assert_eq!(transit.link.stats(epoch).total().arrived, Amount::ZERO);
}

#[test]
fn a_full_ttl_is_counted_and_a_restart_begins_a_new_window() {
    let epoch = clock::now();
    let mut meter = Meter::new(spec(""));
    let mut transit = transit(epoch, "");
    transit.take(epoch, &v6(255));
    assert_eq!(transit.give(epoch), Some(v6(255)));
    assert_eq!(
        meter
            .status(&mut transit, Counts::default(), epoch)
            .window
            .full_ttl,
        1
    );
    meter.restart(&mut transit, Counts::default(), epoch);
    transit.take(epoch, &v6(254));
    assert_eq!(transit.give(epoch), Some(v6(255)));
    transit.refused(40);
    let LinkStatus { total, window, .. } = meter.status(&mut transit, Counts::default(), epoch);
    assert_eq!((total.full_ttl, window.full_ttl), (1, 0));
    assert_eq!((total.delivered.packets, window.delivered.packets), (2, 1));
    assert_eq!(window.refused, Amount::one(40));
}

/// A packet of 1000 bytes whose sender wrote a path header and a TTL of 64 into it.
fn headered() -> Vec<u8> {
    let header = PathHeaderRepr {
        kind: PathHeaderKind::Acp,
        rtt: CompactTime::from_duration(Duration::from_millis(50)),
        signals: Signals::initial(CompactRate::NO_LIMIT, Some(64)),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(7),
        echo: None,
        tag: [1, 2, 3, 4],
    };
    let mut payload = header.emit().to_vec();
    payload.resize(972, 0x55);
    let mut packet = v4(64, 980);
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 2, 1].into());
    let pseudo = PseudoHeader::V4 {
        source,
        destination,
    };
    let udp = UdpRepr {
        source_port: 4433,
        destination_port: 4433,
    };
    packet[20..28].copy_from_slice(&udp.emit(&pseudo, &payload));
    packet[28..].copy_from_slice(&payload);
    packet
}

/// What the kernel does to a packet that it forwards.
fn forward(packet: &mut [u8]) {
    let view = Ipv4View::parse(packet).unwrap();
    let mut repr = Ipv4Repr::parse(&view).unwrap();
    repr.ttl -= 1;
    packet[..20].copy_from_slice(&repr.emit());
}

/// Packets' way over a host with these stamps: into the device, and back to the kernel.
fn cross(packets: Vec<Vec<u8>>, stamps: &str) -> Vec<Vec<u8>> {
    let epoch = clock::now();
    let mut transit = transit(epoch, &format!("rate_bps = 8e6\nstamps = {stamps}"));
    for mut packet in packets {
        forward(&mut packet);
        transit.take(epoch, &packet);
    }
    std::iter::from_fn(|| transit.give(epoch + Duration::from_secs(1)))
        .map(|mut packet| {
            forward(&mut packet);
            packet
        })
        .collect()
}

#[test]
fn two_routers_that_stamp_leave_no_gap_and_a_host_between_that_does_not_leaves_one() {
    let sent = vec![headered(), headered()];
    let mut once = cross(sent, r#"["aqt", "acp", "flows"]"#);
    for packet in &once {
        let view = Ipv4View::parse(packet).unwrap();
        assert_eq!(view.ttl(), 63);
        assert!(view.checksum_holds());
        let pseudo = PseudoHeader::V4 {
            source: view.source(),
            destination: view.destination(),
        };
        assert!(view.udp().unwrap().unwrap().checksum_holds(&pseudo));
        let signals = PathHeaderView::find(packet).unwrap().signals();
        assert_eq!((signals.hop_limit, signals.flags.gap), (63, false));
        assert!(signals.flags.stamped && signals.flags.offered);
    }
    // The second waited for the first.
    let aqt = |packet: &[u8]| {
        let signals = PathHeaderView::find(packet).unwrap().signals();
        signals.queueing_time.duration().as_micros()
    };
    assert_eq!((aqt(&once[0]), aqt(&once[1])), (0, 1000));
    let gap = |packet: &[u8]| PathHeaderView::find(packet).unwrap().signals().flags.gap;
    let twice = cross(once.clone(), r#"["aqt"]"#);
    assert_eq!((aqt(&twice[1]), gap(&twice[1])), (2000, false));
    once.iter_mut().for_each(|packet| forward(packet));
    let after_another = cross(once, r#"["aqt"]"#);
    assert!(gap(&after_another[0]));
}

#[test]
fn the_stamps_of_a_packet_of_the_host_itself_say_the_ttl_that_it_leaves_with() {
    for (ttl, leaving) in [(64, 64), (254, 254), (255, 254)] {
        let epoch = clock::now();
        let mut transit = transit(epoch, r#"stamps = ["aqt"]"#);
        let mut packet = headered();
        packet[8] = ttl;
        transit.take(epoch, &packet);
        let mut departed = transit.give(epoch).unwrap();
        forward(&mut departed);
        let signals = PathHeaderView::find(&departed).unwrap().signals();
        assert_eq!((departed[8], signals.hop_limit), (leaving, leaving & 0x3f));
    }
}

#[test]
fn stamps_leave_a_pending_checksum_to_the_device_that_completes_it() {
    let epoch = clock::now();
    let mut transit = transit(epoch, r#"stamps = ["aqt", "flows"]"#);
    let mut packet = headered();
    // As a sender leaves it to its network card: the sum of the pseudo header.
    let length = (packet.len() - 20) as u16;
    let pseudo_header = Sum::default().bytes(&packet[12..20]).word(17).word(length);
    let pending = (!pseudo_header.checksum()).to_be_bytes();
    packet[26..28].copy_from_slice(&pending);
    let (start, offset) = (20u16, 6u16);
    let mut header = [0; OffloadHeader::LEN];
    header[0] = 1;
    header[6..8].copy_from_slice(&start.to_ne_bytes());
    header[8..].copy_from_slice(&offset.to_ne_bytes());
    transit.arrive(epoch, epoch, OffloadHeader::parse(&header), &packet);
    let Outgoing {
        mut bytes,
        checksum,
    } = transit.depart(epoch).unwrap();
    assert_eq!(checksum, Checksum::Pending { start, offset });
    assert!(
        PathHeaderView::find(&bytes)
            .unwrap()
            .signals()
            .flags
            .stamped
    );
    assert_eq!(bytes[26..28], pending);
    let completed = Sum::default().bytes(&bytes[20..]).checksum();
    bytes[26..28].copy_from_slice(&completed.to_be_bytes());
    let view = Ipv4View::parse(&bytes).unwrap();
    let pseudo = PseudoHeader::V4 {
        source: view.source(),
        destination: view.destination(),
    };
    assert!(view.udp().unwrap().unwrap().checksum_holds(&pseudo));
}

/// Marks everything.
#[derive(Debug, Clone)]
struct MarkAll;

impl Discipline for MarkAll {
    fn on_arrival(
        &mut self,
        _: Instant,
        _: &mut PacketMeta,
        _: &evenkeel_queue::PortView,
    ) -> evenkeel_queue::Verdict {
        evenkeel_queue::Verdict::Mark
    }
}

#[test]
fn a_mark_of_the_discipline_reaches_the_packet() {
    let epoch = clock::now();
    for (discipline, ecn) in [
        (Box::new(MarkAll) as Box<dyn DisciplineConfig>, Ecn::Ce),
        (Box::new(DropTail), Ecn::Ect0),
    ] {
        let mut transit = transit(epoch, "");
        let config = LinkConfig {
            discipline,
            ..LinkConfig::default()
        };
        transit.link = Link::new(epoch, config, Box::new(Pcg64::new(1, 0))).unwrap();
        transit.take(epoch, &v4(63, 10));
        let packet = transit.give(epoch).unwrap();
        let view = Ipv4View::parse(&packet).unwrap();
        assert_eq!((view.ecn(), view.ttl()), (ecn, 64));
        assert!(view.checksum_holds());
    }
}

proptest! {
    #[test]
    fn every_packet_and_byte_is_accounted_for_whatever_comes(
        packets in prop::collection::vec(
            (prop_oneof![
                (any::<u8>(), 0u16..1400).prop_map(|(ttl, length)| v4(ttl, length)),
                any::<u8>().prop_map(v6),
                prop::collection::vec(any::<u8>(), 0..100),
            ], 0u64..3000),
            0..100,
        ),
    ) {
        let epoch = clock::now();
        let mut transit = transit(epoch, "rate_bps = 4e6\nqueue_packets = 3\nloss = 0.2\ndelay_ms = 5\njitter_ms = 2");
        let (mut now, mut read, mut out) = (epoch, Amount::ZERO, Amount::ZERO);
        let account = |transit: &mut Transit, now, read: Amount, out: Amount| {
            let total = transit.total();
            let port = transit.link.stats(now).total();
            prop_assert_eq!(read, port.arrived + total.link_scope + total.not_ip);
            prop_assert_eq!(out, total.delivered);
            transit.link.check_conservation().unwrap();
            Ok((port, total))
        };
        for (packet, pause) in packets {
            now += Duration::from_micros(pause);
            read += Amount::one(packet.len() as u32);
            transit.take(now, &packet);
            while let Some(packet) = transit.give(now) {
                out += Amount::one(packet.len() as u32);
            }
            account(&mut transit, now, read, out)?;
        }
        while let Some(due) = transit.next_timeout() {
            now = due;
            while let Some(packet) = transit.give(now) {
                out += Amount::one(packet.len() as u32);
            }
        }
        let (port, total) = account(&mut transit, now, read, out)?;
        prop_assert_eq!(port.arrived, port.dropped.total() + total.lost + total.delivered);
    }
}
