//! Offers an endpoint's socket without an endpoint, for the fuzz targets in `fuzz/` and unit tests.
//!
//! Only `fuzz/` turns on the feature `fuzzing`; this is no part of the interface.

use std::collections::VecDeque;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use evenkeel_congestion::{PathSample, SharedFactory};
use evenkeel_headers::{Agreement, Grease, HeaderCounters, HeaderState, Owner, Usage, locked};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, UdpPoller};

use crate::connection::{Connection, Connections};
use crate::quinn_order;
use crate::quinn_order::Train;
use crate::quinn_order::socket::{HeaderSettings, Socket};

/// The socket of an endpoint that uses path headers. The caller plays quinn above it and the
/// network beneath it.
#[derive(Debug)]
pub struct HeaderSocket {
    socket: Socket,
    connections: Arc<Connections>,
    wire: Arc<Wire>,
    clock: Arc<Clock>,
}

/// A connection on a [`HeaderSocket`] that has agreed on path headers.
#[derive(Debug, Clone)]
pub struct HeaderConnection {
    connection: Arc<Connection>,
}

/// Bytes of UDP payload in a full-size packet.
pub const MTU: u16 = 1200;

/// What the system hands to the socket at once: datagrams of one peer, back to back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The peer's address.
    pub from: SocketAddr,
    /// The datagrams' bytes.
    pub bytes: Vec<u8>,
    /// Bytes in each datagram except the last, which may have fewer.
    pub stride: usize,
}

/// Receive buffers that quinn offers at once.
const BUFFERS: usize = 4;

impl HeaderSocket {
    /// Creates a socket on which one datagram in `every` carries a header on a confirmed path.
    pub fn new(every: u32, now: Instant) -> Self {
        let (wire, clock) = (Arc::<Wire>::default(), Arc::new(Clock(Mutex::new(now))));
        let connections = Arc::<Connections>::default();
        let settings = HeaderSettings {
            usage: Usage {
                connections: connections.clone(),
                every,
                hop_limit: Some(64),
            },
            runtime: clock.clone(),
        };
        Self {
            socket: Socket::new(wire.clone(), Some(settings)),
            connections,
            wire,
            clock,
        }
    }

    /// Sets the time, which never goes back.
    pub fn set_time(&self, now: Instant) {
        let mut time = locked(&self.clock.0);
        *time = now.max(*time);
    }

    /// Creates a connection whose handshake completes now and has led to these master keys. Packets
    /// of more than [`MTU`] bytes probe for a greater MTU.
    pub fn connect(&self, sending: [u8; 16], receiving: [u8; 16]) -> HeaderConnection {
        let connection = Connection::new(self.connections.clone());
        connection.new_path(MTU);
        let agreement = Agreement {
            sending,
            receiving,
            max_ack_delay: Duration::from_millis(25),
            grease: Grease::new(&sending),
        };
        connection.agreed(agreement, self.clock.now());
        HeaderConnection { connection }
    }

    /// Sends `packets` on `connection` as quinn does, all but the last of one size. Returns the
    /// datagrams that leave.
    pub fn send(
        &self,
        connection: &HeaderConnection,
        to: SocketAddr,
        packets: &[Vec<u8>],
    ) -> Vec<Vec<u8>> {
        let poll = quinn_order::Poll::begin(
            connection.connection.clone(),
            self.clock.now(),
            Train::default(),
        );
        let mut waiting = packets;
        while !waiting.is_empty() {
            let most = self.socket.max_transmit_segments().min(waiting.len());
            let (batch, rest) = waiting.split_at(most);
            let transmit = Transmit {
                destination: to,
                ecn: None,
                contents: &batch.concat(),
                segment_size: (batch.len() > 1).then_some(batch[0].len()),
                src_ip: None,
            };
            self.socket
                .try_send(&transmit)
                .expect("the wire takes everything");
            waiting = rest;
        }
        let (mut train, _) = poll.end();
        let departed = train.poll_depart(&mut Context::from_waker(Waker::noop()));
        assert!(departed.is_ready(), "the wire takes everything");
        std::mem::take(&mut locked(&self.wire.left))
    }

    /// Delivers `arrivals`; returns the datagrams that quinn receives, and where they come from.
    pub fn receive(&self, arrivals: Vec<Arrival>) -> Vec<(SocketAddr, Vec<u8>)> {
        let longest = arrivals.iter().map(|arrival| arrival.bytes.len()).max();
        let room = longest.unwrap_or_default().max(1);
        locked(&self.wire.arriving).extend(arrivals);
        let mut space = vec![0; BUFFERS * room];
        let mut given = Vec::new();
        loop {
            let mut bufs: Vec<_> = space.chunks_mut(room).map(IoSliceMut::new).collect();
            let mut metas = [RecvMeta::default(); BUFFERS];
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(count) = self.socket.poll_recv(&mut cx, &mut bufs, &mut metas) else {
                return given;
            };
            for (buf, meta) in bufs.iter().zip(&metas).take(count.expect("no error")) {
                // As quinn 0.11 divides it (`RecvState::poll_socket`).
                let datagrams = buf[..meta.len].chunks(meta.stride.max(1));
                given.extend(datagrams.map(|datagram| (meta.addr, datagram.to_vec())));
            }
        }
    }
}

impl HeaderConnection {
    /// Returns whether headers are sent, and their counters.
    pub fn path_headers(&self) -> (HeaderState, HeaderCounters) {
        self.connection.reported().expect("both take headers")
    }

    /// Returns what the newest echo said.
    pub fn path_sample(&self) -> Option<PathSample> {
        self.connection.path_sample()
    }

    /// Runs a controller of `factory` on the connection from `now` on.
    pub fn control(&self, factory: SharedFactory, now: Instant) {
        factory.build_fed(now, MTU, self.connection.feed());
    }

    /// PathChanges the local address.
    pub fn rebound(&self) {
        self.connection.rebound();
    }
}

/// Datagrams that the system takes at once.
const SEGMENTS: usize = 10;

/// A system socket that hands out given datagrams and keeps those that it should send.
#[derive(Debug, Default)]
struct Wire {
    arriving: Mutex<VecDeque<Arrival>>,
    left: Mutex<Vec<Vec<u8>>>,
}

impl AsyncUdpSocket for Wire {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        unreachable!("the wire never blocks")
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        let datagrams = transmit.contents.chunks(segment.max(1));
        locked(&self.left).extend(datagrams.map(<[u8]>::to_vec));
        Ok(())
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let mut arriving = locked(&self.arriving);
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let Some(arrival) = arriving.pop_front() else {
                break;
            };
            buf[..arrival.bytes.len()].copy_from_slice(&arrival.bytes);
            *meta = RecvMeta {
                addr: arrival.from,
                len: arrival.bytes.len(),
                stride: arrival.stride,
                ..RecvMeta::default()
            };
            count += 1;
        }
        if count == 0 {
            Poll::Pending
        } else {
            Poll::Ready(Ok(count))
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        unreachable!("nobody asks")
    }

    fn max_transmit_segments(&self) -> usize {
        SEGMENTS
    }
}

/// A clock set by hand.
#[derive(Debug)]
struct Clock(Mutex<Instant>);

impl Runtime for Clock {
    fn new_timer(&self, _: Instant) -> Pin<Box<dyn AsyncTimer>> {
        unreachable!("nobody waits")
    }

    fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {
        unreachable!("nothing runs")
    }

    fn wrap_udp_socket(&self, _: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        unreachable!("there is one socket")
    }

    fn now(&self) -> Instant {
        *locked(&self.0)
    }
}
