//! Which flows are guided, how many flows each class has, and who only says that it is guided.

use super::super::Sender;
use super::LARGE;

/// Flows that are told apart. Of two that share a slot the later one is one of the others, and not
/// counted: what nobody watches is not believed.
const SLOTS: usize = 8192;

/// A flow is guided until it has sent no header for so many periods: senders put one into at least
/// two packets of a round trip.
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

/// Who has sent a packet with so many bytes ...
const DATA: u32 = 600;

/// ... within so many periods has data to send: a flow that a liar has driven to nothing is one that the
/// liar has to share with. Acknowledgements are not.
const HAD_DATA: u64 = 100;

/// A flow above its fair share by this factor while the class is overloaded...
const ABOVE: f64 = 1.5;

/// ... and that has so got what its share is in so many periods has only said that it is guided. Flows
/// that have to make room for others need some dozens of round trips, and have twice their share.
const PROVEN: f64 = 60.0;

/// For so many periods it is one of the others, for twice as many the next time, and so on...
const BANNED: u64 = 300;

/// ... so many times.
const MOST_DOUBLED: u8 = 4;

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
    /// What it got above its share while the class was overloaded, in shares of a period; less one for
    /// each period in which it did not.
    excess: f64,
    /// Until this period it is one of the others.
    banned_until: u64,
    bans: u8,
    is_listed: bool,
}

impl Flow {
    /// In its present `period`.
    fn is_guided(&self, period: u64) -> bool {
        self.header > 0 && period - self.header <= LAST_HEADER && period >= self.banned_until
    }
}

/// The flows of a port.
#[derive(Debug)]
pub(super) struct Flows {
    slots: Vec<Flow>,
    /// The slots of flows that are remembered.
    listed: Vec<usize>,
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
    /// A packet of `bytes` comes: whether it is of the guided class.
    pub(super) fn on_arrival(&mut self, bytes: u32, sender: Sender) -> bool {
        let Some(hash) = sender.flow else {
            return false;
        };
        let slot = (hash % SLOTS as u64) as usize;
        let flow = &mut self.slots[slot];
        if !flow.is_listed {
            *flow = Flow {
                hash,
                is_listed: true,
                ..Flow::default()
            };
            self.listed.push(slot);
        }
        if flow.hash != hash {
            return false;
        }
        flow.bytes += u64::from(bytes);
        if sender.has_header {
            flow.header = self.period;
            if bytes >= DATA {
                flow.data = self.period;
            }
        }
        flow.is_guided(self.period)
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
            flow.is_listed = flow.rate > least || period < flow.banned_until;
            flow.is_listed
        });
        counts
    }

    /// Whether no flow is remembered.
    pub(super) fn is_empty(&self) -> bool {
        self.listed.is_empty()
    }

    /// How many flows there are of each class: each as a whole one if it has a good part of its fair
    /// share.
    fn count(&mut self, link: f64) -> [f64; 2] {
        let mut counts = [0.0; 2];
        if self.fair == 0.0 {
            self.fair = link;
        }
        for _ in 0..ROUNDS {
            counts = [0.0; 2];
            for slot in &self.listed {
                let flow = &self.slots[*slot];
                let class = usize::from(!flow.is_guided(self.period));
                counts[class] += (flow.rate / (WHOLE * self.fair)).min(1.0);
            }
            self.fair = link / (counts[0] + counts[1]).max(1.0);
        }
        counts
    }

    /// Looks for flows that take more than their share of a class whose queue guided flows would not
    /// leave.
    fn find_liars(&mut self, past: &Past) {
        let period = self.period;
        let shares = |slot: &&usize| {
            let flow = &self.slots[**slot];
            flow.is_guided(period) && flow.data > 0 && period - flow.data <= HAD_DATA
        };
        let guided = self.listed.iter().filter(shares).count();
        let left_waiting = LEFT_WAITING * (self.guided + 1.0);
        let is_overloaded = past.has_lost || past.standing as f64 > left_waiting;
        let share = past.guided / guided.max(1) as f64;
        for slot in &self.listed {
            let flow = &mut self.slots[*slot];
            if !flow.is_guided(period) {
                continue;
            }
            let shares = flow.bytes as f64 / past.seconds / share;
            if is_overloaded && shares > ABOVE {
                flow.excess += shares - 1.0;
            } else {
                flow.excess = (flow.excess - 1.0).max(0.0);
            }
            if flow.excess >= PROVEN {
                flow.excess = 0.0;
                flow.banned_until = period + (BANNED << flow.bans);
                flow.bans = (flow.bans + 1).min(MOST_DOUBLED);
            }
        }
    }
}
