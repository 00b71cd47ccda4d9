//! Headers that are sent, and their echoes: `docs/path-header.md`, sections 4.1 and 4.3.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_congestion::Feedback as Followed;
use evenkeel_wire::{
    CompactBytes, CompactRate, CompactTime, ECHO_LIFETIME, Echo, Feedback, PATH_HEADER_LEN,
    PathHeaderKind, PathHeaderRepr, PathHeaderView, Signals, WindowChange,
};

use super::receiver::micros;
use super::tag::{Keys, Master};

/// What one connection knows of the headers that it sends.
pub(super) struct Sender {
    master: Master,
    /// When the masters were derived: zero of the clock.
    epoch: Instant,
    generation: u64,
    keys: Keys,
    state: State,
    /// The time of the newest header, in microseconds.
    last: u64,
    /// The latest times, oldest first.
    recent: VecDeque<u64>,
    /// Times before this are of another path.
    path_since: u64,
    /// The latest time of which an echo has come.
    echoed: Option<u64>,
    followed: Option<Followed>,
    /// Headers before this asked for the feedback of another algorithm.
    followed_since: u64,
    /// Datagrams without a header since the last with one.
    bare: u32,
}

/// Whether headers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// They got no echo on this path.
    Plain,
    /// One now and then, until one is echoed.
    Probing {
        /// How many have been sent.
        sent: u32,
        /// When the next one may be; at once before the first.
        next: Option<Instant>,
    },
    /// The peer echoes them.
    Confirmed {
        /// When a valid echo was last heard.
        heard: Instant,
    },
}

/// Unanswered probes after which headers are given up: section 4.1.
const MOST_PROBES: u32 = 6;

/// Times that are remembered, section 4.3.
const REMEMBERED: usize = 64;

/// The round trip before there is a sample: RFC 9002, section 6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// The least time for which feedback holds: section 4.3, expiry.
const LEAST_HOLD: Duration = Duration::from_millis(100);

/// What a header says of its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Smoothed round trip time.
    pub(crate) rtt: Option<Duration>,
    /// The controller's window in bytes.
    pub(crate) window: u64,
    /// The most that the application can use, in bytes per second.
    pub(crate) desired_rate: Option<u64>,
    /// Whose feedback the controller follows.
    pub(crate) followed: Option<Followed>,
    /// The TTL or hop limit with which packets leave, if it is known.
    pub(crate) hop_limit: Option<u8>,
}

/// What an echo is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Return {
    /// It is of nothing that was sent on this path, or of something too old.
    Unusable,
    /// It is of a header of which this, or of an older one than of which one has come before. The
    /// path may have stopped carrying headers since.
    Repeated,
    /// It is the first of its header.
    First(Returned),
}

/// A header that was echoed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Returned {
    /// Round trip time of the echoed header.
    pub(super) rtt: Duration,
    /// Whose feedback that header asked for; `None` if nobody's, or another's than is followed now.
    pub(super) followed: Option<Followed>,
}

