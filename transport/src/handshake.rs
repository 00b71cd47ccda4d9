//! Wraps rustls's QUIC TLS session to offer path headers, derive their keys (`docs/path-header.md`,
//! section 3), and find late ACKs.
//!
//! quinn's own session cannot send a transport parameter that quinn does not know. This one does
//! what quinn-proto 0.11.19 does in `crypto/rustls.rs`. It leaves to quinn what needs no session: a
//! server's keys of Initial packets, and the integrity of Retry packets.

mod acks;
mod frames;

use std::any::Any;
use std::io;
use std::sync::Arc;

use evenkeel_headers::parameters::{
    PARAMETER, VERSIONS, ack_delays, max_ack_delay, patient, reserved_parameters,
    understands_headers,
};
use evenkeel_headers::{Agreement, Grease};
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn::rustls::pki_types::{CertificateDer, ServerName};
use quinn::rustls::quic::{
    ClientConnection, Connection as TlsConnection, DirectionalKeys, KeyChange, Secrets,
    ServerConnection, Suite, Version,
};
use quinn::rustls::server::ResolvesServerCertUsingSni;
use quinn::rustls::{self, CipherSuite};
use quinn::{ConnectError, ConnectionId, Side, TransportErrorCode};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;

use crate::connection::{Connection, Connections};
use crate::hooks;
use acks::WatchingKey;

/// The exporter's label: section 3.2.
const LABEL: &[u8] = b"EXPORTER-evenkeel-path-header";

/// TLS for connections that a server accepts.
pub(crate) struct ServerCrypto {
    tls: Arc<rustls::ServerConfig>,
    common: Common,
}

/// TLS for connections that a client opens.
pub(crate) struct ClientCrypto {
    tls: Arc<rustls::ClientConfig>,
    common: Common,
}

/// What all sessions of a configuration share.
#[derive(Clone)]
struct Common {
    /// Protects Initial packets.
    initial: Suite,
    /// quinn's own configuration, for what needs no session.
    stock: Arc<QuicServerConfig>,
    connections: Arc<Connections>,
    offers_headers: bool,
}

impl ServerCrypto {
    /// # Errors
    /// If `tls` does not suit QUIC.
    pub(crate) fn new(
        tls: Arc<rustls::ServerConfig>,
        connections: Arc<Connections>,
        offers_headers: bool,
    ) -> Result<Self, rustls::Error> {
        ServerConnection::new(tls.clone(), Version::V1, Vec::new())?;
        let common = Common::new(tls.clone(), connections, offers_headers)?;
        Ok(Self { tls, common })
    }
}

impl ClientCrypto {
    /// # Errors
    /// If `tls` does not suit QUIC.
    pub(crate) fn new(
        tls: Arc<rustls::ClientConfig>,
        connections: Arc<Connections>,
        offers_headers: bool,
    ) -> Result<Self, rustls::Error> {
        let nobody = ServerName::try_from("evenkeel.invalid").expect("a name (RFC 2606)");
        ClientConnection::new(tls.clone(), Version::V1, nobody, Vec::new())?;
        let nothing = rustls::ServerConfig::builder_with_provider(tls.crypto_provider().clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        let common = Common::new(Arc::new(nothing), connections, offers_headers)?;
        Ok(Self { tls, common })
    }
}

impl Common {
    fn new(
        tls: Arc<rustls::ServerConfig>,
        connections: Arc<Connections>,
        offers_headers: bool,
    ) -> Result<Self, rustls::Error> {
        // RFC 9001, section 5.2.
        let initial = tls
            .crypto_provider()
            .cipher_suites
            .iter()
            .find(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256)
            .and_then(|suite| suite.tls13()?.quic_suite());
        let no_suite = "QUIC needs TLS13_AES_128_GCM_SHA256: add it to the crypto provider";
        let no_suite = || rustls::Error::General(no_suite.into());
        Ok(Self {
            initial: initial.ok_or_else(no_suite)?,
            stock: Arc::new(tls.try_into().map_err(|_| no_suite())?),
            connections,
            offers_headers,
        })
    }

