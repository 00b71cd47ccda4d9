//! Removes headers from datagrams that arrive.

use std::collections::VecDeque;
use std::fmt;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Instant;

use evenkeel_wire::{PathHeaderPrefix, PathHeaderView, split_path_header};
use tracing::{debug, trace};

use crate::header::{Headers, NotOurs};
use crate::path::Owner;
use crate::usage::Usage;

/// What is in a receive buffer: datagrams of one peer, back to back.
#[derive(Debug)]
pub struct Filled<'a> {
    /// The peer's address.
    pub address: SocketAddr,
    /// Bytes in the buffer.
    pub len: &'a mut usize,
    /// Bytes in each datagram except the last, which may have fewer.
    pub stride: &'a mut usize,
}

/// State of arriving datagrams. `M` is what a QUIC stack's sockets say of a receive buffer.
pub struct Received<M> {
    /// Finds in it what matters here.
    filled: fn(&mut M) -> Filled<'_>,
    /// Datagrams that could not stay in their batch, in order.
    overflow: VecDeque<(M, Vec<u8>)>,
    /// Positions of one buffer's datagrams, without their headers. Kept only to reuse its memory.
    datagrams: Vec<Range<usize>>,
}

/// Connections with one peer address whose keys are tried on a header. Only a proxy has more behind
/// one address, and the connection in use is tried first. Headers forged from there get
/// few such searches.
pub const MOST_TRIED: usize = 64;

impl<M> fmt::Debug for Received<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("overflow", &self.overflow.len())
            .finish_non_exhaustive()
    }
}

impl<M: Copy> Received<M> {
    /// Nothing has arrived. `filled` finds in `M` what is in a buffer.
    pub fn new(filled: fn(&mut M) -> Filled<'_>) -> Self {
        Self {
            filled,
            overflow: VecDeque::new(),
            datagrams: Vec::new(),
        }
    }

    /// Removes the headers from what has arrived in `bufs`. Returns how many buffers are still in
    /// use.
    pub fn take_headers_off<C: Owner>(
        &mut self,
        usage: &Usage<C>,
        now: Instant,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [M],
    ) -> usize {
        let Self {
            filled,
            overflow,
            datagrams,
        } = self;
        let mut in_place = 0;
        let mut last_bare = None;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let all = filled(meta);
            let address = all.address;
            let accepted = split(buf, (*all.len, *all.stride), datagrams, |header| {
                usage.arrived(now, address, header)
            });
            if !accepted && last_bare != Some(address) {
                usage.connections.arrived(address, now);
                last_bare = Some(address);
            }
            if overflow.is_empty() {
                in_place += 1;
                if are_a_batch(datagrams) {
                    (*all.len, *all.stride) = close_gaps(buf, datagrams);
                    continue;
                }
            }
            // Only some had a header. Pass them on one by one; whatever arrived later must follow.
            for (nth, datagram) in datagrams.iter().cloned().enumerate() {
                let mut single = *meta;
                let one = filled(&mut single);
                (*one.len, *one.stride) = (datagram.len(), datagram.len());
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
    pub fn take_overflow(&mut self, bufs: &mut [IoSliceMut<'_>], metas: &mut [M]) -> usize {
        let mut count = 0;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let Some((single, datagram)) = self.overflow.pop_front() else {
                break;
            };
            *meta = single;
            buf[..datagram.len()].copy_from_slice(&datagram);
            count += 1;
        }
        count
    }
}

impl<C: Owner> Usage<C> {
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
            match header_arrived(&*connection, now, header) {
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
            debug!(connection = connection.id(), %address, "path header of nobody");
            connection.with_headers(Headers::count_forged);
        }
        false
    }
}

/// Returns whether `connection` accepts a header; `None` if it does not use headers.
fn header_arrived<C: Owner>(
    connection: &C,
    now: Instant,
    header: &PathHeaderView<'_>,
) -> Option<Result<(), NotOurs>> {
    let arrived = connection.with(|part| {
        let to = part.headers.as_mut()?;
        let state_before = to.headers.state();
        let sample = match to.headers.arrived(now, header) {
            Ok(Some(sample)) => sample,
            Ok(None) => return Some(Ok(None)),
            Err(error) => return Some(Err(error)),
        };
        let header_state = to.headers.state();
        let observer = part.feed.push(sample.clone());
        Some(Ok(Some((sample, observer, state_before, header_state))))
    })?;
    let (sample, observer, state_before, header_state) = match arrived {
        Ok(Some(news)) => news,
        Ok(None) => return Some(Ok(())),
        Err(error) => return Some(Err(error)),
    };
    if header_state != state_before {
        debug!(connection = connection.id(), state = ?header_state, "path headers");
    }
    trace!(
        connection = connection.id(),
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

/// Finds the `datagrams` of one buffer, without their headers. Returns whether one of the headers
/// came from the peer.
///
/// Datagrams in one buffer arrived at the same time from the same peer, so one header suffices: the
/// newest. An older one is checked only if no newer one proves to be the peer's.
fn split(
    buf: &[u8],
    (len, stride): (usize, usize),
    datagrams: &mut Vec<Range<usize>>,
    mut is_ours: impl FnMut(&PathHeaderView<'_>) -> bool,
) -> bool {
    datagrams.clear();
    let (end, stride) = (len.min(buf.len()), stride.max(1));
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
        // A header alone gives the stack no datagram.
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
