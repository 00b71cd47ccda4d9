//! Which flows are guided, how many flows each class has, and who only says that it is guided.

use super::super::Sender;

/// Flows that are told apart. Of two that share a slot the later one is not counted; its class is what
/// each of its packets says.
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

/// Bytes that a guided flow may leave waiting; Vegas keeps three packets.
const LEFT_WAITING: u64 = 4 * 1514;

/// A flow above its fair share by this factor, while guided flows would have made room...
const ABOVE: f64 = 1.5;

/// ... for so many periods more than it was not, has only said that it is guided.
const PROVEN: u8 = 30;

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
    /// Periods in which it was above its share, less those in which it was not.
    strikes: u8,
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
}

impl Default for Flows {
    fn default() -> Self {
        Self {
            slots: vec![Flow::default(); SLOTS],
            listed: Vec::new(),
            period: 1,
            fair: 0.0,
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
}

impl Flows {
    /// A packet of `bytes` comes: whether it is of the guided class.
    pub(super) fn is_guided(&mut self, bytes: u32, sender: Sender) -> bool {
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
            return sender.has_header;
        }
        flow.bytes += u64::from(bytes);
        if sender.has_header {
            flow.header = self.period;
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

    /// Whether nothing would be forgotten.
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
        let is_guided = |slot: &&usize| self.slots[**slot].is_guided(period);
        let guided = self.listed.iter().filter(is_guided).count() as u64;
        let is_overloaded = past.standing > LEFT_WAITING * (guided + 1);
        let share = past.guided / guided.max(1) as f64;
        for slot in &self.listed {
            let flow = &mut self.slots[*slot];
            if !flow.is_guided(period) {
                continue;
            }
            let is_above = flow.bytes as f64 / past.seconds > ABOVE * share;
            if is_overloaded && is_above {
                flow.strikes += 1;
            } else {
                flow.strikes = flow.strikes.saturating_sub(1);
            }
            if flow.strikes >= PROVEN {
                flow.strikes = 0;
                flow.banned_until = period + (BANNED << flow.bans);
                flow.bans = (flow.bans + 1).min(MOST_DOUBLED);
            }
        }
    }
}
