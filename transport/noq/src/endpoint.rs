//! Makes noq endpoints whose connections use path headers and ECN.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use evenkeel_congestion::{EcnReport, EcnUse, PathSample};
use evenkeel_headers::{
    ANSWERS, HeaderCounters, HeaderState, Owner, SetupError, Usage, with_room_for_header,
};
use noq::{
    AsyncUdpSocket, ClientConfig, EndpointConfig, PathId, ServerConfig, TransportConfig, rustls,
};

use crate::connection::Connection;
use crate::driver::Runtime;
use crate::handshake::Crypto;
use crate::linked::{Link, LinkedFactory};
use crate::path_factory::SharedFactory;
use crate::socket::{HeaderSettings, Socket};

/// Makes a noq endpoint that accepts connections: `controller`, a name as for
/// [`controller`](crate::controller()), governs what it sends, with path headers for peers that
/// understand them. [`EndpointBuilder`] has all other choices.
///
/// ```
/// # async fn example(tls: noq::rustls::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint: noq::Endpoint = evenkeel_noq::server("[::]:4433".parse()?, tls, "ro-vegas")?;
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
) -> Result<noq::Endpoint, SetupError> {
    let (evenkeel, transport) = EndpointBuilder::running(controller)?;
    let config = evenkeel.server_config(tls, transport)?;
    Ok(evenkeel.bind(address, Some(config))?)
}

/// Makes a noq endpoint that opens connections, from a local address such as `[::]:0`; otherwise
/// like [`server`].
///
/// # Errors
/// [`SetupError`]. The caller must be in a tokio runtime.
pub fn client(
    address: SocketAddr,
    tls: impl Into<Arc<rustls::ClientConfig>>,
    controller: &str,
) -> Result<noq::Endpoint, SetupError> {
    let (evenkeel, transport) = EndpointBuilder::running(controller)?;
    let config = evenkeel.client_config(tls, transport)?;
    let endpoint = evenkeel.bind(address, None)?;
    endpoint.set_default_client_config(config);
    Ok(endpoint)
}

/// Makes [`noq::Endpoint`]s that use path headers with peers that understand them: those that this
/// makes, and those of `evenkeel::EndpointBuilder` on quinn; with any peer they use [ECN](Self::ecn). The
/// words are the same; noq paces.
///
/// Headers are used on connections with one path, noq's default. Where both ends offer several
/// ([`TransportConfig::max_concurrent_multipath_paths`]), the connection does without headers.
///
/// ```
/// # async fn example(tls: noq::rustls::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let evenkeel = evenkeel_noq::EndpointBuilder::new().path_headers(1);
/// let controller = evenkeel_noq::controller("ro-vegas")?;
/// let transport = evenkeel.transport(noq::TransportConfig::default(), controller);
/// let server = evenkeel.server_config(tls, transport)?;
/// let endpoint: noq::Endpoint = evenkeel.bind("[::]:4433".parse()?, Some(server))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct EndpointBuilder {
    headers: Usage<Connection>,
    ecn: EcnUse,
}

impl EndpointBuilder {
    /// Creates a configuration without path headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers path headers (`docs/path-header.md`). Once the peer echoes them, one datagram in
    /// `every` carries a header, and at least two per round trip; a controller can ask for fewer.
    /// With 0, the endpoint sends none and does not offer support. Any QUIC peer is served either
    /// way.
    ///
    /// A header takes 32 bytes, for which path MTU discovery leaves room.
    pub fn path_headers(mut self, every: u32) -> Self {
        self.headers.every = every;
        self
    }

    /// Offers path headers, but sends only two per round trip and those that answer the peer's: for
    /// endpoints that mainly receive, or whose controller does not use headers.
    pub fn answer_path_headers(self) -> Self {
        self.path_headers(ANSWERS)
    }

    /// Chooses how to use ECN. A path that clears ECN, or marks every packet without a queue, is
    /// left without; one that turns ECT(1) into ECT(0) gets ECT(0). [`Context::ecn`] reports that.
    ///
    /// With [`EcnUse::L4s`], packets of a controller that asks for ECT(1) leave as that, on each
    /// path of the connection. noq paces them in bursts of up to 2 ms, which an L4S queue marks.
    /// The peer needs nothing but ECN of RFC 9000.
    pub fn ecn(mut self, ecn: EcnUse) -> Self {
        self.ecn = ecn;
        self
    }

    /// Sets the TTL or hop limit of packets that abstract sockets send; without it,
    /// [`PathSample::complete`] stays false. The endpoint sets that of system sockets itself.
    pub fn hop_limit(mut self, hop_limit: u8) -> Self {
        self.headers.hop_limit = Some(hop_limit);
        self
    }

    /// Makes a configuration for connections that this endpoint accepts; `transport` comes from
    /// [`transport`](Self::transport).
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

    /// Gives connections with this configuration the controllers of `controller`, which hear what
    /// headers say. Run them on an endpoint made by [`bind`](Self::bind) or
    /// [`bind_abstract`](Self::bind_abstract).
    pub fn transport(
        &self,
        mut config: TransportConfig,
        controller: SharedFactory,
    ) -> Arc<TransportConfig> {
        config.congestion_controller_factory(Arc::new(LinkedFactory {
            factory: controller,
            connections: self.headers.connections.clone(),
            ecn: self.ecn,
        }));
        Arc::new(config)
    }

