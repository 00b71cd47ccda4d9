//! What the tables of a transport stream say about its packets.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use mpeg2ts_reader::descriptor::{Descriptor, DescriptorError};
use mpeg2ts_reader::packet::Packet;
use mpeg2ts_reader::psi::pat::{PatSection, ProgramDescriptor};
use mpeg2ts_reader::psi::pmt::{PmtSection, StreamInfo};
use mpeg2ts_reader::psi::{
    BufferSectionSyntaxParser, CrcCheckWholeSectionSyntaxPayloadParser, CurrentNext,
    SectionCommonHeader, SectionPacketConsumer, SectionSyntaxSectionProcessor, TableSyntaxHeader,
    WholeSectionSyntaxPayloadParser,
};

use crate::stream::annexb::Codec;
use crate::stream::track::{Kind, Track};

/// The PID of the table of programs.
const PROGRAMS: u16 = 0;

/// The PID of the table that names services (ETSI EN 300 468).
const SERVICES: u16 = 0x11;

/// PIDs below this have tables (ITU-T H.222.0, table 2-3; ETSI EN 300 468, table 1).
const FIRST_FREE: u16 = 0x20;

/// The most packets of one table that a new viewer gets, and of all.
const MAX_TABLE: (usize, usize) = (6, 32);

/// The tag of a registration descriptor.
const REGISTRATION: u8 = 5;

/// Registrations of sound in private PES packets.
const SOUND_NAMES: &[&[u8; 4]] = &[
    b"Opus", b"AC-3", b"EAC3", b"AC-4", b"DTS1", b"DTS2", b"DTS3",
];

/// DVB's descriptors of AC-3, E-AC-3, DTS and AAC.
const SOUND_TAGS: &[u8] = &[0x6a, 0x7a, 0x7b, 0x7c];

/// The coding of a stream, as far as it shows where decoding can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// NAL units.
    Nal(Codec),
    /// Something that packets have to announce.
    Other,
}

/// The streams that tables have announced.
#[derive(Default)]
pub(super) struct Programs {
    /// The tables that are read, by PID: programs, and the streams of each.
    sections: BTreeMap<u16, Sections>,
    streams: BTreeMap<u16, (Track, Coding)>,
    /// PIDs of clock references.
    clocks: BTreeSet<u16>,
    /// The packets of the present tables, and of those that are coming, by PID.
    present: BTreeMap<u16, Vec<u8>>,
    coming: BTreeMap<u16, Vec<u8>>,
}

/// Reads one PID's sections.
type Sections = SectionPacketConsumer<
    SectionSyntaxSectionProcessor<
        BufferSectionSyntaxParser<CrcCheckWholeSectionSyntaxPayloadParser<Whole>>,
    >,
>;

/// Collects whole sections that are in force: the table's identifier and its content.
struct Whole;

impl WholeSectionSyntaxPayloadParser for Whole {
    type Context = Vec<(u8, Vec<u8>)>;

    fn section<'a>(
        &mut self,
        found: &mut Self::Context,
        header: &SectionCommonHeader,
        table: &TableSyntaxHeader<'a>,
        data: &'a [u8],
    ) {
        // Both headers, and the checksum, which was compared.
        let content = data.get(8..data.len().saturating_sub(4));
        if let (CurrentNext::Current, Some(content)) = (table.current_next_indicator(), content) {
            found.push((header.table_id, content.to_vec()));
        }
    }
}

impl Programs {
    /// Returns the track and the coding of the stream with this PID.
    pub(super) fn stream(&self, pid: u16) -> Option<(Track, Coding)> {
        self.streams.get(&pid).copied()
    }

    /// Takes a packet that is of no stream; returns whether it is of any program.
    pub(super) fn take(&mut self, packet: &Packet<'_>) -> bool {
        let pid = u16::from(packet.pid());
        let is_table = pid == PROGRAMS || self.sections.contains_key(&pid);
        if is_table || pid == SERVICES {
            self.keep(pid, packet);
        }
        if is_table {
            let mut found = Vec::new();
            let sections = self.sections.entry(pid).or_insert_with(sections);
            sections.consume(&mut found, packet);
            for (table, content) in found {
                match table {
                    0 if pid == PROGRAMS => self.programs(&content),
                    2 => self.program(&content),
                    _ => {}
                }
            }
        }
        is_table || pid < FIRST_FREE || self.clocks.contains(&pid)
    }

