//! evenkeel endpoints with themselves and with stock quinn.

use evenkeel::{Context, EndpointBuilder};
use quinn::Connection;
use quinn::rustls::pki_types::CertificateDer;

use crate::support::{
    Identity, LOOPBACK, echoed, echoing, headed_client, headed_server, is_paced_without_headers,
    run, stock_client, stock_server, transport,
};

/// Lets `client` exchange data with `server`, also from another port, and gives both ends of the
/// connection to `check` before it ends.
fn exchange(
    client: fn(&Identity) -> quinn::Endpoint,
    server: fn(&Identity) -> quinn::Endpoint,
    check: fn(&Connection, &Connection),
) {
    run(async move {
        let identity = Identity::new();
        let server = server(&identity);
        let address = server.local_addr().expect("it is bound");
        let mut accepted = echoing(server);
        let client = client(&identity);
        let connecting = client
            .connect(address, "localhost")
            .expect("a right configuration");
        let connection = connecting.await.expect("a handshake");
        echoed(&connection).await;
        client
            .rebind(std::net::UdpSocket::bind(LOOPBACK).expect("a free port"))
            .expect("a bound socket");
        echoed(&connection).await;
        let accepted = accepted.recv().await.expect("it is the server's too");
        headers_are_echoed(&connection, &[&connection, &accepted]).await;
        check(&connection, &accepted);
    });
}

/// Exchanges data over `connection` until each of `watched` that sends headers has had 10 more
/// echoes: on a busy machine data may come back in too few round trips for them.
async fn headers_are_echoed(connection: &Connection, watched: &[&Connection]) {
    let counts = || watched.iter().map(|connection| echoes(connection));
    let before: Vec<_> = counts().collect();
    for _ in 0..20 {
        echoed(connection).await;
        let mut both = counts().zip(&before);
        if both.all(|(now, before)| now >= before.map(|before| before + 10)) {
            return;
        }
    }
    panic!("fewer than 10 headers were echoed in 20 exchanges");
}

/// Returns how many headers of `connection` have been echoed; `None` if it sends none.
fn echoes(connection: &Connection) -> Option<u64> {
    let context = Context::of(connection)?;
    context.path_headers().map(|(_, counters)| counters.echoes)
}

#[test]
fn two_headed_endpoints_exchange_headers() {
    exchange(headed_client, headed_server, |client, server| {
        for connection in [client, server] {
            let context = Context::of(connection).expect("an evenkeel configuration");
            let (_, counters) = context.path_headers().expect("both take headers");
            assert_eq!((counters.forged, counters.clamped), (0, 0));
        }
    });
}

#[test]
fn endpoints_made_in_one_line_use_headers_and_serve_stock_quinn() {
    fn short_client(identity: &Identity) -> quinn::Endpoint {
        evenkeel::client(LOOPBACK, identity.client(), "keel").expect("a right configuration")
    }
    fn short_server(identity: &Identity) -> quinn::Endpoint {
        // It sends without following routers, and answers the headers of those who do.
        evenkeel::server(LOOPBACK, identity.server(), "vegas").expect("a right configuration")
    }
    exchange(short_client, short_server, |client, server| {
        assert!(echoes(client).is_some() && echoes(server).is_some());
    });
    exchange(short_client, stock_server, |_, _| ());
    exchange(stock_client, short_server, |_, _| ());
}

#[test]
fn an_endpoint_that_cannot_be_made_says_why_in_a_line() {
    run(async {
        let identity = Identity::new();
        let with = |address, controller| {
            let made = evenkeel::server(address, identity.server(), controller);
            made.map_err(|error| error.to_string())
        };
        let error = with(LOOPBACK, "kel").expect_err("there is none of this name");
        assert!(error.contains("keel") && !error.contains('\n'), "{error}");
        let first = with(LOOPBACK, "keel").expect("a right configuration");
        let taken = first.local_addr().expect("it is bound");
        let error = with(taken, "keel").expect_err("the port is taken");
        assert!(error.starts_with("cannot open the socket: "), "{error}");
    });
}

#[test]
fn stock_quinn_serves_a_headed_client() {
    exchange(headed_client, stock_server, |client, _| {
        is_paced_without_headers(client);
    });
}

#[test]
fn a_headed_server_serves_stock_quinn() {
    exchange(stock_client, headed_server, |_, server| {
        is_paced_without_headers(server);
    });
}

#[test]
fn data_of_a_resumed_connection_comes_with_its_first_flight() {
    run(async {
        let identity = Identity::new();
        let server = headed_server(&identity);
        let address = server.local_addr().expect("it is bound");
        let _accepted = echoing(server);
        let client = headed_client(&identity);
        let connect = || {
            client
                .connect(address, "localhost")
                .expect("a right configuration")
        };
        assert!(connect().into_0rtt().is_err(), "nothing to resume yet");
        let connection = connect().await.expect("a handshake");
        echoed(&connection).await;
        let (connection, accepted) = connect().into_0rtt().map_err(drop).expect("a ticket");
        echoed(&connection).await;
        assert!(accepted.await);
        // Headers have keys of this connection all the same.
        headers_are_echoed(&connection, &[&connection]).await;
        let context = Context::of(&connection).expect("an evenkeel configuration");
        let (_, counters) = context.path_headers().expect("both take headers");
        assert_eq!(counters.forged, 0);
    });
}

#[test]
fn a_retry_is_believed_from_the_server_alone() {
    run(async {
        let identity = Identity::new();
        let server = headed_server(&identity);
        let address = server.local_addr().expect("it is bound");
        let accepting = tokio::spawn(async move {
            let first = server.accept().await.expect("it is open");
            assert!(!first.remote_address_validated());
            first.retry().map_err(drop).expect("a first attempt");
            let second = server.accept().await.expect("it is open");
            assert!(second.remote_address_validated());
            second.await.expect("a handshake")
        });
        let client = headed_client(&identity);
        let connecting = client
            .connect(address, "localhost")
            .expect("a right configuration");
        let connection = connecting.await.expect("a handshake");
        let accepted = accepting.await.expect("it does not panic");
        assert_eq!(connection.close_reason(), None);
        let data = accepted.handshake_data().expect("it is complete");
        let data = data
            .downcast::<quinn::crypto::rustls::HandshakeData>()
            .expect("as quinn's own");
        assert_eq!(data.protocol.as_deref(), Some(&b"echo"[..]));
        assert_eq!(data.server_name.as_deref(), Some("localhost"));
        let chain = connection.peer_identity().expect("the server's");
        let chain = chain
            .downcast::<Vec<CertificateDer<'_>>>()
            .expect("as quinn's own");
        assert_eq!(*chain, [identity.certificate()]);
    });
}

#[test]
fn configurations_that_quic_cannot_use_are_refused_with_and_without_headers() {
    let identity = Identity::new();
    for endpoint in [
        EndpointBuilder::new(),
        EndpointBuilder::new().path_headers(1),
    ] {
        let mut tls = identity.server();
        tls.max_early_data_size = 1000;
        let error = endpoint
            .server_config(tls, transport(&endpoint))
            .expect_err("RFC 9001, 4.6.1");
        assert!(error.to_string().contains("early data"), "{error}");
    }
}
