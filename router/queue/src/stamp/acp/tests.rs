//! Tests of ACP's link algorithm: equations by hand, and what a port makes of them.

mod closed_loop;

use evenkeel_wire::{Feedback, PathHeaderKind, SignalFlags};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::stamp::control::PersistentQueue;
use crate::stamp::tests::testing::{
    IpPacket, assert_close, figure, header, idle_view, megabyte_per_second, port,
};
use crate::stamp::{Stamp, stamp_set};
use crate::testing::{epoch, ms};
use crate::{Amount, DropTail, Limit, Packet, Port, PortConfig, Rate, Service};

fn packet(kind: PathHeaderKind, rtt: Duration, bytes: usize) -> Packet<IpPacket> {
    IpPacket::headered(&header(kind, rtt), bytes).queued()
}

fn acp(rtt: Duration) -> Packet<IpPacket> {
    packet(PathHeaderKind::Acp, rtt, 1000)
}

/// What the next packet to leave says.
fn stamped(port: &mut Port<IpPacket>, now: Instant) -> (SignalFlags, Feedback) {
    let (_, packet) = port.dequeue(now).expect("one has left");
    let signals = packet.payload.header().signals();
    (signals.flags, signals.feedback)
}

#[test]
fn the_correction_takes_off_a_queue_in_twice_the_gain() {
    // 0.1587 (990,000 - 800,000) = 30,153; 0.3175 x 4000 / 0.1 s = 12,700.
    assert_close(correction(1e6, 800_000.0, 0.0, ms(100)), 30_153.0);
    assert_close(correction(1e6, 800_000.0, 4000.0, ms(100)), 17_453.0);
    // At its target and without a queue it rests.
    assert_close(correction(1e6, 990_000.0, 0.0, ms(100)), 0.0);
}

#[test]
fn users_are_learnt_from_what_the_desired_rate_brings() {
    // e = 30 x 1000 - 10 x 1000 = 20,000; 10 + 0.1 x 20,000 x 1000 / (1 + 10^6).
    assert_close(users(0.1, 10.0, 30_000.0, 1000.0), 10.0 + 2e6 / 1_000_001.0);
    // Right already; not fewer than one; a desire of zero teaches nothing.
    assert_close(users(0.1, 30.0, 30_000.0, 1000.0), 30.0);
    assert_close(users(1.0, 10.0, 0.0, 1000.0), 1.0);
    assert_close(users(0.1, 10.0, 1e9, 0.0), 10.0);
    // p / (1 + p^2) is at most a half, at p = 1: an overload multiplies the users at once.
    assert_close(users(0.1, 10.0, 1e9, 1.0), MOST_USERS);
}

#[test]
fn an_idle_link_asks_for_more_until_it_asks_for_everything() {
    let start = epoch();
    let mut port = port(start, "acp");
    let mut at = |ms_: u64, name| figure(&mut port, start + ms(ms_), name);
    assert_close(at(49, "desired_bps"), 0.0);
    // 0.1587 x 990,000 = 157,113 bytes per second, shared by ten users; p(0) = 0 teaches nothing.
    assert_close(at(50, "desired_bps"), 8.0 * 15_711.3);
    assert_close(at(50, "users"), 10.0);
    // Again; and nobody brought anything: a tenth fewer users.
    assert_close(at(100, "desired_bps"), 8.0 * 31_422.6);
    assert_close(
        at(100, "users"),
        10.0 - 10.0 * 0.1 / (1.0 + 15_711.3f64.powi(-2)),
    );
    assert_close(at(10_000, "desired_bps"), 8e6);
    assert_close(at(10_000, "users"), 1.0);
    assert_eq!(port.next_timeout(), None, "nothing changes any more");
}

#[test]
fn headers_get_the_desired_rate_and_no_more_than_they_asked_for() {
    let start = epoch();
    let mut port = port(start, "acp");
    let now = start + ms(60);
    let mut modest = header(PathHeaderKind::Acp, ms(50));
    modest.signals.feedback = CompactRate::from_bytes_per_second(1000).into();
    port.enqueue(now, acp(ms(50)));
    port.enqueue(now, IpPacket::headered(&modest, 1000).queued());
    let (flags, feedback) = stamped(&mut port, now + ms(9));
    assert_eq!((flags.offered, flags.congested), (true, false));
    // 15,711 in a code of 12 significant bits, rounded down.
    assert_eq!(feedback.rate().bytes_per_second(), Some(15_708));
    let (flags, feedback) = stamped(&mut port, now + ms(9));
    assert!(flags.offered);
    assert_eq!(feedback.rate().bytes_per_second(), Some(1000));
}

