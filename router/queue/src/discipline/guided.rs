//! Guided: flows that follow routers have a place of their own.
//!
//! Routers that tell senders their rate, or how long packets wait, guide nobody while one ordinary
//! flow fills the queue. Here flows that send path headers are one class, all others another one.
//! Classes take turns by deficit round robin (M. Shreedhar, G. Varghese, "Efficient Fair Queuing Using
//! Deficit Round Robin", SIGCOMM 1995), with weights by their numbers of flows. Stamps see the
//! guided class alone: its queue, and the rate that it has at the moment.
//!
//! A header is a claim and no proof. A flow that goes on above its share while the guided class has
//! a queue that guided flows would not leave standing is one of the others for a while; so is a
//! host whose flows do so one after the other, or that sends most in a class that goes on losing
//! packets; its flows then have one queue together, so that it cannot make up by their number.
//! Until then the others have a part of the link and of a full queue, however many flows claim the
//! rest.

mod conduct;
mod flows;
mod hosts;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecParameter};
use rand::rngs::Xoshiro256PlusPlus;

use self::flows::{Flows, Owner, Past};
use super::{
    Discipline, DisciplineConfig, DisciplineRow, PortView, Sender, Verdict, drop_tail, fq_codel,
};
use crate::packet::{Amount, PacketMeta};
use crate::rate::Rate;

/// How often flows are counted: about the longest round trip of those that matter.
const PERIOD: Duration = Duration::from_millis(100);

/// Bytes of a large packet.
const LARGE: f64 = 1514.0;

/// The others' part of the link while they have something to send, if all their flows together are less:
/// that of one flow beside fifteen.
const OTHERS_LEAST: f64 = 1.0 / 16.0;

/// What the guided class may be owed, as time of the link, besides two large packets. Flows that are paced
/// send together now and then; this many bytes do not wait for the others, nor do twice as many.
const BURST: Duration = Duration::from_millis(10);

/// What the others leave is lent to the guided class as far as they have left it for this many periods:
/// a loss-based flow that has backed off comes back.
const LENT_AFTER: usize = 20;

/// Bytes that the guided class may keep waiting in a full queue, besides its share: up to half of the others'.
const OWN_ROOM: f64 = 8.0 * LARGE;

/// Bytes that the others' share of a full queue has at least, up to a quarter of it: who sends in bursts needs
/// some packets of room to use a small part of the link.
const OTHERS_ROOM: f64 = 8.0 * LARGE;

/// The number of the guided class's queue; those of the others follow.
const GUIDED: usize = 0;

/// What the others can have.
static OTHERS: &[DisciplineRow] = &[fq_codel::ROW, drop_tail::ROW];

pub(super) const ROW: DisciplineRow = Row {
    name: "guided",
    summary: "flows with path headers, and all others, in turn by their numbers",
    parameters: &[
        SpecParameter::choice(
            "others",
            "discipline of the flows without path headers",
            &[fq_codel::ROW.name, drop_tail::ROW.name],
            Some(fq_codel::ROW.name),
        ),
        fq_codel::HOSTS,
    ],
    build: |values, limit| {
        let (mut others, hosts) = (values.word("others").to_owned(), values.word("hosts"));
        if others == fq_codel::ROW.name {
            others = format!("{others}:hosts={hosts}");
        } else if hosts != "false" {
            return Err(
                values.refusal("hosts take turns in fq-codel alone; leave out hosts or others")
            );
        }
        let (row, values) = evenkeel_spec::find("discipline", OTHERS, &others)?;
        let others = (row.build)(&values, limit)?;
        Ok(Box::new(Config { others }))
    },
};

#[derive(Debug)]
struct Config {
    others: Box<dyn DisciplineConfig>,
}

impl DisciplineConfig for Config {
    fn build(&self, rng: Xoshiro256PlusPlus) -> Box<dyn Discipline> {
        Box::new(Guided {
            others: self.others.build(rng),
            flows: Flows::default(),
            share: 0.5,
            owed: 0.0,
            arriving: GUIDED,
            lacks_packets: false,
            period: None,
            others_rates: VecDeque::new(),
        })
    }
}

/// The discipline.
#[derive(Debug)]
struct Guided {
    /// The others' own discipline.
    others: Box<dyn Discipline>,
    flows: Flows,
    /// The guided class's share of the link while both have something to send: above 0, and at most what
    /// [`OTHERS_LEAST`] leaves.
    share: f64,
    /// Bytes that the guided class may send before it is the others' turn.
    owed: f64,
    /// The queue of the packet that arrives.
    arriving: usize,
    /// It finds as many packets as may wait, else as many bytes, if the queue is full.
    lacks_packets: bool,
    /// `None` while nothing comes.
    period: Option<Period>,
    /// Bytes per second that the others have sent in the last periods.
    others_rates: VecDeque<f64>,
}

/// What is counted in a period.
#[derive(Debug, Clone, Copy)]
struct Period {
    began: Instant,
    /// Bytes that the others have sent.
    others: u64,
    /// The least that the guided class's packets found in their queue; `None` if none came.
    standing: Option<u64>,
    /// The guided class has lost packets.
    has_lost: bool,
}

impl Period {
    fn new(began: Instant) -> Self {
        Self {
            began,
            others: 0,
            standing: None,
            has_lost: false,
        }
    }
}

