//! A packet key that reads the frames of packets while they are without protection.
//!
//! noq-proto 1.4.0 gives controllers no ECN counts, and takes ECT(1) counts for a broken path. The
//! key finds the exact counts in ACK and PATH_ACK frames, those of the peer and our own; noq then
//! sees ECT(1) as ECT(0). noq names the path to a key alone, so the key also notes whose packets are
//! being built.

use std::sync::Arc;

use bytes::BytesMut;
use evenkeel_congestion::{CountedSpace, EcnCounts};
use evenkeel_headers::frames::{AckFrame, Frames, take_acks};
use noq_proto::PathId;
use noq_proto::crypto::{self, CryptoError};
use rustls::quic::PacketKey;

use crate::connection::Connection;

/// A key for the packets of one direction.
pub(super) struct WatchingKey {
    pub(super) key: Box<dyn PacketKey>,
    pub(super) space: CountedSpace,
    pub(super) connection: Arc<Connection>,
}

impl crypto::PacketKey for WatchingKey {
    fn encrypt(&self, path: PathId, packet: u64, buf: &mut [u8], header_len: usize) {
        let end = buf.len().saturating_sub(crypto::PacketKey::tag_len(self));
        let mut state = self.connection.state();
        state.set_building(path);
        for frame in buf.get(header_len..end).into_iter().flat_map(Frames::new) {
            let Some(ack) = &frame.ack else { continue };
            if let Some((path, counts)) = reported(ack) {
                state.ecn(path, |ecn| ecn.on_received(self.space, counts));
            }
        }
        drop(state);
        crypto::PacketKey::encrypt(&self.key, path, packet, buf, header_len);
    }

    fn decrypt(
        &self,
        path: PathId,
        packet: u64,
        header: &[u8],
        payload: &mut BytesMut,
    ) -> Result<(), CryptoError> {
        crypto::PacketKey::decrypt(&self.key, path, packet, header, payload)?;
        take_acks(payload, |ack| {
            if let Some((path, counts)) = reported(ack) {
                let mut state = self.connection.state();
                state.ecn(path, |ecn| ecn.on_counts(self.space, counts));
            }
        });
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

/// Returns the path whose packets are acknowledged, and their counts. noq closes connections whose
/// peers name impossible paths.
fn reported(ack: &AckFrame) -> Option<(PathId, EcnCounts)> {
    let path = u32::try_from(ack.path).ok()?;
    Some((path.into(), ack.counts?))
}
