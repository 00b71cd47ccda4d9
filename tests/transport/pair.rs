//! A client that floods a server, either of which may take path headers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::{Context, EcnUse, HeaderCounters, HeaderState, SharedFactory};
use quinn::{ServerConfig, TransportConfig};

use super::support::{
    Host, Net, Recorder, client_tls, flood, identity, server_tls, stock_client, stock_server,
};

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Stock,
    /// One datagram in this many carries a header; 0 for none.
    Evenkeel(u32),
    /// Answers headers.
    Answering,
    /// Uses ECT(1) where its controller asks for it, and no headers.
    L4s,
    /// Uses neither ECN nor headers.
    WithoutEcn,
}

impl Kind {
    fn endpoint(self) -> evenkeel::EndpointBuilder {
        let endpoint = evenkeel::EndpointBuilder::new().hop_limit(64);
        match self {
            Self::Stock => endpoint,
            Self::Evenkeel(every) => endpoint.path_headers(every),
            Self::Answering => endpoint.answer_path_headers(),
            Self::L4s => endpoint.ecn(EcnUse::L4s),
            Self::WithoutEcn => endpoint.ecn(EcnUse::Off),
        }
    }
}

/// A client that floods a server.
pub(crate) struct Pair {
    pub(crate) net: Net,
    pub(crate) client_socket: Arc<Recorder>,
    pub(crate) server_socket: Arc<Recorder>,
    pub(crate) client: quinn::Endpoint,
    pub(crate) client_side: evenkeel::EndpointBuilder,
    connection: Arc<Mutex<Option<quinn::Connection>>>,
    /// The server's side of it.
    pub(crate) accepted: Arc<Mutex<Option<quinn::Connection>>>,
    received: Arc<AtomicU64>,
}

impl Pair {
    pub(crate) fn new(client: Kind, server: Kind) -> Self {
        Self::on(Net::new(10_000_000, 10.0), client, server, reno())
    }

    pub(crate) fn on(mut net: Net, client: Kind, server: Kind, controller: SharedFactory) -> Self {
        let identity = identity();
        let server_socket = net.socket(Host::Receiver);
        let config = net.endpoint_config();
        let server = match server {
            Kind::Stock => quinn::Endpoint::new_with_abstract_socket(
                config,
                Some(stock_server(server_tls(&identity), plain())),
                server_socket.clone(),
                net.runtime(),
            ),
            _ => {
                let evenkeel = server.endpoint();
                let transport = evenkeel.transport(TransportConfig::default(), reno());
                let server: ServerConfig = evenkeel
                    .server_config(server_tls(&identity), transport)
                    .expect("a right configuration");
                evenkeel.bind_abstract(config, Some(server), server_socket.clone(), net.runtime())
            }
        }
        .expect("a bound socket");
        let address = server.local_addr().expect("a bound socket");
        let accepted = Arc::new(Mutex::new(None));
        let received = Arc::default();
        net.spawn(sink_into(
            server,
            net.runtime(),
            accepted.clone(),
            Arc::clone(&received),
        ));

        let client_socket = net.socket(Host::Sender);
        let config = net.endpoint_config();
        let client_side = client.endpoint();
        let mut endpoint = client_side
            .bind_abstract(config, None, client_socket.clone(), net.runtime())
            .expect("a bound socket");
        let config = match client {
            Kind::Stock => stock_client(client_tls(&identity), plain()),
            _ => {
                let transport = client_side.transport(TransportConfig::default(), controller);
                client_side
                    .client_config(client_tls(&identity), transport)
                    .expect("a right configuration")
            }
        };
        endpoint.set_default_client_config(config);
        let connection = Arc::new(Mutex::new(None));
        let (slot, connecting) = (connection.clone(), endpoint.connect(address, "localhost"));
        net.spawn(async move {
            let connection = connecting
                .expect("a right configuration")
                .await
                .expect("a path");
            *slot.lock().expect("no test panics in here") = Some(connection.clone());
            flood(connection).await;
        });
        Self {
            net,
            client_socket,
            server_socket,
            client: endpoint,
            client_side,
            connection,
            accepted,
            received,
        }
    }

    pub(crate) fn run(&mut self, time: Duration) {
        self.net.run_for(time);
    }

    pub(crate) fn connection(&self) -> quinn::Connection {
        let connection = self.connection.lock().expect("no test panics in here");
        connection.clone().expect("it is connected")
    }

    /// Contexts of the client's and the server's side.
    pub(crate) fn contexts(&self) -> (Option<Context>, Option<Context>) {
        let accepted = self
            .accepted
            .lock()
            .expect("no test panics in here")
            .clone();
        (
            Context::of(&self.connection()),
            Context::of(&accepted.expect("it is connected")),
        )
    }

    /// States and counters of the client's and the server's side.
    pub(crate) fn headers(&self) -> [(HeaderState, HeaderCounters); 2] {
        let (client, server) = self.contexts();
        [client, server].map(|context| {
            let context = context.expect("an evenkeel configuration");
            context.path_headers().expect("both take headers")
        })
    }

    /// Application bytes that the server has received.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Application bytes that arrive in `time`.
    pub(crate) fn progress(&mut self, time: Duration) -> u64 {
        let before = self.received();
        self.run(time);
        self.received() - before
    }
}

/// Reads all streams of the endpoint's connections, and shows the newest of these.
async fn sink_into(
    endpoint: quinn::Endpoint,
    runtime: Arc<evenkeel_testbed::sim::SimRuntime>,
    slot: Arc<Mutex<Option<quinn::Connection>>>,
    received: Arc<AtomicU64>,
) {
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connection) = incoming.await else {
            continue;
        };
        *slot.lock().expect("no test panics in here") = Some(connection.clone());
        quinn::Runtime::spawn(
            &*runtime,
            Box::pin(super::support::drain(connection, received.clone())),
        );
    }
}

/// Reno with slow start to the first loss, for which the figures of these tests were made.
pub(crate) fn reno() -> SharedFactory {
    evenkeel::controller("reno:hystart=false").expect("a name of the table")
}

pub(crate) fn plain() -> Arc<TransportConfig> {
    Arc::new(TransportConfig::default())
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn has_header(datagram: &[u8]) -> bool {
    datagram.starts_with(&evenkeel_wire::PATH_HEADER_MAGIC)
}

pub(crate) const HEADED: Kind = Kind::Evenkeel(1);
