//! Fixes the hop limit of a system's socket.

use std::net::UdpSocket;

/// Fixes the TTL and hop limit of a socket's packets, so that routers can see whether an earlier
/// hop has not stamped; `None` if the system does not allow it.
pub(crate) fn fix_hop_limit(socket: &UdpSocket) -> Option<u8> {
    /// The common default of hosts (IANA, IP option numbers, default TTL).
    const HOP_LIMIT: u8 = 64;
    // IPv4 packets of an IPv6 socket take the IPv4 option.
    socket.set_ttl(HOP_LIMIT.into()).ok()?;
    if socket.local_addr().ok()?.is_ipv6() {
        set_ipv6_hop_limit(socket, HOP_LIMIT)?;
    }
    Some(HOP_LIMIT)
}

#[cfg(target_os = "linux")]
fn set_ipv6_hop_limit(socket: &UdpSocket, hop_limit: u8) -> Option<()> {
    rustix::net::sockopt::set_ipv6_unicast_hops(socket, Some(hop_limit)).ok()
}

#[cfg(not(target_os = "linux"))]
fn set_ipv6_hop_limit(_: &UdpSocket, _: u8) -> Option<()> {
    None
}
