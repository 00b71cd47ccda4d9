//! What all clients share: trust, socket, connection, the end.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use std::{fmt, io};

use futures_util::stream::{FuturesUnordered, StreamExt};
use quinn::{
    Connection, ConnectionError, Endpoint, Runtime, TokioRuntime, TransportErrorCode, VarInt,
};
use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::args::ReachArgs;
use super::failure::{Failure, plain, say};
use super::net::{self, Transport, read_file};
use super::signals::Signals;
use crate::accept::HANDSHAKE_TIMEOUT;
use crate::error::AppError;
use crate::lock::lock;
use crate::time::sleep_until;
use crate::tls::{Seen, Trust};

/// How long to wait for a server before asking whether there is one, and then before asking again.
const QUIET: Duration = Duration::from_millis(300);

/// How often in a row the answer has to be no: a server that has just been started has a second.
const REFUSALS: u32 = 3;

/// How long an address may take to answer before the next one is tried as well (RFC 8305,
/// section 5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

/// How long a server may be silent before a client asks whether it still runs.
const SILENCE: Duration = Duration::from_millis(500);

/// How long that question may take.
const QUESTION: Duration = Duration::from_secs(2);

/// An address of the server, and a socket that reaches it.
struct Route {
    endpoint: Endpoint,
    address: SocketAddr,
}

/// Why no connection came about.
pub(crate) enum Failed {
    /// The server's certificate is not the right one.
    Untrusted(Failure),
    /// Anything else.
    Unreached(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self::Unreached(failure)
    }
}

/// A client and the server it is about to connect to.
pub(crate) struct Client<'a> {
    pub(crate) transport: Transport,
    reach: &'a ReachArgs,
    trust: Trust,
    /// In the order in which to try them; at least one.
    routes: Vec<Route>,
    /// The route that led to the server.
    chosen: OnceLock<usize>,
    pub(crate) signals: Signals,
    /// How often it has connected anew.
    pub(crate) attempts: AtomicU64,
    /// Whether there is no server that a last packet could reach.
    is_alone: AtomicBool,
    /// Whether to print notices.
    tells: bool,
    /// It has said that the server is not authenticated.
    has_noticed: AtomicBool,
}

impl<'a> Client<'a> {
    /// Finds the server, and opens a socket. From here on a signal no longer ends the process.
    /// `tells` says whether to print notices.
    pub(crate) async fn open(
        reach: &'a ReachArgs,
        transport: Transport,
        tells: bool,
    ) -> Result<Self, Failure> {
        let trust = trust(reach).await?;
        let addresses = net::resolve(&reach.server, reach.bind).await?;
        let mut routes: Vec<Route> = Vec::new();
        let mut unbound = None;
        for address in addresses {
            let same = |route: &&Route| route.address.is_ipv4() == address.is_ipv4();
            let endpoint = match routes.iter().find(same) {
                Some(route) => Ok(route.endpoint.clone()),
                None => bind(&transport, reach.bind, address),
            };
            match endpoint {
                Ok(endpoint) => routes.push(Route { endpoint, address }),
                // A machine may have one IP version only.
                Err(failure) => unbound = Some(failure),
            }
        }
        if let Some(failure) = unbound.filter(|_| routes.is_empty()) {
            return Err(failure);
        }
        Ok(Self {
            transport,
            reach,
            trust,
            routes,
            chosen: OnceLock::new(),
            signals: Signals::listen()?,
            attempts: AtomicU64::new(0),
            is_alone: AtomicBool::new(false),
            tells,
            has_noticed: AtomicBool::new(false),
        })
    }

    /// Returns the server's address: the one that answered, if any did.
    pub(crate) fn address(&self) -> SocketAddr {
        self.routes[self.chosen.get().copied().unwrap_or(0)].address
    }

    /// Connects with the settings of `transport`; names the trace `trace`.
    pub(crate) async fn connect(
        &self,
        transport: &Transport,
        trace: &str,
    ) -> Result<Connection, Failure> {
        let handshake = self.handshake(transport, trace);
        self.signals.or_signal(handshake).await
    }

