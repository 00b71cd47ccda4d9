//! An IP packet at a router: the views of IPv4, IPv6 and UDP, and a header stamped inside it.
#![no_main]

use evenkeel_fuzz::datagram::{Packet, Shape, in_packet, udp_checksum};
use evenkeel_wire::{
    Ipv4Repr, Ipv4View, Ipv6Repr, Ipv6View, PATH_HEADER_LEN, PathHeaderMut, UDP_HEADER_LEN,
    UdpRepr, UdpView,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(input) = Packet::read(input) else {
        return;
    };
    let Some(mut packet) = packet(&input) else {
        return;
    };
    let before = packet.clone();
    look(&packet);
    let was = udp_checksum(&packet);
    look_at_udp(&packet);
    let Ok(mut header) = PathHeaderMut::find(&mut packet) else {
        assert_eq!(packet, before, "a packet that is skipped stays as it is");
        return;
    };
    for operation in input.operations {
        operation.apply_checked(&mut header);
    }
    let (field, right) = was.expect("a header is found in UDP alone");
    look(&packet);
    let (new_field, still_right) = udp_checksum(&packet).expect("it is UDP still");
    assert_eq!(field == 0, new_field == 0);
    assert_eq!(right, still_right);
    // Only the checksum and the first half of the header may differ.
    let differing = || (0..packet.len()).filter(|at| packet[*at] != before[*at]);
    if let (Some(first), Some(last)) = (differing().min(), differing().max()) {
        assert!(last - first < UDP_HEADER_LEN + PATH_HEADER_LEN);
    }
});

/// `None` if no packet is as long.
fn packet(input: &Packet) -> Option<Vec<u8>> {
    let mut packet = match input.shape {
        Shape::Whole => input.bytes.clone(),
        Shape::OverIpv4 => in_packet(false, 64, (50_000, 443), &input.bytes)?,
        Shape::OverIpv6 => in_packet(true, 64, (50_000, 443), &input.bytes)?,
    };
    if let Some(last) = packet.len().checked_sub(1) {
        for (at, byte) in &input.damage {
            packet[usize::from(*at) % (last + 1)] = *byte;
        }
    }
    Some(packet)
}

/// Asks an IP packet everything there is to ask.
fn look(packet: &[u8]) {
    if let Ok(view) = Ipv4View::parse(packet) {
        assert!(view.header_len() + view.payload().len() == usize::from(view.total_len()));
        assert!(view.options().len() <= 40);
        view.checksum_holds();
        if let Ok(repr) = Ipv4Repr::parse(&view) {
            let header = repr.emit();
            // What the repr does not hold: the reserved flag, and a wrong checksum.
            assert_eq!(header[..6], packet[..6]);
            assert_eq!(header[12..], packet[12..20]);
        }
    }
    if let Ok(view) = Ipv6View::parse(packet) {
        assert_eq!(view.header_len() + view.payload().len(), view.total_len());
        if let Ok(repr) = Ipv6Repr::parse(&view) {
            assert_eq!(repr.emit()[..], packet[..40]);
        }
    }
}

/// The same bytes taken for a datagram.
fn look_at_udp(datagram: &[u8]) {
    if let Ok(view) = UdpView::parse(datagram) {
        assert!(view.is_whole());
        assert_eq!(
            usize::from(view.length()),
            UDP_HEADER_LEN + view.payload().len()
        );
        let ports = UdpRepr::parse(&view);
        assert_eq!(ports.source_port.to_be_bytes(), datagram[..2]);
    }
}
