//! What distinguishes senders that routers guide.

use std::fmt::Debug;
use std::time::Duration;

use crate::controller::{Ack, Feedback, PathSample};

/// Packets in flight beyond the window, which is rounded up to whole packets: the receiver waits
/// for a second packet, or for its timer, before it acknowledges one. So the rate is the limit, and
/// the window only while packets queue.
const UNACKNOWLEDGED_PACKETS: f64 = 1.0;

/// How a sender answers what routers grant.
pub trait Rule: Debug + Clone + Send + Sync + 'static {
    /// The algorithm whose feedback it follows.
    const FOLLOWS: Feedback;

    /// Reads `sample`. Returns whether it holds a grant of this algorithm.
    fn on_path(&mut self, sample: &PathSample) -> bool;

    /// The window in bytes after one of `window` bytes and an ACK. Called after the samples that
    /// came with the ACK, and only while feedback is fresh.
    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64;

    /// The rule sets a rate: its window is the rate times the empty round trip, and changes with
    /// the estimate of that.
    const KEEPS_RATE: bool = true;

    /// The time in which a window of packets leaves, which gives the pacing rate. By default the
    /// newest round trip: while packets queue, a window leaves more slowly.
    fn period(rtts: &Rtts) -> Duration {
        rtts.latest
    }

    /// The part, 0 to 1, of the newest queueing time that `period`'s round trip includes, for a
    /// window of so many full-size packets.
    fn queueing_share(_packets: f64) -> f64 {
        1.0
    }

    /// Bytes that may be in flight beyond a window of `window` bytes, with full-size packets of
    /// `mtu` bytes.
    fn slack(window: f64, mtu: u16) -> f64 {
        let packet = f64::from(mtu);
        ((window / packet).ceil() + UNACKNOWLEDGED_PACKETS) * packet - window
    }
}

/// What a rule decides by.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The ACK.
    pub ack: &'a Ack,
    /// Round trip times.
    pub rtts: Rtts,
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// Part of a full-size IP packet that is UDP payload, in 0..1: routers count the former,
    /// windows the latter.
    pub payload: f64,
}

/// Round trip times, above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtts {
    /// Of the empty path.
    pub base: Duration,
    /// Of the newest path header, without the time for which the peer held it.
    pub latest: Duration,
    /// Smoothed (RFC 9002, section 5.3).
    pub smoothed: Duration,
}
