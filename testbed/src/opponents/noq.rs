//! noq's BBRv3 (noq-proto 1.4.0, `Bbr3`) as a quinn controller.
//!
//! noq forked from quinn, and its trait tells controllers more. The bridge derives the rest from
//! what quinn-proto 0.11.19 calls:
//!
//! - **Packets.** quinn reports each batch that it sends. noq reports each ack-eliciting packet,
//!   then the batch. All packets of a batch but the last have its segment size, so the bridge
//!   splits the batch by the packet size. quinn asks for the window before each batch with room for
//!   data. A small batch without that question holds only ACKs, and the bridge does not report it.
//! - **Numbers.** The bridge counts packets. noq numbers each packet number space from 0 and does
//!   not tell the controller which space it is, so noq's controller confuses handshake packets.
//! - **Losses.** Loss detection takes the oldest packets in flight, up to the newest lost one.
//!   quinn reports when that one was sent and how many bytes are lost, which identifies the lost
//!   packets.
//! - **A full window.** The bridge reports one when quinn asks for the window and finds it full.
//!   noq uses a window up, quinn stays below it: quinn gets a window one byte larger.
//! - **Pacing.** The endpoint paces at the controller's rate, with noq's bucket. noq's pacer does
//!   not use the send quantum, so the endpoint does not either.
//!
//! The bridge cannot carry over:
//!
//! - **Late packets.** noq reports losses that turn out to be late packets. quinn forgets lost
//!   packets.
//! - **ACK frequency.** noq reports the frequency that it asks of the peer. Without it, `Bbr3`
//!   counts on an ACK for every second packet, and on a delay of at most 25 ms.
//! - **MTU probes.** quinn reports only that a probe was acknowledged. It counts as delivered and
//!   gives no sample. Packets that share a datagram, as in the handshake, count as one.
//! - **The first packets.** noq paces before the first ACK, at a window per millisecond. This
//!   endpoint does not.
//! - **Seeds.** `Bbr3` seeds the generator for its probing times itself, so runs do not repeat.

mod estimator;

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use evenkeel_congestion::{PathFactory, PathFeed};
use noq_proto::congestion as noq;
use quinn::congestion::{self, ControllerFactory, ControllerMetrics};
use quinn_proto::RttEstimator;

/// Builds quinn controllers that run noq's BBRv3.
pub(super) struct Factory;

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        self.build_fed(now, current_mtu, PathFeed::default())
    }
}

impl PathFactory for Factory {
    fn build_fed(
        self: Arc<Self>,
        now: Instant,
        current_mtu: u16,
        feed: PathFeed,
    ) -> Box<dyn congestion::Controller> {
        feed.follow(None);
        let factory = Arc::new(noq::Bbr3Config::default());
        let controller = noq::ControllerFactory::build(factory, now, current_mtu);
        Box::new(Bridge::new(controller, current_mtu, feed))
    }

    fn repeats(&self) -> bool {
        false
    }
}

/// A batch of this many bytes holds more than ACKs.
const LEAST_DATA: u64 = 600;

/// The number of a packet of which noq was not told.
const UNKNOWN: u64 = u64::MAX;

/// A controller of noq as quinn sees it.
#[derive(Debug)]
struct Bridge {
    controller: Box<dyn noq::Controller>,
    feed: PathFeed,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Packets in flight, in the order of their numbers.
    packets: VecDeque<Packet>,
    /// Their bytes.
    tracked: u64,
    /// Bytes in flight: those that quinn reported with the last ACK, and what was sent since.
    in_flight: u64,
    next_number: u64,
    /// The newest packet acknowledged: its sending time and number.
    newest_acked: Option<(Instant, u64)>,
    /// An estimator that says what quinn's said at the first ACK, the only one for which `Bbr3`
    /// asks it.
    estimator: Option<noq_proto::RttEstimator>,
    asked: Asked,
}

/// What quinn's questions for the window show. Atomic because quinn asks through a shared reference.
#[derive(Debug, Default)]
struct Asked {
    /// There was room for a packet: what is sent next holds data.
    room: AtomicBool,
    /// There was none since noq was last told.
    full: AtomicBool,
}

/// A packet of which noq was told.
#[derive(Debug, Clone, Copy)]
struct Packet {
    number: u64,
    sent: Instant,
    bytes: u16,
}

impl Bridge {
    fn new(controller: Box<dyn noq::Controller>, mtu: u16, feed: PathFeed) -> Self {
        Self {
            controller,
            feed,
            mtu,
            packets: VecDeque::new(),
            tracked: 0,
            in_flight: 0,
            next_number: 0,
            newest_acked: None,
            estimator: None,
            asked: Asked::default(),
        }
    }

    /// Tells noq of a full window, before whatever comes next.
    fn tell_if_full(&mut self) {
        if self.asked.full.swap(false, Ordering::Relaxed) {
            self.controller.on_cwnd_limited();
        }
    }

