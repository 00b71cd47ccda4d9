//! Splits byte streams of H.264 and HEVC (Annex B of ITU-T H.264 and H.265) into access units, each
//! one picture.

mod nal;

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::frame::MAX_FRAME;
use super::track::Track;
pub(super) use nal::Codec;
use nal::{Meaning, Name};

/// Splits a byte stream into access units. Joined, the units are the stream again.
#[derive(Debug, Default)]
pub struct AccessUnits {
    buffer: BytesMut,
    /// The buffer has been searched for start codes up to here.
    searched: usize,
    /// The unit in the buffer has a slice of a picture.
    has_slice: bool,
    /// The beginning of the unit has been taken by [`Self::flush`].
    continues: bool,
    /// More of such a unit came since [`Self::went_on`] was last asked.
    went_on: bool,
    /// Known from the first NAL unit on.
    codec: Option<Codec>,
    /// The parameter sets of all units that are complete.
    parameters: BTreeMap<Name, Bytes>,
}

/// One picture, or another frame of a track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// Of what it is a part.
    pub track: Track,
    /// Its NAL units with their start codes, or its packets of a transport stream.
    pub bytes: Bytes,
    /// Decoding can begin with the picture: they are right after this many
    /// more. 0 is a key picture, that is IDR or IRAP; others are recovery points, as
    /// encoders with intra refresh make them. `None`: the picture needs earlier ones. What is
    /// decoded alone has 0.
    pub entry: Option<u8>,
    /// The parameter sets, with start codes, that came with earlier pictures and that decoding from
    /// here needs; empty unless it can begin here, and in a transport stream.
    pub parameters: Bytes,
    /// When it is to be decoded, in 1/90,000 s modulo 2^33, if the stream says so.
    pub time: Option<u64>,
}

/// A byte stream that cannot be cut into access units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnexBError {
    /// The stream is of a kind that is known, but not carried.
    #[error("it is {0}, not H.264 or HEVC in byte stream format (Annex B)")]
    Other(&'static str),
    /// The stream does not begin with a start code.
    #[error("it does not begin with a start code of the byte stream format (Annex B)")]
    NoStartCode,
    /// One unit is too long.
    #[error("an access unit is longer than {MAX_FRAME} bytes")]
    TooLong,
}

/// Begins a NAL unit.
const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// The longest parameter sets that are kept, in bytes: those of encoders have less than a hundred.
const MAX_PARAMETERS: usize = 64 * 1024;

