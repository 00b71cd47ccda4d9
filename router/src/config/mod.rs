//! A router's configuration: a TOML file, read, checked and expanded.

mod fault;
mod file;
mod route;

use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::{fs, io, path};

use evenkeel_queue::DeliveryTrace;
use evenkeel_queue::description::LinkDescription;
use serde::Deserialize;

use crate::failure::Failure;
use crate::family::Family;

pub use route::{Entry, Mark, MarkError, RouteSpec, Selector, Via};
pub(crate) use route::{MAIN_TABLE, RULE_PRIORITY};

/// The default directory of status sockets, one per router, called `NAME.sock`.
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
    /// Where programs that monitor the router get its figures; nowhere if `None`.
    pub metrics: Option<MetricsAddress>,
    /// Output links, in the order of the file; at least one.
    pub links: Vec<LinkSpec>,
}

/// Where the metrics are. Displays as in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAddress {
    /// A port of a loopback address.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// An output link.
#[derive(Debug, Clone)]
pub struct LinkSpec {
    /// Its name.
    pub name: String,
    /// Name of the TUN device into which its packets are routed.
    pub tun: String,
    /// Rate, queue, delay and impairments.
    pub description: LinkDescription,
    /// The packet-delivery trace that the link follows, if any.
    pub trace: Option<DeliveryTrace>,
    /// Largest packet, in bytes.
    pub mtu: u32,
    /// Whether its device takes and gives superpackets, where the kernel can.
    pub offload: bool,
    /// When packets are moved.
    pub timing: Timing,
    /// What is routed over the link; at least one.
    pub routes: Vec<RouteSpec>,
    /// The routing table that leads onwards from the link.
    pub table: u32,
    /// Whether the file gives the table. A router that runs does not change another one.
    pub gives_table: bool,
    /// Its line in the file.
    pub place: Place,
}

/// When the packets of a link are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Timing {
    /// At each arrival and departure while there are few, else every 125 us.
    #[default]
    Efficient,
    /// At each arrival and departure, whatever it costs.
    Exact,
}

/// A line of a configuration file. Displays as `FILE:LINE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, named as the user named it.
    pub file: String,
    /// The line number, from 1.
    pub line: usize,
}

impl Config {
    /// Reads and checks a file, and the traces that it names.
    ///
    /// # Errors
    /// All mistakes, each in one line with its place and the remedy.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        Self::load_or(path, |source| {
            let remedy = match source.kind() {
                io::ErrorKind::InvalidData => "write it in UTF-8",
                io::ErrorKind::FileTooLarge => "is it the right file?",
                io::ErrorKind::PermissionDenied => "let this user read it",
                _ => "name a file with --config",
            };
            let path = fault::OneLine(path.display());
            Failure::usage(format!(
                "cannot read the configuration {path}: {source}; {remedy}"
            ))
        })
    }

    /// The same with another error for a file that cannot be read.
    pub(crate) fn load_or(
        path: &Path,
        unreadable: impl FnOnce(io::Error) -> Failure,
    ) -> Result<Self, Failure> {
        let text = read_bounded(path, MAX_CONFIG_BYTES).map_err(unreadable)?;
        // A router and those who ask it may stand in different directories.
        let absolute = path::absolute(path).map_err(Failure::system("the working directory"))?;
        let directory = absolute.parent().unwrap_or(Path::new("/"));
        Self::parse(&text, &path.display().to_string(), directory)
    }

    /// Checks a text; `file` names it in errors, and paths in it are relative to `directory`.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, file: &str, directory: &Path) -> Result<Self, Failure> {
        file::parse(text, file, directory)
            .map_err(|(root, faults)| fault::failure(&root, faults, file))
    }

    /// Returns the tables of a file with their keys: each table's title, which is empty for the
    /// outermost, and each key with what it means.
    pub fn keys() -> [(&'static str, Vec<(&'static str, &'static str)>); 3] {
        file::keys()
    }

    /// Returns the address families of the routes.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        let routes = || self.links.iter().flat_map(|link| &link.routes);
        Family::ALL
            .into_iter()
            .filter(move |family| routes().any(|route| route.to.family() == *family))
    }
}

impl LinkSpec {
    /// How far the second table of a link is from its first.
    pub(crate) const ENTRY_TABLE_OFFSET: u32 = 1000;

    /// Returns the table with the routes into the link to which rules of ours lead.
    pub fn entry_table(&self) -> u32 {
        self.table + Self::ENTRY_TABLE_OFFSET
    }

    /// Returns the tables that it has to itself.
    pub fn own_tables(&self) -> [u32; 2] {
        [self.table, self.entry_table()]
    }

    /// Returns the address families of the routes.
    pub fn families(&self) -> impl Iterator<Item = Family> {
        Family::ALL.into_iter().filter(|family| {
            let mut routes = self.routes.iter();
            routes.any(|route| route.to.family() == *family)
        })
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", fault::OneLine(&self.file), self.line)
    }
}

/// Longer than the configuration of any sensible router.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Reads a regular file of at most `limit` bytes.
fn read_bounded(path: &Path, limit: u64) -> io::Result<String> {
    // A pipe or a device might never end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(limit + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let message = format!("it is longer than {limit} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let message = format!("line {line} is not UTF-8");
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

#[cfg(test)]
mod tests;
