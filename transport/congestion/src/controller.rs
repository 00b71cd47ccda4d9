//! Defines the facts that a congestion controller gets, and its answers.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_wire::{IPV4_HEADER_LEN, PATH_HEADER_LEN, UDP_HEADER_LEN};

/// A congestion control algorithm for one path.
///
/// The calls for one ACK frame, in order: [`on_path`](Self::on_path) for each path header since
/// the ACK before, [`on_ack`](Self::on_ack), [`on_round`](Self::on_round) if the ACK ends a round,
/// then [`on_lost`](Self::on_lost), [`on_congestion`](Self::on_congestion) and
/// [`on_persistent_congestion`](Self::on_persistent_congestion) if packets were lost or marked.
pub trait Controller: CloneController + Debug + Send + Sync {
    /// A path header measured one round trip. Called only on an evenkeel endpoint whose peer echoes
    /// headers; a controller must work without.
    fn on_path(&mut self, sample: &PathSample) {
        let _ = sample;
    }

    /// An ACK frame newly acknowledged ack-eliciting packets.
    fn on_ack(&mut self, ack: &Ack) {
        let _ = ack;
    }

    /// A round trip of data is over. Follows [`on_ack`](Self::on_ack) of the ACK that ended it.
    fn on_round(&mut self, round: &Round) {
        let _ = round;
    }

    /// `bytes` bytes were declared lost at `now`: every detection, however many belong to one recovery
    /// period. Comes before [`on_congestion`](Self::on_congestion). quinn 0.11 does not tell if a
    /// packet that it declared lost arrives after all.
    fn on_lost(&mut self, now: Instant, bytes: u64) {
        let _ = (now, bytes);
    }

    /// Packets were lost or marked: at most once per recovery period (RFC 9002, section 7.3.2). Marks of
    /// packets that leave as ECT(1) come with [`Ack::marked`] alone, and begin no such period.
    fn on_congestion(&mut self, event: &Congestion);

    /// Everything sent for several probe timeouts was lost (RFC 9002, section 7.6): the window
    /// falls to its minimum. Follows `on_congestion` of the same recovery period, and may come more
    /// than once in it.
    fn on_persistent_congestion(&mut self);

    /// Full-size packets now carry `mtu` bytes of UDP payload. The window keeps its bytes,
    /// unless its minimum has risen above it.
    fn on_mtu(&mut self, mtu: u16);

    /// The path is known to carry `window` bytes in a round trip: a controller before this one
    /// kept as many in flight, or the application had the path probed. Continues in congestion
    /// avoidance with such a window. A controller without this begins with its initial window.
    fn resume(&mut self, window: u64) {
        let _ = window;
    }

    /// From now on packets leave as `ecn` says: ECT(0) for classic ECN, ECT(1) for scalable, not
    /// ECN-capable for `None`. Until the first call a controller may take them for ECT(0). What the
    /// controller wishes comes true only on an endpoint with
    /// [`EcnUse::L4s`](crate::EcnUse::L4s) and while the path leaves ECT(1) alone. Comes before
    /// [`on_ack`](Self::on_ack); packets in flight left as before.
    fn on_ecn(&mut self, ecn: Option<EcnMode>) {
        let _ = ecn;
    }

    /// Each full-size packet adds `bytes` bytes to its UDP payload on the wire: IP and UDP headers,
    /// and the path header. [`DEFAULT_OVERHEAD`] until this is called.
    fn on_overhead(&mut self, bytes: u16) {
        let _ = bytes;
    }

    /// Returns the bytes that may be in flight: n packets fill a window of n packets.
    fn window(&self) -> u64;

    /// Returns the bytes of UDP payload per second at which packets should leave; `None` lets the
    /// endpoint derive a rate from the window and the round trip. Below one packet per round trip
    /// the rate controls the flow, and the window only caps it.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Returns the algorithm whose feedback the controller follows, so that its routers count the
    /// flow. Called once, at the start.
    fn follows(&self) -> Option<Feedback> {
        None
    }

    /// Returns how the controller answers marks, and so with which ECN codepoint its packets should
    /// leave. Asked at the start, so that the handshake leaves likewise, and after every ACK.
    fn ecn(&self) -> EcnMode {
        EcnMode::Classic
    }

    /// Returns the interval, at least 1, in datagrams at which it needs a path header. The endpoint
    /// may send fewer headers, and asks again after every ACK.
    fn header_interval(&self) -> u32 {
        1
    }

    /// Returns the window in bytes at which slow start ends; `None` until set.
    fn slow_start_threshold(&self) -> Option<u64>;
}

