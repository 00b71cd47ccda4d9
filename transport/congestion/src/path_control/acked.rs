//! Gathers the packets of an ACK frame, which QUIC stacks report one by one.

use std::time::Instant;

/// The packets that one ACK frame newly acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckedPackets {
    /// When the frame is processed.
    pub now: Instant,
    /// When the newest of them was sent.
    pub sent: Instant,
    /// Bytes of UDP payload in the newest. Of packets that left at the same time it is the largest:
    /// the ACK is for all of them.
    pub newest_bytes: u64,
    /// How many they are, at least 1.
    pub packets: u64,
    /// Bytes of UDP payload in all of them.
    pub bytes: u64,
    /// How many of these belong to a recovery period.
    pub(super) in_recovery: u64,
}

impl AckedPackets {
    /// A frame that is processed at `now` acknowledges one packet of `bytes` bytes, sent at `sent`.
    pub fn new(now: Instant, sent: Instant, bytes: u64) -> Self {
        Self {
            now,
            sent,
            newest_bytes: bytes,
            packets: 1,
            bytes,
            in_recovery: 0,
        }
    }
}

/// Gathers packets until a QUIC stack says that the frame is processed.
#[derive(Debug, Clone, Copy, Default)]
pub struct AckFrame(Option<AckedPackets>);

impl AckFrame {
    /// The frame that is processed at `now` acknowledges a packet of `bytes` bytes, sent at `sent`.
    /// Forgets packets of an earlier instant: a Retry leaves such. Returns what is gathered.
    pub fn add(&mut self, now: Instant, sent: Instant, bytes: u64) -> &mut AckedPackets {
        let before = self.take(now);
        self.0.insert(match before {
            Some(acked) => {
                let (sent, newest_bytes) = (acked.sent, acked.newest_bytes).max((sent, bytes));
                AckedPackets {
                    sent,
                    newest_bytes,
                    packets: acked.packets + 1,
                    bytes: acked.bytes + bytes,
                    ..acked
                }
            }
            None => AckedPackets::new(now, sent, bytes),
        })
    }

    /// The frame is processed. Returns its packets; `None` if all were acknowledged before.
    pub fn take(&mut self, now: Instant) -> Option<AckedPackets> {
        self.0.take().filter(|acked| acked.now == now)
    }
}