    /// Encodes quinn's transport parameters, and ours if path headers are offered; returns also the
    /// seeded random choices of headers.
    fn encoded(&self, params: &TransportParameters) -> (Vec<u8>, Option<Grease>) {
        let mut bytes = Vec::new();
        params.write(&mut bytes);
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

    fn session(
        &self,
        number: u32,
        version: Version,
        unagreed: Option<Grease>,
        tls: TlsConnection,
    ) -> Box<dyn Session> {
        let connection = Connection::new(self.connections.clone());
        hooks::session_begins(&connection);
        Box::new(HeaderSession {
            number,
            version,
            tls,
            next_secrets: None,
            reported_handshake_data: false,
            common: self.clone(),
            connection,
            unagreed,
        })
    }
}

impl crypto::ServerConfig for ServerCrypto {
    fn initial_keys(
        &self,
        version: u32,
        dst_cid: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        self.common.stock.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.common.stock.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        let number = version;
        let version = tls_version(number).expect("quinn asks initial_keys first, which knows it");
        let (params, grease) = self.common.encoded(params);
        let tls = ServerConnection::new(self.tls.clone(), version, params)
            .expect("the configuration was tried when it was made");
        self.common
            .session(number, version, grease, TlsConnection::Server(tls))
    }
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let number = version;
        let version = tls_version(number).ok_or(ConnectError::UnsupportedVersion)?;
        let invalid = || ConnectError::InvalidServerName(server_name.into());
        let name = ServerName::try_from(server_name)
            .map_err(|_| invalid())?
            .to_owned();
        let (params, grease) = self.common.encoded(params);
        let tls = ClientConnection::new(self.tls.clone(), version, name, params)
            .expect("the configuration was tried when it was made");
        Ok(self
            .common
            .session(number, version, grease, TlsConnection::Client(tls)))
    }
}

/// A session that may offer path headers.
struct HeaderSession {
    /// The QUIC version, and rustls's name for it.
    number: u32,
    version: Version,
    tls: TlsConnection,
    next_secrets: Option<Secrets>,
    reported_handshake_data: bool,
    common: Common,
    connection: Arc<Connection>,
    /// Some until the handshake has shown whether the peer understands headers.
    unagreed: Option<Grease>,
}

impl HeaderSession {
    fn is_client(&self) -> bool {
        matches!(self.tls, TlsConnection::Client(_))
    }

    /// Wraps the keys of 1-RTT packets, to find late ACKs and credit.
    fn packet_keys(
        &self,
        local: Box<dyn rustls::quic::PacketKey>,
        remote: Box<dyn rustls::quic::PacketKey>,
    ) -> KeyPair<Box<dyn PacketKey>> {
        let parameters = self.tls.quic_transport_parameters().unwrap_or_default();
        let watching = |key| {
            Box::new(WatchingKey {
                key,
                delays: ack_delays(parameters),
                connection: self.connection.clone(),
            })
        };
        KeyPair {
            local: watching(local),
            remote: watching(remote),
        }
    }

