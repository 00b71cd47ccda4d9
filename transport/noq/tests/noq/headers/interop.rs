//! Which stacks agree on headers with each other, and the samples that follow.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_noq::HeaderState;

use super::ends::{Connection, Deaf, Kind, Pair};
use super::support::{Host, Net};

/// All pairs with headers and noq at one end at least.
const AGREE: [(Kind, Kind); 6] = [
    (Kind::Noq, Kind::Noq),
    (Kind::Noq, Kind::Quinn),
    (Kind::Quinn, Kind::Noq),
    (Kind::Noq, Kind::QuinnAnswers),
    (Kind::Quinn, Kind::NoqAnswers),
    (Kind::Noq, Kind::NoqAnswers),
];

#[test]
fn noq_and_quinn_agree_on_headers_in_either_role_and_hear_the_routers() {
    for (client, server) in AGREE {
        let mut pair = Pair::new(client, server, "reno");
        // 40 ms each: handshake, a probe and its echo.
        pair.run(0.2);
        let states = pair.headers().map(|(state, _)| state);
        assert_eq!(
            states,
            [HeaderState::Confirmed; 2],
            "{client:?}, {server:?}"
        );
        pair.client_socket.take();
        pair.run(5.0);
        let left = pair.client_socket.take();
        assert!(left.len() > 2000, "{client:?}, {server:?}: {}", left.len());
        assert!(left.iter().all(|departure| departure.headed), "{client:?}");
        let answers = pair.server_socket.take();
        assert!(answers.iter().any(|departure| departure.headed));
        for (_, counters) in pair.headers() {
            assert!(
                counters.echoes > 100,
                "{client:?}, {server:?}: {counters:?}"
            );
            let wrong = (counters.forged, counters.old, counters.unusable_echoes);
            assert_eq!(wrong, (0, 0, 0), "{client:?}, {server:?}");
        }
        let [near, far] = pair.ends();
        let sample = near.sample().expect("5 s of them");
        // Reno fills the queue, of 50 packets or 59 ms at most.
        let queueing = sample.forward_queueing.expect("every link stamps");
        assert!(queueing > Duration::from_millis(1), "{sample:?}");
        assert!(queueing < Duration::from_millis(70), "{sample:?}");
        assert!(sample.complete, "{client:?}, {server:?}: {sample:?}");
        assert!((40..120).contains(&sample.rtt.as_millis()), "{sample:?}");
        assert!(far.sample().is_some());
        assert!(pair.received() > 4_500_000, "{}", pair.received());
    }
}

#[test]
fn peers_that_know_nothing_of_headers_are_served_without_them() {
    for (client, server) in [
        (Kind::Noq, Kind::PlainNoq),
        (Kind::PlainNoq, Kind::Noq),
        (Kind::Noq, Kind::PlainQuinn),
        (Kind::PlainQuinn, Kind::Noq),
        (Kind::Quinn, Kind::PlainNoq),
        (Kind::PlainNoq, Kind::Quinn),
    ] {
        let mut pair = Pair::new(client, server, "ro-vegas");
        pair.run(5.0);
        assert!(pair.received() > 3_000_000, "{client:?} to {server:?}");
        let left = [pair.client_socket.take(), pair.server_socket.take()].concat();
        assert!(left.iter().all(|departure| !departure.headed));
        for end in pair.ends() {
            assert_eq!(end.headers(), None, "{client:?} to {server:?}");
        }
    }
}

#[test]
fn where_both_ends_offer_several_paths_they_do_without_headers() {
    for (client, server, agree) in [
        (Kind::NoqWithPaths, Kind::NoqWithPaths, false),
        (Kind::NoqWithPaths, Kind::Noq, true),
        (Kind::Noq, Kind::NoqWithPaths, true),
        (Kind::NoqWithPaths, Kind::Quinn, true),
        (Kind::Quinn, Kind::NoqWithPaths, true),
    ] {
        let mut pair = Pair::new(client, server, "ro-vegas");
        pair.run(3.0);
        assert!(pair.received() > 1_500_000, "{client:?} to {server:?}");
        for end in pair.ends() {
            let state = end.headers().map(|(state, _)| state);
            let expected = agree.then_some(HeaderState::Confirmed);
            assert_eq!(state, expected, "{client:?} to {server:?}");
        }
    }
}

