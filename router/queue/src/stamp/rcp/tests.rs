//! Tests of RCP's link algorithm: the equation by hand, and what a port makes of it.

mod closed_loop;

use evenkeel_wire::{Feedback, PathHeaderMut, PathHeaderView};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::stamp::tests::testing::{IpPacket, assert_close, figure, header, idle_view, port};
use crate::testing::{epoch, ms};
use crate::{Amount, Packet, Port, Rate};

fn rcp(rtt: Duration) -> Packet<IpPacket> {
    IpPacket::headered(&header(PathHeaderKind::Rcp, rtt), 1000).queued()
}

/// Bytes per second that the next packet to leave is offered.
fn offered(port: &mut Port<IpPacket>, now: Instant) -> u64 {
    let (_, packet) = port.dequeue(now).expect("one has left");
    let signals = packet.payload.header().signals();
    assert!(signals.flags.offered);
    signals.feedback.rate().bytes_per_second().unwrap()
}

#[test]
fn the_rate_moves_by_its_share_of_what_is_missing() {
    // A tenth of the unused half, a fifth of a round trip: 1 + 0.2 x 0.05.
    assert_close(updated(1000.0, 0.2, 0.05), 1010.0);
    assert_close(updated(1000.0, 0.2, -0.5), 900.0);
    assert_close(updated(1000.0, 0.2, 0.0), 1000.0);
}

#[test]
fn a_port_updates_its_rate_every_ten_milliseconds() {
    let start = epoch();
    let mut port = port(start, "rcp:initial=0.1");
    for number in 0..5 {
        port.enqueue(start + ms(2 * number), rcp(ms(50)));
    }
    // A tenth of 10^6.
    assert_eq!(offered(&mut port, start + ms(9)), 100_000);
    // 5000 bytes in 10 ms, no queue: 1 + 10 / 50 x 0.1 x 0.5 = 1.01.
    assert_close(
        figure(&mut port, start + ms(10), "offered_bps"),
        8.0 * 101_000.0,
    );
    assert_close(figure(&mut port, start + ms(10), "input_bps"), 8.0 * 5e5);
    // Nothing comes: 1 + 0.2 x 0.1 = 1.02.
    assert_close(
        figure(&mut port, start + ms(20), "offered_bps"),
        8.0 * 103_020.0,
    );
}

#[test]
fn a_queue_lowers_the_rate() {
    let start = epoch();
    let mut port = port(start, "rcp");
    // 25,000 bytes in 10 ms, of which eleven packets have begun to leave and 14 wait.
    for _ in 0..25 {
        port.enqueue(start, rcp(ms(50)));
    }
    assert_close(figure(&mut port, start + ms(10), "queue_bytes"), 14_000.0);
    // 0.1 (1 - 2.5) - 14,000 / 0.05 / 10^6 = -0.43; a fifth of it.
    assert_close(
        figure(&mut port, start + ms(10), "offered_bps"),
        8.0 * 914_000.0,
    );
}

#[test]
fn the_rate_is_the_capacity_at_most_and_a_tenth_of_a_packet_per_round_trip_at_least() {
    let start = epoch();
    let mut port = port(start, "rcp");
    let now = start + ms(1);
    port.enqueue(now, rcp(ms(50)));
    assert_eq!(offered(&mut port, now + ms(5)), 999_936);
    assert_close(figure(&mut port, now + ms(10), "offered_bps"), 8e6);
    // Nothing changes any more: the timer stops.
    assert_close(figure(&mut port, now + ms(20), "offered_bps"), 8e6);
    assert_eq!(port.next_timeout(), None);
    for _ in 0..900 {
        port.enqueue(now + ms(30), rcp(ms(50)));
    }
    assert_close(
        figure(&mut port, now + ms(300), "offered_bps"),
        8.0 * 2000.0,
    );
    // It comes back, by 2 % in ten milliseconds.
    assert_close(figure(&mut port, now + ms(6000), "offered_bps"), 8e6);
}

#[test]
fn the_least_rate_is_the_one_that_was_asked_for() {
    let start = epoch();
    let mut port = port(start, "rcp:least=1260");
    for _ in 0..900 {
        port.enqueue(start, rcp(ms(50)));
    }
    // 1260 bytes in 50 ms.
    assert_close(
        figure(&mut port, start + ms(270), "offered_bps"),
        8.0 * 25_200.0,
    );
}

#[test]
fn the_round_trip_is_a_moving_average_of_rcp_packets_alone() {
    let start = epoch();
    let mut port = port(start, "rcp");
    for rtt in [
        ms(100),
        ms(100),
        ms(160),
        Duration::ZERO,
        ms(8400),
        Duration::from_micros(999),
    ] {
        port.enqueue(start, rcp(rtt));
    }
    let other = header(PathHeaderKind::Acp, ms(400));
    port.enqueue(start, IpPacket::headered(&other, 1000).queued());
    // A fifth of the way from 50 to 120 ms.
    assert_close(figure(&mut port, start + ms(10), "rtt_ms"), 64.0);
    let last = std::iter::from_fn(|| port.dequeue(start + ms(10))).last();
    let (_, last) = last.unwrap();
    assert_eq!(last.payload.header().signals(), other.signals);
    // All seven are load.
    assert_close(figure(&mut port, start + ms(10), "input_bps"), 8.0 * 7e5);
    assert_close(averaged(ms(5), ms(80), ms(10)).as_secs_f64(), 0.08);
}

