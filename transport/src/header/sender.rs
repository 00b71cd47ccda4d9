//! Headers that are sent, and their echoes: `docs/path-header.md`, sections 4.1 and 4.3.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_congestion::Feedback as Followed;
use evenkeel_wire::{
    CompactBytes, CompactRate, CompactTime, ECHO_LIFETIME, Echo, Feedback, HeaderTimestamp,
    PATH_HEADER_LEN, PathHeaderKind, PathHeaderRepr, PathHeaderTemplate, Signals, WindowChange,
};

use super::tag::{Keys, Master, micros};

/// What one connection knows of the headers that it sends.
pub(super) struct Sender {
    master: Master,
    /// When the masters were derived: zero of the clock.
    epoch: Instant,
    generation: u64,
    keys: Keys,
    pub(super) state: State,
    /// The time of the newest header, in microseconds.
    last: u64,
    /// The latest times, oldest first.
    recent: VecDeque<u64>,
    /// Times before this are of another path.
    path_since: u64,
    /// The latest time of which an echo has come.
    echoed: Option<u64>,
    /// The time of the oldest header that an echo could have come of, and has not.
    unanswered: Option<u64>,
    /// Smoothed round trip time, measured by the echoes of this path.
    rtt: Option<Duration>,
    /// How long headers of this path have waited until an echo covered them.
    waits: Option<Estimate>,
    /// The longest time for which the peer delays an ACK, and with it an echo.
    max_ack_delay: Duration,
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
    Probing(Probing),
    /// The peer echoes them.
    Confirmed {
        /// When a valid echo last arrived.
        echoed: Instant,
    },
}

/// The headers that try a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probing {
    /// How many in a row got no answer.
    unanswered: u32,
    /// When the one was sent that waits for its answer.
    waiting: Option<Instant>,
    /// When the next one may be, unless that is now.
    next: Option<Instant>,
}

/// A smoothed time and its variation, as RFC 9002, section 5.3, has them of round trips.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

/// Unanswered probes after which headers are given up: section 4.1.
const MOST_PROBES: u32 = 6;

/// Times that are remembered, section 4.3.
const REMEMBERED: usize = 64;

/// The round trip before there is a sample: RFC 9002, section 6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Instead of one header in so many datagrams: only headers that answer the peer's.
pub(crate) const ANSWERS: u32 = u32::MAX;

/// The least time for which feedback holds: section 4.3, expiry.
const LEAST_HOLD: Duration = Duration::from_millis(100);

/// The finest that timers are taken to be: RFC 9002, section 6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);

/// What a header says of its connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Smoothed round trip time.
    pub(crate) rtt: Option<Duration>,
    /// The controller's window in bytes.
    pub(crate) window: u64,
    /// The rate that the controller asks for, if it asks for one, in bytes of UDP payload per
    /// second.
    pub(crate) rate: Option<u64>,
    /// What leaves is data that the controller's window let through, not ACKs alone.
    pub(crate) is_data: bool,
    /// The most that the application can use, in bytes of UDP payload per second.
    pub(crate) desired_rate: Option<u64>,
    /// Bytes of UDP payload in a full-size packet.
    pub(crate) mtu: u16,
    /// Bytes that such a packet adds to it on the wire.
    pub(crate) overhead: u16,
    /// Whose feedback the controller follows.
    pub(crate) followed: Option<Followed>,
    /// The TTL or hop limit with which packets leave, if it is known.
    pub(crate) hop_limit: Option<u8>,
}

impl Facts {
    /// The rate to ask for, in bytes of IP packets per second as routers count them.
    fn desired_rate(&self) -> CompactRate {
        let Some(rate) = self.desired_rate else {
            return CompactRate::NO_LIMIT;
        };
        let payload = u128::from(self.mtu.max(1));
        let packets = u128::from(rate) * (payload + u128::from(self.overhead)) / payload;
        CompactRate::from_bytes_per_second(u64::try_from(packets).unwrap_or(u64::MAX))
    }

    /// H_rtt: how long the sender takes to react to routers, `None` if it does not.
    ///
    /// A packet brings news once in the time between two of them; at less than a packet in a
    /// round trip that is the longer time. XCP shares by H_cwnd / H_rtt, which is to stay a rate.
    fn answer_time(&self) -> Option<Duration> {
        let followed = self.followed.filter(|_| self.is_data)?;
        let rtt = self.rtt?;
        match (followed, self.rate) {
            (Followed::Acp | Followed::Rcp, Some(rate)) => Some(rtt.max(self.gap(rate))),
            _ => Some(rtt),
        }
    }

    /// The time between two full-size packets at `rate` bytes per second.
    fn gap(&self, rate: u64) -> Duration {
        let nanoseconds = u64::from(self.mtu) * 1_000_000_000 / rate.max(1);
        Duration::from_nanos(nanoseconds)
    }

