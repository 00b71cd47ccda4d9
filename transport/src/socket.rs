//! A UDP socket around another: puts path headers on datagrams that leave, takes them off those
//! that arrive.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use evenkeel_wire::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, PATH_HEADER_LEN, PathHeaderPrefix, UDP_HEADER_LEN,
    split_path_header,
};
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Runtime, UdpPoller};

use crate::cell::{Cell, Headed, Shared};
use crate::header::{Facts, HeaderState, Headers, NotOurs, Prepared};
use crate::runtime::seam;

/// The socket of an endpoint.
#[derive(Debug)]
pub(crate) struct Socket {
    inner: Arc<dyn AsyncUdpSocket>,
    headers: Option<HeaderSettings>,
    received: Mutex<Received>,
}

/// What arriving datagrams leave behind.
#[derive(Debug, Default)]
struct Received {
    /// Datagrams that could not stay in their batch, in order.
    overflow: VecDeque<(RecvMeta, Vec<u8>)>,
    /// Lengths of the datagrams of one buffer; kept for its memory.
    lengths: Vec<usize>,
}

/// How an endpoint uses headers.
#[derive(Debug, Clone)]
pub(crate) struct HeaderSettings {
    pub(crate) shared: Arc<Shared>,
    /// One datagram in so many carries a header, where the peer echoes them.
    pub(crate) every: u32,
    /// The TTL or hop limit with which datagrams leave, if it is known.
    pub(crate) hop_limit: Option<u8>,
    /// The clock.
    pub(crate) runtime: Arc<dyn Runtime>,
}

/// Connections with one peer address whose keys are tried on a header. More than that share an
/// address only at a proxy, and the one in use is tried first.
const MOST_TRIED: usize = 64;

