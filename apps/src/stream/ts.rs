//! Cuts MPEG transport streams (ITU-T H.222.0 | ISO/IEC 13818-1) into frames: each has the packets
//! of one PES packet, or of tables.

use std::collections::BTreeMap;
use std::mem;
use std::time::Instant;

use bytes::{Buf, Bytes, BytesMut};
use mpeg2ts_reader::STUFFING_PID;
use mpeg2ts_reader::packet::Packet;
use mpeg2ts_reader::pes::{PesContents, PesHeader, PesLength, PtsDts};

use super::annexb::{AccessUnit, first_entry};
use super::frame::MAX_FRAME;
use super::track::Track;
use program::{Coding, Programs};

mod program;

/// Bytes of a packet.
pub(super) const PACKET: usize = Packet::SIZE;

/// Begins every packet.
pub(super) const SYNC_BYTE: u8 = Packet::SYNC_BYTE;

/// Bytes that are searched for the next packet once one does not begin where it should.
const MAX_SKIPPED: usize = 64 * 1024;

/// The most bytes of tables in one frame.
const MAX_SECTIONS: usize = 64 * 1024;

/// The most bytes of clock references that wait for the next PES packet.
const MAX_BETWEEN: usize = 64 * 1024;

/// Bytes of incomplete frames that are kept: of four of the longest.
const MAX_KEPT: usize = 4 * MAX_FRAME;

/// Cuts a transport stream into frames. Of packets it leaves out only those that fill, that are
/// broken, and that belong to no program.
#[derive(Default)]
pub(super) struct TransportStream {
    /// What does not make a packet yet.
    rest: BytesMut,
    /// Bytes in a row that belong to no packet.
    skipped: usize,
    programs: Programs,
    /// The frames that are gathered, by PID.
    gathered: BTreeMap<u16, Gathered>,
    /// Tables, and other packets without PES, since the last frame of them.
    sections: Option<(Instant, BytesMut)>,
    kept: usize,
    /// More came of frames that [`flush`](Self::flush) had returned since this was last read.
    went_on: bool,
}

/// A frame that may not be whole.
#[derive(Debug)]
struct Gathered {
    track: Track,
    coding: Coding,
    at: Instant,
    packets: BytesMut,
    /// Packets before the next PES packet: clock references, which must not overtake it.
    between: BytesMut,
    /// Bytes of such packets at the beginning.
    led_by: usize,
    /// Bytes of the PES packet, with its header, that are still to come; `None`: it ends where the
    /// next one begins.
    left: Option<usize>,
    /// Its beginning has gone on already.
    continues: bool,
    /// It is a PES packet; sections go with the tables.
    is_pes: bool,
}

/// Something that is no transport stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TsError {
    /// Packets do not follow each other.
    #[error("it is no MPEG-TS in packets of 188 bytes")]
    NoPackets,
    /// A frame is too long, or too much waits for its end.
    #[error("a PES packet is longer than {MAX_FRAME} bytes")]
    TooLong,
}

impl TransportStream {
    /// Takes in more of the stream, which came at `now`; returns the completed frames and when
    /// their first byte came.
    ///
    /// # Errors
    /// See [`TsError`].
    pub(super) fn push(
        &mut self,
        now: Instant,
        bytes: &[u8],
    ) -> Result<Vec<(Instant, AccessUnit)>, TsError> {
        self.rest.extend_from_slice(bytes);
        let mut units = Vec::new();
        while self.rest.len() >= PACKET {
            if !self.begins_with_packet() {
                let next = self.rest[1..].iter().position(|byte| *byte == SYNC_BYTE);
                let skipped = next.map_or(self.rest.len(), |next| next + 1);
                self.rest.advance(skipped);
                self.skipped += skipped;
                if self.skipped > MAX_SKIPPED {
                    return Err(TsError::NoPackets);
                }
                continue;
            }
            self.skipped = 0;
            let packet = self.rest.split_to(PACKET);
            self.packet(now, &packet, &mut units);
            if self.kept > MAX_KEPT || units.iter().any(|(_, unit)| unit.bytes.len() > MAX_FRAME) {
                return Err(TsError::TooLong);
            }
        }
        Ok(units)
    }

