//! Tries every stack with evenkeel's endpoint, and writes docs/interop.md.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{io, thread};

use crate::stack::{
    Evenkeel, Failure, Feature, Identity, LOOPBACK, Noq, Order, Quiche, Quinn, S2n, Serving, Side,
    Stack,
};

const FEATURES: [Feature; 6] = [
    Feature::Transfer,
    Feature::KeyUpdate,
    Feature::EarlyData,
    Feature::Retry,
    Feature::Datagrams,
    Feature::Rebinding,
];

/// How long one try may take. Most take less than a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes each way.
const SIZE: u64 = 20_000_000;

/// What a cell of the table says.
enum Outcome {
    Works,
    /// The stack has no interface for it.
    Without,
    Fails(String),
}

/// Tries all, reports progress to standard error, and returns the page and how many tries failed.
pub(crate) fn interop() -> Result<(String, usize), Failure> {
    let peers: [&'static dyn Stack; 4] = [&Quinn, &Noq, &S2n, &Quiche];
    let mut rows = String::new();
    let mut failures = Vec::new();
    for peer in peers {
        for side in [Side::Server, Side::Client] {
            for headers in [false, true] {
                let role = match side {
                    Side::Server => "server",
                    Side::Client => "client",
                };
                let offered = if headers { "offered" } else { "off" };
                let mut row = format!("| {} | {role} | {offered} |", peer.name());
                for feature in FEATURES {
                    let outcome = match peer.can(feature) {
                        true => patiently(move || attempt(peer, side, headers, feature)),
                        false => Outcome::Without,
                    };
                    let cell = match outcome {
                        Outcome::Works => "yes",
                        Outcome::Without => "-",
                        Outcome::Fails(why) => {
                            failures.push(format!(
                                "{} as {role}, headers {offered}, {feature}: {why}",
                                peer.name()
                            ));
                            "**no**"
                        }
                    };
                    eprintln!(
                        "{}, {role}, headers {offered}, {feature}: {cell}",
                        peer.name()
                    );
                    row = format!("{row} {cell} |");
                }
                rows = format!("{rows}{row}\n");
            }
        }
    }
    let failed = failures.len();
    let failures = match failed {
        0 => "Nothing failed.\n".to_owned(),
        _ => format!("What failed:\n\n- {}\n", failures.join("\n- ")),
    };
    let page = include_str!("interop.md")
        .replace("{rows}", rows.trim_end())
        .replace("{failures}", failures.trim_end());
    Ok((page, failed))
}

/// Runs `attempt` on a thread of its own, and gives it up if it takes too long.
fn patiently(attempt: impl FnOnce() -> Result<(), Failure> + Send + 'static) -> Outcome {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || tell.send(attempt()));
    match told.recv_timeout(PATIENCE) {
        Ok(Ok(())) => Outcome::Works,
        Ok(Err(failure)) => Outcome::Fails(failure.to_string()),
        Err(RecvTimeoutError::Timeout) => Outcome::Fails("it takes longer than 60 s".into()),
        Err(RecvTimeoutError::Disconnected) => Outcome::Fails("it panicked".into()),
    }
}

/// Lets the peer and our endpoint do one thing with each other.
fn attempt(peer: &dyn Stack, side: Side, headers: bool, feature: Feature) -> Result<(), Failure> {
    let identity = Identity::new()?;
    let ours = Evenkeel {
        controller: "keel",
        headers,
    };
    let (server, client): (&dyn Stack, &dyn Stack) = match side {
        Side::Server => (peer, &ours),
        Side::Client => (&ours, peer),
    };
    let serving = Serving {
        retry: feature == Feature::Retry,
        key_update: feature == Feature::KeyUpdate && side == Side::Client,
    };
    let server = server.serve(&identity, serving)?;
    let nat = Nat::new(server, feature == Feature::Rebinding)?;
    let address = match feature {
        Feature::Rebinding | Feature::Retry => nat.address,
        // The NAT has one client, and 0-RTT may take two sockets.
        _ => server,
    };
    let order = Order {
        up: SIZE,
        down: SIZE,
        feature,
    };
    client.exchange(address, &identity, order)?;
    match feature {
        Feature::Rebinding if nat.answers.load(Relaxed) == 0 => {
            Err("it was over before the address changed".into())
        }
        Feature::Retry if nat.retries.load(Relaxed) == 0 => Err("nobody had to retry".into()),
        _ => Ok(()),
    }
}

/// Stands between a client and a server like a NAT. If it forgets, it sends from another port after
/// some packets of the client, and loses what comes to the old one.
struct Nat {
    address: SocketAddr,
    /// Packets from the server to the second port.
    answers: Arc<AtomicU64>,
    /// Retry packets from the server.
    retries: Arc<AtomicU64>,
}

impl Nat {
    /// The client's packets before the port changes: the handshake is done by then.
    const BEFORE: u64 = 1000;

    fn new(server: SocketAddr, forgets: bool) -> io::Result<Self> {
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
