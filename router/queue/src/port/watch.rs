//! Figures of flows and classes, for people to see.
//!
//! A table of [`SLOTS`] slots knows flows by a keyed hash: a packet costs a look at one slot,
//! whatever comes. Of two flows with the same slot the one that sends more has it.

use std::time::Instant;

use crate::discipline::{Discipline, Verdict};
use crate::packet::Amount;
use crate::stamp::FlowKey;

/// Slots of the table.
const SLOTS: usize = 2048;

/// How many flows are shown.
const HEAVIEST: usize = 10;

/// A flow at a port.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowFigures {
    /// Which.
    pub flow: FlowKey,
    /// Its class; `None` if the discipline has no classes.
    pub class: Option<&'static str>,
    /// What it sent in the last whole second, in bits per second of IP packets.
    pub rate_bps: u64,
    /// What has left since it was first seen.
    pub forwarded: Amount,
    /// What waits.
    pub queued: Amount,
    /// Packets that were dropped since then.
    pub dropped: u64,
    /// Packets that were marked since then.
    pub marked: u64,
    /// The rate that the last stamped header offers it, in bits per second; `None` without one.
    pub grant_bps: Option<u64>,
}

/// A class of flows at a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassFigures {
    /// The discipline's name for it.
    pub class: &'static str,
    /// Flows of the table that have sent something in this second or the last one.
    pub flows: u64,
    /// What waits.
    pub queued: Amount,
    /// What has left since the port began.
    pub forwarded: Amount,
    /// What was dropped.
    pub dropped: Amount,
    /// What was marked.
    pub marked: Amount,
}

/// Flows and classes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FlowReport {
    /// The ten that sent most in the last second, the heaviest first.
    pub heaviest: Vec<FlowFigures>,
    /// All classes of the discipline, in its order.
    pub classes: Vec<ClassFigures>,
}

/// What a packet leaves behind so that its flow is found again.
pub(super) type FlowHash = Option<u64>;

#[derive(Debug)]
pub(super) struct Watch {
    began: Instant,
    slots: Vec<Option<Slot>>,
    classes: Vec<Class>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Class {
    forwarded: Amount,
    dropped: Amount,
    marked: Amount,
}

#[derive(Debug, Clone)]
struct Slot {
    hash: u64,
    flow: FlowKey,
    /// Its queue.
    queue: usize,
    forwarded: Amount,
    queued: Amount,
    dropped: u64,
    marked: u64,
    /// Bytes per second.
    grant: Option<u64>,
    /// The second in which it sent last, its bytes in that, and in the one before.
    second: u64,
    sent: u64,
    sent_before: u64,
    /// Bytes of others that wanted the slot in this second.
    contended: u64,
}

impl Slot {
    fn new(hash: u64, flow: FlowKey, second: u64) -> Self {
        Self {
            hash,
            flow,
            queue: 0,
            forwarded: Amount::ZERO,
            queued: Amount::ZERO,
            dropped: 0,
            marked: 0,
            grant: None,
            second,
            sent: 0,
            sent_before: 0,
            contended: 0,
        }
    }

    fn pass_to(&mut self, second: u64) {
        if second > self.second {
            let is_next = second == self.second + 1;
            self.sent_before = if is_next { self.sent } else { 0 };
            (self.sent, self.contended, self.second) = (0, 0, second);
        }
    }
}

impl Watch {
    pub(super) fn new(began: Instant, discipline: &dyn Discipline) -> Self {
        Self {
            began,
            slots: vec![None; SLOTS],
            classes: vec![Class::default(); discipline.classes().len()],
        }
    }

    /// A packet of `bytes` arrives for `queue`.
    pub(super) fn arrives(
        &mut self,
        now: Instant,
        (hash, flow): (u64, FlowKey),
        queue: usize,
        bytes: u32,
    ) {
        let second = self.second(now);
        let place = &mut self.slots[hash as usize % SLOTS];
        let slot = place.get_or_insert_with(|| Slot::new(hash, flow, second));
        slot.pass_to(second);
        if slot.hash != hash {
            slot.contended += u64::from(bytes);
            if slot.contended <= slot.sent + slot.sent_before {
                return;
            }
            *slot = Slot::new(hash, flow, second);
        }
        slot.queue = queue;
    }