    /// Returns what has begun and may be whole, because nothing came after it for a while. What may
    /// yet come of a picture becomes a frame of its own with which nothing can begin.
    pub(super) fn flush(&mut self) -> Vec<(Instant, AccessUnit)> {
        let mut units = Vec::new();
        self.end_sections(&mut units);
        for gathered in self.gathered.values_mut() {
            if gathered.left.is_none() && !gathered.packets.is_empty() {
                self.kept -= gathered.packets.len();
                units.push(gathered.take());
                gathered.continues = true;
            }
        }
        units.sort_by_key(|(at, _)| *at);
        units
    }

    /// Ends the stream; returns the last frames.
    pub(super) fn finish(mut self) -> Vec<(Instant, AccessUnit)> {
        for unit in self.gathered.values_mut() {
            unit.left = None;
            if unit.packets.is_empty() {
                // What leads to a PES packet that does not come continues the one before.
                unit.packets = mem::take(&mut unit.between);
                unit.continues = true;
            }
        }
        self.flush()
    }

    /// Returns whether more came of frames that [`flush`](Self::flush) returned, since this was last
    /// asked: they were not whole.
    pub(super) fn went_on(&mut self) -> bool {
        mem::take(&mut self.went_on)
    }

    /// Returns whether [`flush`](Self::flush) would return something.
    pub(super) fn has_begun(&self) -> bool {
        let is_begun = |unit: &Gathered| unit.left.is_none() && !unit.packets.is_empty();
        self.sections.is_some() || self.gathered.values().any(is_begun)
    }

    /// Returns the packets of the tables that a viewer needs first; `None` before they have come.
    pub(super) fn tables(&self) -> Option<Bytes> {
        self.programs.tables()
    }

    /// Returns whether a packet begins here, as far as that can be seen.
    fn begins_with_packet(&self) -> bool {
        let next = self.rest.get(PACKET);
        self.rest[0] == SYNC_BYTE && next.is_none_or(|byte| *byte == SYNC_BYTE)
    }

    fn packet(&mut self, now: Instant, bytes: &[u8], units: &mut Vec<(Instant, AccessUnit)>) {
        let packet = Packet::new(bytes);
        if packet.transport_error_indicator() || packet.pid() == STUFFING_PID {
            return;
        }
        let pid = u16::from(packet.pid());
        let Some((track, coding)) = self.programs.stream(pid) else {
            if self.programs.take(&packet) {
                self.section(now, bytes, units);
            }
            return;
        };
        let begins = packet.payload_unit_start_indicator();
        let length = packet.payload().map_or(0, <[u8]>::len);
        if begins {
            self.end_sections(units);
            if let Some(before) = self.gathered.get_mut(&pid)
                && !before.packets.is_empty()
            {
                self.kept -= before.packets.len();
                units.push(before.take());
            }
            let mut unit = Gathered::new(track, coding, now, &packet);
            if let Some(before) = self.gathered.get_mut(&pid) {
                unit.packets = mem::take(&mut before.between);
                unit.led_by = unit.packets.len();
            }
            self.gathered.insert(pid, unit);
        }
        // What came before the first beginning cannot be decoded.
        let Some(unit) = self.gathered.get_mut(&pid) else {
            return;
        };
        if !unit.is_pes {
            return self.section(now, bytes, units);
        }
        if !begins && unit.packets.is_empty() {
            if length == 0 || unit.left == Some(0) {
                if unit.between.len() >= MAX_BETWEEN {
                    self.kept -= unit.between.len();
                    unit.between.clear();
                }
                unit.between.extend_from_slice(bytes);
                self.kept += bytes.len();
                return;
            }
            unit.at = now;
            unit.packets = mem::take(&mut unit.between);
            self.went_on |= unit.continues;
        }
        unit.packets.extend_from_slice(bytes);
        self.kept += bytes.len();
        if let Some(left) = &mut unit.left {
            *left = left.saturating_sub(length);
            if *left == 0 {
                self.kept -= unit.packets.len();
                units.push(unit.take());
            }
        }
    }

