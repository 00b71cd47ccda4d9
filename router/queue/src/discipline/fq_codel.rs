//! FQ-CoDel: a queue with CoDel for each flow, served in turn.
//!
//! T. Hoeiland-Joergensen, P. McKenney, D. Taht, J. Gettys, E. Dumazet, "The Flow Queue CoDel Packet
//! Scheduler and Active Queue Management Algorithm", RFC 8290. Flows share queues by a keyed hash of
//! addresses, protocol and ports. Queues are served by deficit round robin. One that begins goes
//! before those that have sent their quantum, so that flows with little to send do not wait. If the
//! limit is reached, the queue with the most bytes loses its first packets.
//!
//! With `hosts` hosts take turns too, and the flows of a host in its turn: of both ends, the one with
//! more flows counts. These are sch_cake's `dual-srchost`, `dual-dsthost` and `triple-isolate`
//! (T. Hoeiland-Joergensen, D. Taht, J. Morton, "Piece of CAKE", LANMAN 2018, section III-B). As
//! there, a flow has its queue out of a few that its hash selects (section III-C); no host has
//! more of them than it leaves, so that flows share a queue with those of the same host.

mod hosts;

use std::time::Instant;

use evenkeel_spec::{Row, SpecParameter};

use self::hosts::{Hosts, Place};
use super::codel::{Control, INTERVAL, Params, TARGET, ecn};
use super::{Discipline, DisciplineRow, PortView, Sender, Verdict};
use crate::packet::{Amount, PacketMeta};

/// Queues (RFC 8290, section 5.2).
const FLOWS: u64 = 1024;

/// Bytes of a full Ethernet frame (RFC 8290, section 5.2).
const QUANTUM: u64 = 1514;

/// Queues out of which a flow has one, if hosts count ("Piece of CAKE", section III-C).
const WAYS: usize = 8;

/// The longest queue loses half of its packets at once, at most this many (RFC 8290, section 4.1).
const MOST_DROPPED: u64 = 64;

pub(super) const ROW: DisciplineRow = Row {
    name: "fq-codel",
    summary: "flow queue CoDel: a queue for each flow, served in turn, with CoDel",
    parameters: &[
        TARGET,
        INTERVAL,
        ecn(true),
        SpecParameter::count(
            "quantum",
            "bytes that a queue may send in its turn",
            64,
            1 << 20,
            Some(QUANTUM),
        ),
        SpecParameter::count(
            "flows",
            "queues among which flows are spread by hash",
            1,
            1 << 16,
            Some(FLOWS),
        ),
        HOSTS,
    ],
    build: |values, _| {
        let flows: usize = values.count("flows");
        Ok(Box::new(FqCoDel {
            params: Params::read(values),
            quantum: values.count("quantum"),
            queues: vec![Queue::default(); flows],
            arriving: Arriving::default(),
            hosts: Hosts::new(values.word("hosts"), values.count("quantum")),
        }))
    },
};

/// Whether hosts take turns.
pub(super) const HOSTS: SpecParameter = SpecParameter::choice(
    "hosts",
    "hosts of which end have equal shares, whatever their numbers of flows; true: of both",
    &["false", "true", "source", "destination"],
    Some("false"),
);

/// The discipline.
#[derive(Debug, Clone)]
struct FqCoDel {
    params: Params,
    /// In bytes, as all credits.
    quantum: i64,
    queues: Vec<Queue>,
    /// The packet that arrives.
    arriving: Arriving,
    hosts: Hosts,
}

/// Keyed hashes of a packet's flow, and of the hosts that it comes from and goes to.
#[derive(Debug, Clone, Copy, Default)]
struct Arriving {
    flow: u64,
    ends: [u64; 2],
}

#[derive(Debug, Clone, Default)]
struct Queue {
    control: Control,
    /// What it may send before others have their turn.
    credits: i64,
    /// It is in a list of its host's.
    is_active: bool,
    /// It has sent its quantum, and not been empty since.
    is_bulk: bool,
    /// The flow that it was given to, and the last other one that shares it.
    flows: [u64; 2],
    /// The numbers of the hosts that its packets come from and go to, and of the one in whose turn it is.
    ends: [usize; 2],
    host: usize,
    place: Place,
}

impl FqCoDel {
    /// The queues out of which a flow has one.
    fn ways(&self, flow: u64) -> impl Iterator<Item = usize> + Clone + use<> {
        let queues = self.queues.len();
        let first = (flow % queues as u64) as usize;
        (0..WAYS.min(queues)).map(move |way| (first + way) % queues)
    }

    /// The queue of the flow that arrives.
    fn find(&mut self) -> usize {
        let flow = self.arriving.flow;
        let mut ways = self.ways(flow);
        if !self.hosts.counts() {
            return ways.next().expect("there is a queue");
        }
        let is_its = |queue: &Queue| queue.is_active && queue.flows.contains(&flow);
        let its = ways.clone().find(|way| is_its(&self.queues[*way]));
        its.unwrap_or_else(|| self.choose(ways))
    }