    /// Connects again to the address that has answered before; names the trace `trace`.
    pub(crate) async fn retry(&self, trace: &str) -> Result<Connection, Failed> {
        let chosen = self.chosen.get().copied().unwrap_or(0);
        let (_, connection) = self.attempt(chosen, &self.transport, trace).await?;
        self.is_alone.store(false, Ordering::Relaxed);
        Ok(connection)
    }

    /// Waits for the end of `running`, while `show` displays it. At a signal, closes the
    /// connection; `interrupted` then gives cause and remedy. `failed` begins an error's sentence.
    pub(crate) async fn attend<T>(
        &self,
        connection: &Connection,
        running: impl Future<Output = Result<T, AppError>>,
        show: impl Future<Output = Failure>,
        failed: &str,
        interrupted: impl FnOnce() -> (String, &'static str),
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = running => {
                result.map_err(|error| Failure::failed(format!("{failed}: {error}"), remedy(&error)))
            }
            failure = show => Err(failure),
            () = self.gone(connection), if !self.transport.application.reconnects => {
                self.is_alone.store(true, Ordering::Relaxed);
                Err(Failure::failed(
                    format!("{failed}: the server is gone: no program has its UDP port"),
                    "start it again, then try again",
                ))
            }
            signal = self.signals.received() => {
                evenkeel::close(connection, VarInt::from_u32(0), b"interrupted");
                let (cause, remedy) = interrupted();
                Err(Failure::interrupted(signal, cause, remedy))
            }
        }
    }

    /// Waits until the last packets have left.
    pub(crate) async fn farewell(&self) {
        if !self.is_alone.load(Ordering::Relaxed) {
            for route in &self.routes {
                net::farewell(&route.endpoint).await;
            }
        }
    }

    /// Waits until the server is silent and its system says that no program has its port. Where
    /// nobody says so, the connection's own patience decides.
    async fn gone(&self, connection: &Connection) {
        let from = self.reach.bind.map(|local| local.ip());
        let received = || connection.stats().udp_rx.datagrams;
        loop {
            let before = received();
            sleep_until(&TokioRuntime, TokioRuntime.now() + SILENCE).await;
            if received() != before {
                continue;
            }
            let answer = timeout(QUESTION, refusal(from, connection.remote_address())).await;
            let refused = answer.is_ok_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            if refused && received() == before {
                return;
            }
        }
    }

    /// Tries the server's addresses, each a little later than the one before, until one answers.
    async fn handshake(&self, transport: &Transport, trace: &str) -> Result<Connection, Failure> {
        let all = 0..self.routes.len();
        let mut left = match self.chosen.get() {
            Some(chosen) => *chosen..chosen + 1,
            None => all,
        };
        let (mut attempts, mut failed) = (FuturesUnordered::new(), None);
        loop {
            if attempts.is_empty() {
                let Some(next) = left.next() else {
                    return Err(failed.expect("there is an address, and nothing answered"));
                };
                attempts.push(self.attempt(next, transport, trace));
            }
            let patience = TokioRuntime.now() + NEXT_ADDRESS;
            tokio::select! {
                biased;
                Some(result) = attempts.next() => match result {
                    Ok((route, connection)) => {
                        self.is_alone.store(false, Ordering::Relaxed);
                        let _ = self.chosen.set(route);
                        return Ok(connection);
                    }
                    // It is the server that answers, and a reason for care.
                    Err(Failed::Untrusted(failure)) => return Err(failure),
                    Err(Failed::Unreached(failure)) => {
                        failed.get_or_insert(failure);
                    }
                },
                () = sleep_until(&TokioRuntime, patience), if !left.is_empty() => {
                    let next = left.next().expect("there is one");
                    attempts.push(self.attempt(next, transport, trace));
                }
            }
        }
    }

