//! Wraps a UDP socket: adds path headers to datagrams that leave, and removes them from those that
//! arrive.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use evenkeel_wire::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, PATH_HEADER_LEN, PathHeaderPrefix, PathHeaderView,
    UDP_HEADER_LEN, split_path_header,
};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, UdpPoller};
use tracing::{debug, trace};

use crate::connection::{Connection, Connections, State, locked};
use crate::header::{Facts, HeaderState, Headers, NotOurs, Prepared};
use crate::hooks;

/// The socket of an endpoint.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    headers: Option<HeaderSettings>,
    received: Mutex<Received>,
}

/// State of arriving datagrams.
#[derive(Debug, Default)]
struct Received {
    /// Datagrams that could not stay in their batch, in order.
    overflow: VecDeque<(RecvMeta, Vec<u8>)>,
    /// Positions of one buffer's datagrams, without their headers. Kept only to reuse its memory.
    datagrams: Vec<Range<usize>>,
}

/// How an endpoint uses headers.
#[derive(Debug, Clone)]
pub(crate) struct HeaderSettings {
    pub(crate) connections: Arc<Connections>,
    /// One datagram in this many carries a header, once the peer echoes them.
    pub(crate) every: u32,
    /// The TTL or hop limit of packets sent, if known.
    pub(crate) hop_limit: Option<u8>,
    pub(crate) runtime: Arc<dyn Runtime>,
}

/// Connections with one peer address whose keys are tried on a header. Only a proxy has more behind
/// one address, and the connection in use is tried first. Whoever forges headers from there gets
/// few such searches.
const MOST_TRIED: usize = 64;

