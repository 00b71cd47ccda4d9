//! Sends headers and reads their echoes: `docs/path-header.md`, sections 4.1 and 4.3.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use evenkeel_congestion::{Feedback as Followed, feedback_lifetime};
use evenkeel_wire::{
    CompactBytes, CompactRate, CompactTime, Echo, Feedback, HeaderTimestamp, PATH_HEADER_LEN,
    PathHeaderKind, PathHeaderRepr, PathHeaderTemplate, Signals, WindowChange,
};

use super::tag::{Keys, Master, micros};

/// What one connection knows about the headers that it sends.
pub(super) struct Sender {
    master: Master,
    /// When the master keys were derived: zero of the clock.
    epoch: Instant,
    generation: u64,
    keys: Keys,
    pub(super) state: State,
    /// The newest header's time, in microseconds.
    last: u64,
    /// The latest headers' times, oldest first.
    recent: VecDeque<u64>,
    /// Earlier times belong to another path.
    path_since: u64,
    /// The time of the newest header echoed.
    echoed: Option<u64>,
    /// The time of the oldest header that an echo should have covered and has not.
    unanswered: Option<u64>,
    /// Smoothed round trip time, measured by the echoes of this path.
    rtt: Option<Duration>,
    /// How long headers of this path have waited until an echo covered them.
    waits: Option<Estimate>,
    /// The peer's longest ACK delay, which also delays an echo.
    max_ack_delay: Duration,
    followed: Option<Followed>,
    /// Earlier headers asked for another algorithm's feedback.
    followed_since: u64,
    /// Datagrams without a header since the last with one.
    bare: u32,
}

/// Whether headers are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// None: headers got no echo on this path.
    Plain,
    /// Now and then, until one is echoed.
    Probing(Probing),
    /// The peer echoes headers.
    Confirmed {
        /// When a valid echo last arrived.
        echoed: Instant,
    },
}

/// The headers that probe a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Probing {
    /// Probes in a row without an answer.
    unanswered: u32,
    /// When the probe that waits for its answer was sent.
    waiting: Option<Instant>,
    /// When the next probe may leave; `None` means now.
    next: Option<Instant>,
}

/// A smoothed time and its variation, computed as RFC 9002, section 5.3, does for round trips.
#[derive(Debug, Clone, Copy)]
struct Estimate {
    smoothed: Duration,
    variation: Duration,
}

/// Unanswered probes after which headers are given up: section 4.1.
const MOST_PROBES: u32 = 6;

/// Header times remembered: section 4.3.
const REMEMBERED: usize = 64;

/// The assumed round trip time before there is a sample: RFC 9002, section 6.2.2.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// As `every`: send only headers that answer the peer's.
pub const ANSWERS: u32 = u32::MAX;

/// The finest granularity assumed of timers: RFC 9002, section 6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);

/// What a header says about its connection.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    /// Smoothed round trip time.
    pub rtt: Option<Duration>,
    /// The controller's window in bytes.
    pub window: u64,
    /// The rate that the controller asks for, if any, in bytes of UDP payload per second.
    pub rate: Option<u64>,
    /// The datagram is data that the controller's window let through, not ACKs alone.
    pub is_data: bool,
    /// The most that the application can use, in bytes of UDP payload per second.
    pub desired_rate: Option<u64>,
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// Bytes that a full-size packet adds to its UDP payload on the wire.
    pub overhead: u16,
    /// The algorithm whose feedback the controller follows.
    pub followed: Option<Followed>,
    /// The TTL or hop limit of packets sent, if known.
    pub hop_limit: Option<u8>,
}

impl Facts {
    /// Returns the rate to ask for, in bytes of IP packets per second as routers count them.
    fn desired_rate(&self) -> CompactRate {
        let Some(rate) = self.desired_rate else {
            return CompactRate::NO_LIMIT;
        };
        let payload = u128::from(self.mtu.max(1));
        let packets = u128::from(rate) * (payload + u128::from(self.overhead)) / payload;
        CompactRate::from_bytes_per_second(u64::try_from(packets).unwrap_or(u64::MAX))
    }

    /// Returns H_rtt: how long the sender takes to react to routers; `None` if it does not.
    ///
    /// A packet brings news once per gap between two packets; below one packet per round trip, that
    /// gap is the longer time. XCP shares by H_cwnd / H_rtt, which has to stay a rate.
    fn answer_time(&self) -> Option<Duration> {
        let followed = self.followed.filter(|_| self.is_data)?;
        let rtt = self.rtt?;
        match (followed, self.rate) {
            (Followed::Acp | Followed::Rcp, Some(rate)) => Some(rtt.max(self.gap(rate))),
            _ => Some(rtt),
        }
    }

    /// Returns the time between two full-size packets at `rate` bytes per second.
    fn gap(&self, rate: u64) -> Duration {
        let nanoseconds = u64::from(self.mtu) * 1_000_000_000 / rate.max(1);
        Duration::from_nanos(nanoseconds)
    }

