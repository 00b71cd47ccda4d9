//! Places of a network and their addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use evenkeel_spec::document::{Located, whole};
use evenkeel_spec::quantity::Unit;
use evenkeel_wire::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, UDP_HEADER_LEN};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// fd00::/96: IPv6 addresses end in IPv4 addresses (RFC 4193 space).
const PREFIX_V6: u128 = 0xfd00 << 112;

/// 10.0.0.1: the address of the first node; the others follow (RFC 1918 space).
const FIRST_NODE: u32 = 0x0a00_0001;

/// Position of a node in a simulation's or scenario's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub usize);

/// Position of a one-way link in a simulation's or scenario's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkIndex(pub usize);

impl NodeIndex {
    /// The node's address, on every backend.
    ///
    /// # Panics
    /// Beyond 8 million nodes, which the scenario's bounds exclude.
    pub fn address(self, version: IpVersion) -> IpAddr {
        let index = u32::try_from(self.0).expect("scenarios are smaller than 10/9");
        version.address(FIRST_NODE + index)
    }

    /// The node with this address, though the scenario may have fewer.
    pub fn at(address: IpAddr) -> Option<Self> {
        let index = IpVersion::number(address)?.checked_sub(FIRST_NODE)?;
        Some(Self(index as usize))
    }
}

/// The version of IP that a flow or a source of cross traffic uses. Files write 4 or 6.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IpVersion {
    /// IPv4.
    #[default]
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// IP and UDP headers around every datagram, in bytes.
    pub const fn header_bytes(self) -> usize {
        UDP_HEADER_LEN
            + match self {
                Self::V4 => IPV4_HEADER_LEN,
                Self::V6 => IPV6_HEADER_LEN,
            }
    }

    /// The address with this number: of IPv4, or the one of IPv6 that ends in it.
    pub fn address(self, number: u32) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from(number).into(),
            Self::V6 => Ipv6Addr::from(PREFIX_V6 | u128::from(number)).into(),
        }
    }

    /// The number of an address of [`IpVersion::address`].
    fn number(address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => Some(u32::from(address)),
            IpAddr::V6(address) => u32::try_from(u128::from(address) ^ PREFIX_V6).ok(),
        }
    }

    /// Whether it is IPv4, the version that files need not write.
    pub fn is_v4(&self) -> bool {
        *self == Self::V4
    }
}

impl Serialize for IpVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u8(match self {
            Self::V4 => 4,
            Self::V6 => 6,
        })
    }
}

impl<'de> Deserialize<'de> for IpVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let version: Located<u64> = whole(deserializer, Unit::None, 4..=6)?;
        match version.value {
            4 => Ok(Self::V4),
            6 => Ok(Self::V6),
            other => Err(de::Error::custom(format!(
                "= {other} is no version of IP in use; write 4 or 6"
            ))),
        }
    }
}
