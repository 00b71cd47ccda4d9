//! noq endpoints on real sockets of this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use evenkeel_noq::{AckReport, HeaderState, Observer, controller, observed};
use noq::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rcgen::generate_simple_self_signed;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

const BYTES: usize = 2_000_000;

const HERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Counts what a server's controllers hear.
#[derive(Default)]
struct Heard {
    acked: AtomicU64,
    window: AtomicU64,
}

impl Observer for Heard {
    fn on_acks(&self, report: &AckReport) {
        self.acked.fetch_add(report.acked, Ordering::Relaxed);
        self.window.store(report.window, Ordering::Relaxed);
    }
}

/// What a server proves its name with, and what its clients trust.
struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    roots: RootCertStore,
}

impl Identity {
    fn new() -> Self {
        let identity = generate_simple_self_signed(["localhost".to_owned()]).expect("a name");
        let certificate = identity.cert.der().clone();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("well formed");
        let key = PrivatePkcs8KeyDer::from(identity.signing_key.serialize_der());
        Self {
            certificate,
            key: PrivateKeyDer::Pkcs8(key),
            roots,
        }
    }
}

/// A client fetches from a server whose controller is `spec`.
async fn fetch(spec: &str) -> (usize, Arc<Heard>) {
    let heard = Arc::<Heard>::default();
    let mut transport = TransportConfig::default();
    let factory = controller(spec).expect("a name of the table");
    transport.congestion_controller_factory(observed(factory, heard.clone()));
    let identity = Identity::new();
    let chain = vec![identity.certificate];
    let config = ServerConfig::with_single_cert(chain, identity.key);
    let mut config = config.expect("the key is the certificate's");
    config.transport_config(Arc::new(transport));
    let server = Endpoint::server(config, HERE).expect("a socket");
    let address = server.local_addr().expect("it is bound");
    let serving = tokio::spawn(async move {
        let incoming = server.accept().await.expect("a client comes");
        let connection = incoming.await.expect("the handshake succeeds");
        let mut stream = connection.open_uni().await.expect("a stream");
        stream.write_all(&vec![7; BYTES]).await.expect("it is read");
        stream.finish().expect("it is open");
        connection.closed().await;
    });

    let config = ClientConfig::with_root_certificates(Arc::new(identity.roots)).expect("a root");
    let client = Endpoint::client(HERE).expect("a socket");
    let connecting = client.connect_with(config, address, "localhost");
    let connection = connecting
        .expect("a right configuration")
        .await
        .expect("it answers");
    let mut stream = connection.accept_uni().await.expect("a stream");
    let received = stream.read_to_end(BYTES).await.expect("all of it");
    connection.close(VarInt::from_u32(0), b"");
    client.wait_idle().await;
    serving.await.expect("the server does not panic");
    (received.len(), heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_noq_sends_with_controllers_of_the_table_and_noqs_own() {
    for spec in [
        "keel",
        "vegas:alpha=3,beta=6",
        "reno",
        "rcp",
        "cubic",
        "bbr",
    ] {
        let (received, heard) = fetch(spec).await;
        assert_eq!(received, BYTES, "{spec}");
        let acked = heard.acked.load(Ordering::Relaxed);
        assert!(acked > BYTES as u64 / 2, "{spec}: {acked}");
        assert!(heard.window.load(Ordering::Relaxed) >= 1200, "{spec}");
    }
}

/// Both ends send all of `BYTES`, on a stream that the client opens.
macro_rules! exchange {
    ($connection:expr, $accepts:expr) => {{
        let streams = if $accepts {
            $connection.accept_bi().await
        } else {
            $connection.open_bi().await
        };
        let (mut send, mut receive) = streams.expect("a stream");
        let sends = async {
            send.write_all(&vec![7; BYTES]).await.expect("it is read");
            send.finish().expect("it is open");
            // Until the peer has it, or has closed the connection because it has.
            let _ = send.stopped().await;
        };
        let (received, ()) = tokio::join!(receive.read_to_end(BYTES), sends);
        received.expect("all of it").len()
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn a_noq_client_and_a_server_of_ours_that_offers_path_headers_do_without_them() {
    let identity = Identity::new();
    let tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate], identity.key)
        .expect("the key is the certificate's");
    let server = evenkeel::server(HERE, tls, "ro-vegas").expect("a socket");
    let address = server.local_addr().expect("it is bound");
    let serving = tokio::spawn(async move {
        let incoming = server.accept().await.expect("a client comes");
        let connection = incoming.await.expect("the handshake succeeds");
        let received = exchange!(connection, true);
        connection.closed().await;
        received
    });
    let config = ClientConfig::with_root_certificates(Arc::new(identity.roots));
    let mut config = config.expect("a root");
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(controller("keel").expect("a name"));
    config.transport_config(Arc::new(transport));
    let client = Endpoint::client(HERE).expect("a socket");
    let connecting = client.connect_with(config, address, "localhost");
    let connection = connecting.expect("a right configuration").await;
    let connection = connection.expect("it answers");
    assert_eq!(exchange!(connection, false), BYTES);
    connection.close(VarInt::from_u32(0), b"");
    client.wait_idle().await;
    assert_eq!(serving.await.expect("no panic"), BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_ours_that_offers_path_headers_and_a_noq_server_do_without_them() {
    let identity = Identity::new();
    let config = ServerConfig::with_single_cert(vec![identity.certificate], identity.key);
    let mut config = config.expect("the key is the certificate's");
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(controller("keel").expect("a name"));
    config.transport_config(Arc::new(transport));
    let server = Endpoint::server(config, HERE).expect("a socket");
    let address = server.local_addr().expect("it is bound");
    let serving = tokio::spawn(async move {
        let incoming = server.accept().await.expect("a client comes");
        let connection = incoming.await.expect("the handshake succeeds");
        let received = exchange!(connection, true);
        connection.closed().await;
        received
    });
    let tls = rustls::ClientConfig::builder()
        .with_root_certificates(identity.roots)
        .with_no_client_auth();
    let client = evenkeel::client(HERE, tls, "ro-vegas").expect("a socket");
    let connecting = client.connect(address, "localhost");
    let connection = connecting.expect("a right configuration").await;
    let connection = connection.expect("it answers");
    assert_eq!(exchange!(connection, false), BYTES);
    connection.close(0_u32.into(), b"");
    client.wait_idle().await;
    assert_eq!(serving.await.expect("no panic"), BYTES);
}

/// The configurations of rustls for a server and its clients.
fn tls() -> (rustls::ServerConfig, rustls::ClientConfig) {
    let identity = Identity::new();
    let server = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![identity.certificate], identity.key)
        .expect("the key is the certificate's");
    let client = rustls::ClientConfig::builder()
        .with_root_certificates(identity.roots)
        .with_no_client_auth();
    (server, client)
}

/// A client and a server exchange data, and agree on headers.
macro_rules! agree {
    ($client:expr, $client_context:ident, $server:expr, $server_context:ident) => {{
        let (server_tls, client_tls) = tls();
        let server = $server(HERE, server_tls, "keel").expect("a socket");
        let address = server.local_addr().expect("it is bound");
        let serving = tokio::spawn(async move {
            let incoming = server.accept().await.expect("a client comes");
            let connection = incoming.await.expect("the handshake succeeds");
            let received = exchange!(connection, true);
            let context = $server_context::Context::of(&connection).expect("a context");
            let headers = context.path_headers().expect("both take headers");
            connection.closed().await;
            (received, headers)
        });
        let client = $client(HERE, client_tls, "ro-vegas").expect("a socket");
        let connecting = client.connect(address, "localhost");
        let connection = connecting.expect("a right configuration").await;
        let connection = connection.expect("it answers");
        assert_eq!(exchange!(connection, false), BYTES);
        let context = $client_context::Context::of(&connection).expect("a context");
        let (state, counters) = context.path_headers().expect("both take headers");
        let sample = context.path_sample();
        connection.close(0_u32.into(), b"");
        client.wait_idle().await;
        let (received, (_, theirs)) = serving.await.expect("the server does not panic");
        assert_eq!((received, state), (BYTES, HeaderState::Confirmed));
        // How many depends on the round trip.
        assert!(
            counters.echoes > 0 && theirs.accepted > 0,
            "{counters:?}, {theirs:?}"
        );
        assert_eq!((counters.forged, theirs.forged), (0, 0));
        // No router is on the way.
        assert_eq!(sample.expect("echoes").forward_queueing, None);
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn noq_and_quinn_agree_on_path_headers_in_either_role() {
    agree!(
        evenkeel_noq::client,
        evenkeel_noq,
        evenkeel_noq::server,
        evenkeel_noq
    );
    agree!(
        evenkeel_noq::client,
        evenkeel_noq,
        evenkeel::server,
        evenkeel
    );
    agree!(
        evenkeel::client,
        evenkeel,
        evenkeel_noq::server,
        evenkeel_noq
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_to_prove_its_address_is_served() {
    let (server_tls, client_tls) = tls();
    let server = evenkeel_noq::server(HERE, server_tls, "keel").expect("a socket");
    let address = server.local_addr().expect("it is bound");
    let serving = tokio::spawn(async move {
        let first = server.accept().await.expect("a client comes");
        assert!(!first.remote_address_validated());
        first.retry().expect("it may be asked");
        let second = server.accept().await.expect("it comes again");
        assert!(second.remote_address_validated());
        let connection = second.await.expect("the handshake succeeds");
        let received = exchange!(connection, true);
        connection.closed().await;
        received
    });
    let client = evenkeel_noq::client(HERE, client_tls, "keel").expect("a socket");
    let connecting = client.connect(address, "localhost");
    let connection = connecting.expect("a right configuration").await;
    let connection = connection.expect("it answers");
    assert_eq!(exchange!(connection, false), BYTES);
    connection.close(0_u32.into(), b"");
    client.wait_idle().await;
    assert_eq!(serving.await.expect("no panic"), BYTES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_there_before_sends_at_once() {
    let (mut server_tls, mut client_tls) = tls();
    server_tls.max_early_data_size = u32::MAX;
    client_tls.enable_early_data = true;
    let server = evenkeel_noq::server(HERE, server_tls, "keel").expect("a socket");
    let address = server.local_addr().expect("it is bound");
    let serving = tokio::spawn(async move {
        for _ in 0..2 {
            let incoming = server.accept().await.expect("a client comes");
            let connection = incoming.await.expect("the handshake succeeds");
            assert_eq!(exchange!(connection, true), BYTES);
            connection.closed().await;
        }
    });
    let client = evenkeel_noq::client(HERE, client_tls, "ro-vegas").expect("a socket");
    let connect = || client.connect(address, "localhost").expect("it is right");
    let first = connect().await.expect("it answers");
    assert_eq!(exchange!(first, false), BYTES);
    first.close(0_u32.into(), b"");
    let (connection, accepted) = connect().into_0rtt().expect("it has a ticket");
    assert_eq!(exchange!(connection, false), BYTES);
    assert!(accepted.await);
    let context = evenkeel_noq::Context::of(&connection).expect("a context");
    let (state, _) = context.path_headers().expect("both take headers");
    assert_eq!(state, HeaderState::Confirmed);
    connection.close(0_u32.into(), b"");
    client.wait_idle().await;
    serving.await.expect("no panic");
}
