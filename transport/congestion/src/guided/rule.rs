//! Rules that distinguish the senders that routers guide.

use std::fmt::Debug;
use std::time::Duration;

use crate::controller::{Ack, Feedback, PathSample};

/// Packets in flight beyond the window, which is rounded up to whole packets: the receiver waits
/// for a second packet, or for its timer, before it acknowledges one. So the rate is the limit, and
/// the window only while packets queue.
const UNACKNOWLEDGED_PACKETS: f64 = 1.0;

/// How a sender answers what routers grant.
pub trait Rule: Debug + Clone + Send + Sync + 'static {
    /// The algorithm whose feedback the rule follows.
    const FOLLOWS: Feedback;

    /// Reads `sample`. Returns whether it holds a grant of this algorithm.
    fn on_path(&mut self, sample: &PathSample) -> bool;

    /// Returns the window in bytes that follows one of `window` bytes after an ACK. Called after
    /// the samples that came with the ACK, and only while feedback is fresh.
    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64;

    /// The rule sets a rate: its window is the rate times the empty round trip, and changes with
    /// the estimate of that round trip.
    const KEEPS_RATE: bool = true;

    /// Returns the time in which a window of packets leaves, which gives the pacing rate. By
    /// default the newest round trip: while packets queue, a window leaves more slowly.
    fn period(rtts: &Rtts) -> Duration {
        rtts.latest
    }

    /// Returns the part, 0 to 1, of the newest queueing time that `period`'s round trip includes,
    /// for a window of that many full-size packets.
    fn queueing_share(_packets: f64) -> f64 {
        1.0
    }

    /// Returns the bytes that may be in flight beyond a window of `window` bytes, with full-size
    /// packets of `mtu` bytes.
    fn slack(window: f64, mtu: u16) -> f64 {
        let packet = f64::from(mtu);
        ((window / packet).ceil() + UNACKNOWLEDGED_PACKETS) * packet - window
    }
}

/// The facts by which a rule decides.
#[derive(Debug)]
pub struct Facts<'a> {
    /// The ACK.
    pub ack: &'a Ack,
    /// Round trip times.
    pub rtts: Rtts,
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// Share of UDP payload in a full-size IP packet, in 0..1: routers count IP packets, windows
    /// count payload.
    pub payload: f64,
}

/// Round trip times, above 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rtts {
    /// That of the empty path.
    pub base: Duration,
    /// That of the newest path header, without the time for which the peer held it.
    pub latest: Duration,
    /// The smoothed one (RFC 9002, section 5.3).
    pub smoothed: Duration,
}
