//! Makes quinn's own endpoints, whose connections have a context.

use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use evenkeel_congestion::SharedFactory;
use quinn::{AsyncUdpSocket, EndpointConfig, ServerConfig, TransportConfig};

use crate::cell::{Cell, Shared};
use crate::controller::{Paced, PacedFactory};
use crate::runtime::Runtime;
use crate::socket::Socket;
use crate::state::PathState;

/// Makes [`quinn::Endpoint`]s whose connections are paced at their controllers' rates.
///
/// ```
/// # async fn example(server_config: quinn::ServerConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let evenkeel = evenkeel::Endpoint::new();
/// let controller = evenkeel::controller("vegas")?;
/// let mut server_config = server_config;
/// server_config.transport_config(evenkeel.transport(quinn::TransportConfig::default(), controller));
/// let endpoint: quinn::Endpoint = evenkeel.bind("[::]:4433".parse()?, Some(server_config))?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Endpoint {
    pacing: bool,
    shared: Arc<Shared>,
}

impl Endpoint {
    /// Pacing is on.
    pub fn new() -> Self {
        Self {
            pacing: true,
            shared: Arc::default(),
        }
    }

    /// Whether packets are paced at the rate of the connection's controller. Off, quinn's own
    /// pacing remains, which lets at least ten packets leave at once.
    pub fn pacing(mut self, on: bool) -> Self {
        self.pacing = on;
        self
    }

    /// Gives connections with this configuration the controllers of `controller`, and a context.
    /// They must run on an endpoint that [`bind`](Self::bind) or
    /// [`bind_abstract`](Self::bind_abstract) made: on another they are not paced.
    pub fn transport(
        &self,
        mut config: TransportConfig,
        controller: SharedFactory,
    ) -> Arc<TransportConfig> {
        config.congestion_controller_factory(Arc::new(PacedFactory {
            factory: controller,
            shared: self.shared.clone(),
            pacing: self.pacing,
        }));
        Arc::new(config)
    }

    /// Binds a UDP socket of the operating system, on tokio; `server` if it is to accept
    /// connections. Rebinding the endpoint with [`quinn::Endpoint::rebind`] keeps contexts.
    ///
    /// # Errors
    /// If the address cannot be bound, or this is not called within a tokio runtime.
    pub fn bind(
        &self,
        address: SocketAddr,
        server: Option<ServerConfig>,
    ) -> io::Result<quinn::Endpoint> {
        let socket = UdpSocket::bind(address)?;
        self.bind_socket(EndpointConfig::default(), server, socket)
    }

    /// Like [`bind`](Self::bind), with a socket that is bound already.
    ///
    /// # Errors
    /// If the socket cannot be set up, or this is not called within a tokio runtime.
    pub fn bind_socket(
        &self,
        config: EndpointConfig,
        server: Option<ServerConfig>,
        socket: UdpSocket,
    ) -> io::Result<quinn::Endpoint> {
        quinn::Endpoint::new(config, server, socket, Arc::new(Runtime::tokio()))
    }

    /// An endpoint on any socket and runtime, virtual time among them. Packets are paced by the
    /// timers of `runtime`. A socket for [`quinn::Endpoint::rebind_abstract`] must come from
    /// [`wrap`](Self::wrap).
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
        let runtime = Arc::new(Runtime::new(runtime));
        quinn::Endpoint::new_with_abstract_socket(config, server, self.wrap(socket), runtime)
    }

    /// Connections that have a context, of all endpoints made with this configuration or its
    /// clones. A context lives as long as its connection and the [`Context`]s of it.
    pub fn contexts(&self) -> usize {
        self.shared.cells()
    }

    /// A socket for [`quinn::Endpoint::rebind_abstract`] around `socket`.
    pub fn wrap(&self, socket: Arc<dyn AsyncUdpSocket>) -> Arc<dyn AsyncUdpSocket> {
        Arc::new(Socket::new(socket))
    }
}

impl Default for Endpoint {
    fn default() -> Self {
        Self::new()
    }
}

/// What evenkeel knows of a connection, and can change while it runs. Clones, and contexts of
/// the same connection that are asked for later, are the same.
///
/// It does not keep the connection open.
#[derive(Clone)]
pub struct Context {
    cell: Arc<Cell>,
}

impl Context {
    /// The context of a connection; `None` if its configuration did not come from
    /// [`Endpoint::transport`].
    pub fn of(connection: &quinn::Connection) -> Option<Self> {
        let controller = connection.congestion_state().into_any();
        let paced = controller.downcast::<Paced>().ok()?;
        Some(Self {
            cell: paced.cell.clone(),
        })
    }

    /// The present path as the controller sees it.
    pub fn state(&self) -> PathState {
        self.cell.state().clone()
    }

    /// Lets another controller take over with the next ACK. It begins as on a new path, with its
    /// initial window; this path's and those that follow are its own.
    pub fn switch_controller(&self, controller: SharedFactory) {
        self.cell.choose(controller);
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.state()).finish()
    }
}
