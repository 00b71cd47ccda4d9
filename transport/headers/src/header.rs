//! Decides when to send path headers on one connection, and reads the ones that arrive.
//!
//! Comments cite the specification, `docs/path-header.md`, by section. Nothing here sends or
//! receives: the endpoint's socket does.

mod grease;
mod sender;
mod tag;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::{Duration, Instant};

use evenkeel_congestion::{Feedback, Grant, PathSample};
use evenkeel_wire::{Echo, PathHeaderTemplate, PathHeaderView};

pub use grease::Grease;
pub use sender::{ANSWERS, Facts};
use sender::{Return, Returned, Sender, State};
pub use tag::Master;
#[cfg(any(test, feature = "work"))]
pub use tag::work;
use tag::{Keys, micros, same};
#[cfg(test)]
pub(crate) use tests::FACTS;

/// The headers of one connection.
pub struct Headers {
    sender: Sender,
    receiver: Receiver,
    grease: Grease,
    counters: HeaderCounters,
}

/// What the handshake has settled for the headers of a connection.
#[derive(Clone)]
pub struct Agreement {
    /// Key for headers that are sent.
    pub sending: Master,
    /// Key for headers that arrive.
    pub receiving: Master,
    /// The peer's longest ACK delay.
    pub max_ack_delay: Duration,
    /// Random choices of headers to send.
    pub grease: Grease,
}

/// Whether path headers are sent at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum HeaderState {
    /// None are sent: headers got no echo on this path.
    Plain,
    /// Headers are sent now and then, to see whether the peer echoes them.
    Probing,
    /// The peer echoes headers.
    Confirmed,
}

/// Counts path headers since the connection began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HeaderCounters {
    /// Headers sent.
    pub sent: u64,
    /// Headers of an unknown kind, sent in place of others so that the path stays used to them; not
    /// counted in [`sent`](Self::sent).
    pub greased: u64,
    /// Headers accepted.
    pub accepted: u64,
    /// Headers from the peer's address with a wrong tag: forged, or changed on the way.
    pub forged: u64,
    /// Headers no newer than one accepted before.
    pub old: u64,
    /// Headers of ours that came back as an echo; each counts once.
    pub echoes: u64,
    /// Echoes of something not sent on this path, or too old.
    pub unusable_echoes: u64,
    /// Samples that reported more queueing than round trip time, or a rate of zero.
    pub clamped: u64,
}

impl HeaderCounters {
    /// Adds the counts of another connection.
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Returns the counts since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(self, other: Self, f: fn(u64, u64) -> u64) -> Self {
        Self {
            sent: f(self.sent, other.sent),
            greased: f(self.greased, other.greased),
            accepted: f(self.accepted, other.accepted),
            forged: f(self.forged, other.forged),
            old: f(self.old, other.old),
            echoes: f(self.echoes, other.echoes),
            unusable_echoes: f(self.unusable_echoes, other.unusable_echoes),
            clamped: f(self.clamped, other.clamped),
        }
    }
}

impl Headers {
    /// Starts the clocks of both directions at `epoch`.
    pub fn new(agreement: Agreement, epoch: Instant) -> Self {
        let max_ack_delay = agreement.max_ack_delay;
        Self {
            sender: Sender::new(agreement.sending, epoch, max_ack_delay),
            receiver: Receiver::new(agreement.receiving, epoch),
            grease: agreement.grease,
            counters: HeaderCounters::default(),
        }
    }

    /// Returns whether headers are sent at present.
    pub fn state(&self) -> HeaderState {
        match self.sender.state {
            State::Plain => HeaderState::Plain,
            State::Probing(_) => HeaderState::Probing,
            State::Confirmed { .. } => HeaderState::Confirmed,
        }
    }

    /// Returns the counts since the connection began.
    pub fn counters(&self) -> HeaderCounters {
        self.counters
    }

    /// Starts over on a new path: nothing that is sent there repeats what was seen on the old one.
    pub fn new_path(&mut self) {
        self.sender.new_path();
        self.receiver.forget_echo();
    }

    /// Returns whether the next datagram should carry a header: on a confirmed path every
    /// `every`th, or with [`ANSWERS`] those that answer the peer's. `rtt` is measured by ACKs;
    /// `arrived` says when a datagram last came from the peer's address.
    pub fn due(
        &mut self,
        now: Instant,
        rtt: Option<Duration>,
        every: u32,
        arrived: impl FnOnce() -> Option<Instant>,
    ) -> bool {
        let news = self.receiver.has_news;
        let accepted = self.receiver.arrived();
        let arrived = || accepted.max(arrived());
        self.sender.due(now, rtt, every, news, arrived)
    }

