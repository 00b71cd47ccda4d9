//! Answers the marks of L4S routers in proportion to how many they mark (RFC 9331), and finds
//! routers that mark as RFC 3168 says.
//!
//! A router with a queue for L4S marks all that waits there for longer than about a millisecond. So
//! a queue that stands for longer while fewer than half of the packets are marked is another one:
//! of a router that marks now and then and expects an answer as to a loss, or of the way back. The
//! first shrinks with the window, the second does not, and YIELD tests that. Behind a router that
//! marks now and then the flow leaves as ECT(0), and asks again after a minute.

use std::time::{Duration, Instant};

use super::delay::NOTICED;
use super::losses::Verdict;
use super::rate::Round;
use super::routers::DISTRUST;
use super::search::{LEFT, Seen};
use super::{Keel, LEAST_PACKETS, Mode, USED};
use crate::controller::{Ack, Congestion, Controller, EcnMode};
use crate::window::minimum_window;

/// No round is shorter: flows with shorter round trips grow and shrink as those with this one (the
/// virtual round trip of draft-briscoe-iccrg-prague-congestion-control, section 2.4.4).
const VIRTUAL_RTT: Duration = Duration::from_millis(25);

/// The part of a virtual round's news that alpha takes in: g of DCTCP (RFC 8257, section 4.2). Of the
/// first rounds alpha is the mean.
const GAIN: f64 = 1.0 / 16.0;

/// Packets by which a virtual round grows. The next reduction waits for a mark of a packet that
/// left after the last one, 1.4 virtual rounds later with 2.7 marks in a virtual round, as beside
/// one CUBIC flow: a packet divided by that is DCTCP's balance of two packets over the marked
/// share.
const GROWTH: f64 = 0.7;

/// A virtual round without marks goes this part of the way to the window of the last mark.
const RETURN: f64 = 0.5;

/// Marks have ended after this many virtual rounds without any above the window of the last one.
const CLEAN_ROUNDS: u32 = 4;

/// Once marks have come, a round of TRACK grows by at most this part of the window.
pub(super) const MOST_GROWTH: f64 = 1.0 / 16.0;

/// Queues of L4S routers are shorter than this and the time of this many packets: RFC 9332,
/// appendix A.1, marks all that waits for 1.2 ms.
const L4S_QUEUE: Duration = Duration::from_millis(2);
const L4S_PACKETS: f64 = 3.0;

/// Fewer marks behind a longer queue are none of an L4S router's.
const MOST_CLASSIC_SHARE: f64 = 0.5;

/// There must be this many more virtual rounds behind another router's queue than behind an L4S
/// router's. A queue of several times the length of an L4S router's counts as that number of
/// virtual rounds, but one alone proves nothing: an ACK may have been held back.
const CLASSIC_ROUNDS: u32 = 4;

/// This many tests in a row must show a queue that shrinks with the window: during one or two of
/// them the queue of the way back may drain by chance.
const CONVICTIONS: u32 = 3;

/// Marks of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Marks {
    /// Packets leave as ECT(1).
    is_scalable: bool,
    /// A packet that left so came marked.
    have_come: bool,
    /// Of the virtual round that goes on.
    packets: u64,
    marked: u64,
    length: Duration,
    /// The part of the packets that are marked, smoothed; `None` before the first mark.
    alpha: Option<f64>,
    /// Virtual rounds that alpha has taken in.
    rounds: u32,
    /// When the window last shrank: marks of packets that left before are answered.
    reduced: Option<Instant>,
    /// The window of the last mark, in bytes; it comes down to the present one in virtual rounds
    /// without.
    at_mark: f64,
    clean: u32,
    /// Virtual rounds behind another queue than an L4S router's, less those with such a router's.
    suspicion: u32,
    /// Tests in a row that confirmed it.
    evidence: u32,
    /// Until then the flow does without L4S.
    classic_until: Option<Instant>,
}

/// What a round makes of a window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// Continue with this window, in bytes.
    Window(f64),
    /// Another router may fill the queue.
    Suspect,
    /// Marks have ended.
    Ended,
}

/// A path at the end of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path {
    pub(super) smoothed: Duration,
    /// What jitter adds to round trips.
    pub(super) noise: Duration,
    /// Bytes of a full-size packet, and bytes per second.
    pub(super) packet: f64,
    pub(super) bandwidth: f64,
}

impl Marks {
    /// Packets leave as `ecn` says.
    pub(super) fn on_ecn(&mut self, ecn: Option<EcnMode>) {
        self.is_scalable = ecn == Some(EcnMode::Scalable);
    }

