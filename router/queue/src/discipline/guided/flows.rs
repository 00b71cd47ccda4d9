//! Which flows are guided, how many flows each class has, and who only says that it is guided.

use std::collections::BTreeMap;

use super::super::Sender;
use super::LARGE;
use super::conduct::{Conduct, PROVEN};
use super::hosts::Hosts;

/// Slots of the table of flows, and of those in which a flow looks for its own. A flow that finds none is
/// one of the others, and not counted: what nobody watches is not believed.
const SLOTS: usize = 8192;
const WAYS: usize = 8;

/// Periods without a header after which a flow is no longer guided: senders put one into at least two
/// packets of a round trip.
const LAST_HEADER: u64 = 20;

/// A rate that falls is forgotten by this share in each period: a flow that has backed off comes back.
const FORGOTTEN: f64 = 0.2;

/// A flow counts as a whole one if it has this share of a flow's fair share, else as a part of one:
/// acknowledgements are nobody's share.
const WHOLE: f64 = 0.5;

/// Rounds in which fair share and counts are brought together, from where they were.
const ROUNDS: usize = 4;

/// Bytes that a guided flow may leave waiting: Vegas keeps three packets.
const LEFT_WAITING: f64 = 3.0 * LARGE;

/// A flow that has sent a packet of at least this many bytes within the second number of periods has
/// data to send: one that a liar has driven to nothing still has a share. Acknowledgements are smaller.
const DATA: u32 = 600;
const HAD_DATA: u64 = 100;

/// A flow above its fair share by this factor while the class is overloaded runs up an excess.
const ABOVE: f64 = 1.5;

/// A class is crowded if it loses packets while more comes than this multiple of its rate: flows that
/// follow anything come to its rate, and a few percent more while they search for it.
const CROWDED: f64 = 1.05;

/// If the class has been crowded in 30 periods (3 s) more than it has not, the host that sends most
/// ignores feedback.
const CROWDED_FOR: u64 = 30;

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    /// Its hash. A slot is free again when its flow has been forgotten.
    hash: u64,
    /// Bytes that came in this period.
    bytes: u64,
    /// Bytes per second that it has had.
    rate: f64,
    /// The period of its last header; 0 if it has sent none.
    header: u64,
    /// The period of its last packet with data; 0 if it has sent none.
    data: u64,
    /// The host that sends it: an entry of [`Hosts`].
    host: usize,
    conduct: Conduct,
    is_listed: bool,
}

impl Flow {
    /// It says in this `period` that it is guided.
    fn claims(&self, period: u64) -> bool {
        self.header > 0 && period - self.header <= LAST_HEADER
    }

    fn is_guided(&self, period: u64, hosts: &Hosts) -> bool {
        let is_banned = self.conduct.is_banned(period) || hosts.is_banned(self.host, period);
        self.claims(period) && !is_banned
    }

    /// It says so while its host is banned.
    fn is_of_liar(&self, period: u64, hosts: &Hosts) -> bool {
        self.claims(period) && hosts.is_banned(self.host, period)
    }
}

/// Whose a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// A guided flow's.
    Guided,
    /// One of the others'.
    Other,
    /// One of those of a host that has been found to lie: together they are one of the others.
    Liar,
}

/// The flows of a port.
#[derive(Debug)]
pub(super) struct Flows {
    slots: Vec<Flow>,
    /// The slots of flows that are remembered.
    listed: Vec<usize>,
    hosts: Hosts,
    /// Periods in which the guided class was crowded, less those in which it was not.
    crowded: u64,
    /// The number of this period, from 1.
    period: u64,
    /// A flow's fair share of the link in bytes per second; 0 before it is known.
    fair: f64,
    /// How many guided flows there were in the last period.
    guided: f64,
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            slots: vec![Flow::default(); SLOTS],
            listed: Vec::new(),
            hosts: Hosts::default(),
            crowded: 0,
            period: 1,
            fair: 0.0,
            guided: 0.0,
        }
    }
}

/// What there was in a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Past {
    /// Its length in seconds; above 0.
    pub(super) seconds: f64,
    /// The link's rate, and the guided class's, in bytes per second; above 0.
    pub(super) link: f64,
    pub(super) guided: f64,
    /// Bytes of the guided class that waited all the while.
    pub(super) standing: u64,
    /// The guided class has lost packets.
    pub(super) has_lost: bool,
}

impl Flows {
    /// A packet of `bytes` comes.
    pub(super) fn on_arrival(&mut self, bytes: u32, sender: Sender) -> Owner {
        let (Some(hash), Some(host)) = (sender.flow, sender.host.map(Hosts::entry)) else {
            return Owner::Other;
        };
        let Some(slot) = self.slot(hash, host) else {
            let is_liar = sender.has_header && self.hosts.is_banned(host, self.period);
            return if is_liar { Owner::Liar } else { Owner::Other };
        };
        let flow = &mut self.slots[slot];
        if !flow.is_listed {
            self.listed.push(slot);
        }
        if !flow.is_listed || flow.hash != hash {
            *flow = Flow {
                hash,
                host,
                is_listed: true,
                ..Flow::default()
            };
        }
        flow.bytes += u64::from(bytes);
        if sender.has_header {
            self.hosts.on_header(host, self.period);
            flow.header = self.period;
            if bytes >= DATA {
                flow.data = self.period;
            }
        }
        match flow {
            _ if flow.is_guided(self.period, &self.hosts) => Owner::Guided,
            _ if flow.is_of_liar(self.period, &self.hosts) => Owner::Liar,
            _ => Owner::Other,
        }
    }

