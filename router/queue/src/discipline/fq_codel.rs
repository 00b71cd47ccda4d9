//! FQ-CoDel: a queue with CoDel for each flow, served in turn.
//!
//! T. Hoeiland-Joergensen, P. McKenney, D. Taht, J. Gettys, E. Dumazet, "The Flow Queue CoDel Packet
//! Scheduler and Active Queue Management Algorithm", RFC 8290. Flows share queues by a keyed hash of
//! addresses, protocol and ports. Queues are served by deficit round robin. One that begins goes
//! before those that have sent their quantum, so that flows with little to send do not wait. If the
//! limit is reached, the queue with the most bytes loses its first packets.

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
    ],
    build: |values, _| {
        let flows: usize = values.count("flows");
        Ok(Box::new(FqCoDel {
            params: Params::read(values),
            quantum: values.count("quantum"),
            queues: vec![Queue::default(); flows],
            new: VecDeque::new(),
            old: VecDeque::new(),
        }))
    },
};

/// The discipline.
#[derive(Debug, Clone)]
struct FqCoDel {
    params: Params,
    /// Bytes.
    quantum: i64,
    queues: Vec<Queue>,
    /// The numbers of queues that begin, and of those that have sent their quantum.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
}

#[derive(Debug, Clone, Default)]
struct Queue {
    control: Control,
    /// Bytes that it may send before others have their turn.
    credits: i64,
    /// It is in one of the lists.
    is_active: bool,
}

impl Discipline for FqCoDel {
    fn queues(&self) -> usize {
        self.queues.len()
    }

    fn classify(&mut self, _meta: &PacketMeta, sender: Sender) -> usize {
        (sender.flow.unwrap_or_default() % self.queues.len() as u64) as usize
    }

    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let queue = &mut self.queues[port.queue];
        if !queue.is_active {
            queue.is_active = true;
            queue.credits = self.quantum;
            self.new.push_back(port.queue);
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
            let queue = &mut self.queues[number];
            let is_empty = held[number].packets == 0;
            if queue.credits > 0 && !is_empty {
                return number;
            }
            list.pop_front();
            if queue.credits <= 0 {
                queue.credits += self.quantum;
                self.old.push_back(number);
            } else if is_new {
                // Else a flow that sends a packet at a time would always go first.
                self.old.push_back(number);
            } else {
                queue.is_active = false;
            }
        }
    }

    fn on_departure(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let queue = &mut self.queues[port.queue];
        let verdict = queue.control.on_departure(&self.params, now, meta, port);
        if !matches!(verdict, Verdict::Drop(_)) {
            queue.credits -= i64::from(meta.bytes);
        }
        verdict
    }

    fn make_room(&mut self, held: &[Amount]) -> Option<(usize, u64)> {
        let fattest = (0..held.len()).max_by_key(|queue| held[*queue].bytes)?;
        let packets = held[fattest].packets;
        (packets > 0).then(|| (fattest, (packets / 2).clamp(1, MOST_DROPPED)))
    }
}

#[cfg(test)]
mod tests;
