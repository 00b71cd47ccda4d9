//! What the daemon may still do once the host is set up.

use std::path::{Path, PathBuf};

use evenkeel_sandbox::{Access, Capabilities, Rights};

use crate::config::{Config, MetricsAddress};

/// Returns what a router with this configuration needs from then on: to read the configuration at
/// `path` and traces anew, and to make and mend what links have in the kernel.
pub(crate) fn rights(config: &Config, path: &Path) -> Rights {
    let directory = parent(path);
    let traces = config.links.iter().filter_map(|link| {
        let trace = link.description.trace.as_ref()?;
        Some(parent(&directory.join(&trace.value)))
    });
    // A link to a file elsewhere leads there also when it is read again.
    let linked = path.canonicalize().ok().map(|path| parent(&path));
    let read = [directory.clone()].into_iter().chain(traces).chain(linked);
    let mut files: Vec<_> = read.map(|path| (path, Access::Read)).collect();
    files.extend([
        (PathBuf::from("/proc/sys/net"), Access::Change),
        (PathBuf::from("/dev/net/tun"), Access::Change),
        (parent(&config.socket), Access::Sockets),
    ]);
    if let Some(MetricsAddress::Unix(socket)) = &config.metrics {
        files.push((parent(socket), Access::Sockets));
    }
    Rights {
        capabilities: Some(Capabilities::NET_ADMIN),
        files,
        networks: true,
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory.to_owned(),
        _ => PathBuf::from("."),
    }
}
