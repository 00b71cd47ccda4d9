//! Checksums of a transfer's data.

use std::future::pending;
use std::{fmt, str::FromStr};

use bytes::Bytes;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use quinn::Runtime;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use crate::error::AppError;

/// A hash function of transfers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hashing {
    /// BLAKE3, a tree hash: about 0.2 s of a processor for a GB.
    #[default]
    Blake3,
    /// SHA-256, as sha256sum(1) computes it: about 1.1 s of a processor for a GB without special
    /// instructions.
    Sha256,
}

/// The digest of some bytes and the function that made it, displayed and serialised as `blake3:` or
/// `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum {
    hashing: Hashing,
    digest: [u8; 32],
}

impl Hashing {
    /// Computes the checksum of some bytes.
    pub fn of(self, bytes: &[u8]) -> Checksum {
        let digest = match self {
            Self::Blake3 => *blake3::hash(bytes).as_bytes(),
            Self::Sha256 => Sha256::digest(bytes).into(),
        };
        Checksum {
            hashing: self,
            digest,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
        }
    }
}

impl Checksum {
    /// Returns the function that made it.
    pub fn hashing(&self) -> Hashing {
        self.hashing
    }

    /// Combines all streams' digests as [`Report::checksum`](super::Report::checksum) says.
    pub(super) fn combined(streams: &[Self]) -> Option<Self> {
        match streams {
            [] => None,
            [only] => Some(*only),
            [first, ..] => {
                let digests: Vec<_> = streams.iter().map(|stream| stream.digest).collect();
                Some(first.hashing.of(&digests.concat()))
            }
        }
    }
}

/// Bytes hashed at once, if a stream has them in smaller pieces: BLAKE3 computes up to 16 KiB in
/// parallel.
const BLOCK: usize = 16 * 1024;

/// Bytes that a [`Hasher`] hands to its task at once: with less, waking the task costs as much as
/// hashing.
const PIECE: usize = 256 * 1024;

/// Pieces that may wait for the task: a megabyte and what a stream moves at once.
const WAITING: usize = 4;

/// Hashes the data of one stream in a task of its own, so that the stream need not wait while
/// another processor is free.
pub(super) struct Hasher {
    pieces: mpsc::Sender<Vec<Bytes>>,
    /// What makes no piece yet.
    gathered: Gathered,
    digest: oneshot::Receiver<Checksum>,
}

#[derive(Default)]
struct Gathered {
    chunks: Vec<Bytes>,
    bytes: usize,
}

/// Room for one more piece. Unlike handing it over, waiting for room loses nothing when it is given
/// up.
pub(super) struct Room<'a> {
    permit: mpsc::Permit<'a, Vec<Bytes>>,
    gathered: &'a mut Gathered,
}

impl Room<'_> {
    /// Has these bytes hashed after those before.
    pub(super) fn add(self, chunks: impl IntoIterator<Item = Bytes>) {
        for chunk in chunks {
            self.gathered.bytes += chunk.len();
            self.gathered.chunks.push(chunk);
        }
        if self.gathered.bytes >= PIECE {
            self.permit.send(std::mem::take(self.gathered).chunks);
        }
    }
}

impl Hasher {
    pub(super) fn spawn(hashing: Hashing, runtime: &dyn Runtime) -> Self {
        let (pieces, mut waiting) = mpsc::channel::<Vec<Bytes>>(WAITING);
        let (done, digest) = oneshot::channel();
        runtime.spawn(Box::pin(async move {
            let mut state = State::new(hashing);
            while let Some(piece) = waiting.recv().await {
                for chunk in piece {
                    state.update(&chunk);
                }
            }
            // Nobody asks if the transfer has failed.
            let _ = done.send(state.finish());
        }));
        Self {
            pieces,
            gathered: Gathered::default(),
            digest,
        }
    }

    /// Waits until the task has room for another piece.
    pub(super) async fn room(&mut self) -> Room<'_> {
        match self.pieces.reserve().await {
            Ok(permit) => Room {
                permit,
                gathered: &mut self.gathered,
            },
            // The runtime has ended the task, and ends this one next.
            Err(_) => pending().await,
        }
    }

    /// Returns the checksum of all pieces, in their order.
    pub(super) async fn finish(self) -> Checksum {
        // It fails as the digest does.
        let _ = self.pieces.send(self.gathered.chunks).await;
        drop(self.pieces);
        match self.digest.await {
            Ok(checksum) => checksum,
            // The runtime has ended the task, and ends this one next.
            Err(_) => pending().await,
        }
    }
}

