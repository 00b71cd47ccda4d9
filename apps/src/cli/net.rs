//! Opens sockets, resolves names, and configures connections.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::{Controllers, EcnMode, EcnUse, Observer, Pacing, ResumeToken, SharedFactory};
use quinn::udp::{UdpSockRef, UdpSocketState};
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, QlogConfig, Runtime, ServerConfig, TokioRuntime,
    TransportConfig,
};

use super::address::HostPort;
use super::args::TransportArgs;
use super::failure::{Failure, plain, say};
use crate::bulk::TransportSettings;
use crate::path::HeaderUse;
use crate::trace::{TraceError, Traces, Waiting};
use crate::{bulk, stream};

/// Socket buffers to request from the kernel, 4 MiB: 30 ms at 1 Gb/s, as long as a busy machine may
/// keep this process waiting. It grants at most net.core.{r,w}mem_max.
const SOCKET_BUFFER: usize = 4 << 20;

/// The option that names the directory of traces.
const QLOG: &str = "--qlog directory";

/// How long the last packets may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the connections of an application share.
#[derive(Clone, Copy)]
pub(crate) struct Application {
    /// Its subcommand.
    pub(crate) name: &'static str,
    /// The subcommand of a server's clients.
    pub(crate) client_name: &'static str,
    /// Its protocol in the TLS handshake.
    pub(crate) alpn: &'static [u8],
    client: fn(TransportSettings) -> TransportConfig,
    server: fn(TransportSettings) -> TransportConfig,
    /// How often a sender whose packets nobody acknowledges sends another, unless a user says so.
    probe_interval: Option<Duration>,
    /// Whether its clients connect anew when the server falls silent.
    pub(crate) reconnects: bool,
}

impl Application {
    /// Returns the same, whose clients give up where others connect anew.
    pub(crate) const fn without_reconnecting(self) -> Self {
        Self {
            reconnects: false,
            ..self
        }
    }

    /// Returns the same, whose clients have another subcommand.
    pub(crate) fn with_clients(self, client_name: &'static str) -> Self {
        Self {
            client_name,
            ..self
        }
    }
}

/// `evenkeel bulk`.
pub(crate) const BULK: Application = Application {
    name: "bulk",
    client_name: "client",
    alpn: bulk::ALPN,
    client: |settings| bulk::with_pings(bulk::transport_config(settings)),
    server: |settings| bulk::with_pings(bulk::server_transport_config(settings)),
    probe_interval: None,
    reconnects: false,
};

/// `evenkeel stream`.
pub(crate) const STREAM: Application = Application {
    name: "stream",
    client_name: "client",
    alpn: stream::ALPN,
    client: stream::viewer_transport_config,
    server: stream::server_transport_config,
    // After an outage of 8 s, intervals that double would wait up to 8 s more.
    probe_interval: Some(Duration::from_millis(500)),
    reconnects: true,
};

/// Makes endpoints, and configures each new connection.
#[derive(Clone)]
pub(crate) struct Transport {
    pub(crate) application: Application,
    /// How to use path headers.
    pub(crate) headers: HeaderUse,
    pub(crate) pacing: Pacing,
    /// Where traces go; with traces, each connection gets its own settings.
    pub(crate) traces: Option<Traces>,
    evenkeel: evenkeel::EndpointBuilder,
    controller: SharedFactory,
    settings: TransportSettings,
}

impl Transport {
    /// Takes the settings of the command line, whose controller is one of `controllers`, and writes
    /// traces to the directory `qlog`. `unasked` says how to use path headers if neither the command
    /// line nor the controller asks for them.
    pub(crate) fn new(
        application: Application,
        args: &TransportArgs,
        unasked: HeaderUse,
        qlog: Option<&Path>,
        controllers: &Controllers,
    ) -> Result<Self, Failure> {
        let wrong = |error| Failure::usage(error, "write --controller NAME or NAME:KEY=VALUE,...");
        let controller = controllers.factory(&args.controller).map_err(wrong)?;
        let headers = args.headers(unasked, controllers).map_err(wrong)?;
        if args.ecn == EcnUse::L4s && !answers_marks(&controller) {
            say(&format!(
                "evenkeel: --ecn l4s: {} sends ECT(0) as before; keel answers the marks of L4S",
                args.controller
            ));
        }
        if let Some(directory) = qlog {
            create_qlog_directory(directory)?;
        }
        let endpoint = evenkeel::EndpointBuilder::new()
            .pacing(args.pacing)
            .ecn(args.ecn)
            .probe_interval(args.probe_interval.or(application.probe_interval));
        Ok(Self {
            application,
            evenkeel: headers.set(endpoint),
            controller,
            headers,
            pacing: args.pacing,
            settings: args.settings,
            traces: qlog.map(Traces::new),
        })
    }

    /// Returns the same, with the controllers that `factory` builds.
    pub(crate) fn controlled(&self, factory: SharedFactory) -> Self {
        Self {
            controller: factory,
            ..self.clone()
        }
    }

    /// Returns the same, with controllers that report to `observer`.
    pub(crate) fn observed(&self, observer: Arc<dyn Observer>) -> Self {
        Self {
            controller: evenkeel::observed(self.controller.clone(), observer),
            ..self.clone()
        }
    }

    /// Returns the same, for a connection to `peer` over at least `streams` streams whose path carried
    /// `memory`, at `memory`'s time.
    pub(crate) fn remembering(&self, memory: &ResumeToken, peer: IpAddr, streams: u16) -> Self {
        let evenkeel = self.evenkeel.clone();
        Self {
            evenkeel: evenkeel.resuming(memory, peer, streams, memory.at),
            ..self.clone()
        }
    }

