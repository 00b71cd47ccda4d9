//! First packets of clients, to send them from anywhere: what an attacker with spoofed addresses
//! does.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint};

/// Where the destination's connection ID is in a first packet (RFC 8999, section 5.1); quinn's
/// clients choose 20 bytes.
const CONNECTION_ID: std::ops::Range<usize> = 6..26;

/// Returns `count` first packets of clients for `alpn`, each with another connection ID.
pub(crate) async fn initials(alpn: &[u8], count: usize) -> Vec<Vec<u8>> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let sink = UdpSocket::bind(any).unwrap();
    sink.set_nonblocking(true).unwrap();
    let to = sink.local_addr().unwrap();
    let (tls, _) = evenkeel_apps::tls::Trust::Anybody.client(alpn).unwrap();
    let config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
    let mut client = Endpoint::client(any).unwrap();
    client.set_default_client_config(config);
    let (mut seen, mut packets) = (BTreeSet::new(), Vec::with_capacity(count));
    let mut packet = [0; 2048];
    while packets.len() < count {
        let _connecting = client.connect(to, "localhost").unwrap();
        loop {
            match sink.recv(&mut packet) {
                // A client that went away says so in another packet with its connection ID.
                Ok(length) if seen.insert(packet[CONNECTION_ID].to_vec()) => {
                    packets.push(packet[..length].to_vec());
                    break;
                }
                Ok(_) => {}
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }
    packets
}
