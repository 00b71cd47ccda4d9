//! Properties of stamping routers under random traffic: what may change in a packet, and how.

use evenkeel_wire::{
    CompactBytes, CompactCount, CompactRate, CompactTime, Echo, Feedback, HeaderTimestamp,
    PATH_HEADER_LEN, PathHeaderKind, PathHeaderRepr, PathHeaderView, QueueingTime, SignalFlags,
    Signals, WindowChange,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::testing::IpPacket;
use crate::stamp::*;
use crate::testing::epoch;
use crate::{Amount, DropTail, Limit, Port, PortConfig, Rate, Service};

/// What a sender may have written, sensible or not, and earlier routers after it.
fn any_header() -> impl Strategy<Value = PathHeaderRepr> {
    let kind = prop_oneof![
        3 => Just(PathHeaderKind::Acp),
        1 => Just(PathHeaderKind::Rcp),
        1 => any::<u64>().prop_map(|bytes| PathHeaderKind::Xcp { window: CompactBytes::from_bytes(bytes) }),
    ];
    let flags = any::<(bool, bool, bool, bool)>().prop_map(|(stamped, gap, congested, offered)| {
        SignalFlags {
            stamped,
            gap,
            congested,
            offered,
        }
    });
    let signals = (
        0u64..20_000_000,
        any::<u64>(),
        any::<i64>(),
        any::<u32>(),
        flags,
        0u8..64,
    );
    let times = (
        0u64..200_000_000,
        any::<u64>(),
        any::<bool>(),
        any::<[u8; 4]>(),
    );
    (kind, signals, times).prop_map(|(kind, signals, times)| {
        let (aqt_us, rate, change, flows, flags, hop_limit) = signals;
        let (rtt_us, timestamp, echoes, tag) = times;
        let feedback: Feedback = match kind {
            PathHeaderKind::Xcp { .. } => WindowChange::from_256ths(change).into(),
            _ => CompactRate::from_bytes_per_second(rate).into(),
        };
        let has_contention = !matches!(kind, PathHeaderKind::Xcp { .. });
        let contention = if has_contention {
            CompactCount::from_flows(flows)
        } else {
            CompactCount::NONE
        };
        PathHeaderRepr {
            kind,
            rtt: CompactTime::from_duration(Duration::from_micros(rtt_us)),
            signals: Signals {
                queueing_time: QueueingTime::from_duration(Duration::from_micros(aqt_us)),
                feedback,
                contention,
                flags,
                hop_limit,
            },
            phase: timestamp % 2 == 0,
            timestamp: HeaderTimestamp::from_micros(timestamp),
            echo: echoes.then(|| Echo {
                timestamp: HeaderTimestamp::from_micros(timestamp / 3),
                phase: timestamp % 3 == 0,
                held: CompactTime::from_duration(Duration::from_micros(rtt_us / 2)),
                queueing_time: CompactTime::from_duration(Duration::from_micros(aqt_us)),
                feedback,
                contention,
                flags,
            }),
            tag,
        }
    })
}

/// A packet with a header, one with none, or junk.
fn any_packet() -> impl Strategy<Value = IpPacket> {
    let ports = any::<(u16, u16)>();
    let headered = (any_header(), ports, 0usize..300, any::<bool>()).prop_map(
        |(header, ports, rest, over_ipv6)| {
            let mut payload = header.emit().to_vec();
            payload.resize(PATH_HEADER_LEN + rest, 0x55);
            if over_ipv6 {
                IpPacket::v6(ports, &payload)
            } else {
                IpPacket::v4(ports, &payload)
            }
        },
    );
    let plain = (ports, vec(any::<u8>(), 0..100))
        .prop_map(|(ports, payload)| IpPacket::v4(ports, &payload));
    let junk = vec(any::<u8>(), 0..100).prop_map(IpPacket);
    let damaged =
        (any_header(), any::<prop::sample::Index>(), 1u8..).prop_map(|(header, at, flip)| {
            let mut packet = IpPacket::v4((1, 2), &header.emit());
            let at = at.index(packet.0.len());
            packet.0[at] ^= flip;
            packet
        });
    prop_oneof![6 => headered, 1 => plain, 1 => junk, 1 => damaged]
}

/// A port with stamps, of a rate that makes packets of random traffic queue now and then.
fn port(now: Instant, specs: &[&str]) -> Port<IpPacket> {
    let config = PortConfig {
        service: Service::Rate(Rate::new(4_000_000).expect("not zero")),
        overhead_bytes: 0,
        watches_flows: false,
        limit: Limit::packets(20),
        discipline: Box::new(DropTail),
        stamps: stamp_set(specs).expect("right names"),
        flow_hash_key: [3; 16],
    };
    Port::new(now, config)
}

/// Checks the merge rules of docs/path-header.md, section 5, for one hop; `specs` is what it stamps.
fn check_merged(
    specs: &[&str],
    before: &PathHeaderView<'_>,
    after: &PathHeaderView<'_>,
    queued: Duration,
    leaving: u8,
) {
    assert_eq!(before.covered_by_tag(), after.covered_by_tag());
    assert_eq!(before.tag(), after.tag());
    let (old, new) = (before.signals(), after.signals());
    let does = |name| specs.iter().any(|spec| spec.starts_with(name));
    if does("aqt") {
        let total = old
            .queueing_time
            .saturating_add(QueueingTime::from_duration(queued));
        assert_eq!(new.queueing_time, total);
        assert!(new.flags.stamped);
        assert_eq!(new.hop_limit, leaving & 0x3f);
        let gap = old.hop_limit.wrapping_sub(leaving) & 0x3f > 1;
        assert_eq!(new.flags.gap, old.flags.gap || gap);
    } else {
        assert_eq!(new.queueing_time, old.queueing_time);
        assert_eq!(new.hop_limit, old.hop_limit);
        assert_eq!(
            (new.flags.stamped, new.flags.gap),
            (old.flags.stamped, old.flags.gap)
        );
    }
    if does("xcp") && matches!(before.kind(), PathHeaderKind::Xcp { .. }) {
        assert!(new.feedback.window_change() <= old.feedback.window_change());
        assert!(new.flags.offered);
    } else if does("acp") && before.kind() == PathHeaderKind::Acp
        || does("rcp") && before.kind() == PathHeaderKind::Rcp
    {
        assert!(new.feedback.rate() <= old.feedback.rate());
        assert!(new.flags.offered);
    } else {
        assert_eq!(new.feedback, old.feedback);
        assert_eq!(new.flags.offered, old.flags.offered);
    }
    assert!(new.flags.congested >= old.flags.congested);
    assert!(new.contention >= old.contention);
    if !does("flows") {
        assert_eq!(new.contention, old.contention);
    }
}

fn any_specs() -> impl Strategy<Value = Vec<&'static str>> {
    prop::sample::subsequence(
        vec!["aqt", "acp", "xcp", "rcp", "flows:period_ms=10"],
        0..=5,
    )
}

