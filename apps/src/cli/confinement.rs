//! What a server may still do once its worker threads start.

use std::env;
use std::path::{Path, PathBuf};

use evenkeel_sandbox::{Access, Capabilities, Rights};
use tracing::debug;

use super::args::{ListenArgs, OutputArgs};
use super::failure::Failure;
use super::net::create_qlog_directory;

/// Ports below need a right of their own (net.ipv4.ip_unprivileged_port_start).
const FIRST_FREE_PORT: u16 = 1024;

/// Gives up, for good, what a server with these options does not need: `reads` is what it reads
/// beside its certificate.
pub(super) fn confine(
    at: &ListenArgs,
    output: &OutputArgs,
    reads: Option<&Path>,
) -> Result<(), Failure> {
    if at.no_sandbox {
        return Ok(());
    }
    let reads = [at.cert.as_deref(), at.key.as_deref(), reads];
    let reads = reads.into_iter().flatten().filter(|path| path.exists());
    let mut files: Vec<_> = reads.map(|path| (path.to_owned(), Access::Read)).collect();
    if let Some(directory) = &output.qlog {
        create_qlog_directory(directory)?;
        files.push((directory.clone(), Access::Fill));
    }
    // rustls opens it with the first configuration.
    if let Some(secrets) = env::var_os("SSLKEYLOGFILE") {
        let secrets = PathBuf::from(secrets);
        let directory = secrets.parent().filter(|path| path.is_dir());
        files.extend(directory.map(|path| (path.to_owned(), Access::Fill)));
    }
    let needs_port = at.listen.port() != 0 && at.listen.port() < FIRST_FREE_PORT;
    let rights = Rights {
        capabilities: needs_port.then_some(Capabilities::NET_BIND_SERVICE),
        files,
        networks: true,
    };
    let (confinement, _) = rights.confine().map_err(|error| {
        let text = error.to_string();
        let (cause, remedy) = text.split_once("; ").unwrap_or((&text, ""));
        Failure::failed(cause, remedy)
    })?;
    debug!(%confinement, "rights given up");
    Ok(())
}
