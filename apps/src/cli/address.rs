//! Reads addresses on the command line.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use rustls::pki_types::ServerName;

/// The default port of both sides.
pub(crate) const DEFAULT_PORT: u16 = 4433;

/// A server as the user typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPort {
    /// A name, or an IP address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl FromStr for HostPort {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not HOST, HOST:PORT or [IPV6]:PORT");
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
            host.parse::<Ipv6Addr>().map_err(|_| wrong())?;
            match rest {
                "" => (host, None),
                _ => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
            }
        } else if text.parse::<IpAddr>().is_ok() {
            (text, None)
        } else {
            match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            }
        };
        let port = match port.map(str::parse) {
            None => DEFAULT_PORT,
            Some(Ok(0)) => return Err("port 0 is no server's".into()),
            Some(Ok(port)) => port,
            Some(Err(_)) => return Err(wrong()),
        };
        server_name(host).map_err(|_| wrong())?;
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Reads an address to send from; port 0 takes any free one.
pub(crate) fn local(text: &str) -> Result<SocketAddr, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .map_or_else(|| text.parse(), |v6| v6.parse().map(IpAddr::V6));
    bare.map(|ip| SocketAddr::new(ip, 0))
        .or_else(|_| text.parse())
        .map_err(|_| format!("'{text}' is not ADDR, ADDR:PORT or [IPV6]:PORT"))
}

/// Reads a name that a certificate may contain.
pub(crate) fn server_name(name: &str) -> Result<String, String> {
    ServerName::try_from(name)
        .map(|_| name.to_owned())
        .map_err(|_| format!("'{name}' is no host name or IP address"))
}

/// Returns an IPv4 address for an IPv4 client of a socket for both families.
pub(crate) fn unmapped(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip().to_canonical(), client.port())
}

#[cfg(test)]
mod tests;
