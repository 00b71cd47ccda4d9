//! What all clients share: trust, socket, connection, the end.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use quinn::{Connection, ConnectionError, Endpoint, TransportErrorCode, VarInt};

use super::args::ReachArgs;
use super::failure::{Failure, plain};
use super::net::{self, Transport, read_file};
use super::signals::Signals;
use crate::accept::HANDSHAKE_TIMEOUT;
use crate::error::AppError;
use crate::tls::{Seen, Trust};

/// A client and the server it is about to connect to.
pub(crate) struct Client<'a> {
    pub(crate) transport: Transport,
    reach: &'a ReachArgs,
    trust: Trust,
    endpoint: Endpoint,
    address: SocketAddr,
    signals: Signals,
}

impl<'a> Client<'a> {
    /// Finds the server, and opens a socket. From here on a signal no longer ends the process.
    ///
    /// # Errors
    /// If a certificate file cannot be used, the server has no address, or no socket can be opened.
    pub(crate) async fn open(reach: &'a ReachArgs, transport: Transport) -> Result<Self, Failure> {
        let trust = trust(reach).await?;
        let address = net::resolve(&reach.server, reach.bind).await?;
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (local, remedy) = match reach.bind {
            Some(local) => (
                local,
                "give --bind an address of this machine and a free port",
            ),
            None => ((any, 0).into(), "check the network set-up"),
        };
        let endpoint = transport.bind(local, None).map_err(|error| {
            let cause = format!("cannot open a socket on {local}: {}", plain(&error));
            Failure::failed(cause, remedy)
        })?;
        Ok(Self {
            transport,
            reach,
            trust,
            endpoint,
            address,
            signals: Signals::listen()?,
        })
    }

    /// Runs a first `step`, and cancels it at a signal.
    pub(crate) async fn or_signal<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.signals.or_signal(step).await
    }

    /// Connects with the settings of `transport`; names the trace `trace`.
    ///
    /// # Errors
    /// If nobody or the wrong server answers, or a signal arrives.
    pub(crate) async fn connect(
        &self,
        transport: &Transport,
        trace: &str,
    ) -> Result<Connection, Failure> {
        self.or_signal(self.handshake(transport, trace)).await
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
            signal = self.signals.received() => {
                evenkeel::close(connection, VarInt::from_u32(0), b"interrupted");
                let (cause, remedy) = interrupted();
                Err(Failure::interrupted(signal, cause, remedy))
            }
        }
    }

    /// Waits until the last packets have left.
    pub(crate) async fn farewell(&self) {
        net::farewell(&self.endpoint).await;
    }

    async fn handshake(&self, transport: &Transport, trace: &str) -> Result<Connection, Failure> {
        let application = transport.application.name;
        let (tls, sight) = (self.trust.clone())
            .client(transport.application.alpn)
            .map_err(|error| Failure::failed(error, "give --ca a PEM file of certificates"))?;
        let config = transport.client(tls, trace)?;

        let name = self.reach.server_name.as_ref();
        let name = name.unwrap_or(&self.reach.server.host);
        let failure = |cause: &dyn fmt::Display| {
            Failure::failed(
                format!("cannot connect to {}: {cause}", self.address),
                format!(
                    "check that `evenkeel {application} server` runs there and that UDP gets through"
                ),
            )
        };
        let connecting = self
            .endpoint
            .connect_with(config, self.address, name)
            .map_err(|error| failure(&error))?;
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await {
            Err(_) | Ok(Err(ConnectionError::TimedOut)) => {
                let seconds = HANDSHAKE_TIMEOUT.as_secs();
                Err(failure(&format!("no answer within {seconds} s")))
            }
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(match sight.seen() {
                Some(seen) if seen.refusal.is_some() => self.untrusted(application, &seen),
                _ if speaks_another_protocol(&error) => failure(&format!(
                    "what answers there is no `evenkeel {application} server`, or one of another \
                     version"
                )),
                _ => failure(&error),
            }),
        }
    }

    /// Explains a handshake that failed because of the server's certificate.
    fn untrusted(&self, application: &str, seen: &Seen) -> Failure {
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
                    "if the server printed the same, run: evenkeel {application} client {} \
                     --pin {fingerprint}",
                    self.reach.server
                ),
            ),
        }
    }
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
        AppError::Refused(_) => "ask for what it offers, or ask whoever runs it",
        _ => "see the server's own messages, then try again",
    }
}
