//! Address prefixes of routes.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::family::Family;

/// A block of addresses, such as `10.0.2.0/24` or `fd00:2::/64`; bits after its length are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    address: IpAddr,
    length: u8,
}

/// Why a text is not a prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// The text is neither an address nor an address, a slash and a length.
    #[error("{0:?} is no prefix; write ADDRESS/LENGTH, such as 10.0.2.0/24 or fd00:2::/64")]
    Syntax(String),
    /// The length exceeds the address.
    #[error("/{length} is longer than an address of {family}, which has {bits} bits", bits = .family.bits())]
    Length {
        /// The length as written.
        length: u8,
        /// The family of the address.
        family: Family,
    },
    /// Some bits after the length are set.
    #[error("{written} has bits behind its length; did you mean {meant}?")]
    HostBits {
        /// The prefix as written.
        written: String,
        /// The prefix without those bits.
        meant: Prefix,
    },
}

impl Prefix {
    /// Makes a prefix of the first `length` bits of an address.
    ///
    /// # Panics
    /// If `length` exceeds the bits of an address.
    pub fn of(address: IpAddr, length: u8) -> Self {
        let address = match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & mask).into()
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & mask).into()
            }
        };
        Self { address, length }
    }

    /// Returns the first address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Returns the number of fixed bits: 0 to 32 or 128.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Returns the family of the addresses.
    pub fn family(&self) -> Family {
        Family::of(self.address)
    }

    /// Returns true if an address lies in this block.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.family() == Family::of(address) && Self::of(address, self.length) == *self
    }

    /// Returns true if all of another block lies in this one.
    pub fn covers(&self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        // An error quotes little, whatever was written.
        let syntax = || PrefixError::Syntax(text.chars().take(50).collect());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| syntax())?;
        let family = Family::of(address);
        let length = match length {
            None => family.bits(),
            Some(length) => length.parse().map_err(|_| syntax())?,
        };
        if length > family.bits() {
            return Err(PrefixError::Length { length, family });
        }
        let prefix = Self::of(address, length);
        if prefix.address != address {
            return Err(PrefixError::HostBits {
                written: format!("{address}/{length}"),
                meant: prefix,
            });
        }
        Ok(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests;
