//! Path headers between shipping endpoints in virtual time, over honest and hostile paths.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::controller::{Congestion, Controller, Feedback};
use evenkeel::{Grant, HeaderState, PathSample};
use evenkeel_wire::{CompactCount, CompactRate};

use super::pair::{HEADED, Kind, Pair, has_header, reno, seconds};
use super::support::{Host, Net, constant, stamped};

/// Length of a path header.
const HEADER: usize = 32;

#[test]
fn headers_are_confirmed_within_two_round_trips_and_tell_the_round_trip() {
    let mut pair = Pair::new(HEADED, HEADED);
    // 40 ms each: handshake, a probe and its echo.
    pair.run(Duration::from_millis(150));
    assert_eq!(
        pair.headers().map(|(state, _)| state),
        [HeaderState::Confirmed; 2]
    );
    pair.client_socket.take();
    pair.run(seconds(5));
    let left = pair.client_socket.take();
    assert!(left.len() > 2000 && left.iter().all(|departure| departure.headed));
    let (client, server) = pair.contexts();
    let client = client.expect("an evenkeel configuration");
    let sample = client.path_sample().expect("5 s of them");
    // 50 packets of queue at most.
    assert!(
        (40..110).contains(&sample.rtt.as_millis()),
        "{:?}",
        sample.rtt
    );
    assert_eq!((sample.forward_queueing, sample.complete), (None, false));
    assert!(
        server
            .expect("an evenkeel configuration")
            .path_sample()
            .is_some()
    );
    for (_, counters) in pair.headers() {
        assert!(counters.echoes > 1000, "{counters:?}");
        assert_eq!(
            (counters.forged, counters.old, counters.unusable_echoes),
            (0, 0, 0)
        );
    }
}

#[test]
fn segmentation_offload_stays_on_with_headers() {
    // 400 Mb/s by the controller's rate; a window's ACKs would let go of two packets at a time.
    let net = Net::new(1_000_000_000, 5.0);
    let mut pair = Pair::on(net, HEADED, HEADED, constant(50_000_000, 10_000_000));
    pair.run(Duration::from_millis(500));
    pair.client_socket.take();
    pair.run(Duration::from_millis(500));
    let left = pair.client_socket.take();
    assert!(left.iter().all(|departure| departure.headed));
    let batched = left.iter().filter(|departure| departure.batch >= 5).count();
    assert!(batched * 2 > left.len(), "{batched} of {}", left.len());
}

#[test]
fn a_share_of_the_datagrams_carries_headers_if_that_is_asked_for() {
    let mut pair = Pair::new(Kind::Evenkeel(8), HEADED);
    pair.run(seconds(1));
    pair.client_socket.take();
    pair.run(seconds(5));
    let left = pair.client_socket.take();
    let share = left.iter().filter(|departure| departure.headed).count() as f64 / left.len() as f64;
    assert!((0.12..=0.15).contains(&share), "{share}");
}

#[test]
fn stock_quinn_in_either_role_sees_no_header() {
    for (client, server) in [
        (Kind::Stock, HEADED),
        (HEADED, Kind::Stock),
        (Kind::Evenkeel(0), HEADED),
        (HEADED, Kind::Evenkeel(0)),
    ] {
        let mut pair = Pair::new(client, server);
        pair.run(seconds(5));
        assert!(pair.received() > 3_000_000, "{client:?} to {server:?}");
        let left = [pair.client_socket.take(), pair.server_socket.take()].concat();
        assert!(left.iter().all(|departure| !departure.headed));
        let (client, server) = pair.contexts();
        for context in [client, server].into_iter().flatten() {
            assert_eq!(context.path_headers(), None);
        }
    }
}

/// Progress in 10 s after 2 s without headers, for comparison.
fn undisturbed() -> u64 {
    let mut pair = Pair::new(Kind::Evenkeel(0), Kind::Evenkeel(0));
    pair.run(seconds(2));
    pair.progress(seconds(10))
}

fn drop_headed(datagram: &[u8]) -> Vec<Vec<u8>> {
    if has_header(datagram) {
        Vec::new()
    } else {
        vec![datagram.to_vec()]
    }
}

