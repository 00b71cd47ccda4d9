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
