//! The headers of a connection and the path that they follow, and what an endpoint hands them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_congestion::{FeedHolder, FeedState, PathFeed, PathSample};
use tracing::debug;

use crate::connections::Connections;
use crate::header::{Agreement, HeaderCounters, HeaderState, Headers};

/// A connection of an endpoint. It owns its headers, and the lock that guards them.
pub trait Owner: Send + Sync + Sized + 'static {
    /// The connections of its endpoint.
    fn connections(&self) -> &Connections<Self>;

    /// Its number, for log events.
    fn id(&self) -> usize;

    /// Calls `access` with the lock held. `access` calls nothing that could lock again.
    fn with<T>(&self, access: impl FnOnce(Part<'_>) -> T) -> T;

    /// Changes the headers, if the peer understands them.
    fn with_headers(&self, change: impl FnOnce(&mut Headers)) {
        self.with(|part| {
            if let Some(to) = part.headers {
                change(&mut to.headers);
            }
        });
    }

    /// Returns state and counters of the headers; `None` if there are none.
    fn reported(&self) -> Option<(HeaderState, HeaderCounters)> {
        self.with(|part| {
            let headers = &part.headers.as_ref()?.headers;
            Some((headers.state(), headers.counters()))
        })
    }

    /// Returns what the newest header said about the path.
    fn path_sample(&self) -> Option<PathSample> {
        self.with(|part| part.feed.newest().cloned())
    }

    /// Starts headers: the handshake is complete, and both ends understand them.
    fn agreed(&self, agreement: Agreement, now: Instant) {
        debug!(connection = self.id(), "both ends take path headers");
        let begun = PathHeaders::new(Headers::new(agreement, now));
        self.with(|part| *part.headers = Some(begun));
    }

    /// Starts over with headers because the local address has changed.
    fn rebound(&self) {
        debug!(connection = self.id(), "local address changed");
        self.with_headers(Headers::new_path);
    }

    /// The connection is dropped.
    fn dropped(&self) {
        debug!(connection = self.id(), "connection ends");
        let remote = self.with(|part| part.headers.as_ref()?.remote);
        self.connections().end(self, remote);
    }

    /// Returns what hands samples to the connection's controller.
    fn feed(self: &Arc<Self>) -> PathFeed {
        PathFeed::new(Arc::new(Feed(self.clone())))
    }
}

/// The feed of a connection.
struct Feed<C>(Arc<C>);

impl<C: Owner> FeedHolder for Feed<C> {
    fn with_feed(&self, access: &mut dyn FnMut(&mut FeedState)) {
        self.0.with(|part| access(part.feed));
    }
}

/// What a connection keeps for its headers, behind its lock.
#[derive(Default)]
pub struct Kept {
    /// `None` unless the peer takes headers.
    pub headers: Option<PathHeaders>,
    /// What routers have reported, on its way to the controller.
    pub feed: FeedState,
    /// The most that the application can use, in bytes of UDP payload per second.
    pub desired_rate: Option<u64>,
}

impl Kept {
    /// Returns it with what the controller knows of the path.
    pub fn part(&mut self, path: PathFacts) -> Part<'_> {
        Part {
            headers: &mut self.headers,
            feed: &mut self.feed,
            desired_rate: self.desired_rate,
            path,
        }
    }

    /// Notes that the peer's address is validated: QUIC stacks let a controller count ACKs only then.
    pub fn validated(&mut self) {
        if let Some(to) = &mut self.headers {
            to.is_unvalidated = false;
        }
    }
}

/// What a connection keeps for its headers, while it is locked.
pub struct Part<'a> {
    pub(crate) headers: &'a mut Option<PathHeaders>,
    pub(crate) feed: &'a mut FeedState,
    pub(crate) desired_rate: Option<u64>,
    pub(crate) path: PathFacts,
}

/// What a connection's controller knows of its path.
#[derive(Debug, Clone, Copy, Default)]
pub struct PathFacts {
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// The controller's own window in bytes.
    pub window: u64,
    /// Smoothed round trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// The rate that the controller asks for, if any, in bytes of UDP payload per second.
    pub rate: Option<u64>,
}

