//! Decides which connection attempts a server takes up. A decision costs no cryptography.
//!
//! A first packet may carry any source address. So an attempt whose address is not proved counts for
//! no address: above a small number of such handshakes every client has to return
//! a token first (Retry; RFC 9000, section 8.1.2), which costs honest ones a round trip and the
//! server no memory. What is proved counts for its address and its network.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

/// Handshakes at the same time with proved addresses. A client may open 256 connections at once, and
/// 1000 within the 10 s that a handshake may take. Each costs the server a key exchange and a
/// signature.
const PROVED: Bounds = Bounds {
    all: 1024,
    host: 256,
    network: 512,
};

/// Handshakes at the same time with addresses that are not proved.
const UNPROVED: usize = 64;

/// Handshakes that one host may begin at once.
const AT_ONCE: f64 = 512.0;

/// Handshakes that a host may begin in each second, after those at once.
const PER_S: f64 = 100.0;

/// Hosts to remember before those are forgotten that may begin all at once again.
const MANY_HOSTS: usize = 1024;

/// A host may always have this many connections, however few a server takes.
const FEW: usize = 16;

/// What to do with a connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Do the handshake.
    Accept,
    /// Let the client prove its address first.
    Retry,
    /// Do nothing: the client asks again.
    Ignore,
    /// Tell the client to go away: there is no room for its connection.
    Refuse,
}

/// What counts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Handshake { proved: bool },
    Connection,
}

/// Counts handshakes and connections, and limits them.
#[derive(Debug)]
pub(super) struct Admission {
    connections: Bounds,
    /// Whether handshakes are limited.
    guarded: bool,
    connected: Tally,
    /// Handshakes with proved addresses.
    proved: Tally,
    /// Handshakes with addresses that are not proved.
    unproved: usize,
    begun: Begun,
}

/// The most of something at the same time.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    all: usize,
    host: usize,
    network: usize,
}

/// The handshakes that hosts have begun lately.
#[derive(Debug, Default)]
struct Begun {
    hosts: BTreeMap<Group, Lately>,
    /// Forget idle hosts when there are more than this.
    most: usize,
}

/// How many were begun, less those that time has made up for.
#[derive(Clone, Copy, Debug)]
struct Lately {
    count: f64,
    at: Instant,
}

/// Counts something by who it is for.
#[derive(Debug, Default)]
struct Tally {
    all: usize,
    /// By host and by network.
    groups: BTreeMap<Group, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    /// An address of IPv4, or the /64 that one host of IPv6 has for itself.
    Host(IpAddr),
    /// A /24 of IPv4, a /48 of IPv6.
    Network(IpAddr),
}

impl Admission {
    /// Allows `connections` at the same time: half of them to one host, three quarters to one
    /// network. Bounds handshakes if they are `guarded`.
    pub(super) fn new(connections: usize, guarded: bool) -> Self {
        Self {
            connections: Bounds {
                all: connections,
                host: (connections / 2).max(FEW),
                network: (connections / 4 * 3).max(FEW),
            },
            guarded,
            connected: Tally::default(),
            proved: Tally::default(),
            unproved: 0,
            begun: Begun::default(),
        }
    }

    /// Decides about an attempt from `address`, `proved` or not, that comes `now`. One that is
    /// accepted counts until it [leaves](Self::leave).
    pub(super) fn attempt(&mut self, address: IpAddr, proved: bool, now: Instant) -> Verdict {
        if !self.connected.has_room(address, self.connections) {
            return Verdict::Refuse;
        }
        let is_too_fast = self.guarded && !self.begun.has_room(address, now);
        if !proved {
            if is_too_fast || self.guarded && self.unproved >= UNPROVED {
                return Verdict::Retry;
            }
            self.unproved += 1;
        } else if is_too_fast || self.guarded && !self.proved.has_room(address, PROVED) {
            return Verdict::Ignore;
        } else {
            self.proved.add(address);
        }
        self.begun.add(address, now);
        Verdict::Accept
    }

    /// Takes one of the connections, if there is room.
    pub(super) fn connected(&mut self, address: IpAddr) -> bool {
        let has_room = self.connected.has_room(address, self.connections);
        if has_room {
            self.connected.add(address);
        }
        has_room
    }

    /// Counts a handshake or a connection no longer.
    pub(super) fn leave(&mut self, address: IpAddr, place: Place) {
        match place {
            Place::Handshake { proved: true } => self.proved.remove(address),
            Place::Handshake { proved: false } => self.unproved -= 1,
            Place::Connection => self.connected.remove(address),
        }
    }
}

impl Begun {
    fn has_room(&self, address: IpAddr, now: Instant) -> bool {
        let [host, _] = groups(address);
        let lately = self.hosts.get(&host);
        lately.is_none_or(|lately| lately.count_at(now) < AT_ONCE)
    }

    fn add(&mut self, address: IpAddr, now: Instant) {
        if self.hosts.len() > self.most {
            self.hosts.retain(|_, lately| lately.count_at(now) > 0.0);
            self.most = (2 * self.hosts.len()).max(MANY_HOSTS);
        }
        let [host, _] = groups(address);
        let lately = self.hosts.entry(host).or_insert(Lately {
            count: 0.0,
            at: now,
        });
        lately.count = lately.count_at(now) + 1.0;
        lately.at = now;
    }
}

impl Lately {
    fn count_at(self, now: Instant) -> f64 {
        let time = now.saturating_duration_since(self.at).as_secs_f64();
        (self.count - time * PER_S).max(0.0)
    }
}

impl Tally {
    fn has_room(&self, address: IpAddr, bounds: Bounds) -> bool {
        self.all < bounds.all
            && groups(address).into_iter().all(|group| {
                let most = match group {
                    Group::Host(_) => bounds.host,
                    Group::Network(_) => bounds.network,
                };
                self.groups.get(&group).is_none_or(|count| *count < most)
            })
    }

    fn add(&mut self, address: IpAddr) {
        self.all += 1;
        for group in groups(address) {
            *self.groups.entry(group).or_default() += 1;
        }
    }

    fn remove(&mut self, address: IpAddr) {
        self.all -= 1;
        for group in groups(address) {
            let count = self.groups.get_mut(&group).expect("it was added");
            *count -= 1;
            if *count == 0 {
                self.groups.remove(&group);
            }
        }
    }
}

fn groups(address: IpAddr) -> [Group; 2] {
    match address.to_canonical() {
        IpAddr::V4(v4) => [
            Group::Host(v4.into()),
            Group::Network(Ipv4Addr::from_bits(v4.to_bits() & (!0 << 8)).into()),
        ],
        IpAddr::V6(v6) => {
            let first = |bits: u32| Ipv6Addr::from_bits(v6.to_bits() & (!0 << (128 - bits)));
            [
                Group::Host(first(64).into()),
                Group::Network(first(48).into()),
            ]
        }
    }
}

#[cfg(test)]
mod tests;