impl AccessUnits {
    /// Takes in more of the stream; returns the completed units.
    ///
    /// # Errors
    /// See [`AnnexBError`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<AccessUnit>, AnnexBError> {
        let goes_on = self.buffer.is_empty() && !may_begin_with_start_code(bytes);
        self.went_on |= self.continues && goes_on;
        self.buffer.extend_from_slice(bytes);
        if !self.continues && !may_begin_with_start_code(&self.buffer) {
            return Err(kind_of(&self.buffer).map_or(AnnexBError::NoStartCode, AnnexBError::Other));
        }
        let mut units = Vec::new();
        while let Some((start, codec)) = self.next_start_code()? {
            let code = start_code_begin(&self.buffer, start);
            let nal = &self.buffer[start + 3..];
            let (is_slice, opens) = (codec.slice(nal), codec.opens(nal));
            if self.has_slice && opens {
                let unit = self.buffer.split_to(code).freeze();
                units.extend(self.take(codec, unit));
                (self.has_slice, self.continues) = (false, false);
                self.searched = start - code + 3;
            } else {
                self.searched = start + 3;
            }
            self.went_on |= self.continues && is_slice && !opens;
            self.has_slice |= is_slice;
        }
        if self.buffer.len() > MAX_FRAME || units.iter().any(|unit| unit.bytes.len() > MAX_FRAME) {
            return Err(AnnexBError::TooLong);
        }
        Ok(units)
    }

    /// Returns what there is of a picture that has begun, because nothing came after it for a while.
    /// What may yet come of that picture becomes a unit of its own with which nothing can begin.
    pub fn flush(&mut self) -> Option<AccessUnit> {
        let codec = self.codec.filter(|_| self.has_slice)?;
        // A start code that is not whole, or whose unit was not examined, may begin the next.
        let unexamined = self.buffer[self.searched..].starts_with(&[0, 0, 1]);
        let end = match unexamined {
            true => start_code_begin(&self.buffer, self.searched),
            false => {
                let zeros = self.buffer.iter().rev().take_while(|byte| **byte == 0);
                self.buffer.len() - zeros.count()
            }
        };
        let unit = self.buffer.split_to(end).freeze();
        self.searched = self.searched.saturating_sub(end);
        let unit = self.take(codec, unit);
        self.continues = true;
        unit
    }

    /// Returns whether more came of a picture that [`flush`](Self::flush) returned, since this was
    /// last asked: it was not whole.
    pub(super) fn went_on(&mut self) -> bool {
        std::mem::take(&mut self.went_on)
    }

    /// Ends the stream; returns the last unit, if it has a picture.
    pub fn finish(mut self) -> Option<AccessUnit> {
        // A NAL unit cut off right after its start code was not examined.
        let rest = self.buffer.split().freeze();
        let codec = self.codec.filter(|_| self.has_slice)?;
        self.take(codec, rest)
    }

    /// Makes an access unit, or the rest of one, of its bytes, if there are any.
    fn take(&mut self, codec: Codec, bytes: Bytes) -> Option<AccessUnit> {
        if bytes.is_empty() {
            return None;
        }
        if self.continues {
            return Some(AccessUnit {
                track: Track::VIDEO,
                bytes,
                entry: None,
                parameters: Bytes::new(),
                time: None,
            });
        }
        Some(self.complete(codec, bytes))
    }

    /// Finds the next unexamined 00 00 01 with enough bytes after it.
    fn next_start_code(&mut self) -> Result<Option<(usize, Codec)>, AnnexBError> {
        let from = self.searched;
        let found = self.buffer[from..]
            .windows(3)
            .position(|bytes| bytes == [0, 0, 1]);
        let Some(found) = found else {
            // The last two bytes may begin a start code.
            self.searched = self.buffer.len().saturating_sub(2).max(from);
            return Ok(None);
        };
        let start = from + found;
        self.searched = start;
        let nal = &self.buffer[start + 3..];
        let codec = match (self.codec, nal) {
            (Some(codec), _) => codec,
            (None, [first, second, ..]) => {
                Codec::of([*first, *second]).map_err(AnnexBError::Other)?
            }
            (None, _) => return Ok(None),
        };
        self.codec = Some(codec);
        Ok((nal.len() >= codec.look_ahead()).then_some((start, codec)))
    }

    /// Makes an access unit of its NAL units, and keeps their parameter sets.
    fn complete(&mut self, codec: Codec, bytes: Bytes) -> AccessUnit {
        let mut own = Vec::new();
        let entry = examine(codec, &bytes, |name, nal| {
            own.push(name);
            self.keep(name, nal);
        });
        let mut parameters = BytesMut::new();
        let all = self.parameters.iter().filter(|_| entry.is_some());
        for (_, set) in all.filter(|(name, _)| !own.contains(name)) {
            parameters.extend_from_slice(&START_CODE);
            parameters.extend_from_slice(set);
        }
        if bytes.len() + parameters.len() > MAX_FRAME {
            parameters.clear();
        }
        AccessUnit {
            track: Track::VIDEO,
            bytes,
            entry,
            parameters: parameters.freeze(),
            time: None,
        }
    }

    fn keep(&mut self, name: Name, nal: &[u8]) {
        let others = self.parameters.iter().filter(|(kept, _)| **kept != name);
        let bytes: usize = others.map(|(_, set)| set.len()).sum();
        if bytes + nal.len() <= MAX_PARAMETERS {
            // A copy, so that the picture around it need not be kept.
            self.parameters.insert(name, Bytes::copy_from_slice(nal));
        }
    }
}