    pub(super) fn waits(&mut self, hash: FlowHash, bytes: u32) {
        if let Some(slot) = self.slot(hash) {
            slot.queued += Amount::one(bytes);
        }
    }

    pub(super) fn waits_no_longer(&mut self, hash: FlowHash, bytes: u32) {
        // It may have begun to wait before its flow had the slot.
        if let Some(slot) = self.slot(hash).filter(|slot| slot.queued.packets > 0) {
            slot.queued.packets -= 1;
            slot.queued.bytes = slot.queued.bytes.saturating_sub(bytes.into());
        }
    }

    pub(super) fn is_sent(&mut self, now: Instant, hash: FlowHash, class: usize, bytes: u32) {
        let second = self.second(now);
        if let Some(slot) = self.slot(hash) {
            slot.pass_to(second);
            slot.sent += u64::from(bytes);
            slot.forwarded += Amount::one(bytes);
        }
        if let Some(class) = self.classes.get_mut(class) {
            class.forwarded += Amount::one(bytes);
        }
    }

    pub(super) fn is_judged(&mut self, verdict: Verdict, hash: FlowHash, class: usize, bytes: u32) {
        let is_marked = match verdict {
            Verdict::Admit => return,
            Verdict::Mark => true,
            Verdict::Drop(_) => false,
        };
        if let Some(slot) = self.slot(hash) {
            *(if is_marked {
                &mut slot.marked
            } else {
                &mut slot.dropped
            }) += 1;
        }
        if let Some(class) = self.classes.get_mut(class) {
            *(if is_marked {
                &mut class.marked
            } else {
                &mut class.dropped
            }) += Amount::one(bytes);
        }
    }

    /// A header of the flow leaves with this offer, in bytes per second.
    pub(super) fn is_granted(&mut self, hash: FlowHash, grant: Option<u64>) {
        if let Some(slot) = self.slot(hash) {
            slot.grant = grant.or(slot.grant);
        }
    }

    /// Where all stand; `held` is what queues hold, by number.
    pub(super) fn report(
        &self,
        now: Instant,
        discipline: &dyn Discipline,
        held: &[Amount],
    ) -> FlowReport {
        let second = self.second(now);
        let names = discipline.classes();
        let mut classes: Vec<_> = names
            .iter()
            .zip(&self.classes)
            .map(|(class, counts)| ClassFigures {
                class,
                flows: 0,
                queued: Amount::ZERO,
                forwarded: counts.forwarded,
                dropped: counts.dropped,
                marked: counts.marked,
            })
            .collect();
        for (queue, amount) in held.iter().enumerate() {
            if let Some(class) = classes.get_mut(discipline.class_of(queue)) {
                class.queued += *amount;
            }
        }
        let mut flows: Vec<(u64, &Slot)> = Vec::new();
        for slot in self.slots.iter().flatten() {
            let last = match second - slot.second {
                0 => slot.sent_before,
                1 => slot.sent,
                _ => continue,
            };
            if let Some(class) = classes.get_mut(discipline.class_of(slot.queue)) {
                class.flows += 1;
            }
            flows.push((last, slot));
        }
        flows.sort_by_key(|(last, slot)| std::cmp::Reverse((*last, slot.forwarded.bytes)));
        flows.truncate(HEAVIEST);
        let heaviest = flows.into_iter().map(|(last, slot)| FlowFigures {
            flow: slot.flow,
            class: names.get(discipline.class_of(slot.queue)).copied(),
            rate_bps: last * 8,
            forwarded: slot.forwarded,
            queued: slot.queued,
            dropped: slot.dropped,
            marked: slot.marked,
            grant_bps: slot.grant.map(|grant| grant.saturating_mul(8)),
        });
        FlowReport {
            heaviest: heaviest.collect(),
            classes,
        }
    }

    fn second(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.began).as_secs()
    }

    fn slot(&mut self, hash: FlowHash) -> Option<&mut Slot> {
        let hash = hash?;
        let slot = self.slots[hash as usize % SLOTS].as_mut();
        slot.filter(|slot| slot.hash == hash)
    }
}
