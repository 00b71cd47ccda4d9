//! A router's output port: the only place where packets wait.

mod accounts;
mod outbox;
mod overhead;
mod stages;
mod verdicts;
mod watch;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher13;

use crate::discipline::{Discipline, DropReason, PortView, Sender, Verdict};
use crate::limit::Limit;
use crate::packet::{Amount, Packet};
use crate::rate::Rate;
use crate::server::{Server, Service};
use crate::stamp::{Carrier, StampConfig, StampFigures, Stamper};
use crate::stats::{PortStats, QueueInterval};
pub use watch::{ClassFigures, FlowFigures, FlowReport};

use outbox::Outbox;
use overhead::Overhead;
use stages::{Next, Transmission, Waiting};
use watch::Watch;

/// What a port is made of.
#[derive(Debug)]
pub struct PortConfig {
    /// How fast it transmits.
    pub service: Service,
    /// Bytes that the link layer adds to each packet: they take time, and count nowhere else.
    pub overhead_bytes: u32,
    /// Whether [`Port::flows`] has figures, which cost a look at a table for every packet.
    pub watches_flows: bool,
    /// How much may wait.
    pub limit: Limit,
    /// What it admits, marks and drops.
    pub discipline: Box<dyn Discipline>,
    /// What it writes into path headers, in this order; nothing, for most ports.
    pub stamps: Vec<Box<dyn StampConfig>>,
    /// With what disciplines and stamps hash flows. Who knows it can make flows that look like one.
    pub flow_hash_key: [u8; 16],
}

/// A queue and the transmitter behind it: store and forward.
///
/// A packet that finds the transmitter idle starts at once; else it waits, behind those that came
/// before it to the same queue. It leaves when its last bit is sent. The *queue* is what waits: limits
/// and lengths do not count the packet in transmission (ns-2 counts so too).
///
/// All instants are exact and none depends on how often or how late the host calls. Of events at
/// the same instant, transmissions end and start first, then timers fire, then packets arrive.
#[derive(Debug)]
pub struct Port<P> {
    /// How far time has come: the latest instant a call has named.
    now: Instant,
    server: Server,
    overhead: Overhead,
    limit: Limit,
    discipline: Box<dyn Discipline>,
    /// It is asked what becomes of packets.
    judges: bool,
    stamper: Stamper,
    /// As many as the discipline wants, and what each holds.
    queues: Vec<VecDeque<Waiting<P>>>,
    held: Vec<Amount>,
    /// Packets in all of them.
    waiting: usize,
    /// Since when something has been waiting without a break.
    waiting_since: Option<Instant>,
    /// Hashes flows, if discipline or stamps tell them apart.
    hasher: Option<SipHasher13>,
    /// Discipline or stamps look at path headers.
    reads_headers: bool,
    /// `None` unless flows have queues of their own and somebody looks.
    watch: Option<Box<Watch>>,
    transmission: Option<Transmission<P>>,
    departed: Outbox<P>,
    stats: PortStats,
}

/// A port without a rate of its own was to change it, or to be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "only a link with a rate has one to change or suspend; give it a rate, or remove the change"
)]
pub struct FixedService;

impl<P: Carrier> Port<P> {
    /// An empty port; `now` is where its measurement, and its trace, begin.
    pub fn new(now: Instant, config: PortConfig) -> Self {
        let queues = config.discipline.queues();
        let stamper = Stamper::new(now, &config.stamps);
        let tells_flows_apart = queues > 1 || stamper.tells_flows_apart();
        let reads_headers = stamper.has_stamps() || config.discipline.reads_headers();
        let watch = (config.watches_flows && queues > 1)
            .then(|| Box::new(Watch::new(now, &*config.discipline)));
        let hasher = || SipHasher13::new_with_key(&config.flow_hash_key);
        Self {
            now,
            server: Server::new(now, config.service),
            overhead: Overhead::new(config.overhead_bytes),
            limit: config.limit,
            judges: config.discipline.judges(),
            discipline: config.discipline,
            stamper,
            queues: (0..queues).map(|_| VecDeque::new()).collect(),
            held: vec![Amount::ZERO; queues],
            waiting: 0,
            waiting_since: None,
            hasher: tells_flows_apart.then(hasher),
            reads_headers,
            watch,
            transmission: None,
            departed: Outbox::new(now),
            stats: PortStats::new(now, config.overhead_bytes),
        }
    }