/// Returns whether decoding can begin in a picture, as of [`AccessUnit::entry`].
pub(super) fn first_entry(codec: Codec, picture: &[u8]) -> Option<u8> {
    examine(codec, picture, |_, _| {})
}

/// Passes the parameter sets of a picture to `take`; returns whether decoding can begin in it.
fn examine(codec: Codec, picture: &[u8], mut take: impl FnMut(Name, &[u8])) -> Option<u8> {
    let mut entry = None;
    for nal in NalUnits(picture) {
        match codec.meaning(nal) {
            Meaning::ParameterSet(name) => take(name, nal),
            Meaning::RecoveryPoint(count) => entry = Some(count.min(254) as u8),
            // What decoding needs comes before the first slice.
            Meaning::Slice { key } => return if key { Some(0) } else { entry },
            Meaning::Other => {}
        }
    }
    entry
}

impl AccessUnit {
    /// Returns the picture with all parameter sets that decoding from here needs.
    pub fn decodable(&self) -> Bytes {
        if self.parameters.is_empty() {
            return self.bytes.clone();
        }
        // An access unit delimiter comes first of all (H.264, type 9; HEVC, type 35).
        let mut nals = NalUnits(&self.bytes);
        let delimiter = nals
            .next()
            .filter(|nal| nal[0] == 0x46 || nal[0] & 0x9f == 9);
        let at = delimiter.map_or(0, |_| self.bytes.len() - nals.0.len());
        [&self.bytes[..at], &self.parameters, &self.bytes[at..]]
            .concat()
            .into()
    }
}

/// The NAL units of an access unit, without start codes and zeros between them; what remains begins
/// with a start code.
struct NalUnits<'a>(&'a [u8]);

impl<'a> Iterator for NalUnits<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let code = |bytes: &[u8]| bytes.windows(3).position(|bytes| bytes == [0, 0, 1]);
        loop {
            let nal = &self.0[code(self.0)? + 3..];
            let end = code(nal).map_or(nal.len(), |next| start_code_begin(nal, next));
            let (nal, rest) = nal.split_at(end);
            self.0 = rest;
            let zeros = nal.iter().rev().take_while(|byte| **byte == 0).count();
            if zeros < nal.len() {
                return Some(&nal[..nal.len() - zeros]);
            }
        }
    }
}

/// Returns true if the buffer begins, as far as it goes, with at least two zero bytes and a one.
pub(super) fn may_begin_with_start_code(buffer: &[u8]) -> bool {
    match buffer.iter().position(|byte| *byte != 0) {
        None => true,
        Some(zeros) => zeros >= 2 && buffer[zeros] == 1,
    }
}

/// Returns where a start code begins, with the zero byte that may precede it.
fn start_code_begin(buffer: &[u8], start: usize) -> usize {
    match start.checked_sub(1) {
        Some(before) if buffer[before] == 0 => before,
        _ => start,
    }
}

/// Names what a stream is by its first bytes, if it is something that people try.
fn kind_of(stream: &[u8]) -> Option<&'static str> {
    let has = |at: usize, bytes: &[u8]| stream.get(at..).is_some_and(|s| s.starts_with(bytes));
    let kinds: [(bool, &str); 8] = [
        (
            has(4, b"G") && has(196, b"G"),
            "MPEG-TS in packets of 192 bytes",
        ),
        (has(4, b"ftyp") || has(4, b"styp"), "MP4"),
        (has(0, b"\x1a\x45\xdf\xa3"), "Matroska or WebM"),
        (has(0, b"DKIF") && has(8, b"AV01"), "AV1 in IVF"),
        (has(0, b"DKIF"), "IVF"),
        // A temporal delimiter and a sequence header.
        (has(0, b"\x12\x00\x0a"), "AV1"),
        (has(0, b"FLV\x01"), "FLV"),
        (has(0, b"RIFF"), "AVI"),
    ];
    let kind = kinds.into_iter().find(|(is, _)| *is);
    kind.map(|(_, name)| name)
}

#[cfg(test)]
mod tests;
