//! Path headers around handshakes and new addresses: none before the keys are there, none to an
//! address that is not validated.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::{Context, HeaderState};
use quinn::TransportConfig;

use super::pair::{HEADED, Pair, reno, seconds};
use super::support::{Departure, Host, Net, client_tls, flood, identity, server_tls};

/// UDP payload of a full-size packet before any search.
const FIRST_MTU: usize = 1200;

#[test]
fn early_data_carries_no_headers_and_the_resumed_connection_has_keys_of_its_own() {
    let mut pair = Pair::new(HEADED, HEADED);
    pair.run(seconds(1));
    assert_eq!(pair.headers()[0].0, HeaderState::Confirmed);
    let server = pair.connection().remote_address();
    pair.connection().close(0_u32.into(), b"again");
    pair.run(seconds(5));
    pair.client_socket.take();

    let connecting = pair
        .client
        .connect(server, "localhost")
        .expect("a right configuration");
    let Ok((connection, accepted)) = connecting.into_0rtt() else {
        panic!("the server has given a ticket")
    };
    let early = Arc::new(Mutex::new(None));
    let slot = early.clone();
    pair.net.spawn(async move {
        *slot.lock().expect("no test panics in here") = Some(accepted.await);
    });
    pair.net.spawn(flood(connection.clone()));
    // The server's answer takes 40 ms.
    pair.run(Duration::from_millis(39));
    let left = pair.client_socket.take();
    assert!(left.len() > 5, "{} datagrams of early data", left.len());
    assert!(left.iter().all(|departure| !departure.headed));
    pair.run(seconds(1));
    assert_eq!(*early.lock().expect("no test panics in here"), Some(true));
    let context = Context::of(&connection).expect("an evenkeel configuration");
    let (state, counters) = context.path_headers().expect("both take headers");
    assert_eq!((state, counters.forged), (HeaderState::Confirmed, 0));
    assert!(counters.echoes > 100, "{counters:?}");
}

#[test]
fn a_server_sends_no_header_before_the_clients_address_is_validated() {
    let mut net = Net::new(10_000_000, 10.0);
    let identity = identity();
    let evenkeel = evenkeel::EndpointBuilder::new().path_headers(1);
    let transport = || evenkeel.transport(TransportConfig::default(), reno());
    let server_socket = net.socket(Host::Receiver);
    let server_config = evenkeel
        .server_config(server_tls(&identity), transport())
        .expect("a right configuration");
    let server = evenkeel
        .bind_abstract(
            net.endpoint_config(),
            Some(server_config),
            server_socket.clone(),
            net.runtime(),
        )
        .expect("a bound socket");
    let address = server.local_addr().expect("a bound socket");
    let contexts = Arc::new(Mutex::new(None));
    let slot = contexts.clone();
    net.spawn(async move {
        let incoming = server.accept().await.expect("the endpoint stays open");
        let connecting = incoming.accept().expect("a right configuration");
        // Data behind the server's first flight: quinn calls it 0.5-RTT.
        let Ok((connection, _)) = connecting.into_0rtt() else {
            panic!("a server may always")
        };
        *slot.lock().expect("no test panics in here") = Context::of(&connection);
        flood(connection).await;
    });

    let client_socket = net.socket(Host::Sender);
    let mut client = evenkeel
        .bind_abstract(
            net.endpoint_config(),
            None,
            client_socket.clone(),
            net.runtime(),
        )
        .expect("a bound socket");
    let client_config = evenkeel
        .client_config(client_tls(&identity), transport())
        .expect("a right configuration");
    client.set_default_client_config(client_config);
    // The client's first datagram arrives, and nothing else of it for a second.
    let (mut first, mut arrived) = (true, 0);
    let received = Arc::new(Mutex::new(0));
    let counter = received.clone();
    client_socket.interfere(move |datagram| {
        if !std::mem::take(&mut first) {
            return Vec::new();
        }
        arrived += datagram.len();
        *counter.lock().expect("no test panics in here") = arrived;
        vec![datagram.to_vec()]
    });
    let connecting = client
        .connect(address, "localhost")
        .expect("a right configuration");
    net.spawn(async move {
        let connection = connecting.await.expect("it is only delayed");
        connection.closed().await;
    });
    net.run_for(seconds(1));
    let left = server_socket.take();
    let received = *received.lock().expect("no test panics in here");
    assert!(left.iter().all(|departure| !departure.headed));
    let bytes: usize = left.iter().map(|departure| departure.bytes).sum();
    // Data is among it, and the limit is reached; quinn lets the last datagram exceed it.
    assert!(bytes > 2 * received, "{bytes} of {received} bytes");
    assert!(
        bytes < 3 * received + FIRST_MTU,
        "{bytes} of {received} bytes"
    );
    // The rest of the handshake, and headers.
    client_socket.interfere(|datagram| vec![datagram.to_vec()]);
    net.run_for(seconds(5));
    let context = contexts.lock().expect("no test panics in here").clone();
    let headers = context.expect("an evenkeel configuration").path_headers();
    let (state, counters) = headers.expect("both take headers");
    assert_eq!(state, HeaderState::Confirmed);
    assert!(counters.echoes > 100, "{counters:?}");
    assert!(
        server_socket
            .take()
            .iter()
            .any(|departure| departure.headed)
    );
}