proptest! {
    #[test]
    fn two_routers_in_a_row_write_their_fields_by_their_rules_and_nothing_else(
        packets in vec((any_packet(), 0u64..3000), 1..60),
        hops in prop::array::uniform2(any_specs()),
    ) {
        let start = epoch();
        let mut traffic = Vec::new();
        let mut now = start;
        for (packet, gap) in packets {
            now += Duration::from_micros(gap);
            traffic.push((now, packet));
        }
        for specs in &hops {
            let mut port = port(start, specs);
            let mut out = Vec::new();
            let mut admitted = std::collections::VecDeque::new();
            let mut arrived = Amount::ZERO;
            for (at, packet) in traffic {
                let queued = packet.clone().queued();
                arrived += Amount::one(queued.meta.bytes);
                if !matches!(port.enqueue(at, queued), crate::Verdict::Drop(_)) {
                    admitted.push_back(packet);
                }
            }
            let end = now + Duration::from_secs(60);
            while let Some((at, packet)) = port.dequeue(end) {
                let before = admitted.pop_front().unwrap();
                let after = packet.payload;
                prop_assert_eq!(before.0.len(), after.0.len());
                match (PathHeaderView::find(&before.0), PathHeaderView::find(&after.0)) {
                    (Ok(old), Ok(new)) => {
                        check_merged(specs, &old, &new, packet.meta.queued, before.ttl().wrapping_sub(1));
                        prop_assert_eq!(before.udp_checksum_holds(), after.udp_checksum_holds());
                        // Outside of UDP checksum and header nothing changes at all.
                        let payload = if before.0[0] >> 4 == 4 { usize::from(before.0[0] & 15) * 4 + 8 } else { 48 };
                        prop_assert_eq!(&before.0[..payload - 2], &after.0[..payload - 2]);
                        prop_assert_eq!(&before.0[payload + PATH_HEADER_LEN..], &after.0[payload + PATH_HEADER_LEN..]);
                    }
                    _ => prop_assert_eq!(&before, &after),
                }
                let mut after = after;
                if after.ttl() > 0 {
                    after.take_hop();
                }
                out.push((at, after));
            }
            prop_assert!(admitted.is_empty());
            port.check_conservation().unwrap();
            let total = port.stats(end).total();
            prop_assert_eq!(total.arrived, arrived);
            let headers = total.headers;
            if specs.is_empty() {
                prop_assert_eq!(headers, HeaderCounts::default());
            } else {
                prop_assert_eq!(headers.recognised + headers.foreign + headers.refused(), arrived.packets);
                prop_assert!(headers.stamped <= headers.recognised);
            }
            traffic = out;
        }
    }

    #[test]
    fn no_bytes_make_a_flow_key_panic(packet in vec(any::<u8>(), 0..100), first in prop::sample::select(vec![0x45u8, 0x4f, 0x60])) {
        let mut packet = packet;
        if let Some(byte) = packet.first_mut() {
            *byte = first;
        }
        if let Some(flow) = FlowKey::of_ip_packet(&packet) {
            prop_assert!(flow.as_bytes().len() <= 37);
        }
    }
}
