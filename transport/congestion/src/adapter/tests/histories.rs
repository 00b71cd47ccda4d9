//! Checks properties that hold in every history of a connection.

use proptest::prelude::*;
use quinn_proto::congestion::Controller as _;

use super::*;
use crate::controller::Grant;
use crate::window::InitialWindow;

/// The rows that run a controller of ours.
const OURS: [&str; 18] = [
    "reno",
    "gaimd:alpha=2,beta=0.7",
    "smooth-aimd",
    "vegas",
    "vegas8:inc=8",
    "ada-vegas:relapse=false",
    "ada-vegas:relapse=true",
    "ro-vegas",
    "ro-vegas:probes=8,inc=8",
    "acp",
    "acp:fallback=reno,iw=10",
    "xcp",
    "rcp",
    "abgd",
    "a-aimd",
    "a-aimd:schedule=A",
    "tfrc",
    "tfrc:damping=false,discounting=false",
];

/// The smallest window of `spec`, in packets: one or two.
fn least_packets(spec: &str) -> u64 {
    if ["acp", "xcp", "rcp"].contains(&spec) {
        1
    } else {
        2
    }
}

fn told() -> impl Strategy<Value = PathSample> {
    let grant = prop_oneof![
        Just(None),
        prop_oneof![Just(1), Just(u64::MAX), 1_u64..10_000_000]
            .prop_map(|rate| Some(Grant::Rate(rate))),
        prop_oneof![Just(i64::MIN), Just(i64::MAX), -1_000_000_i64..1_000_000]
            .prop_map(|change| Some(Grant::WindowChange(change))),
    ];
    let queueing = || prop::option::of(0_u64..600);
    (
        0_u64..600,
        queueing(),
        queueing(),
        any::<[bool; 2]>(),
        grant,
        prop::option::of(any::<u32>()),
    )
        .prop_map(
            |(rtt, forward, backward, [complete, congested], grant, flows)| PathSample {
                now: epoch(),
                rtt: ms(rtt),
                forward_queueing: forward.map(ms),
                backward_queueing: backward.map(ms),
                complete,
                grant,
                congested,
                flows,
            },
        )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => prop_oneof![Just(0_u64), 1_u64..200].prop_map(Op::Wait),
        4 => (1_usize..40).prop_map(Op::Send),
        6 => (prop_oneof![4 => Just(0_usize), 1 => 1_usize..5], 1_usize..20, prop::bool::weighted(0.2))
            .prop_map(|(skip, count, app_limited)| Op::Ack { skip, count, app_limited }),
        1 => (1_usize..10, prop::bool::weighted(0.2)).prop_map(|(count, persistent)| Op::Lose { count, persistent }),
        1 => Just(Op::Mark),
        1 => (1200_u16..9000).prop_map(Op::Mtu),
        1 => Just(Op::Retry),
        4 => told().prop_map(Op::Tell),
    ]
}

