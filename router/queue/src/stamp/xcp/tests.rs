//! Tests of XCP's link algorithm: equations by hand, and what a port makes of them.

mod closed_loop;

use evenkeel_wire::{CompactBytes, PathHeaderMut, PathHeaderRepr};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::stamp::tests::testing::{IpPacket, assert_close, figure, header, idle_view, port};
use crate::testing::{epoch, ms};
use crate::{Amount, Packet, Port, Rate};

const PARAMS: Params = Params {
    alpha: 0.4,
    beta: 0.226,
    gamma: 0.1,
    rtts: RttBounds {
        min: Duration::from_millis(1),
        max: Duration::from_micros(1 << 23),
    },
};

/// A header that asks for the most.
fn repr(rtt: Duration, window: u64) -> PathHeaderRepr {
    let window = CompactBytes::from_bytes(window);
    let mut repr = header(PathHeaderKind::Xcp { window }, rtt);
    repr.signals.feedback = WindowChange::MAX.into();
    repr
}

fn xcp(rtt: Duration, window: u64) -> Packet<IpPacket> {
    IpPacket::headered(&repr(rtt, window), 1000).queued()
}

/// In bytes, what the next packet to leave is given.
fn given(port: &mut Port<IpPacket>, now: Instant) -> f64 {
    let (_, packet) = port.dequeue(now).expect("one has left");
    let signals = packet.payload.header().signals();
    assert!(signals.flags.offered);
    signals.feedback.window_change().in_256ths() as f64 / 256.0
}

#[test]
fn the_efficiency_controller_weighs_spare_bandwidth_and_queue() {
    // 0.4 x 0.1 s x 200,000 = 8000; 0.226 x 4000 = 904.
    assert_close(aggregate_feedback(&PARAMS, 2e5, 0.0, ms(100)), 8000.0);
    assert_close(aggregate_feedback(&PARAMS, 2e5, 4000.0, ms(100)), 7096.0);
    assert_close(aggregate_feedback(&PARAMS, -2e5, 4000.0, ms(100)), -8904.0);
}

#[test]
fn a_tenth_of_the_traffic_is_shuffled_unless_feedback_moves_as_much() {
    // 0.1 x 1,000,000 x 0.1 s = 10,000.
    assert_close(shuffled(0.1, 1e6, 0.0, ms(100)), 10_000.0);
    assert_close(shuffled(0.1, 1e6, 4000.0, ms(100)), 6000.0);
    assert_close(shuffled(0.1, 1e6, -4000.0, ms(100)), 6000.0);
    assert_eq!(shuffled(0.1, 1e6, 12_000.0, ms(100)), 0.0);
}

/// Two flows at 100 ms: windows of 80,000 and 20,000 bytes, so 80 and 20 packets of 1000 bytes in an interval.
fn shares(feedback: f64, shuffled: f64) -> (Shares, Told, Told) {
    let vars = Vars {
        rtt: ms(100),
        input: 1e6,
        queue: 0.0,
        feedback,
        shuffled,
    };
    let told = |window| Told {
        rtt: 0.1,
        window,
        bytes: 1000.0,
    };
    let (large, small) = (told(80_000.0), told(20_000.0));
    // rtt s / cwnd is 1.25 ms and 5 ms: in 100 ms each flow adds 100 ms.
    assert_close(80.0 * large.spacing() + 20.0 * small.spacing(), 0.2);
    (Shares::new(&vars, 1e6, 2.0), large, small)
}

#[test]
fn positive_feedback_is_the_same_for_every_flow() {
    let (mut shares, large, small) = shares(8000.0, 0.0);
    // 8000 / (0.1 s x 0.2 s) = 400,000 bytes per second squared.
    assert_close(shares.xi_p, 400_000.0);
    assert_eq!(shares.xi_n, 0.0);
    // 4000 bytes for each flow, by 80 packets and by 20.
    for _ in 0..80 {
        assert_close(shares.give(&large, 1e9), 50.0);
    }
    for _ in 0..20 {
        assert_close(shares.give(&small, 1e9), 200.0);
    }
    // All is dealt out; rounding may leave a crumb.
    assert!(shares.give(&small, 1e9) < 1e-6);
}

