//! SHA-256 of a transfer's data.

use std::future::pending;
use std::{fmt, str::FromStr};

use bytes::Bytes;
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use quinn::Runtime;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};

use crate::error::AppError;

/// A SHA-256 digest, displayed and serialised as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum([u8; 32]);

impl Checksum {
    /// Computes the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Combines all streams' digests as [`Report::checksum`](super::Report::checksum) says.
    pub(super) fn combined(streams: &[Self]) -> Option<Self> {
        match streams {
            [] => None,
            [only] => Some(*only),
            several => {
                let digests: Vec<_> = several.iter().map(|stream| stream.0).collect();
                Some(Self::of(&digests.concat()))
            }
        }
    }
}

/// Pieces of data, each what a stream moves at once, that may wait for a [`Hasher`]: at most a
/// megabyte.
const WAITING: usize = 8;

/// Hashes the data of one stream in a task of its own, so that the stream need not wait while
/// another processor is free.
pub(super) struct Hasher {
    pieces: mpsc::Sender<Vec<Bytes>>,
    digest: oneshot::Receiver<Checksum>,
}

/// Room for one more piece. Unlike handing it over, waiting for room loses nothing when it is given
/// up.
pub(super) type Room<'a> = mpsc::Permit<'a, Vec<Bytes>>;

impl Hasher {
    pub(super) fn spawn(runtime: &dyn Runtime) -> Self {
        let (pieces, mut waiting) = mpsc::channel::<Vec<Bytes>>(WAITING);
        let (done, digest) = oneshot::channel();
        runtime.spawn(Box::pin(async move {
            let mut hasher = Sha256::new();
            while let Some(piece) = waiting.recv().await {
                for chunk in piece {
                    hasher.update(&chunk);
                }
            }
            // Nobody asks if the transfer has failed.
            let _ = done.send(Checksum(hasher.finalize().into()));
        }));
        Self { pieces, digest }
    }

    /// Waits until the task has room for another piece.
    pub(super) async fn room(&self) -> Room<'_> {
        match self.pieces.reserve().await {
            Ok(room) => room,
            // The runtime has ended the task, and ends this one next.
            Err(_) => pending().await,
        }
    }

    /// Returns the checksum of all pieces, in their order.
    pub(super) async fn finish(self) -> Checksum {
        drop(self.pieces);
        match self.digest.await {
            Ok(checksum) => checksum,
            // The runtime has ended the task, and ends this one next.
            Err(_) => pending().await,
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

    fn try_from(hex: String) -> Result<Self, AppError> {
        hex.parse()
    }
}

impl FromStr for Checksum {
    type Err = AppError;

    fn from_str(hex: &str) -> Result<Self, AppError> {
        let digest = HEXLOWER_PERMISSIVE.decode(hex.as_bytes()).ok();
        let digest = digest.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        digest
            .map(Self)
            .ok_or_else(|| AppError::protocol("a SHA-256 is not 64 hexadecimal digits"))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
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

    proptest! {
        #[test]
        fn any_text_is_a_checksum_or_an_error(text in ".{0,80}") {
            if let Ok(checksum) = text.parse::<Checksum>() {
                prop_assert_eq!(checksum.to_string(), text.to_lowercase());
            }
        }

        #[test]
        fn a_checksum_reads_back_as_written(digest in any::<[u8; 32]>()) {
            let checksum = Checksum(digest);
            prop_assert_eq!(checksum.to_string().parse::<Checksum>().unwrap(), checksum);
        }
    }

    #[test]
    fn one_streams_checksum_is_the_datas_own() {
        let data = Checksum::of(b"abc");
        // The example of FIPS 180-4 for the message "abc".
        assert_eq!(
            data.to_string(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!(Checksum::combined(&[data]), Some(data));
        let both = [data.0, data.0].concat();
        assert_eq!(Checksum::combined(&[data, data]), Some(Checksum::of(&both)));
    }
}