    /// Returns the packets of the tables, once a program's streams are known.
    pub(super) fn tables(&self) -> Option<Bytes> {
        if self.streams.is_empty() {
            return None;
        }
        let pids = self.coming.keys();
        let tables = pids.filter_map(|pid| self.present.get(pid).or(self.coming.get(pid)));
        let mut packets = Vec::new();
        for table in tables {
            if packets.len() + table.len() <= MAX_TABLE.1 * Packet::SIZE {
                packets.extend_from_slice(table);
            }
        }
        Some(packets.into())
    }

    fn keep(&mut self, pid: u16, packet: &Packet<'_>) {
        let table = self.coming.entry(pid).or_default();
        if packet.payload_unit_start_indicator() {
            let whole = std::mem::take(table);
            if !whole.is_empty() {
                self.present.insert(pid, whole);
            }
        } else if table.is_empty() || table.len() >= MAX_TABLE.0 * Packet::SIZE {
            return;
        }
        table.extend_from_slice(packet.buffer());
    }

    fn programs(&mut self, content: &[u8]) {
        for program in PatSection::new(content).programs() {
            if let ProgramDescriptor::Program { pid, .. } = program {
                let pid = u16::from(pid);
                if !self.sections.contains_key(&pid) && !self.streams.contains_key(&pid) {
                    self.sections.insert(pid, sections());
                }
            }
        }
    }

    fn program(&mut self, content: &[u8]) {
        let Ok(program) = PmtSection::from_bytes(content) else {
            return;
        };
        for stream in program.streams() {
            let pid = u16::from(stream.elementary_pid());
            let (kind, coding) = meaning(&stream);
            if self.sections.contains_key(&pid) || self.streams.contains_key(&pid) {
                continue;
            }
            let known = self.streams.values();
            let index = known.filter(|(track, _)| track.kind == kind).count();
            let index = u8::try_from(index).unwrap_or(u8::MAX);
            self.streams.insert(pid, (Track::new(kind, index), coding));
        }
        self.clocks.insert(u16::from(program.pcr_pid()));
    }
}

fn sections() -> Sections {
    let whole = CrcCheckWholeSectionSyntaxPayloadParser::new(Whole);
    let buffered = BufferSectionSyntaxParser::new(whole);
    SectionPacketConsumer::new(SectionSyntaxSectionProcessor::new(buffered))
}

/// A descriptor as it is.
struct Plain<'a> {
    tag: u8,
    content: &'a [u8],
}

impl<'a> Descriptor<'a> for Plain<'a> {
    fn from_bytes(buf: &'a [u8]) -> Result<Self, DescriptorError> {
        match buf {
            [tag, _, content @ ..] => Ok(Self { tag: *tag, content }),
            _ => Err(DescriptorError::BufferTooShort { buflen: buf.len() }),
        }
    }
}

/// Returns what a stream is (ITU-T H.222.0, table 2-34; ETSI EN 300 468, table 12 and annex D; ATSC
/// A/53, part 3).
fn meaning(stream: &StreamInfo<'_>) -> (Kind, Coding) {
    let descriptors = || stream.descriptors::<Plain<'_>>().filter_map(Result::ok);
    let is_of = |tags: &[u8]| descriptors().any(|found| tags.contains(&found.tag));
    let is_registered = |names: &[&[u8; 4]]| {
        let mut registrations = descriptors().filter(|found| found.tag == REGISTRATION);
        registrations.any(|found| names.iter().any(|name| found.content.starts_with(*name)))
    };
    match stream.stream_type().0 {
        0x1b => (Kind::Video, Coding::Nal(Codec::H264)),
        0x24 => (Kind::Video, Coding::Nal(Codec::Hevc)),
        0x06 if is_registered(&[b"HEVC"]) => (Kind::Video, Coding::Nal(Codec::Hevc)),
        0x06 if is_registered(&[b"AV01", b"VC-1"]) => (Kind::Video, Coding::Other),
        0x01 | 0x02 | 0x10 | 0x1e..=0x21 | 0x33 | 0x42 | 0xd1 | 0xd2 | 0xea => {
            (Kind::Video, Coding::Other)
        }
        0x06 if is_registered(SOUND_NAMES) || is_of(SOUND_TAGS) => (Kind::Sound, Coding::Other),
        0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x2d | 0x2e | 0x81 | 0x84 | 0x87 | 0x8a => {
            (Kind::Sound, Coding::Other)
        }
        _ => (Kind::Data, Coding::Other),
    }
}
