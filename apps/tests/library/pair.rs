//! Loopback endpoints with a throw-away certificate.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use evenkeel_apps::bulk::{self, Host, Limits, ServeOptions, TransportSettings};
use evenkeel_apps::stream;
use quinn::{
    ClientConfig, Connection, Endpoint, ServerConfig, TransportConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A server endpoint, and a client endpoint that trusts it.
pub(crate) struct Pair {
    pub(crate) server: Endpoint,
    pub(crate) client: Endpoint,
}

impl Pair {
    /// Both with the bulk ALPN and default transport settings.
    pub(crate) fn new() -> Self {
        Self::with(TransportSettings::default())
    }

    /// The client with these transport settings, the server with the default ones.
    pub(crate) fn with(settings: TransportSettings) -> Self {
        Self::of(
            bulk::ALPN,
            bulk::transport_config(TransportSettings::default()),
            bulk::transport_config(settings),
        )
    }

    /// The server with the settings of one that shares its memory.
    pub(crate) fn sharing() -> Self {
        let settings = TransportSettings::default();
        Self::of(
            bulk::ALPN,
            bulk::server_transport_config(settings),
            bulk::transport_config(settings),
        )
    }

    /// Both with the stream ALPN and default transport settings.
    pub(crate) fn streaming() -> Self {
        let transport = || stream::transport_config(TransportSettings::default());
        Self::of(stream::ALPN, transport(), transport())
    }

    fn of(alpn: &[u8], serving: TransportConfig, asking: TransportConfig) -> Self {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let server = Endpoint::server(
            server_config(certificate.clone(), key, alpn, serving),
            address,
        )
        .unwrap();
        let mut client = Endpoint::client(address).unwrap();
        client.set_default_client_config(client_config(certificate, alpn, asking));
        Self { server, client }
    }

    /// Serves in the background with these options.
    pub(crate) fn serve(&self, options: ServeOptions) {
        tokio::spawn(bulk::serve(
            self.server.clone(),
            Arc::new(quinn::TokioRuntime),
            options,
            Arc::default(),
        ));
    }

    /// A new connection of the client.
    pub(crate) async fn connect(&self) -> Connection {
        let address = self.server.local_addr().unwrap();
        self.client
            .connect(address, "localhost")
            .unwrap()
            .await
            .unwrap()
    }
}

/// Options whose peers may be silent for half a second only.
pub(crate) fn impatient(host: Arc<dyn Host>) -> ServeOptions {
    ServeOptions {
        host,
        limits: Limits {
            patience: Duration::from_millis(500),
            ..Limits::default()
        },
        ..ServeOptions::default()
    }
}

fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    alpn: &[u8],
    transport: TransportConfig,
) -> ServerConfig {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

fn client_config(
    certificate: CertificateDer<'static>,
    alpn: &[u8],
    transport: TransportConfig,
) -> ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![alpn.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    config.transport_config(Arc::new(transport));
    config
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
