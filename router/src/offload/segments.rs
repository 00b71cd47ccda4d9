//! Takes superpackets apart.

use evenkeel_wire::update_checksum;

use super::{
    Checksum, Kind, Layout, Malformed, OffloadHeader, Transport, UDP_LENGTH, read_word, tcp,
    write_lengths, write_word,
};
use crate::family::Family;
use crate::packet::ipv4;

/// The packets that a superpacket stands for, in order; a single packet is its own only segment.
///
/// They are what the kernel would make of it (net/core/gso.c): IPv4's identification counts up,
/// TCP's sequence number goes on, only the first keeps CWR, only the last FIN and PSH.
#[derive(Debug)]
pub(crate) struct Segments<'a> {
    packet: &'a [u8],
    /// `None` for a single packet.
    split: Option<Split>,
    checksum: Checksum,
    /// Where the next segment's payload begins; `None` after the last.
    next: Option<usize>,
    index: u16,
}

#[derive(Debug, Clone, Copy)]
struct Split {
    layout: Layout,
    segment_len: usize,
}

impl<'a> Segments<'a> {
    /// Reads what a device has given.
    ///
    /// # Errors
    /// [`Malformed`] if header and packet contradict each other, or the packet stands for more than
    /// [`OffloadHeader::MAX_SEGMENTS`].
    pub(crate) fn new(header: OffloadHeader, packet: &'a [u8]) -> Result<Self, Malformed> {
        if let Checksum::Pending { start, offset } = header.checksum
            && usize::from(start) + usize::from(offset) + 2 > packet.len()
        {
            return Err(Malformed);
        }
        let (transport, family) = match header.kind {
            Kind::Unknown => return Err(Malformed),
            Kind::Single => {
                return Ok(Self {
                    packet,
                    split: None,
                    checksum: header.checksum,
                    next: Some(0),
                    index: 0,
                });
            }
            Kind::Tcp(family) => (Transport::Tcp, Some(family)),
            Kind::Udp => (Transport::Udp, None),
        };
        let layout = match header.checksum {
            // Behind extension headers too.
            Checksum::Pending { start, .. } => behind(packet, usize::from(start), transport),
            Checksum::Complete => Layout::of(packet),
        };
        let layout = layout.ok_or(Malformed)?;
        let segments = header.count(packet.len().saturating_sub(layout.payload_at));
        let fits = layout.transport == transport
            && segments <= OffloadHeader::MAX_SEGMENTS
            && family.is_none_or(|family| family == layout.family)
            && header.segment_len > 0
            && layout.payload_at < packet.len();
        if !fits {
            return Err(Malformed);
        }
        Ok(Self {
            packet,
            split: Some(Split {
                layout,
                segment_len: header.segment_len.into(),
            }),
            checksum: header.checksum,
            next: Some(layout.payload_at),
            index: 0,
        })
    }

    /// Appends the next segment to an empty buffer; `None` after the last.
    pub(crate) fn next_into(&mut self, buffer: &mut Vec<u8>) -> Option<Checksum> {
        let start = self.next.take()?;
        let Some(split) = self.split else {
            buffer.extend_from_slice(self.packet);
            return Some(self.checksum);
        };
        let end = self.packet.len().min(start + split.segment_len);
        if end < self.packet.len() {
            self.next = Some(end);
        }
        buffer.extend_from_slice(&self.packet[..split.layout.payload_at]);
        buffer.extend_from_slice(&self.packet[start..end]);
        self.finish(split.layout, buffer, start);
        self.index = self.index.wrapping_add(1);
        Some(split.layout.pending())
    }

    /// Writes what differs from segment to segment. The payload of this one begins at `start`.
    fn finish(&self, layout: Layout, segment: &mut [u8], start: usize) {
        let at = layout.transport_at;
        if layout.family == Family::V4 {
            let first = read_word(segment, ipv4::IDENTIFICATION);
            write_word(
                segment,
                ipv4::IDENTIFICATION,
                first.wrapping_add(self.index),
            );
        }
        let checksum = layout.checksum_at()..layout.checksum_at() + 2;
        let pseudo_header = match self.checksum {
            Checksum::Pending { .. } => {
                // Only the length differs, whatever addresses the sum was made of.
                let whole = match layout.transport {
                    Transport::Udp => {
                        read_word(segment, at + UDP_LENGTH.start..at + UDP_LENGTH.end)
                    }
                    Transport::Tcp => (self.packet.len() - at) as u16,
                };
                let sum = read_word(segment, checksum.clone());
                let own = (segment.len() - at) as u16;
                !update_checksum(!sum, &whole.to_be_bytes(), &own.to_be_bytes())
            }
            Checksum::Complete => !layout.pseudo_header(segment, segment.len() - at).checksum(),
        };
        write_word(segment, checksum, pseudo_header);
        if layout.transport == Transport::Tcp {
            let header = &mut segment[at..];
            let sequence = header[tcp::SEQUENCE].try_into().expect("four octets");
            let passed = (start - layout.payload_at) as u32;
            let sequence = u32::from_be_bytes(sequence).wrapping_add(passed);
            header[tcp::SEQUENCE].copy_from_slice(&sequence.to_be_bytes());
            if self.next.is_some() {
                header[tcp::FLAGS] &= !(tcp::FIN | tcp::PSH);
            }
            if self.index > 0 {
                header[tcp::FLAGS] &= !tcp::CWR;
            }
        }
        write_lengths(layout, segment, segment.len());
    }
}

/// Finds the headers of a packet whose transport header is known to begin at `at`: in IPv6 there may
/// be extension headers before it (RFC 8200, section 4).
fn behind(packet: &[u8], at: usize, transport: Transport) -> Option<Layout> {
    match packet.first()? >> 4 {
        4 => Layout::of(packet).filter(|layout| layout.transport_at == at),
        6 => Layout::behind(packet, Family::V6, at, transport),
        _ => None,
    }
}