#[test]
fn no_header_goes_to_a_new_address_before_it_is_validated() {
    let mut pair = Pair::new(HEADED, HEADED);
    pair.run(seconds(2));
    for host in [Host::Router, Host::Sender] {
        pair.server_socket.take();
        let socket = pair.net.socket(host);
        let wrapped = pair.client_side.wrap_socket(socket, pair.net.runtime());
        pair.client
            .rebind_abstract(wrapped)
            .expect("a bound socket");
        pair.run(seconds(2));
        let left = pair.server_socket.take();
        let bare = |departure: &&Departure| !departure.headed;
        let before = left.iter().take_while(|departure| departure.headed).count();
        let unvalidated: Vec<_> = left.iter().skip(before).take_while(bare).collect();
        // ACKs for a round trip at least.
        assert!(unvalidated.len() > 5, "{} datagrams", unvalidated.len());
        let (first, last) = (unvalidated[0], unvalidated[unvalidated.len() - 1]);
        let validation = last.at - first.at;
        let round_trip = if host == Host::Router { 20 } else { 39 };
        assert!(
            validation >= Duration::from_millis(round_trip),
            "{validation:?}"
        );
        let later = &left[before + unvalidated.len()..];
        assert!(later.iter().filter(|departure| departure.headed).count() > 100);
        assert_eq!(pair.headers()[1].0, HeaderState::Confirmed);
    }
}

#[test]
fn headers_of_kind_0_are_sent_and_change_nothing_and_runs_repeat() {
    let run = || {
        let mut pair = Pair::new(HEADED, HEADED);
        pair.run(seconds(1));
        let before = pair.received();
        pair.client_socket.take();
        pair.run(seconds(20));
        let left = pair.client_socket.take();
        let [(client, sent), (server, answered)] = pair.headers();
        assert_eq!([client, server], [HeaderState::Confirmed; 2]);
        assert_eq!((sent.forged, answered.forged), (0, 0));
        assert_eq!((sent.old, answered.old), (0, 0));
        let start = left[0].at;
        let lengths: Vec<_> = left
            .iter()
            .map(|departure| (departure.at - start, departure.bytes))
            .collect();
        (pair.received() - before, sent.greased, lengths)
    };
    let (bytes, greased, lengths) = run();
    assert!(bytes > 20_000_000, "{bytes}");
    // One in 256 of those that bring no echo: every second of 17,000.
    assert!((10..=60).contains(&greased), "{greased}");
    let again = run();
    assert_eq!((bytes, greased), (again.0, again.1));
    assert!(lengths == again.2, "another run, other datagrams");
}
