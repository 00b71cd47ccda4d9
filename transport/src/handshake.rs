//! Lets quinn's handshakes offer path headers, with sessions of `evenkeel-headers`, and reads the
//! frames of packets.

mod frames;
mod key;

use std::any::Any;
use std::io;
use std::sync::Arc;

use evenkeel_congestion::CountedSpace;
use evenkeel_headers::parameters::{AckDelays, ack_delays, patient};
use evenkeel_headers::{NewKeys, Owner, Sessions, Usage, no_initial_suite, retry, tls_version};
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
use crate::quinn_order;
use key::WatchingKey;

/// TLS for connections that an endpoint opens or accepts; `T` is rustls's configuration.
pub(crate) struct Crypto<T> {
    sessions: Sessions<T>,
    /// quinn's own configuration, for what needs no session.
    stock: Arc<QuicServerConfig>,
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
            stock: Arc::new(stock.try_into().map_err(|_| no_initial_suite())?),
            connections: headers.connections.clone(),
        })
    }

    fn session(&self, version: u32, tls: evenkeel_headers::Session) -> Box<dyn Session> {
        let connection = Connection::new(self.connections.clone());
        quinn_order::session_begins(&connection);
        Box::new(HeaderSession {
            version,
            tls,
            stock: self.stock.clone(),
            connection,
            offers_headers: self.sessions.offers_headers(),
        })
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
        dst_cid: &ConnectionId,
    ) -> Result<Keys, UnsupportedVersion> {
        self.stock.initial_keys(version, dst_cid)
    }

    fn retry_tag(&self, version: u32, orig_dst_cid: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.stock.retry_tag(version, orig_dst_cid, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        let known = tls_version(version).expect("quinn asks initial_keys first, which knows it");
        let tls = self.sessions.start(known, encoded(params));
        self.session(version, tls)
    }
}

impl crypto::ClientConfig for Crypto<rustls::ClientConfig> {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        let known = tls_version(version).ok_or(ConnectError::UnsupportedVersion)?;
        let tls = self.sessions.start(known, server_name, encoded(params));
        let tls = tls.ok_or_else(|| ConnectError::InvalidServerName(server_name.into()))?;
        Ok(self.session(version, tls))
    }
}

/// A session that may offer path headers.
struct HeaderSession {
    /// The QUIC version.
    version: u32,
    tls: evenkeel_headers::Session,
    stock: Arc<QuicServerConfig>,
    connection: Arc<Connection>,
    offers_headers: bool,
}

impl HeaderSession {
    /// Wraps the keys of 1-RTT packets.
    fn packet_keys(&self, keys: PacketKeySet) -> KeyPair<Box<dyn PacketKey>> {
        let parameters = self.tls.peer_parameters().unwrap_or_default();
        let delays = ack_delays(parameters);
        let mut state = self.connection.state();
        state.kept.feed.set_max_ack_delay(delays.max);
        drop(state);
        self.watching(keys, CountedSpace::Data, Some(delays))
    }

    fn watching(
        &self,
        keys: PacketKeySet,
        space: CountedSpace,
        delays: Option<AckDelays>,
    ) -> KeyPair<Box<dyn PacketKey>> {
        let watching = |key| {
            Box::new(WatchingKey {
                key,
                space,
                delays,
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
        if let Some((agreement, (_, now))) = self.tls.agree().zip(quinn_order::polled()) {
            self.connection.agreed(agreement, now);
        }
    }
}

impl Session for HeaderSession {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        let keys = self.tls.initial_keys(dst_cid, side.into());
        both_directions(keys, |keys| {
            self.watching(keys, CountedSpace::Initial, None)
        })
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
        let bytes = match self.connection.state().kept.feed.followed() {
            Some(_) if self.offers_headers => patient(bytes),
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
            NewKeys::Handshake(keys) => both_directions(keys, |keys| {
                self.watching(keys, CountedSpace::Handshake, None)
            }),
            NewKeys::OneRtt(keys) => both_directions(keys, |keys| self.packet_keys(keys)),
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.tls.next_keys()?;
        Some(self.packet_keys(keys))
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        retry(header, payload).is_some_and(|(packet, tag)| {
            let stock = &*self.stock;
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

fn both_directions(
    keys: rustls::quic::Keys,
    packet_keys: impl FnOnce(PacketKeySet) -> KeyPair<Box<dyn PacketKey>>,
) -> Keys {
    Keys {
        header: KeyPair {
            local: Box::new(keys.local.header),
            remote: Box::new(keys.remote.header),
        },
        packet: packet_keys(PacketKeySet {
            local: keys.local.packet,
            remote: keys.remote.packet,
        }),
    }
}