    /// Derives the headers' keys once the handshake is complete.
    fn agree(&mut self) {
        if self.tls.is_handshaking() {
            return;
        }
        // Only a poll knows the time; a handshake is only ever completed in one.
        let Some((grease, (_, now))) = self.unagreed.take().zip(hooks::polled()) else {
            return;
        };
        let parameters = self.tls.quic_transport_parameters().unwrap_or_default();
        if !understands_headers(parameters) {
            return;
        }
        let Ok(secret) = self.tls.export_keying_material([0; 32], LABEL, Some(&[])) else {
            return;
        };
        let (mut to_server, mut to_client) = ([0; 16], [0; 16]);
        to_server.copy_from_slice(&secret[..16]);
        to_client.copy_from_slice(&secret[16..]);
        let (sending, receiving) = if self.is_client() {
            (to_server, to_client)
        } else {
            (to_client, to_server)
        };
        let agreement = Agreement {
            sending,
            receiving,
            max_ack_delay: max_ack_delay(parameters),
            grease,
        };
        self.connection.agreed(agreement, now);
    }
}

impl Session for HeaderSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let keys = self.common.initial.keys(dst_cid, side.into(), self.version);
        both_directions(keys)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.reported_handshake_data.then(|| -> Box<dyn Any> {
            let server_name = match &self.tls {
                TlsConnection::Client(_) => None,
                TlsConnection::Server(tls) => tls.server_name().map(Into::into),
            };
            Box::new(HandshakeData {
                protocol: self.tls.alpn_protocol().map(Into::into),
                server_name,
            })
        })
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        let chain = self.tls.peer_certificates()?;
        let chain: Vec<CertificateDer<'static>> = chain
            .iter()
            .map(|certificate| certificate.clone().into_owned())
            .collect();
        Some(Box::new(chain))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let DirectionalKeys { header, packet } = self.tls.zero_rtt_keys()?;
        Some((Box::new(header), Box::new(packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        match &self.tls {
            TlsConnection::Client(tls) => Some(tls.is_early_data_accepted()),
            TlsConnection::Server(_) => None,
        }
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        self.tls.read_hs(buf).map_err(|error| TransportError {
            code: self
                .tls
                .alert()
                .map_or(TransportErrorCode::PROTOCOL_VIOLATION, |alert| {
                    TransportErrorCode::crypto(alert.into())
                }),
            frame: None,
            reason: error.to_string(),
        })?;
        self.agree();
        // A server knows its client's data once it has the name, a client the server's once it has
        // the protocol; both at the latest when the handshake is complete.
        let named = match &self.tls {
            TlsConnection::Client(_) => false,
            TlsConnection::Server(tls) => tls.server_name().is_some(),
        };
        let known = named || self.tls.alpn_protocol().is_some() || !self.is_handshaking();
        Ok(known && !std::mem::replace(&mut self.reported_handshake_data, known))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.tls.quic_transport_parameters() else {
            return Ok(None);
        };
        let side = if self.is_client() {
            Side::Client
        } else {
            Side::Server
        };
        // quinn has built the controller by the time of the first call.
        let bytes = match self.connection.state().feed.followed() {
            Some(_) if self.common.offers_headers => patient(bytes),
            _ => bytes.to_vec(),
        };
        Ok(Some(TransportParameters::read(
            side,
            &mut io::Cursor::new(bytes),
        )?))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.tls.write_hs(buf);
        self.agree();
        match keys? {
            KeyChange::Handshake { keys } => Some(both_directions(keys)),
            KeyChange::OneRtt { keys, next } => {
                self.next_secrets = Some(next);
                Some(Keys {
                    header: KeyPair {
                        local: Box::new(keys.local.header),
                        remote: Box::new(keys.remote.header),
                    },
                    packet: self.packet_keys(keys.local.packet, keys.remote.packet),
                })
            }
        }
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.next_secrets.as_mut()?.next_packet_keys();
        Some(self.packet_keys(keys.local, keys.remote))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<16>() else {
            return false;
        };
        let packet = [header, token].concat();
        let right = crypto::ServerConfig::retry_tag(
            &*self.common.stock,
            self.number,
            orig_dst_cid,
            &packet,
        );
        right == *tag
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.tls
            .export_keying_material(output, label, Some(context))
            .map(drop)
            .map_err(|_| ExportKeyingMaterialError)
    }
}

/// Maps the versions that quinn-proto offers and rustls knows: RFC 9001, and the drafts before it.
fn tls_version(number: u32) -> Option<Version> {
    match number {
        0xff00_001d..=0xff00_0020 => Some(Version::V1Draft),
        0x0000_0001 | 0xff00_0021..=0xff00_0022 => Some(Version::V1),
        _ => None,
    }
}

fn both_directions(keys: rustls::quic::Keys) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: KeyPair {
            local: Box::new(keys.local.packet),
            remote: Box::new(keys.remote.packet),
        },
    }
}
