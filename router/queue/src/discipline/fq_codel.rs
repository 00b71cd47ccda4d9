//! FQ-CoDel: a queue with CoDel for each flow, served in turn.
//!
//! T. Hoeiland-Joergensen, P. McKenney, D. Taht, J. Gettys, E. Dumazet, "The Flow Queue CoDel Packet
//! Scheduler and Active Queue Management Algorithm", RFC 8290. Flows share queues by a keyed hash of
//! addresses, protocol and ports. Queues are served by deficit round robin. One that begins goes
//! before those that have sent their quantum, so that flows with little to send do not wait. If the
//! limit is reached, the queue with the most bytes loses its first packets.
//!
//! With `hosts=source` or `hosts=destination` hosts share the link, and the flows of a host its
//! share: a queue's turn is its quantum divided by how many queues with bulk data its host has. With
//! `hosts=true` its source or its destination counts, whichever has more. These are sch_cake's
//! `dual-srchost`, `dual-dsthost` and `triple-isolate` (T. Hoeiland-Joergensen, D. Taht, J. Morton,
//! "Piece of CAKE", LANMAN 2018, section III-B).

use std::collections::VecDeque;
use std::time::Instant;

use evenkeel_spec::{Row, SpecParameter};

use super::codel::{Control, INTERVAL, Params, TARGET, ecn};
use super::{Discipline, DisciplineRow, PortView, Sender, Verdict};
use crate::packet::{Amount, PacketMeta};

/// Queues (RFC 8290, section 5.2).
const FLOWS: u64 = 1024;

/// Bytes of a full Ethernet frame (RFC 8290, section 5.2).
const QUANTUM: u64 = 1514;

/// Entries of a table that a keyed hash of a host's address selects. Hosts with the same entry
/// share what one has.
const HOSTS: usize = 1024;

/// Parts of a byte in which credits count: a quantum is shared by thousands of queues.
const PARTS: i64 = 1 << 16;

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
        SpecParameter::choice(
            "hosts",
            "hosts of which end have equal shares, whatever their numbers of flows; true: of both",
            &["false", "true", "source", "destination"],
            Some("false"),
        ),
    ],
    build: |values, _| {
        let flows: usize = values.count("flows");
        Ok(Box::new(FqCoDel {
            params: Params::read(values),
            quantum: values.count::<i64>("quantum") * PARTS,
            queues: vec![Queue::default(); flows],
            new: VecDeque::new(),
            old: VecDeque::new(),
            hosts: Hosts::read(values.word("hosts")),
        }))
    },
};

/// The discipline.
#[derive(Debug, Clone)]
struct FqCoDel {
    params: Params,
    /// In [`PARTS`] of a byte, as all credits.
    quantum: i64,
    queues: Vec<Queue>,
    /// The numbers of queues that begin, and of those that have sent their quantum.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    /// `None` unless hosts share the link.
    hosts: Option<Hosts>,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    control: Control,
    /// What it may send before others have their turn.
    credits: i64,
    /// It is in one of the lists.
    is_active: bool,
    /// It has sent its quantum, and not been empty since.
    is_bulk: bool,
    /// The entries of the hosts that its packets come from and go to.
    ends: [usize; 2],
}

/// How many bulk queues hosts have.
#[derive(Debug, Clone)]
struct Hosts {
    /// Of sources, and of destinations; empty if these do not count.
    loads: [Vec<u32>; 2],
    /// The hosts of the packet that arrives.
    arriving: [usize; 2],
    /// The least load of a queue in the last round of turns, and in this one so far. A queue with
    /// it has its whole quantum: some queue is soon ready, however large the loads are.
    least: i64,
    least_so_far: i64,
    /// Turns that are left of the round.
    turns: usize,
}

impl Hosts {
    /// What a word of the parameter `hosts` asks for.
    fn read(word: &str) -> Option<Self> {
        let counts = match word {
            "true" => [true, true],
            "source" => [true, false],
            "destination" => [false, true],
            _ => return None,
        };
        Some(Self {
            loads: counts.map(|counts| vec![0; if counts { HOSTS } else { 0 }]),
            arriving: [0; 2],
            least: 1,
            least_so_far: i64::MAX,
            turns: 0,
        })
    }