    /// Returns the window change to ask for: (r rtt - cwnd) divided by the packets of the window,
    /// for the desired rate r (XCP, section 3.2).
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
    /// Nothing: it echoes something not sent on this path, or too old.
    Unusable,
    /// It echoes the same header as an earlier echo, or an older one. The path may have stopped
    /// carrying headers since.
    Repeated,
    /// It is the first echo of its header.
    First(Returned),
}

/// A header of ours that was echoed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Returned {
    /// Round trip time of the echoed header.
    pub(super) rtt: Duration,
    /// Whose feedback that header asked for; `None` if nobody's, or not the one followed now.
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

    /// Starts over on a new path. A rebinding that only others see does not count.
    pub(super) fn new_path(&mut self) {
        self.generation += 1;
        self.keys = Keys::new(&self.master, self.generation);
        self.path_since = self.last + 1;
        (self.unanswered, self.rtt, self.waits) = (None, None, None);
        self.state = State::Probing(Probing::AT_ONCE);
    }

    /// Returns whether the next datagram should carry a header: on a confirmed path every
    /// `every`th, or with [`ANSWERS`] those that have `news` to echo. `rtt` is measured by ACKs;
    /// `arrived` says when a datagram last came from the peer's address.
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
                self.bare + 1 >= every
                    || (news && every == ANSWERS)
                    || last >= (rtt / 2).max(GRANULARITY)
            }
        }
    }

    /// Returns how many datagrams may leave before one is due, when none is now: at least 1.
    pub(super) fn until_due(&self, every: u32) -> u32 {
        every.saturating_sub(self.bare.saturating_add(1)).max(1)
    }

    /// Returns whether a confirmed path may no longer echo: section 4.1, silence; 4.3, expiry.
    fn is_doubtful(&self, now: Instant, rtt: Duration, echoed: Instant) -> bool {
        let silent = self
            .unanswered
            .zip(self.waits)
            .is_some_and(|(since, waits)| {
                let waited = micros(now, self.epoch).saturating_sub(since);
                Duration::from_micros(waited) > waits.longest() + self.max_ack_delay
            });
        silent || now.saturating_duration_since(echoed) > feedback_lifetime(rtt)
    }

    /// Returns the time for the next header.
    pub(super) fn next_time(&self, now: Instant) -> u64 {
        micros(now, self.epoch).max(self.last + 1)
    }

    /// Makes what a batch's headers have in common; [`seal`](Self::seal) completes each of them.
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

    /// Completes `template` to the header for `time`.
    pub(super) fn seal<'a>(
        &self,
        template: &'a mut PathHeaderTemplate,
        time: u64,
    ) -> &'a [u8; PATH_HEADER_LEN] {
        let tag = |covered: &_| self.keys.tag(time, covered);
        template.seal(self.keys.timestamp(time), tag)
    }

    /// Notes that `count` datagrams have left with headers that ask for the feedback of `followed`:
    /// the first has the time `first`, each other is a microsecond later.
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

    /// Notes that the headers sent were due. The others were only there to fill an MTU probe, so
    /// their loss says little about headers.
    pub(super) fn probed(&mut self, now: Instant) {
        if let State::Probing(probing) = &mut self.state {
            probing.waiting = Some(now);
        }
    }

    /// Notes that `count` datagrams have left without a header.
    pub(super) fn sent_bare(&mut self, count: u32) {
        self.bare = self.bare.saturating_add(count);
    }

    /// Reads the echo in an accepted header, which may claim one that we never sent.
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

    /// Measures the round trip, and how long the oldest header without an echo has waited for it.
    fn measure(&mut self, now: Instant, rtt: Duration) {
        let smoothed = self.rtt.map_or(rtt, |smoothed| (7 * smoothed + rtt) / 8);
        self.rtt = Some(smoothed);
        let Some(since) = self.unanswered else { return };
        let waited = Duration::from_micros(micros(now, self.epoch).saturating_sub(since));
        // A peer that was silent for long says nothing about the path.
        let waited = waited.min(feedback_lifetime(smoothed));
        match &mut self.waits {
            Some(waits) => waits.update(waited),
            None => self.waits = Some(Estimate::first(waited)),
        }
    }

    /// Returns the time of the first header after `time`. If that one is forgotten, many have left
    /// since: then it left soon after.
    fn sent_after(&self, time: u64) -> Option<u64> {
        if time >= self.last {
            return None;
        }
        match self.recent.partition_point(|sent| *sent <= time) {
            0 => Some(time + 1),
            later => self.recent.get(later).copied(),
        }
    }

    /// Returns when the echoed header was sent, and its round trip time.
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

impl Probing {
    const AT_ONCE: Self = Self {
        unanswered: 0,
        waiting: None,
        next: None,
    };

    /// Counts the waiting probe as unanswered if the peer has sent something late enough to know of
    /// it. Silence says nothing about headers: then the probe is sent again.
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

    /// Returns the longest time to expect: RFC 9002, section 6.2.1, without the peer's delay.
    fn longest(&self) -> Duration {
        self.smoothed + (4 * self.variation).max(GRANULARITY)
    }
}
