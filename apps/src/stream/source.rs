//! Cuts what an encoder makes into frames, whichever of the known formats it is in.

use std::time::Instant;

use bytes::Bytes;

use super::annexb::{AccessUnit, AccessUnits, AnnexBError};
use super::ts::{SYNC_BYTE, TransportStream, TsError};

/// Cuts a byte stream into frames.
#[derive(Default)]
pub struct Source(Format);

#[derive(Default)]
enum Format {
    /// Nothing has come.
    #[default]
    Unknown,
    /// H.264 or HEVC. The picture that is not complete began at this time.
    AnnexB(AccessUnits, Option<Instant>),
    Ts(Box<TransportStream>),
}

/// A byte stream of no known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It does not begin as a transport stream does.
    #[error(transparent)]
    AnnexB(#[from] AnnexBError),
    /// It began as a transport stream.
    #[error(transparent)]
    Ts(#[from] TsError),
}

impl Source {
    /// Takes in more of the stream, which came at `now`; returns the frames that are complete, and
    /// when the first byte of each came.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub fn push(
        &mut self,
        now: Instant,
        bytes: &[u8],
    ) -> Result<Vec<(Instant, AccessUnit)>, SourceError> {
        let Some(first) = bytes.first() else {
            return Ok(Vec::new());
        };
        if let Format::Unknown = self.0 {
            self.0 = match *first {
                SYNC_BYTE => Format::Ts(Box::default()),
                _ => Format::AnnexB(AccessUnits::default(), None),
            };
        }
        match &mut self.0 {
            Format::Unknown => unreachable!("it has just been recognised"),
            Format::AnnexB(units, began) => {
                let pictures = units.push(bytes)?.into_iter();
                let pictures = pictures.map(|unit| (began.replace(now).unwrap_or(now), unit));
                let pictures = pictures.collect();
                began.get_or_insert(now);
                Ok(pictures)
            }
            Format::Ts(stream) => Ok(stream.push(now, bytes)?),
        }
    }

    /// Returns whether a frame has begun of which [`flush`](Self::flush) may return what there is.
    pub fn has_begun(&self) -> bool {
        match &self.0 {
            Format::Unknown => false,
            Format::AnnexB(_, began) => began.is_some(),
            Format::Ts(stream) => stream.has_begun(),
        }
    }

    /// Returns what there is of frames that have begun, because nothing came after them for a while.
    /// What may yet come of a picture becomes a frame of its own with which nothing can begin.
    pub fn flush(&mut self) -> Vec<(Instant, AccessUnit)> {
        match &mut self.0 {
            Format::Unknown => Vec::new(),
            Format::AnnexB(units, began) => {
                let at = began.take();
                at.zip(units.flush()).into_iter().collect()
            }
            Format::Ts(stream) => stream.flush(),
        }
    }

    /// Ends the stream at `now`; returns the last frames.
    pub fn finish(self, now: Instant) -> Vec<(Instant, AccessUnit)> {
        match self.0 {
            Format::Unknown => Vec::new(),
            Format::AnnexB(units, began) => {
                let last = units.finish().into_iter();
                last.map(|unit| (began.unwrap_or(now), unit)).collect()
            }
            Format::Ts(stream) => stream.finish(),
        }
    }

    /// Returns what viewers have to get before any frame, once that is known: the tables of a
    /// transport stream, nothing otherwise.
    pub fn tables(&self) -> Option<Bytes> {
        match &self.0 {
            Format::Unknown => None,
            Format::AnnexB(..) => Some(Bytes::new()),
            Format::Ts(stream) => stream.tables(),
        }
    }
}
