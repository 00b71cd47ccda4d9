//! Properties of the codec and of what routers do, for any bytes and values.

use std::time::Duration;

use proptest::array::{uniform4, uniform32};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::{
    Ecn, IPV6_HEADER_LEN, Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, PROTOCOL_UDP, UDP_HEADER_LEN,
    UdpRepr,
};

mod vectors;

/// What a router may do.
#[derive(Debug, Clone, Copy)]
enum Operation {
    AddQueueingTime(Duration),
    RecordTtl(u8),
    LimitRate(CompactRate),
    LimitWindowChange(WindowChange),
    MarkCongested,
    RaiseContention(CompactCount),
}

impl Operation {
    fn apply(self, header: &mut PathHeaderMut<'_>) {
        match self {
            Self::AddQueueingTime(waited) => header.add_queueing_time(waited),
            Self::RecordTtl(leaving) => header.record_ttl(leaving),
            Self::LimitRate(rate) => {
                header.limit_rate(rate);
            }
            Self::LimitWindowChange(change) => {
                header.limit_window_change(change);
            }
            Self::MarkCongested => header.mark_congested(),
            Self::RaiseContention(flows) => {
                header.raise_contention(flows);
            }
        }
    }

    /// The bits of the header in which this may write.
    fn writes(self, xcp: bool) -> [u8; PATH_HEADER_LEN] {
        let mut bits = [0; PATH_HEADER_LEN];
        match self {
            Self::AddQueueingTime(_) => {
                bits[5] = 0x80;
                bits[6..9].fill(0xff);
            }
            Self::RecordTtl(_) => {
                bits[5] = 0x40;
                bits[9] = 0x3f;
            }
            Self::LimitRate(_) | Self::LimitWindowChange(_) => {
                if xcp == matches!(self, Self::LimitWindowChange(_)) {
                    bits[5] = 0x10;
                    bits[10..12].fill(0xff);
                }
            }
            Self::MarkCongested => bits[5] = 0x20,
            Self::RaiseContention(_) => bits[12] = if xcp { 0 } else { 0xff },
        }
        bits
    }
}

fn any_operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (any::<u64>(), 0u32..64).prop_map(|(nanos, shift)| Operation::AddQueueingTime(
            Duration::from_nanos(nanos >> shift)
        )),
        any::<u8>().prop_map(Operation::RecordTtl),
        (any::<u64>(), 0u32..64).prop_map(|(rate, shift)| {
            Operation::LimitRate(CompactRate::from_bytes_per_second(rate >> shift))
        }),
        (any::<i64>(), 0u32..63).prop_map(|(change, shift)| {
            Operation::LimitWindowChange(WindowChange::from_256ths(change >> shift))
        }),
        Just(Operation::MarkCongested),
        (any::<u32>(), 0u32..32).prop_map(|(flows, shift)| Operation::RaiseContention(
            CompactCount::from_flows(flows >> shift)
        )),
    ]
}

/// Any bytes behind a right beginning.
fn any_header() -> impl Strategy<Value = [u8; PATH_HEADER_LEN]> {
    (uniform32(any::<u8>()), 1u8..4).prop_map(|(mut bytes, kind)| {
        bytes[..4].copy_from_slice(&PATH_HEADER_MAGIC);
        bytes[4] = layout::version_kind_length(kind);
        bytes
    })
}

fn any_flags() -> impl Strategy<Value = SignalFlags> {
    any::<u8>().prop_map(SignalFlags::from_bits)
}

fn any_kind() -> impl Strategy<Value = PathHeaderKind> {
    prop_oneof![
        Just(PathHeaderKind::Acp),
        Just(PathHeaderKind::Rcp),
        any::<u64>().prop_map(|bytes| PathHeaderKind::Xcp {
            window: CompactBytes::from_bytes(bytes)
        }),
    ]
}

