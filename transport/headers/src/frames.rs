//! Walks the frames of a packet, and finds its ACK frames wherever they stand.
//!
//! QUIC stacks hand neither a frame's ACK Delay nor its ECN counts to controllers. A packet key sees
//! every packet without its protection, and the walker finds the frames in it. It knows the frames
//! of RFC 9000 (section 19), RFC 9221 (DATAGRAM), draft-ietf-quic-ack-frequency, and those that noq
//! 1.4 adds: draft-ietf-quic-multipath, draft-ietf-quic-address-discovery, and iroh's for NATs. It
//! stops at any other frame and where a packet breaks off: stacks close the connection there.

use std::ops::Range;

use bytes::BytesMut;
use evenkeel_congestion::EcnCounts;

use crate::parameters::variable_length;

/// Types of frames: RFC 9000, section 19; draft-ietf-quic-ack-frequency; draft-ietf-quic-multipath.
const PADDING: u64 = 0x00;
const PING: u64 = 0x01;
const ACK: u64 = 0x02;
const ACK_ECN: u64 = 0x03;
/// RESET_STREAM: the sender gives a stream up.
pub const RESET_STREAM: u64 = 0x04;
const STOP_SENDING: u64 = 0x05;
const CRYPTO: u64 = 0x06;
const NEW_TOKEN: u64 = 0x07;
/// STREAM frames with all flags; the flags are bits of the first of these types.
const STREAM: u64 = 0x08;
const STREAM_LAST: u64 = 0x0f;
const HAS_LENGTH: u64 = 0x02;
const HAS_OFFSET: u64 = 0x04;
/// MAX_DATA: credit for the connection.
pub const MAX_DATA: u64 = 0x10;
/// MAX_STREAM_DATA: credit for a stream.
pub const MAX_STREAM_DATA: u64 = 0x11;
const MAX_STREAMS: u64 = 0x12;
const MAX_STREAMS_UNI: u64 = 0x13;
/// DATA_BLOCKED: data waits for credit for the connection.
pub const DATA_BLOCKED: u64 = 0x14;
/// STREAM_DATA_BLOCKED: data waits for credit for its stream.
pub const STREAM_DATA_BLOCKED: u64 = 0x15;
const STREAMS_BLOCKED: u64 = 0x16;
const STREAMS_BLOCKED_UNI: u64 = 0x17;
const NEW_CONNECTION_ID: u64 = 0x18;
const RETIRE_CONNECTION_ID: u64 = 0x19;
const PATH_CHALLENGE: u64 = 0x1a;
const PATH_RESPONSE: u64 = 0x1b;
const CONNECTION_CLOSE: u64 = 0x1c;
const APPLICATION_CLOSE: u64 = 0x1d;
const HANDSHAKE_DONE: u64 = 0x1e;
const IMMEDIATE_ACK: u64 = 0x1f;
const DATAGRAM: u64 = 0x30;
const DATAGRAM_WITH_LENGTH: u64 = 0x31;
const PATH_ACK: u64 = 0x3e;
const PATH_ACK_ECN: u64 = 0x3f;
const ACK_FREQUENCY: u64 = 0xaf;
const PATH_ABANDON: u64 = 0x3e75;
const PATH_STATUS_BACKUP: u64 = 0x3e76;
const PATH_STATUS_AVAILABLE: u64 = 0x3e77;
const PATH_NEW_CONNECTION_ID: u64 = 0x3e78;
const PATH_RETIRE_CONNECTION_ID: u64 = 0x3e79;
const MAX_PATH_ID: u64 = 0x3e7a;
const PATHS_BLOCKED: u64 = 0x3e7b;
const PATH_CIDS_BLOCKED: u64 = 0x3e7c;
const ADD_IPV4_ADDRESS: u64 = 0x3d_7f90;
const ADD_IPV6_ADDRESS: u64 = 0x3d_7f91;
const REACH_OUT_AT_IPV4: u64 = 0x3d_7f92;
const REACH_OUT_AT_IPV6: u64 = 0x3d_7f93;
const REMOVE_ADDRESS: u64 = 0x3d_7f94;
const OBSERVED_IPV4_ADDRESS: u64 = 0x9f_81a6;
const OBSERVED_IPV6_ADDRESS: u64 = 0x9f_81a7;

/// Bytes of an address with its port.
const IPV4_ADDRESS: u64 = 4 + 2;
const IPV6_ADDRESS: u64 = 16 + 2;

/// Bytes of a stateless reset token: RFC 9000, section 10.3.
const RESET_TOKEN: u64 = 16;

/// The greatest number that QUIC encodes: RFC 9000, section 16.
const GREATEST: u64 = (1 << 62) - 1;

