//! Finds late ACK frames, which repeat a lost one, and has `frames.rs` look for credit.
//!
//! quinn-proto 0.11.19 gives controllers neither a frame's ACK Delay nor the sample that it made. A
//! peer that sends something repeats its last ACK frame with it. If the first one was lost, and the
//! probes that ask for another are seconds apart (RFC 9002, section 6.2), the repeat is the first
//! to acknowledge its packets. They look as if they had travelled all that time. The frame's ACK
//! Delay shows how long the peer has had them.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel_headers::parameters::{AckDelays, variable_length};
use quinn::crypto::{self, CryptoError};
use quinn::rustls::quic::PacketKey;

use super::frames::{self, ACK, ACK_ECN, HANDSHAKE_DONE, IMMEDIATE_ACK, PADDING, PING};
use crate::connection::Connection;

/// A key for the packets of one direction; looks for late ACKs and for credit in them.
pub(super) struct WatchingKey {
    pub(super) key: Box<dyn PacketKey>,
    pub(super) delays: AckDelays,
    pub(super) connection: Arc<Connection>,
}

impl crypto::PacketKey for WatchingKey {
    fn encrypt(&self, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len().saturating_sub(self.tag_len());
        if let Some(is_blocked) = buf.get(header_len..end).and_then(frames::sent) {
            self.connection.set_blocked(is_blocked);
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
        if let Some((largest, delay)) = ack(payload, self.delays.exponent)
            && delay > self.delays.max
        {
            self.connection.ack_was_held(largest, delay);
        }
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

/// Returns the largest packet number and the delay of the ACK frame that begins a packet's payload.
fn ack(mut payload: &[u8], exponent: u32) -> Option<(u64, Duration)> {
    loop {
        match variable_length(&mut payload)? {
            PADDING | PING | HANDSHAKE_DONE | IMMEDIATE_ACK => {}
            ACK | ACK_ECN => break,
            _ => return None,
        }
    }
    let largest = variable_length(&mut payload)?;
    let micros = variable_length(&mut payload)?.saturating_mul(1 << exponent);
    Some((largest, Duration::from_micros(micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ack_behind_frames_without_content_is_read() {
        // 5 ACKed after 0x4400 = 1024 times 8 microseconds.
        let frame = [0x02, 0x05, 0x44, 0x00, 0x00, 0x00];
        let expected = Some((5, Duration::from_micros(8192)));
        assert_eq!(ack(&frame, 3), expected);
        assert_eq!(
            ack(&[&[0x00, 0x01, 0x1e], &frame[..]].concat(), 3),
            expected
        );
        assert_eq!(ack(&[&[0x03], &frame[1..]].concat(), 3), expected);
    }

    #[test]
    fn what_has_no_ack_at_its_beginning_or_breaks_off_has_none() {
        for payload in [
            &[][..],
            &[0x01],
            &[0x02],
            &[0x02, 0x05],
            &[0x02, 0x05, 0x44],
        ] {
            assert_eq!(ack(payload, 3), None, "{payload:?}");
        }
        assert_eq!(ack(&[0x06, 0x02, 0x05, 0x44, 0x00], 3), None);
    }

    #[test]
    fn no_delay_overflows() {
        let frame = [&[0x02, 0x05][..], &[0xff; 8]].concat();
        let (_, delay) = ack(&frame, 20).expect("an ACK");
        assert_eq!(delay, Duration::from_micros(u64::MAX));
    }
}