    /// A packet arrives. Says what became of it; a dropped one is gone.
    ///
    /// [`Verdict::Admit`] and [`Verdict::Mark`] are not final with a discipline that drops or
    /// marks at departure.
    pub fn enqueue(&mut self, now: Instant, packet: Packet<P>) -> Verdict {
        self.enqueue_seen(now, now, packet)
    }

    /// A packet arrives that has been found at `seen`, and is reckoned to have come at `now`, which
    /// is not later. The queue takes it as coming at `now`; it leaves no earlier than from a port
    /// whose packets all come when they are seen.
    pub(crate) fn enqueue_seen(
        &mut self,
        now: Instant,
        seen: Instant,
        mut packet: Packet<P>,
    ) -> Verdict {
        let now = self.advance(now);
        let bytes = packet.meta.bytes;
        packet.meta.queued = Duration::ZERO;
        if self.has_nothing_to_do() {
            return self.pass(now, seen, packet);
        }
        self.stats.settle(now);
        self.stats.arrived(bytes);
        // Whatever could start by now has started: what waits is waiting for a later instant.
        let starts = self
            .server
            .next_start(now)
            .is_some_and(|start| start <= now);
        debug_assert!(!starts || (self.transmission.is_none() && self.waiting_since.is_none()));
        let hasher = self.hasher.as_ref();
        let key = hasher.and_then(|hasher| Some((hasher, packet.payload.flow()?)));
        let flow = key.map(|(hasher, flow)| hasher.hash(flow.as_bytes()));
        let carried = self.reads_headers.then(|| packet.payload.path_header());
        let has_header = matches!(carried, Some(Ok(_)));
        let host = key.filter(|_| self.discipline.reads_headers());
        let host = host.map(|(hasher, flow)| hasher.hash(flow.host()));
        let ends = key.filter(|_| self.discipline.tells_hosts_apart());
        let ends =
            ends.map(|(hasher, flow)| [flow.host(), flow.peer()].map(|end| hasher.hash(end)));
        let sender = Sender {
            flow,
            host,
            has_header,
            ends,
        };
        let queue = self.discipline.classify(&packet.meta, sender);
        let flow_key = key.map(|(_, flow)| flow);
        if let (Some(watch), Some(known)) = (&mut self.watch, flow.zip(flow_key)) {
            watch.arrives(now, known, queue, bytes);
        }
        let view = match self.reads_headers {
            true => self.seen_by_stamps(queue),
            false => None,
        };
        let has_header = carried.is_some_and(|carried| {
            self.stamper
                .on_arrival(now, bytes, flow, carried, view.as_ref())
        });
        let mut verdict = self.decide(queue, &mut packet.meta, |discipline, meta, port| {
            discipline.on_arrival(now, meta, port)
        });
        let fits = starts || self.limit.admits(self.stats.queued(), bytes);
        if !fits && (matches!(verdict, Verdict::Drop(_)) || !self.make_room(bytes)) {
            verdict = Verdict::Drop(DropReason::Full);
        }
        self.count(verdict, flow, queue, bytes);
        if !matches!(verdict, Verdict::Drop(_)) {
            let waiting = Waiting {
                arrived: now,
                seen,
                has_header,
                flow,
                packet,
            };
            if let Some(changed @ (Verdict::Mark | Verdict::Drop(_))) =
                self.admit(now, queue, waiting, starts)
            {
                verdict = changed;
            }
        }
        debug_assert_eq!(self.check_counters(), Ok(()));
        verdict
    }

