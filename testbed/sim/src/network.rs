//! The virtual network: nodes, links made of evenkeel-queue ports, and sockets.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use evenkeel_queue::{Link, Packet, PacketMeta};

use crate::datagram::{Datagram, Parts};
use crate::executor::{Core, lock};
use crate::pcap::Capture;
use crate::place::{IpVersion, LinkIndex, NodeIndex};

/// What a socket has received and not yet read.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    pub(crate) datagrams: VecDeque<Datagram>,
    /// Bytes of IP packets in `datagrams`, and how many there may be, if not any number.
    pub(crate) waiting_bytes: usize,
    pub(crate) capacity: Option<usize>,
    /// Those that have been read: their memory carries others.
    pub(crate) read: Vec<Datagram>,
    /// Who reads, and whether it waits for more.
    pub(crate) waker: Option<Waker>,
    pub(crate) waits: bool,
    /// IP bytes that reached this socket since it was bound.
    pub(crate) received_bytes: u64,
    /// How long those were on their way that came since somebody last asked.
    pub(crate) delays: Delays,
    /// Whether arriving datagrams are only counted (the sink of UDP cross traffic).
    pub(crate) counts_only: bool,
    /// Whether a QUIC server reads them: captures give it port 443.
    pub(crate) is_quic_server: bool,
}

/// Times from host to host.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    pub(crate) count: u32,
    pub(crate) sum: Duration,
    pub(crate) max: Duration,
}

/// All nodes, links and bound ports of a simulation.
#[derive(Debug)]
pub(crate) struct Network {
    core: Arc<Core>,
    mtu: usize,
    links: Vec<SimLink>,
    /// `next_hop[node][destination]`: the link to take.
    next_hop: Vec<Vec<Option<LinkIndex>>>,
    /// Per node: bound ports with their inboxes; a handful each.
    ports: Vec<Vec<(u16, Arc<Mutex<Inbox>>)>>,
    /// Datagrams that have arrived: what is sent next takes their memory.
    spare: Vec<Datagram>,
    counters: NetworkCounters,
}

/// What the network as a whole has done.
#[derive(Debug, Default, Clone, Copy)]
pub struct NetworkCounters {
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets larger than the MTU: refused at the sender, as a kernel does with DF set.
    pub too_big: u64,
    /// Packets that came to a socket whose buffer was full.
    pub overflowed: u64,
    /// Packets for a port that nobody has bound.
    pub unreachable: u64,
    /// Packets that more routers would have had to forward than their time to live allows.
    pub expired: u64,
}

#[derive(Debug)]
struct SimLink {
    link: Link<Datagram>,
    to: NodeIndex,
    /// The wake-up that is on the event queue, if one is.
    scheduled: Option<Instant>,
    capture: Option<Capture>,
}

impl Network {
    pub(crate) fn new(
        core: Arc<Core>,
        mtu: usize,
        links: Vec<(Link<Datagram>, NodeIndex)>,
        next_hop: Vec<Vec<Option<LinkIndex>>>,
    ) -> Self {
        let ports = next_hop.iter().map(|_| Vec::new()).collect();
        let links = links
            .into_iter()
            .map(|(link, to)| SimLink {
                link,
                to,
                scheduled: None,
                capture: None,
            })
            .collect();
        Self {
            core,
            mtu,
            links,
            next_hop,
            ports,
            spare: Vec::new(),
            counters: NetworkCounters::default(),
        }
    }

    pub(crate) fn counters(&self) -> NetworkCounters {
        self.counters
    }

    /// Binds a port of `node`; 0 asks for any free one from 49152 upwards (RFC 6335).
    pub(crate) fn bind(
        &mut self,
        node: NodeIndex,
        version: IpVersion,
        port: u16,
    ) -> Option<(SocketAddr, Arc<Mutex<Inbox>>)> {
        let bound = &mut self.ports[node.0];
        let taken = |port| bound.iter().any(|(p, _)| *p == port);
        let port = match port {
            0 => (49152..=u16::MAX).find(|p| !taken(*p))?,
            port if taken(port) => return None,
            port => port,
        };
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        bound.push((port, inbox.clone()));
        Some((SocketAddr::new(node.address(version), port), inbox))
    }

    /// Frees a port that [`Network::bind`] gave.
    pub(crate) fn unbind(&mut self, address: SocketAddr) {
        if let Some(node) = self.node_at(address.ip()) {
            self.ports[node.0].retain(|(port, _)| *port != address.port());
        }
    }

    /// The node that has an address.
    pub(crate) fn node_at(&self, address: IpAddr) -> Option<NodeIndex> {
        NodeIndex::at(address).filter(|node| node.0 < self.ports.len())
    }

    /// A datagram made of what `parts` makes in the memory of an earlier one's contents.
    pub(crate) fn datagram(&mut self, parts: impl FnOnce(Vec<u8>) -> Parts) -> Datagram {
        let Some(mut datagram) = self.spare.pop() else {
            return Datagram(Box::new(parts(Vec::new())));
        };
        *datagram.0 = parts(std::mem::take(&mut datagram.0.contents));
        datagram
    }

    /// A host puts a datagram on the network.
    pub(crate) fn send(&mut self, now: Instant, from: NodeIndex, datagram: Datagram) {
        self.counters.sent += 1;
        if datagram.ip_bytes() > self.mtu {
            self.counters.too_big += 1;
            return;
        }
        self.arrive(now, from, datagram);
    }