/// Path validation sends single packets elsewhere; this many in a row mean a new path.
const STRAYS_OF_A_NEW_PATH: u8 = 3;

/// The headers of a connection whose peer understands them.
pub struct PathHeaders {
    /// What is sent and what has arrived.
    pub(crate) headers: Headers,
    /// The destination of the connection's packets.
    remote: Option<SocketAddr>,
    /// Packets sent elsewhere since the last one sent to `remote`.
    strays: u8,
    /// The peer may not have shown yet that `remote` is its own.
    is_unvalidated: bool,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// The largest packet in bytes that is known to leave room for a header.
    room: u16,
}

impl PathHeaders {
    /// The headers have begun, and nothing was sent.
    pub(crate) fn new(headers: Headers) -> Self {
        Self {
            headers,
            remote: None,
            strays: 0,
            is_unvalidated: false,
            mtu: 0,
            room: 0,
        }
    }

    /// Returns true if packets of `connection` to `destination` follow the path of the headers and
    /// may carry some. Headers wait until the destination is validated, because until then quinn
    /// does not count them towards what an address may be sent (RFC 9000, section 8.1).
    pub(crate) fn is_path_to<C: Owner>(
        &mut self,
        connection: &Arc<C>,
        destination: SocketAddr,
    ) -> bool {
        if self.remote == Some(destination) {
            self.strays = 0;
            return !self.is_unvalidated;
        }
        self.strays += 1;
        if self.remote.is_some() {
            if self.strays < STRAYS_OF_A_NEW_PATH {
                return false;
            }
            debug!(connection = connection.id(), %destination, "peer's address changed");
            self.headers.new_path();
            self.is_unvalidated = true;
        }
        let connections = connection.connections();
        connections.move_peer(connection, self.remote, destination);
        (self.remote, self.strays) = (Some(destination), 0);
        !self.is_unvalidated
    }

    /// Returns true if the next datagram of `connection` should carry a header, when one in `every`
    /// does. `rtt` is the round trip time measured by ACKs.
    pub(crate) fn is_due<C: Owner>(
        &mut self,
        connection: &C,
        now: Instant,
        rtt: Option<Duration>,
        every: u32,
    ) -> bool {
        let last_arrival = || connection.connections().last_arrival(self.remote?);
        self.headers.due(now, rtt, every, last_arrival)
    }

    /// Returns the size in bytes of the largest packet that may carry a header, where full-size
    /// packets have `mtu`. MTU probes include a header, except those sent while headers were off.
    pub(crate) fn room(&mut self, mtu: u16) -> u16 {
        if mtu != self.mtu {
            if mtu < self.room || self.headers.state() != HeaderState::Plain {
                self.room = mtu;
            }
            self.mtu = mtu;
        }
        self.room
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;
    use crate::header::{FACTS, Grease};

    #[test]
    fn packets_that_a_search_without_headers_has_found_are_too_large_for_one() {
        let mut now = epoch();
        let agreement = Agreement {
            sending: [1; 16],
            receiving: [2; 16],
            max_ack_delay: ms(25),
            grease: Grease::new(&[]),
        };
        let mut to = PathHeaders::new(Headers::new(agreement, now));
        assert_eq!((to.room(1200), to.room(1320)), (1200, 1320));
        // No header is echoed.
        while to.headers.state() != HeaderState::Plain {
            now += ms(10);
            if to.headers.due(now, FACTS.rtt, 1, || Some(now)) {
                let mut prepared = to.headers.prepare(now, FACTS, true);
                to.headers.write(&mut prepared, true, &mut Vec::new());
                to.headers.sent(&prepared);
            }
        }
        assert_eq!(to.room(1452), 1320);
        // A new path keeps what was found if only the port has changed.
        to.headers.new_path();
        assert_eq!(to.room(1452), 1320);
        assert_eq!((to.room(1200), to.room(1400)), (1200, 1400));
    }
}