    fn section(&mut self, now: Instant, bytes: &[u8], units: &mut Vec<(Instant, AccessUnit)>) {
        let (_, packets) = (self.sections).get_or_insert_with(|| (now, BytesMut::new()));
        packets.extend_from_slice(bytes);
        self.kept += bytes.len();
        if packets.len() >= MAX_SECTIONS {
            self.end_sections(units);
        }
    }

    fn end_sections(&mut self, units: &mut Vec<(Instant, AccessUnit)>) {
        if let Some((at, packets)) = self.sections.take() {
            self.kept -= packets.len();
            let unit = AccessUnit {
                track: Track::TABLES,
                bytes: packets.freeze(),
                entry: Some(0),
                parameters: Bytes::new(),
                time: None,
            };
            units.push((at, unit));
        }
    }
}

impl Gathered {
    /// Begins with `packet`, which is not yet in it.
    fn new(track: Track, coding: Coding, now: Instant, packet: &Packet<'_>) -> Self {
        let header = packet.payload().and_then(PesHeader::from_bytes);
        let left = header
            .as_ref()
            .and_then(|header| match header.pes_packet_length() {
                PesLength::Bounded(length) => Some(6 + usize::from(length.get())),
                PesLength::Unbounded => None,
            });
        let is_scrambled = packet.transport_scrambling_control().is_scrambled();
        Self {
            track,
            coding,
            at: now,
            packets: BytesMut::new(),
            between: BytesMut::new(),
            led_by: 0,
            left,
            continues: false,
            is_pes: header.is_some() || is_scrambled,
        }
    }

    /// Returns the packets so far as a frame.
    fn take(&mut self) -> (Instant, AccessUnit) {
        let bytes = mem::take(&mut self.packets).freeze();
        let led_by = mem::take(&mut self.led_by);
        let (entry, time) = match self.continues {
            true => (None, None),
            false => self.meaning(&bytes[led_by..]),
        };
        let unit = AccessUnit {
            track: self.track,
            bytes,
            entry: entry.or((!self.track.has_groups()).then_some(0)),
            parameters: Bytes::new(),
            time,
        };
        (self.at, unit)
    }

    /// Returns whether decoding can begin here, and the time of decoding.
    fn meaning(&self, packets: &[u8]) -> (Option<u8>, Option<u64>) {
        let mut packets = packets.chunks_exact(PACKET).map(Packet::new);
        let Some(first) = packets.next() else {
            return (None, None);
        };
        let field = first.adaptation_field();
        let is_announced = field.is_some_and(|field| field.random_access_indicator());
        let header = first.payload().and_then(PesHeader::from_bytes);
        let Some(PesContents::Parsed(Some(contents))) = header.map(|header| header.contents())
        else {
            return (is_announced.then_some(0), None);
        };
        let time = contents.pts_dts().ok().and_then(|times| match times {
            PtsDts::PtsOnly(time) | PtsDts::Both { dts: time, .. } => time.ok(),
            PtsDts::None | PtsDts::Invalid => None,
        });
        let mut entry = None;
        if let Coding::Nal(codec) = self.coding
            && !first.transport_scrambling_control().is_scrambled()
        {
            let mut picture = contents.payload().to_vec();
            packets
                .filter_map(|packet| packet.payload())
                .for_each(|payload| picture.extend_from_slice(payload));
            entry = first_entry(codec, &picture);
        }
        let entry = entry.or(is_announced.then_some(0));
        (entry, time.map(|time| time.value()))
    }
}

#[cfg(test)]
pub(super) mod tests;
