//! Lets quinn's handshakes offer path headers, with sessions of `evenkeel-headers`, and finds late
//! ACKs.

mod acks;
mod frames;

use std::any::Any;
use std::io;
use std::sync::Arc;

use evenkeel_headers::parameters::{ack_delays, patient};
use evenkeel_headers::{NewKeys, Owner, Sessions, no_initial_suite, retry, tls_version};
use quinn::crypto::rustls::{HandshakeData, QuicServerConfig};
use quinn::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use quinn::rustls;
use quinn::rustls::quic::{DirectionalKeys, PacketKeySet};
use quinn::{ConnectError, ConnectionId, Side, TransportErrorCode};
use quinn_proto::TransportError;
use quinn_proto::transport_parameters::TransportParameters;

use crate::connection::{Connection, Connections};
use crate::hooks;
use acks::WatchingKey;

/// TLS for connections that a server accepts.
pub(crate) struct ServerCrypto {
    sessions: Sessions<rustls::ServerConfig>,
    common: Common,
}

/// TLS for connections that a client opens.
pub(crate) struct ClientCrypto {
    sessions: Sessions<rustls::ClientConfig>,
    common: Common,
}

/// What all sessions of a configuration share.
#[derive(Clone)]
struct Common {
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
        let sessions = Sessions::<rustls::ServerConfig>::new(tls.clone(), offers_headers)?;
        let common = Common::new(tls, connections, offers_headers)?;
        Ok(Self { sessions, common })
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
        let sessions = Sessions::<rustls::ClientConfig>::new(tls, offers_headers)?;
        let common = Common::new(sessions.without_certificate()?, connections, offers_headers)?;
        Ok(Self { sessions, common })
    }
}

impl Common {
    fn new(
        tls: Arc<rustls::ServerConfig>,
        connections: Arc<Connections>,
        offers_headers: bool,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            stock: Arc::new(tls.try_into().map_err(|_| no_initial_suite())?),
            connections,
            offers_headers,
        })
    }

    fn session(&self, version: u32, tls: evenkeel_headers::Session) -> Box<dyn Session> {
        let connection = Connection::new(self.connections.clone());
        hooks::session_begins(&connection);
        Box::new(HeaderSession {
            version,
            tls,
            common: self.clone(),
            connection,
        })
    }
}

fn encoded(params: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    params.write(&mut bytes);
    bytes
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
        let known = tls_version(version).expect("quinn asks initial_keys first, which knows it");
        let tls = self.sessions.start(known, encoded(params));
        self.common.session(version, tls)
    }
}

impl crypto::ClientConfig for ClientCrypto {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let known = tls_version(version).ok_or(ConnectError::UnsupportedVersion)?;
        let tls = self.sessions.start(known, server_name, encoded(params));
        let tls = tls.ok_or_else(|| ConnectError::InvalidServerName(server_name.into()))?;
        Ok(self.common.session(version, tls))
    }
}

/// A session that may offer path headers.
struct HeaderSession {
    /// The QUIC version.
    version: u32,
    tls: evenkeel_headers::Session,
    common: Common,
    connection: Arc<Connection>,
}

impl HeaderSession {
    /// Wraps the keys of 1-RTT packets, to find late ACKs and credit.
    fn packet_keys(&self, keys: PacketKeySet) -> KeyPair<Box<dyn PacketKey>> {
        let parameters = self.tls.peer_parameters().unwrap_or_default();
        let watching = |key| {
            Box::new(WatchingKey {
                key,
                delays: ack_delays(parameters),
                connection: self.connection.clone(),
            })
        };
        KeyPair {
            local: watching(keys.local),
            remote: watching(keys.remote),
        }
    }

    /// Starts headers once the handshake is complete.
    fn agree(&mut self) {
        // Only a poll knows the time; a handshake is only ever completed in one.
        if let Some((agreement, (_, now))) = self.tls.agree().zip(hooks::polled()) {
            self.connection.agreed(agreement, now);
        }
    }
}

impl Session for HeaderSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        both_directions(self.tls.initial_keys(dst_cid, side.into()))
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let shown = self.tls.shown()?;
        Some(Box::new(HandshakeData {
            protocol: shown.protocol,
            server_name: shown.server_name,
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.tls.peer_certificates()?))
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        let DirectionalKeys { header, packet } = self.tls.early_keys()?;
        Some((Box::new(header), Box::new(packet)))
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.tls.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let read = self.tls.read(buf);
        let is_news = read.map_err(|failure| TransportError {
            code: failure.alert.map_or(
                TransportErrorCode::PROTOCOL_VIOLATION,
                TransportErrorCode::crypto,
            ),
            frame: None,
            reason: failure.error.to_string(),
        })?;
        self.agree();
        Ok(is_news)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.tls.peer_parameters() else {
            return Ok(None);
        };
        let side = if self.tls.is_client() {
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
        let keys = self.tls.write(buf);
        self.agree();
        Some(match keys? {
            NewKeys::Handshake(keys) => both_directions(keys),
            NewKeys::OneRtt { header, packet } => Keys {
                header: KeyPair {
                    local: Box::new(header.local),
                    remote: Box::new(header.remote),
                },
                packet: self.packet_keys(packet),
            },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.tls.next_keys()?;
        Some(self.packet_keys(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        retry(header, payload).is_some_and(|(packet, tag)| {
            let stock = &*self.common.stock;
            tag == crypto::ServerConfig::retry_tag(stock, self.version, orig_dst_cid, &packet)
        })
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        let exported = self.tls.export(output, label, context);
        exported.ok_or(ExportKeyingMaterialError)
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
