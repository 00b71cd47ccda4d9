//! Sources and sinks of a transfer's bytes.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWrite;

use super::report::CpuClock;
use crate::lock::lock;
use crate::time::micros_since_1970;

/// The least bytes handed to quinn in one piece, if there are as many, 16 KiB.
pub(super) const LEAST_CHUNK: usize = 16 * 1024;

/// The most bytes handed to quinn at once, 128 KiB.
pub(super) const MOST_AT_ONCE: usize = 128 * 1024;

/// How long a side waits by default while nothing moves, 30 s: as long as QUIC waits for a vanished
/// peer.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// The client's own end of a transfer. The direction decides which of source and sink it uses.
#[derive(Clone)]
pub struct Local {
    /// What an upload sends.
    pub source: Source,
    /// Where a download goes.
    pub sink: Sink,
    /// The transfer fails after this long without any byte moving.
    pub patience: Duration,
    /// Reads the processor time for the report.
    pub cpu: Option<CpuClock>,
}

/// What to send.
#[derive(Clone, Default)]
pub enum Source {
    /// One block of pseudo-random bytes over and over, sent without copying.
    #[default]
    Generated,
    /// These bytes.
    Memory(Bytes),
    /// Bytes that can be read from any offset, such as a file's.
    Stored(Arc<dyn Readable>),
    /// Bytes of unknown number that come once, such as a pipe's; [`Source::piped`] makes it. They
    /// take one stream, and an [`Amount::Duration`](super::Amount) within which they must end.
    Piped(Arc<Mutex<Option<Pieces>>>),
}

/// Where received bytes go.
#[derive(Clone, Default)]
pub enum Sink {
    /// Nowhere; they are counted, and hashed if the job asks for it.
    #[default]
    Discard,
    /// To storage that can be written at any offset, such as a file.
    Stored(Arc<dyn Writable>),
}

/// A part of a source, piece by piece. An error ends the transfer.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Writes a part of what is received.
pub type Writer = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// Bytes of known length that several readers may read side by side.
pub trait Readable: Send + Sync {
    /// The length in bytes. The transfer fails if the pieces end earlier.
    fn length(&self) -> u64;

    /// Reads from byte `offset` on. Pieces may have any length above 0.
    fn read(&self, offset: u64) -> Pieces;

    /// Returns what else a receiver may keep of it.
    fn attributes(&self) -> Option<Attributes> {
        None
    }

    /// Checks, when all has been read, that the bytes are still those of the beginning.
    ///
    /// # Errors
    /// If they may have changed, which ends the transfer.
    fn unchanged(&self) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// Storage that several writers may fill side by side.
pub trait Writable: Send + Sync {
    /// Checks that there is room for this many bytes, before any of them is sent.
    ///
    /// # Errors
    /// If there is not, which ends the transfer.
    fn room(&self, _bytes: u64) -> BoxFuture<'_, io::Result<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Takes what the sender says of its file, before any byte of it. The sender may lie.
    fn describe(&self, _attributes: Attributes) {}

    /// Opens a writer at byte `offset`; it is shut down at the end of its range.
    ///
    /// # Errors
    /// The storage's error, which ends the transfer.
    fn writer(&self, offset: u64) -> BoxFuture<'_, io::Result<Writer>>;
}

/// What a file is besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attributes {
    /// Who may read, write and run it: the bits 0o777 of its mode. Others have no meaning.
    pub mode: u16,
    /// When it was last written to, exact to the microsecond.
    #[serde(rename = "modified_us", with = "micros_since_1970")]
    pub modified: SystemTime,
}

/// Feeds one data stream from a [`Source`].
pub(super) struct Feed {
    pieces: Pieces,
    /// What is left of the last piece.
    rest: Bytes,
    /// Whether the pieces may end anywhere.
    piped: bool,
}

impl Default for Local {
    fn default() -> Self {
        Self {
            source: Source::Generated,
            sink: Sink::Discard,
            patience: PATIENCE,
            cpu: None,
        }
    }
}

impl Source {
    /// Makes a source of the bytes of a pipe.
    pub fn piped(pieces: Pieces) -> Self {
        Self::Piped(Arc::new(Mutex::new(Some(pieces))))
    }

