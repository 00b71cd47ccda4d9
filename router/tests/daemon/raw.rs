//! Packets made and looked at by hand.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use evenkeel_wire::{Ecn, Ipv4Repr, Ipv6Repr, Sum};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, recv, sendto, socket, sockopt,
};

use crate::support::{Host, Lab};

/// Host A and host B.
pub(crate) const V4: (Ipv4Addr, Ipv4Addr) =
    (Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(10, 0, 2, 1));
/// Host A and host B.
pub(crate) const V6: (Ipv6Addr, Ipv6Addr) = (
    Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfd00, 2, 0, 0, 0, 0, 0, 1),
);

/// IPPROTO_RAW (ip(7), raw(7)): the sender writes the header.
const RAW: u32 = 255;

/// ETH_P_ALL (linux/if_ether.h) in network byte order: packets of all protocols, ARP's as well.
const ALL_PACKETS: u32 = 0x0003_u16.to_be() as u32;

/// Sends whole IP packets.
pub(crate) struct Injector {
    v4: OwnedFd,
    v6: OwnedFd,
}

impl Injector {
    pub(crate) fn new(lab: &Lab, host: Host) -> Self {
        let open = |family| open(family, SocketType::RAW, RAW);
        lab.within(host, || Self {
            v4: open(AddressFamily::INET),
            v6: open(AddressFamily::INET6),
        })
    }

    /// Sends a packet to where its header says.
    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        if packet[0] >> 4 == 4 {
            let destination: [u8; 4] = packet[16..20].try_into().unwrap();
            sendto(
                &self.v4,
                packet,
                SendFlags::empty(),
                &SocketAddr::from((destination, 0)),
            )?;
        } else {
            let destination: [u8; 16] = packet[24..40].try_into().unwrap();
            sendto(
                &self.v6,
                packet,
                SendFlags::empty(),
                &SocketAddr::from((destination, 0)),
            )?;
        }
        Ok(())
    }
}

/// Sees whole IP packets.
pub(crate) struct Sniffer(OwnedFd);

impl Sniffer {
    pub(crate) fn new(lab: &Lab, host: Host) -> Self {
        let socket = lab.within(host, || {
            open(AddressFamily::PACKET, SocketType::DGRAM, ALL_PACKETS)
        });
        sockopt::set_socket_timeout(
            &socket,
            sockopt::Timeout::Recv,
            Some(Duration::from_millis(100)),
        )
        .unwrap();
        Self(socket)
    }

    /// The next IP packet that `wanted` accepts; fails the test if none comes.
    #[expect(clippy::disallowed_methods, reason = "waits for a daemon in real time")]
    pub(crate) fn find(&self, wanted: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        let began = Instant::now();
        let mut buffer = vec![0; 65_536];
        while began.elapsed() < Duration::from_secs(3) {
            if let Ok((_, length)) = recv(&self.0, &mut buffer[..], RecvFlags::empty())
                && matches!(buffer[0] >> 4, 4 | 6)
                && wanted(&buffer[..length])
            {
                return buffer[..length].to_vec();
            }
        }
        panic!("the packet has not come");
    }
}

/// An IPv4 packet from A to B with these options (a multiple of four bytes) and a right checksum.
pub(crate) fn v4(
    ttl: u8,
    protocol: u8,
    identification: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let repr = Ipv4Repr {
        source: V4.0,
        destination: V4.1,
        protocol,
        ecn: Ecn::Ect0,
        dscp: 8,
        ttl,
        identification,
        dont_fragment: false,
        payload_len: u16::try_from(options.len() + payload.len()).unwrap(),
    };
    let mut packet = [&repr.emit()[..], options, payload].concat();
    packet[0] += u8::try_from(options.len() / 4).unwrap();
    fix_checksum(&mut packet);
    packet
}

/// An IPv6 packet from A to B.
pub(crate) fn v6(hop_limit: u8, next_header: u8, flow_label: u32, payload: &[u8]) -> Vec<u8> {
    let repr = Ipv6Repr {
        source: V6.0,
        destination: V6.1,
        protocol: next_header,
        ecn: Ecn::Ect1,
        dscp: 8,
        flow_label,
        hop_limit,
        payload_len: payload.len() as u16,
    };
    [&repr.emit()[..], payload].concat()
}

/// Makes an IPv4 header's checksum right.
pub(crate) fn fix_checksum(packet: &mut [u8]) {
    let header = usize::from(packet[0] & 0xf) * 4;
    packet[10..12].fill(0);
    let checksum = Sum::default().bytes(&packet[..header]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn open(family: AddressFamily, kind: SocketType, protocol: u32) -> OwnedFd {
    socket(
        family,
        kind,
        NonZeroU32::new(protocol).map(Protocol::from_raw),
    )
    .unwrap()
}

/// Checks that packets go from A to B.
pub(crate) fn forwards(lab: &Lab) {
    let sniffer = Sniffer::new(lab, Host::B);
    Injector::new(lab, Host::A)
        .send(&v4(64, 253, 4711, &[], b"still there?"))
        .unwrap();
    sniffer.find(|packet| packet.ends_with(b"still there?"));
}