    /// The slot of the flow with this hash: its own, or a free one, or that of the slowest flow of the host
    /// that has most of those that it may have, if its own host has fewer. `None` if there is none.
    fn slot(&self, hash: u64, host: usize) -> Option<usize> {
        let first = (hash % SLOTS as u64) as usize;
        let ways = (0..WAYS).map(|way| (first + way) % SLOTS);
        let flow = |slot: &usize| &self.slots[*slot];
        let is_its = |slot: &usize| flow(slot).is_listed && flow(slot).hash == hash;
        let is_free = |slot: &usize| !flow(slot).is_listed;
        let found = ways.clone().find(is_its);
        found.or_else(|| ways.clone().find(is_free)).or_else(|| {
            let has = |host: usize| ways.clone().filter(|slot| flow(slot).host == host).count();
            let most = ways.clone().map(|slot| has(flow(&slot).host)).max()?;
            let slots = ways.clone().filter(|slot| has(flow(slot).host) == most);
            // What a flow has been found to do is not forgotten before those that have done nothing.
            let worth = |slot: &usize| {
                let flow = flow(slot);
                (flow.conduct.is_banned(self.period), flow.rate.to_bits())
            };
            let slowest = slots.min_by_key(worth);
            slowest.filter(|_| most > has(host) + 1)
        })
    }

    /// A period is over. Returns how many flows the guided class has, and the others.
    pub(super) fn end_period(&mut self, past: &Past) -> [f64; 2] {
        self.find_liars(past);
        let period = self.period;
        for slot in &self.listed {
            let flow = &mut self.slots[*slot];
            let rate = flow.bytes as f64 / past.seconds;
            flow.rate = rate.max(flow.rate * (1.0 - FORGOTTEN) + rate * FORGOTTEN);
            flow.bytes = 0;
        }
        let counts = self.count(past.link);
        self.guided = counts[0];
        self.period += 1;
        // A flow that has sent next to nothing for long is forgotten, unless it is banned.
        let least = past.link * 1e-6;
        self.listed.retain(|slot| {
            let flow = &mut self.slots[*slot];
            flow.is_listed = flow.rate > least || flow.conduct.is_banned(period);
            flow.is_listed
        });
        counts
    }

    /// Whether no flow is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty() && !self.hosts.is_any_banned(self.period)
    }

    /// How many flows there are of each class: each as a whole one if it has a good part of its fair
    /// share. Those of a host that lies are one.
    fn count(&mut self, link: f64) -> [f64; 2] {
        let mut rates = [Vec::new(), Vec::new()];
        let mut liars = BTreeMap::new();
        for slot in &self.listed {
            let flow = &self.slots[*slot];
            if flow.is_of_liar(self.period, &self.hosts) {
                *liars.entry(flow.host).or_insert(0.0) += flow.rate;
            } else {
                let class = usize::from(!flow.is_guided(self.period, &self.hosts));
                rates[class].push(flow.rate);
            }
        }
        rates[1].extend(liars.into_values());
        let mut counts = [0.0; 2];
        if self.fair == 0.0 {
            self.fair = link;
        }
        for _ in 0..ROUNDS {
            let count = |rate: &f64| (rate / (WHOLE * self.fair)).min(1.0);
            counts = [0, 1].map(|class: usize| rates[class].iter().map(count).sum());
            self.fair = link / (counts[0] + counts[1]).max(1.0);
        }
        counts
    }

    /// Looks for flows that take more than their share of a class whose queue guided flows would not
    /// leave, for hosts whose flows do so in turn, and for the host that crowds the class.
    fn find_liars(&mut self, past: &Past) {
        let period = self.period;
        let shares = |slot: &&usize| {
            let flow = &self.slots[**slot];
            let has_data = flow.data > 0 && period - flow.data <= HAD_DATA;
            has_data && flow.is_guided(period, &self.hosts)
        };
        let guided = self.listed.iter().filter(shares).count();
        let left_waiting = LEFT_WAITING * (self.guided + 1.0);
        let is_overloaded = past.has_lost || past.standing as f64 > left_waiting;
        let share = past.guided / guided.max(1) as f64;
        let mut came = 0;
        for slot in &self.listed {
            let flow = &mut self.slots[*slot];
            if !flow.is_guided(period, &self.hosts) {
                continue;
            }
            came += flow.bytes;
            let shares = flow.bytes as f64 / past.seconds / share;
            let is_above = is_overloaded && shares > ABOVE;
            let above = if is_above { shares - 1.0 } else { 0.0 };
            flow.conduct.judge(above, PROVEN, period);
            self.hosts.on_flow(flow.host, flow.bytes, above);
        }
        if past.has_lost && came as f64 / past.seconds > CROWDED * past.guided {
            self.crowded += 1;
        } else {
            self.crowded = self.crowded.saturating_sub(1);
        }
        if self.crowded >= CROWDED_FOR {
            self.crowded = 0;
            self.hosts.ban_largest(period);
        }
        self.hosts.end_period(period);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a_host_find_slots_however_many_another_host_has_taken() {
        let mut flows = Flows::default();
        // The hash of a flow, spread as a port's keyed hash spreads it.
        let sender = |flow: u64, host: u64| Sender {
            flow: Some(flow.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20),
            host: Some(host),
            has_header: true,
            ends: None,
        };
        for flow in 0..100_000 {
            flows.on_arrival(60, sender(flow, 1));
        }
        assert_eq!(
            flows.listed.len(),
            SLOTS,
            "one host alone may have them all"
        );
        for flow in 200_000..202_000 {
            assert_eq!(flows.on_arrival(60, sender(flow, 2)), Owner::Guided);
        }
        assert_eq!(flows.listed.len(), SLOTS);
    }
}
