//! Splits H.264 byte streams (ITU-T H.264, Annex B) into access units, each one picture.

use bytes::{Bytes, BytesMut};

use super::frame::MAX_FRAME;

/// Splits a byte stream into access units. Joined, the units are the stream again.
#[derive(Debug, Default)]
pub struct AccessUnits {
    buffer: BytesMut,
    /// The buffer has been searched for start codes up to here.
    searched: usize,
    /// The unit in the buffer has a slice of a picture.
    has_slice: bool,
    /// The unit in the buffer has a slice of an IDR picture.
    is_key: bool,
}

/// One picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessUnit {
    /// Its NAL units with their start codes.
    pub bytes: Bytes,
    /// The picture is an IDR picture: decoding can begin with it.
    pub key: bool,
}

/// A byte stream that cannot be cut into access units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnnexBError {
    /// The stream does not begin with a start code.
    #[error("it does not begin with a start code of H.264's byte stream format (Annex B)")]
    NoStartCode,
    /// One unit is too long.
    #[error("an access unit is longer than {MAX_FRAME} bytes")]
    TooLong,
}

/// NAL unit types (ITU-T H.264, table 7-1).
const SLICE: u8 = 1;
const IDR_SLICE: u8 = 5;
const SEI: u8 = 6;
const ACCESS_UNIT_DELIMITER: u8 = 9;

/// Bytes after a start code that decide whether an access unit begins: the NAL unit's header and
/// the first byte of a slice header.
const LOOK_AHEAD: usize = 2;

impl AccessUnits {
    /// Takes in more of the stream; returns the completed units.
    ///
    /// # Errors
    /// See [`AnnexBError`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<AccessUnit>, AnnexBError> {
        self.buffer.extend_from_slice(bytes);
        let mut units = Vec::new();
        while let Some(start) = self.next_start_code() {
            let code = start_code_begin(&self.buffer, start);
            let header = self.buffer[start + 3];
            let kind = header & 0x1f;
            let is_slice = matches!(kind, SLICE..=IDR_SLICE);
            // A first bit of 1 means that first_mb_in_slice is 0 (7.3.3, 9.1); other partitions of
            // a slice do not begin a picture (7.4.1.2.3).
            let first_of_picture =
                matches!(kind, SLICE | 2 | IDR_SLICE) && self.buffer[start + 4] & 0x80 != 0;
            let opens = first_of_picture || matches!(kind, SEI..=ACCESS_UNIT_DELIMITER | 14..=18);
            if self.has_slice && opens {
                let unit = self.buffer.split_to(code);
                units.push(AccessUnit {
                    bytes: unit.freeze(),
                    key: self.is_key,
                });
                (self.has_slice, self.is_key) = (false, false);
                self.searched = start - code + 3;
            } else {
                self.searched = start + 3;
            }
            self.has_slice |= is_slice;
            self.is_key |= kind == IDR_SLICE;
        }
        if !may_begin_with_start_code(&self.buffer) {
            return Err(AnnexBError::NoStartCode);
        }
        if self.buffer.len() > MAX_FRAME || units.iter().any(|unit| unit.bytes.len() > MAX_FRAME) {
            return Err(AnnexBError::TooLong);
        }
        Ok(units)
    }

    /// Ends the stream; returns the last unit, if it has a picture.
    pub fn finish(mut self) -> Option<AccessUnit> {
        // A NAL unit cut off right after its start code was not examined.
        let rest = self.buffer.split();
        self.has_slice.then(|| AccessUnit {
            bytes: rest.freeze(),
            key: self.is_key,
        })
    }

    /// Finds the next unexamined 00 00 01 with enough bytes after it.
    fn next_start_code(&mut self) -> Option<usize> {
        let from = self.searched;
        let found = self.buffer[from..]
            .windows(3)
            .position(|bytes| bytes == [0, 0, 1]);
        let Some(found) = found else {
            // The last two bytes may begin a start code.
            self.searched = self.buffer.len().saturating_sub(2).max(from);
            return None;
        };
        let start = from + found;
        self.searched = start;
        (start + 3 + LOOK_AHEAD <= self.buffer.len()).then_some(start)
    }
}

/// Returns true if the buffer begins, as far as it goes, with at least two zero bytes and a one.
fn may_begin_with_start_code(buffer: &[u8]) -> bool {
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

#[cfg(test)]
mod tests;