fn any_time() -> impl Strategy<Value = CompactTime> {
    (any::<u64>(), 0u32..64).prop_map(|(micros, shift)| {
        CompactTime::from_duration(Duration::from_micros(micros >> shift))
    })
}

prop_compose! {
    fn any_signals()(
        (micros, hop_limit) in (0u64..1 << 25, 0u8..64),
        feedback in any::<[u8; 2]>(), flows: u32, flags in any_flags(),
    ) -> Signals {
        Signals {
            queueing_time: QueueingTime::from_duration(Duration::from_micros(micros)),
            feedback: Feedback(feedback),
            contention: CompactCount::from_flows(flows), flags, hop_limit,
        }
    }
}

prop_compose! {
    fn any_echo()(
        (micros, phase, flows) in any::<(u64, bool, u32)>(),
        (held, queueing_time) in (any_time(), any_time()),
        feedback in any::<[u8; 2]>(), flags in any_flags(),
    ) -> Echo {
        Echo {
            timestamp: HeaderTimestamp::from_micros(micros), phase, held, queueing_time,
            feedback: Feedback(feedback),
            contention: CompactCount::from_flows(flows), flags,
        }
    }
}

prop_compose! {
    fn any_repr()(
        kind in any_kind(), rtt in any_time(), mut signals in any_signals(),
        mut echo in prop::option::of(any_echo()),
        (phase, micros) in any::<(bool, u64)>(), tag in uniform4(any::<u8>()),
    ) -> PathHeaderRepr {
        if matches!(kind, PathHeaderKind::Xcp { .. }) {
            signals.contention = CompactCount::NONE;
            if let Some(echo) = &mut echo {
                echo.contention = CompactCount::NONE;
            }
        }
        PathHeaderRepr {
            kind, rtt, signals, phase, echo, tag, timestamp: HeaderTimestamp::from_micros(micros),
        }
    }
}

/// `payload` as a datagram between documentation addresses.
fn packet(payload: &[u8], over_ipv6: bool, summed: bool) -> Vec<u8> {
    let payload_len = u16::try_from(UDP_HEADER_LEN + payload.len()).unwrap();
    let udp = UdpRepr {
        source_port: 50_000,
        destination_port: 443,
    };
    let (mut bytes, pseudo) = if over_ipv6 {
        let header = Ipv6Repr {
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_len,
        };
        (header.emit().to_vec(), header.pseudo_header())
    } else {
        let header = Ipv4Repr {
            source: "192.0.2.1".parse().unwrap(),
            destination: "192.0.2.2".parse().unwrap(),
            protocol: PROTOCOL_UDP,
            ecn: Ecn::Ect0,
            dscp: 0,
            ttl: 64,
            identification: 0,
            dont_fragment: true,
            payload_len,
        };
        (header.emit().to_vec(), header.pseudo_header())
    };
    let mut head = udp.emit(&pseudo, payload);
    if !summed {
        head[6..].fill(0);
    }
    bytes.extend(head);
    bytes.extend(payload);
    bytes
}

/// The UDP checksum field and whether it is right, by a computation over the whole datagram.
fn udp_checksum(packet: &[u8]) -> (u16, bool) {
    if packet[0] >> 4 == 4 {
        let view = Ipv4View::parse(packet).unwrap();
        let udp = view.udp().unwrap().unwrap();
        (udp.checksum(), udp.checksum_holds(&view.pseudo_header()))
    } else {
        let view = Ipv6View::parse(packet).unwrap();
        let udp = view.udp().unwrap().unwrap();
        (udp.checksum(), udp.checksum_holds(&view.pseudo_header()))
    }
}

#[test]
fn the_magic_begins_with_a_byte_of_nobody() {
    // RFC 9443, section 3: 4 to 15 belong to no protocol; QUIC has 0x40 set (RFC 9000, 17.2).
    assert!((4..16).contains(&PATH_HEADER_MAGIC[0]));
}