#[test]
fn other_kinds_get_no_rate_and_do_not_change_the_period() {
    let start = epoch();
    let mut port = port(start, "acp");
    let before = header(PathHeaderKind::Rcp, ms(400));
    port.enqueue(start, IpPacket::headered(&before, 1000).queued());
    let (_, after) = port.dequeue(start + ms(1)).unwrap();
    assert_eq!(after.payload.header().signals(), before.signals);
    assert_close(figure(&mut port, start + ms(51), "rtt_ms"), 50.0);
}

#[test]
fn the_period_is_the_mean_round_trip_of_the_last_one() {
    let start = epoch();
    let mut port = port(start, "acp");
    for rtt in [ms(100), ms(100), ms(160)] {
        port.enqueue(start + ms(10), acp(rtt));
    }
    assert_close(figure(&mut port, start + ms(49), "rtt_ms"), 50.0);
    assert_eq!(port.next_timeout(), Some(start + ms(11)));
    while port.dequeue(start + ms(50)).is_some() {}
    assert_eq!(port.next_timeout(), Some(start + ms(50 + 120)));
    assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 120.0);
    // Nothing heard: the mean stays.
    assert_close(figure(&mut port, start + ms(170), "rtt_ms"), 120.0);
    assert_eq!(port.next_timeout(), Some(start + ms(290)));
}

#[test]
fn periods_are_as_long_as_asked_for_until_a_round_trip_is_told() {
    let start = epoch();
    let mut port = port(start, "acp:first_period_ms=500");
    assert_close(figure(&mut port, start, "rtt_ms"), 500.0);
    // Ten periods of 50 ms would have brought p to a quarter of the link: it is still zero.
    assert_close(figure(&mut port, start + ms(499), "desired_bps"), 0.0);
    port.enqueue(start + ms(499), acp(ms(80)));
    assert_close(figure(&mut port, start + ms(500), "rtt_ms"), 80.0);
    assert!(figure(&mut port, start + ms(500), "desired_bps") > 0.0);
}

#[test]
fn a_round_trip_that_is_unknown_or_out_of_bounds_does_not_count() {
    for (spec, strange) in [
        ("acp", Duration::ZERO),
        ("acp", Duration::from_micros(999)),
        ("acp", Duration::from_millis(8400)),
        ("acp", Duration::from_secs(134)),
        ("acp:rtt_min_ms=40", ms(39)),
        ("acp:rtt_max_ms=60", ms(61)),
    ] {
        let start = epoch();
        let mut port = port(start, spec);
        port.enqueue(start, acp(strange));
        assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 50.0);
        let mut port = self::port(start, spec);
        port.enqueue(start, acp(strange));
        port.enqueue(start, acp(ms(55)));
        assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 55.0);
    }
}

#[test]
fn a_lie_within_bounds_moves_the_period_by_its_share_of_the_bytes_and_little_more_than_the_median()
{
    let start = epoch();
    let mut port = port(start, "acp");
    port.enqueue(start, packet(PathHeaderKind::Acp, ms(50), 100));
    assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 50.0);
    for rtt in [&[ms(50); 99][..], &[ms(8050)]].concat() {
        port.enqueue(start + ms(50), packet(PathHeaderKind::Acp, rtt, 100));
    }
    // One byte in a hundred says four times 65.536 ms, where the octave of 50 ms ends; to the
    // microsecond below.
    assert_close(figure(&mut port, start + ms(100), "rtt_ms"), 52.121);
}

#[test]
fn a_period_that_a_trickle_alone_made_long_ends_when_others_have_come() {
    let start = epoch();
    let mut port = port(start, "acp");
    port.enqueue(start, packet(PathHeaderKind::Acp, ms(8000), 60));
    assert!(figure(&mut port, start + ms(50), "rtt_ms") > 7999.0);
    // After four of their round trips, no earlier.
    for (at, is_long) in [(89, true), (90, false)] {
        for _ in 0..100 {
            port.enqueue(start + ms(at), packet(PathHeaderKind::Acp, ms(10), 1000));
        }
        let rtt = figure(&mut port, start + ms(at), "rtt_ms");
        assert_eq!(rtt > 7999.0, is_long, "{rtt} ms at {at} ms");
    }
    assert_close(figure(&mut port, start + ms(90), "rtt_ms"), 10.0);
}

#[test]
fn input_counts_every_packet_whether_it_has_a_header_or_is_dropped() {
    let start = epoch();
    let config = PortConfig {
        service: Service::Rate(megabyte_per_second()),
        overhead_bytes: 0,
        watches_flows: false,
        limit: Limit::packets(0),
        discipline: Box::new(DropTail),
        stamps: stamp_set(["acp"]).unwrap(),
        flow_hash_key: [7; 16],
    };
    let mut port = Port::new(start, config);
    port.enqueue(start, acp(ms(50)));
    port.enqueue(start, IpPacket::v4((1, 2), &[0; 472]).queued());
    port.enqueue(start, acp(ms(50)));
    // 1000 + 500 + 1000 bytes in 50 ms.
    assert_close(
        figure(&mut port, start + ms(50), "input_bps"),
        8.0 * 50_000.0,
    );
}

