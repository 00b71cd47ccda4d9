//! Stands on the way between a client and a server, as NATs and L4S routers do.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::{Duration, Instant};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use crate::stack::{LOOPBACK, Side};

/// What a relay does to the packets that it takes. They keep their ECN codepoint unless it marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// Nothing.
    Passes,
    /// It is a NAT that forgets: after some packets of the client it sends from another port, and
    /// loses what comes to the old one.
    Forgets,
    /// It is an L4S router on a path of some length: it marks one in [`Relay::EVERY`] of the ECT(1)
    /// packets to this side.
    Marks(Side),
}

/// A relay for one client, which lives as long as the process.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
}

/// What a relay has seen and done.
#[derive(Default)]
pub(crate) struct Counts {
    /// Packets from the server to the second port.
    pub(crate) answers: AtomicU64,
    /// Retry packets from the server.
    pub(crate) retries: AtomicU64,
    /// ECT(1) packets to the side to which it marks.
    pub(crate) scalable: AtomicU64,
    /// Packets that it has marked.
    pub(crate) marked: AtomicU64,
}

impl Relay {
    /// The client's packets before the port changes: the handshake is done by then.
    const BEFORE: u64 = 1000;

    /// Of this many ECT(1) packets it marks one.
    const EVERY: u64 = 50;

    /// Packets take this long to each side of an L4S router.
    const DELAY: Duration = Duration::from_millis(10);

    pub(crate) fn new(server: SocketAddr, conduct: Conduct) -> io::Result<Self> {
        let inside = Arc::new(Socket::bind()?);
        let address = inside.socket.local_addr()?;
        let counts = Arc::default();
        let passage = Arc::new(Passage {
            inside,
            server,
            conduct,
            counts: Arc::clone(&counts),
        });
        thread::spawn(move || passage.outwards());
        Ok(Self { address, counts })
    }
}

/// What the threads of a relay share.
struct Passage {
    inside: Arc<Socket>,
    server: SocketAddr,
    conduct: Conduct,
    counts: Arc<Counts>,
}

impl Passage {
    /// Takes the client's packets to the server.
    fn outwards(self: Arc<Self>) -> io::Result<()> {
        let mut buffer = vec![0; Socket::MOST];
        let mut meta = self.inside.receive(&mut buffer)?;
        let client = meta.addr;
        let mut port = Port::open(&self, client, false)?;
        let mut count = 0;
        loop {
            for packet in packets(&buffer, &meta) {
                if self.conduct == Conduct::Forgets && count == Relay::BEFORE {
                    port.is_closed.store(true, Relaxed);
                    port = Port::open(&self, client, true)?;
                }
                count += 1;
                let ecn = self.codepoint(packet, meta.ecn, Side::Server);
                port.line.send(packet, ecn);
            }
            meta = self.inside.receive(&mut buffer)?;
        }
    }

    fn line(&self, socket: &Arc<Socket>, to: SocketAddr) -> Line {
        let delay = match self.conduct {
            Conduct::Marks(_) => Relay::DELAY,
            Conduct::Passes | Conduct::Forgets => Duration::ZERO,
        };
        Line::new(socket.clone(), to, delay)
    }

    /// Returns the codepoint with which a packet leaves to this side.
    fn codepoint(
        &self,
        packet: &[u8],
        arrived: Option<EcnCodepoint>,
        to: Side,
    ) -> Option<EcnCodepoint> {
        if self.conduct != Conduct::Marks(to) || arrived != Some(EcnCodepoint::Ect1) {
            return arrived;
        }
        let before = self.counts.scalable.fetch_add(1, Relaxed);
        // A datagram of a handshake may hold several packets, of which the receiver counts each: what
        // begins with a long header is not marked.
        let is_one = packet.first().is_some_and(|first| first & 0x80 == 0);
        if before % Relay::EVERY != Relay::EVERY - 1 || !is_one {
            return arrived;
        }
        self.counts.marked.fetch_add(1, Relaxed);
        Some(EcnCodepoint::Ce)
    }
}

