//! A capture of one link in libpcap's format, readable by tcpdump and Wireshark.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use evenkeel_wire::{Ipv4Repr, Ipv6Repr, PROTOCOL_UDP, PseudoHeader, UDP_HEADER_LEN, UdpRepr};

use crate::datagram::Datagram;

/// The file header (draft-ietf-opsawg-pcap, section 4): nanoseconds, version 2.4, no offset of the
/// time zone, no accuracy, packets of at most 65,535 bytes, which begin with an IP header
/// (LINKTYPE_RAW).
const FILE_HEADER: [u32; 6] = [0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 65_535, 101];

/// Writes the packets that leave a link, with IP and UDP headers as they are on the wire.
///
/// Timestamps are virtual time since the run began, in nanoseconds.
#[derive(Debug)]
pub(crate) struct Capture {
    writer: BufWriter<File>,
    /// The first failure; the run goes on without the capture and reports it at the end.
    error: Option<io::Error>,
}

impl Capture {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut writer = BufWriter::new(File::create(path)?);
        for field in FILE_HEADER {
            writer.write_all(&field.to_le_bytes())?;
        }
        Ok(Self {
            writer,
            error: None,
        })
    }

    /// A packet between these addresses: its source and its destination.
    pub(crate) fn packet(
        &mut self,
        at: Duration,
        datagram: &Datagram,
        addresses: (SocketAddr, SocketAddr),
    ) {
        if self.error.is_some() {
            return;
        }
        let bytes = ip_packet(datagram, addresses);
        self.error = self.write(at, &bytes).err();
    }

    fn write(&mut self, at: Duration, packet: &[u8]) -> io::Result<()> {
        let seconds = u32::try_from(at.as_secs()).expect("a run ends before 2^32 s");
        let length = u32::try_from(packet.len()).expect("the MTU bounds a packet");
        for field in [seconds, at.subsec_nanos(), length, length] {
            self.writer.write_all(&field.to_le_bytes())?;
        }
        self.writer.write_all(packet)
    }

    /// Flushes the file and reports the first failure.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => self.writer.flush(),
        }
    }
}

/// The datagram as the IP packet that it would be on a wire between these addresses.
fn ip_packet(datagram: &Datagram, (source, destination): (SocketAddr, SocketAddr)) -> Vec<u8> {
    let payload_len =
        u16::try_from(UDP_HEADER_LEN + datagram.0.contents.len()).expect("the MTU bounds a packet");
    let udp = UdpRepr {
        source_port: source.port(),
        destination_port: destination.port(),
    };
    let mut packet = Vec::with_capacity(datagram.ip_bytes());
    let pseudo = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let ip = Ipv4Repr {
                source,
                destination,
                protocol: PROTOCOL_UDP,
                ecn: datagram.0.ecn,
                dscp: 0,
                ttl: datagram.0.ttl,
                identification: 0,
                dont_fragment: true,
                payload_len,
            };
            packet.extend_from_slice(&ip.emit());
            PseudoHeader::V4 {
                source,
                destination,
            }
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            let ip = Ipv6Repr {
                source,
                destination,
                protocol: PROTOCOL_UDP,
                ecn: datagram.0.ecn,
                dscp: 0,
                flow_label: 0,
                hop_limit: datagram.0.ttl,
                payload_len,
            };
            packet.extend_from_slice(&ip.emit());
            PseudoHeader::V6 {
                source,
                destination,
            }
        }
        _ => unreachable!("a socket sends to its own version of IP"),
    };
    packet.extend_from_slice(&udp.emit(&pseudo, &datagram.0.contents));
    packet.extend_from_slice(&datagram.0.contents);
    packet
}
