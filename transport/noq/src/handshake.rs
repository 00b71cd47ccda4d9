//! Lets noq's handshakes offer path headers, with sessions of `evenkeel-headers`, and reads the
//! frames of packets.

mod data;
mod key;

use std::any::Any;
use std::io;
use std::sync::Arc;

use evenkeel_congestion::CountedSpace;
use evenkeel_headers::parameters::{parameter, patient};
use evenkeel_headers::{
    Failure, NewKeys, Owner, Sessions, Usage, no_initial_suite, retry, tls_version,
};
use noq_proto::crypto::rustls::QuicServerConfig;
use noq_proto::crypto::{
    self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, Session,
    UnsupportedVersion,
};
use noq_proto::transport_parameters::TransportParameters;
use noq_proto::{ConnectError, ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::quic::{DirectionalKeys, PacketKeySet};

use crate::connection::{Connection, Connections};
use crate::hooks;
use data::Template;
use key::WatchingKey;

/// Id of the transport parameter `initial_max_path_id`: draft-ietf-quic-multipath, section 2.
const INITIAL_MAX_PATH_ID: u64 = 0x3e;

/// TLS for connections that an endpoint opens or accepts; `T` is rustls's configuration.
pub(crate) struct Crypto<T> {
    sessions: Sessions<T>,
    /// noq's own configuration, for what needs no session.
    stock: Arc<QuicServerConfig>,
    template: Template,
    connections: Arc<Connections>,
}

impl Crypto<rustls::ServerConfig> {
    /// # Errors
    /// If `tls` does not suit QUIC.
    pub(crate) fn server(
        tls: Arc<rustls::ServerConfig>,
        headers: &Usage<Connection>,
    ) -> Result<Self, rustls::Error> {
        let sessions = Sessions::<rustls::ServerConfig>::new(tls.clone(), headers.is_offered())?;
        Self::new(sessions, tls, headers)
    }
}

impl Crypto<rustls::ClientConfig> {
    /// # Errors
    /// If `tls` does not suit QUIC.
    pub(crate) fn client(
        tls: Arc<rustls::ClientConfig>,
        headers: &Usage<Connection>,
    ) -> Result<Self, rustls::Error> {
        let sessions = Sessions::<rustls::ClientConfig>::new(tls, headers.is_offered())?;
        let stock = sessions.without_certificate()?;
        Self::new(sessions, stock, headers)
    }
}

impl<T> Crypto<T> {
    fn new(
        sessions: Sessions<T>,
        stock: Arc<rustls::ServerConfig>,
        headers: &Usage<Connection>,
    ) -> Result<Self, rustls::Error> {
        Ok(Self {
            sessions,
            template: Template::new(stock.crypto_provider())?,
            stock: Arc::new(stock.try_into().map_err(|_| no_initial_suite())?),
            connections: headers.connections.clone(),
        })
    }

    /// Wraps a session that was started with the transport parameters `ours`.
    fn session(&self, version: u32, tls: evenkeel_headers::Session, ours: &[u8]) -> HeaderSession {
        let connection = Connection::new(self.connections.clone());
        connection.state().reads_counts = true;
        hooks::order(|order| order.session_begins(&connection));
        HeaderSession {
            version,
            tls,
            stock: self.stock.clone(),
            template: self.template.clone(),
            connection,
            offers_headers: self.sessions.offers_headers(),
            offers_paths: parameter(ours, INITIAL_MAX_PATH_ID).is_some(),
        }
    }
}

fn encoded(params: &TransportParameters) -> Vec<u8> {
    let mut bytes = Vec::new();
    params.write(&mut bytes);
    bytes
}

impl crypto::ServerConfig for Crypto<rustls::ServerConfig> {
    fn initial_keys(
        &self,
        version: u32,
        dst_cid: ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        self.stock.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.stock.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(&self, version: u32, params: &TransportParameters) -> Box<dyn Session> {
        let known = tls_version(version).expect("noq asks initial_keys first, which knows it");
        let ours = encoded(params);
        let tls = self.sessions.start(known, ours.clone());
        Box::new(self.session(version, tls, &ours))
    }
}

impl crypto::ClientConfig for Crypto<rustls::ClientConfig> {
    fn start_session(
        &self,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let known = tls_version(version).ok_or(ConnectError::UnsupportedVersion)?;
        let ours = encoded(params);
        let tls = self.sessions.start(known, server_name, ours.clone());
        let tls = tls.ok_or_else(|| ConnectError::InvalidServerName(server_name.into()))?;
        Ok(Box::new(self.session(version, tls, &ours)))
    }
}

/// A session that may offer path headers.
struct HeaderSession {
    /// The QUIC version.
    version: u32,
    tls: evenkeel_headers::Session,
    stock: Arc<QuicServerConfig>,
    template: Template,
    connection: Arc<Connection>,
    offers_headers: bool,
    /// This endpoint offers several paths.
    offers_paths: bool,
}

impl HeaderSession {
    /// Starts headers once the handshake is complete, unless the connection may have several paths:
    /// noq does not tell sockets and controllers which of them they act for.
    fn agree(&mut self) {
        // Only a poll knows the time; a handshake is only ever completed in one.
        let Some((agreement, (_, now))) = self.tls.agree().zip(hooks::polled()) else {
            return;
        };
        if !self.has_paths() {
            self.connection.agreed(agreement, now);
        }
    }

    /// Both ends offer several paths.
    fn has_paths(&self) -> bool {
        let theirs = self.tls.peer_parameters().unwrap_or_default();
        self.offers_paths && parameter(theirs, INITIAL_MAX_PATH_ID).is_some()
    }

    fn watching(&self, keys: PacketKeySet, space: CountedSpace) -> KeyPair<Box<dyn PacketKey>> {
        let watching = |key| {
            Box::new(WatchingKey {
                key,
                space,
                connection: self.connection.clone(),
            })
        };
        KeyPair {
            local: watching(keys.local),
            remote: watching(keys.remote),
        }
    }

    fn all(&self, keys: rustls::quic::Keys, space: CountedSpace) -> Keys {
        Keys {
            header: KeyPair {
                local: Box::new(keys.local.header),
                remote: Box::new(keys.remote.header),
            },
            packet: self.watching(
                PacketKeySet {
                    local: keys.local.packet,
                    remote: keys.remote.packet,
                },
                space,
            ),
        }
    }
}

impl Session for HeaderSession {
    fn initial_keys(&self, dst_cid: ConnectionId, side: Side) -> Keys {
        let keys = self.tls.initial_keys(&dst_cid, side.into());
        self.all(keys, CountedSpace::Initial)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let shown = self.tls.shown()?;
        Some(self.template.data(shown))
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
        let is_news = self.tls.read(buf).map_err(refusal)?;
        self.agree();
        Ok(is_news)
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(bytes) = self.tls.peer_parameters() else {
            return Ok(None);
        };
        let side = match self.tls.is_client() {
            true => Side::Client,
            false => Side::Server,
        };
        // noq has built the controller by the time of the first call.
        let follows = self.connection.state().kept.feed.followed().is_some();
        let patient = (follows && self.offers_headers).then(|| patient(bytes));
        let mut bytes = io::Cursor::new(patient.as_deref().unwrap_or(bytes));
        Ok(Some(TransportParameters::read(side, &mut bytes)?))
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let keys = self.tls.write(buf);
        self.agree();
        Some(match keys? {
            NewKeys::Handshake(keys) => self.all(keys, CountedSpace::Handshake),
            NewKeys::OneRtt(keys) => {
                self.connection.state().has_paths = self.has_paths();
                self.all(keys, CountedSpace::Data)
            }
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.tls.next_keys()?;
        Some(self.watching(keys, CountedSpace::Data))
    }

    fn is_valid_retry(&self, orig_dst_cid: ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        retry(header, payload).is_some_and(|(packet, tag)| {
            tag == crypto::ServerConfig::retry_tag(
                &*self.stock,
                self.version,
                orig_dst_cid,
                &packet,
            )
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

/// Returns what noq's own session says of a failed handshake.
fn refusal(failure: Failure) -> TransportError {
    let reason = failure.error.to_string();
    let Some(alert) = failure.alert else {
        return TransportError::new(
            TransportErrorCode::PROTOCOL_VIOLATION,
            format!("TLS error: {reason}"),
        );
    };
    let mut error = TransportError::new(TransportErrorCode::crypto(alert), reason);
    error.crypto = Some(Arc::new(failure.error));
    error
}
