//! A client's way to its server: trust, socket, connection.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use quinn::{Connection, ConnectionError, Endpoint, TransportErrorCode};

use super::{
    Failure,
    args::ReachArgs,
    net::{Application, Transport, read_file},
};
use crate::{
    error::AppError,
    tls::{Seen, Sight, Trust},
};

/// How long a server may take to answer, 10 s: enough for four packets in a row to be
/// lost, which RFC 9002, section 6.2, sends again after 1, 2 and 4 s.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Whom to take for the server.
///
/// # Errors
/// If a file cannot be read or has no certificates.
pub(super) async fn trust(args: &ReachArgs) -> Result<Trust, Failure> {
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

/// A socket that sends to `server`, from `local` if that is given.
pub(super) fn open(
    transport: &Transport,
    local: Option<SocketAddr>,
    server: SocketAddr,
) -> Result<Endpoint, Failure> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (address, remedy) = match local {
        Some(local) => (
            local,
            "give --bind an address of this machine and a free port",
        ),
        None => ((any, 0).into(), "check the network set-up"),
    };
    transport.bind(address, None, "cannot open a socket on", remedy)
}

/// Makes a connection, whose trace is called `trace`.
///
/// # Errors
/// If nobody answers, or not who should.
pub(super) async fn connect(
    args: &ReachArgs,
    transport: &Transport,
    trust: Trust,
    endpoint: &Endpoint,
    address: SocketAddr,
    trace: &str,
) -> Result<Connection, Failure> {
    let pinned = match &trust {
        Trust::Pin(pin) => Some(*pin),
        _ => None,
    };
    let (tls, sight) = trust
        .client(transport.application.alpn)
        .map_err(|error| Failure::failed(error, "give --ca a PEM file of certificates"))?;
    let config = transport.client(tls, trace)?;

    let name = args.server_name.as_ref().unwrap_or(&args.server.host);
    let failure = |cause: &dyn fmt::Display| {
        Failure::failed(
            format!("cannot connect to {address}: {cause}"),
            format!(
                "check that `evenkeel {} server` runs there and that UDP gets through",
                transport.application.name
            ),
        )
    };
    let connecting = endpoint
        .connect_with(config, address, name)
        .map_err(|error| failure(&error))?;
    let unanswered = || {
        let seconds = HANDSHAKE_TIMEOUT.as_secs();
        failure(&format!("no answer within {seconds} s"))
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await {
        Err(_) | Ok(Err(ConnectionError::TimedOut)) => Err(unanswered()),
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(match refusal(&sight) {
            Some(seen) => untrusted(
                transport.application,
                args,
                pinned.map(|pin| pin.to_string()),
                &seen,
            ),
            None if is_of_another_kind(&error) => failure(&format!(
                "what answers there is no `evenkeel {} server`, or one of another version",
                transport.application.name
            )),
            None => failure(&error),
        }),
    }
}

/// Whether the server speaks none of our protocols (RFC 7301, section 3.2: alert 120).
fn is_of_another_kind(error: &ConnectionError) -> bool {
    matches!(error, ConnectionError::ConnectionClosed(close)
        if close.error_code == TransportErrorCode::crypto(120))
}

/// What to do about a transfer or a stream that was broken off.
pub(super) fn remedy(error: &AppError) -> &'static str {
    match error {
        AppError::Connection(ConnectionError::TimedOut) => {
            "check that the server still runs and that UDP gets through, then try again"
        }
        _ => "see the server's own messages, then try again",
    }
}

/// The certificate, if it is why the handshake failed.
fn refusal(sight: &Sight) -> Option<Seen> {
    sight.seen().filter(|seen| seen.refusal.is_some())
}

fn untrusted(
    application: Application,
    args: &ReachArgs,
    pinned: Option<String>,
    seen: &Seen,
) -> Failure {
    let fingerprint = seen.fingerprint;
    if let Some(pinned) = pinned {
        return Failure::failed(
            format!(
                "the server's certificate is {fingerprint}, but --pin wants {pinned}: \
                 another server or an attacker answers"
            ),
            "compare with the pin that the server printed at its start",
        );
    }
    if args.ca.is_some() {
        let refusal = seen.refusal.as_deref().unwrap_or("is not trusted");
        return Failure::failed(
            format!("the server's certificate ({fingerprint}) {refusal}"),
            "check --ca and --server-name, or use --pin",
        );
    }
    Failure::failed(
        format!("the server's certificate is not trusted yet: {fingerprint}"),
        format!(
            "if the server printed the same, run: evenkeel {} client {} --pin {fingerprint}",
            application.name, args.server
        ),
    )
}
