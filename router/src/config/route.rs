//! What is routed over a link, and which packets.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::Place;
use crate::prefix::Prefix;

/// The routing table that rules consult by default (RT_TABLE_MAIN, linux/rtnetlink.h).
pub(crate) const MAIN_TABLE: u32 = 254;

/// Priority of the rules by which packets go on from links: after the local table (0), before the
/// main one (32766). Those that lead into links follow.
pub(crate) const RULE_PRIORITY: u32 = 1000;

/// Destinations routed over a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteSpec {
    /// The destinations.
    pub to: Prefix,
    /// The next router.
    pub via: Via,
    /// The device by which packets leave.
    pub dev: String,
    /// Which packets to them.
    pub selector: Selector,
    /// How the kernel comes to the route.
    pub entry: Entry,
    /// Its line in the file.
    pub place: Place,
}

/// The next router of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Via {
    /// None: the destinations are on the device's own network.
    Direct,
    /// This one.
    Router(IpAddr),
    /// The gateway of the device's default route, whichever it is at the moment.
    Default,
}

/// Which packets take a link; all that have the destination, if nothing is said.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selector {
    /// Those with this firewall mark.
    pub mark: Option<Mark>,
    /// Those from these addresses.
    pub from: Option<Prefix>,
    /// Those that come in by this device.
    pub iif: Option<String>,
}

/// A firewall mark, and which bits of a packet's mark must be so. Displays as `0x10/0xff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The bits.
    pub value: u32,
    /// Which of them count.
    pub mask: u32,
}

/// How the kernel comes to a route into a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// It is in a table that rules of the host lead to; in the main one unless the file names one.
    Table(u32),
    /// It is in a table of the link's, to which a rule of ours with this priority leads.
    Rule(u32),
}

/// Why a text is no mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no mark; write VALUE or VALUE/MASK, such as 0x10/0xff, with no bit outside the mask"
)]
pub struct MarkError(String);

impl RouteSpec {
    /// Returns true if it is for all destinations of its family.
    pub fn is_default(&self) -> bool {
        self.to.length() == 0
    }

    /// Returns true if a rule of ours leads to it.
    pub fn has_rule(&self) -> bool {
        matches!(self.entry, Entry::Rule(_))
    }
}

impl Selector {
    /// Returns true if it selects all packets.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => Ok(()),
            Self::Router(address) => address.fmt(f),
            Self::Default => f.write_str("default"),
        }
    }
}

/// As in `ip rule`: ` fwmark 0x1/0xff from 10.0.1.0/24 iif eth1`; nothing if it selects all.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(mark) = self.mark {
            write!(f, " fwmark {mark}")?;
        }
        if let Some(from) = self.from {
            write!(f, " from {from}")?;
        }
        if let Some(iif) = &self.iif {
            write!(f, " iif {iif}")?;
        }
        Ok(())
    }
}

impl Mark {
    /// Makes a mark of which these bits count; `None` if others are set.
    pub fn new(value: u32, mask: u32) -> Option<Self> {
        (value & !mask == 0 && mask != 0).then_some(Self { value, mask })
    }
}

impl FromStr for Mark {
    type Err = MarkError;

    fn from_str(text: &str) -> Result<Self, MarkError> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
        let mark = number(value).zip(number(mask));
        let mark = mark.and_then(|(value, mask)| Self::new(value, mask));
        // An error quotes little, whatever was written.
        mark.ok_or_else(|| MarkError(text.chars().take(50).collect()))
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, mask } = self;
        match *mask {
            u32::MAX => write!(f, "{value:#x}"),
            _ => write!(f, "{value:#x}/{mask:#x}"),
        }
    }
}
