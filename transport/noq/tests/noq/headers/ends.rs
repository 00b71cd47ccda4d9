//! A client that floods a server, each on noq or quinn, with path headers or without.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_noq::{EcnUse, HeaderCounters, HeaderState, Observer, PathSample};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};

use super::bridge::{Socket, Time};
use super::support::{
    Host, Net, Recorder, client_tls, drain, flood, identity, server_tls, stock_client, stock_server,
};

/// Who takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// noq, and quinn, with headers on every packet, or with answers.
    Noq,
    Quinn,
    NoqAnswers,
    QuinnAnswers,
    /// noq with headers, which offers several paths.
    NoqWithPaths,
    /// noq with ECT(1) and without headers, on one path and on several.
    NoqL4s,
    NoqL4sWithPaths,
    /// noq without ECN and headers.
    NoqWithoutEcn,
    /// Those that know nothing of headers.
    PlainNoq,
    PlainQuinn,
}

/// A connection at one of its ends.
#[derive(Debug, Clone)]
pub(crate) enum Connection {
    Noq(noq::Connection),
    Quinn(quinn::Connection),
}

impl Connection {
    /// State and counters of the headers, if the connection uses some.
    pub(crate) fn headers(&self) -> Option<(HeaderState, HeaderCounters)> {
        match self {
            Self::Noq(noq) => evenkeel_noq::Context::of(noq)?.path_headers(),
            Self::Quinn(quinn) => evenkeel::Context::of(quinn)?.path_headers(),
        }
    }

    pub(crate) fn sample(&self) -> Option<PathSample> {
        match self {
            Self::Noq(noq) => evenkeel_noq::Context::of(noq)?.path_sample(),
            Self::Quinn(quinn) => evenkeel::Context::of(quinn)?.path_sample(),
        }
    }

    /// The window in bytes.
    pub(crate) fn window(&self) -> u64 {
        match self {
            Self::Noq(noq) => {
                let stats = noq.path_stats(noq::PathId::ZERO);
                stats.expect("the path is there").cwnd
            }
            Self::Quinn(quinn) => quinn.stats().path.cwnd,
        }
    }

    /// Packets sent, and lost.
    pub(crate) fn packets(&self) -> (u64, u64) {
        match self {
            Self::Noq(noq) => {
                let stats = noq.path_stats(noq::PathId::ZERO);
                let stats = stats.expect("the path is there");
                (stats.sent_packets, stats.lost_packets)
            }
            Self::Quinn(quinn) => {
                let path = quinn.stats().path;
                (path.sent_packets, path.lost_packets)
            }
        }
    }
}

type Slot = Arc<Mutex<Option<Connection>>>;

enum Endpoint {
    Noq(noq::Endpoint),
    Quinn,
}

/// A client that floods a server.
pub(crate) struct Pair {
    pub(crate) net: Net,
    pub(crate) client_socket: Arc<Recorder>,
    pub(crate) server_socket: Arc<Recorder>,
    endpoint: Endpoint,
    client_side: Option<evenkeel_noq::EndpointBuilder>,
    slots: [Slot; 2],
    received: Arc<AtomicU64>,
}

/// Hears what the client's controller does.
pub(crate) type Ear = Arc<dyn Observer>;

/// Hears nothing.
pub(crate) struct Deaf;

impl Observer for Deaf {}

impl Kind {
    fn noq(self) -> Option<evenkeel_noq::EndpointBuilder> {
        let endpoint = evenkeel_noq::EndpointBuilder::new().hop_limit(64);
        match self {
            Self::Noq | Self::NoqWithPaths => Some(endpoint.path_headers(1)),
            Self::NoqAnswers => Some(endpoint.answer_path_headers()),
            Self::NoqL4s | Self::NoqL4sWithPaths => Some(endpoint.ecn(EcnUse::L4s)),
            Self::NoqWithoutEcn => Some(endpoint.ecn(EcnUse::Off)),
            Self::PlainNoq => Some(endpoint),
            _ => None,
        }
    }

    fn quinn(self) -> evenkeel::EndpointBuilder {
        let endpoint = evenkeel::EndpointBuilder::new().hop_limit(64);
        match self {
            Self::QuinnAnswers => endpoint.answer_path_headers(),
            _ => endpoint.path_headers(1),
        }
    }

