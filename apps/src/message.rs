//! Reads and writes messages on the control streams of applications: a length in two bytes,
//! big-endian, and that many bytes of JSON.

use quinn::{ReadExactError, RecvStream, SendStream};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{AppError, printable};

/// The longest message, 16 KiB: room for the checksums of all streams of a bulk transfer.
pub(crate) const MAX_MESSAGE: usize = 16 * 1024;

/// Sends one message.
pub(crate) async fn write<T: Serialize>(
    stream: &mut SendStream,
    message: &T,
) -> Result<(), AppError> {
    stream.write_all(&encode(message)).await?;
    Ok(())
}

/// Receives one message.
///
/// # Errors
/// [`AppError::Protocol`] if it is too long or of another kind than expected.
pub(crate) async fn read<T: DeserializeOwned>(stream: &mut RecvStream) -> Result<T, AppError> {
    let message = read_next(stream).await?;
    message.ok_or_else(|| ReadExactError::FinishedEarly(0).into())
}

/// Receives the next message; `None` if the stream has ended.
///
/// # Errors
/// As of [`read`].
pub(crate) async fn read_next<T: DeserializeOwned>(
    stream: &mut RecvStream,
) -> Result<Option<T>, AppError> {
    let mut prefix = [0; 2];
    match stream.read_exact(&mut prefix).await {
        Err(ReadExactError::FinishedEarly(0)) => return Ok(None),
        read => read?,
    }
    let length = checked_length(prefix)?;
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await?;
    decode(&message).map(Some)
}

pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    let json = serde_json::to_vec(message).expect("messages have string keys and no maps");
    let length = u16::try_from(json.len())
        .ok()
        .filter(|&l| usize::from(l) <= MAX_MESSAGE)
        .expect("what applications say is bounded, checksums of 128 streams included");
    let mut message = length.to_be_bytes().to_vec();
    message.extend_from_slice(&json);
    message
}

pub(crate) fn checked_length(prefix: [u8; 2]) -> Result<usize, AppError> {
    let length = usize::from(u16::from_be_bytes(prefix));
    if length > MAX_MESSAGE {
        return Err(AppError::protocol(format!(
            "a message of {length} bytes is longer than {MAX_MESSAGE}"
        )));
    }
    Ok(length)
}

pub(crate) fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, AppError> {
    serde_json::from_slice(message).map_err(|error| {
        let error = printable(&error.to_string());
        AppError::protocol(format!("unreadable message ({error})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_above_the_limit_is_refused_before_it_is_read() {
        assert!(checked_length(0xffff_u16.to_be_bytes()).is_err());
        assert_eq!(checked_length([0x40, 0x00]).unwrap(), MAX_MESSAGE);
    }
}