    /// The window change to ask for: (r rtt - cwnd) divided by the packets of the window, for the
    /// desired rate r (XCP, section 3.2).
    fn desired_window_change(&self) -> WindowChange {
        let Some((rate, rtt)) = self.desired_rate.zip(self.rtt) else {
            return WindowChange::MAX;
        };
        let wanted = u128::from(rate).saturating_mul(rtt.as_nanos()) / 1_000_000_000;
        let wanted = i128::try_from(wanted).unwrap_or(i128::MAX);
        let change = wanted.saturating_sub(i128::from(self.window));
        let packets = (self.window / u64::from(self.mtu.max(1))).max(1);
        let change = change.saturating_mul(256) / i128::from(packets);
        let limit = i128::from(i64::MAX);
        WindowChange::from_256ths(change.clamp(-limit, limit) as i64)
    }
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
    pub(super) fn new(master: Master, epoch: Instant, max_ack_delay: Duration) -> Self {
        Self {
            master,
            epoch,
            generation: 0,
            keys: Keys::new(&master, 0),
            state: State::Probing(Probing::AT_ONCE),
            last: 0,
            recent: VecDeque::with_capacity(REMEMBERED),
            path_since: 0,
            echoed: None,
            unanswered: None,
            rtt: None,
            waits: None,
            max_ack_delay,
            followed: None,
            followed_since: 0,
            bare: 0,
        }
    }

    /// The path is another one, and not by a rebinding that only others see.
    pub(super) fn new_path(&mut self) {
        self.generation += 1;
        self.keys = Keys::new(&self.master, self.generation);
        self.path_since = self.last + 1;
        (self.unanswered, self.rtt, self.waits) = (None, None, None);
        self.state = State::Probing(Probing::AT_ONCE);
    }

    /// Whether the next datagram is to carry a header, when every `every`th of a confirmed path
    /// is, or with [`ANSWERS`] those that have `news` to echo. `rtt` is what ACKs say, `arrived`
    /// when a datagram last came from the peer's address.
    pub(super) fn due(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        every: u32,
        news: bool,
        arrived: impl FnOnce() -> Option<Instant>,
    ) -> bool {
        let rtt = rtt.max(self.rtt).unwrap_or(INITIAL_RTT);
        if let State::Confirmed { echoed } = self.state
            && self.is_doubtful(now, rtt, echoed)
        {
            self.state = State::Probing(Probing::AT_ONCE);
        }
        if let State::Probing(probing) = &mut self.state {
            probing.judge(now, rtt, self.max_ack_delay, arrived);
            if probing.unanswered >= MOST_PROBES {
                self.state = State::Plain;
            }
        }
        match self.state {
            State::Plain => false,
            State::Probing(probing) => probing.due(now),
            State::Confirmed { .. } => {
                let last = Duration::from_micros(micros(now, self.epoch).saturating_sub(self.last));
                self.bare + 1 >= every || (news && every == ANSWERS) || last >= rtt / 2
            }
        }
    }

    /// How many datagrams may leave before one that is due, when none is now: at least 1.
    pub(super) fn until_due(&self, every: u32) -> u32 {
        every.saturating_sub(self.bare.saturating_add(1)).max(1)
    }

    /// Whether a path that was confirmed may not be any more: section 4.1, silence, and 4.3, expiry.
    fn is_doubtful(&self, now: Instant, rtt: Duration, echoed: Instant) -> bool {
        let silent = self
            .unanswered
            .zip(self.waits)
            .is_some_and(|(since, waits)| {
                let waited = micros(now, self.epoch).saturating_sub(since);
                Duration::from_micros(waited) > waits.longest() + self.max_ack_delay
            });
        silent || now.saturating_duration_since(echoed) > hold(rtt)
    }

    /// The time for the next header.
    pub(super) fn next_time(&self, now: Instant) -> u64 {
        micros(now, self.epoch).max(self.last + 1)
    }

    /// What the headers of a batch have in common; [`seal`](Self::seal) makes each of them.
    pub(super) fn template(&self, facts: &Facts, echo: Option<Echo>) -> PathHeaderTemplate {
        let (kind, desired): (_, Feedback) = match facts.followed {
            None | Some(Followed::Acp) => (PathHeaderKind::Acp, facts.desired_rate().into()),
            Some(Followed::Rcp) => (PathHeaderKind::Rcp, facts.desired_rate().into()),
            Some(Followed::Xcp) => {
                let window = CompactBytes::from_bytes(facts.window);
                let change = facts.desired_window_change();
                (PathHeaderKind::Xcp { window }, change.into())
            }
        };
        let rtt = facts.answer_time();
        PathHeaderTemplate::new(&PathHeaderRepr {
            kind,
            rtt: rtt.map_or(CompactTime::ZERO, CompactTime::from_duration),
            signals: Signals::initial(desired, facts.hop_limit),
            phase: self.generation % 2 == 1,
            timestamp: HeaderTimestamp::default(),
            echo,
            tag: [0; 4],
        })
    }

