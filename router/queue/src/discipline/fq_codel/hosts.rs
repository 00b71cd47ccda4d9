//! Hosts: whose turn it is, and the queues of each.

use std::collections::{BTreeMap, VecDeque};

use super::Queue;
use crate::packet::Amount;

/// Stands for a host that has no queue.
const NOBODY: usize = usize::MAX;

/// The neighbours of a queue in the list in which it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    before: Option<usize>,
    after: Option<usize>,
    is_new: bool,
}

/// Queues, first come first served.
#[derive(Debug, Clone, Copy, Default)]
struct List {
    first: Option<usize>,
    last: Option<usize>,
}

impl List {
    fn push(&mut self, queues: &mut [Queue], number: usize) {
        queues[number].place.before = self.last;
        queues[number].place.after = None;
        match self.last.replace(number) {
            Some(last) => queues[last].place.after = Some(number),
            None => self.first = Some(number),
        }
    }

    fn remove(&mut self, queues: &mut [Queue], number: usize) {
        let Place { before, after, .. } = queues[number].place;
        match before {
            Some(before) => queues[before].place.after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => queues[after].place.before = before,
            None => self.last = before,
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Host {
    name: u64,
    /// Queues that have packets from it, or to it.
    queues: usize,
    /// Bytes that it may send before others have their turn.
    credits: i64,
    /// Its queues that begin, and those that have sent their quantum.
    new: List,
    old: List,
    /// It is among those that take turns, and among those that begin.
    has_turns: bool,
    begins: bool,
}

/// Hosts with queues. A queue is in the turn of one of its ends: of the one with more queues.
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    /// Which ends count: sources (0) and destinations (1). If none does, one host has all queues.
    sides: &'static [usize],
    /// The numbers of hosts by name, and those without a host.
    known: BTreeMap<u64, usize>,
    spare: Vec<usize>,
    all: Vec<Host>,
    quantum: i64,
    turns: VecDeque<usize>,
    /// Hosts with queues that begin: these go first, as long as their host owes others no quantum.
    beginning: VecDeque<usize>,
}

impl Hosts {
    /// With the ends that a word of the parameter `hosts` asks for.
    pub(super) fn new(word: &str, quantum: i64) -> Self {
        let sides: &[usize] = match word {
            "true" => &[0, 1],
            "source" => &[0],
            "destination" => &[1],
            _ => &[],
        };
        let everybody = Host {
            queues: 1,
            credits: quantum,
            ..Host::default()
        };
        Self {
            sides,
            known: BTreeMap::new(),
            spare: Vec::new(),
            all: vec![everybody],
            quantum,
            turns: VecDeque::new(),
            beginning: VecDeque::new(),
        }
    }

    /// Whether hosts have turns.
    pub(super) fn counts(&self) -> bool {
        !self.sides.is_empty()
    }

    /// One host at both ends is two.
    fn name(end: u64, side: usize) -> u64 {
        (end & !1) | side as u64
    }

    /// The numbers of the hosts with these hashes.
    pub(super) fn find(&self, ends: [u64; 2]) -> [usize; 2] {
        let mut found = [NOBODY; 2];
        for side in self.sides {
            let known = self.known.get(&Self::name(ends[*side], *side));
            found[*side] = known.copied().unwrap_or(NOBODY);
        }
        found
    }

    /// Which ends are the same host.
    pub(super) fn common(&self, one: [usize; 2], other: [usize; 2]) -> [bool; 2] {
        [0, 1].map(|side| self.sides.contains(&side) && one[side] == other[side])
    }

    /// Counts a queue with packets between these ends; returns their numbers.
    pub(super) fn enter(&mut self, ends: [u64; 2]) -> [usize; 2] {
        let mut numbers = [0; 2];
        for side in self.sides {
            let name = Self::name(ends[*side], *side);
            let number = *self.known.entry(name).or_insert_with(|| {
                let host = Host {
                    name,
                    credits: self.quantum,
                    ..Host::default()
                };
                match self.spare.pop() {
                    Some(number) => {
                        self.all[number] = host;
                        number
                    }
                    None => {
                        self.all.push(host);
                        self.all.len() - 1
                    }
                }
            });
            self.all[number].queues += 1;
            numbers[*side] = number;
        }
        numbers
    }

    /// A queue between these ends is over.
    pub(super) fn leave(&mut self, ends: [usize; 2]) {
        for side in self.sides {
            self.all[ends[*side]].queues -= 1;
            self.forget(ends[*side]);
        }
    }

    /// Forgets a host that has nothing any more.
    fn forget(&mut self, number: usize) {
        let host = &self.all[number];
        if host.queues == 0 && !host.has_turns && !host.begins {
            self.known.remove(&host.name);
            self.spare.push(number);
        }
    }

    /// The end with more queues; of equal ones, the host that has the queue `now`.
    pub(super) fn fuller(&self, ends: [usize; 2], now: Option<usize>) -> usize {
        let ends = self.sides.iter().map(|side| ends[*side]);
        now.into_iter()
            .chain(ends)
            .reduce(
                |best, end| match self.all[end].queues > self.all[best].queues {
                    true => end,
                    false => best,
                },
            )
            .unwrap_or(0)
    }

    /// A queue is the last in its host's list.
    pub(super) fn join(&mut self, queues: &mut [Queue], number: usize, is_new: bool) {
        queues[number].place.is_new = is_new;
        let name = queues[number].host;
        let host = &mut self.all[name];
        if is_new {
            host.new.push(queues, number);
        } else {
            host.old.push(queues, number);
        }
        if !std::mem::replace(&mut host.has_turns, true) {
            self.turns.push_back(name);
        }
        if is_new && !std::mem::replace(&mut host.begins, true) {
            self.beginning.push_back(name);
        }
    }

    /// A queue is in no list any more.
    pub(super) fn part(&mut self, queues: &mut [Queue], number: usize) {
        let host = &mut self.all[queues[number].host];
        if queues[number].place.is_new {
            host.new.remove(queues, number);
        } else {
            host.old.remove(queues, number);
        }
    }

    /// The queue to look at next, and whether it begins; `None` if a host had none any more.
    pub(super) fn next(&mut self) -> Option<(usize, bool)> {
        while let Some(&number) = self.beginning.front() {
            let host = &mut self.all[number];
            if let Some(first) = host.new.first.filter(|_| host.credits > -self.quantum) {
                return Some((first, true));
            }
            host.begins = false;
            self.beginning.pop_front();
            self.forget(number);
        }
        loop {
            let &number = self
                .turns
                .front()
                .expect("a queue that holds something is active");
            let host = &mut self.all[number];
            if host.credits <= 0 {
                host.credits += self.quantum;
                self.turns.rotate_left(1);
                continue;
            }
            if let Some(first) = host.new.first {
                return Some((first, true));
            }
            if let Some(first) = host.old.first {
                return Some((first, false));
            }
            host.has_turns = false;
            self.turns.pop_front();
            self.forget(number);
            return None;
        }
    }

    /// A host's queue sends `bytes`.
    pub(super) fn charge(&mut self, host: usize, bytes: u32) {
        if self.counts() {
            self.all[host].credits -= i64::from(bytes);
        }
    }

    /// The host that has most of what queues hold; `None` if hosts do not count.
    pub(super) fn fattest(&self, queues: &[Queue], held: &[Amount]) -> Option<usize> {
        let mut bytes = vec![0; self.all.len()];
        for (queue, held) in queues.iter().zip(held) {
            bytes[queue.host] += held.bytes;
        }
        let fattest = (0..bytes.len()).max_by_key(|host| bytes[*host]);
        fattest.filter(|_| self.counts())
    }
}