#[test]
fn a_path_that_eats_headers_costs_no_more_than_these() {
    let normal = undisturbed();
    for (there, back) in [(true, false), (false, true), (true, true)] {
        let mut pair = Pair::new(HEADED, HEADED);
        if there {
            pair.client_socket.interfere(drop_headed);
        }
        if back {
            pair.server_socket.interfere(drop_headed);
        }
        pair.run(seconds(2));
        let went = pair.progress(seconds(10));
        let [(client, counters), (server, _)] = pair.headers();
        assert_eq!((client, server), (HeaderState::Plain, HeaderState::Plain));
        println!(
            "headers eaten there {there}, back {back}: {} sent, {:.1} % of the undisturbed progress",
            counters.sent,
            100.0 * went as f64 / normal as f64,
        );
        assert!(
            counters.sent < 40,
            "six, and searches for the MTU: {}",
            counters.sent
        );
        assert!(went as f64 > 0.95 * normal as f64, "{went} of {normal}");
    }
}

#[test]
fn to_quic_a_path_that_eats_headers_loses_nothing() {
    // Half of the bottleneck's rate.
    let net = Net::new(10_000_000, 10.0);
    let mut pair = Pair::on(net, HEADED, HEADED, constant(600_000, 100_000));
    pair.client_socket.interfere(drop_headed);
    pair.run(seconds(20));
    assert_eq!(pair.headers()[0].0, HeaderState::Plain);
    assert!(pair.headers()[0].1.sent >= 6);
    assert_eq!(pair.connection().stats().path.lost_packets, 0);
}

#[test]
fn a_path_that_begins_to_eat_headers_half_way_costs_one_halving_of_the_window() {
    let normal = undisturbed();
    for (there, back) in [(true, false), (false, true), (true, true)] {
        let mut pair = Pair::new(HEADED, HEADED);
        pair.run(seconds(2));
        assert_eq!(pair.headers()[0].0, HeaderState::Confirmed);
        let window = |pair: &Pair| pair.contexts().0.expect("evenkeel's").state().window;
        let before = window(&pair);
        if there {
            pair.client_socket.interfere(drop_headed);
        }
        if back {
            pair.server_socket.interfere(drop_headed);
        }
        let went = pair.progress(Duration::from_millis(600));
        let after = window(&pair);
        assert!(after * 5 > before * 2, "{before} to {after} bytes");
        let went = went + pair.progress(Duration::from_millis(9400));
        let [(client, _), (server, _)] = pair.headers();
        println!(
            "headers eaten from now on there {there}, back {back}: {:.1} % of the undisturbed progress",
            100.0 * went as f64 / normal as f64
        );
        assert_eq!((client, server), (HeaderState::Plain, HeaderState::Plain));
        assert!(went as f64 > 0.94 * normal as f64, "{went} of {normal}");
    }
}

#[test]
fn losses_and_lost_acks_are_not_taken_for_a_path_that_eats_headers() {
    let mut pair = Pair::new(HEADED, HEADED);
    pair.run(seconds(1));
    for socket in [&pair.client_socket, &pair.server_socket] {
        let mut count = 0;
        socket.interfere(move |datagram| {
            count += 1;
            if count % 31 == 0 {
                Vec::new()
            } else {
                vec![datagram.to_vec()]
            }
        });
    }
    pair.client_socket.take();
    pair.run(seconds(20));
    let left = pair.client_socket.take();
    let headed = left.iter().filter(|departure| departure.headed).count() as f64;
    let share = headed / left.len() as f64;
    println!("one in 31 lost: {:.2} % carry headers", 100.0 * share);
    assert!(share > 0.97, "{share}");
}

#[test]
fn a_path_that_was_cut_for_a_while_is_confirmed_again_at_once() {
    for outage_ms in [200, 1_000, 5_000] {
        let mut pair = Pair::new(HEADED, HEADED);
        pair.run(seconds(1));
        for socket in [&pair.client_socket, &pair.server_socket] {
            socket.interfere(|_| Vec::new());
        }
        pair.run(Duration::from_millis(outage_ms));
        for socket in [&pair.client_socket, &pair.server_socket] {
            socket.interfere(|datagram| vec![datagram.to_vec()]);
        }
        // quinn tries again after at most as long as the outage has been.
        let mut waited = 0;
        let before = pair.received();
        while pair.received() == before {
            pair.run(Duration::from_millis(10));
            waited += 10;
            assert!(waited < 2 * outage_ms + 500, "{outage_ms} ms");
        }
        // Two round trips, and what is left of the timers.
        pair.run(Duration::from_millis(250));
        let states = pair.headers().map(|(state, _)| state);
        assert_eq!(states, [HeaderState::Confirmed; 2], "{outage_ms} ms");
    }
}

