//! Tests with hosts that forge headers to starve others.

use super::*;

/// A flow without headers that probes for more and backs off after a loss, as Reno does.
struct Elastic {
    /// Packets.
    window: f64,
    next: u64,
    /// The first packet of which nothing is known.
    first: u64,
    /// A loss before this packet has been answered.
    answered: u64,
    /// When and which packets will be acknowledged.
    acks: VecDeque<(u64, u64)>,
    /// When it has heard last.
    heard: u64,
}

/// Milliseconds from a packet's departure to its acknowledgement, and of silence until all is lost.
const BACK: u64 = 20;
const TIMEOUT: u64 = 300;

impl Elastic {
    const FLOW: u16 = FIRST_OTHER;

    fn new() -> Self {
        Self {
            window: 2.0,
            next: 0,
            first: 0,
            answered: 0,
            acks: VecDeque::new(),
            heard: 0,
        }
    }

    fn send(&mut self, port: &mut Port<Numbered>, time: u64) {
        while self.acks.front().is_some_and(|ack| ack.0 <= time) {
            let (_, number) = self.acks.pop_front().expect("one is due");
            self.heard = time;
            if number > self.first && number >= self.answered {
                self.window = (self.window / 2.0).max(2.0);
                self.answered = self.next;
            } else {
                self.window += 1.0 / self.window;
            }
            self.first = self.first.max(number + 1);
        }
        if time > self.heard + TIMEOUT {
            (self.heard, self.first, self.window) = (time, self.next, 2.0);
        }
        while ((self.next - self.first) as f64) < self.window {
            port.enqueue(epoch() + ms(time), packet(Self::FLOW, self.next, 1000));
            self.next += 1;
        }
    }
}

/// Another flow without headers: 100 bytes each 20 ms.
const PROBE: u16 = FIRST_OTHER + 1;

/// When headers are forged.
const FORGED: std::ops::Range<u64> = 2000..10_000;

/// Runs an elastic flow, a probe and what `forge` sends at each millisecond of [`FORGED`]; returns when what
/// left: milliseconds, flow, time in the queue.
fn run_beside(
    port: &mut Port<Numbered>,
    mut forge: impl FnMut(&mut Port<Numbered>, u64),
) -> Vec<(u64, u16, Duration)> {
    let mut elastic = Elastic::new();
    let mut left = Vec::new();
    for time in 0..FORGED.end {
        let now = epoch() + ms(time);
        if FORGED.contains(&time) {
            forge(port, time);
        }
        elastic.send(port, time);
        if time % 20 == 0 {
            port.enqueue(now, packet(PROBE, time / 20, 100));
        }
        while let Some((_, packet)) = port.dequeue(now) {
            let Numbered { flow, number, .. } = packet.payload;
            if flow == Elastic::FLOW {
                elastic.acks.push_back((time + BACK, number));
            }
            left.push((time, flow, packet.meta.queued));
        }
    }
    left
}

/// Packets of a flow that left in a span.
fn count(left: &[(u64, u16, Duration)], flow: u16, span: std::ops::Range<u64>) -> usize {
    let left = left.iter().filter(|one| one.1 == flow);
    left.filter(|one| span.contains(&one.0)).count()
}

#[test]
fn flows_of_one_host_with_forged_headers_leave_the_others_room_and_time() {
    // Each has less than 1.5 of a fair share; together they ask for 1.1 of the link. One sends small packets,
    // which fill a queue that counts packets.
    for (flows, bytes) in [(10u64, 1000u32), (10, 60), (60, 1000)] {
        let mut port = port_with("guided", Limit::packets(100), Vec::new());
        let mut sent = 0;
        let left = run_beside(&mut port, |port, time| {
            let until = (time - FORGED.start) * 1100 / u64::from(bytes);
            for number in sent..until {
                let flow = FLOWS_OF_A_HOST + (number % flows) as u16;
                port.enqueue(epoch() + ms(time), packet(flow, number, bytes));
            }
            sent = sent.max(until);
        });
        // Before its host is found.
        let packets = count(&left, Elastic::FLOW, 2000..5000);
        let fair = 3000.0 / 16.0;
        assert!(packets as f64 >= 0.8 * fair, "{flows}, {bytes}: {packets}");
        let probes = count(&left, PROBE, FORGED);
        assert!(probes >= 398, "{flows}, {bytes}: {probes} of 400");
        // Then that host has one flow's share of the others, whatever its flows.
        let packets = count(&left, Elastic::FLOW, 7000..10_000);
        let fair = 3000.0 / 2.0;
        assert!(packets as f64 >= 0.8 * fair, "{flows}, {bytes}: {packets}");
    }
}

