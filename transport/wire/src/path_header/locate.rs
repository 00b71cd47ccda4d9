//! Where a path header is, if there is one: in a UDP payload, and in an IP packet.

use std::fmt;

use super::{PATH_HEADER_LEN, PATH_HEADER_MAGIC, PATH_HEADER_VERSION, PathHeaderView, field};
use crate::{IPV6_HEADER_LEN, Ipv4View, Ipv6View, UDP_HEADER_LEN, UdpView};

/// A header is counted in words of this many bytes.
const LENGTH_UNIT: usize = 4;

/// Magic, version, kind and length, rounded up to a word: no header is shorter.
const SHORTEST: usize = 8;

/// Why there is no header to read or to stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skipped {
    /// Not a path header: another protocol, other first bytes, or a malformed packet.
    Foreign,
    /// Magic, but the datagram ends before the header does, or the length is impossible.
    Truncated,
    /// A header of another version.
    Version,
    /// A header of this version and an unknown kind, or of a known one with another length.
    Kind,
    /// A header in a packet that routers leave alone: a fragment, IPv6 extension headers, UDP
    /// over IPv6 without a checksum, or bytes behind the datagram.
    Untouchable,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "no path header",
            Self::Truncated => "a path header cut off or of impossible length",
            Self::Version => "a path header of another version",
            Self::Kind => "a path header of an unknown kind",
            Self::Untouchable => "a path header in a packet that is left alone",
        })
    }
}

impl std::error::Error for Skipped {}

/// What stands in front of the QUIC packet in a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathHeaderPrefix<'a> {
    /// A header to be read.
    Known(PathHeaderView<'a>),
    /// A header of another version or kind: to be taken off, unread.
    Unknown,
}

/// Splits a UDP payload into its path header and what follows it, the QUIC packet. `None` if
/// there is no whole header: then all of it is the packet. At most one header is taken off.
pub fn split_path_header(payload: &[u8]) -> Option<(PathHeaderPrefix<'_>, &[u8])> {
    let prefix = match PathHeaderView::parse(payload) {
        Ok(view) => PathHeaderPrefix::Known(view),
        Err(Skipped::Version | Skipped::Kind) => PathHeaderPrefix::Unknown,
        Err(Skipped::Foreign | Skipped::Truncated | Skipped::Untouchable) => return None,
    };
    let len = stated_len(*payload.get(field::VERSION_KIND_LENGTH)?);
    Some((prefix, payload.get(len..)?))
}

/// Whether a UDP payload begins with a header of this version and a known kind.
///
/// Magic, the layout of the byte after it and the unit of the length are the same in all versions.
pub(super) fn check(payload: &[u8]) -> Result<(), Skipped> {
    if !payload.starts_with(&PATH_HEADER_MAGIC) {
        return Err(Skipped::Foreign);
    }
    let head = payload
        .get(field::VERSION_KIND_LENGTH)
        .copied()
        .ok_or(Skipped::Truncated)?;
    let len = stated_len(head);
    if len < SHORTEST || payload.len() < len {
        return Err(Skipped::Truncated);
    }
    if head >> 6 != PATH_HEADER_VERSION {
        return Err(Skipped::Version);
    }
    // A known kind of another length is another kind.
    if len != PATH_HEADER_LEN || !matches!(head >> 3 & 0b111, 1..=3) {
        return Err(Skipped::Kind);
    }
    Ok(())
}

/// Where in an IP packet the path header begins, if it is whole, of a known kind, and in a packet
/// in which it may be changed.
pub(super) fn find(packet: &[u8]) -> Result<usize, Skipped> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => find_in_ipv4(packet),
        Some(6) => find_in_ipv6(packet),
        _ => Err(Skipped::Foreign),
    }
}

pub(super) fn kind_number(header: &[u8; PATH_HEADER_LEN]) -> u8 {
    header[field::VERSION_KIND_LENGTH] >> 3 & 0b111
}

pub(super) fn version_kind_length(kind: u8) -> u8 {
    const LENGTH: u8 = (PATH_HEADER_LEN / LENGTH_UNIT - 1) as u8;
    PATH_HEADER_VERSION << 6 | kind << 3 | LENGTH
}

fn find_in_ipv4(packet: &[u8]) -> Result<usize, Skipped> {
    let view = Ipv4View::parse(packet).or(Err(Skipped::Foreign))?;
    let udp = view.udp().or(Err(Skipped::Foreign))?;
    let udp = udp.ok_or(Skipped::Foreign)?;
    check_in_udp(&udp, view.payload().len(), view.is_fragment())?;
    Ok(view.header_len() + UDP_HEADER_LEN)
}

fn find_in_ipv6(packet: &[u8]) -> Result<usize, Skipped> {
    let view = Ipv6View::parse(packet).or(Err(Skipped::Foreign))?;
    let udp = view.udp().or(Err(Skipped::Foreign))?;
    let udp = udp.ok_or(Skipped::Foreign)?;
    // An authentication header would cover what is changed; without a checksum (RFC 8200, section
    // 8.1) the receiver discards the datagram.
    let untouchable =
        view.is_fragment() || view.header_len() != IPV6_HEADER_LEN || udp.checksum() == 0;
    check_in_udp(&udp, view.payload().len(), untouchable)?;
    Ok(view.header_len() + UDP_HEADER_LEN)
}

fn check_in_udp(udp: &UdpView<'_>, ip_payload: usize, untouchable: bool) -> Result<(), Skipped> {
    check(udp.payload())?;
    // Bytes behind the datagram are UDP options (RFC 9868), whose rules are not ours.
    if untouchable || usize::from(udp.length()) != ip_payload {
        return Err(Skipped::Untouchable);
    }
    Ok(())
}

/// Bytes of the header by its own word: 4 to 32.
fn stated_len(version_kind_length: u8) -> usize {
    LENGTH_UNIT * (1 + usize::from(version_kind_length & 0b111))
}