/// A frame of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The type: with STREAM and DATAGRAM frames, its flags included.
    pub kind: u64,
    /// What it says, if it is an ACK or PATH_ACK frame.
    pub ack: Option<AckFrame>,
}

/// What an ACK or PATH_ACK frame says. Which packets it acknowledges is left to the QUIC stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AckFrame {
    /// The path whose packets it acknowledges; 0 in an ACK frame.
    pub path: u64,
    /// The largest packet number acknowledged.
    pub largest: u64,
    /// ACK Delay in units of 2^`ack_delay_exponent` microseconds.
    pub delay: u64,
    /// `None` if the peer reports none.
    pub counts: Option<EcnCounts>,
    /// Where the counts stand in the payload; empty without counts.
    at: Range<usize>,
}

/// The frames of a packet's payload, in their order.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    payload: &'a [u8],
    /// Bytes before the next frame.
    at: usize,
}

impl<'a> Frames<'a> {
    /// Walks `payload`, a packet's without its protection.
    pub fn new(payload: &'a [u8]) -> Self {
        Self { payload, at: 0 }
    }

    fn read(&mut self) -> Option<Frame> {
        let mut rest = self.payload.get(self.at..)?;
        let bytes = &mut rest;
        let kind = variable_length(bytes)?;
        let mut ack = None;
        match kind {
            PADDING | PING | HANDSHAKE_DONE | IMMEDIATE_ACK => {}
            MAX_DATA | MAX_STREAMS | MAX_STREAMS_UNI | DATA_BLOCKED | STREAMS_BLOCKED
            | STREAMS_BLOCKED_UNI | RETIRE_CONNECTION_ID | MAX_PATH_ID | PATHS_BLOCKED
            | REMOVE_ADDRESS => skip_numbers(bytes, 1)?,
            MAX_STREAM_DATA
            | STOP_SENDING
            | STREAM_DATA_BLOCKED
            | PATH_ABANDON
            | PATH_STATUS_BACKUP
            | PATH_STATUS_AVAILABLE
            | PATH_RETIRE_CONNECTION_ID
            | PATH_CIDS_BLOCKED => skip_numbers(bytes, 2)?,
            RESET_STREAM => skip_numbers(bytes, 3)?,
            ACK_FREQUENCY => skip_numbers(bytes, 4)?,
            ACK | ACK_ECN | PATH_ACK | PATH_ACK_ECN => ack = Some(self.read_ack(kind, bytes)?),
            PATH_CHALLENGE | PATH_RESPONSE => skip(bytes, 8)?,
            CRYPTO => {
                skip_numbers(bytes, 1)?;
                skip_counted(bytes)?;
            }
            NEW_TOKEN | DATAGRAM_WITH_LENGTH => skip_counted(bytes)?,
            CONNECTION_CLOSE => {
                skip_numbers(bytes, 2)?;
                skip_counted(bytes)?;
            }
            APPLICATION_CLOSE => {
                skip_numbers(bytes, 1)?;
                skip_counted(bytes)?;
            }
            NEW_CONNECTION_ID | PATH_NEW_CONNECTION_ID => {
                skip_numbers(bytes, if kind == NEW_CONNECTION_ID { 2 } else { 3 })?;
                let (length, after) = bytes.split_first()?;
                *bytes = after;
                skip(bytes, u64::from(*length) + RESET_TOKEN)?;
            }
            ADD_IPV4_ADDRESS | REACH_OUT_AT_IPV4 | OBSERVED_IPV4_ADDRESS => {
                skip_numbers(bytes, 1)?;
                skip(bytes, IPV4_ADDRESS)?;
            }
            ADD_IPV6_ADDRESS | REACH_OUT_AT_IPV6 | OBSERVED_IPV6_ADDRESS => {
                skip_numbers(bytes, 1)?;
                skip(bytes, IPV6_ADDRESS)?;
            }
            STREAM..=STREAM_LAST => {
                skip_numbers(bytes, if kind & HAS_OFFSET == 0 { 1 } else { 2 })?;
                if kind & HAS_LENGTH == 0 {
                    *bytes = &[];
                } else {
                    skip_counted(bytes)?;
                }
            }
            DATAGRAM => *bytes = &[],
            _ => return None,
        }
        self.at = self.payload.len() - bytes.len();
        Some(Frame { kind, ack })
    }