impl Sender {
    pub(super) fn new(master: Master, epoch: Instant) -> Self {
        Self {
            master,
            epoch,
            generation: 0,
            keys: Keys::new(&master, 0),
            state: State::Probing {
                sent: 0,
                next: None,
            },
            last: 0,
            recent: VecDeque::with_capacity(REMEMBERED),
            path_since: 0,
            echoed: None,
            followed: None,
            followed_since: 0,
            bare: 0,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// The path is another one, and not by a rebinding that only others see.
    pub(super) fn new_path(&mut self) {
        self.generation += 1;
        self.keys = Keys::new(&self.master, self.generation);
        self.path_since = self.last + 1;
        self.state = State::Probing {
            sent: 0,
            next: None,
        };
    }

    /// Whether the next datagram is to carry a header, when every `every`th of a confirmed path
    /// is, and others that have `news` to echo.
    pub(super) fn due(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        every: u32,
        news: bool,
    ) -> bool {
        if let State::Confirmed { heard } = self.state {
            let hold = (4 * rtt.unwrap_or(INITIAL_RTT))
                .max(LEAST_HOLD)
                .min(ECHO_LIFETIME);
            if now.saturating_duration_since(heard) > hold {
                self.state = State::Probing {
                    sent: 0,
                    next: None,
                };
            }
        }
        match self.state {
            State::Plain => false,
            State::Probing {
                next: Some(next), ..
            } if now < next => false,
            State::Probing {
                sent: MOST_PROBES..,
                ..
            } => {
                self.state = State::Plain;
                false
            }
            State::Probing { .. } => true,
            State::Confirmed { .. } => news || self.bare + 1 >= every,
        }
    }

    /// The time for the next header.
    pub(super) fn next_time(&self, now: Instant) -> u64 {
        micros(now, self.epoch).max(self.last + 1)
    }

    /// A header for `time`.
    pub(super) fn write(
        &self,
        time: u64,
        facts: &Facts,
        echo: Option<Echo>,
    ) -> [u8; PATH_HEADER_LEN] {
        let rate = facts
            .desired_rate
            .map_or(CompactRate::NO_LIMIT, CompactRate::from_bytes_per_second);
        let (kind, desired): (_, Feedback) = match facts.followed {
            None | Some(Followed::Acp) => (PathHeaderKind::Acp, rate.into()),
            Some(Followed::Rcp) => (PathHeaderKind::Rcp, rate.into()),
            Some(Followed::Xcp) => {
                let window = CompactBytes::from_bytes(facts.window);
                (PathHeaderKind::Xcp { window }, WindowChange::MAX.into())
            }
        };
        let rtt = facts.followed.and(facts.rtt);
        let mut header = PathHeaderRepr {
            kind,
            rtt: rtt.map_or(CompactTime::ZERO, CompactTime::from_duration),
            signals: Signals::initial(desired, facts.hop_limit),
            phase: self.generation % 2 == 1,
            timestamp: self.keys.timestamp(time),
            echo,
            tag: [0; 4],
        }
        .emit();
        let view = PathHeaderView::parse(&header).expect("what was just written");
        let tag = self.keys.tag(time, &view.covered_by_tag());
        header[PATH_HEADER_LEN - tag.len()..].copy_from_slice(&tag);
        header
    }

    /// `count` datagrams have left with headers, the first of them with the time `first` and
    /// each other a microsecond later.
    pub(super) fn sent(&mut self, first: u64, count: u64, facts: &Facts) {
        if self.followed != facts.followed {
            (self.followed, self.followed_since) = (facts.followed, first);
        }
        let last = first + count - 1;
        for time in last.saturating_sub(REMEMBERED as u64 - 1).max(first)..=last {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(time);
        }
        self.last = last;
        self.bare = 0;
    }

    /// What has left was due. Others, which only had to be as large as with a header, say little
    /// about a path on which they are lost.
    pub(super) fn probed(&mut self, now: Instant, rtt: Option<Duration>) {
        if let State::Probing { sent, .. } = self.state {
            let wait = rtt.unwrap_or(INITIAL_RTT) * (1 << sent.min(MOST_PROBES));
            self.state = State::Probing {
                sent: sent + 1,
                next: Some(now + wait),
            };
        }
    }

    /// `count` datagrams have left without.
    pub(super) fn sent_bare(&mut self, count: u32) {
        self.bare = self.bare.saturating_add(count);
    }

    /// A header that was accepted echoes one of ours, or says so.
    pub(super) fn returned(&mut self, now: Instant, echo: &Echo) -> Return {
        if echo.phase != (self.generation % 2 == 1) {
            return Return::Unusable;
        }
        let Some((time, rtt)) = self.sent_at(now, echo) else {
            return Return::Unusable;
        };
        let forgotten = self.recent.front().is_some_and(|oldest| time < *oldest);
        let known = forgotten || self.recent.binary_search(&time).is_ok();
        if time < self.path_since || !known {
            return Return::Unusable;
        }
        if self.echoed.is_some_and(|echoed| time <= echoed) {
            return Return::Repeated;
        }
        self.echoed = Some(time);
        self.state = State::Confirmed { heard: now };
        Return::First(Returned {
            rtt,
            followed: self.followed.filter(|_| time >= self.followed_since),
        })
    }

    /// When the echoed header was sent, and its round trip time.
    fn sent_at(&self, now: Instant, echo: &Echo) -> Option<(u64, Duration)> {
        // The times of a batch run ahead of the clock by some microseconds.
        let clock = micros(now, self.epoch);
        let ahead = self.last.saturating_sub(clock);
        let shown = self.keys.timestamp(clock + ahead);
        let rtt = echo.round_trip(shown)?;
        let passed = u64::try_from(shown.since(echo.timestamp).as_micros()).ok()?;
        let time = (clock + ahead).checked_sub(passed)?;
        Some((time, rtt.saturating_sub(Duration::from_micros(ahead))))
    }
}