    fn noq_transport(self) -> noq::TransportConfig {
        let mut transport = noq::TransportConfig::default();
        if matches!(self, Self::NoqWithPaths | Self::NoqL4sWithPaths) {
            transport.max_concurrent_multipath_paths(4);
        }
        transport
    }
}

impl Pair {
    /// Both run `spec`.
    pub(crate) fn new(client: Kind, server: Kind, spec: &str) -> Self {
        let net = Net::stamping(10_000_000, 10.0, 1500, &["aqt"], |link| link);
        Self::on(net, client, server, spec, Arc::new(Deaf))
    }

    pub(crate) fn on(net: Net, client: Kind, server: Kind, spec: &str, ear: Ear) -> Self {
        Self::governed(net, client, server, spec, ear, None)
    }

    /// A client on noq has `controller` instead, if there is one.
    pub(crate) fn governed(
        mut net: Net,
        client: Kind,
        server: Kind,
        spec: &str,
        ear: Ear,
        controller: Option<evenkeel_noq::SharedFactory>,
    ) -> Self {
        let identity = identity();
        let (slots, received): ([Slot; 2], Arc<AtomicU64>) = Default::default();
        let server_socket = net.socket(Host::Receiver);
        let mut tls = server_tls(&identity);
        tls.alpn_protocols = vec![b"flood".to_vec()];
        let (slot, counter) = (slots[1].clone(), received.clone());
        let address = if let Some(evenkeel) = server.noq() {
            let factory = evenkeel_noq::controller(spec).expect("a name of the table");
            let (transport, config) = (server.noq_transport(), noq_config(2));
            let socket = Box::new(Socket(server_socket.clone()));
            let time = Arc::new(Time(net.runtime()));
            let endpoint = if server == Kind::PlainNoq {
                let crypto = QuicServerConfig::try_from(tls).expect("ring has the suite");
                let server = noq::ServerConfig::with_crypto(Arc::new(crypto));
                noq::Endpoint::new_with_abstract_socket(config, Some(server), socket, time)
            } else {
                let transport = evenkeel.transport(transport, factory);
                let server = evenkeel.server_config(tls, transport);
                let server = server.expect("a right configuration");
                evenkeel.bind_abstract(config, Some(server), socket, time)
            }
            .expect("a bound socket");
            let address = endpoint.local_addr().expect("a bound socket");
            net.spawn(async move {
                let connection = endpoint.accept().await.expect("a client").await;
                let connection = connection.expect("a handshake");
                *lock(&slot) = Some(Connection::Noq(connection.clone()));
                while let Ok(mut stream) = connection.accept_uni().await {
                    while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX).await {
                        counter.fetch_add(chunk.len() as u64, Ordering::Relaxed);
                    }
                }
            });
            address
        } else {
            let config = net.endpoint_config();
            let (socket, time) = (server_socket.clone(), net.runtime());
            let endpoint = if server == Kind::PlainQuinn {
                let server = stock_server(tls, Arc::default());
                quinn::Endpoint::new_with_abstract_socket(config, Some(server), socket, time)
            } else {
                let evenkeel = server.quinn();
                let factory = evenkeel::controller(spec).expect("a name of the table");
                let transport = evenkeel.transport(quinn::TransportConfig::default(), factory);
                let server = evenkeel.server_config(tls, transport);
                let server = server.expect("a right configuration");
                evenkeel.bind_abstract(config, Some(server), socket, time)
            }
            .expect("a bound socket");
            let address = endpoint.local_addr().expect("a bound socket");
            net.spawn(async move {
                let connection = endpoint.accept().await.expect("a client").await;
                let connection = connection.expect("a handshake");
                *lock(&slot) = Some(Connection::Quinn(connection.clone()));
                drain(connection, counter).await;
            });
            address
        };