    /// Lets a packet wait, or start at once; then returns what its departure makes of the verdict.
    fn admit(
        &mut self,
        now: Instant,
        queue: usize,
        waiting: Waiting<P>,
        starts: bool,
    ) -> Option<Verdict> {
        let bytes = waiting.packet.meta.bytes;
        let next = if starts && self.queues.len() == 1 {
            // Nothing waits: it would be the first of its queue, for no time.
            Some(Next {
                queue,
                since: now,
                waiting,
            })
        } else {
            if let Some(watch) = &mut self.watch {
                watch.waits(waiting.flow, bytes);
            }
            self.queues[queue].push_back(waiting);
            self.held[queue] += Amount::one(bytes);
            self.waiting += 1;
            self.waiting_since.get_or_insert(now);
            if !starts {
                self.stats.joined_queue(bytes);
                return None;
            }
            self.pop_next()
        };
        let verdict = next.map(|next| self.start(now, next));
        // Unlimited service ends at the instant at which it starts.
        self.advance(now);
        verdict
    }

    /// The next packet whose transmission ended at or before `now`, with the instant of that end.
    pub fn dequeue(&mut self, now: Instant) -> Option<(Instant, Packet<P>)> {
        let now = self.advance(now);
        self.departed.pop(now)
    }

    /// When there is something to do: a packet to fetch, or a timer of discipline or stamps. A host
    /// that cares for packets alone may skip timers: they fire, at their instants, with its next call.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_departure()
            .into_iter()
            .chain(self.next_timer())
            .min()
    }

    /// When, as things stand, the next packet can be fetched; never too late.
    pub(crate) fn next_departure(&self) -> Option<Instant> {
        match (self.departed.next(), &self.transmission) {
            (Some(ended), _) => Some(ended),
            (None, Some(transmission)) => transmission.ends,
            (None, None) => self.next_start(),
        }
    }

    /// What has been measured up to `now`.
    pub fn stats(&mut self, now: Instant) -> &PortStats {
        let now = self.advance(now);
        self.stats.settle(now);
        self.stats.set_headers(self.stamper.counts());
        self.stats.set_offered_bytes(self.server.offered_bytes(now));
        &self.stats
    }

    /// Where the stamps stand at `now`.
    pub fn stamp_figures(&mut self, now: Instant) -> Vec<StampFigures> {
        self.advance(now);
        self.stamper.figures()
    }

    /// Where flows and classes stand at `now`; nothing if the port does not watch them.
    pub fn flows(&mut self, now: Instant) -> FlowReport {
        let now = self.advance(now);
        let watch = self.watch.as_ref();
        let report = watch.map(|watch| watch.report(now, &*self.discipline, &self.held));
        report.unwrap_or_default()
    }

    /// Starts a new measurement window: the warm-up is over.
    pub fn restart_measurement(&mut self, now: Instant) {
        self.stats(now);
        self.stats.restart_window();
    }

    /// The queue since the last call (or the creation): the host's sampling interval.
    pub fn take_interval(&mut self, now: Instant) -> QueueInterval {
        self.stats(now);
        self.stats.take_interval()
    }

    /// Changes the rate, and ends a suspension. The rest of the packet in transmission is sent at the
    /// new rate.
    ///
    /// # Errors
    /// [`FixedService`] if the port follows a trace or a cellular rate.
    pub fn set_rate(&mut self, now: Instant, rate: Rate) -> Result<(), FixedService> {
        let now = self.advance(now);
        match &mut self.server {
            Server::Trace(_) | Server::Cellular(_) => return Err(FixedService),
            Server::Unlimited => self.server = Server::new(now, Service::Rate(rate)),
            Server::Rate(server) => {
                let ends = server.set_rate(now, rate);
                if let Some(transmission) = &mut self.transmission {
                    transmission.ends = Some(ends);
                }
            }
        }
        Ok(())
    }

    /// Stops the transmitter until [`Port::set_rate`]: packets wait, and the rest of the one in
    /// transmission too.
    ///
    /// # Errors
    /// [`FixedService`] if the port has no rate.
    pub fn suspend(&mut self, now: Instant) -> Result<(), FixedService> {
        let now = self.advance(now);
        let Server::Rate(server) = &mut self.server else {
            return Err(FixedService);
        };
        server.suspend(now);
        if let Some(transmission) = &mut self.transmission {
            transmission.ends = None;
        }
        Ok(())
    }

    /// Changes the limit. What waits already stays, even beyond a smaller one.
    pub fn set_limit(&mut self, now: Instant, limit: Limit) {
        self.advance(now);
        self.limit = limit;
    }

    /// Packets that waited elsewhere arrive: none finds the queue full.
    pub(crate) fn refill(&mut self, now: Instant, packets: Vec<Packet<P>>) {
        let limit = std::mem::replace(&mut self.limit, Limit::NONE);
        for packet in packets {
            self.enqueue(now, packet);
        }
        self.limit = limit;
    }

    /// Takes out what has been transmitted, with the instants at which it may be fetched.
    pub(crate) fn take_departed(&mut self) -> VecDeque<(Instant, Packet<P>)> {
        self.departed.take()
    }

    /// Takes out what waits or is being transmitted, in the order of arrival.
    pub(crate) fn into_waiting(self) -> Vec<Packet<P>> {
        let mut waiting: Vec<_> = self.queues.into_iter().flatten().collect();
        waiting.sort_by_key(|waiting| waiting.arrived);
        let transmitted = self.transmission.map(|transmission| transmission.packet);
        let waiting = waiting.into_iter().map(|waiting| waiting.packet);
        transmitted.into_iter().chain(waiting).collect()
    }

    /// Handles everything up to `now`, in order of time; returns how far time has come.
    fn advance(&mut self, now: Instant) -> Instant {
        while let Some(at) = self.next_transmission_event().filter(|at| *at <= now) {
            self.fire_timers(at, false);
            self.step_to(at);
            self.stats.settle(self.now);
            match self.transmission.take() {
                Some(transmission) => {
                    self.stats.ended();
                    let Transmission {
                        began,
                        seen,
                        waited,
                        packet,
                        ..
                    } = transmission;
                    let length = elapsed(began, at);
                    self.departed.push(at, length, seen, waited, packet);
                }
                None => self.start_next(at),
            }
        }
        self.fire_timers(now, true);
        self.step_to(now);
        self.now
    }

    /// When the present transmission ends, or the next one starts.
    fn next_transmission_event(&self) -> Option<Instant> {
        match &self.transmission {
            Some(transmission) => transmission.ends,
            None => self.next_start(),
        }
    }

    fn next_start(&self) -> Option<Instant> {
        self.server.next_start(self.waiting_since?)
    }

    /// The earliest timer of discipline and stamps.
    fn next_timer(&self) -> Option<Instant> {
        if !self.judges {
            return self.stamper.next_timer();
        }
        match (self.discipline.next_timer(), self.stamper.next_timer()) {
            (Some(discipline), Some(stamps)) => Some(discipline.min(stamps)),
            (discipline, stamps) => discipline.or(stamps),
        }
    }

    /// Fires timers before `end`, and those at `end` if it is `inclusive`: at one instant the
    /// discipline's before those of stamps.
    fn fire_timers(&mut self, end: Instant, inclusive: bool) {
        while let Some(timer) = self.next_timer() {
            // A timer that was set in the past is due now.
            let at = timer.max(self.now);
            if at > end || (at == end && !inclusive) {
                break;
            }
            self.step_to(at);
            let port = self.view(0);
            if self.discipline.next_timer() == Some(timer) {
                let queues = &self.queues;
                self.discipline.on_timer(at, &port, &|queue| {
                    let first = queues[queue].front();
                    first.map_or(Duration::ZERO, |first| at - first.arrived)
                });
                let next = self.discipline.next_timer();
                assert!(
                    next.is_none_or(|next| next > timer),
                    "a discipline's timer moves on when it fires"
                );
            } else {
                let seen = self.discipline.seen_by_stamps(port, &self.held);
                self.stamper.on_timer(at, &seen.unwrap_or(port));
            }
        }
    }

    /// Time passes; a host's clock that steps back is held.
    fn step_to(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    fn start_next(&mut self, at: Instant) {
        if let Some(next) = self.pop_next() {
            self.stats.left_queue(next.waiting.packet.meta.bytes);
            self.start(at, next);
        }
    }

    /// Takes the packet whose turn it is.
    fn pop_next(&mut self) -> Option<Next<P>> {
        let since = self.waiting_since?;
        let queue = match self.queues.len() {
            1 => 0,
            _ => self.discipline.select(&self.held, self.waiting as u64),
        };
        let waiting = self.pop(queue);
        Some(Next {
            queue,
            since,
            waiting: waiting.expect("a discipline selects a queue that holds something"),
        })
    }

    /// Takes the first packet of a queue.
    fn pop(&mut self, queue: usize) -> Option<Waiting<P>> {
        let waiting = self.queues[queue].pop_front()?;
        if let Some(watch) = &mut self.watch {
            watch.waits_no_longer(waiting.flow, waiting.packet.meta.bytes);
        }
        self.held[queue] -= Amount::one(waiting.packet.meta.bytes);
        self.waiting -= 1;
        if self.waiting == 0 {
            self.waiting_since = None;
        }
        Some(waiting)
    }

    /// Drops what the discipline would rather lose than a packet of `bytes`, until that fits; says
    /// whether it does.
    fn make_room(&mut self, bytes: u32) -> bool {
        if !self.limit.admits(Amount::ZERO, bytes) {
            return false;
        }
        while !self.limit.admits(self.stats.queued(), bytes) {
            let Some((queue, packets)) = self.discipline.make_room(&self.held) else {
                return false;
            };
            assert!(
                packets > 0 && self.held[queue].packets > 0,
                "a discipline makes room in a queue that holds something"
            );
            for _ in 0..packets {
                let Some(dropped) = self.pop(queue) else {
                    break;
                };
                let bytes = dropped.packet.meta.bytes;
                self.stats.left_queue(bytes);
                self.count(Verdict::Drop(DropReason::Full), dropped.flow, queue, bytes);
            }
        }
        true
    }

    /// Starts a transmission, unless the discipline drops the packet.
    fn start(&mut self, at: Instant, next: Next<P>) -> Verdict {
        let Waiting {
            arrived,
            seen,
            has_header,
            flow,
            mut packet,
        } = next.waiting;
        let bytes = packet.meta.bytes;
        let sojourn = elapsed(arrived, at);
        packet.meta.queued = sojourn;
        let verdict = self.decide(next.queue, &mut packet.meta, |discipline, meta, port| {
            discipline.on_departure(at, meta, port)
        });
        self.count(verdict, flow, next.queue, bytes);
        if !matches!(verdict, Verdict::Drop(_)) {
            if let Some(watch) = &mut self.watch {
                watch.is_sent(at, flow, self.discipline.class_of(next.queue), bytes);
            }
            let view = has_header.then(|| self.seen_by_stamps(next.queue));
            if let Some(port) = view.flatten() {
                let grant =
                    self.stamper
                        .on_departure(at, bytes, sojourn, &mut packet.payload, &port);
                if let Some(watch) = &mut self.watch {
                    watch.is_granted(flow, grant);
                }
            }
            let sent = self.overhead.count(bytes);
            let ends = self.server.transmit(next.since, sent);
            self.stats.started(bytes, sojourn);
            let mut firsts = self.queues.iter().filter_map(VecDeque::front);
            self.transmission = Some(Transmission {
                began: at,
                seen,
                waited: firsts.any(|first| first.seen <= at),
                ends: Some(ends),
                packet,
            });
        }
        verdict
    }

    /// What there is to see for a packet of `queue`.
    fn view(&self, queue: usize) -> PortView {
        PortView {
            queued: self.stats.queued(),
            queue,
            own: self.held[queue],
            transmitting: self.transmission.is_some(),
            limit: self.limit,
            rate: self.server.rate().map(|rate| self.overhead.without(rate)),
        }
    }

    /// What stamps see when a packet of `queue` comes or goes.
    fn seen_by_stamps(&self, queue: usize) -> Option<PortView> {
        self.discipline.seen_by_stamps(self.view(queue), &self.held)
    }
}

/// The time between two instants, which often are one.
fn elapsed(from: Instant, to: Instant) -> Duration {
    if from == to {
        return Duration::ZERO;
    }
    to - from
}

#[cfg(test)]
mod tests;