    /// A link's wake-up has come: what has crossed it goes on.
    pub(crate) fn on_link(&mut self, now: Instant, index: usize) {
        self.links[index].scheduled = None;
        self.drain(now, index);
    }

    /// Writes every packet that leaves `link` from now on to `capture`.
    pub(crate) fn capture(&mut self, link: LinkIndex, capture: Capture) {
        self.links[link.0].capture = Some(capture);
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &Link<Datagram>> {
        self.links.iter().map(|link| &link.link)
    }

    pub(crate) fn link_mut(&mut self, link: LinkIndex) -> &mut Link<Datagram> {
        &mut self.links[link.0].link
    }

    /// Ends all captures; the first error of writing one, if any.
    pub(crate) fn finish_captures(&mut self) -> std::io::Result<()> {
        self.links
            .iter_mut()
            .filter_map(|link| link.capture.take())
            .try_for_each(Capture::finish)
    }

    fn arrive(&mut self, now: Instant, at: NodeIndex, datagram: Datagram) {
        if datagram.0.to == at {
            self.deliver(now, datagram);
            return;
        }
        let Some(link) = self.next_hop[at.0][datagram.0.to.0] else {
            self.counters.unreachable += 1;
            return;
        };
        let bytes = u32::try_from(datagram.ip_bytes()).expect("the MTU bounds a packet");
        let meta = PacketMeta::new(bytes, datagram.0.ecn);
        self.links[link.0]
            .link
            .push(now, Packet::new(meta, datagram));
        self.drain(now, link.0);
    }

    /// Moves on what has come out of a link by `now`, and asks for its next wake-up.
    fn drain(&mut self, now: Instant, index: usize) {
        loop {
            let link = &mut self.links[index];
            match link.link.next_timeout() {
                Some(at) if at <= now => {}
                Some(at) => {
                    if link.scheduled.is_none_or(|scheduled| at < scheduled) {
                        link.scheduled = Some(at);
                        self.core.schedule_link(at, index);
                    }
                    return;
                }
                None => return,
            }
            if let Some(packet) = link.link.pop(now) {
                self.leave(now, index, packet);
            }
        }
    }

    /// A packet has come out at the far end of a link.
    fn leave(&mut self, now: Instant, index: usize, packet: Packet<Datagram>) {
        let Packet { meta, mut payload } = packet;
        payload.0.ecn = meta.ecn;
        if let Some(logged) = &mut payload.0.logged {
            logged.waited(meta.queued);
        }
        if self.links[index].capture.is_some() {
            let [source, destination] = [payload.0.source, payload.0.destination];
            let addresses = (self.captured(source), self.captured(destination));
            if let Some(capture) = &mut self.links[index].capture {
                capture.packet(self.core.elapsed(), &payload, addresses);
            }
        }
        let to = self.links[index].to;
        if payload.0.to != to {
            // A router counts itself, and does not forward what it is the last to see.
            payload.0.ttl = payload.0.ttl.saturating_sub(1);
            if payload.0.ttl == 0 {
                self.counters.expired += 1;
                return;
            }
        }
        self.arrive(now, to, payload);
    }

    /// The address as captures show it: a QUIC server has port 443, at which tcpdump and Wireshark
    /// look for QUIC. Connections stay apart, since each client has a port of its own.
    fn captured(&self, address: SocketAddr) -> SocketAddr {
        let inbox = self.node_at(address.ip()).and_then(|node| {
            let ports = &self.ports[node.0];
            ports.iter().find(|(port, _)| *port == address.port())
        });
        match inbox {
            Some((_, inbox)) if lock(inbox).is_quic_server => {
                SocketAddr::new(address.ip(), HTTPS_PORT)
            }
            _ => SocketAddr::new(address.ip(), address.port().saturating_add(CAPTURED_SHIFT)),
        }
    }

    fn deliver(&mut self, now: Instant, datagram: Datagram) {
        let port = datagram.0.destination.port();
        let Some((_, inbox)) = self.ports[datagram.0.to.0].iter().find(|(p, _)| *p == port) else {
            self.counters.unreachable += 1;
            return;
        };
        let mut inbox = lock(inbox);
        let bytes = datagram.ip_bytes();
        inbox.received_bytes += bytes as u64;
        let delay = now - datagram.0.sent;
        inbox.delays.count += 1;
        inbox.delays.sum += delay;
        inbox.delays.max = inbox.delays.max.max(delay);
        if let Some(logged) = &datagram.0.logged {
            logged.arrived(self.core.elapsed(), datagram.0.ecn);
        }
        if inbox.counts_only {
            self.spare.push(datagram);
            return;
        }
        let would_wait = inbox.waiting_bytes + bytes;
        if inbox.capacity.is_some_and(|capacity| would_wait > capacity) {
            self.counters.overflowed += 1;
            return;
        }
        inbox.waiting_bytes = would_wait;
        inbox.datagrams.push_back(datagram);
        self.spare.append(&mut inbox.read);
        if std::mem::take(&mut inbox.waits)
            && let Some(waker) = &inbox.waker
        {
            waker.wake_by_ref();
        }
    }
}

/// The TTL with which packets leave their hosts: Linux's default.
pub const HOP_LIMIT: u8 = 64;

/// The port of HTTPS, QUIC's first use: RFC 9114, section 3.1.
const HTTPS_PORT: u16 = 443;

/// Captures show other ports higher by this, 50,000 instead of 49,152, which tcpdump takes for
/// another protocol's.
const CAPTURED_SHIFT: u16 = 848;
