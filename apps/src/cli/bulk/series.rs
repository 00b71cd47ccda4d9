//! Measures what moves through a server, interval by interval.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use quinn::Connection;
use serde::Serialize;

use super::output::{ServerInterval, StoppedCounts};
use crate::bulk::Progress;
use crate::cli::output::Record;
use crate::cli::series::Span;
use crate::cli::server::Clients;
use crate::lock::lock;

/// Records what moves through a server; skips intervals in which nothing does.
pub(crate) struct ServerSeries {
    progress: Arc<Progress>,
    reception: Arc<Reception>,
    /// The counters at the end of the last interval.
    before: Counts,
}

/// What a server has sent and received.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    bytes_sent: u64,
    bytes_received: u64,
    udp: UdpCounts,
}

/// UDP datagrams, and the bytes of their payload.
type UdpCounts = (u64, u64);

/// Counts what all connections of a server have received.
#[derive(Default)]
pub(crate) struct Reception(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    /// Connections by their stable identifiers.
    live: BTreeMap<usize, Connection>,
    ended: UdpCounts,
}

impl ServerSeries {
    /// Records what `progress` and `reception` count from now on.
    pub(crate) fn new(progress: Arc<Progress>, reception: Arc<Reception>) -> Self {
        Self {
            progress,
            reception,
            before: Counts::default(),
        }
    }

    /// Returns the record of a completed interval, if something moved in it.
    fn record(&mut self, span: Span) -> Option<ServerInterval> {
        let now = Counts {
            bytes_sent: self.progress.sent(),
            bytes_received: self.progress.received(),
            udp: self.reception.total(),
        };
        let before = std::mem::replace(&mut self.before, now);
        (now != before).then(|| ServerInterval {
            span,
            bytes_sent: now.bytes_sent - before.bytes_sent,
            bytes_received: now.bytes_received - before.bytes_received,
            udp_datagrams_received: now.udp.0 - before.udp.0,
            udp_bytes_received: now.udp.1 - before.udp.1,
        })
    }
}

impl Clients for ServerSeries {
    fn intervals(&mut self, span: Span, _is_rest: bool) -> Vec<impl Record> {
        self.record(span).into_iter().collect()
    }

    fn counts(&self, served: u64, failed: u64) -> impl Serialize {
        StoppedCounts {
            transfers: served,
            failed,
            bytes_sent: self.progress.sent(),
            bytes_received: self.progress.received(),
        }
    }

    fn connections(&self) -> Vec<Connection> {
        lock(&self.reception.0).live.values().cloned().collect()
    }
}

impl Reception {
    /// Counts what `connection` receives, until it has [`ended`](Self::ended).
    pub(crate) fn accepted(&self, connection: &Connection) {
        let mut connections = lock(&self.0);
        connections
            .live
            .insert(connection.stable_id(), connection.clone());
    }

    /// Keeps the counts of `connection`, but no longer the connection.
    pub(crate) fn ended(&self, connection: &Connection) {
        let mut connections = lock(&self.0);
        if connections.live.remove(&connection.stable_id()).is_some() {
            connections.ended = plus(connections.ended, connection);
        }
    }

    fn total(&self) -> UdpCounts {
        let connections = lock(&self.0);
        connections.live.values().fold(connections.ended, plus)
    }
}

fn plus((datagrams, bytes): UdpCounts, connection: &Connection) -> UdpCounts {
    let received = connection.stats().udp_rx;
    (datagrams + received.datagrams, bytes + received.bytes)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    use quinn::{ClientConfig, Endpoint, ServerConfig};

    use super::*;
    use crate::tls::{Identity, Trust};
    use evenkeel_tests::time::epoch;

    #[tokio::test]
    async fn a_connection_that_has_ended_is_counted_but_not_held() {
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let tls = Identity::self_signed().unwrap().server(b"test").unwrap();
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let server = Endpoint::server(ServerConfig::with_crypto(crypto), any).unwrap();
        let (tls, _) = Trust::Anybody.client(b"test").unwrap();
        let crypto = Arc::new(QuicClientConfig::try_from(tls).unwrap());
        let mut client = Endpoint::client(any).unwrap();
        client.set_default_client_config(ClientConfig::new(crypto));
        let connecting = client.connect(server.local_addr().unwrap(), "localhost");
        let incoming = async { server.accept().await.unwrap().await.unwrap() };
        let (ours, theirs) = tokio::join!(connecting.unwrap(), incoming);

        let reception = Reception::default();
        reception.accepted(&theirs);
        let first = reception.total();
        assert!(first.0 > 0 && first.1 > first.0);
        ours.unwrap().close(0u32.into(), b"");
        theirs.closed().await;
        let last = reception.total();
        assert!(last.0 > first.0);
        for _ in 0..2 {
            reception.ended(&theirs);
            assert_eq!(reception.total(), last);
            assert!(lock(&reception.0).live.is_empty());
        }
    }

    #[test]
    fn a_server_that_received_only_datagrams_has_moved_something() {
        let reception = Arc::new(Reception::default());
        let mut series = ServerSeries::new(Arc::default(), reception.clone());
        let span = Span {
            origin: epoch(),
            start_s: 0.0,
            end_s: 1.0,
        };
        assert!(series.record(span).is_none());
        lock(&reception.0).ended = (2, 77);
        let interval = series.record(span).unwrap();
        assert_eq!(
            (interval.udp_datagrams_received, interval.udp_bytes_received),
            (2, 77)
        );
        assert!(series.record(span).is_none());
    }
}
