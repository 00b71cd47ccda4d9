//! evenkeel endpoints with path headers, on sockets of the operating system, with themselves, with
//! stock quinn and with aioquic.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use evenkeel::{Context, Endpoint, HeaderState};
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Connection, ServerConfig, TransportConfig};

const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a client sends and wants back.
fn payload() -> Vec<u8> {
    (0..3_000_000_u32).map(|i| (i % 251) as u8).collect()
}

struct Identity(rcgen::CertifiedKey<rcgen::KeyPair>);

impl Identity {
    fn new() -> Self {
        Self(rcgen::generate_simple_self_signed(["localhost".into()]).expect("a valid name"))
    }

    fn certificate(&self) -> CertificateDer<'static> {
        self.0.cert.der().clone()
    }

    fn server(&self) -> rustls::ServerConfig {
        let key = PrivatePkcs8KeyDer::from(self.0.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate()], key.into())
            .expect("the key is the certificate's");
        tls.alpn_protocols = vec![b"echo".to_vec()];
        tls
    }

    fn client(&self) -> rustls::ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate())
            .expect("a well-formed certificate");
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"echo".to_vec()];
        tls
    }
}

fn transport(endpoint: &Endpoint) -> Arc<TransportConfig> {
    let controller = evenkeel::controller("reno").expect("a name of the table");
    endpoint.transport(TransportConfig::default(), controller)
}

fn stock_server(identity: &Identity) -> quinn::Endpoint {
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(identity.server());
    let config = ServerConfig::with_crypto(Arc::new(crypto.expect("the default provider")));
    quinn::Endpoint::server(config, LOOPBACK).expect("a free port")
}

fn stock_client(identity: &Identity) -> quinn::Endpoint {
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(identity.client());
    let config = ClientConfig::new(Arc::new(crypto.expect("the default provider")));
    let mut endpoint = quinn::Endpoint::client(LOOPBACK).expect("a free port");
    endpoint.set_default_client_config(config);
    endpoint
}

fn headed_server(identity: &Identity) -> quinn::Endpoint {
    let evenkeel = Endpoint::new().path_headers(1);
    let config = evenkeel.server_config(identity.server(), transport(&evenkeel));
    let config = config.expect("the default provider");
    evenkeel.bind(LOOPBACK, Some(config)).expect("a free port")
}

fn headed_client(identity: &Identity) -> quinn::Endpoint {
    let evenkeel = Endpoint::new().path_headers(1);
    let config = evenkeel.client_config(identity.client(), transport(&evenkeel));
    let mut endpoint = evenkeel.bind(LOOPBACK, None).expect("a free port");
    endpoint.set_default_client_config(config.expect("the default provider"));
    endpoint
}

/// Sends `payload` on a stream, and takes it back.
async fn echoed(connection: &Connection) {
    let (mut send, mut receive) = connection.open_bi().await.expect("a stream");
    let sender = tokio::spawn(async move {
        send.write_all(&payload()).await.expect("the peer reads");
        send.finish().expect("it is open");
    });
    let answer = receive
        .read_to_end(payload().len())
        .await
        .expect("the peer answers");
    sender.await.expect("it does not panic");
    assert!(
        answer == payload(),
        "{} bytes of {} came back",
        answer.len(),
        payload().len()
    );
}

/// Echoes all streams of all connections.
async fn echo(endpoint: quinn::Endpoint) {
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async {
            let connection = incoming.await.expect("a handshake");
            while let Ok((mut send, mut receive)) = connection.accept_bi().await {
                while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX, true).await {
                    send.write_chunk(chunk.bytes).await.expect("the peer reads");
                }
                send.finish().expect("it is open");
            }
        });
    }
}

/// Lets `client` exchange data with `server`; whether headers were in use in the end.
fn exchange(
    client: fn(&Identity) -> quinn::Endpoint,
    server: fn(&Identity) -> quinn::Endpoint,
) -> bool {
    run(async move {
        let identity = Identity::new();
        let server = server(&identity);
        let address = server.local_addr().expect("it is bound");
        tokio::spawn(echo(server));
        let client = client(&identity);
        let connecting = client
            .connect(address, "localhost")
            .expect("a right configuration");
        let connection = connecting.await.expect("a handshake");
        echoed(&connection).await;
        // Also from another port.
        client
            .rebind(std::net::UdpSocket::bind(LOOPBACK).expect("a free port"))
            .expect("a bound socket");
        echoed(&connection).await;
        let context = Context::of(&connection);
        let headers = context.and_then(|context| context.path_headers());
        headers.is_some_and(|(state, counters)| {
            assert_eq!((counters.forged, counters.clamped), (0, 0));
            state == HeaderState::Confirmed && counters.echoes > 10
        })
    })
}