thread_local! {
    /// Datagrams with their headers, before they leave.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Socket {
    pub(crate) fn new(inner: Arc<dyn AsyncUdpSocket>, headers: Option<HeaderSettings>) -> Self {
        Self {
            inner,
            headers,
            received: Mutex::default(),
        }
    }

    /// Sends datagrams of a connection that takes headers.
    fn send_headed(
        &self,
        settings: &HeaderSettings,
        cell: &Arc<Cell>,
        headed: &mut Headed,
        now: Instant,
        transmit: &Transmit<'_>,
    ) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        let segments = transmit.contents.chunks(segment.max(1));
        // A long header: the handshake is not confirmed.
        let one_rtt = transmit
            .contents
            .first()
            .is_some_and(|first| first & 0x80 == 0);
        let (rtt, window, mtu, rate) = {
            let state = cell.state();
            (state.smoothed_rtt, state.window, state.mtu, state.own_rate)
        };
        let every = settings.every.max(cell.feed.header_interval());
        let on_path = cell.is_path_to(headed, transmit.destination) && one_rtt;
        let room = usize::from(headed.room(mtu));
        let (headers, remote) = (&mut headed.headers, headed.remote);
        let alone = segments.len() == 1;
        let due = on_path
            && segment <= room
            && headers.due(now, rtt, every, || cell.last_arrival(remote));
        // Searches for the path's MTU are as large as what is sent later.
        let mtu_probe = on_path && alone && segment > usize::from(mtu);
        let state = headers.state();
        let headed = due || (mtu_probe && state != HeaderState::Plain);
        if headed {
            let overhead = overhead(transmit.destination, every);
            cell.feed.set_overhead(overhead);
            let facts = Facts {
                rtt,
                window,
                rate,
                is_data: seam::is_data(cell),
                desired_rate: cell.wishes().desired_rate,
                mtu,
                overhead,
                followed: cell.feed.followed(),
                hop_limit: settings.hop_limit,
            };
            let prepared = headers.prepare(now, facts, due);
            if mtu_probe || state == HeaderState::Confirmed {
                return self.send_behind_headers(headers, prepared, transmit, mtu_probe);
            }
            // What tries the path is a copy. Where headers are lost, nothing else is.
            let probe = Transmit {
                contents: &transmit.contents[..segment.min(transmit.contents.len())],
                segment_size: None,
                ..*transmit
            };
            self.send_behind_headers(headers, prepared, &probe, false)?;
        }
        let bare = u32::try_from(segments.len()).unwrap_or(u32::MAX);
        self.inner
            .try_send(transmit)
            .inspect(|()| headers.sent_bare(bare))
    }

    /// Sends datagrams with a header in front of each, of full length if they are `full`.
    fn send_behind_headers(
        &self,
        headers: &mut Headers,
        mut prepared: Prepared,
        transmit: &Transmit<'_>,
        full: bool,
    ) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        let segments = transmit.contents.chunks(segment.max(1));
        let full = full || segments.len() > 1;
        BATCH.with_borrow_mut(|batch| {
            batch.clear();
            for datagram in segments {
                headers.write(&mut prepared, !full, batch);
                batch.extend_from_slice(datagram);
            }
            self.inner.try_send(&Transmit {
                contents: batch,
                segment_size: transmit.segment_size.map(|size| size + PATH_HEADER_LEN),
                ..*transmit
            })
        })?;
        headers.sent(&prepared);
        Ok(())
    }

    /// Takes the headers off what has arrived in `bufs`, and says how many of them are in use
    /// then.
    fn take_headers_off(
        &self,
        settings: &HeaderSettings,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> usize {
        let now = settings.runtime.now();
        let mut received = self.received();
        let Received { overflow, lengths } = &mut *received;
        let mut in_place = 0;
        let mut last_bare = None;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let accepted = strip(buf, meta, lengths, |header| {
                settings.arrived(now, meta.addr, header)
            });
            if !accepted && last_bare != Some(meta.addr) {
                settings.shared.arrived(meta.addr, now);
                last_bare = Some(meta.addr);
            }
            if overflow.is_empty() {
                in_place += 1;
                if are_a_batch(lengths) {
                    meta.len = lengths.iter().sum();
                    meta.stride = lengths.first().copied().unwrap_or_default();
                    continue;
                }
            }
            // Some had a header and some had not. They go on one by one, and what has arrived
            // after them follows them.
            let mut at = 0;
            for (nth, len) in lengths.iter().copied().enumerate() {
                let single = RecvMeta {
                    len,
                    stride: len,
                    ..*meta
                };
                if nth == 0 && overflow.is_empty() {
                    *meta = single;
                } else {
                    overflow.push_back((single, buf[at..at + len].to_vec()));
                }
                at += len;
            }
        }
        in_place
    }

    /// Hands out what did not fit before; how many datagrams.
    fn take_overflow(&self, bufs: &mut [IoSliceMut<'_>], metas: &mut [RecvMeta]) -> usize {
        let mut received = self.received();
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

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        seam::placed();
        self.inner.clone().create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if let Some(settings) = &self.headers
            && let Some((cell, now)) = seam::polled()
            && let Some(headed) = &mut *cell.headed()
        {
            return self.send_headed(settings, &cell, headed, now, transmit);
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
        let mut most = self.inner.max_transmit_segments();
        if let Some(settings) = &self.headers
            && let Some((cell, now)) = seam::polled()
            && let Some(headed) = &mut *cell.headed()
        {
            let (headers, remote) = (&mut headed.headers, headed.remote);
            let every = settings.every.max(cell.feed.header_interval());
            // Bound first: the guard of an `if` condition lasts to the end of its block.
            let rtt = cell.state().smoothed_rtt;
            // The datagrams of a batch all carry one, or none does.
            if every > 1 && headers.state() == HeaderState::Confirmed {
                if headers.due(now, rtt, every, || cell.last_arrival(remote)) {
                    return 1;
                }
                most = most.min(headers.until_due(every));
            }
        }
        seam::batch(most)
    }

    fn max_receive_segments(&self) -> usize {
        self.inner.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.inner.may_fragment()
    }
}

impl HeaderSettings {
    /// A header has arrived from `address`: finds the connection that it is for, if there is one.
    fn arrived(&self, now: Instant, address: SocketAddr, header: &[u8; PATH_HEADER_LEN]) -> bool {
        let mut first = None;
        for nth in 0..MOST_TRIED {
            let Some(cell) = self.shared.connection_with(address, nth) else {
                break;
            };
            let Some(cell) = cell else { continue };
            let told = match &mut *cell.headed() {
                Some(headed) => headed.headers.arrived(now, header),
                None => continue,
            };
            match told {
                Ok(sample) => {
                    if nth > 0 {
                        self.shared.prefer(address, &cell);
                    }
                    if let Some(sample) = sample {
                        cell.wishes().last_sample = Some(sample.clone());
                        cell.feed.push(sample);
                    }
                    return true;
                }
                Err(NotOurs) => {
                    first.get_or_insert(cell);
                }
            }
        }
        if let Some(cell) = first
            && let Some(headed) = &mut *cell.headed()
        {
            headed.headers.count_forged();
        }
        false
    }
}

/// Bytes that each full-size packet to `destination` adds to its UDP payload on the wire, when one
/// in `every` carries a header.
fn overhead(destination: SocketAddr, every: u32) -> u16 {
    // IPv6 sockets have IPv4 addresses mapped.
    let ip = match destination.ip().to_canonical() {
        IpAddr::V4(_) => IPV4_HEADER_LEN,
        IpAddr::V6(_) => IPV6_HEADER_LEN,
    };
    let header = PATH_HEADER_LEN as u32 / every.max(1);
    (ip + UDP_HEADER_LEN) as u16 + header as u16
}

/// Fixes the TTL and hop limit of a socket's packets, so that routers can tell whether a hop
/// before them has stamped; `None` if the system does not let.
pub(crate) fn fix_hop_limit(socket: &UdpSocket) -> Option<u8> {
    /// What hosts commonly use (IANA, IP option numbers, default TTL).
    const HOP_LIMIT: u8 = 64;
    // IPv4 packets of an IPv6 socket have the IPv4 option's.
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

/// Takes the headers off the datagrams of one buffer, and closes the gaps. `lengths` are those of
/// the datagrams that are left. Returns whether a header of the peer's was among them.
///
/// Datagrams in one buffer have arrived at the same time from the same peer. The newest header
/// among them is looked at; older ones only if that one is none of the peer's.
fn strip(
    buf: &mut [u8],
    meta: &RecvMeta,
    lengths: &mut Vec<usize>,
    mut is_ours: impl FnMut(&[u8; PATH_HEADER_LEN]) -> bool,
) -> bool {
    lengths.clear();
    let end = meta.len.min(buf.len());
    let stride = meta.stride.max(1);
    let found = buf[..end].chunks(stride).rev().any(|datagram| {
        matches!(
            split_path_header(datagram),
            Some((PathHeaderPrefix::Known(_), _))
        ) && datagram.first_chunk().is_some_and(&mut is_ours)
    });
    let mut to = 0;
    for from in (0..end).step_by(stride) {
        let next = end.min(from + stride);
        let len =
            split_path_header(&buf[from..next]).map_or(next - from, |(_, packet)| packet.len());
        if next - len != to {
            buf.copy_within(next - len..next, to);
        }
        // Nothing behind a header is no datagram for quinn.
        if len > 0 {
            lengths.push(len);
        }
        to += len;
    }
    found
}

/// Whether datagrams of these lengths are what one buffer can hold: all as long as the first, and
/// the last not longer.
fn are_a_batch(lengths: &[usize]) -> bool {
    match lengths {
        [] | [_] => true,
        [first, between @ .., last] => between.iter().all(|len| len == first) && last <= first,
    }
}

#[cfg(test)]
mod tests;
