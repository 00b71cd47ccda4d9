//! What a router is told: a TOML file, read, checked and expanded.

mod fault;
mod file;

use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use evenkeel_queue::DeliveryTrace;
use evenkeel_queue::description::LinkDescription;

use crate::family::Family;
use crate::prefix::Prefix;

pub use fault::ConfigError;

/// Where status sockets are by default, one per router, as `NAME.sock`.
pub const SOCKET_DIRECTORY: &str = "/run/evenkeel";

/// A router as its file describes it; docs/router.md has all keys.
#[derive(Debug, Clone)]
pub struct Config {
    /// The router's name.
    pub name: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// The status socket.
    pub socket: PathBuf,
    /// Output links, in the order of the file; at least one.
    pub links: Vec<LinkSpec>,
}

/// An output link.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// Its name.
    pub name: String,
    /// Name of the TUN device that packets for it are routed to.
    pub tun: String,
    /// Rate, queue, delay and impairments.
    pub description: LinkDescription,
    /// The packet-delivery trace that it follows, if it does.
    pub trace: Option<DeliveryTrace>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// What is routed over it; at least one.
    pub routes: Vec<RouteSpec>,
    /// The routing table that leads on from it.
    pub table: u32,
    /// Where the file speaks of it.
    pub place: Place,
}

/// Destinations that are routed over a link.
#[derive(Debug, Clone)]
pub struct RouteSpec {
    /// The destinations.
    pub to: Prefix,
    /// The next router; `None` if the destinations are at the device itself.
    pub via: Option<IpAddr>,
    /// The device that packets leave by.
    pub dev: String,
    /// Where the file speaks of it.
    pub place: Place,
}

/// A line of a configuration file. Displays as `FILE:LINE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named.
    pub file: String,
    /// From 1.
    pub line: usize,
}

impl Config {
    /// Reads and checks a file, and the traces that it names.
    ///
    /// # Errors
    /// [`ConfigError`]: the first mistake, in one line with its place and the remedy.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = read_bounded(path, MAX_CONFIG_BYTES).map_err(|source| ConfigError::Read {
            path: path.to_owned(),
            source,
        })?;
        let directory = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, &path.display().to_string(), directory)
    }

    /// Checks a text; `file` names it in errors, paths in it are relative to `directory`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, file: &str, directory: &Path) -> Result<Self, ConfigError> {
        file::parse(text, file, directory).map_err(|fault| ConfigError::from_fault(fault, file))
    }

    /// The families of the routes.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        let routes = || self.links.iter().flat_map(|link| &link.routes);
        Family::ALL
            .into_iter()
            .filter(move |family| routes().any(|route| route.to.family() == *family))
    }
}

impl LinkSpec {
    /// The families of the routes.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| {
            let mut routes = self.routes.iter();
            routes.any(|route| route.to.family() == *family)
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", fault::OneLine(&self.file), self.line)
    }
}

/// Longer than any router has links for.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most `limit` bytes.
fn read_bounded(path: &Path, limit: u64) -> io::Result<String> {
    // A pipe or a device might never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    fs::File::open(path)?
        .take(limit + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        return Err(io::Error::other(format!("it is longer than {limit} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