/// Clones a boxed controller. Every [`Controller`] that is `Clone` implements this.
pub trait CloneController {
    /// Returns a copy with the same state, for a path on which only the port has changed.
    fn clone_box(&self) -> Box<dyn Controller>;
}

impl<C: Controller + Clone + 'static> CloneController for C {
    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Controller> {
    fn clone(&self) -> Self {
        (**self).clone_box()
    }
}

/// Controllers see no shorter round trip. Hosts that wake up late, and ACKs that wait for each other
/// in a batch, lengthen round trips by up to this, also where nothing queues. A controller that
/// watches delays may so keep a window that leaves in this time, and a queue of that length.
/// `docs/performance.md` compares other values.
pub const LEAST_RTT: Duration = Duration::from_micros(250);

/// Windows of shorter round trips have no rate of their own: they leave within the time by which
/// wake-ups are late.
pub const LEAST_PACED_RTT: Duration = Duration::from_millis(2);

/// Bytes that a packet adds to its UDP payload by default: IPv4, UDP and path header.
pub const DEFAULT_OVERHEAD: u16 =
    IPV4_HEADER_LEN as u16 + UDP_HEADER_LEN as u16 + PATH_HEADER_LEN as u16;

/// The packets that one ACK frame newly acknowledged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ack {
    /// When the ACK was processed.
    pub now: Instant,
    /// When the newest of the packets was sent.
    pub sent: Instant,
    /// Time from sending the newest packet to now, the peer's acknowledgement delay included; at
    /// least [`LEAST_RTT`](crate::LEAST_RTT).
    /// `None` if a packet sent later was acknowledged before: then the ACK shows reordering, not
    /// the path's round trip (RFC 9002, section 5.1). `None` also if the peer held the ACK back for
    /// longer than it may: then it repeats one that was lost. `None` also if it waited while the
    /// sender's process stood still.
    pub rtt: Option<Duration>,
    /// Bytes of UDP payload in the newest packet, the one that `rtt` measures.
    pub newest_bytes: u64,
    /// Number of packets, at least 1.
    pub packets: u64,
    /// Their sizes in bytes of UDP payload.
    pub bytes: u64,
    /// The part of `bytes` that was sent after the current recovery period began, or all of
    /// them outside of one. Only these may grow the window (RFC 9002, section 7.3.2).
    pub bytes_after_recovery: u64,
    /// How many packets the peer newly reports as marked (CE). Packets that hold nothing but ACKs
    /// count here and not in `packets`, and so do packets that were taken for lost; so it may
    /// exceed `packets`. 0 on plain quinn and noq, which do not tell, and once the path is known to
    /// mark everything without a queue.
    pub marked: u64,
    /// Bytes in flight just before the ACK was processed, its own packets included.
    pub in_flight: u64,
    /// The application, not the window or the pacer, kept the connection from sending more
    /// (RFC 9002, section 7.8).
    pub app_limited: bool,
    /// How fast the path delivered what was under way with the newest packet. `None` if a packet
    /// sent later was acknowledged before, or the ACK waited while the sender's process stood still.
    pub delivery: Option<Delivery>,
}

impl Ack {
    /// Returns an ACK at `now` for one packet of `bytes` bytes, sent at `sent`, with nothing else in
    /// flight and no measured delivery.
    pub fn new(now: Instant, sent: Instant, bytes: u64) -> Self {
        Self {
            now,
            sent,
            rtt: Some(now.saturating_duration_since(sent)),
            newest_bytes: bytes,
            packets: 1,
            bytes,
            bytes_after_recovery: bytes,
            marked: 0,
            in_flight: bytes,
            app_limited: false,
            delivery: None,
        }
    }
}

/// What a path delivered while a packet was under way
/// (draft-cheng-iccrg-delivery-rate-estimation-02).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes of UDP payload acknowledged on this path so far.
    pub total: u64,
    /// The same when the packet was sent. A round trip of data is over when this reaches the `total`
    /// with which the round began; losses do not stretch such a round.
    pub before: u64,
    /// Time in which those bytes were sent.
    pub send_interval: Duration,
    /// Time in which their acknowledgements came. The path delivered `total - before` bytes in the
    /// longer of both times.
    pub ack_interval: Duration,
    /// The application had too little to send when the packet left: the path may carry more.
    pub app_limited: bool,
}

