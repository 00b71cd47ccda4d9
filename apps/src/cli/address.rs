//! Addresses on the command line.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use rustls::pki_types::ServerName;

/// The default port of both sides.
pub(crate) const DEFAULT_PORT: u16 = 4433;

/// A server as typed.
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

/// Reads an address to send from; port 0 is any free one.
pub(crate) fn local(text: &str) -> Result<SocketAddr, String> {
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .map_or_else(|| text.parse(), |v6| v6.parse().map(IpAddr::V6));
    bare.map(|ip| SocketAddr::new(ip, 0))
        .or_else(|_| text.parse())
        .map_err(|_| format!("'{text}' is not ADDR, ADDR:PORT or [IPV6]:PORT"))
}

/// Reads a name that a certificate may be for.
pub(crate) fn server_name(name: &str) -> Result<String, String> {
    ServerName::try_from(name)
        .map(|_| name.to_owned())
        .map_err(|_| format!("'{name}' is no host name or IP address"))
}

/// An IPv4 client of a socket for both families, as an IPv4 address.
pub(crate) fn unmapped(client: SocketAddr) -> SocketAddr {
    SocketAddr::new(client.ip().to_canonical(), client.port())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_a_server_or_an_error(text in "\\PC{0,40}") {
            let _ = text.parse::<HostPort>();
        }

        #[test]
        fn a_server_reads_back_as_shown(text in "[a-z]{1,9}(\\.[a-z]{1,9})?(:[1-9][0-9]{0,3})?") {
            let server: HostPort = text.parse().unwrap();
            prop_assert_eq!(server.to_string().parse::<HostPort>().unwrap(), server);
        }
    }

    #[test]
    fn local_addresses_are_read_with_and_without_port() {
        for (text, address) in [
            ("10.0.0.1", "10.0.0.1:0"),
            ("10.0.0.1:5000", "10.0.0.1:5000"),
            ("::1", "[::1]:0"),
            ("[::1]", "[::1]:0"),
            ("[::1]:5000", "[::1]:5000"),
        ] {
            assert_eq!(local(text).unwrap().to_string(), address);
        }
        for text in [
            "",
            "localhost",
            "10.0.0.1:",
            "10.0.0.1:65536",
            "[10.0.0.1]",
            "[::1",
            ":1",
        ] {
            assert!(local(text).is_err(), "{text}");
        }
    }

    #[test]
    fn servers_are_read_with_and_without_port() {
        for (text, host, port) in [
            ("example.org", "example.org", 4433),
            ("example.org:5000", "example.org", 5000),
            ("10.0.0.1", "10.0.0.1", 4433),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("::1", "::1", 4433),
            ("[::1]", "::1", 4433),
            ("[::1]:65535", "::1", 65535),
        ] {
            let expected = HostPort {
                host: host.into(),
                port,
            };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "", ":1", "a:", "a:0", "a:65536", "a:b", "a:1:2", "[::1", "[::1]1", "[a]:1", "a b",
        ] {
            assert!(text.parse::<HostPort>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_mapped_client_is_shown_as_ipv4() {
        let mapped = (Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 5).into();
        assert_eq!(unmapped(mapped).to_string(), "127.0.0.1:5");
        let v6: SocketAddr = (Ipv6Addr::LOCALHOST, 5).into();
        assert_eq!(unmapped(v6), v6);
    }
}
