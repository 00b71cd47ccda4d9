//! Makes quinn endpoints whose connections have a context.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_congestion::{EcnUse, PathSample, Remembered, SharedFactory};
use evenkeel_headers::{
    ANSWERS, HeaderCounters, HeaderState, Owner, SetupError, Usage, with_room_for_header,
};
use quinn::{AsyncUdpSocket, ClientConfig, EndpointConfig, ServerConfig, TransportConfig, rustls};
use tokio::sync::oneshot;

use crate::capacity::{Probe, ProbeReport};
use crate::changes::Changes;
use crate::connection::{Beginning, Connection};
use crate::controller::{Paced, PacedFactory};
use crate::driver::Runtime;
use crate::handshake::Crypto;
use crate::memory::PathMemory;
use crate::pacing::Pacing;
use crate::path::PathState;
use crate::socket::{HeaderSettings, Socket};

/// Makes an endpoint that accepts connections: `controller` governs what it sends, paced, and with
/// path headers for peers that understand them. The rest is quinn's.
///
/// `controller` is a name with parameters, as for [`controller`](crate::controller); `"keel"` suits
/// unknown paths. [`Endpoint`] has all other choices.
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

fn with_defaults(controller: &str) -> Result<(Endpoint, Arc<TransportConfig>), SetupError> {
    let evenkeel = if evenkeel_congestion::uses_path_headers(controller)? {
        Endpoint::new().path_headers(1)
    } else {
        Endpoint::new().answer_path_headers()
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
/// let evenkeel = evenkeel::Endpoint::new().path_headers(1);
/// let controller = evenkeel::controller("keel")?;
/// let transport = evenkeel.transport(quinn::TransportConfig::default(), controller);
/// let server = evenkeel.server_config(tls, transport)?;
/// let endpoint: quinn::Endpoint = evenkeel.bind("[::]:4433".parse()?, Some(server))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Endpoint {
    pacing: Pacing,
    ecn: EcnUse,
    probe_interval: Option<Duration>,
    memory: Option<Remembered>,
    headers: Usage<Connection>,
}

impl Endpoint {
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
    /// without; one that turns ECT(1) into ECT(0) gets ECT(0). [`PathState::ecn`] reports that.
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
    pub fn remembering(
        mut self,
        memory: &PathMemory,
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
    /// cannot show whether every router has stamped ([`PathSample::complete`]). The endpoint sets
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
    /// pace the packets. Pass sockets through [`wrap`](Self::wrap) before
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
        let socket = self.wrap(socket, runtime.clone());
        let runtime = self.runtime(runtime, false);
        quinn::Endpoint::new_with_abstract_socket(self.prepared(config), server, socket, runtime)
    }

    /// Counts the connections that have a context, of all endpoints made with this configuration or
    /// its clones. A context lives as long as its connection and the [`Context`]s that refer to it.
    pub fn contexts(&self) -> usize {
        self.headers.connections.alive()
    }

    /// Wraps `socket` for [`quinn::Endpoint::rebind_abstract`], for an endpoint on `runtime`.
    pub fn wrap(
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

/// Closes a connection as [`quinn::Connection::close`] does, and informs the peer even while the
/// congestion window is full.
///
/// quinn-proto 0.11.19 counts CONNECTION_CLOSE against the window if data waits, and the window of
/// a closed connection never opens again: the peer would wait until its idle timeout (quinn's issue
/// 2785; RFC 9002, section 7, exempts packets that are not ack-eliciting). Without a [`Context`],
/// this only calls quinn's `close`.
pub fn close(connection: &quinn::Connection, code: quinn::VarInt, reason: &[u8]) {
    connection.close(code, reason);
    if let Some(context) = Context::of(connection) {
        // No more data leaves, so the window can be as large as it likes.
        context.connection.state().is_closed = true;
        // Closing a closed connection only wakes it.
        connection.close(code, reason);
    }
}

/// What evenkeel knows about a connection and can change while it runs. Clones, and later contexts
/// of the same connection, share it. A context does not keep the connection open.
#[derive(Clone)]
pub struct Context {
    connection: Arc<Connection>,
}

impl Context {
    /// Returns the context of a connection; `None` if its configuration did not come from
    /// [`Endpoint::transport`].
    pub fn of(connection: &quinn::Connection) -> Option<Self> {
        let controller = connection.congestion_state().into_any();
        let paced = controller.downcast::<Paced>().ok()?;
        Some(Self {
            connection: paced.connection.clone(),
        })
    }

    /// Returns the present path as the controller sees it.
    pub fn state(&self) -> PathState {
        self.connection.path_state()
    }

    /// Returns what the present path, to `peer`, carries at `now`, for a later connection to that
    /// address ([`Endpoint::remembering`]). `None` if too little was measured. Ask while the
    /// connection sends or soon after: what it delivered counts for 10 s.
    pub fn memory(&self, peer: IpAddr, now: SystemTime) -> Option<PathMemory> {
        PathMemory::of(&self.state(), peer, now)
    }

    /// Returns the coming changes of [`state`](Self::state), for those who would poll it otherwise.
    /// They come when ACKs or losses change it, at most once a round trip or 10 ms.
    pub fn changes(&self) -> Changes {
        Changes::new(self.connection.clone())
    }

    /// Finds out whether the path carries `bytes_per_second` of UDP payload: for `time`, at most
    /// 10 s, the connection paces at this rate, or at twice its
    /// [estimate](PathState::rate_estimate) if that is less, and may have as much in flight.
    ///
    /// The application must have as much to send meanwhile: quinn 0.11 pads nothing and sends no
    /// PINGs on request. Send media ahead of its time, datagrams that the peer drops
    /// ([`quinn::Connection::send_datagram`]), or a stream of low priority that you reset
    /// afterwards. Two round trips or more tell something; 0.2 s on most paths.
    ///
    /// The probe begins with the next ACK, and ends early when one of its packets is lost or
    /// marked, or when the round trip shows a queue of more than 25 ms plus a quarter of the least
    /// round trip, at least 10 ms. The controller hears of all that. If the path carries the rate,
    /// the controller goes on with what was delivered
    /// ([`Controller::resume`](crate::Controller::resume); quinn's own and `tfrc` do not), and the
    /// estimate follows.
    ///
    /// The future waits for the report. It is `None` if another probe takes its place, the path
    /// changes, or the connection ends. Dropping the future does not end the probe.
    pub fn probe(
        &self,
        bytes_per_second: u64,
        time: Duration,
    ) -> impl Future<Output = Option<ProbeReport>> + Send + use<> {
        let (reply, report) = oneshot::channel();
        let probe = Probe::new(bytes_per_second, time, reply);
        let mut state = self.connection.state();
        let dropped = if state.notifier.is_over() {
            Some(probe)
        } else {
            state.capacity.replace(probe)
        };
        drop(state);
        drop(dropped);
        async move { report.await.ok() }
    }

    /// Returns whether path headers are sent, and their counters; `None` if the peer does not
    /// understand them or the handshake is not complete.
    pub fn path_headers(&self) -> Option<(HeaderState, HeaderCounters)> {
        self.connection.reported()
    }

    /// Returns what the newest path header said about the path.
    pub fn path_sample(&self) -> Option<PathSample> {
        self.connection.path_sample()
    }

    /// Limits the rate that this endpoint asks routers for, in bytes of UDP payload per second: the
    /// most that the application can use. `None`, the default, sets no limit.
    pub fn desire(&self, bytes_per_second: Option<u64>) {
        self.connection.state().kept.desired_rate = bytes_per_second;
    }

    /// Switches to another controller with the next ACK, on this path and later ones. It continues
    /// in congestion avoidance with a window of what is in flight, or of RFC 9002's initial window
    /// if that is more, so that nothing leaves in a burst
    /// ([`Controller::resume`](crate::Controller::resume)). `tfrc` and quinn's own controllers
    /// begin as on a new path.
    pub fn switch_controller(&self, controller: SharedFactory) {
        let mut state = self.connection.state();
        let before = state.choose(controller, Beginning::Resumed);
        drop(state);
        drop(before);
    }

    /// Switches to another controller with the next ACK, on this path and later ones. It begins as on
    /// a new path, in slow start with its initial window: for a transfer that is to be compared with
    /// those of other connections. The future waits for it: have the peer acknowledge something.
    /// It is `None` if another choice takes its place or the connection ends. Dropping the future
    /// changes nothing.
    pub fn restart_controller(
        &self,
        controller: SharedFactory,
    ) -> impl Future<Output = Option<()>> + Send + use<> {
        let (begun, beginning) = oneshot::channel();
        let mut state = self.connection.state();
        let dropped = match state.notifier.is_over() {
            true => Some(Beginning::Anew(begun)),
            false => state.choose(controller, Beginning::Anew(begun)),
        };
        drop(state);
        drop(dropped);
        async move { beginning.await.ok() }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.state()).finish()
    }
}
