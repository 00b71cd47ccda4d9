//! Stands on the way between a client and a server.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::{io, thread};

use crate::stack::LOOPBACK;

/// Stands between a client and a server like a NAT. If it forgets, it sends from another port after
/// some packets of the client, and loses what comes to the old one.
pub(crate) struct Nat {
    pub(crate) address: SocketAddr,
    /// Packets from the server to the second port.
    pub(crate) answers: Arc<AtomicU64>,
    /// Retry packets from the server.
    pub(crate) retries: Arc<AtomicU64>,
}

impl Nat {
    /// The client's packets before the port changes: the handshake is done by then.
    const BEFORE: u64 = 1000;

    pub(crate) fn new(server: SocketAddr, forgets: bool) -> io::Result<Self> {
        let inside = Arc::new(UdpSocket::bind(LOOPBACK)?);
        let nat = Self {
            address: inside.local_addr()?,
            answers: Arc::default(),
            retries: Arc::default(),
        };
        let (answers, retries) = (nat.answers.clone(), nat.retries.clone());
        thread::spawn(move || outwards(&inside, server, forgets, &answers, &retries));
        Ok(nat)
    }
}

/// Takes the client's packets to the server, as long as the process lives.
fn outwards(
    inside: &Arc<UdpSocket>,
    server: SocketAddr,
    forgets: bool,
    answers: &Arc<AtomicU64>,
    retries: &Arc<AtomicU64>,
) -> io::Result<()> {
    let mut packet = [0; 65_536];
    let (mut length, client) = inside.recv_from(&mut packet)?;
    // What comes before the change is no answer at the new address.
    let before = Arc::default();
    let mut port = Port::open(inside.clone(), server, client, before, retries.clone())?;
    for count in 1.. {
        // A full buffer loses a packet, as networks do.
        let _ = port.socket.send(&packet[..length]);
        length = inside.recv(&mut packet)?;
        if forgets && count == Nat::BEFORE {
            port.is_closed.store(true, Relaxed);
            let (answers, retries) = (answers.clone(), retries.clone());
            port = Port::open(inside.clone(), server, client, answers, retries)?;
        }
    }
    Ok(())
}

/// One port of the NAT's outside.
struct Port {
    socket: UdpSocket,
    is_closed: Arc<AtomicBool>,
}

impl Port {
    /// Opens a port, and takes to the client what comes to it, until it is closed.
    fn open(
        inside: Arc<UdpSocket>,
        server: SocketAddr,
        client: SocketAddr,
        answers: Arc<AtomicU64>,
        retries: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(LOOPBACK)?;
        socket.connect(server)?;
        let is_closed = Arc::new(AtomicBool::new(false));
        thread::spawn({
            let (socket, is_closed) = (socket.try_clone()?, is_closed.clone());
            move || {
                let mut packet = [0; 65_536];
                while let Ok(length) = socket.recv(&mut packet) {
                    if is_closed.load(Relaxed) {
                        return;
                    }
                    answers.fetch_add(1, Relaxed);
                    // RFC 9000, section 17.2.5: a long header of type 3.
                    if packet[0] & 0xf0 == 0xf0 {
                        retries.fetch_add(1, Relaxed);
                    }
                    let _ = inside.send_to(&packet[..length], client);
                }
            }
        });
        Ok(Self { socket, is_closed })
    }
}
