//! Reads and writes the IP header fields that a router needs, in place.
//!
//! The views of `evenkeel-wire` are for endpoints: they check a whole packet. A router forwards
//! packets that it does not understand, so this module looks only at the fields it uses.

use std::ops::Range;

use evenkeel_wire::{
    Ecn, IPV4_HEADER_LEN, IPV6_HEADER_LEN, Ipv4View, Ipv6View, UDP_HEADER_LEN, update_checksum,
    update_udp_checksum,
};

use crate::family::Family;

/// Offsets in a header of IPv4 (RFC 791, section 3.1).
pub(crate) mod ipv4 {
    use std::ops::Range;

    pub(crate) const VERSION_LENGTH: usize = 0;
    pub(crate) const TOS: usize = 1;
    pub(crate) const TOTAL_LENGTH: Range<usize> = 2..4;
    pub(crate) const IDENTIFICATION: Range<usize> = 4..6;
    pub(crate) const FLAGS_OFFSET: Range<usize> = 6..8;
    pub(crate) const TTL: usize = 8;
    pub(crate) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: Range<usize> = 10..12;
    pub(crate) const ADDRESSES: Range<usize> = 12..20;
    pub(crate) const DESTINATION: Range<usize> = 16..20;

    /// Of the flags.
    pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
}

/// Offsets in a header of IPv6 (RFC 8200, section 3).
pub(crate) mod ipv6 {
    use std::ops::Range;

    /// The low half of the traffic class, then the flow label.
    pub(crate) const CLASS_FLOW: usize = 1;
    pub(crate) const PAYLOAD_LENGTH: Range<usize> = 4..6;
    pub(crate) const NEXT_HEADER: usize = 6;
    pub(crate) const HOP_LIMIT: usize = 7;
    pub(crate) const ADDRESSES: Range<usize> = 8..40;
    pub(crate) const SOURCE: usize = 8;
    pub(crate) const DESTINATION: usize = 24;
}

/// The offset of the checksum in a header of UDP (RFC 768).
const UDP_CHECKSUM: usize = 6;

/// How a router treats a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Forward it.
    Forward(Family),
    /// Drop it: multicast, broadcast and link-local traffic stays on its own link.
    LinkScope,
    /// Not an IP packet, or cut off within its fixed header.
    NotIp,
}

/// Classifies a packet; hostile bytes have a [`Kind`] too.
pub(crate) fn classify(packet: &[u8]) -> Kind {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= IPV4_HEADER_LEN => {
            let destination = &packet[ipv4::DESTINATION];
            // 224.0.0.0/4 (RFC 5771), and the limited broadcast (RFC 919, section 7).
            if destination[0] >> 4 == 0b1110 || destination == [255; 4] {
                Kind::LinkScope
            } else {
                Kind::Forward(Family::V4)
            }
        }
        Some(6) if packet.len() >= IPV6_HEADER_LEN => {
            // ff00::/8 and fe80::/10 (RFC 4291, section 2.4).
            let is_multicast = packet[ipv6::DESTINATION] == 0xff;
            let is_link_local = |at: usize| packet[at] == 0xfe && packet[at + 1] & 0xc0 == 0x80;
            if is_multicast || is_link_local(ipv6::SOURCE) || is_link_local(ipv6::DESTINATION) {
                Kind::LinkScope
            } else {
                Kind::Forward(Family::V6)
            }
        }
        _ => Kind::NotIp,
    }
}

/// Returns the ECN codepoint of a packet to forward.
pub(crate) fn ecn(family: Family, packet: &[u8]) -> Ecn {
    match family {
        Family::V4 => Ecn::from_bits(packet[ipv4::TOS]),
        Family::V6 => Ecn::from_bits(packet[ipv6::CLASS_FLOW] >> 4),
    }
}

