//! Takes packets through the router without device and kernel, for the fuzz target `router`.

use std::time::Instant;

use crate::config::LinkSpec;
use crate::packet::{self, Kind};
use crate::transit::Transit;

/// A link that treats packets as the daemon does.
#[derive(Debug)]
pub struct PacketPath(Transit);

impl PacketPath {
    /// Creates an empty link.
    ///
    /// # Panics
    /// If the daemon would refuse such a link.
    pub fn new(epoch: Instant, link: &LinkSpec) -> Self {
        let transit = Transit::new(epoch, link, 1, 0, [7; 16]);
        Self(transit.expect("a configuration that was checked makes a link"))
    }

    /// Takes a packet from the device; returns true if it is traffic of the link.
    pub fn arrive(&mut self, now: Instant, bytes: &[u8]) -> bool {
        self.0.arrive(now, bytes);
        matches!(packet::classify(bytes), Kind::Forward(_))
    }

    /// Returns the next packet to write back by `now`.
    pub fn depart(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.0.depart(now)
    }

    /// Returns when the next packet may be ready.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.0.next_timeout()
    }
}