/// A checksum that is being computed.
enum State {
    /// With bytes that do not make a block yet.
    Blake3(Box<blake3::Hasher>, Vec<u8>),
    Sha256(Sha256),
}

impl State {
    fn new(hashing: Hashing) -> Self {
        match hashing {
            Hashing::Blake3 => Self::Blake3(Box::default(), Vec::with_capacity(BLOCK)),
            Hashing::Sha256 => Self::Sha256(Sha256::new()),
        }
    }

    fn update(&mut self, mut bytes: &[u8]) {
        let (hasher, block) = match self {
            Self::Sha256(hasher) => return hasher.update(bytes),
            Self::Blake3(hasher, block) => (hasher, block),
        };
        while block.len() + bytes.len() >= BLOCK {
            if block.is_empty() {
                let whole = bytes.len() / BLOCK * BLOCK;
                hasher.update(&bytes[..whole]);
                bytes = &bytes[whole..];
                continue;
            }
            let (rest, later) = bytes.split_at(BLOCK - block.len());
            block.extend_from_slice(rest);
            hasher.update(block);
            block.clear();
            bytes = later;
        }
        block.extend_from_slice(bytes);
    }

    fn finish(self) -> Checksum {
        match self {
            Self::Sha256(hasher) => Checksum {
                hashing: Hashing::Sha256,
                digest: hasher.finalize().into(),
            },
            Self::Blake3(mut hasher, block) => Checksum {
                hashing: Hashing::Blake3,
                digest: *hasher.update(&block).finalize().as_bytes(),
            },
        }
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

impl TryFrom<String> for Checksum {
    type Error = AppError;

    fn try_from(text: String) -> Result<Self, AppError> {
        text.parse()
    }
}

impl FromStr for Checksum {
    type Err = AppError;

    fn from_str(text: &str) -> Result<Self, AppError> {
        let parsed = text.split_once(':').and_then(|(name, hex)| {
            let both = [Hashing::Blake3, Hashing::Sha256];
            let hashing = both.into_iter().find(|hashing| hashing.name() == name)?;
            let digest = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok()?;
            Some(Self {
                hashing,
                digest: digest.try_into().ok()?,
            })
        });
        parsed.ok_or_else(|| {
            AppError::protocol("a checksum is not blake3: or sha256: and 64 hexadecimal digits")
        })
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}",
            self.hashing.name(),
            HEXLOWER.encode(&self.digest)
        )
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_hashing() -> impl Strategy<Value = Hashing> {
        prop_oneof![Just(Hashing::Blake3), Just(Hashing::Sha256)]
    }

    proptest! {
        #[test]
        fn any_text_is_a_checksum_or_an_error(text in "((blake3|sha256):)?.{0,80}") {
            if let Ok(checksum) = text.parse::<Checksum>() {
                prop_assert_eq!(checksum.to_string(), text.to_lowercase());
            }
        }

        #[test]
        fn a_checksum_reads_back_as_written(hashing in any_hashing(), digest in any::<[u8; 32]>()) {
            let checksum = Checksum { hashing, digest };
            prop_assert_eq!(checksum.to_string().parse::<Checksum>().unwrap(), checksum);
        }

        #[test]
        fn data_in_pieces_has_the_checksum_of_the_whole(
            hashing in any_hashing(),
            lengths in proptest::collection::vec(0..3 * BLOCK, 0..8),
        ) {
            let whole: Vec<u8> = (0..lengths.iter().sum()).map(|at: usize| at as u8).collect();
            let (mut state, mut rest) = (State::new(hashing), &whole[..]);
            for length in lengths {
                let (piece, later) = rest.split_at(length);
                state.update(piece);
                rest = later;
            }
            prop_assert_eq!(state.finish(), hashing.of(&whole));
        }
    }

    #[test]
    fn checksums_are_those_that_others_compute() {
        // The example of FIPS 180-4 for the message "abc", and BLAKE3's for no bytes.
        assert_eq!(
            Hashing::Sha256.of(b"abc").to_string(),
            "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(
            Hashing::Blake3.of(b"").to_string(),
            "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    #[test]
    fn one_streams_checksum_is_the_datas_own() {
        for hashing in [Hashing::Blake3, Hashing::Sha256] {
            let data = hashing.of(b"abc");
            assert_eq!(Checksum::combined(&[data]), Some(data));
            let both = hashing.of(&[data.digest, data.digest].concat());
            assert_eq!(Checksum::combined(&[data, data]), Some(both));
        }
    }
}