#[test]
fn a_path_that_eats_headers_costs_no_more_than_these() {
    for (client, server) in [(Kind::Noq, Kind::Noq), (Kind::Noq, Kind::Quinn)] {
        let mut pair = Pair::new(client, server, "reno");
        pair.client_socket.interfere(|datagram| {
            let headed = datagram.starts_with(&evenkeel_wire::PATH_HEADER_MAGIC);
            if headed {
                vec![]
            } else {
                vec![datagram.to_vec()]
            }
        });
        pair.run(7.0);
        let [(state, counters), _] = pair.headers();
        assert_eq!(state, HeaderState::Plain, "{client:?} to {server:?}");
        assert!(counters.sent < 40, "{counters:?}");
        assert!(pair.received() > 6_000_000, "{}", pair.received());
    }
}

#[test]
fn rebinding_and_migration_under_load_confirm_headers_again() {
    for server in [Kind::Quinn, Kind::Noq] {
        let mut pair = Pair::new(Kind::Noq, server, "reno");
        pair.run(2.0);
        // Another port, another address, and back.
        for host in [Host::Sender, Host::Router, Host::Sender] {
            let before = pair.headers().map(|(_, counters)| counters.echoes);
            let received = pair.received();
            let socket = pair.rebind(host);
            pair.run(5.0);
            let went = pair.received() - received;
            assert!(went > 3_000_000, "{server:?}, {host:?}: {went} bytes");
            socket.take();
            pair.run(1.0);
            let left = socket.take();
            assert!(left.len() > 100, "{server:?}, {host:?}");
            assert!(left.iter().all(|one| one.headed), "{server:?}, {host:?}");
            for ((state, counters), before) in pair.headers().into_iter().zip(before) {
                assert_eq!(state, HeaderState::Confirmed, "{server:?}, {host:?}");
                assert!(counters.echoes > before + 500, "{host:?}: {counters:?}");
                assert_eq!(counters.forged, 0, "{server:?}, {host:?}");
            }
        }
    }
}

#[test]
fn the_mtu_that_noq_finds_leaves_room_for_a_header() {
    for (mtu, least) in [(1280, 1200), (1400, 1320), (1500, 1420)] {
        let net = Net::with_mtu(10_000_000, 10.0, mtu);
        let mut pair = Pair::on(net, Kind::Noq, Kind::Noq, "reno", Arc::new(Deaf));
        pair.run(10.0);
        let [Connection::Noq(connection), _] = pair.ends() else {
            panic!("it is on noq")
        };
        let stats = connection.path_stats(noq::PathId::ZERO);
        let found = stats.expect("the path is there").current_mtu;
        // IPv4, UDP and the header take 60 bytes; noq searches to within 20.
        assert!((least..=mtu - 60).contains(&found), "{found} at {mtu}");
        pair.client_socket.take();
        pair.run(1.0);
        let left = pair.client_socket.take();
        assert!(left.len() > 500, "{} datagrams at {mtu}", left.len());
        let fits = |bytes| bytes <= usize::from(mtu) - 28;
        assert!(left.iter().all(|one| one.headed && fits(one.bytes)));
    }
}

#[test]
fn every_datagram_of_a_batch_for_segmentation_offload_carries_a_header() {
    let net = Net::new(1_000_000_000, 5.0);
    let mut pair = Pair::on(net, Kind::Noq, Kind::Quinn, "reno", Arc::new(Deaf));
    pair.run(0.5);
    pair.client_socket.take();
    pair.run(0.5);
    let left = pair.client_socket.take();
    assert!(left.iter().all(|departure| departure.headed));
    // Most ACKs let go of two packets.
    let batched = left.iter().filter(|departure| departure.batch >= 5).count();
    assert!(batched >= 5, "{batched} of {}", left.len());
    assert!(pair.received() > 5_000_000, "{}", pair.received());
}

#[test]
fn applications_get_noqs_own_data_of_the_handshake() {
    let mut pair = Pair::new(Kind::Noq, Kind::Noq, "reno");
    pair.run(1.0);
    let data = pair.ends().map(|end| {
        let Connection::Noq(connection) = end else {
            panic!("it is on noq")
        };
        let data = connection.handshake_data().expect("a handshake");
        let data = data.downcast::<noq::crypto::rustls::HandshakeData>();
        data.expect("noq's type")
    });
    for data in &data {
        assert_eq!(data.protocol.as_deref(), Some(&b"flood"[..]));
        assert!(data.negotiated_key_exchange_group.is_some());
    }
    let [client, server] = data;
    assert_eq!(client.server_name, None);
    assert_eq!(server.server_name.as_deref(), Some("localhost"));
}
