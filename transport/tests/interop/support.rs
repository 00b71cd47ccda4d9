//! Endpoints with keys of their own, and what they exchange.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use evenkeel::controller::{Congestion, Controller};
use evenkeel::{Context, EndpointBuilder};
use quinn::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use quinn::rustls::{self, RootCertStore};
use quinn::{ClientConfig, Connection, ServerConfig, TransportConfig};
use tokio::sync::mpsc;

pub(crate) const LOOPBACK: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What a client sends and wants back. `aioquic_peer.py` has the same.
pub(crate) fn payload() -> Vec<u8> {
    (0..3_000_000_u32).map(|i| (i % 251) as u8).collect()
}

/// A self-signed certificate of localhost and its key.
pub(crate) struct Identity(pub(crate) rcgen::CertifiedKey<rcgen::KeyPair>);

impl Identity {
    pub(crate) fn new() -> Self {
        Self(rcgen::generate_simple_self_signed(["localhost".into()]).expect("a valid name"))
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.0.cert.der().clone()
    }

    pub(crate) fn server(&self) -> rustls::ServerConfig {
        let key = PrivatePkcs8KeyDer::from(self.0.signing_key.serialize_der());
        let mut tls = rustls::ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate()], key.into())
            .expect("the key is the certificate's");
        tls.alpn_protocols = vec![ALPN.to_vec()];
        // RFC 9001, section 4.6.1: this or nothing.
        tls.max_early_data_size = u32::MAX;
        tls
    }

    pub(crate) fn client(&self) -> rustls::ClientConfig {
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate())
            .expect("a well-formed certificate");
        let mut tls = rustls::ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![ALPN.to_vec()];
        tls.enable_early_data = true;
        tls
    }
}

/// What runs on the streams.
const ALPN: &[u8] = b"echo";

/// Sends at a rate of its own, so that it is paced however short the round trip is: a derived rate
/// stands aside on the loopback.
#[derive(Debug, Clone)]
struct Constant;

/// Bytes per second. The payload takes 0.15 s, and a millisecond holds less than a window.
pub(crate) const PACED_RATE: u64 = 20_000_000;

impl Controller for Constant {
    fn on_congestion(&mut self, _: &Congestion) {}

    fn on_persistent_congestion(&mut self) {}

    fn on_mtu(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        1_000_000
    }

    fn pacing_rate(&self) -> Option<u64> {
        Some(PACED_RATE)
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

pub(crate) fn transport(endpoint: &EndpointBuilder) -> Arc<TransportConfig> {
    let controller = evenkeel::controller::adapt(|_, _| Box::new(Constant));
    endpoint.transport(TransportConfig::default(), controller)
}

pub(crate) fn stock_server(identity: &Identity) -> quinn::Endpoint {
    let crypto = quinn::crypto::rustls::QuicServerConfig::try_from(identity.server());
    let config = ServerConfig::with_crypto(Arc::new(crypto.expect("the default provider")));
    quinn::Endpoint::server(config, LOOPBACK).expect("a free port")
}

pub(crate) fn stock_client(identity: &Identity) -> quinn::Endpoint {
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(identity.client());
    let config = ClientConfig::new(Arc::new(crypto.expect("the default provider")));
    let mut endpoint = quinn::Endpoint::client(LOOPBACK).expect("a free port");
    endpoint.set_default_client_config(config);
    endpoint
}

pub(crate) fn headed_server(identity: &Identity) -> quinn::Endpoint {
    let evenkeel = EndpointBuilder::new().path_headers(1);
    let config = evenkeel.server_config(identity.server(), transport(&evenkeel));
    let config = config.expect("the default provider");
    evenkeel.bind(LOOPBACK, Some(config)).expect("a free port")
}

pub(crate) fn headed_client(identity: &Identity) -> quinn::Endpoint {
    let evenkeel = EndpointBuilder::new().path_headers(1);
    let config = evenkeel.client_config(identity.client(), transport(&evenkeel));
    let mut endpoint = evenkeel.bind(LOOPBACK, None).expect("a free port");
    endpoint.set_default_client_config(config.expect("the default provider"));
    endpoint
}

/// Sends `payload` on a stream, and takes it back.
pub(crate) async fn echoed(connection: &Connection) {
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

/// Echoes all streams of all connections, and hands the connections out.
pub(crate) fn echoing(endpoint: quinn::Endpoint) -> mpsc::UnboundedReceiver<Connection> {
    let (accepted, connections) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(incoming) = endpoint.accept().await {
            let accepted = accepted.clone();
            tokio::spawn(async move {
                let connection = incoming.await.expect("a handshake");
                // Not every test wants to look at it.
                let _ = accepted.send(connection.clone());
                echo(connection).await;
            });
        }
    });
    connections
}

/// Echoes all streams of `connection`.
pub(crate) async fn echo(connection: Connection) {
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        tokio::spawn(async move {
            while let Ok(Some(chunk)) = receive.read_chunk(usize::MAX, true).await {
                send.write_chunk(chunk.bytes).await.expect("the peer reads");
            }
            send.finish().expect("it is open");
        });
    }
}

/// A peer that knows nothing of headers: there are none, and packets are paced all the same.
pub(crate) fn is_paced_without_headers(connection: &Connection) {
    let context = Context::of(connection).expect("an evenkeel configuration");
    assert_eq!(context.path_headers(), None);
    let state = context.state();
    assert_eq!(state.pacing_rate, Some(PACED_RATE));
    assert!(state.pacing_waits > 10, "{} waits", state.pacing_waits);
}

pub(crate) fn run<T>(task: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(task)
}
