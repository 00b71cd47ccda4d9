//! A TLS session of rustls that offers path headers and derives their keys:
//! `docs/path-header.md`, section 3.
//!
//! QUIC stacks' own sessions cannot send a transport parameter that the stack does not know. This
//! one does what those of quinn-proto 0.11.19 and noq-proto 1.4.0 do (`crypto/rustls.rs`), and
//! leaves to them what needs no session: a server's keys of Initial packets, and the integrity of
//! Retry packets. Shells implement their stack's traits with it.

use std::sync::Arc;

use rustls::CipherSuite;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::quic::{
    ClientConnection, Connection, DirectionalKeys, KeyChange, Keys, PacketKeySet, Secrets,
    ServerConnection, Suite, Version,
};
use rustls::server::ResolvesServerCertUsingSni;

use crate::header::{Agreement, Grease};
use crate::parameters::{
    PARAMETER, VERSIONS, max_ack_delay, reserved_parameters, understands_headers,
};

/// The exporter's label: section 3.2.
const LABEL: &[u8] = b"EXPORTER-evenkeel-path-header";

/// What starts the sessions of one TLS configuration.
#[derive(Clone)]
pub struct Sessions<T> {
    tls: Arc<T>,
    /// Protects Initial packets.
    initial: Suite,
    offers_headers: bool,
}

impl<T> Sessions<T> {
    /// Returns whether its sessions offer path headers.
    pub fn offers_headers(&self) -> bool {
        self.offers_headers
    }

    /// Adds ours to the stack's transport parameters if path headers are offered; returns also the
    /// seeded random choices of headers.
    fn encoded(&self, mut bytes: Vec<u8>) -> (Vec<u8>, Option<Grease>) {
        if !self.offers_headers {
            return (bytes, None);
        }
        let mut grease = Grease::new(&reserved_parameters(&bytes));
        let versions = grease.versions(&VERSIONS);
        // RFC 9000, section 16: the prefix 0b10 means four bytes.
        let id = 0x8000_0000 | u32::try_from(PARAMETER).expect("an id of 30 bits");
        bytes.extend_from_slice(&id.to_be_bytes());
        bytes.push(versions.len() as u8);
        bytes.extend_from_slice(&versions);
        (bytes, Some(grease))
    }

    fn session(&self, version: Version, unagreed: Option<Grease>, tls: Connection) -> Session {
        Session {
            version,
            tls,
            initial: self.initial,
            next_secrets: None,
            reported_handshake_data: false,
            unagreed,
        }
    }
}

impl Sessions<rustls::ServerConfig> {
    /// Sessions of a server.
    ///
    /// # Errors
    /// If `tls` does not suit QUIC.
    pub fn new(
        tls: Arc<rustls::ServerConfig>,
        offers_headers: bool,
    ) -> Result<Self, rustls::Error> {
        ServerConnection::new(tls.clone(), Version::V1, Vec::new())?;
        let initial = initial_suite(&tls.crypto_provider().cipher_suites)?;
        Ok(Self {
            tls,
            initial,
            offers_headers,
        })
    }

    /// Returns the configuration.
    pub fn tls(&self) -> Arc<rustls::ServerConfig> {
        self.tls.clone()
    }

    /// Starts a session with the stack's transport parameters; `version` is known to rustls.
    pub fn start(&self, version: Version, parameters: Vec<u8>) -> Session {
        let (parameters, grease) = self.encoded(parameters);
        let tls = ServerConnection::new(self.tls.clone(), version, parameters)
            .expect("the configuration was tried when it was made");
        self.session(version, grease, Connection::Server(tls))
    }
}

impl Sessions<rustls::ClientConfig> {
    /// Sessions of a client.
    ///
    /// # Errors
    /// If `tls` does not suit QUIC.
    pub fn new(
        tls: Arc<rustls::ClientConfig>,
        offers_headers: bool,
    ) -> Result<Self, rustls::Error> {
        let nobody = ServerName::try_from("evenkeel.invalid").expect("a name (RFC 2606)");
        ClientConnection::new(tls.clone(), Version::V1, nobody, Vec::new())?;
        let initial = initial_suite(&tls.crypto_provider().cipher_suites)?;
        Ok(Self {
            tls,
            initial,
            offers_headers,
        })
    }

