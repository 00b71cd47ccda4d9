//! What a congestion controller is told, and what it answers.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_wire::{IPV4_HEADER_LEN, PATH_HEADER_LEN, UDP_HEADER_LEN};

/// A congestion control algorithm of one path.
///
/// Of one ACK frame, [`on_path`](Self::on_path) comes first with what the path header brought
/// since the ACK before, then [`on_ack`](Self::on_ack), then [`on_round`](Self::on_round) if it
/// ends a round, then [`on_congestion`](Self::on_congestion) and
/// [`on_persistent_congestion`](Self::on_persistent_congestion) if packets were lost or marked.
pub trait Controller: Debug + Send + Sync {
    /// A path header told of one round trip. Only an evenkeel endpoint, and a peer that echoes
    /// headers, make these calls; a controller must do without them.
    fn on_path(&mut self, sample: &PathSample) {
        let _ = sample;
    }

    /// An ACK frame newly acknowledged ack-eliciting packets.
    fn on_ack(&mut self, ack: &Ack) {
        let _ = ack;
    }

    /// A round trip of data is over. Called after [`on_ack`](Self::on_ack) of the ACK that ended it.
    fn on_round(&mut self, round: &Round) {
        let _ = round;
    }

    /// Packets were lost or marked: at most once per recovery period (RFC 9002, section 7.3.2).
    fn on_congestion(&mut self, event: &Congestion);

    /// Everything sent for several probe timeouts was lost (RFC 9002, section 7.6): the window
    /// falls to its minimum. Follows `on_congestion`, in the same instant or in the same
    /// recovery period, and may come more than once in it.
    fn on_persistent_congestion(&mut self);

    /// A probe timeout has passed with a window in flight and no ACK (RFC 9002, section 6.2), which that
    /// RFC does not take for congestion. Returns whether the controller does, as TCP takes its
    /// retransmission timeout: then a recovery period begins, and what was sent until now and turns
    /// out to be lost is no further congestion.
    fn on_probe_timeout(&mut self) -> bool {
        false
    }

    /// More than two packets of one recovery period were lost. RFC 9002 takes them for one event, of
    /// which [`on_congestion`](Self::on_congestion) told; TCP without SACK repairs at most one of them a
    /// round trip and mostly falls back on its retransmission timeout. Once per recovery period.
    fn on_heavy_loss(&mut self) {}

    /// Full-size packets now carry `mtu` bytes of UDP payload. The window keeps its bytes,
    /// unless its minimum has risen above it.
    fn on_mtu(&mut self, mtu: u16);

    /// Each full-size packet adds `bytes` bytes to its UDP payload on the wire: IP and UDP headers,
    /// and the path header. Until this is said, [`DEFAULT_OVERHEAD`].
    fn on_overhead(&mut self, bytes: u16) {
        let _ = bytes;
    }

    /// Bytes that may be in flight: a full window of n packets lets n packets fly.
    fn window(&self) -> u64;

    /// Bytes of UDP payload per second at which packets should leave; `None` lets the endpoint
    /// derive a rate from the window and the round trip. Below one packet per round trip it is
    /// the control, and the window only its cap.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Whose feedback the controller follows, so that routers count it among the flows that they
    /// steer. Asked once, when it begins.
    fn follows(&self) -> Option<Feedback> {
        None
    }

    /// One datagram in so many, at least 1, needs to carry a path header. The endpoint may send
    /// fewer headers than that, and asks again after every ACK.
    fn header_interval(&self) -> u32 {
        1
    }

    /// Window in bytes at which slow start ends; `None` while nothing has set one.
    fn slow_start_threshold(&self) -> Option<u64>;

    /// A copy with the same state, for a path on which only the port has changed.
    fn clone_box(&self) -> Box<dyn Controller>;
}

/// Bytes that a packet has beyond its UDP payload if nobody knows better: the headers of IPv4,
/// UDP and the path.
pub const DEFAULT_OVERHEAD: u16 =
    IPV4_HEADER_LEN as u16 + UDP_HEADER_LEN as u16 + PATH_HEADER_LEN as u16;

