//! Hostile datagrams at an endpoint that takes path headers.
//!
//! Two ends, two connections between them, and a network that delays, repeats, changes, cuts and
//! invents. Whatever arrives, quinn is given the packet behind each header and everything else
//! unchanged, and nothing is believed but what the other end has written, once and in order.
#![no_main]

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use evenkeel::controller::{Congestion, Controller, Feedback};
use evenkeel::fuzzing::{Arrival, HeaderConnection, HeaderSocket, MTU};
use evenkeel::{Grant, HeaderState};
use evenkeel_fuzz::conversation::{self, Piece, Step};
use evenkeel_wire::{
    ECHO_LIFETIME, PATH_HEADER_LEN, PATH_HEADER_MAGIC, PathHeaderMut, PathHeaderView,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Ok(steps) = conversation::read(input) else {
        return;
    };
    let mut world = World::new(masters(input));
    for step in steps {
        world.step(step);
    }
});

/// When every run begins; nothing depends on which moment it is.
static BEGINNING: LazyLock<Instant> = LazyLock::new(
    #[expect(clippy::disallowed_methods, reason = "the one source of an Instant")]
    Instant::now,
);

/// Masters of the headers from each end, for each connection: others for every input. The fuzzer sees
/// the tags that are compared and writes them into the next input; with the same masters there, that
/// would be a forger who knows them.
fn masters(input: &[u8]) -> [[[u8; 16]; 2]; 2] {
    [0_u8, 1].map(|end| {
        [0_u8, 1].map(|connection| {
            let mut hasher = DefaultHasher::new();
            (end, connection, input).hash(&mut hasher);
            u128::from(hasher.finish()).to_be_bytes()
        })
    })
}

/// Transit times up to this leave the receiver with an idea of the sender's clock that is good
/// enough: section 6 allows 8 s, for this header and the one before together.
const PROMPT: Duration = Duration::from_secs(3);

/// Changes of path in a row that a receiver finds: section 6.
const FOUND: usize = 4;

struct World {
    now: Instant,
    ends: [End; 2],
}

struct End {
    socket: HeaderSocket,
    connections: [HeaderConnection; 2],
    /// What this end has sent on each connection.
    sent: [Vec<Sent>; 2],
    /// The headers on it: of which connection, on the how manieth datagram.
    written: HashMap<Unchangeable, (usize, usize)>,
    /// Path changes of each connection.
    rebinds: [usize; 2],
    /// What this end has accepted on each connection.
    accepted: [Option<Accepted>; 2],
}

/// What nobody but its sender may write in a header: what the tag covers, and the tag.
type Unchangeable = ([u8; 28], [u8; 4]);

fn unchangeable(datagram: &[u8]) -> Option<Unchangeable> {
    let header = PathHeaderView::parse(datagram).ok()?;
    Some((header.covered_by_tag(), header.tag()))
}

struct Sent {
    datagram: Vec<u8>,
    at: Instant,
    /// Path changes before.
    rebinds: usize,
}

/// The newest header that was accepted. A receiver may look at one of those that arrive at once
/// alone, or at all, so that there can be two answers.
#[derive(Clone, Copy)]
struct Accepted {
    /// It is none before this in the order of sending.
    at_least: usize,
    /// And none behind this.
    at_most: usize,
    /// It was on its way for no longer than `PROMPT`.
    prompt: bool,
}

fn address(end: usize) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 4433 + end as u16).into()
}

impl World {
    fn new(masters: [[[u8; 16]; 2]; 2]) -> Self {
        let now = *BEGINNING;
        let ends = [0, 1].map(|end| {
            let socket = HeaderSocket::new(1 + 3 * end as u32, now);
            let connect = |connection: usize| {
                let (ours, theirs) = (masters[end], masters[1 - end]);
                socket.connect(ours[connection], theirs[connection])
            };
            End {
                connections: [connect(0), connect(1)],
                socket,
                sent: Default::default(),
                written: HashMap::new(),
                rebinds: [0; 2],
                accepted: [None; 2],
            }
        });
        let mut world = Self { now, ends };
        // From now on each end knows the other's address.
        for end in 0..2 {
            for connection in 0..2 {
                world.send(end, connection, &[vec![0x40]]);
            }
        }
        world
    }