impl Guided {
    /// A packet of `port.queue` is transmitted.
    fn charge(&mut self, meta: &PacketMeta, port: &PortView) {
        let bytes = f64::from(meta.bytes);
        if port.queue == GUIDED {
            self.owed -= bytes * (1.0 - self.share);
        } else {
            self.owed += bytes * self.share;
            if let Some(period) = &mut self.period {
                period.others += u64::from(meta.bytes);
            }
        }
        // Who sends alone owes the other class a packet, and not the time in which that was silent.
        let burst = BURST.as_secs_f64() * port.rate.map_or(0.0, Rate::bytes_per_second);
        // A byte of the guided class costs the others' share of one: the smaller that is, the more are sent
        // for what is owed. A packet of the others counts in full.
        let costs = (2.0 * (1.0 - self.share)).min(1.0);
        self.owed = self.owed.clamp(-LARGE, LARGE + (LARGE + burst) * costs);
    }

    /// The rate in bytes per second that the guided class has of this `link`: its share, or what the
    /// others leave.
    fn guided_rate(&self, link: f64) -> f64 {
        let others = self.others_rates.iter().copied().fold(0.0, f64::max);
        (link * self.share).max(link - others)
    }
}

impl Discipline for Guided {
    fn queues(&self) -> usize {
        1 + self.others.queues()
    }

    fn classes(&self) -> &'static [&'static str] {
        &["guided", "others"]
    }

    fn class_of(&self, queue: usize) -> usize {
        usize::from(queue != GUIDED)
    }

    fn reads_headers(&self) -> bool {
        true
    }

    fn tells_hosts_apart(&self) -> bool {
        self.others.tells_hosts_apart()
    }

    fn classify(&mut self, meta: &PacketMeta, sender: Sender) -> usize {
        self.arriving = match self.flows.on_arrival(meta.bytes, sender) {
            Owner::Guided => GUIDED,
            Owner::Other => 1 + self.others.classify(meta, sender),
            Owner::Liar => {
                let flow = sender.host;
                1 + self.others.classify(meta, Sender { flow, ..sender })
            }
        };
        self.arriving
    }

    fn on_arrival(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let most = port.limit.packets;
        self.lacks_packets = most.is_some_and(|most| port.queued.packets >= most);
        let period = self.period.get_or_insert(Period::new(now));
        if port.queue == GUIDED {
            let found = port.own.bytes;
            period.standing = Some(period.standing.map_or(found, |least| least.min(found)));
            return Verdict::Admit;
        }
        self.others.on_arrival(now, meta, &others_view(port))
    }

    fn select(&mut self, queues: &[Amount], packets: u64) -> usize {
        let guided = queues[GUIDED].packets;
        if guided > 0 && (guided == packets || self.owed >= 0.0) {
            return GUIDED;
        }
        1 + self.others.select(&queues[1..], packets - guided)
    }

    fn on_departure(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        let verdict = match port.queue {
            GUIDED => Verdict::Admit,
            _ => self.others.on_departure(now, meta, &others_view(port)),
        };
        if !matches!(verdict, Verdict::Drop(_)) {
            self.charge(meta, port);
        }
        verdict
    }

    fn make_room(&mut self, queues: &[Amount]) -> Option<(usize, u64)> {
        // Of what there is too much of.
        let held = |amount: Amount| match self.lacks_packets {
            true => amount.packets as f64 * LARGE,
            false => amount.bytes as f64,
        };
        let waiting = held(queues.iter().copied().sum());
        let others = ((1.0 - self.share) * waiting).max(OTHERS_ROOM.min(waiting / 4.0));
        if held(queues[GUIDED]) > waiting - others + OWN_ROOM.min(others / 2.0) {
            if let Some(period) = &mut self.period {
                period.has_lost = true;
            }
            return (self.arriving != GUIDED).then_some((GUIDED, 1));
        }
        match self.others.make_room(&queues[1..]) {
            Some((queue, packets)) => Some((1 + queue, packets)),
            // One queue that drops what comes; here it is another one's packet that comes.
            None => (self.arriving == GUIDED && queues[1].packets > 0).then_some((1, 1)),
        }
    }

    fn seen_by_stamps(&self, port: PortView, queues: &[Amount]) -> Option<PortView> {
        let rate = |link: Rate| {
            let rate = self.guided_rate(link.bytes_per_second()) * 8.0;
            // A share of a rate above 0 may round to 0.
            Rate::new((rate as u64).max(1)).expect("not zero")
        };
        (port.queue == GUIDED).then(|| PortView {
            queued: queues[GUIDED],
            rate: port.rate.map(rate),
            ..port
        })
    }

    fn on_timer(&mut self, now: Instant, port: &PortView, _waited: &dyn Fn(usize) -> Duration) {
        let Some(period) = self.period.take() else {
            return;
        };
        if period.others == 0 {
            // They have gone: the next packet of the guided class has all of the link.
            self.others_rates.clear();
        }
        let seconds = (now - period.began).as_secs_f64();
        self.others_rates.push_back(period.others as f64 / seconds);
        if self.others_rates.len() > LENT_AFTER {
            self.others_rates.pop_front();
        }
        let link = port.rate.map_or(f64::MAX, Rate::bytes_per_second);
        let [guided, others] = self.flows.end_period(&Past {
            seconds,
            link,
            guided: self.guided_rate(link),
            standing: period.standing.unwrap_or_default(),
            has_lost: period.has_lost,
        });
        // Who comes to a class that is empty is one flow.
        let [guided, others] = [guided.max(1.0), others.max(1.0)];
        self.share = (guided / (guided + others)).min(1.0 - OTHERS_LEAST);
        if !self.flows.is_empty() {
            self.period = Some(Period::new(now));
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.period.map(|period| period.began + PERIOD)
    }
}

/// What the others' discipline sees of the port.
fn others_view(port: &PortView) -> PortView {
    PortView {
        queue: port.queue - 1,
        ..*port
    }
}

#[cfg(test)]
mod tests;