    /// Returns a server's configuration that has no certificate: with it a stack's own server
    /// checks the integrity of Retry packets for its clients.
    ///
    /// # Errors
    /// If the crypto provider has no TLS 1.3.
    pub fn without_certificate(&self) -> Result<Arc<rustls::ServerConfig>, rustls::Error> {
        let provider = self.tls.crypto_provider().clone();
        let nothing = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        Ok(Arc::new(nothing))
    }

    /// Starts a session with the stack's transport parameters; `version` is known to rustls.
    /// `None` if `server_name` is no name.
    pub fn start(
        &self,
        version: Version,
        server_name: &str,
        parameters: Vec<u8>,
    ) -> Option<Session> {
        let name = ServerName::try_from(server_name).ok()?.to_owned();
        let (parameters, grease) = self.encoded(parameters);
        let tls = ClientConnection::new(self.tls.clone(), version, name, parameters)
            .expect("the configuration was tried when it was made");
        Some(self.session(version, grease, Connection::Client(tls)))
    }
}

/// Returns what protects Initial packets: RFC 9001, section 5.2.
fn initial_suite(suites: &[rustls::SupportedCipherSuite]) -> Result<Suite, rustls::Error> {
    let suite = suites
        .iter()
        .find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)
        .and_then(|suite| suite.tls13()?.quic_suite());
    suite.ok_or_else(no_initial_suite)
}

/// Returns the error for a crypto provider without the cipher suite of Initial packets.
pub fn no_initial_suite() -> rustls::Error {
    let reason = "QUIC needs TLS13_AES_128_GCM_SHA256: add it to the crypto provider";
    rustls::Error::General(reason.into())
}

/// Maps the versions that QUIC stacks offer and rustls knows: RFC 9001, and the drafts before it.
pub fn tls_version(number: u32) -> Option<Version> {
    match number {
        0xff00_001d..=0xff00_0020 => Some(Version::V1Draft),
        0x0000_0001 | 0xff00_0021..=0xff00_0022 => Some(Version::V1),
        _ => None,
    }
}

/// Divides what a Retry packet's `header` is followed by into what its integrity tag covers and the
/// tag: RFC 9001, section 5.8.
pub fn retry(header: &[u8], payload: &[u8]) -> Option<(Vec<u8>, [u8; 16])> {
    let (token, tag) = payload.split_last_chunk::<16>()?;
    Some(([header, token].concat(), *tag))
}

/// A session that may offer path headers.
pub struct Session {
    version: Version,
    tls: Connection,
    initial: Suite,
    next_secrets: Option<Secrets>,
    reported_handshake_data: bool,
    /// Some until the handshake has shown whether the peer understands headers.
    unagreed: Option<Grease>,
}

/// Why a handshake failed.
#[derive(Debug)]
pub struct Failure {
    /// The alert to send, if any (RFC 8446, section 6).
    pub alert: Option<u8>,
    /// What rustls says.
    pub error: rustls::Error,
}

/// Keys that the handshake has led to.
pub enum NewKeys {
    /// For Handshake packets.
    Handshake(Keys),
    /// For 1-RTT packets.
    OneRtt(Keys),
}

/// What the handshake has shown of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The application protocol, if one was negotiated.
    pub protocol: Option<Vec<u8>>,
    /// The name by which a client calls its server; `None` on clients.
    pub server_name: Option<String>,
    /// The group of the key exchange, once known.
    pub key_exchange: Option<rustls::NamedGroup>,
}

impl Session {
    /// Returns whether this is a client's session.
    pub fn is_client(&self) -> bool {
        matches!(self.tls, Connection::Client(_))
    }

    /// Returns true until the handshake is complete.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns the keys of Initial packets for `side`.
    pub fn initial_keys(&self, dst_cid: &[u8], side: rustls::Side) -> Keys {
        self.initial.keys(dst_cid, side, self.version)
    }

