//! A packet key that reads the frames of packets while they are without protection.
//!
//! quinn-proto 0.11.19 gives controllers neither a frame's ACK Delay, nor the sample that it made,
//! nor its ECN counts, and takes ECT(1) counts for a broken path. What the key finds:
//!
//! - **Late ACKs.** A peer that sends something repeats its last ACK frame with it. If the first one
//!   was lost, and the probes that ask for another are seconds apart (RFC 9002, section 6.2), the
//!   repeat is the first to acknowledge its packets. They look as if they had travelled all that
//!   time. The frame's ACK Delay shows how long the peer has had them.
//! - **ECN counts**, exactly, of all packet number spaces. quinn then sees ECT(1) as ECT(0).
//! - **What has arrived here** with ECN, in the ACK frames that quinn writes.
//! - **Credit** (`frames.rs`).

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel_congestion::CountedSpace;
use evenkeel_headers::frames::{AckFrame, Frames, take_acks};
use evenkeel_headers::parameters::AckDelays;
use quinn::crypto::{self, CryptoError};
use quinn::rustls::quic::PacketKey;

use super::frames;
use crate::connection::Connection;

/// A key for the packets of one direction.
pub(super) struct WatchingKey {
    pub(super) key: Box<dyn PacketKey>,
    pub(super) space: CountedSpace,
    /// `None` where peers delay no ACKs: in a handshake.
    pub(super) delays: Option<AckDelays>,
    pub(super) connection: Arc<Connection>,
}

impl WatchingKey {
    /// The peer's ACK frame is in a packet that quinn processes next.
    fn acked(&self, ack: &AckFrame) {
        if let Some(delays) = self.delays {
            let delay = Duration::from_micros(ack.delay.saturating_mul(1 << delays.exponent));
            if delay > delays.max {
                self.connection.ack_was_held(ack.largest, delay);
            }
        }
        if let Some(counts) = ack.counts {
            let mut state = self.connection.state();
            state.kept.feed.ecn.on_counts(self.space, counts);
        }
    }
}

impl crypto::PacketKey for WatchingKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len().saturating_sub(self.tag_len());
        for frame in buf.get(header_len..end).into_iter().flat_map(Frames::new) {
            if let Some(is_blocked) = frames::sent(frame.kind) {
                self.connection.set_blocked(is_blocked);
            }
            if let Some(counts) = frame.ack.and_then(|ack| ack.counts) {
                let mut state = self.connection.state();
                state.kept.feed.ecn.on_received(self.space, counts);
            }
        }
        crypto::PacketKey::encrypt(&self.key, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        crypto::PacketKey::decrypt(&self.key, packet, header, payload)?;
        take_acks(payload, |ack| self.acked(ack));
        if self.connection.is_blocked() && frames::is_given(payload) {
            self.connection.set_blocked(false);
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        crypto::PacketKey::tag_len(&self.key)
    }

    fn confidentiality_limit(&self) -> u64 {
        crypto::PacketKey::confidentiality_limit(&self.key)
    }

    fn integrity_limit(&self) -> u64 {
        crypto::PacketKey::integrity_limit(&self.key)
    }
}
