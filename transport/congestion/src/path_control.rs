//! Turns what a QUIC stack reports, packet by packet, into the facts that a [`Controller`] gets.
//! What an adapter to any stack needs is here; it knows no stack.

mod acked;
mod deliveries;
mod doubts;
mod ecn;
mod feed;
mod marks;
mod observer;
mod pauses;
mod remembered;
mod rounds;

use std::time::{Duration, Instant};

use crate::controller::{Ack, Congestion, Controller, DEFAULT_OVERHEAD, EcnMode, LEAST_RTT};
use deliveries::Deliveries;
use remembered::{AckFacts, Outcome, Resumption};
use rounds::Rounds;

pub use acked::{AckFrame, AckedPackets};
pub(crate) use doubts::Doubts;
pub use ecn::{CountedSpace, EcnCounts, EcnFault, EcnReport, EcnState, EcnUse};
pub use feed::{FeedHolder, FeedState, PathFeed};
pub(crate) use marks::{Found, Marks};
pub use observer::{AckReport, AckReporter, Observer};
pub(crate) use pauses::Pauses;
pub use remembered::Remembered;

/// The longest time between two packets that a pacer may obey. A lower rate, a router's lie or a
/// controller's mistake, must not stop a connection for good.
pub const LONGEST_GAP: Duration = Duration::from_secs(10);

/// A controller at work on one path of a connection, for adapters to QUIC stacks.
///
/// The calls for one ACK frame, in order: [`on_packet_acked`](Self::on_packet_acked) for each
/// packet, [`on_end_acks`](Self::on_end_acks), then [`on_lost`](Self::on_lost) if packets were lost
/// or marked. Packets of an earlier instant that no `on_end_acks` has followed are forgotten: a
/// Retry leaves such. An `on_end_acks` without packets makes no event.
///
/// Several detections of losses may belong to one recovery period; the controller hears of one
/// congestion event in each. A period begins with the event and covers packets sent up to then
/// (RFC 9002, section 7.3.2).
///
/// While the process does not run, because it was stopped or the machine was, the controller's time
/// stands still: the instants in its facts are those of the stack less all such times. ACKs that
/// waited meanwhile acknowledge, and measure nothing. Nor does an ACK measure anything if its round
/// trip is below three quarters of the least one, until one with another date confirms it within a
/// second: quinn dates ACKs early where the system sets its thread aside.
#[derive(Debug, Clone)]
pub struct PathControl {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) feed: PathFeed,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes that each full-size packet adds to its UDP payload, as the controller knows them.
    overhead: u16,
    /// As what packets leave, as the controller knows it.
    ecn: Option<EcnMode>,
    /// Bytes.
    initial_window: u64,
    /// When the current recovery period began; packets sent up to then belong to it.
    recovery_start: Option<Instant>,
    /// The latest sending time of any acknowledged packet.
    newest_acked: Option<Instant>,
    /// The ACK frame being processed.
    frame: AckFrame,
    rounds: Rounds,
    deliveries: Deliveries,
    pauses: Pauses,
    marks: Marks<Box<dyn Controller>>,
    doubts: Doubts,
    resumption: Option<Resumption>,
}

impl PathControl {
    /// A path begins at `now` with full-size packets of `mtu` bytes of UDP payload. `controller`
    /// hears of it through `feed`, which learns what the controller follows.
    pub fn new(
        mut controller: Box<dyn Controller>,
        feed: PathFeed,
        now: Instant,
        mtu: u16,
    ) -> Self {
        if let Some(window) = feed.take_resume() {
            controller.resume(window);
        }
        // Who follows routers takes their word instead.
        let remembered = feed.take_remembered();
        let remembered = remembered.filter(|_| controller.follows().is_none());
        let max_ack_delay = feed.max_ack_delay();
        feed.follow(controller.follows());
        let ecn = feed.wish_ecn(controller.ecn());
        if ecn != Some(EcnMode::Classic) {
            controller.on_ecn(ecn);
        }
        Self {
            resumption: remembered.map(|memory| Resumption::new(memory, max_ack_delay)),
            initial_window: controller.window(),
            controller,
            feed,
            mtu,
            overhead: DEFAULT_OVERHEAD,
            ecn,
            recovery_start: None,
            newest_acked: None,
            frame: AckFrame::default(),
            rounds: Rounds::new(now),
            deliveries: Deliveries::new(now),
            pauses: Pauses::new(now),
            marks: Marks::new(),
            doubts: Doubts::default(),
        }
    }