#[test]
fn congestion_is_told_above_95_percent_of_the_link() {
    for (packets, congested) in [(47, false), (48, true)] {
        let start = epoch();
        let mut port = port(start, "acp");
        for number in 0..packets {
            port.enqueue(start + ms(number), acp(ms(50)));
        }
        // 48,000 bytes in 50 ms are 96 %.
        port.enqueue(start + ms(55), acp(ms(50)));
        let last = std::iter::from_fn(|| port.dequeue(start + ms(70))).last();
        let (_, last) = last.unwrap();
        assert_eq!(last.payload.header().signals().flags.congested, congested);
    }
}

/// The persistent queue of the period from 50 to 100 ms, at whose start 20 packets wait, and in
/// which a packet comes every millisecond, as one leaves; but for those that `change` the queue.
fn persistent_queue(change: impl Fn(u64) -> usize) -> f64 {
    let start = epoch();
    let mut port = port(start, "acp");
    for _ in 0..21 {
        port.enqueue(start + ms(50) - Duration::from_nanos(1), acp(ms(50)));
    }
    for time in 50..100 {
        for _ in 0..change(time) {
            port.enqueue(start + ms(time), acp(ms(50)));
        }
    }
    figure(&mut port, start + ms(100), "persistent_queue_bytes")
}

#[test]
fn the_persistent_queue_is_the_least_that_arrivals_see() {
    assert_close(persistent_queue(|_| 1), 20_000.0);
    // Nothing comes for ten milliseconds: the next arrival sees ten packets fewer.
    assert_close(
        persistent_queue(|time| usize::from(!(75..85).contains(&time))),
        10_000.0,
    );
}

#[test]
fn arrivals_are_asked_once_what_stood_at_the_start_of_the_period_is_sent() {
    // 20 packets take 20 ms. Ten more come before that, and stay.
    assert_close(
        persistent_queue(|time| if time == 65 { 11 } else { 1 }),
        30_000.0,
    );
    // Ten fewer come before that.
    assert_close(
        persistent_queue(|time| usize::from(!(55..65).contains(&time))),
        10_000.0,
    );
    // A dip that is over by then does not count.
    let refilled = |time| match time {
        55..65 => 0,
        65 => 11,
        _ => 1,
    };
    assert_close(persistent_queue(refilled), 20_000.0);
}

#[test]
fn without_an_arrival_the_persistent_queue_is_what_one_would_see() {
    // At 100 ms all is sent.
    assert_close(persistent_queue(|_| 0), 0.0);
    // 80 packets in all, of which 50 have started by then (the last as the timer fires) and 30 wait.
    assert_close(
        persistent_queue(|time| if time == 50 { 60 } else { 0 }),
        30_000.0,
    );
}

#[test]
fn a_queue_longer_than_a_round_trip_is_watched_in_the_last_quarter() {
    let start = epoch();
    let queue = PersistentQueue::new(start, ms(80), Duration::MAX);
    assert_eq!(queue.watch_from() - start, ms(60));
    let queue = PersistentQueue::new(start, ms(80), ms(20));
    assert_eq!(queue.watch_from() - start, ms(20));
}

#[test]
fn a_link_that_slept_offers_all_it_has_and_wakes_with_a_packet() {
    let start = epoch();
    let mut port = port(start, "acp");
    assert_close(figure(&mut port, start + ms(60_000), "desired_bps"), 8e6);
    // While nothing happened the link became twice as fast.
    port.set_rate(start + ms(60_000), Rate::new(16_000_000).expect("not zero"))
        .unwrap();
    let now = start + ms(61_000);
    port.enqueue(now, acp(ms(50)));
    let (_, feedback) = stamped(&mut port, now + ms(9));
    assert_eq!(feedback.rate().bytes_per_second(), Some(1_999_872));
    // The period that begins with the packet ends 50 ms after it.
    assert_eq!(port.next_timeout(), Some(now + ms(50)));
    assert_close(figure(&mut port, now + ms(50), "input_bps"), 8.0 * 20_000.0);
}

#[test]
fn a_link_that_becomes_slower_offers_no_more_than_it_is_at_once() {
    let start = epoch();
    let mut port = port(start, "acp");
    let now = start + ms(60_000);
    port.enqueue(now, acp(ms(50)));
    port.set_rate(now + ms(2), Rate::new(800_000).expect("not zero"))
        .unwrap();
    port.enqueue(now + ms(3), acp(ms(50)));
    stamped(&mut port, now + ms(3));
    let (_, feedback) = stamped(&mut port, now + ms(100));
    assert_eq!(feedback.rate().bytes_per_second(), Some(100_000));
}