    /// How many bulk queues share what a queue's hosts have: of the one that has more.
    fn load(&self, queue: &Queue) -> i64 {
        let loads = self.loads.iter().zip(queue.ends);
        let loads = loads.filter_map(|(loads, end)| loads.get(end));
        i64::from(loads.copied().max().unwrap_or(0).max(1))
    }

    /// What a queue has of a `quantum`; one of `active` has its turn.
    fn share(&mut self, quantum: i64, queue: &Queue, active: usize) -> i64 {
        if self.turns == 0 {
            let least = std::mem::replace(&mut self.least_so_far, i64::MAX);
            self.least = if least == i64::MAX { 1 } else { least };
            self.turns = active;
        }
        self.turns = self.turns.saturating_sub(1);
        let load = self.load(queue);
        self.least_so_far = self.least_so_far.min(load);
        (quantum * self.least.min(load) / load).max(1)
    }

    fn count(&mut self, queue: &Queue, change: i32) {
        for (loads, end) in self.loads.iter_mut().zip(queue.ends) {
            if let Some(load) = loads.get_mut(end) {
                *load = load.saturating_add_signed(change);
            }
        }
    }
}

impl FqCoDel {
    /// A queue is no longer bulk, or has become so.
    fn set_bulk(&mut self, number: usize, is_bulk: bool) {
        let queue = &mut self.queues[number];
        if queue.is_bulk != is_bulk {
            queue.is_bulk = is_bulk;
            if let Some(hosts) = &mut self.hosts {
                hosts.count(queue, if is_bulk { 1 } else { -1 });
            }
        }
    }

    /// What a queue may send in a turn.
    fn turn(&mut self, number: usize) -> i64 {
        let active = self.new.len() + self.old.len();
        match &mut self.hosts {
            None => self.quantum,
            Some(hosts) => hosts.share(self.quantum, &self.queues[number], active),
        }
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
        self.hosts.is_some()
    }

    fn classify(&mut self, _meta: &PacketMeta, sender: Sender) -> usize {
        if let Some(hosts) = &mut self.hosts {
            let ends = sender.ends.unwrap_or_default();
            hosts.arriving = ends.map(|end| (end % HOSTS as u64) as usize);
        }
        (sender.flow.unwrap_or_default() % self.queues.len() as u64) as usize
    }

    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let queue = &mut self.queues[port.queue];
        if !queue.is_active {
            queue.is_active = true;
            if let Some(hosts) = &self.hosts {
                queue.ends = hosts.arriving;
            }
            self.new.push_back(port.queue);
            self.queues[port.queue].credits = self.turn(port.queue);
        }
        Verdict::Admit
    }

    fn select(&mut self, held: &[Amount], _packets: u64) -> usize {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let number = *list
                .front()
                .expect("a queue that holds something is active");
            let credits = self.queues[number].credits;
            let is_empty = held[number].packets == 0;
            if credits > 0 && !is_empty {
                return number;
            }
            list.pop_front();
            if credits <= 0 {
                self.set_bulk(number, true);
                self.queues[number].credits += self.turn(number);
                self.old.push_back(number);
            } else if is_new {
                // Else a flow that sends a packet at a time would always go first.
                self.old.push_back(number);
            } else {
                self.set_bulk(number, false);
                self.queues[number].is_active = false;
            }
        }
    }

    fn on_departure(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let queue = &mut self.queues[port.queue];
        let verdict = queue.control.on_departure(&self.params, now, meta, port);
        if !matches!(verdict, Verdict::Drop(_)) {
            queue.credits -= i64::from(meta.bytes) * PARTS;
        }
        verdict
    }

    fn make_room(&mut self, held: &[Amount]) -> Option<(usize, u64)> {
        // Of hosts, the one that has the most.
        let weight = |queue: usize| match &self.hosts {
            None => 1,
            Some(hosts) => hosts.load(&self.queues[queue]) as u64,
        };
        let fattest = (0..held.len()).max_by_key(|queue| match held[*queue].bytes {
            0 => 0,
            bytes => bytes * weight(*queue),
        })?;
        let packets = held[fattest].packets;
        (packets > 0).then(|| (fattest, (packets / 2).clamp(1, MOST_DROPPED)))
    }
}

#[cfg(test)]
mod tests;