    /// Tries one address; returns its number as well.
    async fn attempt(
        &self,
        number: usize,
        transport: &Transport,
        trace: &str,
    ) -> Result<(usize, Connection), Failed> {
        let Route { endpoint, address } = &self.routes[number];
        let trace = match number {
            0 => trace.to_owned(),
            _ => format!("{trace}-address-{}", number + 1),
        };
        let application = transport.application.name;
        let (tls, sight) = (self.trust.clone())
            .client(transport.application.alpn)
            .map_err(|error| Failure::failed(error, "give --ca a PEM file of certificates"))?;
        let config = transport.client(tls, &trace)?;

        let name = self.reach.server_name.as_ref();
        let name = name.unwrap_or(&self.reach.server.host);
        let failure = |cause: &dyn fmt::Display| {
            Failure::failed(
                format!("cannot connect to {address}: {cause}"),
                format!(
                    "check that `evenkeel {application} server` runs there and that UDP gets through"
                ),
            )
        };
        let connecting = endpoint
            .connect_with(config, *address, name)
            .map_err(|error| failure(&error))?;
        let from = self.reach.bind.map(|local| local.ip());
        let connected = tokio::select! {
            biased;
            connected = timeout(HANDSHAKE_TIMEOUT, connecting) => connected,
            error = refusal(from, *address) => {
                self.is_alone.store(true, Ordering::Relaxed);
                return Err(Failed::Unreached(match error.kind() {
                    io::ErrorKind::ConnectionRefused => failure(&"no program has that UDP port"),
                    _ => failure(&plain(&error)),
                }));
            }
        };
        match connected {
            Err(_) | Ok(Err(ConnectionError::TimedOut)) => {
                let seconds = HANDSHAKE_TIMEOUT.as_secs();
                Err(failure(&format!("no answer within {seconds} s")).into())
            }
            Ok(Ok(connection)) => {
                if let (Trust::Anybody, Some(seen)) = (&self.trust, &*lock(&sight)) {
                    self.notice(seen);
                }
                Ok((number, connection))
            }
            Ok(Err(error)) => Err(match &*lock(&sight) {
                Some(seen) if seen.refusal.is_some() => Failed::Untrusted(self.untrusted(seen)),
                _ if speaks_another_protocol(&error) => Failed::Unreached(failure(&format!(
                    "what answers there is no `evenkeel {application} server`, or one of another \
                     version"
                ))),
                _ if is_full(&error) => Failed::Unreached(Failure::failed(
                    format!("cannot connect to {address}: the server is full"),
                    "try again later, or have it take more connections at once",
                )),
                _ => Failed::Unreached(failure(&error)),
            }),
        }
    }

    /// Says once that nothing proves who the server is, and what would.
    fn notice(&self, seen: &Seen) {
        if self.tells && !self.has_noticed.swap(true, Ordering::Relaxed) {
            say(&format!(
                "evenkeel: the server is not authenticated: anybody on the path can pose as it; \
                 instead of --insecure use --pin {} if the server printed the same",
                seen.fingerprint
            ));
        }
    }

    /// Explains a handshake that failed because of the server's certificate.
    fn untrusted(&self, seen: &Seen) -> Failure {
        let fingerprint = seen.fingerprint;
        match self.trust {
            Trust::Pin(pin) => Failure::failed(
                format!(
                    "the server's certificate is {fingerprint}, but --pin wants {pin}: \
                     another server or an attacker answers"
                ),
                "compare with the pin that the server printed at its start",
            ),
            Trust::Authorities(_) => {
                let refusal = seen.refusal.as_deref().unwrap_or("is not trusted");
                Failure::failed(
                    format!("the server's certificate ({fingerprint}) {refusal}"),
                    "check --ca and --server-name, or use --pin",
                )
            }
            Trust::Nobody | Trust::Anybody => Failure::failed(
                format!("the server's certificate is not trusted yet: {fingerprint}"),
                format!(
                    "if the server printed the same, run: evenkeel {} {} {} --pin {fingerprint}",
                    self.transport.application.name,
                    self.transport.application.client_name,
                    self.reach.server
                ),
            ),
        }
    }
}

