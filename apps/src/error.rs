//! Errors that end a transfer or a stream early.

use std::{io, time::Duration};

use quinn::{ConnectionError, ReadError, ReadExactError, VarInt, WriteError};

/// The longest text of a peer to show, in characters.
const MAX_PEER_TEXT: usize = 300;

/// The refusal of a controller by a server that has one only.
pub(crate) const OWN_CONTROLLER: &str = "it sends with its own controller only";

/// Why a transfer or a stream failed. Each prints as one line without control characters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The job contradicts itself or its source; the text says how.
    #[error("{0}")]
    Job(String),
    /// The server refused; its reason.
    #[error("the server refused: {0}")]
    Refused(String),
    /// The peer ended the transfer or stream early; its reason.
    #[error("the peer gave up: {0}")]
    PeerGaveUp(String),
    /// The peer sent something that the protocol does not allow.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// The peer is there, but has sent and accepted nothing for this long.
    #[error("it stalled: nothing moved for {} s", .0.as_secs_f64())]
    Stalled(Duration),
    /// The peer sends or takes so little that it only holds a place.
    #[error("it was too slow: less than {least} bytes moved in {} s", .span.as_secs_f64())]
    TooSlow {
        /// The least number of bytes.
        least: u64,
        /// In this time.
        span: Duration,
    },
    /// The server has as many connections as it takes, in all or from the peer's network.
    #[error("the server is full")]
    Full,
    /// It took longer than this side allows.
    #[error("it was cut off: it took longer than {} s", .0.as_secs_f64())]
    TooLong(Duration),
    /// The stream has ended, and nothing of it came with which decoding can begin.
    #[error("the stream ended without anything with which decoding can begin")]
    Nothing,
    /// The received bytes are not those that were sent.
    #[error("verification failed: what arrived is not what was sent (size or checksum differ)")]
    Mismatch,
    /// Reading the source or writing the sink failed.
    #[error("{action} failed: {error}")]
    Storage {
        /// The action that failed.
        action: &'static str,
        /// The storage's error.
        error: io::Error,
    },
    /// The QUIC connection was lost.
    #[error("connection lost: {}", printable(&.0.to_string()))]
    Connection(ConnectionError),
}

/// Closes `connection` after its work; if that failed, tells the peer why.
pub(crate) fn close<T>(connection: &quinn::Connection, result: &Result<T, AppError>) {
    match result {
        Ok(_) => evenkeel::close(connection, VarInt::from_u32(0), b"done"),
        Err(error) => evenkeel::close(connection, error.code(), error.reason().as_bytes()),
    }
}

impl AppError {
    pub(crate) fn protocol(how: impl Into<String>) -> Self {
        Self::Protocol(how.into())
    }

    /// Says what could not be done with a storage.
    pub(crate) fn storage(action: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Storage { action, error }
    }

    /// Returns the application error code with which to close a connection after this error
    /// (RFC 9000, section 20.2); 0 means success.
    fn code(&self) -> VarInt {
        VarInt::from_u32(match self {
            Self::Job(_) | Self::Refused(_) | Self::Full => 1,
            Self::Protocol(_) => 2,
            Self::Stalled(_) | Self::TooSlow { .. } | Self::TooLong(_) => 3,
            Self::Mismatch => 4,
            Self::Storage { .. } => 5,
            Self::PeerGaveUp(_) | Self::Nothing | Self::Connection(_) => 6,
        })
    }

    /// Returns the text for the peer. Paths and system errors stay here.
    fn reason(&self) -> String {
        match self {
            Self::Storage { action, .. } => format!("{action} failed"),
            other => other.to_string(),
        }
    }
}

impl From<ConnectionError> for AppError {
    fn from(error: ConnectionError) -> Self {
        match error {
            ConnectionError::ApplicationClosed(close) => {
                let reason = printable(&String::from_utf8_lossy(&close.reason));
                Self::PeerGaveUp(if reason.is_empty() {
                    "it closed the connection early".into()
                } else {
                    reason
                })
            }
            other => Self::Connection(other),
        }
    }
}

impl From<ReadError> for AppError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ConnectionLost(error) => error.into(),
            other => Self::Protocol(format!("it broke off a stream ({other})")),
        }
    }
}

impl From<ReadExactError> for AppError {
    fn from(error: ReadExactError) -> Self {
        match error {
            ReadExactError::ReadError(error) => error.into(),
            ReadExactError::FinishedEarly(_) => Self::Protocol("a stream ended too early".into()),
        }
    }
}

impl From<WriteError> for AppError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::ConnectionLost(error) => error.into(),
            other => Self::Protocol(format!("it stopped a stream ({other})")),
        }
    }
}

/// Whether a character could make a line look as if it said something else: control characters, line
/// separators, and those that change the direction of text or are not seen (Unicode 16, categories
/// Zl and Zp, and of Cf those of UAX #9 and the zero-width ones).
pub(crate) fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Makes a peer's text safe for a terminal and a log line: bounded, and without [deceptive
/// characters](is_deceptive).
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .take(MAX_PEER_TEXT)
        .map(|c| if is_deceptive(c) { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_text_cannot_move_the_cursor_or_break_the_line() {
        let shown = printable("\x1b[2Jall\ngood\r\u{9b}1A");
        assert!(!shown.contains(char::is_control), "{shown:?}");
        assert_eq!(printable(&"x".repeat(10_000)).len(), MAX_PEER_TEXT);
    }

    #[test]
    fn a_peers_text_cannot_change_the_direction_of_a_line_or_hide_in_it() {
        let shown = printable("refused\u{202e}evil\u{2066}\u{200b}\u{2028}\u{feff}end");
        assert_eq!(shown, "refused evil    end");
        assert_eq!(printable("Grüße, 世界 \u{1f600}"), "Grüße, 世界 \u{1f600}");
    }

    #[test]
    fn a_system_error_is_not_told_to_the_peer() {
        let error = AppError::Storage {
            action: "reading the source",
            error: io::Error::other("/home/me/secret: no"),
        };
        assert!(error.to_string().contains("secret"));
        assert!(!error.reason().contains("secret"));
    }
}
