//! The job that a client asks for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checksum::Hashing;
use super::throttle::{OnOff, throttle_complaint};
use crate::error::AppError;
use crate::time::micros;

/// The most data streams of one transfer, 128: as many unidirectional streams as
/// [`transport_config`](super::transport_config) lets a peer open.
pub const MAX_STREAMS: u16 = 128;

/// The most bytes of one transfer, 2^60: QUIC numbers the bytes of one stream below 2^62 (RFC 9000,
/// section 4.5).
pub const MAX_BYTES: u64 = 1 << 60;

/// The longest transfer that a client can ask for, a day.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest file name that a client can ask for, in bytes: Linux's PATH_MAX.
const MAX_NAME: usize = 4096;

/// The longest name of a controller, with its parameters, in bytes.
const MAX_CONTROLLER: usize = 300;

/// A transfer that a client asks for; serialised, it is the client's first message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Who sends.
    pub direction: Direction,
    /// How much to send.
    pub amount: Amount,
    /// Parallel data streams, 1 to [`MAX_STREAMS`]. They split a known number of bytes into as many
    /// ranges.
    pub streams: u16,
    /// Warm-up left out of [`Report::goodput_bps`](super::Report::goodput_bps), from the start of
    /// the data. An [`Amount::Duration`] includes it and must be longer.
    #[serde(rename = "omit_us", with = "micros")]
    pub omit: Duration,
    /// What both sides compute over the data, for the receiver to compare; `None` for nothing.
    pub verify: Option<Hashing>,
    /// The controller with which the server is to send, as in `vegas:alpha=2`; `None` leaves it to
    /// the server. Only with [`Direction::Down`], and at most 300 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// The sender's rate in bits of data per second, at least 1000; `None` for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Lengths of the sender's ON periods and of the OFF periods between them, each 1 ms to 20 s.
    /// With a rate, an ON period must have room for a packet of 1200 bytes.
    #[serde(rename = "on_off_us", default, skip_serializing_if = "Option::is_none")]
    pub on_off: Option<OnOff>,
}

/// Which way the data goes, seen from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// The client sends.
    Up,
    /// The server sends.
    Down,
}

/// How much to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many application bytes, at most [`MAX_BYTES`].
    Bytes(u64),
    /// As much as passes in this time; then the sender stops writing, and the receiver gets what
    /// was written.
    #[serde(rename = "duration_us", with = "micros")]
    Duration(Duration),
    /// The whole of the server's file of this name; only with [`Direction::Down`].
    File(String),
}

impl Job {
    /// Makes a job over one stream, without warm-up or rate limits, with BLAKE3.
    pub const fn new(direction: Direction, amount: Amount) -> Self {
        Self {
            direction,
            amount,
            streams: 1,
            omit: Duration::ZERO,
            verify: Some(Hashing::Blake3),
            controller: None,
            rate_bps: None,
            on_off: None,
        }
    }

    /// Checks all that does not need the source; both sides do.
    ///
    /// # Errors
    /// [`AppError::Job`] for no or too many streams, too many bytes, a time of zero, above a day or
    /// not above the warm-up, an upload of the server's file or with its controller, or a pattern
    /// out of its ranges.
    pub fn check(&self) -> Result<(), AppError> {
        let complaint = match &self.amount {
            _ if self.streams == 0 || self.streams > MAX_STREAMS => {
                format!(
                    "{} streams are not between 1 and {MAX_STREAMS}",
                    self.streams
                )
            }
            _ if self.omit > MAX_DURATION => "the warm-up is longer than a day".into(),
            Amount::Bytes(bytes) if *bytes > MAX_BYTES => {
                format!("{bytes} bytes are more than {MAX_BYTES}")
            }
            Amount::Duration(time) if time.is_zero() => "the time to send is zero".into(),
            Amount::Duration(time) if *time > MAX_DURATION => {
                "the time to send is longer than a day".into()
            }
            Amount::Duration(time) if *time <= self.omit => {
                "the warm-up leaves nothing of the time to send".into()
            }
            Amount::File(_) if self.direction == Direction::Up => {
                "a server's file can be downloaded only".into()
            }
            Amount::File(name) if name.is_empty() || name.len() > MAX_NAME => {
                format!("the file name is empty or longer than {MAX_NAME} bytes")
            }
            _ if self.controller.is_some() && self.direction == Direction::Up => {
                "a server's controller is of no use to an upload".into()
            }
            _ if (self.controller.as_ref()).is_some_and(|name| name.len() > MAX_CONTROLLER) => {
                format!("the controller's name is longer than {MAX_CONTROLLER} bytes")
            }
            _ => match throttle_complaint(self.rate_bps, self.on_off) {
                Some(complaint) => complaint,
                None => return Ok(()),
            },
        };
        Err(AppError::Job(complaint))
    }
}