/// Opens a socket from which `to` can be reached.
fn bind(
    transport: &Transport,
    from: Option<SocketAddr>,
    to: SocketAddr,
) -> Result<Endpoint, Failure> {
    let (local, remedy) = match from {
        Some(local) => (
            local,
            "give --bind an address of this machine and a free port",
        ),
        None => (any_for(to), "check the network set-up"),
    };
    let what = format!("cannot open a socket on {local}");
    let endpoint = transport.bind(local, None);
    endpoint.map_err(Failure::of_system(what, remedy))
}

/// Waits until the system has refused several times in a row to carry datagrams to `to`, from
/// `from` or any address: no program has the port (ICMP says so), no route leads there, or a
/// firewall rejects them. Never returns where nobody tells.
///
/// QUIC ignores these messages, because anybody can send them; so does this as long as the server
/// answers. A system passes them to connected sockets alone, hence a socket beside the endpoint's.
async fn refusal(from: Option<IpAddr>, to: SocketAddr) -> io::Error {
    let from = from.map_or(any_for(to), |ip| (ip, 0).into());
    let Ok(socket) = UdpSocket::bind(from).await else {
        return std::future::pending().await;
    };
    let mut refusals = 0;
    loop {
        sleep_until(&TokioRuntime, TokioRuntime.now() + QUIET).await;
        match timeout(QUIET, knock(&socket, to)).await {
            Ok(Err(error)) if refusals + 1 == REFUSALS => return error,
            Ok(Err(_)) => refusals += 1,
            Ok(Ok(())) | Err(_) => refusals = 0,
        }
    }
}

/// Returns any address and port from which `to` can be reached.
fn any_for(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Sends a datagram that no QUIC server answers, and waits for what comes back.
async fn knock(socket: &UdpSocket, to: SocketAddr) -> io::Result<()> {
    socket.connect(to).await?;
    socket.send(&[0]).await?;
    socket.recv(&mut [0]).await.map(|_| ())
}

/// Returns whom to trust as the server.
async fn trust(args: &ReachArgs) -> Result<Trust, Failure> {
    Ok(match (&args.pin, &args.ca, args.insecure) {
        (Some(pin), _, _) => Trust::Pin(*pin),
        (_, Some(path), _) => Trust::authorities(&read_file(path, "--ca").await?).map_err(|e| {
            Failure::failed(
                format!("{}: {e}", path.display()),
                "give --ca a PEM file of certificates",
            )
        })?,
        (_, _, true) => Trust::Anybody,
        _ => Trust::Nobody,
    })
}

/// Returns true if the server takes no more connections (RFC 9000, section 20.1).
fn is_full(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(close)
        if close.error_code == TransportErrorCode::CONNECTION_REFUSED)
}

/// Returns true if the server speaks none of our protocols (RFC 7301, section 3.2: alert 120).
fn speaks_another_protocol(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(close)
        if close.error_code == TransportErrorCode::crypto(120))
}

/// Returns the remedy for a transfer or stream that broke off.
fn remedy(error: &AppError) -> &'static str {
    match error {
        AppError::Connection(ConnectionError::TimedOut) => {
            "check that the server still runs and that UDP gets through, then try again"
        }
        AppError::Storage { error, .. } => match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room there, then try again"
            }
            io::ErrorKind::PermissionDenied => "choose a place that you may write to",
            io::ErrorKind::BrokenPipe => "see why the reader of the pipe ended",
            io::ErrorKind::UnexpectedEof | io::ErrorKind::Other => {
                "leave the file alone while it is sent, then try again"
            }
            _ => "check the disk and the limits on files, then try again",
        },
        AppError::Refused(_) => "ask for what it offers, or ask its owner to allow it",
        AppError::Nothing => {
            "have the encoder send key frames with their parameter sets (x265: repeat-headers=1), or \
             watch for longer"
        }
        _ => "see the server's own messages, then try again",
    }
}