/// What path headers measured in one round trip: all values belong to the same two packets.
///
/// Routers wrote most of it, and they may err or lie. It may slow a flow down, but never replaces a
/// controller's response to loss.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PathSample {
    /// When the echo arrived.
    pub now: Instant,
    /// The time from sending the header until its echo arrived, less the time that the peer held it
    /// before it could answer. Controllers see at least [`LEAST_RTT`](crate::LEAST_RTT).
    pub rtt: Duration,
    /// Queueing time that routers added up on the way to the peer, at most `rtt`; `None` if none
    /// did.
    pub forward_queueing: Option<Duration>,
    /// Queueing time that routers added up on the way back, at most `rtt` less
    /// `forward_queueing`; `None` if none did.
    pub backward_queueing: Option<Duration>,
    /// All routers in both directions seem to have added their queueing times. A hint only:
    /// switches, wireless links and hosts queue unseen.
    pub complete: bool,
    /// What the routers on the way to the peer grant; `None` if none grants anything.
    pub grant: Option<Grant>,
    /// A router on the way to the peer is congested.
    pub congested: bool,
    /// Distinct flows at the most crowded link on the way to the peer; `None` if no router
    /// there counts flows.
    pub flows: Option<u32>,
}

impl PathSample {
    /// Returns a sample of `rtt` in which no router reported anything.
    pub fn new(now: Instant, rtt: Duration) -> Self {
        Self {
            now,
            rtt,
            forward_queueing: None,
            backward_queueing: None,
            complete: false,
            grant: None,
            congested: false,
            flows: None,
        }
    }
}

/// An algorithm with which routers set senders' rates or windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// ACP: the least rate that a link on the path grants.
    Acp,
    /// RCP (Dukkipati et al., IWQoS 2005): likewise.
    Rcp,
    /// XCP (Katabi, Handley, Rohrs, SIGCOMM 2002): the least window change that a link grants.
    Xcp,
}

/// What routers grant a sender that follows their algorithm.
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
#[non_exhaustive]
pub struct Round {
    /// When the ACK that ended the round was processed.
    pub now: Instant,
    /// The least RTT sample among the round's ACKs, taken from packets of at least half the full
    /// size if there was one. Most of those packets were sent in the round before, so the sample
    /// lags one round behind the window. ACKs that the peer's timer delayed do not show in it
    /// unless all were delayed.
    pub rtt_min: Duration,
    /// All samples came from packets below half the full size.
    pub small: bool,
    /// RTT of a packet sent in this round, at its window: the sample of the ACK that ended the
    /// round. Equals `rtt_min` if that ACK covers fewer packets than the round's average, because
    /// the peer's timer may have delayed it, or if its packet is below half the full size and
    /// others were not.
    pub rtt_end: Duration,
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Bytes found lost.
    pub lost: u64,
    /// The most bytes in flight just before any of the ACKs was processed.
    pub in_flight: u64,
    /// The least of (window - bytes in flight just before) at any of the ACKs, in bytes: the part
    /// of the window that the connection never used.
    pub unused: u64,
    /// Every ACK of the round found the connection limited by the application.
    pub app_limited: bool,
    /// A recovery period began in this round, or lasts beyond its end.
    pub in_recovery: bool,
}

impl Round {
    /// Returns a round that ended at `now`: all RTT samples were `rtt`, and a full window of `bytes`
    /// bytes was acknowledged.
    pub fn new(now: Instant, rtt: Duration, bytes: u64) -> Self {
        Self {
            now,
            rtt_min: rtt,
            small: false,
            rtt_end: rtt,
            bytes,
            lost: 0,
            in_flight: bytes,
            unused: 0,
            app_limited: false,
            in_recovery: false,
        }
    }
}

/// Packets were lost or marked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Congestion {
    /// When the loss or the mark was found.
    pub now: Instant,
    /// What shows it.
    pub cause: Cause,
    /// Bytes found lost by this detection; 0 for ECN.
    pub lost: u64,
}

impl Congestion {
    /// Returns the loss of `bytes` bytes, found at `now`.
    pub fn loss(now: Instant, bytes: u64) -> Self {
        Self {
            now,
            cause: Cause::Loss,
            lost: bytes,
        }
    }

    /// Returns a report of marks, found at `now`.
    pub fn ecn(now: Instant) -> Self {
        Self {
            now,
            cause: Cause::Ecn,
            lost: 0,
        }
    }
}

/// How a sender answers marks, and with which codepoint it says so to routers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// A mark counts as a loss (RFC 3168; RFC 9002, section 7.1): packets leave as ECT(0).
    #[default]
    Classic,
    /// The answer grows with the share of packets that are marked (RFC 9331, section 4.3): packets
    /// leave as ECT(1), and a router that knows L4S marks them long before it would drop.
    Scalable,
}

/// What shows congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Packets were declared lost.
    Loss,
    /// The peer reported packets marked Congestion Experienced (RFC 9002, section 7.1).
    Ecn,
}