    /// One packet of an ACK frame, while quinn's estimator says `smoothed_rtt`.
    fn acked(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        smoothed_rtt: Duration,
    ) {
        let number = self.take(sent, bytes).unwrap_or(UNKNOWN);
        if number != UNKNOWN {
            self.newest_acked = self.newest_acked.max(Some((sent, number)));
        }
        let estimator = self
            .estimator
            .get_or_insert_with(|| estimator::that_says(smoothed_rtt, now));
        self.controller
            .on_ack(now, sent, bytes, number, app_limited, estimator);
    }

    /// Forgets the packet that was sent at `sent` with `bytes` bytes, or another of its batch.
    fn take(&mut self, sent: Instant, bytes: u64) -> Option<u64> {
        let first = self.packets.partition_point(|packet| packet.sent < sent);
        let batch = || self.packets.range(first..).take_while(|p| p.sent == sent);
        let equal = batch().position(|packet| u64::from(packet.bytes) == bytes);
        let index = first + equal.unwrap_or(0);
        if self.packets.get(index)?.sent != sent {
            return None;
        }
        let packet = self.packets.remove(index)?;
        self.tracked -= u64::from(packet.bytes);
        Some(packet.number)
    }

    /// Forgets the oldest packet.
    fn take_oldest(&mut self) -> Option<Packet> {
        let oldest = self.packets.pop_front()?;
        self.tracked -= u64::from(oldest.bytes);
        Some(oldest)
    }

    /// Forgets packets that quinn has forgotten, as it does with those of the handshake.
    fn forget_what_is_not_in_flight(&mut self) {
        while let Some(oldest) = self.packets.front()
            && self.tracked >= self.in_flight + u64::from(oldest.bytes)
        {
            self.take_oldest();
        }
    }
}

impl congestion::Controller for Bridge {
    fn on_sent(&mut self, now: Instant, bytes: u64, _last_packet_number: u64) {
        self.tell_if_full();
        let is_data = self.asked.room.swap(false, Ordering::Relaxed) || bytes >= LEAST_DATA;
        if !is_data {
            return;
        }
        let mut left = bytes;
        while left > 0 {
            let size = self.mtu.min(u16::try_from(left).unwrap_or(u16::MAX));
            let number = self.next_number;
            self.next_number += 1;
            self.packets.push_back(Packet {
                number,
                sent: now,
                bytes: size,
            });
            self.controller.on_packet_sent(now, size, number);
            left -= u64::from(size);
        }
        self.tracked += bytes;
        self.in_flight += bytes;
        self.controller.on_sent(now, bytes, self.next_number - 1);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.tell_if_full();
        self.acked(now, sent, bytes, app_limited, rtt.get());
    }

    fn on_end_acks(
        &mut self,
        now: Instant,
        in_flight: u64,
        app_limited: bool,
        largest_packet_num_acked: Option<u64>,
    ) {
        let newest = self.newest_acked.map_or(0, |(_, number)| number);
        let largest = largest_packet_num_acked.map(|_| newest);
        self.controller
            .on_end_acks(now, in_flight, app_limited, largest);
        self.in_flight = in_flight;
        self.forget_what_is_not_in_flight();
        if let Some(rate) = self.controller.metrics().pacing_rate {
            self.feed.limit_bursts(bucket(rate, self.mtu));
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let is_ecn = lost_bytes == 0;
        let mut largest = self.newest_acked.map_or(0, |(_, number)| number);
        let mut left = lost_bytes;
        while left > 0
            && self
                .packets
                .front()
                .is_some_and(|oldest| oldest.sent <= sent)
            && let Some(lost) = self.take_oldest()
        {
            self.controller.on_packet_lost(lost.bytes, lost.number, now);
            largest = lost.number;
            left = left.saturating_sub(u64::from(lost.bytes));
        }
        self.in_flight = self.in_flight.saturating_sub(lost_bytes);
        self.controller.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest,
        );
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu;
        self.controller.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        let window = self.controller.window();
        let has_room = self.in_flight.saturating_add(u64::from(self.mtu)) <= window;
        let answer = if has_room {
            &self.asked.room
        } else {
            &self.asked.full
        };
        answer.store(true, Ordering::Relaxed);
        window.saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let own = self.controller.metrics();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = own.congestion_window;
        metrics.ssthresh = own.ssthresh;
        // noq counts bytes, quinn bits.
        metrics.pacing_rate = own.pacing_rate.map(|rate| rate.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(Self {
            controller: self.controller.clone_box(),
            feed: self.feed.clone(),
            packets: self.packets.clone(),
            asked: Asked::default(),
            ..*self
        })
    }

    fn initial_window(&self) -> u64 {
        self.controller.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// Bytes that noq's pacer lets go at once at `rate` bytes per second (noq-proto 1.4.0,
/// `rate_capacity`): what the rate gives in 2 ms, but at least 10 packets unless they take 10 ms,
/// and at most 256.
fn bucket(rate: u64, mtu: u16) -> u64 {
    let mtu = u64::from(mtu);
    let in_ms = |ms: u64| rate.saturating_mul(ms) / 1000;
    let most = in_ms(10).max(mtu);
    in_ms(2).clamp(10 * mtu, 256 * mtu).min(most)
}

#[cfg(test)]
mod tests;
