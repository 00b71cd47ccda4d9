//! Makes quinn endpoints whose connections have a context.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_congestion::{EcnUse, Remembered, SharedFactory};
use evenkeel_headers::{ANSWERS, SetupError, Usage, with_room_for_header};
use quinn::{AsyncUdpSocket, ClientConfig, EndpointConfig, ServerConfig, TransportConfig, rustls};

use crate::connection::Connection;
use crate::handshake::Crypto;
use crate::pacing::Pacing;
use crate::quinn_order::Runtime;
use crate::quinn_order::paced::PacedFactory;
use crate::quinn_order::socket::{HeaderSettings, Socket};
use crate::resume_token::ResumeToken;

/// Makes an endpoint that accepts connections: `controller` governs what it sends, paced, and with
/// path headers for peers that understand them. The rest is quinn's.
///
/// `controller` is a name with parameters, as for [`controller`](crate::controller()); `"keel"` suits
/// unknown paths. [`EndpointBuilder`] has all other choices.
///
/// ```
/// # async fn example(tls: quinn::rustls::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint: quinn::Endpoint = evenkeel::server("[::]:4433".parse()?, tls, "keel")?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`SetupError`]. The caller must be in a tokio runtime.
pub fn server(
    address: SocketAddr,
    tls: impl Into<Arc<rustls::ServerConfig>>,
    controller: &str,
) -> Result<quinn::Endpoint, SetupError> {
    let (evenkeel, transport) = with_defaults(controller)?;
    let config = evenkeel.server_config(tls, transport)?;
    Ok(evenkeel.bind(address, Some(config))?)
}

/// Makes an endpoint that opens connections, from a local address such as `[::]:0`; otherwise like
/// [`server`].
///
/// ```
/// # async fn example(tls: quinn::rustls::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint: quinn::Endpoint = evenkeel::client("[::]:0".parse()?, tls, "keel")?;
/// let connection = endpoint.connect("[::1]:4433".parse()?, "localhost")?.await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`SetupError`]. The caller must be in a tokio runtime.
pub fn client(
    address: SocketAddr,
    tls: impl Into<Arc<rustls::ClientConfig>>,
    controller: &str,
) -> Result<quinn::Endpoint, SetupError> {
    let (evenkeel, transport) = with_defaults(controller)?;
    let config = evenkeel.client_config(tls, transport)?;
    let mut endpoint = evenkeel.bind(address, None)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// Packets by which one may be overtaken before [`server`] and [`client`] take it for lost; for
/// [`TransportConfig::packet_threshold`]. RFC 9002, section 6.1.1, recommends 3 and allows more.
/// Radio and bonded links reorder by more than 3: then each late packet would reduce the window.
pub const PACKET_THRESHOLD: u32 = 20;

/// Round trips after which an overtaken packet is lost in any case; for
/// [`TransportConfig::time_threshold`]. RFC 9002, section 6.1.2, recommends 9/8. With 5/4, few
/// packets that are late by less than a quarter of the round trip are sent twice.
pub const TIME_THRESHOLD: f32 = 1.25;

fn with_defaults(controller: &str) -> Result<(EndpointBuilder, Arc<TransportConfig>), SetupError> {
    let evenkeel = if evenkeel_congestion::uses_path_headers(controller)? {
        EndpointBuilder::new().path_headers(1)
    } else {
        EndpointBuilder::new().answer_path_headers()
    };
    let factory = evenkeel_congestion::controller(controller)?;
    let mut transport = TransportConfig::default();
    transport
        .packet_threshold(PACKET_THRESHOLD)
        .time_threshold(TIME_THRESHOLD);
    let transport = evenkeel.transport(transport, factory);
    Ok((evenkeel, transport))
}

/// Makes [`quinn::Endpoint`]s that pace each connection at its controller's rate, and use path
/// headers with peers that understand them.
///
/// ```
/// # async fn example(tls: quinn::rustls::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let evenkeel = evenkeel::EndpointBuilder::new().path_headers(1);
/// let controller = evenkeel::controller("keel")?;
/// let transport = evenkeel.transport(quinn::TransportConfig::default(), controller);
/// let server = evenkeel.server_config(tls, transport)?;
/// let endpoint: quinn::Endpoint = evenkeel.bind("[::]:4433".parse()?, Some(server))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EndpointBuilder {
    pacing: Pacing,
    ecn: EcnUse,
    probe_interval: Option<Duration>,
    memory: Option<Remembered>,
    headers: Usage<Connection>,
}

impl EndpointBuilder {
    /// Creates a configuration with pacing at the controller's rate and without path headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Chooses how packets are spread over a round trip.
    pub fn pacing(mut self, pacing: Pacing) -> Self {
        self.pacing = pacing;
        self
    }