    /// Binds a UDP socket of the operating system, on tokio; pass `server` to accept connections.
    /// After [`noq::Endpoint::rebind`] headers begin anew.
    ///
    /// # Errors
    /// If the address cannot be bound, or the caller is not in a tokio runtime.
    pub fn bind(
        &self,
        address: SocketAddr,
        server: Option<ServerConfig>,
    ) -> io::Result<noq::Endpoint> {
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
    ) -> io::Result<noq::Endpoint> {
        let inner = noq::default_runtime();
        let inner = inner.ok_or_else(|| io::Error::other("there is no tokio runtime"))?;
        let runtime = self.runtime(inner);
        noq::Endpoint::new(self.prepared(config), server, socket, runtime)
    }

    /// Makes an endpoint on any socket and runtime, such as virtual time. Pass sockets through
    /// [`wrap_socket`](Self::wrap_socket) before [`noq::Endpoint::rebind_abstract`].
    ///
    /// # Errors
    /// If the socket does not know its address.
    pub fn bind_abstract(
        &self,
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: Box<dyn AsyncUdpSocket>,
        runtime: Arc<dyn noq::Runtime>,
    ) -> io::Result<noq::Endpoint> {
        let socket = self.wrap_socket(socket, runtime.clone());
        let runtime = self.runtime(runtime);
        noq::Endpoint::new_with_abstract_socket(self.prepared(config), server, socket, runtime)
    }

    /// Wraps `socket` for [`noq::Endpoint::rebind_abstract`], for an endpoint on `runtime`.
    pub fn wrap_socket(
        &self,
        socket: Box<dyn AsyncUdpSocket>,
        runtime: Arc<dyn noq::Runtime>,
    ) -> Box<dyn AsyncUdpSocket> {
        Box::new(Socket::new(socket, self.settings(runtime)))
    }

    /// Counts the connections that have a context, of all endpoints made with this configuration or
    /// its clones.
    pub fn context_count(&self) -> usize {
        self.headers.connections.alive()
    }

    /// What suits a controller, and its transport configuration.
    fn running(controller: &str) -> Result<(Self, Arc<TransportConfig>), SetupError> {
        let uses = evenkeel_congestion::uses_path_headers(controller)?;
        let evenkeel = Self::new().path_headers(if uses { 1 } else { ANSWERS });
        let factory = crate::controller(controller)?;
        let transport = evenkeel.transport(TransportConfig::default(), factory);
        Ok((evenkeel, transport))
    }

    fn runtime(&self, inner: Arc<dyn noq::Runtime>) -> Arc<Runtime> {
        let headers = self.settings(inner.clone());
        Arc::new(Runtime { inner, headers })
    }

    fn settings(&self, runtime: Arc<dyn noq::Runtime>) -> Option<HeaderSettings> {
        let usage = self.headers.clone();
        usage
            .is_offered()
            .then_some(HeaderSettings { usage, runtime })
    }

    /// Makes room for a header in receive buffers, and keeps the fixed bit, which distinguishes QUIC
    /// packets from headers.
    fn prepared(&self, mut config: EndpointConfig) -> EndpointConfig {
        if self.headers.is_offered() {
            let largest = with_room_for_header(config.get_max_udp_payload_size());
            let config = config.max_udp_payload_size(largest);
            config.expect("1200 or more").grease_quic_bit(false);
        }
        config
    }
}

/// A connection's path headers and ECN. Clones, and later contexts of the same connection,
/// share it. A context does not keep the connection open.
///
/// ```
/// # fn example(connection: &noq::Connection) {
/// let context = evenkeel_noq::Context::of(connection).expect("its transport came from evenkeel");
/// let forward_queueing = context.path_sample().and_then(|sample| sample.forward_queueing);
/// # drop(forward_queueing);
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    connection: Arc<Connection>,
}

impl Context {
    /// Returns the context of a connection; `None` if its configuration did not come from
    /// [`EndpointBuilder::transport`], or its first path is gone.
    pub fn of(connection: &noq::Connection) -> Option<Self> {
        let controller = connection.congestion_state(PathId::ZERO)?.into_any();
        let link = controller.downcast::<Link>().ok()?;
        Some(Self {
            connection: link.connection.clone(),
        })
    }

    /// Returns whether path headers are sent, and their counters; `None` if the connection does
    /// without them or the handshake is not complete.
    pub fn path_headers(&self) -> Option<(HeaderState, HeaderCounters)> {
        self.connection.reported()
    }

    /// Returns what the newest path header said about the path.
    pub fn path_sample(&self) -> Option<PathSample> {
        self.connection.path_sample()
    }

    /// Returns what a path of the connection does to ECN; `None` if it has not sent yet. Known on
    /// connections configured by [`EndpointBuilder::server_config`] or [`EndpointBuilder::client_config`].
    pub fn ecn(&self, path: PathId) -> Option<EcnReport> {
        self.connection.state().ecn(path, |ecn| ecn.report())
    }

    /// Limits the rate that this endpoint asks routers for, in bytes of UDP payload per second: the
    /// most that the application can use. `None`, the default, sets no limit.
    pub fn limit_requested_rate(&self, bytes_per_second: Option<u64>) {
        self.connection.state().kept.desired_rate = bytes_per_second;
    }
}