    fn read_ack(&self, kind: u64, bytes: &mut &[u8]) -> Option<AckFrame> {
        let path = match kind {
            PATH_ACK | PATH_ACK_ECN => variable_length(bytes)?,
            _ => 0,
        };
        let largest = variable_length(bytes)?;
        let delay = variable_length(bytes)?;
        let ranges = variable_length(bytes)?;
        skip_numbers(bytes, ranges.saturating_mul(2).saturating_add(1))?;
        let start = self.payload.len() - bytes.len();
        let counts = match kind {
            ACK_ECN | PATH_ACK_ECN => Some(EcnCounts {
                ect0: variable_length(bytes)?,
                ect1: variable_length(bytes)?,
                ce: variable_length(bytes)?,
            }),
            _ => None,
        };
        Some(AckFrame {
            path,
            largest,
            delay,
            counts,
            at: start..self.payload.len() - bytes.len(),
        })
    }
}

impl Iterator for Frames<'_> {
    type Item = Frame;

    #[inline]
    fn next(&mut self) -> Option<Frame> {
        let rest = self.payload.get(self.at..).unwrap_or_default();
        if rest.len() >= LONGEST_STREAM_HEAD && to_the_end(rest[0]) {
            self.at = self.payload.len();
            return Some(Frame {
                kind: rest[0].into(),
                ack: None,
            });
        }
        let frame = self.read();
        if frame.is_none() {
            self.at = self.payload.len();
        }
        frame
    }
}

/// Bytes before the data of a STREAM frame without a length, at most: type, stream and offset.
const LONGEST_STREAM_HEAD: usize = 1 + 8 + 8;

/// Returns whether this byte begins a STREAM frame that reaches to the end of its packet, as in most
/// packets of bulk data.
fn to_the_end(kind: u8) -> bool {
    let kind = u64::from(kind);
    (STREAM..=STREAM_LAST).contains(&kind) && kind & HAS_LENGTH == 0
}

/// Calls `found` for each ACK frame in a packet's payload, and then writes ECT(1) counts as ECT(0)
/// counts: a QUIC stack that knows only ECT(0) takes ECT(1) that its peer reports for a broken path
/// (RFC 9000, section 13.4.2.1). Leaves all else as it is.
pub fn take_acks(payload: &mut BytesMut, mut found: impl FnMut(&AckFrame)) {
    let mut at = 0;
    loop {
        let mut frames = Frames { payload, at };
        let Some(ack) = frames.find_map(|frame| frame.ack) else {
            return;
        };
        at = frames.at;
        found(&ack);
        if let Some(counts) = ack.counts.filter(|counts| counts.ect1 > 0) {
            let old = ack.at.len();
            let merged = encoded(merged(counts), old);
            at = at - old + merged.len();
            if merged.len() == old {
                payload[ack.at].copy_from_slice(&merged);
            } else {
                let behind = payload.split_off(ack.at.end);
                payload.truncate(ack.at.start);
                payload.extend_from_slice(&merged);
                payload.extend_from_slice(&behind);
            }
        }
    }
}

/// Returns counts with ECT(1) counted as ECT(0).
fn merged(counts: EcnCounts) -> EcnCounts {
    EcnCounts {
        ect0: counts.ect0.saturating_add(counts.ect1).min(GREATEST),
        ect1: 0,
        ce: counts.ce,
    }
}

/// Encodes counts as an ACK frame has them: in `room` bytes if they fit, or else in the fewest.
/// Numbers other than frame types may be longer than they need to be (RFC 9000, section 16).
fn encoded(counts: EcnCounts, room: usize) -> Vec<u8> {
    const LENGTHS: [usize; 4] = [1, 2, 4, 8];
    let numbers = [counts.ect0, counts.ect1, counts.ce];
    let least = numbers.map(least_length);
    let longer = |of: usize| (LENGTHS.into_iter()).filter(move |length| *length >= least[of]);
    let fitting = longer(0)
        .flat_map(|first| longer(1).map(move |second| (first, second)))
        .filter_map(|(first, second)| Some((first, second, room.checked_sub(first + second)?)))
        .find(|(_, _, third)| longer(2).any(|length| length == *third));
    let lengths = fitting.map_or(least, |(first, second, third)| [first, second, third]);
    let mut bytes = Vec::with_capacity(room);
    for (number, length) in numbers.into_iter().zip(lengths) {
        let prefix = u64::from(length.trailing_zeros()) << (8 * length - 2);
        bytes.extend_from_slice(&(number | prefix).to_be_bytes()[8 - length..]);
    }
    bytes
}

/// Bytes that a number needs: RFC 9000, section 16.
fn least_length(number: u64) -> usize {
    match number {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

fn skip_numbers(bytes: &mut &[u8], count: u64) -> Option<()> {
    for _ in 0..count {
        variable_length(bytes)?;
    }
    Some(())
}

/// Skips content behind its length.
fn skip_counted(bytes: &mut &[u8]) -> Option<()> {
    let length = variable_length(bytes)?;
    skip(bytes, length)
}

fn skip(bytes: &mut &[u8], length: u64) -> Option<()> {
    let (_, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(())
}

#[cfg(test)]
mod tests;
