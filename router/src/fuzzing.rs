//! Takes packets through the router without device and kernel, for the fuzz target `router`.

use std::collections::VecDeque;
use std::time::Instant;

use crate::config::LinkSpec;
use crate::device::Offloads;
use crate::offload::{OffloadHeader, Segments, Train};
use crate::packet::{self, Kind};
use crate::transit::Transit;

/// A link that treats packets as the daemon does, and a kernel behind it that makes packets of the
/// superpackets that it is given.
#[derive(Debug)]
pub struct PacketPath {
    transit: Transit,
    train: Train,
    departed: VecDeque<Vec<u8>>,
}

impl PacketPath {
    /// Creates an empty link.
    ///
    /// # Panics
    /// If the daemon would refuse such a link.
    pub fn new(epoch: Instant, link: &LinkSpec) -> Self {
        let transit = Transit::new(epoch, link, 1, 0, [7; 16]);
        let all = Offloads {
            tcp: true,
            udp: true,
        };
        Self {
            transit: transit.expect("a configuration that was checked makes a link"),
            train: Train::new(all),
            departed: VecDeque::new(),
        }
    }

    /// Takes a packet from the device; returns true if it is traffic of the link.
    pub fn arrive(&mut self, now: Instant, bytes: &[u8]) -> bool {
        self.transit.arrive(now, now, OffloadHeader::PLAIN, bytes);
        matches!(packet::classify(bytes), Kind::Forward(_))
    }

    /// Takes whatever a device could give: an offload header and a packet.
    pub fn arrive_in_one_piece(&mut self, now: Instant, header: &[u8; 10], bytes: &[u8]) {
        let header = OffloadHeader::parse(header);
        self.transit.arrive(now, now, header, bytes);
    }

    /// Returns the next packet that the kernel would forward by `now`.
    pub fn depart(&mut self, now: Instant) -> Option<Vec<u8>> {
        while let Some(packet) = self.transit.depart(now) {
            if !self.train.takes(&packet) {
                self.write();
            }
            self.train.push(packet);
        }
        self.write();
        self.departed.pop_front()
    }

    /// Returns when the next packet may be ready.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.transit.next_timeout()
    }

    /// Returns how many packets the queue has dropped so far.
    pub fn dropped(&mut self, now: Instant) -> u64 {
        self.transit.link.stats(now).total().dropped.total().packets
    }

    fn write(&mut self) {
        let departed = &mut self.departed;
        let written = self.train.write(|slices| {
            let piece: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
            let (header, packet) = piece.split_first_chunk().expect("a header is in front");
            let segments = Segments::new(OffloadHeader::parse(header), packet);
            let mut segments = segments.expect("the kernel takes what the router writes");
            let mut bytes = Vec::new();
            while let Some(checksum) = segments.next_into(&mut bytes) {
                departed.push_back(checksum.completed(std::mem::take(&mut bytes)));
            }
            Ok(())
        });
        written.expect("nothing refuses");
        self.train.drain().for_each(drop);
    }
}