#[test]
fn short_round_trips_make_short_periods() {
    let start = epoch();
    let mut port = port(start, "rcp");
    let mut at = start;
    for _ in 0..100 {
        at += ms(2);
        port.enqueue(at, rcp(ms(4)));
        while port.dequeue(at).is_some() {}
    }
    let d = figure(&mut port, at, "rtt_ms");
    assert!((4.0..4.1).contains(&d), "{d}");
}

#[test]
fn a_link_that_slept_offers_all_it_has() {
    let start = epoch();
    let mut port = port(start, "rcp:initial=0.5");
    port.enqueue(start, rcp(ms(50)));
    assert!(figure(&mut port, start + ms(5000), "offered_bps") > 7.9e6);
    port.set_rate(start + ms(5000), Rate::new(16_000_000).expect("not zero"))
        .unwrap();
    while port.dequeue(start + ms(5000)).is_some() {}
    let now = start + ms(5001);
    port.enqueue(now, rcp(ms(50)));
    assert_eq!(offered(&mut port, now + ms(5)), 1_999_872);
    // No more than it is, at once.
    port.enqueue(now + ms(5), rcp(ms(50)));
    port.enqueue(now + ms(5), rcp(ms(50)));
    port.set_rate(now + ms(5), Rate::new(800_000).expect("not zero"))
        .unwrap();
    offered(&mut port, now + ms(100));
    assert!(offered(&mut port, now + ms(100)) <= 100_000);
}

/// What may happen at a link, hostile or not.
#[derive(Debug, Clone)]
enum Event {
    Arrival(u32, Duration, u64),
    Departure(PathHeaderKind),
    Rate(Option<u64>),
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let rtt = prop_oneof![Just(0), 1u64..200_000, 0u64..200_000_000];
    let queued = prop_oneof![Just(0), 0u64..100_000, 0u64..1 << 50];
    let rate = prop_oneof![1u64..1000, 1u64..1_000_000_000, 1u64..=u64::MAX];
    let kind = prop_oneof![Just(PathHeaderKind::Acp), Just(PathHeaderKind::Rcp)];
    let event = prop_oneof![
        6 => (any::<u32>(), rtt.prop_map(Duration::from_micros), queued)
            .prop_map(|(bytes, rtt, queued)| Event::Arrival(bytes, rtt, queued)),
        3 => kind.prop_map(Event::Departure),
        1 => prop::option::of(rate).prop_map(Event::Rate),
    ];
    (prop_oneof![0u64..100_000_000, 0u64..1 << 34], event)
}

proptest! {
    #[test]
    fn whatever_comes_all_state_is_finite_and_in_range(
        events in vec(event(), 1..200), alpha in 0.001f64..=2.0, beta in 0.0f64..=2.0,
    ) {
        let mut now = epoch();
        let params = Params {
            alpha,
            beta,
            initial: 1.0,
            period: ms(10),
            least: 100.0,
            rtts: RttBounds {
                min: ms(1),
                max: ms(8388),
            },
        };
        let mut rcp = Rcp::new(params);
        let mut view = idle_view();
        for (gap, event) in events {
            let until = now + Duration::from_nanos(gap);
            while let Some(timer) = rcp.next_timer().filter(|timer| *timer <= until) {
                now = timer;
                rcp.on_timer(now, &view);
                prop_assert!(rcp.next_timer().is_none_or(|next| next > timer));
                if let Some(capacity) = view.rate.map(Rate::bytes_per_second) {
                    let rate = rcp.rate.unwrap();
                    prop_assert!(rate > 0.0 && rate <= capacity, "{rcp:?}");
                }
                prop_assert!(rcp.input.is_finite() && rcp.input >= 0.0, "{rcp:?}");
                prop_assert!((ms(1)..=ms(8388)).contains(&rcp.rtt), "{rcp:?}");
            }
            now = until;
            match event {
                Event::Rate(bits_per_second) => view.rate = bits_per_second.and_then(Rate::new),
                Event::Arrival(bytes, rtt, queued) => {
                    view.queued = Amount { packets: queued / 100, bytes: queued };
                    let header = header(PathHeaderKind::Rcp, rtt).emit();
                    let header = Some(PathHeaderView::parse(&header).unwrap());
                    rcp.on_arrival(now, &Arrival { bytes, header, flow: None }, &view);
                    prop_assert!(rcp.next_timer().is_some() || view.rate.is_none());
                }
                Event::Departure(kind) => {
                    let mut bytes = header(kind, ms(10)).emit();
                    let header = PathHeaderMut::parse(&mut bytes).unwrap();
                    let mut departure = Departure { bytes: 1000, header, queued: ms(1), leaving_ttl: 9 };
                    rcp.on_departure(now, &mut departure, &view);
                    let signals = departure.header.view().signals();
                    if let (PathHeaderKind::Rcp, Some(rate), Some(_)) = (kind, view.rate, rcp.rate) {
                        let offered = signals.feedback.rate().bytes_per_second().unwrap();
                        prop_assert!(offered <= rate.bits_per_second() / 8);
                    } else {
                        prop_assert_eq!(signals.feedback, Feedback::from(CompactRate::NO_LIMIT));
                        prop_assert!(!signals.flags.offered);
                    }
                }
            }
        }
    }
}