proptest! {
    #[test]
    fn no_history_breaks_the_bounds_of_a_window(
        spec in prop::sample::select(&OURS[..]),
        ops in prop::collection::vec(op(), 1..300),
    ) {
        let t0 = epoch();
        let mut connection = Connection::new(built(spec, t0), t0);
        // Losses allow an initial window whatever the controller begins with.
        let mut most = connection.adapter.path.controller.window().max(InitialWindow::Rfc9002.bytes(MTU));
        let mut recovery_start = None;
        for op in &ops {
            let before = connection.adapter.path.controller.window();
            let acked = connection.acked;
            let oldest = connection.sent.front().map(|(sent, _)| *sent);
            let in_recovery = |sent: Option<Instant>| sent.is_some() && sent <= recovery_start;
            let newest_in_recovery = in_recovery(connection.sent.back().map(|(sent, _)| *sent));
            let last_lost = match op {
                Op::Lose { count, .. } => connection.sent.iter().take(*count).next_back().map(|(sent, _)| *sent),
                Op::Mark => oldest,
                _ => None,
            };
            connection.run(op);
            let after = connection.adapter.path.controller.window();
            let mtu = u64::from(connection.mtu);
            prop_assert!(after >= least_packets(spec) * mtu, "{after} is below its least");
            prop_assert_eq!(connection.adapter.window(), after + 1);
            // Slow start adds what was acknowledged, a round at most eight packets.
            most = (most + connection.acked - acked + 8 * mtu).max(2 * mtu);
            prop_assert!(after <= most, "{after} is more than {most}");
            // Vegas and Reno take over from a window of one packet with two.
            let allowed = before.max(2 * mtu);
            match op {
                Op::Lose { persistent, .. } => {
                    prop_assert!(after <= allowed, "{before} rose to {after} on a loss");
                    if *persistent && last_lost.is_some() {
                        prop_assert!(after <= 2 * mtu, "{after} is above the least window");
                    } else if in_recovery(last_lost) {
                        prop_assert_eq!(after, before, "a second reduction in one recovery period");
                    }
                }
                Op::Mark => {
                    prop_assert!(after <= allowed, "{before} rose to {after} on a mark");
                    if in_recovery(last_lost) {
                        prop_assert_eq!(after, before, "a second reduction in one recovery period");
                    }
                }
                Op::Ack { .. } if newest_in_recovery => {
                    prop_assert!(after <= allowed, "{before} rose to {after} in recovery");
                }
                Op::Ack { .. } | Op::Mtu(_) => {}
                Op::Wait(_) | Op::Send(_) | Op::Retry | Op::Tell(_) => prop_assert_eq!(after, before),
            }
            if last_lost.is_some() && !in_recovery(last_lost) {
                recovery_start = Some(connection.now);
            }
        }
    }

    #[test]
    fn rounds_hold_every_byte_once(ops in prop::collection::vec(op(), 1..300)) {
        let t0 = epoch();
        let (adapter, told) = recorded(t0, 40 * 9000);
        let mut connection = Connection::new(adapter, t0);
        for op in &ops {
            connection.run(op);
        }
        // One more round trip ends the last round, once another confirms it.
        connection.run(&Op::Wait(1));
        connection.sent.clear();
        for _ in 0..2 {
            connection.run(&Op::Send(1));
            connection.run(&Op::Wait(1));
            connection.run(&Op::Ack { skip: 0, count: 1, app_limited: false });
        }
        let (mut acked, mut lost, mut in_rounds) = (0, 0, (0, 0));
        for told in heard(&told) {
            match told {
                Told::Ack(ack) => acked += ack.bytes,
                Told::Congestion(event) => lost += event.lost,
                Told::Round(round) => {
                    prop_assert!(round.rtt_min <= round.rtt_end);
                    in_rounds.0 += round.bytes;
                    in_rounds.1 += round.lost;
                }
                Told::Persistent | Told::Path(_) | Told::Overhead(_) => {}
            }
        }
        prop_assert_eq!(in_rounds.0, acked);
        prop_assert!(in_rounds.1 >= lost, "losses in recovery count too");
    }

    #[test]
    fn senseless_times_break_nothing(
        spec in prop::sample::select(&OURS[..]),
        calls in prop::collection::vec((0_u8..4, 0_u64..100, 0_u64..100, 0_u64..100_000, any::<bool>()), 1..200),
    ) {
        let t0 = epoch();
        let mut adapter = built(spec, t0);
        for (call, now, sent, bytes, flag) in calls {
            let (now, sent) = (t0 + ms(now), t0 + ms(sent));
            match call {
                0 => adapter.path.on_packet_acked(now, sent, bytes),
                1 => adapter.on_end_acks(now, bytes, flag, None),
                2 => adapter.on_congestion_event(now, sent, flag, bytes),
                _ => adapter.on_sent(now, bytes, 0),
            }
            prop_assert!(adapter.window() > least_packets(spec) * PACKET);
        }
    }
}
