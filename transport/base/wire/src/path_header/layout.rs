//! Locates the fields of a path header, and recognises one.

use std::fmt;
use std::time::Duration;

/// Length of the path header in this version, in bytes: what IPv6 at an MTU of 1280 leaves beside
/// QUIC's 1200 (1280 - 40 - 8 - 1200).
pub const PATH_HEADER_LEN: usize = 32;

/// The first four bytes of every path header. RFC 9443 gives the first byte to no protocol (4 to
/// 15), and no QUIC packet begins with it unless its fixed bit is greased (RFC 9287).
pub const PATH_HEADER_MAGIC: [u8; 4] = [0x0e, 0xd2, 0xb7, 0x4c];

/// The version of this layout.
pub const PATH_HEADER_VERSION: u8 = 1;

/// How long a received header may be echoed: half the period of a
/// [`HeaderTimestamp`](super::HeaderTimestamp). If the round trip takes no more than the other
/// half, the sender can identify the timestamp.
pub const ECHO_LIFETIME: Duration = Duration::from_micros(1 << 23);

pub(super) mod field {
    use std::ops::Range;

    pub(in crate::path_header) const MAGIC: Range<usize> = 0..4;
    pub(in crate::path_header) const VERSION_KIND_LENGTH: usize = 4;
    pub(in crate::path_header) const FLAGS: usize = 5;
    pub(in crate::path_header) const QUEUEING_TIME: Range<usize> = 6..9;
    pub(in crate::path_header) const PHASES_HOP_LIMIT: usize = 9;
    pub(in crate::path_header) const FEEDBACK: Range<usize> = 10..12;
    pub(in crate::path_header) const CONTENTION: usize = 12;
    pub(in crate::path_header) const ECHOED_CONTENTION: usize = 13;
    /// Only in kind XCP, in place of the two contentions.
    pub(in crate::path_header) const WINDOW: Range<usize> = 12..14;
    pub(in crate::path_header) const RTT: Range<usize> = 14..16;
    pub(in crate::path_header) const TIMESTAMP: Range<usize> = 16..19;
    pub(in crate::path_header) const ECHOED_TIMESTAMP: Range<usize> = 19..22;
    pub(in crate::path_header) const HELD: Range<usize> = 22..24;
    pub(in crate::path_header) const ECHOED_QUEUEING_TIME: Range<usize> = 24..26;
    pub(in crate::path_header) const ECHOED_FEEDBACK: Range<usize> = 26..28;
    pub(in crate::path_header) const TAG: Range<usize> = 28..32;
    /// The bytes that the tag covers, except for the bits that routers write.
    pub(in crate::path_header) const COVERED: Range<usize> = 0..28;
}

pub(super) mod flag {
    /// A router has stamped the queueing time.
    pub(in crate::path_header) const STAMPED: u8 = 0x80;
    /// A hop on the way has not stamped, or may not have.
    pub(in crate::path_header) const GAP: u8 = 0x40;
    /// H_congestion.
    pub(in crate::path_header) const CONGESTED: u8 = 0x20;
    /// A router has merged its feedback.
    pub(in crate::path_header) const OFFERED: u8 = 0x10;
    /// The same four, echoed in the low nibble.
    pub(in crate::path_header) const ECHO_SHIFT: u32 = 4;
}

pub(super) const PHASE: u8 = 0x80;
pub(super) const ECHOED_PHASE: u8 = 0x40;
/// Six bits of the TTL: a gap of 64 hops looks like none, but no path is that long.
pub(super) const HOP_LIMIT_MASK: u8 = 0x3f;
/// The time held in a header that echoes nothing.
pub(super) const NOTHING_ECHOED: [u8; 2] = [0xff, 0xff];

/// Bytes in a word, the unit of a header's length.
const LENGTH_UNIT: usize = 4;

/// Magic, version, kind and length, rounded up to a word: no header is shorter.
const SHORTEST: usize = 8;

/// Why there is no header to read or to stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Skipped {
    /// Not a path header: another protocol, other first bytes, or a malformed packet.
    Foreign,
    /// The magic matches, but the datagram ends before the header, or the length is impossible.
    Truncated,
    /// A header of another version.
    Version,
    /// A header of this version with an unknown kind, or a known kind with another length.
    Kind,
    /// A header in a packet that routers leave alone: a fragment, IPv6 extension headers, UDP over
    /// IPv6 without a checksum, or bytes after the datagram.
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

/// Checks that a UDP payload begins with a header of this version and a known kind.
///
/// All versions share the magic, the layout of the byte after it and the unit of the length.
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
    // A known kind with another length is another kind.
    if len != PATH_HEADER_LEN || !matches!(head >> 3 & 0b111, 1..=3) {
        return Err(Skipped::Kind);
    }
    Ok(())
}

pub(super) fn kind_number(header: &[u8; PATH_HEADER_LEN]) -> u8 {
    header[field::VERSION_KIND_LENGTH] >> 3 & 0b111
}

pub(super) fn version_kind_length(kind: u8) -> u8 {
    const LENGTH: u8 = (PATH_HEADER_LEN / LENGTH_UNIT - 1) as u8;
    PATH_HEADER_VERSION << 6 | kind << 3 | LENGTH
}

/// Returns the header's length by its own length field: 4 to 32 bytes.
pub(super) fn stated_len(version_kind_length: u8) -> usize {
    LENGTH_UNIT * (1 + usize::from(version_kind_length & 0b111))
}
