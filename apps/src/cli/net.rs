//! Sockets, names, and the settings of connections.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use evenkeel::{Observer, Pacing, SharedFactory};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, QlogConfig, Runtime, ServerConfig, TokioRuntime,
    TransportConfig,
    udp::{UdpSockRef, UdpSocketState},
};

use super::{
    Failure,
    args::{HostPort, TransportArgs},
};
use crate::{
    bulk::{self, TransportSettings},
    path::HeaderUse,
    stream,
    trace::Traces,
};

/// Socket buffers to ask the kernel for, 4 MiB: 30 ms at 1 Gb/s, as long as a busy
/// machine may keep this process waiting. It grants at most net.core.{r,w}mem_max.
const SOCKET_BUFFER: usize = 4 << 20;

/// How long the last packets get to leave after everything is said.
const FAREWELL: Duration = Duration::from_secs(1);

/// An application as its connections know it.
#[derive(Clone, Copy)]
pub(super) struct Application {
    /// As on the command line.
    pub(super) name: &'static str,
    /// Its protocol in the TLS handshake.
    pub(super) alpn: &'static [u8],
    transport: fn(TransportSettings) -> TransportConfig,
}

/// `evenkeel bulk`.
pub(super) const BULK: Application = Application {
    name: "bulk",
    alpn: bulk::ALPN,
    transport: bulk::transport_config,
};

/// `evenkeel stream`.
pub(super) const STREAM: Application = Application {
    name: "stream",
    alpn: stream::ALPN,
    transport: stream::transport_config,
};

/// What makes endpoints, and the settings of each new connection.
#[derive(Clone)]
pub(super) struct Transport {
    pub(super) application: Application,
    evenkeel: evenkeel::Endpoint,
    controller: SharedFactory,
    headers: HeaderUse,
    pacing: Pacing,
    settings: TransportSettings,
    /// Where traces go.
    traces: Option<Traces>,
}

impl Transport {
    /// As the command line has it, with traces in the directory `qlog`; with path headers as
    /// `unasked` says where neither it nor the controller wants any.
    ///
    /// # Errors
    /// If there is no such controller, or the directory cannot be had.
    pub(super) fn new(
        application: Application,
        args: &TransportArgs,
        unasked: HeaderUse,
        qlog: Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let wrong = |error| Failure::usage(error, "write --controller NAME or NAME:KEY=VALUE,...");
        let controller = evenkeel::controller(&args.controller).map_err(wrong)?;
        let headers = args.headers(unasked).map_err(wrong)?;
        if let Some(directory) = &qlog {
            std::fs::create_dir_all(directory).map_err(|error| qlog_failure(directory, &error))?;
        }
        let endpoint = evenkeel::Endpoint::new()
            .pacing(args.pacing)
            .probe_interval(args.probe_interval);
        Ok(Self {
            application,
            evenkeel: headers.set(endpoint),
            controller,
            headers,
            pacing: args.pacing,
            settings: args.settings(),
            traces: qlog.as_deref().map(Traces::new),
        })
    }

    /// The same with controllers that report to `observer`.
    pub(super) fn observed(&self, observer: Arc<dyn Observer>) -> Self {
        Self {
            controller: evenkeel::observed(self.controller.clone(), observer),
            ..self.clone()
        }
    }

    /// The same without traces.
    fn without_traces(&self) -> Self {
        Self {
            traces: None,
            ..self.clone()
        }
    }

    /// How path headers are used.
    pub(super) fn headers(&self) -> HeaderUse {
        self.headers
    }

    /// How packets are paced.
    pub(super) fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Whether each connection has settings of its own.
    pub(super) fn traces(&self) -> bool {
        self.traces.is_some()
    }

    /// Writes what is left of all traces, when the connections have ended.
    ///
    /// # Errors
    /// If a trace could not be written, now or earlier.
    pub(super) fn end_traces(&self) -> Result<(), Failure> {
        let ended = self.traces.as_ref().map_or(Ok(()), Traces::finish);
        ended.map_err(|error| qlog_failure(&error.path, &error.source))
    }