    /// A transmit batch of `bytes` bytes of UDP payload left at `now`.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.pauses.on_sent(now);
        self.deliveries.on_sent(now, bytes);
    }

    /// An ACK frame that is processed at `now` newly acknowledged an ack-eliciting packet of `bytes`
    /// bytes, sent at `sent`.
    pub fn on_packet_acked(&mut self, now: Instant, sent: Instant, bytes: u64) {
        self.pauses.on_packet(now, sent);
        let in_recovery = if self.in_recovery(sent) { bytes } else { 0 };
        self.frame.add(now, sent, bytes).in_recovery += in_recovery;
    }

    /// The ACK frame is processed. `in_flight` are the bytes in flight without its packets,
    /// `largest_acked` its largest packet number, by which the feed knows frames that repeat a lost
    /// one ([`FeedState::set_repeated`]).
    pub fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_acked: Option<u64>,
    ) {
        let Some(acked) = self.frame.take(now) else {
            return;
        };
        let in_order = self.newest_acked.is_none_or(|newest| acked.sent >= newest);
        if in_order {
            self.newest_acked = Some(acked.sent);
        }
        let delivery = self
            .deliveries
            .on_ack(now, acked.sent, acked.bytes, in_flight, app_limited);
        let max_ack_delay = self.feed.max_ack_delay();
        let waited = self.pauses.on_ack(now, acked.sent, max_ack_delay);
        let rtt = now.saturating_duration_since(acked.sent).max(LEAST_RTT);
        let (measures, marked) = self.feed.begin_ack(largest_acked, waited);
        let measures = measures && in_order;
        let is_doubtful = measures && self.doubts.on_rtt(now, rtt);
        if is_doubtful {
            self.feed.doubt();
        }
        let has_sample = measures && !is_doubtful;
        let delivery = delivery
            .filter(|_| in_order && !waited && !is_doubtful)
            .map(|delivery| self.pauses.shorten(delivery, acked.sent, now));
        let rtt = has_sample.then_some(rtt);
        self.watch_marks(&acked, marked, rtt);
        let mut ack = Ack {
            now,
            sent: acked.sent,
            rtt,
            newest_bytes: acked.newest_bytes,
            packets: acked.packets,
            bytes: acked.bytes,
            bytes_after_recovery: acked.bytes - acked.in_recovery,
            marked: if self.marks.are_false() { 0 } else { marked },
            in_flight: in_flight.saturating_add(acked.bytes),
            app_limited,
            delivery,
        };
        let ecn = self.feed.wish_ecn(self.controller.ecn());
        if ecn != self.ecn {
            self.ecn = ecn;
            self.controller.on_ecn(ecn);
        }
        let (overhead, samples) = self.feed.take();
        if overhead != self.overhead {
            self.overhead = overhead;
            self.controller.on_overhead(overhead);
        }
        if let Some(window) = self.feed.take_resume() {
            self.controller.resume(window);
        }
        for mut sample in samples {
            if self.pauses.span_header(sample.rtt, sample.now) {
                continue;
            }
            sample.rtt = sample.rtt.max(LEAST_RTT);
            sample.now = self.pauses.without_pauses(sample.now);
            self.controller.on_path(&sample);
        }
        let round = self.rounds.on_ack(&ack, self.controller.window(), self.mtu);
        (ack.now, ack.sent) = (
            self.pauses.without_pauses(now),
            self.pauses.without_pauses(acked.sent),
        );
        self.controller.on_ack(&ack);
        if let Some(mut round) = round {
            round.now = ack.now;
            self.controller.on_round(&round);
        }
        let facts = AckFacts {
            now,
            sent: acked.sent,
            rtt: ack.rtt,
            bytes: ack.bytes,
            in_flight: ack.in_flight,
            app_limited,
            window: self.controller.window(),
            initial_window: self.initial_window,
            mtu: self.mtu,
            in_slow_start: self.controller.slow_start_threshold().is_none(),
        };
        let resumption = self.resumption.as_mut();
        let outcome = resumption.and_then(|resumption| resumption.on_ack(&facts));
        self.follow(outcome);
        self.feed.ask_for_headers(self.controller.header_interval());
        self.feed.wish_ecn(self.controller.ecn());
    }

    /// `lost_bytes` bytes were found lost, the newest sent at `sent`; 0 mean that the peer reports
    /// ECN marks. With `is_persistent_congestion`, everything sent for several probe timeouts was
    /// lost (RFC 9002, section 7.6).
    pub fn on_lost(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        // A Retry left what is still gathered: stacks report losses after `on_end_acks`.
        self.frame = AckFrame::default();
        self.pauses.on_packet(now, sent);
        if self.pauses.explain_loss(sent) || lost_bytes == 0 && self.marks.are_false() {
            return;
        }
        let at = self.pauses.without_pauses(now);
        if lost_bytes > 0 {
            self.rounds.on_lost(lost_bytes);
            self.controller.on_lost(at, lost_bytes);
        }
        // Scalable controllers answer the number of marks in each ACK, also within a recovery period.
        let is_counted_by_ack = lost_bytes == 0 && self.ecn == Some(EcnMode::Scalable);
        if !is_counted_by_ack && !self.in_recovery(sent) {
            self.begin_recovery(now);
            self.controller.on_congestion(&match lost_bytes {
                0 => Congestion::ecn(at),
                bytes => Congestion::loss(at, bytes),
            });
        }
        let (initial_window, resumption) = (self.initial_window, self.resumption.as_mut());
        let outcome =
            resumption.and_then(|resumption| resumption.on_congestion(now, sent, initial_window));
        self.follow(outcome);
        // RFC 9002, appendix B.8: this collapses the window even within a recovery period.
        if is_persistent_congestion && !self.pauses.explain_persistent(sent) {
            self.resumption = None;
            self.controller.on_persistent_congestion();
        }
    }

    /// Full-size packets now carry `mtu` bytes of UDP payload.
    pub fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.controller.on_mtu(mtu);
    }

    /// Returns the window in bytes, as it is: possibly less than one packet. It is the controller's,
    /// or that of a remembered path while it is tried, and in slow start after that.
    pub fn window(&self) -> u64 {
        let tried = self.tried().map_or(0, |(window, _)| window);
        self.controller.window().max(tried)
    }

    /// Returns the window in bytes that lets a connection go on: at least a full-size packet.
    pub fn least_window(&self) -> u64 {
        self.window().max(u64::from(self.mtu))
    }

    /// Returns the controller's window at the start, in bytes.
    pub fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// Returns the controller's own pacing rate in bytes of UDP payload per second, if it has one; at
    /// least that of a remembered path while it is tried.
    pub fn pacing_rate(&self) -> Option<u64> {
        let tried = self.tried().map(|(_, rate)| rate);
        self.controller.pacing_rate().max(tried)
    }

    /// Returns the pacing rate that lets a connection go on: at least a full-size packet in
    /// [`LONGEST_GAP`].
    pub fn least_pacing_rate(&self) -> Option<u64> {
        let least = u64::from(self.mtu).div_ceil(LONGEST_GAP.as_secs());
        self.pacing_rate().map(|rate| rate.max(least))
    }

    /// Returns the window in bytes at which slow start ends; `None` until set.
    pub fn slow_start_threshold(&self) -> Option<u64> {
        self.controller.slow_start_threshold()
    }

    /// If this ACK shows that the path's marks say nothing, goes on with the controller as it was
    /// before them, unless its window has grown since.
    fn watch_marks(&mut self, acked: &AckedPackets, marked: u64, rtt: Option<Duration>) {
        let controller = &self.controller;
        let is_scalable = self.ecn == Some(EcnMode::Scalable);
        let found = (self.marks).on_ack(acked, marked, rtt, is_scalable, || controller.clone());
        let mut controller = match found {
            Some(Found::False(before)) => before,
            Some(Found::Saturated) => return self.feed.set_ecn_fault(EcnFault::Saturated),
            None => return,
        };
        self.feed.set_ecn_fault(EcnFault::AllMarked);
        if controller.window() < self.controller.window() {
            return;
        }
        controller.on_mtu(self.mtu);
        controller.on_overhead(self.overhead);
        controller.on_ecn(self.ecn);
        self.controller = controller;
        self.recovery_start = None;
    }

    /// Returns the window and the rate with which a remembered path is tried.
    fn tried(&self) -> Option<(u64, u64)> {
        self.resumption.as_ref().and_then(Resumption::allows)
    }

    /// What a remembered path demands next.
    fn follow(&mut self, outcome: Option<Outcome>) {
        let window = match outcome {
            None => return,
            Some(Outcome::Over) => None,
            Some(Outcome::OverWith(window) | Outcome::Retreat(window)) => Some(window),
        };
        if let Some(window) = window {
            self.controller.resume(window);
        }
        if !matches!(outcome, Some(Outcome::Retreat(_))) {
            self.resumption = None;
        }
    }

    fn begin_recovery(&mut self, now: Instant) {
        self.recovery_start = Some(now);
        self.rounds.on_recovery(now);
    }

    /// Whether a packet sent at `sent` belongs to the current recovery period or an earlier one.
    fn in_recovery(&self, sent: Instant) -> bool {
        self.recovery_start.is_some_and(|start| sent <= start)
    }
}