    /// Chooses how to use ECN. A path that clears ECN, or marks every packet without a queue, is left
    /// without; one that turns ECT(1) into ECT(0) gets ECT(0). [`PathState::ecn`](crate::PathState::ecn) reports that.
    ///
    /// With [`EcnUse::L4s`], packets of a controller that asks for ECT(1) leave in bursts of at most
    /// 250 us, or one by one. The peer needs nothing but ECN of RFC 9000.
    pub fn ecn(mut self, ecn: EcnUse) -> Self {
        self.ecn = ecn;
        self
    }

    /// While something is in flight, sends a packet after each silence of `interval`, or of two
    /// smoothed round trips if that is longer. With `None`, the default, only the probes of
    /// RFC 9002, section 6.2, end a silence, and the time between those doubles: after a path was
    /// down for 30 s, the next probe may be 30 s away. With an interval, a packet arrives within
    /// the interval and a round trip after the path is back.
    ///
    /// The packet holds data if there is any, else a PING. RFC 9002 doubles the time so that
    /// senders stop filling a path that loses everything. Use an interval for links that come and
    /// go; it costs one packet per `interval` and connection. [`transport`](Self::transport)
    /// produces the PINGs by setting [`keep_alive_interval`](TransportConfig::keep_alive_interval)
    /// to seven eighths of `interval`, so an idle connection sends them too.
    pub fn probe_interval(mut self, interval: Option<Duration>) -> Self {
        self.probe_interval = interval;
        self
    }

    /// Begins a connection to `peer` with what its path carried before (RFC 9959): saves the round
    /// trips of slow start, on paths with long ones seconds. Goes into the configuration that
    /// [`transport`](Self::transport) makes next, which must be for this connection alone:
    /// [`quinn::Endpoint::connect_with`] and [`quinn::Incoming::accept_with`] take it. A memory
    /// of another address, or older than an hour at `now`, has no effect, nor has one for a
    /// controller that follows routers.
    ///
    /// A memory may be wrong, so it is believed step by step. First, the connection has its initial
    /// window acknowledged without a loss, in round trips of 0.75 to 1.25 times the remembered one.
    /// Then half of what the path carried may be in flight, paced over a round trip; while that is
    /// acknowledged, up to all of it. A loss, a mark or a queue of a quarter of the round trip ends
    /// it: the controller continues with half of what was delivered by then, and slow start leads to
    /// half of all that the path delivered of it.
    ///
    /// Even so, much of a round trip is lost where the path carries far less than half now. quinn
    /// 0.11 ends a connection in which a stream has more than 1024 gaps: the first window has at most
    /// 1600 packets, and grows by 400 in a round trip, for each of the `streams` over which the
    /// application spreads its data. Say 1 if in doubt.
    pub fn resuming(
        mut self,
        memory: &ResumeToken,
        peer: IpAddr,
        streams: u16,
        now: SystemTime,
    ) -> Self {
        let is_right = memory.is_for(peer, now);
        self.memory = is_right.then(|| memory.for_controller(streams));
        self
    }

    /// Offers path headers (`docs/path-header.md`). Until the peer has shown that it removes them,
    /// sends one with a copy of one datagram per round trip; then one datagram in `every` carries a
    /// header, and at least two per round trip. A controller can ask for fewer. With 0, the
    /// endpoint sends none and does not offer support. Any QUIC peer is served either way.
    ///
    /// A header takes 32 bytes, for which path MTU discovery leaves room. Choose an initial MTU
    /// that leaves room too.
    pub fn path_headers(mut self, every: u32) -> Self {
        self.headers.every = every;
        self
    }

    /// Offers path headers as [`path_headers`](Self::path_headers) does, but sends only two per
    /// round trip and those that answer the peer's: for endpoints that mainly receive, or whose
    /// controller does not use headers.
    pub fn answer_path_headers(self) -> Self {
        self.path_headers(ANSWERS)
    }