/// Writes the ECN codepoint of a packet to forward; a header checksum stays as right as it was.
pub(crate) fn set_ecn(family: Family, packet: &mut [u8], ecn: Ecn) {
    match family {
        Family::V4 => {
            let tos = packet[ipv4::TOS] & !0b11 | ecn.bits();
            replace_ipv4(packet, ipv4::TOS, tos);
        }
        Family::V6 => {
            let octet = &mut packet[ipv6::CLASS_FLOW];
            *octet = *octet & !0b0011_0000 | ecn.bits() << 4;
        }
    }
}

/// Returns the time to live or hop limit that a packet will have on the next link. The router adds
/// the one that the kernel takes off when it forwards from the device, except at 255.
pub(crate) fn leaving_hops(family: Family, packet: &[u8]) -> u8 {
    packet[hops_at(family)].min(u8::MAX - 1)
}

/// Adds one to the time to live or hop limit of a packet to forward. Returns `false`, and changes
/// nothing, if it is 255 already.
#[must_use]
pub(crate) fn give_hop_back(family: Family, packet: &mut [u8]) -> bool {
    let at = hops_at(family);
    let Some(hops) = packet[at].checked_add(1) else {
        return false;
    };
    match family {
        Family::V4 => replace_ipv4(packet, at, hops),
        Family::V6 => packet[at] = hops,
    }
    true
}

/// Flips the bit of the UDP payload with this number, counted round and round. Updates the checksum
/// if it `is_complete`. Returns `false`, and changes nothing, if there is no such payload.
pub(crate) fn flip_payload_bit(
    family: Family,
    packet: &mut [u8],
    bit: u64,
    is_complete: bool,
) -> bool {
    let Some(udp) = udp_datagram(family, packet) else {
        return false;
    };
    let udp = &mut packet[udp];
    let Some(bit) = bit.checked_rem((udp.len() - UDP_HEADER_LEN) as u64 * 8) else {
        return false;
    };
    let at = UDP_HEADER_LEN + (bit / 8) as usize;
    // Checksums cover 16-bit words; behind an odd end there is a zero.
    let word = at & !1;
    let word_of = |udp: &[u8]| [udp[word], udp.get(word + 1).copied().unwrap_or(0)];
    let old = word_of(udp);
    udp[at] ^= 1 << (bit % 8);
    if is_complete {
        let new = word_of(udp);
        let checksum = u16::from_be_bytes([udp[UDP_CHECKSUM], udp[UDP_CHECKSUM + 1]]);
        let checksum = update_udp_checksum(checksum, &old, &new);
        udp[UDP_CHECKSUM..UDP_HEADER_LEN].copy_from_slice(&checksum.to_be_bytes());
    }
    true
}

/// Where in a packet its UDP datagram is, or as much of it as a first fragment has.
fn udp_datagram(family: Family, packet: &[u8]) -> Option<Range<usize>> {
    let (at, payload) = match family {
        Family::V4 => {
            let view = Ipv4View::parse(packet).ok()?;
            (view.header_len(), view.udp().ok()??.payload().len())
        }
        Family::V6 => {
            let view = Ipv6View::parse(packet).ok()?;
            (view.header_len(), view.udp().ok()??.payload().len())
        }
    };
    Some(at..at + UDP_HEADER_LEN + payload)
}

fn hops_at(family: Family) -> usize {
    match family {
        Family::V4 => ipv4::TTL,
        Family::V6 => ipv6::HOP_LIMIT,
    }
}

/// Replaces an octet of an IPv4 header and updates the checksum.
fn replace_ipv4(packet: &mut [u8], at: usize, octet: u8) {
    // Checksums cover 16-bit words.
    let word = at & !1;
    let old = [packet[word], packet[word + 1]];
    packet[at] = octet;
    let new = [packet[word], packet[word + 1]];
    let [high, low] = [
        packet[ipv4::CHECKSUM.start],
        packet[ipv4::CHECKSUM.start + 1],
    ];
    let checksum = update_checksum(u16::from_be_bytes([high, low]), &old, &new);
    packet[ipv4::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests;