    /// Writes the rest of all traces. Call it when the connections have ended.
    pub(crate) fn end_traces(&self) -> Result<(), Failure> {
        let ended = self.traces.as_ref().map_or(Ok(()), Traces::finish);
        ended.map_err(untraced)
    }

    /// Configures a client's connection, whose trace is called `trace`.
    pub(crate) fn client(
        &self,
        tls: Arc<rustls::ClientConfig>,
        trace: &str,
    ) -> Result<ClientConfig, Failure> {
        let writer = self.traces.as_ref().map(|traces| traces.create_new(trace));
        let writer = writer.transpose().map_err(untraced)?;
        let transport = self.connection(self.application.client, writer, trace);
        let config = self.evenkeel.client_config(tls, transport);
        Ok(config.expect("ring has the cipher suite of RFC 9001, section 5.2"))
    }

    /// Configures accepted connections that have no settings of their own.
    pub(crate) fn server(&self, tls: Arc<rustls::ServerConfig>) -> ServerConfig {
        let transport = self.connection(self.application.server, None, "");
        let config = self.evenkeel.server_config(tls, transport);
        config.expect("ring has the cipher suite of RFC 9001, section 5.2")
    }

    /// Configures one connection that a server may accept. Its trace, if any, has no file before
    /// the handshake is finished.
    pub(crate) fn attempt(&self) -> (Arc<TransportConfig>, Option<Waiting>) {
        let trace = self.traces.as_ref().map(Traces::create_later);
        let (writer, waiting) = trace.unzip();
        let transport = self.connection(self.application.server, writer, "server");
        (transport, waiting)
    }

    /// Configures one connection, which `writer` traces under `name`.
    fn connection(
        &self,
        config: fn(TransportSettings) -> TransportConfig,
        writer: Option<Box<dyn Write + Send + Sync>>,
        name: &str,
    ) -> Arc<TransportConfig> {
        let mut config = config(self.settings);
        if let Some(writer) = writer {
            let mut qlog = QlogConfig::default();
            qlog.writer(writer)
                .title(Some(format!("evenkeel {} {name}", self.application.name)))
                .start_time(TokioRuntime.now());
            config.qlog_stream(qlog.into_stream());
        }
        self.evenkeel.transport(config, self.controller.clone())
    }

    /// Binds a UDP endpoint on `address`; with `server` it accepts connections.
    pub(crate) fn bind(
        &self,
        address: SocketAddr,
        server: Option<ServerConfig>,
    ) -> io::Result<Endpoint> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Smaller buffers work, but lose packets at high rates.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        self.evenkeel
            .bind_socket(EndpointConfig::default(), server, socket)
    }
}

/// Whether the packets of `factory`'s controllers may leave as ECT(1).
fn answers_marks(factory: &SharedFactory) -> bool {
    let build = factory.own();
    build.is_some_and(|build| build(TokioRuntime.now(), 1200).ecn() == EcnMode::Scalable)
}

/// Creates the directory of traces if need be.
pub(crate) fn create_qlog_directory(path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(path).map_err(Failure::unwritable(path, QLOG))
}

/// Reports a trace that cannot be written.
pub(crate) fn untraced(error: TraceError) -> Failure {
    Failure::unwritable(&error.path, QLOG)(error.source)
}

/// Waits until the last packets have left.
pub(crate) async fn farewell(endpoint: &Endpoint) {
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
}

/// Returns the addresses of a server that can be reached from `local`, if given, at least one, in the
/// order in which to try them.
pub(crate) async fn resolve(
    server: &HostPort,
    local: Option<SocketAddr>,
) -> Result<Vec<SocketAddr>, Failure> {
    let failure = |cause: &str| {
        Failure::failed(
            format!("cannot resolve {}: {cause}", server.host),
            "check the name, or give an IP address",
        )
    };
    let found = tokio::net::lookup_host((server.host.as_str(), server.port)).await;
    let mut addresses: Vec<_> = found.map_err(|error| failure(&plain(&error)))?.collect();
    let first = *addresses
        .first()
        .ok_or_else(|| failure("it has no address"))?;
    if let Some(local) = local {
        addresses.retain(|address| address.is_ipv4() == local.is_ipv4());
        if addresses.is_empty() {
            return Err(Failure::failed(
                format!("no address of {} can be reached from {local}", server.host),
                format!("give --bind an address of {first}'s IP version"),
            ));
        }
    }
    Ok(alternating(addresses))
}

/// Puts addresses of both IP versions in turns, beginning with the first's (RFC 8305, section 4).
fn alternating(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let is_first = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let (first, other): (Vec<_>, Vec<_>) =
        (addresses.into_iter()).partition(|address| address.is_ipv4() == is_first);
    let (mut first, mut other) = (first.into_iter(), other.into_iter());
    let mut turns = Vec::new();
    loop {
        let before = turns.len();
        turns.extend(first.next());
        turns.extend(other.next());
        if turns.len() == before {
            return turns;
        }
    }
}

/// Reads a small file, such as a certificate, given to `option`.
pub(crate) async fn read_file(path: &Path, option: &str) -> Result<Vec<u8>, Failure> {
    let read = tokio::fs::read(path).await;
    read.map_err(Failure::unreadable(path, option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_ip_versions_are_tried_in_turns() {
        let parse = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let found = parse(&["[::1]:1", "[::2]:1", "[::3]:1", "1.1.1.1:1", "2.2.2.2:1"]);
        let turns = parse(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "2.2.2.2:1", "[::3]:1"]);
        assert_eq!(alternating(found), turns);
        assert_eq!(alternating(Vec::new()), []);
    }
}