/// A port of the relay's outside.
struct Port {
    line: Line,
    is_closed: Arc<AtomicBool>,
}

impl Port {
    /// Opens a port, and takes to the client what comes to it, until it is closed.
    fn open(passage: &Arc<Passage>, client: SocketAddr, is_second: bool) -> io::Result<Self> {
        let socket = Arc::new(Socket::bind()?);
        socket.socket.connect(passage.server)?;
        let line = passage.line(&socket, passage.server);
        let back = passage.line(&passage.inside, client);
        let is_closed = Arc::new(AtomicBool::new(false));
        thread::spawn({
            let (passage, is_closed) = (passage.clone(), is_closed.clone());
            move || {
                let mut buffer = vec![0; Socket::MOST];
                while let Ok(meta) = socket.receive(&mut buffer) {
                    if is_closed.load(Relaxed) {
                        return;
                    }
                    for packet in packets(&buffer, &meta) {
                        // What comes before the change is no answer at the new address.
                        if is_second {
                            passage.counts.answers.fetch_add(1, Relaxed);
                        }
                        // RFC 9000, section 17.2.5: a long header of type 3.
                        if packet[0] & 0xf0 == 0xf0 {
                            passage.counts.retries.fetch_add(1, Relaxed);
                        }
                        let ecn = passage.codepoint(packet, meta.ecn, Side::Client);
                        back.send(packet, ecn);
                    }
                }
            }
        });
        Ok(Self { line, is_closed })
    }
}

/// A line on which packets are under way for some time.
struct Line {
    packets: Sender<Underway>,
    delay: Duration,
}

struct Underway {
    arrives: Instant,
    contents: Vec<u8>,
    ecn: Option<EcnCodepoint>,
}

impl Line {
    fn new(socket: Arc<Socket>, to: SocketAddr, delay: Duration) -> Self {
        let (packets, underway) = mpsc::channel::<Underway>();
        thread::spawn(move || {
            for packet in underway {
                thread::sleep(packet.arrives.saturating_duration_since(Instant::now()));
                socket.send(&packet.contents, packet.ecn, to);
            }
        });
        Self { packets, delay }
    }

    fn send(&self, contents: &[u8], ecn: Option<EcnCodepoint>) {
        let arrives = Instant::now() + self.delay;
        let contents = contents.to_vec();
        let packet = Underway {
            arrives,
            contents,
            ecn,
        };
        self.packets
            .send(packet)
            .expect("its thread takes all that comes");
    }
}

/// A socket that knows the ECN codepoints of what it receives, and sets them on what it sends.
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    /// Bytes that the system gives at once, at most: equal datagrams of one sender (GRO).
    const MOST: usize = 65_536;

    fn bind() -> io::Result<Self> {
        let socket = UdpSocket::bind(LOOPBACK)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // Each has a thread of its own.
        socket.set_nonblocking(false)?;
        Ok(Self { socket, state })
    }

    /// Waits for datagrams.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<RecvMeta> {
        let mut metas = [RecvMeta::default()];
        let mut buffers = [IoSliceMut::new(buffer)];
        let socket = UdpSockRef::from(&self.socket);
        self.state.recv(socket, &mut buffers, &mut metas)?;
        let [meta] = metas;
        Ok(meta)
    }

    fn send(&self, contents: &[u8], ecn: Option<EcnCodepoint>, destination: SocketAddr) {
        let transmit = Transmit {
            destination,
            ecn,
            contents,
            segment_size: None,
            src_ip: None,
        };
        // A full buffer loses a packet, as networks do.
        let socket = UdpSockRef::from(&self.socket);
        let _ = self.state.try_send(socket, &transmit);
    }
}

fn packets<'a>(buffer: &'a [u8], meta: &RecvMeta) -> impl Iterator<Item = &'a [u8]> {
    buffer[..meta.len].chunks(meta.stride.max(1))
}
