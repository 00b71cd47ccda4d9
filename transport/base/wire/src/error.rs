//! Names the reasons why bytes do not parse.

use std::fmt;

/// Why bytes cannot be read as the requested header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// There are fewer bytes than the header needs.
    Truncated,
    /// The IP version field names another version.
    Version,
    /// The IPv4 header length field is below five words.
    HeaderLength,
    /// A length field contradicts the header or exceeds the bytes given.
    Length,
    /// The chain of IPv6 extension headers reaches beyond the packet.
    ExtensionHeader,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "fewer bytes than the header needs",
            Self::Version => "another IP version",
            Self::HeaderLength => "an IPv4 header length below 20 bytes",
            Self::Length => "a length field that contradicts the packet",
            Self::ExtensionHeader => "an IPv6 extension header beyond the end of the packet",
        })
    }
}

impl std::error::Error for Malformed {}

/// A well-formed packet that the repr cannot hold: a fragment, or one with options or
/// extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotRepresentable;

impl fmt::Display for NotRepresentable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fragment, or a packet with options or extension headers")
    }
}

impl std::error::Error for NotRepresentable {}