    /// Reads what has arrived. Returns true the first time that [`shown`](Self::shown) knows
    /// something.
    ///
    /// # Errors
    /// If the handshake fails.
    pub fn read(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        self.tls.read_hs(bytes).map_err(|error| Failure {
            alert: self.tls.alert().map(Into::into),
            error,
        })?;
        // A server knows its client's data once it has the name, a client the server's once it has
        // the protocol; both at the latest when the handshake is complete.
        let named = match &self.tls {
            Connection::Client(_) => false,
            Connection::Server(tls) => tls.server_name().is_some(),
        };
        let known = named || self.tls.alpn_protocol().is_some() || !self.is_handshaking();
        Ok(known && !std::mem::replace(&mut self.reported_handshake_data, known))
    }

    /// Appends what is to be sent to `bytes`; returns new keys if there are some.
    pub fn write(&mut self, bytes: &mut Vec<u8>) -> Option<NewKeys> {
        Some(match self.tls.write_hs(bytes)? {
            KeyChange::Handshake { keys } => NewKeys::Handshake(keys),
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                NewKeys::OneRtt(keys)
            }
        })
    }

    /// Returns the keys of 1-RTT packets after the next key update.
    pub fn next_keys(&mut self) -> Option<PacketKeySet> {
        Some(self.next_secrets.as_mut()?.next_packet_keys())
    }

    /// Returns the keys of 0-RTT packets, if there are some.
    pub fn early_keys(&self) -> Option<DirectionalKeys> {
        self.tls.zero_rtt_keys()
    }

    /// Returns whether the server has accepted 0-RTT packets; `None` on servers.
    pub fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            Connection::Client(tls) => Some(tls.is_early_data_accepted()),
            Connection::Server(_) => None,
        }
    }

    /// Returns what the handshake has shown of the peer, once [`read`](Self::read) has said so.
    pub fn shown(&self) -> Option<Shown> {
        self.reported_handshake_data.then(|| Shown {
            protocol: self.tls.alpn_protocol().map(Into::into),
            server_name: match &self.tls {
                Connection::Client(_) => None,
                Connection::Server(tls) => tls.server_name().map(Into::into),
            },
            key_exchange: self
                .tls
                .negotiated_key_exchange_group()
                .map(|group| group.name()),
        })
    }

    /// Returns the certificates that the peer has shown.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let chain = self.tls.peer_certificates()?.iter();
        Some(chain.map(|one| one.clone().into_owned()).collect())
    }

    /// Returns the peer's transport parameters, once they have arrived.
    pub fn peer_parameters(&self) -> Option<&[u8]> {
        self.tls.quic_transport_parameters()
    }

    /// Fills `output` with keys of the handshake: RFC 8446, section 7.5. `None` if it is not
    /// complete, or `output` too long.
    pub fn export(&self, output: &mut [u8], label: &[u8], context: &[u8]) -> Option<()> {
        self.tls
            .export_keying_material(output, label, Some(context))
            .ok()
            .map(drop)
    }

    /// Derives the headers' keys once the handshake is complete, if both ends understand headers.
    /// Returns them once.
    pub fn agree(&mut self) -> Option<Agreement> {
        if self.tls.is_handshaking() {
            return None;
        }
        let grease = self.unagreed.take()?;
        let parameters = self.tls.quic_transport_parameters().unwrap_or_default();
        if !understands_headers(parameters) {
            return None;
        }
        let mut secret = [0; 32];
        self.export(&mut secret, LABEL, &[])?;
        let (mut to_server, mut to_client) = ([0; 16], [0; 16]);
        to_server.copy_from_slice(&secret[..16]);
        to_client.copy_from_slice(&secret[16..]);
        let (sending, receiving) = if self.is_client() {
            (to_server, to_client)
        } else {
            (to_client, to_server)
        };
        Some(Agreement {
            sending,
            receiving,
            max_ack_delay: max_ack_delay(parameters),
            grease,
        })
    }
}
