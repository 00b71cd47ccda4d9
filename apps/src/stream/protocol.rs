//! Messages on the control stream: `docs/stream.md` describes the conversation.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the server sends frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Each on a stream of its own: a lost packet delays its own frame only.
    #[default]
    Frames,
    /// Each group of pictures on a stream of its own: a lost packet delays what follows in its
    /// group.
    Groups,
    /// In fragments in datagrams (RFC 9221): what is lost stays lost. To measure, or for pictures
    /// that do not refer to each other.
    Datagrams,
}

/// Viewer to server: the first message on the control stream asks for the media, each later one for
/// the server's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Request {
    /// The viewer's clock when it sent this, in microseconds.
    pub(super) clock_us: u64,
    /// In the first message: the controller with which the server is to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) controller: Option<String>,
    /// In the first one: how long after its capture each frame is shown, in milliseconds, if that is
    /// fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) latency_ms: Option<u32>,
}

/// Server to viewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    /// The stream begins.
    Accepted(Accepted),
    /// The server refuses this viewer.
    Refused { reason: String },
}

/// What the viewer should know about the stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Accepted {
    /// The server's clock when it answered, in microseconds.
    pub(super) clock_us: u64,
    /// Pictures per second.
    pub(super) frame_rate: f64,
    /// Whether an encoder follows the connection, and frames tell its bitrate.
    pub(super) encoded: bool,
    /// What belongs before all frames, in hexadecimal digits: the tables of a transport stream.
    pub(super) tables: String,
}

/// Server to viewer, once the stream has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Notice {
    /// The server's clock.
    Clock {
        /// The viewer's clock in the request.
        asked_us: u64,
        /// The server's clock when it answered, in microseconds.
        clock_us: u64,
    },
    /// After the last frame.
    End {
        /// The number of frames captured.
        frames: u32,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{decode, encode};

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<Answer>(&bytes);
            let _ = decode::<Notice>(&bytes);
        }

        #[test]
        fn an_answer_arrives_as_it_was_sent(clock_us in any::<u64>(), frames in 1_u32..=240) {
            let answer = Answer::Accepted(Accepted {
                clock_us,
                frame_rate: frames.into(),
                encoded: true,
                tables: "47".into(),
            });
            let message = encode(&answer);
            prop_assert_eq!(decode::<Answer>(&message[2..]).unwrap(), answer);
        }
    }
}