/// The packets that one ACK frame newly acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub struct Ack {
    /// When the ACK was processed.
    pub now: Instant,
    /// When the newest of the packets was sent.
    pub sent: Instant,
    /// Time from sending the newest packet to now, the peer's acknowledgement delay included.
    /// `None` if a packet sent later was acknowledged before: then the ACK tells of
    /// reordering, not of the path's round trip (RFC 9002, section 5.1).
    pub rtt: Option<Duration>,
    /// Bytes of UDP payload in the newest packet, whose round trip `rtt` is.
    pub newest_bytes: u64,
    /// Number of packets, at least 1.
    pub packets: u64,
    /// Their sizes in bytes of UDP payload.
    pub bytes: u64,
    /// The part of `bytes` that was sent after the current recovery period began, or all of
    /// them outside of one. Only these may grow the window (RFC 9002, section 7.3.2).
    pub bytes_after_recovery: u64,
    /// Bytes in flight just before the ACK was processed, its own packets included.
    pub in_flight: u64,
    /// The application, not the window or the pacer, kept the connection from sending more
    /// (RFC 9002, section 7.8).
    pub app_limited: bool,
}

/// What path headers measured in one round trip: all of it belongs to the same two packets.
///
/// Routers wrote most of it, and they may err or lie: it may slow a flow down, and never
/// replaces a controller's response to loss.
#[derive(Debug, Clone, PartialEq)]
pub struct PathSample {
    /// When the echo arrived.
    pub now: Instant,
    /// From sending the header to the arrival of its echo, without the time that the peer held
    /// it before it could answer.
    pub rtt: Duration,
    /// Queueing time that routers added up on the way to the peer, at most `rtt`; `None` if none
    /// did.
    pub forward_queueing: Option<Duration>,
    /// Queueing time that routers added up on the way back, at most `rtt` less
    /// `forward_queueing`; `None` if none did.
    pub backward_queueing: Option<Duration>,
    /// In both directions no router seems to have left its queueing time out. A hint: switches,
    /// wireless links and hosts queue unseen.
    pub complete: bool,
    /// What the routers on the way to the peer grant, if any of them has a say.
    pub grant: Option<Grant>,
    /// A router on the way to the peer is congested.
    pub congested: bool,
    /// Distinct flows at the most crowded link on the way to the peer; `None` if no router
    /// there counts flows.
    pub flows: Option<u32>,
}

/// An algorithm by which routers tell senders how much to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// ACP: the least rate that a link on the path grants.
    Acp,
    /// RCP (Dukkipati et al., IWQoS 2005): likewise.
    Rcp,
    /// XCP (Katabi, Handley, Rohrs, SIGCOMM 2002): the least change of the window.
    Xcp,
}

/// What routers grant a sender, by the algorithm that it follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grant {
    /// Bytes per second, at least 1 (ACP and RCP).
    Rate(u64),
    /// Change of the window in 256ths of a byte (XCP).
    WindowChange(i64),
}

/// One round trip of data.
///
/// A round begins when the one before it ends, and ends with the first acknowledgement of a
/// packet sent at or after its beginning. A congestion event makes it last until a packet sent
/// at or after the event is acknowledged.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    /// When the ACK that ended the round was processed.
    pub now: Instant,
    /// The least RTT sample among the round's ACKs. Their packets were mostly sent in the round
    /// before, so that it lags one round behind the window; an ACK that the peer's timer held
    /// back does not show in it unless all were. Of packets of at least half the full size, unless
    /// there was none.
    pub rtt_min: Duration,
    /// `rtt_min` is of a packet below half the full size, and so was every other sample.
    pub small: bool,
    /// RTT of a packet sent in this round, at its window: the sample of the ACK that ended it.
    /// `rtt_min` if that ACK covers fewer packets than the round's average, because then the
    /// peer's timer may have held it back, or if that packet is smaller than half the full size and
    /// others were not.
    pub rtt_end: Duration,
    /// The mean of the RTT samples of the round's ACKs, whatever held them back: what ns-2's
    /// Vegas takes.
    pub rtt_mean: Duration,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Bytes found lost.
    pub lost: u64,
    /// The most bytes in flight just before any of the ACKs was processed.
    pub in_flight: u64,
    /// The least of (window - bytes in flight just before) at any of the ACKs, in bytes:
    /// how much of the window the connection never used.
    pub unused: u64,
    /// Every ACK of the round found the connection limited by the application.
    pub app_limited: bool,
    /// A recovery period began in this round, or is not over at its end.
    pub in_recovery: bool,
}

/// The network is congested, says a packet that was lost or marked.
#[derive(Debug, Clone, PartialEq)]
pub struct Congestion {
    /// When the loss or the mark was found.
    pub now: Instant,
    /// What told it.
    pub cause: Cause,
    /// Bytes found lost by this detection; 0 for ECN.
    pub lost: u64,
}

/// What a congestion event rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Packets were declared lost.
    Loss,
    /// The peer reported packets marked Congestion Experienced (RFC 9002, section 7.1).
    Ecn,
}