        let client_socket = net.socket(Host::Sender);
        let mut tls = client_tls(&identity);
        tls.alpn_protocols = vec![b"flood".to_vec()];
        let (slot, client_side) = (slots[0].clone(), client.noq());
        let endpoint = if let Some(evenkeel) = &client_side {
            let named = || evenkeel_noq::controller(spec).expect("a name of the table");
            let factory = evenkeel_noq::observed(controller.unwrap_or_else(named), ear);
            let socket = Box::new(Socket(client_socket.clone()));
            let time = Arc::new(Time(net.runtime()));
            let (config, endpoint) = if client == Kind::PlainNoq {
                let crypto = QuicClientConfig::try_from(tls).expect("ring has the suite");
                let config = noq::ClientConfig::new(Arc::new(crypto));
                let endpoint =
                    noq::Endpoint::new_with_abstract_socket(noq_config(1), None, socket, time);
                (config, endpoint)
            } else {
                let transport = evenkeel.transport(client.noq_transport(), factory);
                let config = evenkeel.client_config(tls, transport);
                let config = config.expect("a right configuration");
                let endpoint = evenkeel.bind_abstract(noq_config(1), None, socket, time);
                (config, endpoint)
            };
            let endpoint = endpoint.expect("a bound socket");
            let connecting = endpoint.connect_with(config, address, "localhost");
            net.spawn(async move {
                let connection = connecting.expect("a right configuration").await;
                let connection = connection.expect("a path");
                *lock(&slot) = Some(Connection::Noq(connection.clone()));
                let Ok(mut stream) = connection.open_uni().await else {
                    return;
                };
                let block = vec![0; 64 * 1024];
                while stream.write_all(&block).await.is_ok() {}
            });
            Endpoint::Noq(endpoint)
        } else {
            let config = net.endpoint_config();
            let (socket, time) = (client_socket.clone(), net.runtime());
            let (config, endpoint) = if client == Kind::PlainQuinn {
                let endpoint =
                    quinn::Endpoint::new_with_abstract_socket(config, None, socket, time);
                (stock_client(tls, Arc::default()), endpoint)
            } else {
                let evenkeel = client.quinn();
                let factory = evenkeel::controller(spec).expect("a name of the table");
                let factory = evenkeel::observed(factory, ear);
                let transport = evenkeel.transport(quinn::TransportConfig::default(), factory);
                let client = evenkeel.client_config(tls, transport);
                let endpoint = evenkeel.bind_abstract(config, None, socket, time);
                (client.expect("a right configuration"), endpoint)
            };
            let endpoint = endpoint.expect("a bound socket");
            let connecting = endpoint.connect_with(config, address, "localhost");
            net.spawn(async move {
                let connection = connecting.expect("a right configuration").await;
                let connection = connection.expect("a path");
                *lock(&slot) = Some(Connection::Quinn(connection.clone()));
                flood(connection).await;
            });
            Endpoint::Quinn
        };
        Self {
            net,
            client_socket,
            server_socket,
            endpoint,
            client_side,
            slots,
            received,
        }
    }

    pub(crate) fn run(&mut self, seconds: f64) {
        self.net.run_for(Duration::from_secs_f64(seconds));
    }

    /// The connection at its client and at its server.
    pub(crate) fn ends(&self) -> [Connection; 2] {
        let end = |slot: &Slot| lock(slot).clone().expect("it is connected");
        [end(&self.slots[0]), end(&self.slots[1])]
    }

    pub(crate) fn headers(&self) -> [(HeaderState, HeaderCounters); 2] {
        let both = self.ends();
        both.map(|end| end.headers().expect("both take headers"))
    }

    pub(crate) fn server_address(&self) -> std::net::SocketAddr {
        use quinn::AsyncUdpSocket as _;
        self.server_socket.local_addr().expect("a bound socket")
    }

    /// Bytes that the server's application has got.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Moves a client on noq to another socket. Returns that.
    pub(crate) fn rebind(&mut self, host: Host) -> Arc<Recorder> {
        let socket = self.net.socket(host);
        let Some((evenkeel, Endpoint::Noq(endpoint))) =
            self.client_side.as_ref().zip(Some(&self.endpoint))
        else {
            panic!("the client is on quinn");
        };
        let wrapped = evenkeel.wrap_socket(
            Box::new(Socket(socket.clone())),
            Arc::new(Time(self.net.runtime())),
        );
        endpoint.rebind_abstract(wrapped).expect("a bound socket");
        socket
    }
}

fn noq_config(seed: u8) -> noq::EndpointConfig {
    let mut config = noq::EndpointConfig::default();
    config.rng_seed(Some([seed; 32]));
    config
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no test panics in here")
}