#[test]
fn a_peer_that_agrees_and_never_echoes_gets_no_headers_in_the_end() {
    let normal = undisturbed();
    let mut pair = Pair::new(HEADED, HEADED);
    // It sends its packets without the header that it put on.
    pair.server_socket.interfere(|datagram| {
        vec![if has_header(datagram) {
            datagram[HEADER..].to_vec()
        } else {
            datagram.to_vec()
        }]
    });
    pair.run(seconds(2));
    let went = pair.progress(seconds(10));
    let [(client, counters), _] = pair.headers();
    println!(
        "never an echo: {} sent, {:.1} % of the undisturbed progress",
        counters.sent,
        100.0 * went as f64 / normal as f64
    );
    assert_eq!((client, counters.echoes), (HeaderState::Plain, 0));
    assert!(went as f64 > 0.98 * normal as f64, "{went} of {normal}");
}

#[test]
fn forgeries_are_no_signals_and_do_not_stop_the_packets_behind_them() {
    let normal = undisturbed();
    let mut pair = Pair::new(HEADED, HEADED);
    // Every header arrives with a tag that is not its own.
    pair.client_socket.interfere(|datagram| {
        let mut forged = datagram.to_vec();
        if has_header(datagram) {
            forged[HEADER - 1] ^= 1;
        }
        vec![forged]
    });
    pair.run(seconds(2));
    let went = pair.progress(seconds(10));
    let [(client, _), (_, counters)] = pair.headers();
    assert_eq!((client, counters.accepted), (HeaderState::Plain, 0));
    assert!(counters.forged >= 6, "{counters:?}");
    assert!(went as f64 > 0.98 * normal as f64, "{went} of {normal}");
}

#[test]
fn spoofed_datagrams_change_nothing() {
    let mut pair = Pair::new(HEADED, HEADED);
    pair.run(seconds(1));
    // With each datagram come others from its address: garbage behind the magic, the same header
    // with other fields, two headers, half a header, an older header again.
    let (mut count, mut old) = (0_u8, Vec::new());
    pair.client_socket.interfere(move |datagram| {
        count = count.wrapping_add(1);
        let mut garbage = datagram.to_vec();
        for (at, byte) in garbage.iter_mut().enumerate().skip(4) {
            *byte ^= count.wrapping_mul(at as u8) | 1;
        }
        let mut flipped = datagram[..HEADER.min(datagram.len())].to_vec();
        if let Some(byte) = flipped.get_mut(16 + usize::from(count % 12)) {
            *byte ^= 1 << (count % 8);
        }
        let nested = [&flipped[..], datagram].concat();
        let half = datagram[..17].to_vec();
        let replayed = std::mem::replace(&mut old, datagram.to_vec());
        let mut fates = vec![garbage, flipped, nested, half, datagram.to_vec(), replayed];
        fates.retain(|fate| !fate.is_empty());
        fates
    });
    let [_, (_, before)] = pair.headers();
    let (_, sent_before) = pair.headers()[0];
    pair.run(seconds(5));
    let [(state, sent), (_, after)] = pair.headers();
    assert_eq!(state, HeaderState::Confirmed);
    // Nothing but what was sent, each at most once.
    assert!(after.accepted - before.accepted <= sent.sent - sent_before.sent + 50);
    assert!(after.forged > before.forged + 500, "{after:?}");
    assert!(after.old > before.old + 100, "{after:?}");
    assert_eq!(sent.unusable_echoes, 0);
    assert!(pair.connection().close_reason().is_none());
}

