//! Tests of grants that are far too small, with senders and a link in virtual time.

use std::collections::VecDeque;

use super::*;
use crate::acp::Acp;
use crate::rcp::Rcp;

/// The empty round trip, and the link: a packet in a millisecond, a hundred in a round trip.
const BASE: Duration = Duration::from_millis(100);
const PACKET: Duration = Duration::from_millis(1);

/// Packets that may wait.
const BUFFER: u32 = 100;

struct Sender {
    controller: Box<dyn Controller>,
    starts: Duration,
    next: Duration,
    in_flight: u64,
    /// Where the present round ends, its bytes, and what it began with.
    round: (Duration, Round),
    delivered: u64,
}

impl Sender {
    fn new(controller: Box<dyn Controller>, starts: Duration) -> Self {
        Self {
            controller,
            starts,
            next: starts,
            in_flight: 0,
            round: (starts, Round::new(epoch(), Duration::MAX, 0)),
            delivered: 0,
        }
    }

    fn can_send(&self, now: Duration) -> bool {
        let room = self.controller.window() >= self.in_flight + u64::from(MTU);
        now >= self.next && (room || self.in_flight == 0)
    }

    fn send(&mut self, now: Duration) {
        self.in_flight += u64::from(MTU);
        let rate = self.controller.pacing_rate();
        let rate = rate.unwrap_or(self.controller.window() * 10).max(1);
        // Hosts look at their clock once in a millisecond: what they missed is made up for.
        let due = self.next.max(now.saturating_sub(ms(1)));
        self.next = due + Duration::from_secs_f64(f64::from(MTU) / rate as f64);
    }

    fn hear(&mut self, now: Duration, sent: Duration, grant: Option<u64>) {
        let bytes = u64::from(MTU);
        let (time, rtt) = (epoch() + now, now - sent);
        let sample = PathSample {
            grant: grant.map(Grant::Rate),
            ..PathSample::new(time, rtt)
        };
        self.controller.on_path(&sample);
        let in_flight = self.in_flight;
        self.controller.on_ack(&Ack {
            in_flight,
            ..Ack::new(time, epoch() + sent, bytes)
        });
        self.in_flight -= bytes;
        self.delivered += bytes;
        let (began, round) = &mut self.round;
        round.rtt_min = round.rtt_min.min(rtt);
        round.rtt_end = rtt;
        round.bytes += bytes;
        round.in_flight = round.in_flight.max(in_flight);
        if sent >= *began {
            round.now = time;
            self.controller.on_round(round);
            self.round = (now, Round::new(time, Duration::MAX, 0));
        }
    }

    fn lose(&mut self, now: Duration) {
        self.in_flight -= u64::from(MTU);
        self.round.1.lost += u64::from(MTU);
        let event = Congestion::loss(epoch() + now, u64::from(MTU));
        self.controller.on_congestion(&event);
    }
}

/// Lets senders share the link until `end`; `grant` says what the header of a packet is granted that
/// is sent at a time. Returns the packets that each has delivered from `counted` on.
fn run(
    mut senders: Vec<Sender>,
    counted: Duration,
    end: Duration,
    grant: impl Fn(Duration) -> Option<u64>,
) -> Vec<u64> {
    let mut free_at = Duration::ZERO;
    // Which sender, sent, and arrives; both only grow.
    let mut under_way: VecDeque<(usize, Duration, Duration)> = VecDeque::new();
    let mut before = Vec::new();
    let mut now = Duration::ZERO;
    while now < end {
        if now == counted {
            before = senders.iter().map(|sender| sender.delivered).collect();
        }
        while let Some((number, sent, _)) = under_way.front().filter(|one| one.2 <= now).copied() {
            under_way.pop_front();
            senders[number].hear(now, sent, grant(sent));
        }
        for (number, sender) in senders.iter_mut().enumerate() {
            while now >= sender.starts && sender.can_send(now) {
                sender.send(now);
                if free_at > now + PACKET * BUFFER {
                    sender.lose(now);
                    continue;
                }
                free_at = free_at.max(now) + PACKET;
                under_way.push_back((number, now, free_at + BASE - PACKET));
            }
        }
        now += ms(1);
    }
    let delivered = senders.iter().zip(before);
    delivered
        .map(|(sender, before)| (sender.delivered - before) / u64::from(MTU))
        .collect()
}

fn both() -> [Box<dyn Controller>; 2] {
    let mut acp = Acp::new(Default::default(), TEN, MTU);
    let mut rcp = Rcp::new(Default::default(), TEN, MTU);
    acp.on_overhead(0);
    rcp.on_overhead(0);
    [Box::new(acp), Box::new(rcp)]
}

/// What the whole link carries, in bytes per second.
const LINK: u64 = 1_000_000;

#[test]
fn a_router_that_grants_nothing_on_a_free_path_holds_a_sender_for_less_than_forty_round_trips() {
    for controller in both() {
        let grant = |sent| Some(if sent < ms(5000) { LINK } else { 1 });
        let sender = || vec![Sender::new(controller.clone(), Duration::ZERO)];
        let before = run(sender(), ms(4000), ms(5000), grant);
        assert!(before[0] > 900, "{before:?} of 1000");
        let first = run(sender(), ms(5300), ms(6000), grant);
        assert!(first[0] <= 10, "{first:?}: the grant is obeyed at first");
        let after = run(sender(), ms(9000), ms(10_000), grant);
        assert!(after[0] > 800, "{after:?} of 1000");
    }
}

#[test]
fn a_router_that_never_grants_anything_does_not_stop_a_sender_that_begins() {
    for controller in both() {
        let senders = vec![Sender::new(controller, Duration::ZERO)];
        let sent = run(senders, ms(55_000), ms(60_000), |_| Some(1));
        assert!(sent[0] > 4000, "{sent:?} of 5000");
    }
}

#[test]
fn a_grant_that_is_small_because_many_share_the_link_is_obeyed() {
    // One sender alone; then fifty, each with its fiftieth.
    for controller in both() {
        let mut senders = vec![Sender::new(controller.clone(), Duration::ZERO)];
        let others = (0..49).map(|number| Sender::new(controller.clone(), ms(3000 + 7 * number)));
        senders.extend(others);
        let grant = |sent| Some(if sent < ms(3000) { LINK } else { LINK / 50 });
        let sent = run(senders, ms(4000), ms(34_000), grant);
        let fair = 30_000 / 50;
        assert!(sent[0] <= fair * 13 / 10, "{sent:?}");
        assert!(sent.iter().all(|sent| *sent >= fair * 8 / 10), "{sent:?}");
    }
}

#[test]
fn an_honest_router_is_followed_again_once_it_grants_what_is_free() {
    for controller in both() {
        let lies = |sent| (ms(3000)..ms(9000)).contains(&sent);
        let grant = |sent| Some(if lies(sent) { 1 } else { LINK / 2 });
        let senders = vec![Sender::new(controller, Duration::ZERO)];
        let sent = run(senders, ms(10_000), ms(12_000), grant);
        assert!((900..=1050).contains(&sent[0]), "{sent:?} of 1000 granted");
    }
}