#[test]
fn claims_that_just_fill_the_link_leave_the_others_a_sixteenth() {
    // No router can tell them from guided flows, which may fill the link and lose nothing.
    let mut port = port_with("guided", Limit::packets(100), Vec::new());
    let mut number = 0;
    let left = run_beside(&mut port, |port, time| {
        let now = epoch() + ms(time);
        while port.stats(now).queued().packets < 60 {
            let flow = FLOWS_OF_A_HOST + (number % 60) as u16;
            port.enqueue(now, packet(flow, number, 1000));
            number += 1;
        }
    });
    for second in 3..10 {
        let packets = count(&left, Elastic::FLOW, second * 1000..(second + 1) * 1000);
        assert!(packets as f64 >= 0.8 * 1000.0 / 16.0, "{second}: {packets}");
    }
    let probes = count(&left, PROBE, FORGED);
    assert!(probes >= 398, "{probes} of 400");
}

#[test]
fn a_burst_of_the_others_within_their_sixteenth_finds_room_in_a_short_queue_that_claims_fill() {
    let mut port = port_with("guided", Limit::packets(50), Vec::new());
    let (mut number, mut bursts, mut left) = (0, 0, 0);
    for time in 0..10_000 {
        let now = epoch() + ms(time);
        while port.stats(now).queued().packets < 49 {
            let flow = FLOWS_OF_A_HOST + (number % 60) as u16;
            port.enqueue(now, packet(flow, number, 1000));
            number += 1;
        }
        // Four packets need 64 ms; the first seconds are those of flows that are not counted yet.
        if time >= 2000 && time % 80 == 0 {
            for _ in 0..4 {
                port.enqueue(now, packet(FIRST_OTHER, bursts, 1000));
                bursts += 1;
            }
        }
        let packets = std::iter::from_fn(|| port.dequeue(now));
        left += packets
            .filter(|(_, packet)| packet.payload.flow == FIRST_OTHER)
            .count();
    }
    assert!(left as u64 >= bursts - 4, "{left} of {bursts}");
}

#[test]
fn a_guided_flow_keeps_its_share_beside_a_host_that_crowds_the_class() {
    let mut port = port_with("guided", Limit::packets(100), Vec::new());
    let left = run_beside(&mut port, |port, time| {
        let now = epoch() + ms(time);
        if time % 14 == 0 {
            port.enqueue(now, packet(1, time / 14, 1000));
        }
        // A bit more than the class's part of the link, by flows below 1.5 shares.
        let flow = FLOWS_OF_A_HOST + (time % 10) as u16;
        port.enqueue(now, packet(flow, time, 1000));
        if time % 8 == 0 {
            port.enqueue(now, packet(flow, time, 1000));
        }
    });
    let packets = count(&left, 1, 7000..10_000);
    assert!(packets >= 3000 / 14 - 2, "{packets}");
    let waits = left.iter().filter(|one| one.1 == 1 && one.0 >= 7000);
    let longest = waits.map(|one| one.2).max().expect("it has sent");
    assert!(longest <= ms(6), "{longest:?}");
}

#[test]
fn a_host_that_changes_its_port_before_a_flow_is_found_is_found_itself() {
    for stays in [200, 400, 1000] {
        let mut port = port_with("guided", Limit::packets(100), Vec::new());
        let left = run_beside(&mut port, |port, time| {
            let now = epoch() + ms(time);
            if time % 10 == 0 {
                port.enqueue(now, packet(1, time / 10, 1000));
            }
            let flow = FLOWS_OF_A_HOST + (time / stays) as u16;
            for number in [2 * time, 2 * time + 1] {
                port.enqueue(now, packet(flow, number, 1000));
            }
        });
        let packets = count(&left, 1, 6000..10_000);
        assert!(packets >= 4000 / 10 - 2, "{stays} ms: {packets}");
        let waits = left.iter().filter(|one| one.1 == 1 && one.0 >= 6000);
        let longest = waits.map(|one| one.2).max().expect("it has sent");
        assert!(longest <= ms(6), "{stays} ms: {longest:?}");
        let others = count(&left, Elastic::FLOW, 6000..10_000);
        assert!(others >= 1000, "{stays} ms: {others}");
    }
}

#[test]
fn the_others_wait_no_longer_when_many_flows_claim_what_they_are_owed_at_once() {
    let mut senders: Vec<_> = (0..60).map(|flow| sends(flow, 70.0, 0..2000)).collect();
    senders.extend((0..60).map(|flow| sends(flow, 25.0, 2000..3000)));
    senders.push(sends(FIRST_OTHER, 20.0, 0..3000));
    let mut port = port_with("guided", Limit::NONE, Vec::new());
    let left = run(&mut port, &senders, 1000, 3000);
    // A turn of sixteen large packets, twice ten milliseconds and a packet, and what is in transmission.
    let longest = longest_wait(&left, FIRST_OTHER);
    assert!(longest <= ms(25 + 2 * 12 + 2), "{longest:?}");
}