    /// For connections that are made; `trace` names this one's trace.
    ///
    /// # Errors
    /// If the trace cannot be created.
    pub(super) fn client(
        &self,
        tls: Arc<rustls::ClientConfig>,
        trace: &str,
    ) -> Result<ClientConfig, Failure> {
        let config = self.evenkeel.client_config(tls, self.connection(trace)?);
        Ok(config.expect("ring has the cipher suite of RFC 9001, section 5.2"))
    }

    /// For connections that are accepted, unless they get settings of their own.
    ///
    /// # Errors
    /// If there is a trace to create, and it cannot be.
    pub(super) fn server(&self, tls: Arc<rustls::ServerConfig>) -> Result<ServerConfig, Failure> {
        let transport = self.without_traces().connection("endpoint")?;
        let config = self.evenkeel.server_config(tls, transport);
        Ok(config.expect("ring has the cipher suite of RFC 9001, section 5.2"))
    }

    /// `trace` names this connection's trace.
    ///
    /// # Errors
    /// If the trace cannot be created.
    pub(super) fn connection(&self, trace: &str) -> Result<Arc<TransportConfig>, Failure> {
        let mut config = (self.application.transport)(self.settings);
        if let Some(traces) = &self.traces {
            let writer = traces
                .create(&format!("{trace}.sqlog"))
                .map_err(|error| qlog_failure(&error.path, &error.source))?;
            let mut qlog = QlogConfig::default();
            qlog.writer(writer)
                .title(Some(format!("evenkeel {} {trace}", self.application.name)))
                .start_time(TokioRuntime.now());
            config.qlog_stream(qlog.into_stream());
        }
        Ok(self.evenkeel.transport(config, self.controller.clone()))
    }

    /// A UDP endpoint on `address`; with `server` it accepts connections.
    ///
    /// # Errors
    /// `what` begins the sentence that says the address cannot be had, `remedy` ends it.
    pub(super) fn bind(
        &self,
        address: SocketAddr,
        server: Option<ServerConfig>,
        what: &str,
        remedy: &str,
    ) -> Result<Endpoint, Failure> {
        let socket = || {
            let socket = UdpSocket::bind(address)?;
            let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
            // Smaller buffers lose packets at high rates, but they work.
            let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
            let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
            self.evenkeel
                .bind_socket(EndpointConfig::default(), server, socket)
        };
        socket().map_err(|error| {
            Failure::failed(format!("{what} {address}: {}", plain(&error)), remedy)
        })
    }
}

/// Lets the other sides hear what was said last.
pub(super) async fn farewell(endpoint: &Endpoint) {
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

/// The first address of a server that can be reached from `local`, if that is given.
///
/// # Errors
/// If there is none.
pub(super) async fn resolve(
    server: &HostPort,
    local: Option<SocketAddr>,
) -> Result<SocketAddr, Failure> {
    let failure = |cause: &str| {
        Failure::failed(
            format!("cannot resolve {}: {cause}", server.host),
            "check the name, or give an IP address",
        )
    };
    let mut addresses = tokio::net::lookup_host((server.host.as_str(), server.port))
        .await
        .map_err(|error| failure(&plain(&error)))?
        .peekable();
    let first = *addresses
        .peek()
        .ok_or_else(|| failure("it has no address"))?;
    let Some(local) = local else {
        return Ok(first);
    };
    addresses
        .find(|address| address.is_ipv4() == local.is_ipv4())
        .ok_or_else(|| {
            Failure::failed(
                format!("no address of {} can be reached from {local}", server.host),
                format!("give --bind an address of {first}'s IP version"),
            )
        })
}

/// Reads a small file whole, such as a certificate.
///
/// # Errors
/// If it cannot be read; `option` is the one that named it.
pub(super) async fn read_file(path: &Path, option: &str) -> Result<Vec<u8>, Failure> {
    tokio::fs::read(path).await.map_err(|error| {
        Failure::failed(
            format!("cannot read {}: {}", path.display(), plain(&error)),
            format!("check the path given to {option}"),
        )
    })
}

/// A system error in lower case and without its number.
pub(super) fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}

fn qlog_failure(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {}", path.display(), plain(error)),
        "choose another --qlog directory",
    )
}