#[test]
fn the_mtu_that_is_found_leaves_room_for_a_header() {
    for (mtu, least) in [(1280, 1200), (1400, 1320), (1500, 1420)] {
        let mut pair = Pair::on(Net::with_mtu(10_000_000, 10.0, mtu), HEADED, HEADED, reno());
        pair.run(seconds(10));
        let (client, _) = pair.contexts();
        let found = client.expect("an evenkeel configuration").state().mtu;
        // IPv4 and UDP take 28 bytes; quinn searches to within 20.
        let room = mtu - 28 - HEADER as u16;
        assert!((least..=room).contains(&found), "{found} of {room} bytes");
        pair.client_socket.take();
        pair.run(seconds(1));
        let left = pair.client_socket.take();
        assert!(
            left.len() > 500,
            "{} datagrams at an MTU of {mtu}",
            left.len()
        );
        assert!(
            left.iter()
                .all(|departure| departure.headed && departure.bytes <= usize::from(mtu) - 28)
        );
    }
}

#[test]
fn migration_and_rebinding_under_load_confirm_headers_again() {
    let mut pair = Pair::new(HEADED, HEADED);
    pair.run(seconds(2));
    for host in [Host::Sender, Host::Router, Host::Sender] {
        let socket = pair.net.socket(host);
        let wrapped = pair
            .client_side
            .wrap_socket(socket.clone(), pair.net.runtime());
        pair.client
            .rebind_abstract(wrapped)
            .expect("a bound socket");
        let before = pair.headers().map(|(_, counters)| counters.echoes);
        let went = pair.progress(seconds(5));
        assert!(went > 3_000_000, "{host:?}: {went} bytes");
        socket.take();
        pair.run(seconds(1));
        assert!(
            socket.take().iter().all(|departure| departure.headed),
            "{host:?}"
        );
        for (now, before) in pair.headers().into_iter().zip(before) {
            assert_eq!(now.0, HeaderState::Confirmed, "{host:?}");
            assert!(now.1.echoes > before + 500, "{host:?}: {:?}", now.1);
            assert_eq!(now.1.forged, 0, "{host:?}");
        }
    }
}

/// The path samples and rounds that a controller was given.
#[derive(Debug, Clone, Default)]
struct Listener {
    samples: Arc<Mutex<Vec<PathSample>>>,
}

impl Controller for Listener {
    fn on_path(&mut self, sample: &PathSample) {
        let mut samples = self.samples.lock().expect("no test panics in here");
        samples.push(sample.clone());
    }
    fn on_congestion(&mut self, _: &Congestion) {}
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        24_000
    }
    fn follows(&self) -> Option<Feedback> {
        Some(Feedback::Acp)
    }
    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

#[test]
fn what_routers_stamp_reaches_the_controller() {
    let listener = Listener::default();
    let samples = listener.samples.clone();
    let factory = evenkeel::controller::adapt(move |_, _| Box::new(listener.clone()));
    let mut pair = Pair::on(Net::new(10_000_000, 10.0), HEADED, HEADED, factory);
    pair.run(seconds(1));
    pair.client_socket.interfere(|datagram| {
        stamped(datagram, |header| {
            // A sender that follows ACP is counted, with its round trip.
            assert!(header.view().rtt().duration() >= Duration::from_millis(40));
            header.add_queueing_time(Duration::from_millis(3));
            header.record_ttl(63);
            header.limit_rate(CompactRate::from_bytes_per_second(500_000));
            header.mark_congested();
            header.raise_contention(CompactCount::from_flows(7));
        })
    });
    pair.server_socket.interfere(|datagram| {
        stamped(datagram, |header| {
            header.add_queueing_time(Duration::from_millis(5));
            header.record_ttl(63);
        })
    });
    pair.run(seconds(1));
    samples.lock().expect("no test panics in here").clear();
    pair.run(seconds(2));
    let samples = samples.lock().expect("no test panics in here");
    assert!(samples.len() > 200, "{} samples", samples.len());
    for sample in &*samples {
        assert_eq!(sample.forward_queueing, Some(Duration::from_millis(3)));
        assert_eq!(sample.backward_queueing, Some(Duration::from_millis(5)));
        let Some(Grant::Rate(rate)) = sample.grant else {
            panic!("{sample:?}")
        };
        // Rates round down by less than 1/2048.
        assert!((499_755..=500_000).contains(&rate), "{rate}");
        assert_eq!(
            (sample.complete, sample.congested, sample.flows),
            (true, true, Some(7))
        );
        assert!(
            (40..60).contains(&sample.rtt.as_millis()),
            "{:?}",
            sample.rtt
        );
    }
}
