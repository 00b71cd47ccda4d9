//! What the link layer adds to packets.

use crate::rate::Rate;

/// The weight of a packet in the mean size, as a divisor.
const MEMORY: f64 = 64.0;

/// The size that packets are taken to have before any has come.
const EXPECTED: f64 = 1500.0;

/// Bytes that the link layer sends with each packet, and how large packets are without them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Overhead {
    bytes: u32,
    mean: f64,
}

impl Overhead {
    pub(super) fn new(bytes: u32) -> Self {
        Self {
            bytes,
            mean: EXPECTED,
        }
    }

    /// A packet of `bytes` is sent. Returns how many bytes the link carries for it.
    pub(super) fn count(&mut self, bytes: u32) -> u32 {
        self.mean += (f64::from(bytes) - self.mean) / MEMORY;
        bytes + self.bytes
    }

    /// What is left for IP packets of a `rate` of the link, as large as they have been of late.
    pub(super) fn without(&self, rate: Rate) -> Rate {
        if self.bytes == 0 {
            return rate;
        }
        let share = self.mean / (self.mean + f64::from(self.bytes));
        let left = rate.bits_per_second() as f64 * share;
        Rate::new((left as u64).max(1)).expect("at least 1")
    }
}
