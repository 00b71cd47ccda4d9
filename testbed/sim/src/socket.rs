//! A UDP socket of the virtual network, as quinn sees it.

use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel_wire::Ecn;
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, UdpPoller};

use crate::datagram::{Parts, version};
use crate::executor::{Core, lock};
use crate::log::{Logged, PacketLog};
use crate::network::{HOP_LIMIT, Inbox, Network};
use crate::place::{IpVersion, NodeIndex};

/// Datagrams that one `try_send` may carry, as Linux with UDP GSO (quinn asks for 10 at most).
const MAX_SEGMENTS: usize = 10;

/// A bound UDP socket on a node of the virtual network.
pub struct SimSocket {
    core: Arc<Core>,
    network: Arc<Mutex<Network>>,
    node: NodeIndex,
    address: SocketAddr,
    inbox: Arc<Mutex<Inbox>>,
    log: OnceLock<Arc<Mutex<PacketLog>>>,
}

impl SimSocket {
    /// Binds `port` of `node`; 0 chooses a free one.
    pub(crate) fn bind(
        core: Arc<Core>,
        network: Arc<Mutex<Network>>,
        node: NodeIndex,
        version: IpVersion,
        port: u16,
    ) -> io::Result<Self> {
        let bound = lock(&network).bind(node, version, port);
        let (address, inbox) = bound.ok_or(io::ErrorKind::AddrInUse)?;
        Ok(Self {
            core,
            network,
            node,
            address,
            inbox,
            log: OnceLock::new(),
        })
    }

    /// The address and port it is bound to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// IP bytes that have reached this socket.
    pub fn received_bytes(&self) -> u64 {
        lock(&self.inbox).received_bytes
    }

    /// Mean and greatest time from host to host of what has reached this socket since the last call;
    /// `None` if nothing has.
    pub fn take_delays(&self) -> Option<(Duration, Duration)> {
        let delays = std::mem::take(&mut lock(&self.inbox).delays);
        let mean = delays.sum.checked_div(delays.count)?;
        Some((mean, delays.max))
    }

    /// From now on arriving datagrams are counted and thrown away.
    pub fn count_only(&self) {
        lock(&self.inbox).counts_only = true;
    }

    /// Limits the receive buffer to this many bytes of IP packets; what does not fit is lost.
    pub fn hold_at_most(&self, bytes: usize) {
        lock(&self.inbox).capacity = Some(bytes);
    }

    /// A QUIC server reads what arrives.
    pub fn serve_quic(&self) {
        lock(&self.inbox).is_quic_server = true;
    }

    /// Writes what becomes of all that this socket sends to a log, which several may share; the first
    /// that it is given stands.
    pub fn keep_log(&self, log: Arc<Mutex<PacketLog>>) {
        self.log.get_or_init(|| log);
    }

    /// Sends one datagram to an address of the same version of IP.
    pub fn send_to(&self, destination: SocketAddr, contents: &[u8]) {
        let mut network = lock(&self.network);
        if let Some(to) = self.reach(&network, destination) {
            self.put(&mut network, (destination, to), Ecn::NotEct, contents);
        }
    }

    /// The node that has an address, if this socket can send there.
    fn reach(&self, network: &Network, destination: SocketAddr) -> Option<NodeIndex> {
        (version(&destination) == version(&self.address))
            .then(|| network.node_at(destination.ip()))
            .flatten()
    }

    /// Puts a datagram for an address and its node on the network.
    fn put(
        &self,
        network: &mut Network,
        (destination, to): (SocketAddr, NodeIndex),
        ecn: Ecn,
        contents: &[u8],
    ) {
        let now = self.core.now();
        let bytes = contents.len() + version(&destination).header_bytes();
        let logged = self.log.get().map(|log| {
            let logged = Logged::sent(log, self.core.elapsed(), bytes);
            Box::new(logged)
        });
        let datagram = network.datagram(|memory| Parts {
            source: self.address,
            destination,
            to,
            sent: now,
            ecn,
            ttl: HOP_LIMIT,
            contents: filled(memory, contents),
            logged,
        });
        network.send(now, self.node, datagram);
    }
}

impl AsyncUdpSocket for SimSocket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(AlwaysWritable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let mut network = lock(&self.network);
        let destination = transmit.destination;
        let Some(to) = self.reach(&network, destination) else {
            return Err(io::ErrorKind::NetworkUnreachable.into());
        };
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        for contents in transmit.contents.chunks(segment.max(1)) {
            let ecn = to_wire(transmit.ecn);
            self.put(&mut network, (destination, to), ecn, contents);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut inbox = lock(&self.inbox);
        let inbox = &mut *inbox;
        let mut received = 0;
        for (buf, meta) in bufs.iter_mut().zip(meta) {
            let Some(datagram) = inbox.datagrams.pop_front() else {
                break;
            };
            inbox.waiting_bytes -= datagram.ip_bytes();
            let parts = &datagram.0;
            // As a kernel does, cut off what the buffer cannot hold.
            let len = parts.contents.len().min(buf.len());
            buf[..len].copy_from_slice(&parts.contents[..len]);
            *meta = RecvMeta {
                addr: parts.source,
                len,
                stride: len,
                ecn: from_wire(parts.ecn),
                dst_ip: Some(parts.destination.ip()),
            };
            inbox.read.push(datagram);
            received += 1;
        }
        if received > 0 {
            return Poll::Ready(Ok(received));
        }
        inbox.waits = true;
        match &mut inbox.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    fn max_transmit_segments(&self) -> usize {
        MAX_SEGMENTS
    }

    fn may_fragment(&self) -> bool {
        false
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        // A simulation that ends drops its sockets with the network unlocked.
        if let Ok(mut network) = self.network.lock() {
            network.unbind(self.address);
        }
    }
}

impl fmt::Debug for SimSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimSocket({})", self.address)
    }
}

/// The virtual network queues or drops, but never blocks a sender.
#[derive(Debug)]
struct AlwaysWritable;

impl UdpPoller for AlwaysWritable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The memory of an earlier datagram with `contents` in it.
fn filled(mut memory: Vec<u8>, contents: &[u8]) -> Vec<u8> {
    memory.clear();
    memory.extend_from_slice(contents);
    memory
}

fn to_wire(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

fn from_wire(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}
