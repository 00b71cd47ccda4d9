//! Adds headers to datagrams that leave.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use evenkeel_wire::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, PATH_HEADER_LEN, UDP_HEADER_LEN};
use tracing::{debug, trace};

use crate::header::{Facts, HeaderState, Prepared};
use crate::path::{Owner, Part};
use crate::usage::Usage;

/// What a QUIC stack sends at once: datagrams to one address, back to back.
#[derive(Debug, Clone, Copy)]
pub struct Datagrams<'a> {
    /// The peer's address.
    pub destination: SocketAddr,
    /// The datagrams' bytes.
    pub contents: &'a [u8],
    /// Bytes in each datagram except the last, which may have fewer; `None` if there is only one.
    pub segment_size: Option<usize>,
}

impl Datagrams<'_> {
    /// Returns the bytes in each datagram except the last, at least 1.
    fn segment(&self) -> usize {
        let size = self.segment_size.unwrap_or(self.contents.len());
        size.max(1)
    }
}

thread_local! {
    /// Memory for datagrams with their headers, before they leave.
    static BATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What leaves when a stack sends datagrams of a connection whose peer understands headers.
struct Outgoing {
    /// Headers in the batch's memory, each followed by its datagram: all datagrams, or a copy of
    /// the first.
    headed: Option<Prepared>,
    /// Then send the datagrams as the stack made them.
    bare: bool,
}

impl<C: Owner> Usage<C> {
    /// Sends `datagrams` of `connection`, some with headers: calls `give` with bytes and segment
    /// size of what is to leave, twice if a probe leaves as a copy. `is_data` tells whether they are
    /// data that the controller's window let through, not ACKs alone.
    ///
    /// # Errors
    /// Those of `give`. Then the stack sends the same datagrams again, or gives them up.
    pub fn send<E>(
        &self,
        connection: &Arc<C>,
        now: Instant,
        datagrams: &Datagrams<'_>,
        is_data: impl FnOnce() -> bool,
        give: impl FnMut(&[u8], Option<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut batch = BATCH.take();
        batch.clear();
        let outgoing = connection
            .with(|part| self.outgoing(connection, part, now, datagrams, is_data, &mut batch));
        let result = leave(&**connection, datagrams, outgoing, &batch, give);
        BATCH.set(batch);
        result
    }

    /// Decides what leaves for `datagrams`, and writes datagrams that get headers to `batch`. `None`
    /// if the peer does not understand headers.
    fn outgoing(
        &self,
        connection: &Arc<C>,
        part: Part<'_>,
        now: Instant,
        datagrams: &Datagrams<'_>,
        is_data: impl FnOnce() -> bool,
        batch: &mut Vec<u8>,
    ) -> Option<Outgoing> {
        let (to, feed, path) = (part.headers.as_mut()?, part.feed, part.path);
        let segment = datagrams.segment();
        let alone = datagrams.contents.len() <= segment;
        // A long header means that the handshake is not confirmed.
        let first = datagrams.contents.first();
        let one_rtt = first.is_some_and(|first| first & 0x80 == 0);
        let every = self.every.max(feed.header_interval());
        let on_path = to.is_path_to(connection, datagrams.destination) && one_rtt;
        let room = usize::from(to.room(path.mtu));
        let state_before = to.headers.state();
        let due = on_path && segment <= room && to.is_due(&**connection, now, path.rtt, every);
        let header_state = to.headers.state();
        if header_state != state_before {
            debug!(connection = connection.id(), state = ?header_state, "path headers");
        }
        // MTU probes are as large as later packets, so they carry a header too.
        let mtu_probe = on_path && alone && segment > usize::from(path.mtu);
        if !(due || (mtu_probe && header_state != HeaderState::Plain)) {
            return Some(Outgoing {
                headed: None,
                bare: true,
            });
        }
        let overhead = overhead(datagrams.destination, every);
        feed.set_overhead(overhead);
        let facts = Facts {
            rtt: path.rtt,
            window: path.window,
            rate: path.rate,
            is_data: is_data(),
            desired_rate: part.desired_rate,
            mtu: path.mtu,
            overhead,
            followed: feed.followed(),
            hop_limit: self.hop_limit,
        };
        let mut prepared = to.headers.prepare(now, facts, due);
        let headed = mtu_probe || header_state == HeaderState::Confirmed;
        // Probes of the path are copies: where headers are lost, nothing else is.
        let end = if headed { usize::MAX } else { segment };
        let contents = &datagrams.contents[..end.min(datagrams.contents.len())];
        // A datagram of another length would split the batch, or spoil an MTU probe.
        let full = mtu_probe || contents.len() > segment;
        for datagram in contents.chunks(segment) {
            to.headers.write(&mut prepared, !full, batch);
            batch.extend_from_slice(datagram);
        }
        trace!(
            connection = connection.id(),
            bytes = batch.len(),
            headed,
            "path headers written"
        );
        Some(Outgoing {
            headed: Some(prepared),
            bare: !headed,
        })
    }

    /// Returns how many of `most` datagrams a batch may have. Either all of them carry a header or
    /// none does.
    pub fn batch(&self, connection: &C, part: Part<'_>, now: Instant, most: usize) -> usize {
        let every = self.every.max(part.feed.header_interval());
        match part.headers {
            Some(to) if to.headers.state() == HeaderState::Confirmed => {
                let due = to.is_due(connection, now, part.path.rtt, every);
                to.headers.batch(due, every, most)
            }
            _ => most,
        }
    }
}

/// Gives what leaves to `give`, and notes that it has left.
fn leave<C: Owner, E>(
    connection: &C,
    datagrams: &Datagrams<'_>,
    outgoing: Option<Outgoing>,
    batch: &[u8],
    mut give: impl FnMut(&[u8], Option<usize>) -> Result<(), E>,
) -> Result<(), E> {
    let Some(outgoing) = outgoing else {
        return give(datagrams.contents, datagrams.segment_size);
    };
    if let Some(prepared) = outgoing.headed {
        let segment_size = datagrams.segment_size.filter(|_| !outgoing.bare);
        give(batch, segment_size.map(|size| size + PATH_HEADER_LEN))?;
        connection.with_headers(|headers| headers.sent(&prepared));
    }
    if outgoing.bare {
        give(datagrams.contents, datagrams.segment_size)?;
        let count = datagrams.contents.chunks(datagrams.segment()).len();
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        connection.with_headers(|headers| headers.sent_bare(count));
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_packet_adds_to_its_payload_depends_on_address_and_share_of_headers() {
        for (address, every, bytes) in [
            ("192.0.2.1:9", 1, 60),
            ("[2001:db8::1]:9", 1, 80),
            ("[::ffff:192.0.2.1]:9", 4, 36),
            ("192.0.2.1:9", 1000, 28),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(overhead(address, every), bytes, "{address}, {every}");
        }
    }
}