    /// Sets the TTL or hop limit of packets that abstract sockets send. Without it, path headers
    /// cannot show whether every router has stamped ([`complete`](crate::PathSample::complete)). The endpoint sets
    /// that of system sockets itself.
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.headers.hop_limit = Some(hop_limit);
        self
    }

    /// Makes a configuration for connections that this endpoint accepts; `transport` comes from
    /// [`transport`](Self::transport). Without path headers a peer sees what quinn's own sends.
    ///
    /// # Errors
    /// If `tls` does not suit QUIC: it must offer TLS 1.3 and `TLS13_AES_128_GCM_SHA256`, and its
    /// `max_early_data_size` must be 0 or `u32::MAX`.
    pub fn server_config(
        &self,
        tls: impl Into<Arc<rustls::ServerConfig>>,
        transport: Arc<TransportConfig>,
    ) -> Result<ServerConfig, rustls::Error> {
        let crypto = Crypto::server(tls.into(), &self.headers)?;
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        config.transport_config(transport);
        Ok(config)
    }

    /// Makes a configuration for connections that this endpoint opens, like
    /// [`server_config`](Self::server_config).
    ///
    /// # Errors
    /// As [`server_config`](Self::server_config).
    pub fn client_config(
        &self,
        tls: impl Into<Arc<rustls::ClientConfig>>,
        transport: Arc<TransportConfig>,
    ) -> Result<ClientConfig, rustls::Error> {
        let crypto = Crypto::client(tls.into(), &self.headers)?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(transport);
        Ok(config)
    }

    /// Gives connections with this configuration the controllers of `controller`, and a context.
    /// Run them on an endpoint made by [`bind`](Self::bind) or
    /// [`bind_abstract`](Self::bind_abstract): other endpoints do not pace them.
    pub fn transport(
        &self,
        mut config: TransportConfig,
        controller: SharedFactory,
    ) -> Arc<TransportConfig> {
        if let Some(interval) = self.probe_interval {
            // An eighth earlier: a PING is ready by then, however coarse the timers are.
            config.keep_alive_interval(Some(interval - interval / 8));
        }
        config.congestion_controller_factory(Arc::new(PacedFactory {
            factory: controller,
            connections: self.headers.connections.clone(),
            pacing: self.pacing,
            ecn: self.ecn,
            probe_interval: self.probe_interval,
            memory: self.memory,
        }));
        Arc::new(config)
    }

    /// Binds a UDP socket of the operating system, on tokio; pass `server` to accept connections.
    /// [`quinn::Endpoint::rebind`] keeps the contexts.
    ///
    /// # Errors
    /// If the address cannot be bound, or the caller is not in a tokio runtime.
    pub fn bind(
        &self,
        address: SocketAddr,
        server: Option<ServerConfig>,
    ) -> io::Result<quinn::Endpoint> {
        let socket = UdpSocket::bind(address)?;
        self.bind_socket(EndpointConfig::default(), server, socket)
    }

    /// Makes an endpoint as [`bind`](Self::bind) does, on a socket that is bound already.
    ///
    /// # Errors
    /// If the socket cannot be set up, or the caller is not in a tokio runtime.
    pub fn bind_socket(
        &self,
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: UdpSocket,
    ) -> io::Result<quinn::Endpoint> {
        let runtime = self.runtime(Arc::new(quinn::TokioRuntime), true);
        quinn::Endpoint::new(self.prepared(config), server, socket, runtime)
    }

    /// Makes an endpoint on any socket and runtime, such as virtual time. The timers of `runtime`
    /// pace the packets. Pass sockets through [`wrap_socket`](Self::wrap_socket) before
    /// [`quinn::Endpoint::rebind_abstract`].
    ///
    /// # Errors
    /// If the socket does not know its address.
    pub fn bind_abstract(
        &self,
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Arc<dyn AsyncUdpSocket>,
        runtime: Arc<dyn quinn::Runtime>,
    ) -> io::Result<quinn::Endpoint> {
        let socket = self.wrap_socket(socket, runtime.clone());
        let runtime = self.runtime(runtime, false);
        quinn::Endpoint::new_with_abstract_socket(self.prepared(config), server, socket, runtime)
    }

    /// Counts the connections that have a context, of all endpoints made with this configuration or
    /// its clones. A context lives as long as its connection and the [`Context`](crate::Context)s that refer to it.
    pub fn context_count(&self) -> usize {
        self.headers.connections.alive()
    }

    /// Wraps `socket` for [`quinn::Endpoint::rebind_abstract`], for an endpoint on `runtime`.
    pub fn wrap_socket(
        &self,
        socket: Arc<dyn AsyncUdpSocket>,
        runtime: Arc<dyn quinn::Runtime>,
    ) -> Arc<dyn AsyncUdpSocket> {
        Arc::new(Socket::new(socket, self.settings(runtime)))
    }

    fn runtime(&self, inner: Arc<dyn quinn::Runtime>, tokio: bool) -> Arc<Runtime> {
        Arc::new(Runtime {
            headers: self.settings(inner.clone()),
            inner,
            tokio,
        })
    }

    fn settings(&self, runtime: Arc<dyn quinn::Runtime>) -> Option<HeaderSettings> {
        let usage = self.headers.clone();
        usage
            .is_offered()
            .then_some(HeaderSettings { usage, runtime })
    }

    /// Prepares for path headers: makes room for one in receive buffers, and keeps the fixed bit,
    /// which distinguishes QUIC packets from headers.
    fn prepared(&self, mut config: EndpointConfig) -> EndpointConfig {
        if self.headers.is_offered() {
            let largest = with_room_for_header(config.get_max_udp_payload_size());
            config
                .max_udp_payload_size(largest)
                .expect("it was at least 1200 before");
            config.grease_quic_bit(false);
        }
        config
    }
}