    fn step(&mut self, step: Step) {
        let odd = |number: u8| usize::from(number % 2);
        match step {
            Step::Wait(micros) => {
                self.now += Duration::from_micros(micros.into());
                for end in &self.ends {
                    end.socket.set_time(self.now);
                }
            }
            Step::Send {
                end,
                connection,
                packets,
                size,
                first,
            } => {
                let size = usize::from(size) * 8 + 1;
                // Probes for a greater MTU go alone.
                let packets = match packets % 16 {
                    packets if packets > 0 && size <= usize::from(MTU) => packets,
                    _ => 1,
                };
                let packets: Vec<Vec<u8>> = (0..packets)
                    .map(|nth| {
                        let mut packet = vec![nth; size];
                        packet[0] = first | 0x40;
                        packet
                    })
                    .collect();
                self.send(odd(end), odd(connection), &packets);
            }
            Step::Arrive {
                end,
                from,
                stride,
                pieces,
            } => {
                let end = odd(end);
                let pieces: Vec<Vec<u8>> = pieces
                    .into_iter()
                    .map(|piece| self.piece(1 - end, piece))
                    .collect();
                let stride = match stride {
                    0 => pieces.first().map_or(0, Vec::len),
                    stride => stride.into(),
                };
                let bytes = pieces.concat();
                if !bytes.is_empty() {
                    self.arrive(end, odd(from) == 0, bytes, stride.max(1));
                }
            }
            Step::Rebind { end, connection } => {
                let (end, connection) = (odd(end), odd(connection));
                self.ends[end].connections[connection].rebound();
                self.ends[end].rebinds[connection] += 1;
            }
            Step::Follow {
                end,
                connection,
                feedback,
            } => {
                let feedback = match feedback % 4 {
                    0 => None,
                    1 => Some(Feedback::Acp),
                    2 => Some(Feedback::Rcp),
                    _ => Some(Feedback::Xcp),
                };
                let connection = &self.ends[odd(end)].connections[odd(connection)];
                let factory = evenkeel::controller::adapt(move |_, _| Box::new(Follower(feedback)));
                connection.control(factory, self.now);
            }
        }
    }

    /// Packets leave as they are, behind headers or not.
    fn send(&mut self, end: usize, connection: usize, packets: &[Vec<u8>]) {
        let this = &mut self.ends[end];
        let (state, _) = this.connections[connection].path_headers();
        let left = this
            .socket
            .send(&this.connections[connection], address(1 - end), packets);
        // What tries a path is a copy, behind a header, right before its packet.
        assert!((packets.len()..=packets.len() + 1).contains(&left.len()));
        let copy = (0..left.len().saturating_sub(1)).find(|nth| {
            let (first, next) = (&left[*nth], &left[nth + 1]);
            left.len() > packets.len() && first.len() > next.len() && behind_header(first) == next
        });
        assert_eq!(left.len() - packets.len(), usize::from(copy.is_some()));
        let mut headed = 0;
        for (nth, datagram) in left.into_iter().enumerate() {
            let before = usize::from(copy.is_some_and(|copy| nth > copy));
            let packet = &packets[nth - before];
            assert_eq!(behind_header(&datagram), packet);
            headed += usize::from(datagram.len() > packet.len());
            if let Some(header) = unchangeable(&datagram) {
                let nth = this.sent[connection].len();
                this.written.insert(header, (connection, nth));
            }
            this.sent[connection].push(Sent {
                datagram,
                at: self.now,
                rebinds: this.rebinds[connection],
            });
        }
        let long_header = packets[0][0] & 0x80 != 0;
        let most = match state {
            _ if long_header => 0,
            HeaderState::Plain => 0,
            HeaderState::Probing => 1,
            HeaderState::Confirmed => packets.len(),
        };
        assert!(headed <= most, "{headed} headers, {state:?}");
    }

    /// Bytes on their way from `sender`.
    fn piece(&self, sender: usize, piece: Piece) -> Vec<u8> {
        match piece {
            Piece::Invented(bytes) => bytes,
            Piece::Sent {
                connection,
                before,
                operations,
                damage,
            } => {
                let sent = &self.ends[sender].sent[usize::from(connection % 2)];
                let nth = sent.len() - 1 - usize::from(before) % sent.len();
                let mut datagram = sent[nth].datagram.clone();
                if let Ok(mut header) = PathHeaderMut::parse(&mut datagram) {
                    for operation in operations {
                        operation.apply_checked(&mut header);
                    }
                }
                if let Some((at, flips)) = damage {
                    let at = usize::from(at) % datagram.len();
                    datagram[at] ^= flips;
                }
                datagram
            }
        }
    }