    /// The queue of a flow that has none: a free one, unless its host has as many; else one that its
    /// host has; else one of a host that has several.
    fn choose(&mut self, ways: impl Iterator<Item = usize>) -> usize {
        let (taken, free): (Vec<_>, Vec<_>) = ways.partition(|way| self.queues[*way].is_active);
        let mine = self.hosts.find(self.arriving.ends);
        let common = |ends, way: &usize| self.hosts.common(ends, self.queues[*way].ends);
        let mine_at = |side: usize| taken.iter().filter(|way| common(mine, way)[side]).count();
        let [sources, destinations] = [0, 1].map(mine_at);
        if let Some(way) = free
            .first()
            .filter(|_| free.len() > sources.max(destinations))
        {
            return *way;
        }
        let both = |ends, way: &usize| common(ends, way).into_iter().filter(|is| *is).count();
        let others = |way: &usize| {
            let ends = self.queues[*way].ends;
            taken.iter().map(|other| both(ends, other)).sum::<usize>() - both(ends, way)
        };
        let most = taken.iter().max_by_key(|way| others(way));
        match most.filter(|way| others(way) > sources + destinations) {
            Some(way) => {
                let way = *way;
                self.end(way);
                way
            }
            None => {
                let own = taken.into_iter().max_by_key(|way| both(mine, way));
                let own = own.expect("what is not free is taken");
                self.queues[own].flows[1] = self.arriving.flow;
                own
            }
        }
    }

    /// The flow that arrives has this queue, which was free.
    fn begin(&mut self, number: usize) {
        let ends = self.hosts.enter(self.arriving.ends);
        let host = self.hosts.fuller(ends, None);
        self.queues[number] = Queue {
            control: std::mem::take(&mut self.queues[number].control),
            credits: self.quantum,
            is_active: true,
            flows: [self.arriving.flow; 2],
            ends,
            host,
            ..Queue::default()
        };
        self.hosts.join(&mut self.queues, number, true);
    }

    /// A queue is nobody's any more. What it still holds goes in the turn of who has it next.
    fn end(&mut self, number: usize) {
        self.hosts.part(&mut self.queues, number);
        let queue = &mut self.queues[number];
        (queue.is_active, queue.is_bulk) = (false, false);
        self.hosts.leave(queue.ends);
    }
}

impl Discipline for FqCoDel {
    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn classes(&self) -> &'static [&'static str] {
        &["sparse", "bulk"]
    }

    fn class_of(&self, queue: usize) -> usize {
        usize::from(self.queues[queue].is_bulk)
    }

    fn tells_hosts_apart(&self) -> bool {
        self.hosts.counts()
    }

    fn classify(&mut self, _meta: &PacketMeta, sender: Sender) -> usize {
        self.arriving = Arriving {
            flow: sender.flow.unwrap_or_default(),
            ends: sender.ends.unwrap_or_default(),
        };
        self.find()
    }

    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, port: &PortView) -> Verdict {
        if !self.queues[port.queue].is_active {
            self.begin(port.queue);
        }
        Verdict::Admit
    }

    fn select(&mut self, held: &[Amount], _packets: u64) -> usize {
        loop {
            let Some((number, is_new)) = self.hosts.next() else {
                continue;
            };
            let queue = &mut self.queues[number];
            if queue.credits > 0 && held[number].packets > 0 {
                return number;
            }
            let is_over = queue.credits <= 0;
            if is_over {
                queue.is_bulk = true;
                queue.credits += self.quantum;
            } else if !is_new {
                self.end(number);
                continue;
            }
            // A queue that began goes behind the others even if it is empty: else a flow that sends
            // a packet at a time would always go first (RFC 8290, section 4.2).
            self.hosts.part(&mut self.queues, number);
            let queue = &mut self.queues[number];
            queue.host = self.hosts.fuller(queue.ends, Some(queue.host));
            self.hosts.join(&mut self.queues, number, false);
        }
    }

    fn on_departure(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let queue = &mut self.queues[port.queue];
        let verdict = queue.control.on_departure(&self.params, now, meta, port);
        if !matches!(verdict, Verdict::Drop(_)) {
            queue.credits -= i64::from(meta.bytes);
            self.hosts.charge(queue.host, meta.bytes);
        }
        verdict
    }

    fn make_room(&mut self, held: &[Amount]) -> Option<(usize, u64)> {
        let host = self.hosts.fattest(&self.queues, held);
        let of_it = |queue: &usize| host.is_none_or(|host| self.queues[*queue].host == host);
        let queues = (0..held.len()).filter(of_it);
        let fattest = queues.max_by_key(|queue| held[*queue].bytes)?;
        let packets = held[fattest].packets;
        (packets > 0).then(|| (fattest, (packets / 2).clamp(1, MOST_DROPPED)))
    }
}

#[cfg(test)]
mod tests;
