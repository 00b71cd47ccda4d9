//! A capture of one link in libpcap's format, readable by tcpdump and Wireshark.

use std::fs::File;
use std::io::{self, BufWriter};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use evenkeel_wire::{Ipv4Repr, Ipv6Repr, PROTOCOL_UDP, PseudoHeader, UDP_HEADER_LEN, UdpRepr};
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::{DataLink, PcapError, TsResolution};

use super::datagram::Datagram;

/// Writes the packets that leave a link, with IP and UDP headers as they are on the wire.
///
/// Timestamps are virtual time since the run began, in nanoseconds.
#[derive(Debug)]
pub(super) struct Capture {
    writer: PcapWriter<BufWriter<File>>,
    /// The first failure; the run goes on without the capture and reports it at the end.
    error: Option<io::Error>,
}

impl Capture {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let header = PcapHeader {
            datalink: DataLink::RAW,
            ts_resolution: TsResolution::NanoSecond,
            ..PcapHeader::default()
        };
        let file = BufWriter::new(File::create(path)?);
        Ok(Self {
            writer: PcapWriter::with_header(file, header).map_err(into_io)?,
            error: None,
        })
    }

    /// A packet between these addresses: its source and its destination.
    pub(super) fn packet(
        &mut self,
        at: Duration,
        datagram: &Datagram,
        addresses: (SocketAddr, SocketAddr),
    ) {
        if self.error.is_some() {
            return;
        }
        let bytes = ip_packet(datagram, addresses);
        let length = u32::try_from(bytes.len()).expect("the MTU bounds a packet");
        let packet = PcapPacket::new(at, length, &bytes);
        self.error = self.writer.write_packet(&packet).err().map(into_io);
    }

    /// Flushes the file and reports the first failure.
    pub(super) fn finish(self) -> io::Result<()> {
        match self.error {
            Some(error) => Err(error),
            None => io::Write::flush(&mut self.writer.into_writer()),
        }
    }
}

/// The datagram as the IP packet that it would be on a wire between these addresses.
fn ip_packet(datagram: &Datagram, (source, destination): (SocketAddr, SocketAddr)) -> Vec<u8> {
    let payload_len =
        u16::try_from(UDP_HEADER_LEN + datagram.contents.len()).expect("the MTU bounds a packet");
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
                ecn: datagram.ecn,
                dscp: 0,
                ttl: datagram.ttl,
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
                ecn: datagram.ecn,
                dscp: 0,
                flow_label: 0,
                hop_limit: datagram.ttl,
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
    packet.extend_from_slice(&udp.emit(&pseudo, &datagram.contents));
    packet.extend_from_slice(&datagram.contents);
    packet
}

fn into_io(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other.to_string()),
    }
}