    /// As what packets should leave.
    pub(super) fn wish(&self) -> EcnMode {
        match self.classic_until {
            Some(_) => EcnMode::Classic,
            None => EcnMode::Scalable,
        }
    }

    /// Whether the path marks packets that leave as ECT(1).
    pub(super) fn are_known(&self) -> bool {
        self.is_scalable && self.alpha.is_some()
    }

    /// Whether the path has marked a packet that left as ECT(1), as packets leave now.
    pub(super) fn have_come(&self) -> bool {
        self.is_scalable && self.have_come
    }

    /// Whether packets leave as ECT(1).
    pub(super) fn are_scalable(&self) -> bool {
        self.is_scalable
    }

    /// Counts an ACK; returns whether it has marks that no reduction has answered.
    pub(super) fn on_ack(&mut self, ack: &Ack) -> bool {
        self.classic_until = self.classic_until.filter(|until| ack.now < *until);
        let is_answered = self.reduced.is_some_and(|at| ack.sent <= at);
        self.have_come |= self.is_scalable && ack.marked > 0;
        if !self.is_scalable || self.alpha.is_none() && is_answered {
            return false;
        }
        self.packets += ack.packets;
        self.marked += ack.marked;
        ack.marked > 0 && !is_answered
    }

    /// START is over, and with it what its packets met.
    pub(super) fn drained(&mut self, now: Instant) {
        self.reduced = Some(now);
        self.begin_virtual_round();
    }

    /// A mark while cross traffic fills the queue: the router is not of L4S.
    pub(super) fn set_classic(&mut self, now: Instant) {
        self.classic_until = Some(now + DISTRUST);
        (self.alpha, self.have_come) = (None, false);
        (self.suspicion, self.evidence) = (0, 0);
    }

    /// Room has shown a queue that shrinks with the window; returns whether that is enough to take
    /// the router for one that is not of L4S.
    pub(super) fn convict(&mut self, now: Instant) -> bool {
        self.evidence += 1;
        let is_classic = self.evidence >= CONVICTIONS;
        if is_classic {
            self.set_classic(now);
        }
        is_classic
    }

    /// Room has shown a queue that does not.
    pub(super) fn acquit(&mut self) {
        (self.suspicion, self.evidence) = (0, 0);
    }

    /// What an ACK with new marks leaves of a window of `window` bytes.
    pub(super) fn reduce(&mut self, now: Instant, window: f64) -> f64 {
        let is_due = self
            .reduced
            .is_none_or(|at| now.saturating_duration_since(at) >= VIRTUAL_RTT);
        let Some(alpha) = self.alpha.filter(|_| is_due) else {
            return window;
        };
        (self.reduced, self.at_mark) = (Some(now), window);
        window * (1.0 - alpha / 2.0)
    }

    /// A round ends; the window grows if it `is_used`.
    pub(super) fn round(
        &mut self,
        seen: &Seen,
        round: &Round,
        path: Path,
        is_used: bool,
    ) -> Answer {
        self.length += round.length;
        if self.length < VIRTUAL_RTT {
            return Answer::Window(seen.window);
        }
        let share = (self.marked as f64 / self.packets.max(1) as f64).min(1.0);
        self.begin_virtual_round();
        if self.suspect(seen.queue(), path, share, is_used) {
            return Answer::Suspect;
        }
        let Some(alpha) = self.alpha else {
            (self.alpha, self.rounds) = (Some(share), 1);
            return Answer::Window(self.reduce_by(share, seen));
        };
        self.rounds = self.rounds.saturating_add(1);
        let gain = GAIN.max(1.0 / f64::from(self.rounds));
        self.alpha = Some(alpha + gain * (share - alpha));
        let mut back = 0.0;
        if share > 0.0 {
            self.clean = 0;
        } else {
            self.at_mark += GAIN * (seen.window - self.at_mark).min(0.0);
            self.clean += u32::from(seen.window > self.at_mark);
            if self.clean >= CLEAN_ROUNDS {
                self.clean = 0;
                return Answer::Ended;
            }
            back = RETURN * (self.at_mark - seen.window);
        }
        if !is_used {
            return Answer::Window(seen.window);
        }
        let part = path.smoothed.as_secs_f64() / VIRTUAL_RTT.as_secs_f64();
        let step = GROWTH * path.packet * part.min(1.0);
        Answer::Window(seen.window + back.max(step * (1.0 - share)))
    }