#[test]
fn negative_feedback_is_by_the_share_of_the_traffic() {
    let (mut shares, large, small) = shares(-8000.0, 0.0);
    // 8000 / (0.1 s x 100,000) = 0.8 per second.
    assert_close(shares.xi_n, 0.8);
    assert_eq!(shares.xi_p, 0.0);
    // 80 bytes per packet: 6400 and 1600 for the flows.
    assert_close(shares.give(&large, 1e9), -80.0);
    assert_close(shares.give(&small, 1e9), -80.0);
}

#[test]
fn shuffling_moves_windows_towards_each_other_and_keeps_their_sum() {
    let (mut shares, large, small) = shares(0.0, 10_000.0);
    // Up 5000 for each flow, 62.5 and 250 a packet; down 100 a packet.
    assert_close(shares.give(&large, 1e9), -37.5);
    assert_close(shares.give(&small, 1e9), 150.0);
    assert_close(80.0 * -37.5 + 20.0 * 150.0, 0.0);
}

#[test]
fn what_another_link_holds_back_is_left_for_others() {
    // 150 bytes would be 250 less 100, and more per second by 1 / 0.1 s.
    for (asked, positive, negative) in [
        (200.0, 250.0, 100.0),
        (150.0, 250.0, 100.0),
        // All it takes is given; what it does not take need not be taken from others.
        (40.0, 40.0, 110.0),
        // It shrinks by 30 elsewhere, and 150 are not taken.
        (-30.0, 0.0, 180.0),
    ] {
        let (mut shares, _, small) = shares(0.0, 10_000.0);
        let before = shares;
        assert_close(shares.give(&small, asked), 150.0);
        assert_close(before.positive - shares.positive, positive / 0.1);
        assert_close(before.negative - shares.negative, negative / 0.1);
    }
}

#[test]
fn a_packet_gets_no_more_than_what_is_left() {
    let (mut shares, ..) = shares(8000.0, 0.0);
    let lie = Told {
        rtt: 8.0,
        window: 1000.0,
        bytes: 1000.0,
    };
    // 80,000 bytes per second in a round trip of eight.
    assert_close(shares.give(&lie, 1e9), 640_000.0);
    assert_close(shares.give(&lie, 1e9), 0.0);
}

#[test]
fn nobody_to_deal_to_leaves_nothing_to_deal() {
    let vars = Vars {
        rtt: ms(100),
        input: 0.0,
        queue: 0.0,
        feedback: 8000.0,
        shuffled: 0.0,
    };
    assert_eq!(Shares::new(&vars, 0.0, 0.0), Shares::default());
}

#[test]
fn a_port_gives_in_an_interval_what_it_has_learnt_in_the_one_before() {
    let start = epoch();
    let mut port = port(start, "xcp");
    for number in 0..20 {
        port.enqueue(start + ms(2 * number), xcp(ms(50), 25_000));
    }
    for _ in 0..20 {
        assert_eq!(given(&mut port, start + ms(45)), 0.0);
    }
    // 20 packets in 50 ms: 400,000 bytes per second; 0.4 x 0.05 s x 600,000 = 12,000.
    assert_close(figure(&mut port, start + ms(50), "input_bps"), 8.0 * 4e5);
    assert_close(
        figure(&mut port, start + ms(50), "feedback_bytes"),
        12_000.0,
    );
    assert_close(figure(&mut port, start + ms(50), "shuffled_bytes"), 0.0);
    // By 20 packets, as each says 2 ms of spacing and 40 of 50 ms were heard of: 600 bytes.
    port.enqueue(start + ms(51), xcp(ms(50), 25_000));
    assert_close(given(&mut port, start + ms(53)), 600.0);
}

