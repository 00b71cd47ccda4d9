//! Tests of how a port hosts disciplines: whom it asks when, and what it makes of the answers.

use std::sync::{Arc, Mutex};

use evenkeel_wire::Ecn;

use crate::port::*;
use crate::testing::{epoch, ms, packet};
use crate::{DropTail, PacketMeta};

/// Which call a discipline had, when, and what it saw of its port.
type Heard = (&'static str, Instant, PortView);

/// All departures up to `now`: time since `start`, and which packet.
fn departures(port: &mut Port<u64>, start: Instant, now: Instant) -> Vec<(Duration, u64)> {
    std::iter::from_fn(|| port.dequeue(now))
        .map(|(ended, packet)| (ended - start, packet.payload))
        .collect()
}

/// Does what its fields say, and notes what it was told.
#[derive(Debug, Default)]
struct Scripted {
    arrival: Option<Verdict>,
    departure: Option<(u64, Verdict)>,
    timer: Option<(Instant, Duration)>,
    departed: u64,
    log: Arc<Mutex<Vec<Heard>>>,
}

impl Scripted {
    fn note(&self, event: &'static str, now: Instant, port: &PortView) {
        self.log
            .lock()
            .expect("no test panics while it holds the log")
            .push((event, now, *port));
    }
}

impl Discipline for Scripted {
    fn on_arrival(&mut self, now: Instant, _meta: &mut PacketMeta, port: &PortView) -> Verdict {
        self.note("arrival", now, port);
        self.arrival.unwrap_or(Verdict::Admit)
    }

    fn on_departure(&mut self, now: Instant, _meta: &mut PacketMeta, port: &PortView) -> Verdict {
        self.note("departure", now, port);
        self.departed += 1;
        match self.departure {
            Some((which, verdict)) if which == self.departed => verdict,
            _ => Verdict::Admit,
        }
    }

    fn on_timer(&mut self, now: Instant, port: &PortView, _waited: &dyn Fn(usize) -> Duration) {
        self.note("timer", now, port);
        if let Some((next, period)) = &mut self.timer {
            *next += *period;
        }
    }

    fn next_timer(&self) -> Option<Instant> {
        self.timer.map(|(next, _)| next)
    }
}

fn scripted(now: Instant, limit: Limit, discipline: Scripted) -> Port<u64> {
    let discipline = Box::new(discipline);
    Port::new(
        now,
        PortConfig {
            // A packet of 1000 bytes takes 1 ms.
            service: Service::Rate(Rate::new(8_000_000).expect("not zero")),
            overhead_bytes: 0,
            watches_flows: false,
            limit,
            discipline,
            stamps: Vec::new(),
            flow_hash_key: [0; 16],
        },
    )
}

#[test]
fn a_mark_reaches_the_packet_of_an_ecn_capable_sender_and_drops_any_other() {
    let start = epoch();
    let mark = Scripted {
        arrival: Some(Verdict::Mark),
        ..Scripted::default()
    };
    let mut port = scripted(start, Limit::NONE, mark);
    let capable = Packet::new(PacketMeta::new(1000, Ecn::Ect0), 1);
    assert_eq!(port.enqueue(start, capable), Verdict::Mark);
    assert_eq!(
        port.enqueue(start, packet(1000, 2)),
        Verdict::Drop(DropReason::Early)
    );
    let (_, marked) = port.dequeue(start + ms(9)).unwrap();
    assert_eq!(marked.meta.ecn, Ecn::Ce);
    let total = port.stats(start + ms(9)).total();
    assert_eq!(
        (total.marked, total.dropped.early),
        (Amount::one(1000), Amount::one(1000))
    );
    assert_eq!(port.check_conservation(), Ok(()));
}

#[test]
fn a_discipline_that_drops_at_departure_lets_the_next_packet_start_at_once() {
    let start = epoch();
    let head_drop = Scripted {
        departure: Some((2, Verdict::Drop(DropReason::Early))),
        ..Scripted::default()
    };
    let log = head_drop.log.clone();
    let mut port = scripted(start, Limit::NONE, head_drop);
    for number in 1..=3 {
        port.enqueue(start, packet(1000, number));
    }
    assert_eq!(
        departures(&mut port, start, start + ms(9)),
        [(ms(1), 1), (ms(2), 3)]
    );
    assert_eq!(port.stats(start + ms(9)).total().dropped.early.packets, 1);
    assert_eq!(port.check_conservation(), Ok(()));
    let log = log.lock().unwrap();
    let queued: Vec<_> = log
        .iter()
        .filter(|(event, ..)| *event == "departure")
        .map(|(_, at, view)| (*at - start, view.queued.packets))
        .collect();
    assert_eq!(queued, [(ms(0), 0), (ms(1), 1), (ms(1), 0)]);
}

#[test]
fn a_packet_dropped_as_it_arrives_and_departs_at_once_is_counted_once() {
    let start = epoch();
    let head_drop = Scripted {
        departure: Some((1, Verdict::Drop(DropReason::Early))),
        ..Scripted::default()
    };
    let mut port = scripted(start, Limit::NONE, head_drop);
    assert_eq!(
        port.enqueue(start, packet(1000, 1)),
        Verdict::Drop(DropReason::Early)
    );
    assert_eq!(port.stats(start).total().dropped.total(), Amount::one(1000));
    assert_eq!(port.enqueue(start, packet(1000, 2)), Verdict::Admit);
    assert_eq!(port.check_conservation(), Ok(()));
}

#[test]
fn a_discipline_hears_of_arrivals_that_the_limit_refuses() {
    let start = epoch();
    let discipline = Scripted::default();
    let log = discipline.log.clone();
    let mut port = scripted(start, Limit::packets(0), discipline);
    port.enqueue(start, packet(1000, 1));
    assert_eq!(
        port.enqueue(start, packet(1000, 2)),
        Verdict::Drop(DropReason::Full)
    );
    let log = log.lock().unwrap();
    assert_eq!(
        log.iter().filter(|(event, ..)| *event == "arrival").count(),
        2
    );
    let (_, _, view) = log.last().unwrap();
    assert!(view.transmitting);
    assert_eq!(
        (view.limit, view.rate),
        (Limit::packets(0), Rate::new(8_000_000))
    );
}

#[test]
fn timers_fire_at_their_instants_between_transmissions_however_late_the_host() {
    let start = epoch();
    let discipline = Scripted {
        timer: Some((start + ms(1), Duration::from_micros(700))),
        ..Scripted::default()
    };
    let log = discipline.log.clone();
    let mut port = scripted(start, Limit::NONE, discipline);
    for number in 1..=3 {
        port.enqueue(start, packet(1000, number));
    }
    assert_eq!(port.next_timeout(), Some(start + ms(1)));
    port.stats(start + Duration::from_micros(2500));
    let log = log.lock().unwrap();
    let events: Vec<_> = log
        .iter()
        .map(|(event, at, _)| (*event, (*at - start).as_micros()))
        .collect();
    let arrivals = ("arrival", 0);
    let expected = [
        arrivals,
        ("departure", 0),
        arrivals,
        arrivals,
        ("departure", 1000),
        ("timer", 1000),
        ("timer", 1700),
        ("departure", 2000),
        ("timer", 2400),
    ];
    assert_eq!(events, expected);
}

#[test]
fn a_timer_set_in_the_past_is_due_now() {
    let start = epoch();
    let late = Scripted {
        timer: Some((start, ms(10))),
        ..Scripted::default()
    };
    let log = late.log.clone();
    let mut port = scripted(start + ms(5), Limit::NONE, late);
    port.stats(start + ms(8));
    assert_eq!(port.next_timeout(), Some(start + ms(10)));
    let (event, at, _) = log.lock().unwrap()[0];
    assert_eq!((event, at - start), ("timer", ms(5)));
}

#[test]
#[should_panic(expected = "a discipline's timer moves on when it fires")]
fn a_timer_that_does_not_move_on_is_a_bug() {
    let start = epoch();
    let stuck = Scripted {
        timer: Some((start, Duration::ZERO)),
        ..Scripted::default()
    };
    scripted(start, Limit::NONE, stuck).stats(start + ms(1));
}

#[test]
fn an_unlimited_port_passes_packets_as_if_its_discipline_were_asked() {
    let start = epoch();
    let run = |discipline: Box<dyn Discipline>| {
        let mut port = scripted(start, Limit::packets(2), Scripted::default());
        port.judges = discipline.judges();
        port.discipline = discipline;
        port.server = Server::Unlimited;
        let mut seen = Vec::new();
        for number in 0..40 {
            let now = start + ms(3 * (number / 4));
            let found = now + ms(number % 3);
            let verdict = port.enqueue_seen(now, found, packet(100 + number as u32, number));
            seen.push(format!(
                "{verdict:?} {:?}",
                departures(&mut port, start, now)
            ));
            match number {
                15 => port.restart_measurement(now + ms(1)),
                20 => seen.push(format!("{:?}", port.take_interval(now + ms(2)))),
                // From now on packets wait, and some find the queue full.
                30 => port.set_rate(now, Rate::new(800_000).unwrap()).unwrap(),
                _ => {}
            }
        }
        let end = start + ms(100);
        seen.push(format!("{:?}", departures(&mut port, start, end)));
        seen.push(format!("{:?}", port.stats(end)));
        assert_eq!(port.check_conservation(), Ok(()));
        seen
    };
    let asked = run(Box::<Scripted>::default());
    assert!(asked.iter().any(|line| line.contains("Full")), "{asked:?}");
    assert_eq!(run(Box::new(DropTail)), asked);
}