    /// Returns how many of `most` datagrams may leave at once. One of `every` is to carry a header; if
    /// `due`, the next is. A datagram with a header leaves alone where every few have one. Where
    /// headers are rare, batches keep their length, and all datagrams of a batch that is due get one.
    pub fn batch(&self, due: bool, every: u32, most: usize) -> usize {
        match every {
            2..=LONGEST_BATCH if due => 1,
            2..=LONGEST_BATCH => most.min(self.sender.until_due(every) as usize),
            _ => most,
        }
    }

    /// Prepares headers for datagrams about to leave; `due` if [`due`](Self::due) asked for them.
    pub fn prepare(&self, now: Instant, facts: Facts, due: bool) -> Prepared {
        Prepared {
            now,
            due,
            first: self.sender.next_time(now),
            count: 0,
            greased: 0,
            template: self.sender.template(&facts, self.receiver.echo(now)),
            followed: facts.followed,
            echoed: self.receiver.newest(),
        }
    }

    /// Appends the next header of `prepared` to `datagrams`. A datagram that is not `alone` has to
    /// stay as long as the others of its batch.
    pub fn write(&mut self, prepared: &mut Prepared, alone: bool, datagrams: &mut Vec<u8>) {
        let brings_news = prepared.count == 0 && self.receiver.has_news;
        if prepared.due
            && !brings_news
            && self.state() == HeaderState::Confirmed
            && let Some(grease) = self.grease.header(alone)
        {
            prepared.greased += 1;
            datagrams.extend_from_slice(&grease);
            return;
        }
        let time = prepared.first + prepared.count;
        prepared.count += 1;
        let header = self.sender.seal(&mut prepared.template, time);
        datagrams.extend_from_slice(header);
    }

    /// Notes that the datagrams with all written headers have left.
    pub fn sent(&mut self, prepared: &Prepared) {
        if prepared.count > 0 {
            self.sender
                .sent(prepared.first, prepared.count, prepared.followed);
            if prepared.due {
                self.sender.probed(prepared.now);
            }
            self.receiver.echoed(prepared.echoed);
        }
        if prepared.greased > 0 {
            self.sent_bare(prepared.greased);
        }
        self.counters.sent += prepared.count;
        self.counters.greased += u64::from(prepared.greased);
    }

    /// Notes that `count` datagrams have left without a header, or with one of an unknown kind.
    pub fn sent_bare(&mut self, count: u32) {
        self.sender.sent_bare(count);
    }

    /// Reads a header from the peer's address. Fails if it is not of this connection.
    pub fn arrived(
        &mut self,
        now: Instant,
        view: &PathHeaderView<'_>,
    ) -> Result<Option<PathSample>, NotOurs> {
        if !self.receiver.accept(now, view)? {
            self.counters.old += 1;
            return Ok(None);
        }
        self.counters.accepted += 1;
        let Some(echo) = view.echo() else {
            return Ok(None);
        };
        let returned = match self.sender.returned(now, &echo) {
            Return::First(returned) => returned,
            Return::Repeated => return Ok(None),
            Return::Unusable => {
                self.counters.unusable_echoes += 1;
                return Ok(None);
            }
        };
        self.counters.echoes += 1;
        let (sample, clamped) = sample(now, view, &echo, returned);
        self.counters.clamped += u64::from(clamped);
        Ok(Some(sample))
    }

    /// Counts a header that no connection with the peer's address has sent.
    pub fn count_forged(&mut self) {
        self.counters.forged += 1;
    }
}

impl fmt::Debug for Headers {
    /// Omits the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers")
            .field("state", &self.state())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// The header's tag is not of this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOurs;

/// The headers of one batch of datagrams.
pub struct Prepared {
    now: Instant,
    due: bool,
    first: u64,
    count: u64,
    greased: u32,
    template: PathHeaderTemplate,
    followed: Option<Feedback>,
    /// When the peer sent the header that these echo.
    echoed: Option<u64>,
}

/// Generations of which a header may be: the newest accepted one and those after it (section 6).
const GENERATIONS: usize = 6;

/// quinn 0.11 puts no more datagrams into a batch (`MAX_TRANSMIT_SEGMENTS`).
const LONGEST_BATCH: u32 = 10;

/// What one connection knows about the headers that its peer sends.
struct Receiver {
    master: Master,
    /// When the master keys were derived.
    epoch: Instant,
    /// That of the newest header accepted.
    generation: u64,
    /// Keys of this generation and of those after it, so that forged headers derive none.
    keys: [Keys; GENERATIONS],
    newest: Option<Newest>,
    /// The newest header has not been echoed yet.
    has_news: bool,
}

/// The newest header accepted.
struct Newest {
    /// Its echo, without the time held; `None` if it came by an earlier path.
    echo: Option<Echo>,
    /// When it was sent, in microseconds of its sender's clock.
    time: u64,
    arrival: Instant,
}

impl Receiver {
    fn new(master: Master, epoch: Instant) -> Self {
        Self {
            master,
            epoch,
            generation: 0,
            keys: std::array::from_fn(|ahead| Keys::new(&master, ahead as u64)),
            newest: None,
            has_news: false,
        }
    }