    /// Returns the length in bytes, if the source has one.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Generated | Self::Piped(_) => None,
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::Stored(storage) => Some(storage.length()),
        }
    }

    /// Returns what the source is besides its bytes.
    pub(super) fn attributes(&self) -> Option<Attributes> {
        match self {
            Self::Generated | Self::Memory(_) | Self::Piped(_) => None,
            Self::Stored(storage) => storage.attributes(),
        }
    }

    /// Checks that what was read is what the source still has.
    pub(super) async fn unchanged(&self) -> io::Result<()> {
        match self {
            Self::Generated | Self::Memory(_) | Self::Piped(_) => Ok(()),
            Self::Stored(storage) => storage.unchanged().await,
        }
    }

    pub(super) fn feed(&self, offset: u64) -> Feed {
        let rest = Bytes::new();
        let pieces = match self {
            Self::Generated => {
                let chunk = generated_chunk();
                stream::repeat_with(move || Ok(chunk.clone())).boxed()
            }
            Self::Memory(bytes) => {
                let start = usize::try_from(offset).map_or(bytes.len(), |o| o.min(bytes.len()));
                stream::iter([Ok(bytes.slice(start..))]).boxed()
            }
            Self::Stored(storage) => storage.read(offset),
            Self::Piped(pieces) => lock(pieces).take().unwrap_or_else(|| {
                let read = io::Error::other("a pipe can be sent once only");
                stream::iter([Err(read)]).boxed()
            }),
        };
        Feed {
            pieces,
            rest,
            piped: matches!(self, Self::Piped(_)),
        }
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({:?})", self.length())
    }
}

impl Sink {
    /// Checks that there is room for this many bytes.
    pub(super) async fn room(&self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Discard => Ok(()),
            Self::Stored(storage) => storage.room(bytes).await,
        }
    }

    /// Takes what the sender says of its file.
    pub(super) fn describe(&self, attributes: Attributes) {
        match self {
            Self::Discard => {}
            Self::Stored(storage) => storage.describe(attributes),
        }
    }

    /// Opens one data stream's writer, from byte `offset` on.
    pub(super) async fn writer(&self, offset: u64) -> io::Result<Writer> {
        match self {
            Self::Discard => Ok(Box::new(tokio::io::sink())),
            Self::Stored(storage) => storage.writer(offset).await,
        }
    }
}

impl Feed {
    pub(super) fn is_piped(&self) -> bool {
        self.piped
    }

    /// Returns whether more bytes can be had without waiting.
    pub(super) fn is_ready(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Returns the next bytes, at least one and at most `limit` (which is not 0) and
    /// [`MOST_AT_ONCE`]; none at the end of a pipe.
    ///
    /// # Errors
    /// A read error, or `UnexpectedEof` when the source is exhausted.
    pub(super) async fn next(&mut self, limit: u64) -> io::Result<Bytes> {
        if self.rest.is_empty() {
            self.rest = self.pieces.try_next().await?.unwrap_or_default();
        }
        if self.rest.is_empty() && !self.piped {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the source became shorter while it was read",
            ));
        }
        let limit = usize::try_from(limit).map_or(MOST_AT_ONCE, |limit| limit.min(MOST_AT_ONCE));
        Ok(self.rest.split_to(limit.min(self.rest.len())))
    }
}

/// Returns [`LEAST_CHUNK`] bytes of the SplitMix64 sequence from seed 0 (Steele, Lea and Flood 2014),
/// again and again: the same in every run, and incompressible on the path.
fn generated_chunk() -> Bytes {
    let mut state = 0u64;
    let mut chunk = BytesMut::with_capacity(LEAST_CHUNK);
    while chunk.len() < LEAST_CHUNK {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chunk.extend_from_slice(&(z ^ (z >> 31)).to_le_bytes());
    }
    chunk.repeat(MOST_AT_ONCE / LEAST_CHUNK).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_chunks_are_whole_and_always_the_same() {
        assert_eq!(generated_chunk().len(), MOST_AT_ONCE);
        assert_eq!(generated_chunk(), generated_chunk());
        // First output of SplitMix64 for seed 0, as published with its reference code.
        assert_eq!(
            generated_chunk()[..8],
            0xe220_a839_7b1d_cdaf_u64.to_le_bytes()
        );
    }

    #[tokio::test]
    async fn memory_is_read_from_the_offset_to_the_end() {
        let source = Source::Memory(Bytes::from_static(b"0123456789"));
        let mut feed = source.feed(7);
        assert_eq!(feed.next(2).await.unwrap(), "78");
        assert_eq!(feed.next(100).await.unwrap(), "9");
        let error = feed.next(1).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