#[test]
fn a_packet_of_1200_bytes_and_its_header_fit_an_ipv6_link_of_1280() {
    assert_eq!(
        IPV6_HEADER_LEN + UDP_HEADER_LEN + PATH_HEADER_LEN + 1200,
        1280
    );
}

#[test]
fn a_sender_without_a_hop_limit_admits_the_gap() {
    assert!(Signals::initial(CompactRate::NO_LIMIT, None).flags.gap);
    let known = Signals::initial(CompactRate::NO_LIMIT, Some(64));
    assert_eq!((known.flags.gap, known.hop_limit), (false, 0));
}

#[test]
fn a_path_on_which_every_hop_stamps_has_no_gap() {
    let mut bytes = sent(Some(64)).emit();
    let mut header = PathHeaderMut::parse(&mut bytes).unwrap();
    // The third host has two ports; the TTL comes below a multiple of 64 on the way.
    for leaving in [63, 62, 62, 61] {
        header.record_ttl(leaving);
    }
    assert!(!header.view().signals().flags.gap);
    header.record_ttl(59);
    assert!(header.view().signals().flags.gap);
}

#[test]
fn a_raised_ttl_is_a_gap() {
    let mut bytes = sent(Some(64)).emit();
    let mut header = PathHeaderMut::parse(&mut bytes).unwrap();
    header.record_ttl(255);
    assert!(
        !header.view().signals().flags.gap,
        "255 is one below 64 modulo 64"
    );
    header.record_ttl(0);
    assert!(header.view().signals().flags.gap);
}

#[test]
fn a_round_trip_is_the_time_passed_less_the_time_held() {
    let before = HeaderTimestamp::from_micros((1 << 24) - 1_000);
    let echo = echo_of(before, Duration::from_micros(5_000));
    let now = |micros| HeaderTimestamp::from_micros(micros);
    assert_eq!(
        echo.round_trip(now(9_000)),
        Some(Duration::from_micros(5_000))
    );
    assert_eq!(echo.round_trip(now(4_000)), Some(Duration::ZERO));
    assert_eq!(echo.round_trip(now(3_999)), None, "held longer than away");
    assert_eq!(
        echo.round_trip(now((1 << 24) - 1_001)),
        None,
        "sent in the future"
    );
}

#[test]
fn a_header_is_not_echoed_after_half_a_clock_period() {
    let bytes = sent(None).emit();
    let view = PathHeaderView::parse(&bytes).unwrap();
    assert!(Echo::of(&view).held_for(ECHO_LIFETIME).is_some());
    assert_eq!(
        Echo::of(&view).held_for(ECHO_LIFETIME + Duration::from_nanos(1)),
        None
    );
}

#[test]
fn a_header_prints_on_one_line() {
    let mut repr = sent(Some(64));
    repr.echo = Some(echo_of(
        HeaderTimestamp::from_micros(7),
        Duration::from_millis(25),
    ));
    let bytes = repr.emit();
    assert_eq!(
        PathHeaderView::parse(&bytes).unwrap().to_string(),
        "path header acp, rtt 20ms, aqt 0ns, feedback 999936 B/s, flows 0, flags [....], hop limit 0, \
         time 0, echo time 7 held 25ms aqt 0ns feedback no limit flows 0 flags [.G..], tag 00000000"
    );
}

fn sent(hop_limit: Option<u8>) -> PathHeaderRepr {
    PathHeaderRepr {
        kind: PathHeaderKind::Acp,
        rtt: CompactTime::from_duration(Duration::from_millis(20)),
        signals: Signals::initial(CompactRate::from_bytes_per_second(1_000_000), hop_limit),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(0),
        echo: None,
        tag: [0; 4],
    }
}