#[test]
fn a_packet_keeps_a_lower_feedback_and_other_kinds_keep_theirs() {
    let start = epoch();
    let mut port = port(start, "xcp");
    let mut modest = repr(ms(50), 25_000);
    modest.signals.feedback = WindowChange::from_256ths(-256).into();
    let other = header(PathHeaderKind::Acp, ms(400));
    for repr in [&modest, &other] {
        port.enqueue(start, IpPacket::headered(repr, 1000).queued());
    }
    assert_close(given(&mut port, start + ms(9)), -1.0);
    let (_, packet) = port.dequeue(start + ms(9)).unwrap();
    assert_eq!(packet.payload.header().signals(), other.signals);
    assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 50.0);
    // Both are load.
    assert_close(
        figure(&mut port, start + ms(50), "input_bps"),
        8.0 * 40_000.0,
    );
}

#[test]
fn the_interval_is_the_mean_round_trip_of_flows_not_of_packets() {
    let start = epoch();
    let mut port = port(start, "xcp");
    // Ten packets of a flow with ten times the rate of the other's one: (100 + 200) / 2 ms.
    for _ in 0..10 {
        port.enqueue(start, xcp(ms(100), 100_000));
    }
    port.enqueue(start, xcp(ms(200), 20_000));
    assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 150.0);
    while port.dequeue(start + ms(60)).is_some() {}
    // Nothing comes: the interval ends, and none begins.
    assert_eq!(port.next_timeout(), Some(start + ms(200)));
    assert_close(figure(&mut port, start + ms(201), "input_bps"), 0.0);
    assert_eq!(port.next_timeout(), None);
}

#[test]
fn a_round_trip_that_is_unknown_or_too_long_does_not_count_and_gets_nothing() {
    for (spec, strange) in [
        ("xcp", Duration::ZERO),
        ("xcp", ms(8400)),
        ("xcp:rtt_max_ms=60", ms(61)),
    ] {
        let start = epoch();
        let mut port = port(start, spec);
        port.enqueue(start, xcp(strange, 10_000));
        port.enqueue(start, xcp(ms(55), 10_000));
        assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 55.0);
        while port.dequeue(start + ms(50)).is_some() {}
        port.enqueue(start + ms(60), xcp(strange, 10_000));
        assert_eq!(given(&mut port, start + ms(70)), 0.0);
    }
    let start = epoch();
    let mut port = port(start, "xcp");
    port.enqueue(start, xcp(Duration::from_micros(100), 10_000));
    // A short one counts, but intervals do not get shorter than a millisecond.
    assert_close(figure(&mut port, start + ms(50), "rtt_ms"), 1.0);
}

#[test]
fn a_window_below_the_packet_is_one_packet() {
    let bytes = repr(ms(50), 3).emit();
    let view = PathHeaderView::parse(&bytes).unwrap();
    let told = Told::by(&view, 1000, PARAMS.rtts.max).unwrap();
    assert_close(told.window, 1000.0);
    assert_close(told.spacing(), 0.05);
}

#[test]
fn the_persistent_queue_is_the_least_that_arrivals_see_once_the_old_one_is_sent() {
    let start = epoch();
    let mut port = port(start, "xcp");
    for _ in 0..22 {
        port.enqueue(start, xcp(ms(50), 25_000));
    }
    for time in 1..50 {
        port.enqueue(start + ms(time), xcp(ms(50), 25_000));
    }
    // Arrivals see 20, until ten fewer have come. Those that waited at 50 ms are sent by 70 ms.
    for time in (50..60).chain(70..100) {
        port.enqueue(start + ms(time), xcp(ms(50), 25_000));
    }
    assert_close(
        figure(&mut port, start + ms(100), "persistent_queue_bytes"),
        10_000.0,
    );
}

/// What may happen at a link, hostile or not.
#[derive(Debug, Clone)]
enum Event {
    Arrival(u32, u64),
    Departure(u32, i64),
    Rate(Option<u64>),
}