    /// Datagrams of `stride` bytes arrive, `expected` from the peer or not.
    fn arrive(&mut self, end: usize, expected: bool, bytes: Vec<u8>, stride: usize) {
        let from = if expected {
            address(1 - end)
        } else {
            (Ipv4Addr::LOCALHOST, 9).into()
        };
        // Which of the headers are the peer's, in the order of arrival.
        let genuine: Vec<(usize, usize)> = bytes
            .chunks(stride)
            .filter_map(|datagram| self.ends[1 - end].written.get(&unchangeable(datagram)?))
            .copied()
            .collect();
        let packets: Vec<_> = bytes
            .chunks(stride)
            .map(behind_header)
            .filter(|packet| !packet.is_empty())
            .map(|packet| (from, packet.to_vec()))
            .collect();
        let before = self.ends[end].told();
        let arrival = Arrival {
            from,
            bytes,
            stride,
        };
        assert_eq!(self.ends[end].socket.receive(vec![arrival]), packets);
        for (connection, was) in before.into_iter().enumerate() {
            let newest = self.ends[end].accepted[connection];
            let newer = |nth: usize| newest.is_none_or(|newest| nth > newest.at_least);
            let news: Vec<usize> = genuine
                .iter()
                .filter(|(of, nth)| expected && *of == connection && newer(*nth))
                .map(|(_, nth)| *nth)
                .collect();
            let Told { counters, sample } = self.ends[end].told_of(connection);
            let accepted = counters.accepted - was.counters.accepted;
            assert!(accepted <= news.len() as u64, "{accepted} of {news:?}");
            let echoes = counters.echoes + counters.unusable_echoes;
            assert!(echoes - was.counters.echoes - was.counters.unusable_echoes <= accepted);
            if counters.echoes == was.counters.echoes {
                assert_eq!(sample, was.sample, "nothing has told of the path");
            } else {
                self.check_sample(&sample.expect("an echo makes a sample"));
            }
            if accepted > 0 {
                self.accepted(end, connection, &news);
            } else if let Some((of, nth)) = genuine.last()
                && (expected, *of) == (true, connection)
            {
                let known = self.must_be_believed(end, connection, *nth);
                assert!(!known, "the peer's newest header was not believed");
            }
        }
    }

    /// Whether the `nth` datagram of the other end, which arrives now, is one whose header this
    /// end has to accept.
    fn must_be_believed(&self, end: usize, connection: usize, nth: usize) -> bool {
        let sent = &self.ends[1 - end].sent[connection];
        let prompt = self.now - sent[nth].at <= PROMPT;
        let rebinds = sent[nth].rebinds;
        prompt
            && self.ends[end].accepted[connection].map_or(rebinds <= FOUND, |newest| {
                nth > newest.at_most
                    && newest.prompt
                    && rebinds - sent[newest.at_most].rebinds <= FOUND
            })
    }

    /// One or more of `news` have been accepted.
    fn accepted(&mut self, end: usize, connection: usize, news: &[usize]) {
        let sent = &self.ends[1 - end].sent[connection];
        let prompt = |nth: &usize| self.now - sent[*nth].at <= PROMPT;
        let (Some(at_least), Some(at_most)) = (news.iter().min(), news.iter().max()) else {
            unreachable!("no more are accepted than there are");
        };
        self.ends[end].accepted[connection] = Some(Accepted {
            at_least: *at_least,
            at_most: *at_most,
            prompt: at_least == at_most && news.iter().all(prompt),
        });
    }

    /// Lies of routers stay within the round trip, and that within what a timestamp tells apart.
    fn check_sample(&self, sample: &evenkeel::PathSample) {
        assert_eq!(sample.now, self.now);
        assert!(sample.rtt < ECHO_LIFETIME);
        assert!(sample.rtt <= self.now - *BEGINNING);
        let queueing = [sample.forward_queueing, sample.backward_queueing];
        let queueing: Duration = queueing.into_iter().flatten().sum();
        assert!(queueing <= sample.rtt);
        assert_ne!(sample.grant, Some(Grant::Rate(0)));
        assert_ne!(sample.flows, Some(0));
    }
}

/// What a connection has heard of its path.
struct Told {
    counters: evenkeel::HeaderCounters,
    sample: Option<evenkeel::PathSample>,
}

impl End {
    fn told(&self) -> [Told; 2] {
        [self.told_of(0), self.told_of(1)]
    }

    fn told_of(&self, connection: usize) -> Told {
        let connection = &self.connections[connection];
        Told {
            counters: connection.path_headers().1,
            sample: connection.path_sample(),
        }
    }
}

/// What docs/path-header.md, section 4.2, leaves of a datagram; written apart from evenkeel-wire.
fn behind_header(datagram: &[u8]) -> &[u8] {
    if !datagram.starts_with(&PATH_HEADER_MAGIC) {
        return datagram;
    }
    let Some(byte) = datagram.get(PATH_HEADER_MAGIC.len()) else {
        return datagram;
    };
    let len = (usize::from(byte & 7) + 1) * 4;
    match datagram.split_at_checked(len) {
        Some((_, packet)) if (8..=PATH_HEADER_LEN).contains(&len) => packet,
        _ => datagram,
    }
}

/// A controller that asks for a router's feedback and does nothing with it.
#[derive(Debug, Clone)]
struct Follower(Option<Feedback>);

impl Controller for Follower {
    fn on_congestion(&mut self, _: &Congestion) {}

    fn on_persistent_congestion(&mut self) {}

    fn on_mtu(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        12_000
    }

    fn follows(&self) -> Option<Feedback> {
        self.0
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}