    /// A virtual round of this share of marks is over; returns whether YIELD should test whose the
    /// queue is. Only marks prove that another router than an L4S one marks. The few packets of a
    /// window that is not used may all have waited for their ACK.
    fn suspect(&mut self, queue: Duration, path: Path, share: f64, is_used: bool) -> bool {
        if self.suspicion == 0 {
            self.evidence = 0;
        }
        let longest = longest(path);
        let is_other = is_used && queue > longest && share < MOST_CLASSIC_SHARE;
        if is_other {
            let most = if share > 0.0 {
                u32::MAX
            } else {
                CLASSIC_ROUNDS - 1
            };
            let times = (queue.div_duration_f64(longest) as u32).min(CLASSIC_ROUNDS - 1);
            self.suspicion = self.suspicion.saturating_add(times).min(most);
        } else if share > 0.0 {
            self.suspicion = self.suspicion.saturating_sub(1);
        }
        is_other && (self.suspicion >= CLASSIC_ROUNDS || self.evidence > 0)
    }

    /// The first share of marks lowers the window at once.
    fn reduce_by(&mut self, share: f64, seen: &Seen) -> f64 {
        (self.reduced, self.at_mark) = (Some(seen.now), seen.window);
        seen.window * (1.0 - share / 2.0)
    }

    pub(super) fn begin_virtual_round(&mut self) {
        (self.packets, self.marked, self.length) = (0, 0, Duration::ZERO);
    }
}

impl Keel {
    /// An ACK has marks that no reduction has answered, of packets that left as ECT(1).
    pub(super) fn marked(&mut self, now: Instant) {
        match self.mode {
            Mode::Start { .. } => self.leave_start(),
            Mode::Track(None) => self.mode = Mode::Scale,
            Mode::Hold(_) => {
                self.marks.set_classic(now);
                self.on_congestion(&Congestion::ecn(now));
            }
            Mode::Drain { .. } | Mode::Track(Some(_)) | Mode::Scale => {}
        }
        if let Mode::Scale = self.mode {
            let window = self.marks.reduce(now, self.window);
            self.window = window.max(minimum_window(self.mtu) as f64);
        }
    }

    /// The base was `before`. Where marks are known, base follows queues of the way back: the rate
    /// stays, and nothing moves from there into the queue of the router that marks.
    pub(super) fn keep_rate(&mut self, before: Duration) {
        let base = self.delay.base();
        if base < before
            && self.marks.are_known()
            && matches!(self.mode, Mode::Scale | Mode::Track(None))
        {
            let least = self.window.min(LEAST_PACKETS * self.packet());
            self.window = (self.window * base.div_duration_f64(before)).max(least);
        }
    }

    /// A queue stands that the marks do not explain: YIELD finds out whose it is.
    pub(super) fn ask_for_marks(&mut self, seen: &Seen) {
        self.begin_room(seen, true, LEFT * seen.window);
    }

    fn path(&self) -> Path {
        Path {
            smoothed: self.delay.smoothed(),
            noise: self.delay.noise(),
            packet: self.packet(),
            bandwidth: self.rates.bandwidth(),
        }
    }

    /// SCALE, for each round.
    pub(super) fn scale_round(&mut self, now: Instant, round: &Round) {
        if !self.marks.are_scalable() {
            return self.track();
        }
        let seen = self.seen(now);
        match self.losses.judge(self.mtu, &seen, round) {
            Verdict::Tolerated => {}
            Verdict::Excess { many } => return self.give_way_to_loss(&seen, round, many),
            Verdict::Path(window) => return self.window = self.window.max(window),
        }
        let is_used = round.in_flight as f64 >= USED * seen.window;
        match self.marks.round(&seen, round, self.path(), is_used) {
            Answer::Window(window) => {
                self.window = window.max(minimum_window(self.mtu) as f64);
            }
            Answer::Suspect => self.ask_for_marks(&seen),
            Answer::Ended => self.track(),
        }
    }
}

/// Whether a queue without marks is worth a test: it is longer than a part of base, which includes
/// the queues of earlier tests.
pub(super) fn is_noticed(seen: &Seen) -> bool {
    seen.queue() > seen.base / NOTICED
}

/// The longest queue of an L4S router.
fn longest(path: Path) -> Duration {
    let burst = L4S_PACKETS * path.packet / path.bandwidth.max(path.packet);
    L4S_QUEUE + path.noise + Duration::from_secs_f64(burst)
}
