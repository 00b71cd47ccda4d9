//! Makes noq's [`HandshakeData`], which applications downcast to.
//!
//! The type of noq-proto 1.4 has no constructor outside noq, but public fields. One of noq's own
//! sessions, which has read no more than a first message, gives as many values as are needed.

use std::sync::Arc;

use noq_proto::Side;
use noq_proto::crypto::rustls::{HandshakeData, QuicClientConfig, QuicServerConfig};
use noq_proto::crypto::{ClientConfig, ServerConfig, Session};
use noq_proto::transport_parameters::TransportParameters;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{RootCertStore, SignatureAlgorithm, SignatureScheme};

/// A server's session of noq that knows what its client's first message says.
#[derive(Clone)]
pub(super) struct Template(Arc<dyn Session>);

/// The QUIC version 1.
const VERSION: u32 = 1;

impl Template {
    /// # Errors
    /// If `provider` does not suit QUIC.
    pub(super) fn new(provider: &Arc<CryptoProvider>) -> Result<Self, rustls::Error> {
        let failed = |reason: &str| rustls::Error::General(reason.into());
        let versions = &[&rustls::version::TLS13];
        let client = rustls::ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let server = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Nobody));
        let suite = |error: noq_proto::crypto::rustls::NoInitialCipherSuite| {
            rustls::Error::General(error.to_string())
        };
        let client = QuicClientConfig::try_from(client).map_err(suite)?;
        let server = QuicServerConfig::try_from(server).map_err(suite)?;
        let none = TransportParameters::read(Side::Client, &mut &[][..])
            .map_err(|error| failed(&error.to_string()))?;
        let mut hello = Vec::new();
        client
            .start_session(VERSION, "evenkeel.invalid", &none)
            .map_err(|error| failed(&error.to_string()))?
            .write_handshake(&mut hello);
        let mut session = server.start_session(VERSION, &none);
        match session.read_handshake(&hello) {
            Ok(true) => Ok(Self(session.into())),
            Ok(false) => Err(failed("noq's TLS session has found no server name")),
            Err(error) => Err(failed(&error.to_string())),
        }
    }

    /// Returns data of what a handshake has shown.
    pub(super) fn data(&self, shown: evenkeel_headers::Shown) -> Box<HandshakeData> {
        let data = self.0.handshake_data().expect("it was read when made");
        let mut data: Box<HandshakeData> = data.downcast().expect("noq's session has noq's type");
        data.protocol = shown.protocol;
        data.server_name = shown.server_name;
        data.negotiated_key_exchange_group = shown.key_exchange;
        data
    }
}

/// A server that cannot prove anything, and signs with nothing.
#[derive(Debug)]
struct Nobody;

impl ResolvesServerCert for Nobody {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chain = vec![CertificateDer::from(Vec::new())];
        Some(Arc::new(CertifiedKey::new(chain, Arc::new(Self))))
    }
}

impl SigningKey for Nobody {
    fn choose_scheme(&self, _: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        Some(Box::new(Self))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ED25519
    }
}

impl Signer for Nobody {
    fn sign(&self, _: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        Ok(Vec::new())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ED25519
    }
}