fn event() -> impl Strategy<Value = (u64, Duration, u64, Event)> {
    let rtt = prop_oneof![1 => Just(0), 3 => 1u64..200_000, 1 => 0u64..200_000_000];
    let queued = prop_oneof![Just(0), 0u64..100_000, 0u64..1 << 50];
    let bytes = || prop_oneof![20u32..1500, any::<u32>()];
    let rate = prop_oneof![1u64..1000, 1u64..1_000_000_000, 1u64..=u64::MAX];
    let event = prop_oneof![
        6 => (bytes(), queued).prop_map(|(bytes, queued)| Event::Arrival(bytes, queued)),
        6 => (bytes(), any::<i64>()).prop_map(|(bytes, asked)| Event::Departure(bytes, asked)),
        1 => prop::option::of(rate).prop_map(Event::Rate),
    ];
    let gap = prop_oneof![0u64..10_000_000, 0u64..1 << 34];
    let window = prop_oneof![0u64..100_000, any::<u64>()];
    (gap, rtt.prop_map(Duration::from_micros), window, event)
}

proptest! {
    #[test]
    fn whatever_comes_all_state_is_finite_and_nobody_gets_more_than_is_left(
        events in vec(event(), 1..200), gamma in 0.0f64..=1.0,
    ) {
        let mut now = epoch();
        let mut xcp = Xcp::new(Params { gamma, ..PARAMS });
        let mut view = idle_view();
        for (gap, rtt, window, event) in events {
            let until = now + Duration::from_nanos(gap);
            while let Some(timer) = xcp.next_timer().filter(|timer| *timer <= until) {
                now = timer;
                xcp.on_timer(now, &view);
                prop_assert!(xcp.next_timer().is_none_or(|next| next > timer));
                let (vars, shares) = (xcp.vars, xcp.shares);
                prop_assert!(vars.feedback.is_finite(), "{vars:?}");
                prop_assert!((ms(1)..=PARAMS.rtts.max).contains(&vars.rtt), "{vars:?}");
                for value in [
                    vars.input, vars.queue, vars.shuffled,
                    shares.xi_p, shares.xi_n, shares.positive, shares.negative,
                ] {
                    prop_assert!(value.is_finite() && value >= 0.0, "{vars:?} {shares:?}");
                }
            }
            now = until;
            let mut repr = repr(rtt, window);
            match event {
                Event::Rate(bits_per_second) => view.rate = bits_per_second.and_then(Rate::new),
                Event::Arrival(bytes, queued) => {
                    view.queued = Amount { packets: queued / 100, bytes: queued };
                    let header = repr.emit();
                    let header = Some(PathHeaderView::parse(&header).unwrap());
                    xcp.on_arrival(now, &Arrival { bytes, header, flow: None }, &view);
                    prop_assert!(xcp.next_timer().is_some() || view.rate.is_none());
                }
                Event::Departure(size, asked) => {
                    let asked = WindowChange::from_256ths(asked);
                    repr.signals.feedback = asked.into();
                    let mut header = repr.emit();
                    let header = PathHeaderMut::parse(&mut header).unwrap();
                    let mut departure = Departure { bytes: size, header, queued: ms(1), leaving_ttl: 9 };
                    let before = xcp.shares;
                    xcp.on_departure(now, &mut departure, &view);
                    let signals = departure.header.view().signals();
                    prop_assert_eq!(signals.flags.offered, view.rate.is_some());
                    let change = signals.feedback.window_change();
                    prop_assert!(change <= asked);
                    if view.rate.is_some() {
                        // A code is at most 1/2048 off.
                        let most = before.positive * rtt.as_secs_f64() * (1.0 + 1.0 / 1024.0) + 1.0;
                        prop_assert!(change.in_256ths() as f64 / 256.0 <= most);
                    }
                    for (value, before) in [
                        (xcp.shares.positive, before.positive), (xcp.shares.negative, before.negative),
                    ] {
                        prop_assert!((0.0..=before).contains(&value));
                    }
                }
            }
        }
    }
}