thread_local! {
    /// Memory for datagrams with their headers, before they leave.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What leaves when quinn sends datagrams of a connection whose peer understands headers.
struct Outgoing {
    /// Headers in the batch's memory, each followed by its datagram: all datagrams, or a copy of
    /// the first.
    headed: Option<Prepared>,
    /// Then send the datagrams as quinn made them.
    bare: bool,
}

impl Socket {
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>, headers: Option<HeaderSettings>) -> Self {
        Self {
            inner,
            headers,
            received: Mutex::default(),
        }
    }

    /// Sends datagrams of a connection, using the empty `batch` as memory.
    fn send(
        &self,
        settings: &HeaderSettings,
        connection: &Arc<Connection>,
        now: Instant,
        transmit: &Transmit<'_>,
        batch: &mut Vec<u8>,
    ) -> io::Result<()> {
        let Some(outgoing) = settings.outgoing(connection, now, transmit, batch) else {
            return self.inner.try_send(transmit);
        };
        if let Some(prepared) = outgoing.headed {
            let segment_size = transmit.segment_size.filter(|_| !outgoing.bare);
            self.inner.try_send(&Transmit {
                contents: batch,
                segment_size: segment_size.map(|size| size + PATH_HEADER_LEN),
                ..*transmit
            })?;
            connection.with_headers(|headers| headers.sent(&prepared));
        }
        if outgoing.bare {
            self.inner.try_send(transmit)?;
            let datagrams = transmit.contents.chunks(segment_size(transmit)).len();
            let datagrams = u32::try_from(datagrams).unwrap_or(u32::MAX);
            connection.with_headers(|headers| headers.sent_bare(datagrams));
        }
        Ok(())
    }

    /// Removes the headers from what has arrived in `bufs`. Returns how many buffers are still in
    /// use.
    fn take_headers_off(
        &self,
        settings: &HeaderSettings,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> usize {
        let now = settings.runtime.now();
        let mut received = locked(&self.received);
        let Received {
            overflow,
            datagrams,
        } = &mut *received;
        let mut in_place = 0;
        let mut last_bare = None;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let accepted = split(buf, meta, datagrams, |header| {
                settings.arrived(now, meta.addr, header)
            });
            if !accepted && last_bare != Some(meta.addr) {
                settings.connections.arrived(meta.addr, now);
                last_bare = Some(meta.addr);
            }
            if overflow.is_empty() {
                in_place += 1;
                if are_a_batch(datagrams) {
                    (meta.len, meta.stride) = close_gaps(buf, datagrams);
                    continue;
                }
            }
            // Only some had a header. Pass them on one by one; whatever arrived later must follow.
            for (nth, datagram) in datagrams.iter().cloned().enumerate() {
                let single = RecvMeta {
                    len: datagram.len(),
                    stride: datagram.len(),
                    ..*meta
                };
                if nth == 0 && overflow.is_empty() {
                    buf.copy_within(datagram, 0);
                    *meta = single;
                } else {
                    overflow.push_back((single, buf[datagram].to_vec()));
                }
            }
        }
        in_place
    }

    /// Hands out datagrams that did not fit before, and returns how many.
    fn take_overflow(&self, bufs: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> usize {
        let mut received = locked(&self.received);
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let Some((single, datagram)) = received.overflow.pop_front() else {
                break;
            };
            *meta = single;
            buf[..datagram.len()].copy_from_slice(&datagram);
            count += 1;
        }
        count
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        hooks::poller_created();
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if let Some(settings) = &self.headers
            && let Some((connection, now)) = hooks::polled()
        {
            let mut batch = BATCH.take();
            batch.clear();
            let result = self.send(settings, &connection, now, transmit, &mut batch);
            BATCH.set(batch);
            return result;
        }
        self.inner.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let Some(settings) = &self.headers else {
            return self.inner.poll_recv(cx, bufs, meta);
        };
        let waited = self.take_overflow(bufs, meta);
        if waited > 0 {
            return Poll::Ready(Ok(waited));
        }
        let count = ready!(self.inner.poll_recv(cx, bufs, meta))?;
        let count = self.take_headers_off(settings, bufs, &mut meta[..count]);
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        let most = self.inner.max_transmit_segments();
        let Some((connection, now)) = hooks::polled() else {
            return most;
        };
        let mut state = connection.state();
        let most = match &self.headers {
            Some(settings) => settings.batch(&connection, &mut state, now, most),
            None => most,
        };
        hooks::batch(&mut state, now, most)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl HeaderSettings {
    /// Decides what leaves for `transmit`, and writes datagrams that get headers to `batch`. `None`
    /// if the peer does not understand headers.
    fn outgoing(
        &self,
        connection: &Arc<Connection>,
        now: Instant,
        transmit: &Transmit<'_>,
        batch: &mut Vec<u8>,
    ) -> Option<Outgoing> {
        let mut state = connection.state();
        let State {
            headers: Some(to),
            path,
            feed,
            desired_rate,
            ..
        } = &mut *state
        else {
            return None;
        };
        let segment = segment_size(transmit);
        let alone = transmit.contents.len() <= segment;
        // A long header means that the handshake is not confirmed.
        let first = transmit.contents.first();
        let one_rtt = first.is_some_and(|first| first & 0x80 == 0);
        let every = self.every.max(feed.header_interval());
        let on_path = to.is_path_to(connection, transmit.destination) && one_rtt;
        let room = usize::from(to.room(path.mtu));
        let state_before = to.headers.state();
        let due =
            on_path && segment <= room && to.is_due(connection, now, path.smoothed_rtt, every);
        let header_state = to.headers.state();
        if header_state != state_before {
            debug!(connection = connection.id, state = ?header_state, "path headers");
        }
        // MTU probes are as large as later packets, so they carry a header too.
        let mtu_probe = on_path && alone && segment > usize::from(path.mtu);
        if !(due || (mtu_probe && header_state != HeaderState::Plain)) {
            return Some(Outgoing {
                headed: None,
                bare: true,
            });
        }
        let overhead = overhead(transmit.destination, every);
        feed.set_overhead(overhead);
        let facts = Facts {
            rtt: path.smoothed_rtt,
            window: path.window,
            rate: path.own_rate,
            is_data: hooks::is_data(connection),
            desired_rate: *desired_rate,
            mtu: path.mtu,
            overhead,
            followed: feed.followed(),
            hop_limit: self.hop_limit,
        };
        let mut prepared = to.headers.prepare(now, facts, due);
        let headed = mtu_probe || header_state == HeaderState::Confirmed;
        // Probes of the path are copies: where headers are lost, nothing else is.
        let end = if headed { usize::MAX } else { segment };
        let contents = &transmit.contents[..end.min(transmit.contents.len())];
        // A datagram of another length would split the batch, or spoil an MTU probe.
        let full = mtu_probe || contents.len() > segment;
        for datagram in contents.chunks(segment) {
            to.headers.write(&mut prepared, !full, batch);
            batch.extend_from_slice(datagram);
        }
        trace!(
            connection = connection.id,
            bytes = batch.len(),
            headed,
            "path headers written"
        );
        Some(Outgoing {
            headed: Some(prepared),
            bare: !headed,
        })
    }

    /// Returns how many of `most` datagrams a batch may have, so that all carry a header or none.
    fn batch(
        &self,
        connection: &Connection,
        state: &mut State,
        now: Instant,
        most: usize,
    ) -> usize {
        let every = self.every.max(state.feed.header_interval());
        match &mut state.headers {
            Some(to) if every > 1 && to.headers.state() == HeaderState::Confirmed => {
                if to.is_due(connection, now, state.path.smoothed_rtt, every) {
                    return 1;
                }
                most.min(to.headers.until_due(every))
            }
            _ => most,
        }
    }

    /// Finds the connection to which a header from `address` belongs, if there is one.
    fn arrived(&self, now: Instant, address: SocketAddr, header: &PathHeaderView<'_>) -> bool {
        let mut first = None;
        let mut tried = 0;
        for nth in 0..MOST_TRIED {
            if nth == 1 && !self.connections.may_search(address, now) {
                break;
            }
            let Some(connection) = self.connections.with_peer(address, nth) else {
                break;
            };
            tried = nth + 1;
            let Some(connection) = connection else {
                continue;
            };
            match header_arrived(&connection, now, header) {
                Some(Ok(())) => {
                    if nth > 0 {
                        self.connections.prefer(address, &connection);
                    }
                    return true;
                }
                Some(Err(NotOurs)) => {
                    first.get_or_insert(connection);
                }
                None => {}
            }
        }
        if tried > 1 {
            self.connections.searched_in_vain(address, tried);
        }
        if let Some(connection) = first {
            debug!(connection = connection.id, %address, "path header of nobody");
            connection.with_headers(Headers::count_forged);
        }
        false
    }
}

/// Returns whether `connection` accepts a header; `None` if it does not use headers.
fn header_arrived(
    connection: &Connection,
    now: Instant,
    header: &PathHeaderView<'_>,
) -> Option<Result<(), NotOurs>> {
    let mut state = connection.state();
    let to = state.headers.as_mut()?;
    let state_before = to.headers.state();
    let sample = match to.headers.arrived(now, header) {
        Ok(Some(sample)) => sample,
        Ok(None) => return Some(Ok(())),
        Err(error) => return Some(Err(error)),
    };
    let header_state = to.headers.state();
    state.last_sample = Some(sample.clone());
    let observer = state.feed.push(sample.clone());
    drop(state);
    if header_state != state_before {
        debug!(connection = connection.id, state = ?header_state, "path headers");
    }
    trace!(
        connection = connection.id,
        rtt = ?sample.rtt,
        forward_queueing = ?sample.forward_queueing,
        backward_queueing = ?sample.backward_queueing,
        grant = ?sample.grant,
        congested = sample.congested,
        "path sample"
    );
    if let Some(observer) = observer {
        observer.on_path(&sample);
    }
    Some(Ok(()))
}

/// Returns the bytes in each datagram of `transmit` except the last, at least 1.
fn segment_size(transmit: &Transmit<'_>) -> usize {
    let size = transmit.segment_size.unwrap_or(transmit.contents.len());
    size.max(1)
}

/// Returns how many bytes each full-size packet to `destination` adds to its UDP payload on the
/// wire, when one in `every` carries a header.
fn overhead(destination: SocketAddr, every: u32) -> u16 {
    // IPv6 sockets map IPv4 addresses.
    let ip = match destination.ip().to_canonical() {
        IpAddr::V4(_) => IPV4_HEADER_LEN,
        IpAddr::V6(_) => IPV6_HEADER_LEN,
    };
    let header = PATH_HEADER_LEN as u32 / every.max(1);
    (ip + UDP_HEADER_LEN) as u16 + header as u16
}

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

/// Finds the `datagrams` of one buffer, without their headers. Returns whether one of the headers
/// came from the peer.
///
/// Datagrams in one buffer arrived at the same time from the same peer, so one header suffices: the
/// newest. An older one is checked only if no newer one proves to be the peer's.
fn split(
    buf: &[u8],
    meta: &RecvMeta,
    datagrams: &mut Vec<Range<usize>>,
    mut is_ours: impl FnMut(&PathHeaderView<'_>) -> bool,
) -> bool {
    datagrams.clear();
    let (end, stride) = (meta.len.min(buf.len()), meta.stride.max(1));
    let mut found = false;
    for start in (0..end).step_by(stride).rev() {
        let next = end.min(start + stride);
        let mut len = next - start;
        if let Some((prefix, packet)) = split_path_header(&buf[start..next]) {
            len = packet.len();
            if let PathHeaderPrefix::Known(header) = prefix {
                found = found || is_ours(&header);
            }
        }
        // A header alone gives quinn no datagram.
        if len > 0 {
            datagrams.push(next - len..next);
        }
    }
    datagrams.reverse();
    found
}

/// Moves `datagrams` of one length to the start of their buffer. Returns their total size and the
/// size of each except the last, in bytes.
fn close_gaps(buf: &mut [u8], datagrams: &[Range<usize>]) -> (usize, usize) {
    let mut end = 0;
    for datagram in datagrams {
        if datagram.start != end {
            buf.copy_within(datagram.clone(), end);
        }
        end += datagram.len();
    }
    (end, datagrams.first().map_or(0, ExactSizeIterator::len))
}

/// Returns whether one buffer can hold these datagrams: all as long as the first, the last no
/// longer.
fn are_a_batch(datagrams: &[Range<usize>]) -> bool {
    match datagrams {
        [] | [_] => true,
        [first, between @ .., last] => {
            between.iter().all(|other| other.len() == first.len()) && last.len() <= first.len()
        }
    }
}

#[cfg(test)]
mod tests;
