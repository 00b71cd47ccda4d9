//! Link rates.

use std::fmt;
use std::num::NonZeroU64;

/// A link rate in bits per second of IP packets; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// A rate; `None` for zero: an interruption is a blackout, not a rate.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        match NonZeroU64::new(bits_per_second) {
            Some(rate) => Some(Self(rate)),
            None => None,
        }
    }

    /// Bits per second of IP packets.
    pub const fn bits_per_second(self) -> u64 {
        self.0.get()
    }

    /// Bytes of IP packets per second.
    pub(crate) fn bytes_per_second(self) -> f64 {
        self.0.get() as f64 / 8.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bit/s", self.0)
    }
}
