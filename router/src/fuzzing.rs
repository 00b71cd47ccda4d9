//! A packet's way through the router without device and kernel, for the fuzz target `router`.

use std::time::Instant;

use crate::config::LinkSpec;
use crate::packet::{self, Kind};
use crate::transit::Transit;

/// A link that packets go through as they do in the daemon.
#[derive(Debug)]
pub struct PacketPath(Transit);

impl PacketPath {
    /// An empty link.
    ///
    /// # Panics
    /// If the daemon would refuse such a link.
    pub fn new(epoch: Instant, link: &LinkSpec) -> Self {
        let transit = Transit::new(epoch, link, 1, 0, [7; 16]);
        Self(transit.expect("a configuration that was checked makes a link"))
    }

    /// A packet is read from the device; whether it is traffic of the link.
    pub fn arrive(&mut self, now: Instant, bytes: &[u8]) -> bool {
        self.0.arrive(now, bytes);
        matches!(packet::classify(bytes), Kind::Forward(_))
    }

    /// The next packet to write back by `now`.
    pub fn depart(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.0.depart(now)
    }

    /// When there may be one.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.0.next_timeout()
    }
}