#[test]
fn an_overload_that_does_not_listen_ends_and_the_link_recovers() {
    let start = epoch();
    let mut port = port(start, "acp");
    // Three seconds at three times the rate.
    for number in 0..9000u64 {
        port.enqueue(start + Duration::from_micros(number * 333), acp(ms(50)));
        while port
            .dequeue(start + Duration::from_micros(number * 333))
            .is_some()
        {}
    }
    assert_close(figure(&mut port, start + ms(3000), "desired_bps"), 0.0);
    // A thousand packets have still to go; and 130 periods bring any number of users down.
    assert_close(figure(&mut port, start + ms(4000 + 130 * 50), "users"), 1.0);
    assert_close(
        figure(&mut port, start + ms(4000 + 170 * 50), "desired_bps"),
        8e6,
    );
}

/// What may happen at a link, hostile or not.
#[derive(Debug, Clone)]
enum Event {
    Arrival {
        bytes: u32,
        rtt: Option<Duration>,
        queued: u64,
    },
    Departure {
        kind: PathHeaderKind,
    },
    Timer,
    Rate(u64),
}

fn event() -> impl Strategy<Value = (u64, Event)> {
    let rtt = prop_oneof![
        Just(None),
        (0u64..200_000_000).prop_map(|us| Some(Duration::from_micros(us)))
    ];
    let queued = prop_oneof![Just(0), 0u64..100_000, 0u64..1 << 50];
    let kind = prop_oneof![Just(PathHeaderKind::Acp), Just(PathHeaderKind::Rcp)];
    let rate = prop_oneof![1u64..1000, 1u64..1_000_000_000, 1u64..=u64::MAX];
    let event = prop_oneof![
        6 => (any::<u32>(), rtt, queued)
            .prop_map(|(bytes, rtt, queued)| Event::Arrival { bytes, rtt, queued }),
        2 => kind.prop_map(|kind| Event::Departure { kind }),
        4 => Just(Event::Timer),
        1 => rate.prop_map(Event::Rate),
    ];
    (0u64..1 << 34, event)
}

proptest! {
    #[test]
    fn whatever_comes_all_state_is_finite_and_in_range(
        events in vec(event(), 1..200), gamma in 0.001f64..=1.0, first_ms in 1u64..=8388,
    ) {
        let mut now = epoch();
        let params = Params { gamma, first_period: ms(first_ms), rtts: RttBounds { min: ms(1), max: ms(8388) } };
        let mut acp = Acp::new(params, now);
        let mut view = idle_view();
        for (gap, event) in events {
            let until = now + Duration::from_nanos(gap);
            while let Some(timer) = acp.next_timer().filter(|timer| *timer <= until) {
                now = timer;
                acp.on_timer(now, &view);
                prop_assert!(acp.next_timer().is_none_or(|next| next > timer));
                let capacity = view.rate.map(Rate::bytes_per_second).unwrap();
                let vars = acp.vars;
                prop_assert!((0.0..=capacity).contains(&vars.desired), "{vars:?}");
                prop_assert!((1.0..=MOST_USERS).contains(&vars.users), "{vars:?}");
                prop_assert!(vars.input.is_finite() && vars.input >= 0.0, "{vars:?}");
                prop_assert!(vars.queue.is_finite() && vars.queue >= 0.0, "{vars:?}");
                prop_assert!((ms(1)..=ms(8388)).contains(&vars.rtt), "{vars:?}");
            }
            match event {
                // Only moves the time on.
                Event::Timer => now = until,
                Event::Rate(bits_per_second) => view.rate = Rate::new(bits_per_second),
                Event::Arrival { bytes, rtt, queued } => {
                    view.queued = Amount { packets: queued / 100, bytes: queued };
                    let with_header = header(PathHeaderKind::Acp, rtt.unwrap_or_default()).emit();
                    let view_of_header = evenkeel_wire::PathHeaderView::parse(&with_header).unwrap();
                    let arrival = Arrival { bytes, header: rtt.map(|_| view_of_header), flow: None };
                    acp.on_arrival(now, &arrival, &view);
                    prop_assert!(acp.next_timer().is_some());
                }
                Event::Departure { kind } => {
                    let mut bytes = header(kind, ms(10)).emit();
                    let found = evenkeel_wire::PathHeaderMut::parse(&mut bytes).unwrap();
                    let mut departure = Departure { bytes: 1000, header: found, queued: ms(1), leaving_ttl: 9 };
                    acp.on_departure(now, &mut departure, &view);
                    let signals = departure.header.view().signals();
                    prop_assert_eq!(signals.flags.offered, kind == PathHeaderKind::Acp);
                    if kind == PathHeaderKind::Acp {
                        let rate = signals.feedback.rate().bytes_per_second().unwrap();
                        prop_assert!(rate <= view.rate.unwrap().bits_per_second() / 8);
                    }
                }
            }
        }
    }
}
