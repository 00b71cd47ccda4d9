//! A frame on the wire: `docs/stream.md` has the layout.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::cause::Cause;
use super::lateness::Delays;
use super::track::Track;
use crate::error::AppError;

/// The longest frame, 8 MiB: a key frame at 1 Gb/s and 25 frames a second has 5 MB.
pub const MAX_FRAME: usize = 8 << 20;

/// Bytes before a frame's content on a stream.
pub const HEADER_LEN: usize = 32;

/// Bytes before a fragment's content in a datagram: a frame's header and the fragment's offset.
pub const FRAGMENT_HEADER_LEN: usize = HEADER_LEN + 4;

/// Incomplete frames whose fragments are kept.
const MAX_PARTIAL_FRAMES: usize = 256;

/// Bytes of fragments that are kept: 4 of the longest frames.
const MAX_PARTIAL_BYTES: usize = 4 * MAX_FRAME;

/// Fragments that are kept: those of as many bytes in datagrams of 1 KiB. Each may hold the memory
/// of a whole datagram, however little of it is content.
const MAX_FRAGMENTS: usize = MAX_PARTIAL_BYTES / 1024;

/// The header of a frame, sent before its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Of what it is a part.
    pub track: Track,
    /// Number of the frame in its track, from 0 in the order of capture.
    pub sequence: u32,
    /// Time of capture, in microseconds on the sender's clock.
    pub captured_us: u64,
    /// The encoder's target for the frame, in bits per second.
    pub bitrate_bps: u32,
    /// Bytes of content, 1 to [`MAX_FRAME`].
    pub length: u32,
    /// A decoder can begin here: pictures are right after this many more
    /// frames. 0 is a key frame; more, at most 254, is a recovery point. `None`: it needs an earlier
    /// frame.
    pub entry: Option<u8>,
    /// What has delayed it so far.
    pub delays: Delays,
    /// Why earlier frames of its track were given up since the frame before.
    pub given_up: Option<Cause>,
}

/// Joins the fragments of frames; forgets frames that do not become complete in time.
#[derive(Debug, Default)]
pub struct Assembly {
    partial: BTreeMap<(Track, u32), Partial>,
    bytes: usize,
    fragments: usize,
}

#[derive(Debug)]
struct Partial {
    header: Header,
    /// The fragments by the offset of their first byte; they do not overlap.
    fragments: BTreeMap<u32, Bytes>,
    received: usize,
}

impl Header {
    /// Appends the header as it goes on the wire.
    pub fn encode(&self, out: &mut BytesMut) {
        out.put_u8(self.entry.map_or(0, |frames| frames.saturating_add(1)));
        out.put_u8(self.track.byte());
        out.put_u32(self.sequence);
        out.put_u64(self.captured_us);
        out.put_u32(self.bitrate_bps);
        out.put_u32(self.length);
        let d = &self.delays;
        out.put_slice(&[d.encoder_cs, d.own_queue_cs, d.window_cs, d.flow_control_cs]);
        out.put_slice(&[d.queue_cs, d.hop_cs, d.losses]);
        out.put_slice(&[d.held_clock_cs, d.blocked_clock_cs]);
        out.put_u8(Cause::byte(self.given_up));
    }

    /// # Errors
    /// [`AppError::Protocol`] for an impossible length.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, AppError> {
        let mut rest = &bytes[..];
        let header = Self {
            entry: rest.get_u8().checked_sub(1),
            track: Track::of_byte(rest.get_u8()),
            sequence: rest.get_u32(),
            captured_us: rest.get_u64(),
            bitrate_bps: rest.get_u32(),
            length: rest.get_u32(),
            delays: Delays {
                encoder_cs: rest.get_u8(),
                own_queue_cs: rest.get_u8(),
                window_cs: rest.get_u8(),
                flow_control_cs: rest.get_u8(),
                queue_cs: rest.get_u8(),
                hop_cs: rest.get_u8(),
                losses: rest.get_u8(),
                held_clock_cs: rest.get_u8(),
                blocked_clock_cs: rest.get_u8(),
            },
            given_up: Cause::of_byte(rest.get_u8()),
        };
        if header.length == 0 || header.length as usize > MAX_FRAME {
            return Err(AppError::protocol(format!(
                "a frame of {} bytes",
                header.length
            )));
        }
        Ok(header)
    }

    /// Makes a datagram of the content that begins at byte `offset` of the frame.
    pub fn fragment(&self, offset: u32, content: &[u8]) -> Bytes {
        let mut datagram = BytesMut::with_capacity(FRAGMENT_HEADER_LEN + content.len());
        self.encode(&mut datagram);
        datagram.put_u32(offset);
        datagram.put_slice(content);
        datagram.freeze()
    }
}

impl Assembly {
    /// Takes in one datagram; returns the frame that it completes.
    ///
    /// # Errors
    /// [`AppError::Protocol`] for anything but a fragment, or one that contradicts an earlier one.
    pub fn add(&mut self, mut datagram: Bytes) -> Result<Option<(Header, Bytes)>, AppError> {
        let Some((head, _)) = datagram.split_first_chunk::<HEADER_LEN>() else {
            return Err(AppError::protocol("a datagram is shorter than a header"));
        };
        let header = Header::decode(head)?;
        if datagram.len() <= FRAGMENT_HEADER_LEN {
            return Err(AppError::protocol("a datagram without content"));
        }
        datagram.advance(HEADER_LEN);
        let offset = datagram.get_u32();
        let end = offset as usize + datagram.len();
        if end > header.length as usize {
            return Err(AppError::protocol("a fragment is longer than its frame"));
        }
        let number = (header.track, header.sequence);
        let partial = self.partial.entry(number).or_insert(Partial {
            header,
            fragments: BTreeMap::new(),
            received: 0,
        });
        if partial.header != header {
            return Err(AppError::protocol(
                "two fragments of a frame differ in its header",
            ));
        }
        let before = partial.fragments.range(..=offset).next_back();
        let after = partial.fragments.range(offset..).next();
        if before.is_some_and(|(at, bytes)| *at as usize + bytes.len() > offset as usize)
            || after.is_some_and(|(at, _)| (*at as usize) < end)
        {
            return Err(AppError::protocol("fragments of a frame overlap"));
        }
        self.bytes += datagram.len();
        partial.received += datagram.len();
        partial.fragments.insert(offset, datagram);
        self.fragments += 1;
        if partial.received < header.length as usize {
            self.forget();
            return Ok(None);
        }
        let partial = self.remove(number);
        let mut content = BytesMut::with_capacity(partial.received);
        partial
            .fragments
            .values()
            .for_each(|bytes| content.put_slice(bytes));
        Ok(Some((header, content.freeze())))
    }

    /// Forgets the frames captured first while too many frames, fragments or bytes are kept.
    fn forget(&mut self) {
        while self.partial.len() > MAX_PARTIAL_FRAMES
            || self.fragments > MAX_FRAGMENTS
            || self.bytes > MAX_PARTIAL_BYTES
        {
            let frames = self.partial.iter();
            let oldest = frames.min_by_key(|(_, partial)| partial.header.captured_us);
            let (number, _) = oldest.expect("bytes are of frames");
            self.remove(*number);
        }
    }

    fn remove(&mut self, number: (Track, u32)) -> Partial {
        let partial = self
            .partial
            .remove(&number)
            .expect("asked for what is there");
        self.bytes -= partial.received;
        self.fragments -= partial.fragments.len();
        partial
    }
}

#[cfg(test)]
mod tests;