    /// The header of `template` for `time`.
    pub(super) fn seal<'a>(
        &self,
        template: &'a mut PathHeaderTemplate,
        time: u64,
    ) -> &'a [u8; PATH_HEADER_LEN] {
        let tag = |covered: &_| self.keys.tag(time, covered);
        template.seal(self.keys.timestamp(time), tag)
    }

    /// `count` datagrams have left with headers that ask for the feedback of `followed`, the first
    /// of them with the time `first` and each other a microsecond later.
    pub(super) fn sent(&mut self, first: u64, count: u64, followed: Option<Followed>) {
        if self.followed != followed {
            (self.followed, self.followed_since) = (followed, first);
        }
        let last = first + count - 1;
        for time in last.saturating_sub(REMEMBERED as u64 - 1).max(first)..=last {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(time);
        }
        self.unanswered.get_or_insert(first);
        self.last = last;
        self.bare = 0;
    }

    /// What has left was due. Others, which only had to be as large as with a header, say little
    /// about a path on which they are lost.
    pub(super) fn probed(&mut self, now: Instant) {
        if let State::Probing(probing) = &mut self.state {
            probing.waiting = Some(now);
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
        self.state = State::Confirmed { echoed: now };
        self.measure(now, rtt);
        self.unanswered = self.sent_after(time);
        Return::First(Returned {
            rtt,
            followed: self.followed.filter(|_| time >= self.followed_since),
        })
    }

    /// An echo has come that covers the oldest header without one.
    fn measure(&mut self, now: Instant, rtt: Duration) {
        let smoothed = self.rtt.map_or(rtt, |smoothed| (7 * smoothed + rtt) / 8);
        self.rtt = Some(smoothed);
        let Some(since) = self.unanswered else { return };
        let waited = Duration::from_micros(micros(now, self.epoch).saturating_sub(since));
        // A peer that had nothing to say for long says nothing about the path.
        let waited = waited.min(hold(smoothed));
        match &mut self.waits {
            Some(waits) => waits.update(waited),
            None => self.waits = Some(Estimate::first(waited)),
        }
    }

    /// The time of the first header after `time`, as far as remembered: when that many have left
    /// since, it was soon after.
    fn sent_after(&self, time: u64) -> Option<u64> {
        if time >= self.last {
            return None;
        }
        match self.recent.partition_point(|sent| *sent <= time) {
            0 => Some(time + 1),
            later => self.recent.get(later).copied(),
        }
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

/// How long feedback holds: section 4.3, expiry.
fn hold(rtt: Duration) -> Duration {
    (4 * rtt).max(LEAST_HOLD).min(ECHO_LIFETIME)
}

impl Probing {
    const AT_ONCE: Self = Self {
        unanswered: 0,
        waiting: None,
        next: None,
    };

    /// Counts the probe that waits as unanswered, if the peer has said something since, and late
    /// enough to know of it. If nothing has come since, that says nothing about headers: the probe
    /// is sent again.
    fn judge(
        &mut self,
        now: Instant,
        rtt: Duration,
        max_ack_delay: Duration,
        arrived: impl FnOnce() -> Option<Instant>,
    ) {
        let Some(sent) = self.waiting else { return };
        let late = sent + 2 * rtt + max_ack_delay;
        if now < late {
            return;
        }
        match arrived() {
            Some(arrived) if arrived >= late => {
                *self = Self {
                    unanswered: self.unanswered + 1,
                    waiting: None,
                    next: Some(sent + rtt * (1 << self.unanswered)),
                };
            }
            // Too early to know.
            Some(arrived) if arrived > sent => {}
            _ => self.waiting = None,
        }
    }

    fn due(&self, now: Instant) -> bool {
        self.waiting.is_none() && self.next.is_none_or(|next| now >= next)
    }
}

impl Estimate {
    fn first(sample: Duration) -> Self {
        Self {
            smoothed: sample,
            variation: sample / 2,
        }
    }

    fn update(&mut self, sample: Duration) {
        self.variation = (3 * self.variation + self.smoothed.abs_diff(sample)) / 4;
        self.smoothed = (7 * self.smoothed + sample) / 8;
    }

    /// The longest to be expected: RFC 9002, section 6.2.1, without the peer's delay.
    fn longest(&self) -> Duration {
        self.smoothed + (4 * self.variation).max(GRANULARITY)
    }
}