fn echo_of(timestamp: HeaderTimestamp, held: Duration) -> Echo {
    let repr = PathHeaderRepr {
        timestamp,
        signals: Signals::initial(CompactRate::NO_LIMIT, None),
        ..sent(None)
    };
    Echo::of(&PathHeaderView::parse(&repr.emit()).unwrap())
        .held_for(held)
        .unwrap()
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed_back(repr in any_repr()) {
        let bytes = repr.emit();
        let view = PathHeaderView::parse(&bytes).unwrap();
        prop_assert_eq!(PathHeaderRepr::parse(&view), repr);
        prop_assert_eq!(view.covered_by_tag(), repr.covered_by_tag());
        let mut template = PathHeaderTemplate::new(&PathHeaderRepr {
            timestamp: HeaderTimestamp::from_micros(7),
            tag: [1; 4],
            ..repr
        });
        let sealed = template.seal(repr.timestamp, |covered| {
            assert_eq!(*covered, repr.covered_by_tag());
            repr.tag
        });
        prop_assert_eq!(sealed, &repr.emit());
    }

    #[test]
    fn the_contentions_of_an_xcp_header_are_left_out(
        repr in any_repr(), window: u64, echo in any_echo(), flows in 1u32..100,
    ) {
        let contention = CompactCount::from_flows(flows);
        let kind = PathHeaderKind::Xcp { window: CompactBytes::from_bytes(window) };
        let signals = Signals { contention, ..repr.signals };
        let echo = Some(Echo { contention, ..echo });
        let bytes = PathHeaderRepr { kind, signals, echo, ..repr }.emit();
        let view = PathHeaderView::parse(&bytes).unwrap();
        prop_assert_eq!(view.kind(), kind);
        prop_assert_eq!(view.signals().contention, CompactCount::NONE);
        prop_assert_eq!(view.echo().unwrap().contention, CompactCount::NONE);
    }

    #[test]
    fn no_bytes_behind_the_magic_make_a_view_panic(
        bytes in vec(any::<u8>(), 0..80), with_magic in 0usize..6,
    ) {
        let mut bytes = bytes;
        let start = PATH_HEADER_MAGIC.len().min(with_magic);
        bytes.splice(0..0, PATH_HEADER_MAGIC[..start].iter().copied());
        if with_magic == 5 {
            bytes.insert(4, layout::version_kind_length(1));
        }
        match split_path_header(&bytes) {
            None => prop_assert!(PathHeaderView::parse(&bytes).is_err()),
            Some((prefix, rest)) => {
                prop_assert!(bytes.ends_with(rest));
                prop_assert!((8..=PATH_HEADER_LEN).contains(&(bytes.len() - rest.len())));
                if let PathHeaderPrefix::Known(view) = prefix {
                    prop_assert_eq!(bytes.len() - rest.len(), PATH_HEADER_LEN);
                    PathHeaderRepr::parse(&view).emit();
                    view.to_string();
                }
            }
        }
        if let Ok(mut header) = PathHeaderMut::parse(&mut bytes) {
            header.mark_congested();
        }
    }

    #[test]
    fn a_header_cut_off_anywhere_is_not_taken_off(header in any_header(), len in 0..PATH_HEADER_LEN) {
        let expected = if len < 4 { Skipped::Foreign } else { Skipped::Truncated };
        prop_assert_eq!(PathHeaderView::parse(&header[..len]), Err(expected));
        prop_assert_eq!(split_path_header(&header[..len]), None);
    }

    #[test]
    fn a_router_writes_in_its_own_fields_and_one_way(
        mut bytes in any_header(), operations in vec(any_operation(), 1..8),
    ) {
        for operation in operations {
            let before = bytes;
            let old = PathHeaderView::parse(&before).unwrap();
            operation.apply(&mut PathHeaderMut::parse(&mut bytes).unwrap());
            let new = PathHeaderView::parse(&bytes).unwrap();

            let xcp = matches!(old.kind(), PathHeaderKind::Xcp { .. });
            for (at, allowed) in operation.writes(xcp).into_iter().enumerate() {
                prop_assert_eq!((before[at] ^ bytes[at]) & !allowed, 0, "byte {}", at);
            }
            prop_assert_eq!(old.covered_by_tag(), new.covered_by_tag());
            let (old, new) = (old.signals(), new.signals());
            prop_assert!(new.queueing_time >= old.queueing_time);
            prop_assert!(new.contention >= old.contention);
            prop_assert_eq!(old.flags.bits() & !new.flags.bits(), 0, "a flag was taken back");
            if xcp {
                prop_assert!(new.feedback.window_change() <= old.feedback.window_change());
            } else {
                prop_assert!(new.feedback.rate() <= old.feedback.rate());
            }
            match operation {
                Operation::AddQueueingTime(_) => prop_assert!(new.flags.stamped),
                Operation::RecordTtl(leaving) => prop_assert_eq!(new.hop_limit, leaving & 63),
                Operation::LimitRate(rate) if !xcp => {
                    prop_assert!(new.flags.offered && new.feedback.rate() <= rate);
                }
                Operation::LimitWindowChange(change) if xcp => {
                    prop_assert!(new.flags.offered && new.feedback.window_change() <= change);
                }
                Operation::LimitRate(_) | Operation::LimitWindowChange(_) => {}
                Operation::MarkCongested => prop_assert!(new.flags.congested),
                Operation::RaiseContention(flows) => {
                    prop_assert!(xcp || new.contention >= flows);
                }
            }
        }
    }

    #[test]
    fn a_stamped_packet_has_the_checksum_of_a_full_computation(
        header in any_header(), operations in vec(any_operation(), 1..8),
        quic in vec(any::<u8>(), 0..60), over_ipv6: bool, summed: bool,
    ) {
        let summed = summed || over_ipv6;
        let mut bytes = packet(&[&header[..], &quic].concat(), over_ipv6, summed);
        let len = bytes.len();
        for operation in operations {
            operation.apply(&mut PathHeaderMut::find(&mut bytes).unwrap());
            let (checksum, holds) = udp_checksum(&bytes);
            prop_assert!(holds);
            prop_assert_eq!(checksum == 0, !summed);
        }
        prop_assert_eq!(bytes.len(), len);
        let view = PathHeaderView::find(&bytes).unwrap();
        let at = len - quic.len() - PATH_HEADER_LEN;
        // The same bytes come out where there is no packet around them, and nothing else changed.
        let whole = packet(&bytes[at..], over_ipv6, summed);
        prop_assert_eq!(view, PathHeaderView::parse(&whole[at..]).unwrap());
        if summed {
            prop_assert_eq!(&bytes, &whole);
        }
        prop_assert!(bytes.ends_with(&quic));
    }

    #[test]
    fn a_wrong_checksum_stays_wrong(header in any_header(), operation in any_operation(), flip in 1u16..) {
        let mut bytes = packet(&header, true, true);
        let at = IPV6_HEADER_LEN + 6;
        let checksum = u16::from_be_bytes([bytes[at], bytes[at + 1]]) ^ flip;
        prop_assume!(checksum != 0 && udp_checksum(&bytes).0 ^ checksum != 0xffff);
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        operation.apply(&mut PathHeaderMut::find(&mut bytes).unwrap());
        prop_assert!(!udp_checksum(&bytes).1);
    }

    #[test]
    fn a_damaged_packet_is_skipped_or_stamped_and_never_panics(
        header in any_header(), over_ipv6: bool,
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        len in any::<prop::sample::Index>(), operation in any_operation(),
    ) {
        let mut bytes = packet(&header, over_ipv6, true);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len().saturating_sub(len.index(8)));
        let before = bytes.clone();
        match PathHeaderMut::find(&mut bytes) {
            Ok(mut header) => operation.apply(&mut header),
            Err(_) => prop_assert_eq!(before, bytes),
        }
    }
}
