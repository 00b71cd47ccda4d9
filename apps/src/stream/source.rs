//! Cuts what an encoder makes into frames, whichever of the known formats it is in.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::annexb::{AccessUnit, AccessUnits, AnnexBError, may_begin_with_start_code};
use super::ts::{PACKET, SYNC_BYTE, TransportStream, TsError};

/// How long after its last byte a picture counts as whole, 3 ms: an encoder writes a picture at once,
/// and the next one 4 ms later or more (240 a second).
const QUIET: Duration = Duration::from_millis(3);

/// Each picture that was not whole doubles that time, up to 96 ms: a multiplexer with a constant rate
/// sends a picture over all of the time until the next one, which ends it then.
const DOUBLINGS: u32 = 5;

/// Bytes of a recording within which the order of frames does not matter: seven packets.
const PIECE: usize = 7 * PACKET;

/// Cuts a byte stream into frames as it comes.
#[derive(Default)]
pub struct Source {
    format: Format,
    doublings: u32,
}

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

impl SourceError {
    /// Returns whether a frame is longer than any may be.
    pub fn is_too_long(&self) -> bool {
        matches!(
            self,
            Self::AnnexB(AnnexBError::TooLong) | Self::Ts(TsError::TooLong)
        )
    }
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
        if let Format::Unknown = self.format {
            self.format = match *first {
                SYNC_BYTE => Format::Ts(Box::default()),
                _ if !may_begin_with_start_code(bytes) && has_packets(bytes) => {
                    Format::Ts(Box::default())
                }
                _ => Format::AnnexB(AccessUnits::default(), None),
            };
        }
        let (frames, went_on) = match &mut self.format {
            Format::Unknown => unreachable!("it has just been recognised"),
            Format::AnnexB(units, began) => {
                let pictures = units.push(bytes)?.into_iter();
                let pictures = pictures.map(|unit| (began.replace(now).unwrap_or(now), unit));
                let pictures = pictures.collect();
                began.get_or_insert(now);
                (pictures, units.went_on())
            }
            Format::Ts(stream) => (stream.push(now, bytes)?, stream.went_on()),
        };
        self.doublings = DOUBLINGS.min(self.doublings + u32::from(went_on));
        Ok(frames)
    }

    /// Returns how long nothing may come before [`flush`](Self::flush) returns a frame as whole.
    pub fn quiet(&self) -> Duration {
        QUIET * (1 << self.doublings)
    }

    /// Returns whether a frame has begun of which [`flush`](Self::flush) may return what there is.
    pub fn has_begun(&self) -> bool {
        match &self.format {
            Format::Unknown => false,
            Format::AnnexB(_, began) => began.is_some(),
            Format::Ts(stream) => stream.has_begun(),
        }
    }

    /// Returns what there is of frames that have begun, because nothing came after them for a while.
    /// What may yet come of a picture becomes a frame of its own with which nothing can begin.
    pub fn flush(&mut self) -> Vec<(Instant, AccessUnit)> {
        match &mut self.format {
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
        match self.format {
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
        match &self.format {
            Format::Unknown => None,
            Format::AnnexB(..) => Some(Bytes::new()),
            Format::Ts(stream) => stream.tables(),
        }
    }
}

/// Cuts a recorded byte stream into frames.
pub struct Recording {
    source: Source,
    /// A place in the stream stands for a time.
    at: Instant,
    frames: Vec<(Instant, AccessUnit)>,
}

impl Recording {
    /// Begins at `now`.
    pub fn new(now: Instant) -> Self {
        Self {
            source: Source::default(),
            at: now,
            frames: Vec::new(),
        }
    }

    /// Takes in more of the stream.
    ///
    /// # Errors
    /// See [`SourceError`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SourceError> {
        for piece in bytes.chunks(PIECE) {
            self.at += Duration::from_nanos(1);
            self.frames.extend(self.source.push(self.at, piece)?);
        }
        Ok(())
    }

    /// Ends the stream; returns all frames in the order in which they begin, and the tables in force.
    /// (A picture ends where the next one begins, after the sound between them.)
    pub fn finish(mut self) -> (Vec<AccessUnit>, Bytes) {
        let tables = self.source.tables().unwrap_or_default();
        self.frames.extend(self.source.finish(self.at));
        self.frames.sort_by_key(|(at, _)| *at);
        let frames = self.frames.into_iter().map(|(_, frame)| frame);
        (frames.collect(), tables)
    }
}

/// Returns whether packets of a transport stream begin in these bytes: three follow each other.
fn has_packets(bytes: &[u8]) -> bool {
    let is_sync = |at: usize| bytes.get(at) == Some(&SYNC_BYTE);
    (1..PACKET).any(|at| (0..3).all(|nth| is_sync(at + nth * PACKET)))
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::super::ts::tests::{SOUND, VIDEO, key_picture, pes, tables};
    use super::*;

    #[test]
    fn a_recorded_picture_comes_before_the_sound_that_follows_its_beginning() {
        let picture = |time| pes(VIDEO, time, 0x40, &key_picture(2000));
        let sound = |time| pes(SOUND, time, 0, &[7; 1500]);
        let stream = [tables(), picture(1), sound(2), picture(3), sound(4)].concat();
        let mut recording = Recording::new(epoch());
        recording.push(&stream).unwrap();
        let times = recording.finish().0.into_iter().map(|frame| frame.time);
        let expected = [None, Some(1), Some(2), Some(3), Some(4)];
        assert_eq!(times.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_transport_stream_may_begin_within_a_packet() {
        let stream = [[SYNC_BYTE; 1].as_slice(), &[0x1f, 0xff, 0x10], &[0; 184]].concat();
        let mut source = Source::default();
        source.push(epoch(), &stream.repeat(5)[100..]).unwrap();
        assert!(matches!(source.format, Format::Ts(_)));
        let mut source = Source::default();
        source.push(epoch(), &[0, 0, 0, 1, 0x65, 0x88, 7]).unwrap();
        assert!(matches!(source.format, Format::AnnexB(..)));
    }

    #[test]
    fn pictures_that_were_not_whole_have_it_wait_for_longer() {
        let mut source = Source::default();
        let mut wait_for = |quiet: u64, bytes: &[u8]| {
            source.push(epoch(), bytes).unwrap();
            assert_eq!(source.quiet(), ms(quiet));
            source.flush();
        };
        wait_for(3, &[0, 0, 0, 1, 0x65, 0x88, 7]);
        wait_for(6, &[7; 10]);
        wait_for(6, &[0, 0, 0, 1, 0x41, 0x9a, 7]);
        for quiet in [12, 24, 48, 96, 96] {
            wait_for(quiet, &[7; 10]);
        }
    }
}
