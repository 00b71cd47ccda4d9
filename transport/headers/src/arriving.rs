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

/// A QUIC stack whose sockets say of each receive buffer what is in it: datagrams of one peer, back
/// to back.
pub trait Stack {
    /// What is said of a buffer.
    type Meta: Copy + Send;

    /// Returns the peer's address.
    fn address(meta: &Self::Meta) -> SocketAddr;

    /// Returns the bytes in the buffer, and those in each datagram except the last, which may have
    /// fewer.
    fn size(meta: &Self::Meta) -> (usize, usize);

    /// Returns what is said of a buffer of another size, otherwise as of `meta`.
    fn resized(meta: &Self::Meta, len: usize, stride: usize) -> Self::Meta;
}

/// State of arriving datagrams.
pub struct Received<S: Stack> {
    /// Datagrams that could not stay in their batch, in order.
    overflow: VecDeque<(S::Meta, Vec<u8>)>,
    /// Positions of one buffer's datagrams, without their headers. Kept only to reuse its memory.
    datagrams: Vec<Range<usize>>,
}

/// Connections with one peer address whose keys are tried on a header. Only a proxy has more behind
/// one address, and the connection in use is tried first. Whoever forges headers from there gets
/// few such searches.
pub const MOST_TRIED: usize = 64;

impl<S: Stack> Default for Received<S> {
    fn default() -> Self {
        Self {
            overflow: VecDeque::new(),
            datagrams: Vec::new(),
        }
    }
}

impl<S: Stack> fmt::Debug for Received<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("overflow", &self.overflow.len())
            .finish_non_exhaustive()
    }
}

impl<S: Stack> Received<S> {
    /// Removes the headers from what has arrived in `bufs`. Returns how many buffers are still in
    /// use.
    pub fn take_headers_off<C: Owner>(
        &mut self,
        usage: &Usage<C>,
        now: Instant,
        bufs: &mut [IoSliceMut<'_>],
        metas: &mut [S::Meta],
    ) -> usize {
        let Self {
            overflow,
            datagrams,
        } = self;
        let mut in_place = 0;
        let mut last_bare = None;
        for (buf, meta) in bufs.iter_mut().zip(metas) {
            let address = S::address(meta);
            let accepted = split(buf, S::size(meta), datagrams, |header| {
                usage.arrived(now, address, header)
            });
            if !accepted && last_bare != Some(address) {
                usage.connections.arrived(address, now);
                last_bare = Some(address);
            }
            if overflow.is_empty() {
                in_place += 1;
                if are_a_batch(datagrams) {
                    let (len, stride) = close_gaps(buf, datagrams);
                    *meta = S::resized(meta, len, stride);
                    continue;
                }
            }
            // Only some had a header. Pass them on one by one; whatever arrived later must follow.
            for (nth, datagram) in datagrams.iter().cloned().enumerate() {
                let single = S::resized(meta, datagram.len(), datagram.len());
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
    pub fn take_overflow(&mut self, bufs: &mut [IoSliceMut<'_>], metas: &mut [S::Meta]) -> usize {
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
        *part.last_sample = Some(sample.clone());
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