    /// Accepts a header if it is newer than the newest. Returns whether it is.
    fn accept(&mut self, now: Instant, view: &PathHeaderView<'_>) -> Result<bool, NotOurs> {
        let expected = match &self.newest {
            Some(newest) => newest.time.saturating_add(micros(now, newest.arrival)),
            None => micros(now, self.epoch),
        };
        let first = usize::from(view.phase() != (self.generation % 2 == 1));
        let (tag, covered) = (view.tag(), view.covered_by_tag());
        let found = (first..GENERATIONS).step_by(2).find_map(|ahead| {
            let keys = &self.keys[ahead];
            let time = keys.time(view.timestamp(), expected)?;
            same(keys.tag(time, &covered), tag).then_some((ahead, time))
        });
        let (ahead, time) = found.ok_or(NotOurs)?;
        let newest = self.newest.as_ref();
        if newest.is_some_and(|newest| time <= newest.time) {
            return Ok(false);
        }
        self.advance(ahead);
        self.newest = Some(Newest {
            echo: Some(Echo::of(view)),
            time,
            arrival: now,
        });
        self.has_news = true;
        Ok(true)
    }

    /// Refuses the next `ahead` generations from now on, and knows as many more.
    fn advance(&mut self, ahead: usize) {
        self.generation += ahead as u64;
        self.keys.rotate_left(ahead);
        for nth in GENERATIONS - ahead..GENERATIONS {
            self.keys[nth] = Keys::new(&self.master, self.generation + nth as u64);
        }
    }

    fn arrived(&self) -> Option<Instant> {
        self.newest.as_ref().map(|newest| newest.arrival)
    }

    /// Returns the echo of the newest header.
    fn echo(&self, now: Instant) -> Option<Echo> {
        let newest = self.newest.as_ref()?;
        let echo = newest.echo.as_ref()?;
        echo.held_for(now.saturating_duration_since(newest.arrival))
    }

    /// Echoes nothing until another header arrives. Its time stays: headers no newer are replays on
    /// every path.
    fn forget_echo(&mut self) {
        if let Some(newest) = &mut self.newest {
            newest.echo = None;
        }
        self.has_news = false;
    }

    /// Returns when the newest header was sent, in microseconds of its sender's clock.
    fn newest(&self) -> Option<u64> {
        self.newest.as_ref().map(|newest| newest.time)
    }

    /// Notes that the header sent at `time` has been echoed.
    fn echoed(&mut self, time: Option<u64>) {
        self.has_news &= self.newest() != time;
    }
}

/// Makes one sample, all of it from one header; returns whether a value had to be clamped.
fn sample(
    now: Instant,
    header: &PathHeaderView<'_>,
    echo: &Echo,
    returned: Returned,
) -> (PathSample, bool) {
    let rtt = returned.rtt;
    let signals = header.signals();
    let forward = echo.flags.stamped.then(|| echo.queueing_time.duration());
    let backward = signals
        .flags
        .stamped
        .then(|| signals.queueing_time.duration());
    let forward_queueing = forward.map(|time| time.min(rtt));
    let left = rtt - forward_queueing.unwrap_or_default();
    let backward_queueing = backward.map(|time| time.min(left));
    let grant =
        returned
            .followed
            .filter(|_| echo.flags.offered)
            .and_then(|followed| match followed {
                Feedback::Acp | Feedback::Rcp => {
                    echo.feedback.rate().bytes_per_second().map(Grant::Rate)
                }
                Feedback::Xcp => Some(Grant::WindowChange(
                    echo.feedback.window_change().in_256ths(),
                )),
            });
    let clamped = forward != forward_queueing
        || backward != backward_queueing
        || grant == Some(Grant::Rate(0));
    let covered = |stamped: bool, gap: bool| stamped && !gap;
    let mut sample = PathSample::new(now, rtt);
    sample.forward_queueing = forward_queueing;
    sample.backward_queueing = backward_queueing;
    sample.complete = covered(echo.flags.stamped, echo.flags.gap)
        && covered(signals.flags.stamped, signals.flags.gap);
    sample.grant = match grant {
        Some(Grant::Rate(rate)) => Some(Grant::Rate(rate.max(1))),
        other => other,
    };
    sample.congested = echo.flags.congested;
    sample.flows = Some(echo.contention.flows()).filter(|flows| *flows > 0);
    (sample, clamped)
}