fn run<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(task)
}

#[test]
fn two_headed_endpoints_exchange_headers() {
    assert!(exchange(headed_client, headed_server));
}

#[test]
fn stock_quinn_serves_a_headed_client() {
    assert!(!exchange(headed_client, stock_server));
}

#[test]
fn a_headed_server_serves_stock_quinn() {
    assert!(!exchange(stock_client, headed_server));
}

#[test]
fn data_of_a_resumed_connection_comes_with_its_first_flight() {
    run(async {
        let identity = Identity::new();
        let evenkeel = Endpoint::new().path_headers(1);
        let mut tls = identity.server();
        tls.max_early_data_size = u32::MAX;
        let server = evenkeel
            .server_config(tls, transport(&evenkeel))
            .expect("the default provider");
        let server = evenkeel.bind(LOOPBACK, Some(server)).expect("a free port");
        let address = server.local_addr().expect("it is bound");
        tokio::spawn(echo(server));
        let mut tls = identity.client();
        tls.enable_early_data = true;
        let config = evenkeel
            .client_config(tls, transport(&evenkeel))
            .expect("the default provider");
        let mut client = evenkeel.bind(LOOPBACK, None).expect("a free port");
        client.set_default_client_config(config);
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
        let context = Context::of(&connection).expect("an evenkeel configuration");
        let (state, counters) = context.path_headers().expect("both take headers");
        assert_eq!((state, counters.forged), (HeaderState::Confirmed, 0));
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
    for endpoint in [Endpoint::new(), Endpoint::new().path_headers(1)] {
        let mut tls = identity.server();
        tls.max_early_data_size = 1000;
        let error = endpoint
            .server_config(tls, transport(&endpoint))
            .expect_err("RFC 9001, 4.6.1");
        assert!(error.to_string().contains("early data"), "{error}");
    }
}

/// The Python that has aioquic.
fn aioquic(arguments: &[&str]) -> Child {
    let python = std::env::var("EVENKEEL_AIOQUIC").unwrap_or_else(|_| "python3".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/aioquic_peer.py");
    Command::new(&python)
        .arg(script)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("{python}: {error}; set EVENKEEL_AIOQUIC to a Python with aioquic")
        })
}

/// Ends a process that a test has started, however the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        let output = self.0.stdout.take().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it prints text");
        line
    }
}

#[test]
#[ignore = "needs aioquic: python3 -m venv V && V/bin/pip install aioquic; EVENKEEL_AIOQUIC=V/bin/python"]
fn aioquic_fetches_from_the_http3_example() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let certificate = directory.path().join("certificate.pem");
    let test = std::env::current_exe().expect("this test's path");
    let profile: PathBuf = test
        .ancestors()
        .nth(2)
        .expect("target/debug/deps/test")
        .into();
    let server = Command::new(profile.join("examples/h3_server"))
        .arg(&certificate)
        .stdout(Stdio::piped())
        .spawn()
        .expect("built by cargo build -p evenkeel --examples");
    let mut server = Running(server);
    let url = server.line();
    let port = url
        .trim_end_matches("/\n")
        .rsplit(':')
        .next()
        .expect("https://localhost:PORT/");
    let certificate = certificate.to_str().expect("a path of text");
    let mut client = aioquic(&["get", port, certificate]);
    let mut answer = String::new();
    let output = client.stdout.as_mut().expect("it is piped");
    output.read_to_string(&mut answer).expect("it prints text");
    assert!(client.wait().expect("it was started").success());
    assert_eq!(answer, format!("evenkeel heard GET / {}\n", 1_000_000 + 21));
}

#[test]
#[ignore = "needs aioquic: python3 -m venv V && V/bin/pip install aioquic; EVENKEEL_AIOQUIC=V/bin/python"]
fn an_aioquic_server_serves_a_headed_client() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let identity = Identity::new();
    let (certificate, key) = (
        directory.path().join("certificate"),
        directory.path().join("key"),
    );
    std::fs::write(&certificate, identity.0.cert.pem()).expect("a writable directory");
    std::fs::write(&key, identity.0.signing_key.serialize_pem()).expect("a writable directory");
    let path = |path: &'static str| directory.path().join(path).display().to_string();
    let mut server = Running(aioquic(&["echo", &path("certificate"), &path("key")]));
    let port = server.line().trim().parse().expect("it prints its port");
    run(async move {
        let client = headed_client(&identity);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connecting = client
            .connect(address, "localhost")
            .expect("a right configuration");
        let connection = connecting.await.expect("a handshake");
        echoed(&connection).await;
        let context = Context::of(&connection).expect("an evenkeel configuration");
        assert_eq!(context.path_headers(), None, "aioquic does not know them");
    });
}
