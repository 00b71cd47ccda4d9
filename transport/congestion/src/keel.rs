//! keel: short queues where the path allows it, a fair share where others fill them.
//!
//! keel watches how round trips answer to its window. It starts fast until a queue shows (START),
//! drains what it overshot (DRAIN), and then keeps a queue of a few packets, which shows that the
//! link is full (TRACK). Now and then it makes room, so that the empty path shows (`room`). If a
//! queue stays although keel gives way, it finds out why (`search`). Beside flows that take
//! whatever they are left it keeps its share by CUBIC's rule (HOLD), until they are gone. Random
//! loss (`losses`) and jitter (`delay`) change none of it within bounds. Marks of packets that
//! leave as ECT(1) are answered in proportion (SCALE, `scalable`). `docs/algorithms/keel.md`
//! explains the whole, its sources and its bounds.

mod cubic;
mod delay;
mod hold;
mod losses;
mod rate;
mod room;
mod routers;
mod row;
mod scalable;
mod search;
mod stalls;
mod start;
mod target;

use std::time::{Duration, Instant};

use crate::controller::{Ack, Cause, Congestion, Controller, EcnMode, LEAST_PACED_RTT, PathSample};
use crate::window::{InitialWindow, minimum_window, most_risked};
use cubic::{BETA, Curve};
use delay::{Delay, OLD};
use hold::Hold;
use losses::{Losses, Verdict};
use rate::{Rates, Round};
use room::Room;
use routers::Routers;
pub(crate) use row::ROW;
#[cfg(feature = "ablation")]
pub(crate) use row::SWITCHED;
use row::Switches;
use scalable::Marks;
use search::{AIM, Answer, LEFT, Search, Seen};
use stalls::Stalls;
use start::{SLOW_GAIN, Start};

/// keel gives way down to this many packets: fewer cannot show what the path delivers. Beside
/// others losses may leave it two.
const LEAST_PACKETS: f64 = 4.0;

/// A window of which this part is in use is validated and may grow while others take what is left
/// (RFC 7661, section 4.2).
const USED: f64 = 0.5;

/// Windows leave in the round trip at these gains.
const START_PACE: f64 = 2.0;
const PACE: f64 = 1.1;

/// More losses than the path has anyway, and a mark (RFC 8511, section 3.1), lower the window to
/// this part.
const CUT: f64 = 0.85;

/// A loss while half of the target queues shows a queue that is not larger: keel aims at a part of
/// its target that falls by [`CUT`], to no less than [`LEFT`], and recovers by this each round.
const PART_RISE: f64 = 1.005;

/// Fewer packets are too few for a share, and for a step that shows beside dozens of flows: each loss
/// lowers a window below as it lowers CUBIC's. At such windows even Reno lives with a loss of 1.5 %
/// (RFC 5348, section 3.1).
const COUNTED_PACKETS: f64 = 10.0;

/// Below this part of the target the window grows.
const GROWTH_QUEUE: f64 = 0.75;

/// keel makes room this long after START ended, and when it has not seen the empty path for long.
const FIRST_ROOM: Duration = Duration::from_secs(2);

/// A congestion controller for one path.
#[derive(Debug, Clone)]
pub struct Keel {
    switches: Switches,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
    /// Bytes, without what queues on the way back.
    window: f64,
    mode: Mode,
    delay: Delay,
    routers: Routers,
    rates: Rates,
    stalls: Stalls,
    losses: Losses,
    marks: Marks,
    /// Rounds of growth in a row.
    growth: u32,
    /// The part of the usual target that losses leave.
    target_part: f64,
    /// Limits growth after losses that no queue announced.
    curve: Option<Curve>,
    /// A queue above the target.
    search: Option<Search>,
    /// When the flow last made room, and when it will for the first time.
    room_at: Instant,
    first_room_at: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Mode {
    /// Grows each round trip until a queue or losses show that the link is full.
    Start(Start),
    /// Sends less than arrives until the window is down to `to` bytes.
    Drain { to: f64 },
    /// Keeps the queue at the target, or makes room, so that the empty path is seen.
    Track(Option<Room>),
    /// Keeps its share beside others.
    Hold(Hold),
    /// Answers marks in proportion to how many packets have them.
    Scale,
}

impl Keel {
    /// Creates a controller of an unused path at `now`, for full-size packets of `mtu` bytes.
    pub fn new(now: Instant, initial: InitialWindow, mtu: u16) -> Self {
        Self::switched(now, initial, mtu, Switches::default())
    }

    fn switched(now: Instant, initial: InitialWindow, mtu: u16, switches: Switches) -> Self {
        Self {
            switches,
            mtu,
            window: initial.bytes(mtu) as f64,
            mode: Mode::Start(Start::default()),
            delay: Delay::new(switches),
            routers: Routers::default(),
            rates: Rates::new(now),
            stalls: Stalls::default(),
            losses: Losses::new(switches),
            marks: Marks::default(),
            growth: 0,
            target_part: 1.0,
            curve: None,
            search: None,
            room_at: now,
            first_room_at: None,
        }
    }

    fn packet(&self) -> f64 {
        f64::from(self.mtu)
    }

    /// Sets the window to `bytes`, at least the least.
    fn set_window(&mut self, bytes: f64) {
        self.window = bytes.max(LEAST_PACKETS * self.packet());
    }

    /// Bytes whose acknowledgements queue on the way back, as far as routers tell: they hold nobody
    /// up. HOLD counts them, since CUBIC does.
    fn back(&self) -> f64 {
        match self.mode {
            Mode::Hold(_) => 0.0,
            _ => (self.rates.bandwidth() * self.delay.back().as_secs_f64()).min(self.window),
        }
    }

    fn seen(&self, now: Instant) -> Seen {
        Seen {
            now,
            window: self.window,
            least: LEAST_PACKETS * self.packet(),
            base: self.delay.base(),
            standing: self.delay.standing(),
            target: self.target(),
            quiet: self.delay.quiet(),
            is_alone: self.routers.see_nobody_else(),
            switches: self.switches,
        }
    }

    /// The target without jitter, once a rate is known.
    fn own_target(&self) -> Option<Duration> {
        let base = self.delay.base();
        target::own(self.rates.bandwidth(), base, self.packet(), self.switches)
    }

    /// The window that keeps the link busy through stalls; 0 if there are none.
    fn floor(&self) -> f64 {
        self.own_target()
            .filter(|_| self.switches.stalls())
            .map_or(0.0, |target| self.stalls.floor(self.delay.base(), target))
    }

    /// The part of the window that giving way leaves.
    fn kept(&self) -> f64 {
        self.window.min(self.floor())
    }

    /// The queueing time that keel aims at.
    fn target(&self) -> Duration {
        let target = self.own_target().map_or(target::FIRST, |own| {
            (own + self.delay.noise()).mul_f64(self.target_part)
        });
        self.search
            .as_ref()
            .map_or(target, |search| target.min(search.target()))
    }

    fn leave_start(&mut self) {
        let fits = self.rates.bandwidth() * self.delay.base().as_secs_f64();
        let to = fits.max(LEAST_PACKETS * self.packet()).max(self.kept());
        self.mode = Mode::Drain { to };
    }

    /// DRAIN, for each ACK.
    fn drain(&mut self, ack: &Ack, to: f64) {
        let in_flight = self.window.min(ack.in_flight as f64 - self.back());
        self.window = (in_flight - SLOW_GAIN * ack.bytes as f64).max(to);
        if self.window <= to {
            self.rates.begin_anew(ack);
            self.losses.forget();
            self.marks.drained(ack.now);
            self.first_room_at = Some(ack.now + FIRST_ROOM);
            self.track();
        }
    }

    fn track(&mut self) {
        self.mode = Mode::Track(None);
        self.growth = 0;
        self.target_part = 1.0;
        self.search = None;
        self.curve = None;
    }

    /// TRACK, for each round.
    fn track_round(&mut self, now: Instant, round: &Round) {
        let seen = self.seen(now);
        match self.losses.judge(self.mtu, &seen, round) {
            Verdict::Tolerated => {}
            Verdict::Excess { many } => return self.give_way_to_loss(&seen, round, many),
            Verdict::Path(window) => {
                self.window = self.window.max(window);
                self.curve = None;
                return;
            }
        }
        if round.is_lossy {
            if seen.queue() * 2 > seen.target && self.switches.shrunk_target() {
                self.target_part = (self.target_part * CUT).max(LEFT);
            }
        } else {
            self.target_part = (self.target_part * PART_RISE).min(1.0);
        }
        // A window that is not in use says nothing about the path.
        if !round.is_used {
            self.growth = 0;
        } else if !seen.stands() {
            self.calm(&seen, round.rate);
        } else if !self.marks.are_known() {
            self.above_target(&seen);
        } else if scalable::is_noticed(&seen) {
            self.ask_for_marks(&seen);
        } else {
            self.grow(&seen, round.rate);
        }
    }

    fn give_way_to_loss(&mut self, seen: &Seen, round: &Round, many: bool) {
        self.routers.on_excess_losses(seen, &mut self.delay);
        let delivered = self.window.min(round.rate * seen.standing.as_secs_f64());
        let cut = self.switches.cut(CUT);
        let factor = if many { self.switches.beta(BETA) } else { cut };
        let window = (factor * self.window).max(AIM * delivered);
        self.lower(seen.now, window, delivered);
        // A long queue explains the loss: once it is gone, the path has room.
        self.curve.take_if(|_| seen.is_long());
    }

    /// Lowers the window to `bytes`; CUBIC's curve limits growth to `most` bytes and beyond.
    fn lower(&mut self, now: Instant, bytes: f64, most: f64) {
        let packet = self.packet();
        self.window = bytes.max(minimum_window(self.mtu) as f64);
        let from = self.window / packet;
        self.curve = Some(Curve::new(
            now,
            from,
            most / packet,
            self.switches.beta(BETA),
        ));
        self.growth = 0;
    }

    /// A round ended above the target.
    fn above_target(&mut self, seen: &Seen) {
        let search = self.search.get_or_insert_with(|| Search::new(seen));
        match search.round(seen) {
            Answer::GiveWay(window) => self.set_window(window.max(self.kept())),
            Answer::CrossTraffic { .. } if !self.switches.hold() => self.search = None,
            Answer::CrossTraffic { window, same_rate } => {
                self.search = None;
                let back = self.back();
                self.window = self.window.max(window) + back;
                let now = self.seen(seen.now);
                let most = same_rate + back;
                let hold = Hold::new(&now, most, seen.reference(), self.packet());
                self.mode = Mode::Hold(hold);
            }
        }
        self.growth = 0;
    }

    /// A round ended within the target, in which `rate` bytes per second were acknowledged.
    fn calm(&mut self, seen: &Seen, rate: f64) {
        // What made the queue is still there as long as it leaves no room to grow.
        let has_room = seen.queue()
            < seen
                .target
                .mul_f64(self.switches.growth_queue(GROWTH_QUEUE));
        if let Some(search) = self.search.take_if(|_| has_room) {
            self.search = search.ease();
        }
        if self.switches.make_room() && self.is_base_old(seen.now) {
            self.make_room(seen);
        } else if has_room {
            self.grow(seen, rate);
        } else {
            self.growth = 0;
        }
    }

    /// Grows by 1, 2, 4, ... packets (AdaVegas's rows) while the queue is far below the target, by
    /// at most a quarter, and by at most eight packets near it. Where the path stalls, the window
    /// grows to what keeps the link busy at the rate of now.
    fn grow(&mut self, seen: &Seen, rate: f64) {
        self.growth += 1;
        let packet = self.packet();
        let is_far = seen.queue() * 2 < seen.target;
        let row = match is_far {
            true => self.growth.min(16),
            false => self.growth.min(4),
        };
        let step = packet * f64::from(1 << (row - 1));
        let part = match self.marks.have_come() {
            true => scalable::MOST_GROWTH,
            false => 0.25,
        };
        let most = (self.window * part).min(most_risked(self.mtu) as f64);
        let floor = self.floor() * (rate / self.rates.bandwidth()).min(1.0);
        let next = self.window + step.min(most).max(packet);
        let mut next = next.max(floor.min(2.0 * self.window));
        if let Some(curve) = self.curve.filter(|_| self.switches.curve()) {
            // Each loss of a small window counts: without Reno's growth it would never be regained.
            let limit = if self.window < COUNTED_PACKETS * packet {
                curve.window(seen.now, seen.standing)
            } else {
                curve.alone(seen.now, seen.standing)
            };
            next = next.min(self.window.max(limit * packet));
        }
        self.window = next;
    }

    /// Whether the empty path was not seen for long. Flows that share a queue see it at the same
    /// time, and so make room at the same time.
    fn is_base_old(&mut self, now: Instant) -> bool {
        if self.first_room_at.is_some_and(|at| at <= now) {
            self.first_room_at = None;
            return true;
        }
        now.saturating_duration_since(self.delay.seen()) > OLD
            && now.saturating_duration_since(self.room_at) > OLD / 2
    }
}

impl Controller for Keel {
    fn on_path(&mut self, sample: &PathSample) {
        self.routers.on_path(sample);
    }

    fn header_interval(&self) -> u32 {
        self.routers.header_interval()
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.losses.on_acked(ack.bytes);
        if let Some((rtt, queueing)) = self.routers.sample(ack, self.delay.smoothed()) {
            let before = self.delay.base();
            self.delay.is_by_pairs = self.marks.are_known();
            // START has few other samples, and ends too early without these.
            let may_be_held = ack.packets == 1 && !matches!(self.mode, Mode::Start(_));
            self.delay.on_ack(ack.now, may_be_held);
            self.delay.on_rtt(ack.now, rtt, queueing);
            self.keep_rate(before);
        }
        let (base, bandwidth) = (self.delay.base(), self.rates.bandwidth());
        self.stalls.on_ack(ack, base, bandwidth, self.packet());
        let unused = self.window + self.back() - ack.in_flight as f64;
        let is_full = !ack.app_limited && unused <= 0.1 * self.window + 2.0 * self.packet();
        match self.mode {
            Mode::Start(start) => self.start(ack, &start),
            Mode::Drain { to } => self.drain(ack, to),
            _ => {}
        }
        if self.marks.on_ack(ack) {
            self.marked(ack.now);
        }
        let Some(round) = self.rates.on_ack(ack, is_full, self.delay.span()) else {
            return;
        };
        self.delay.on_round(ack.now);
        if !matches!(self.mode, Mode::Scale) {
            self.marks.begin_virtual_round();
        }
        match &mut self.mode {
            Mode::Start(_) => self.start_round(&round),
            Mode::Drain { .. } => {}
            Mode::Track(None) => self.track_round(ack.now, &round),
            Mode::Track(Some(room)) => {
                let room = *room;
                self.room_round(ack.now, room);
            }
            Mode::Hold(_) => self.hold_round(ack.now, &round),
            Mode::Scale => self.scale_round(ack.now, &round),
        }
    }

    fn ecn(&self) -> EcnMode {
        self.marks.wish()
    }

    fn on_ecn(&mut self, ecn: Option<EcnMode>) {
        self.marks.on_ecn(ecn);
    }

    fn on_lost(&mut self, _now: Instant, bytes: u64) {
        let queue = self.delay.last().saturating_sub(self.delay.base());
        self.losses.on_lost(bytes, queue <= self.delay.short());
        self.rates.on_lost();
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let (window, packet) = (self.window, self.packet());
        let stands = self.seen(event.now).stands();
        let counts = window < COUNTED_PACKETS * packet && self.losses.exceed(stands);
        let is_delayed = self.delay.shows_queue(Duration::ZERO);
        match &mut self.mode {
            // What the path loses anyway shows no queue.
            Mode::Hold(_) if event.cause == Cause::Loss && !self.losses.exceed_path(self.mtu) => {}
            Mode::Hold(hold) => {
                let least = minimum_window(self.mtu) as f64;
                if let Some(window) = hold.on_congestion(event.now, window, least, packet) {
                    self.window = window;
                }
            }
            Mode::Scale if event.cause == Cause::Loss && (counts || is_delayed) => {
                self.lower(event.now, BETA * window, window);
            }
            Mode::Track(None) if event.cause == Cause::Loss && counts => {
                self.lower(event.now, self.switches.beta(BETA) * window, window);
            }
            // Losses of larger windows are judged by their share, each round.
            _ if event.cause == Cause::Loss => {}
            Mode::Start(_) => self.leave_start(),
            Mode::Track(None) => {
                self.set_window(self.switches.cut(CUT) * window);
                self.growth = 0;
            }
            Mode::Drain { .. } | Mode::Track(Some(_)) | Mode::Scale => {}
        }
    }

    fn on_persistent_congestion(&mut self) {
        self.track();
        self.window = minimum_window(self.mtu) as f64;
        self.delay.forget_back();
        self.mode = Mode::Start(Start::default());
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window = self.window.max(minimum_window(mtu) as f64);
    }

    fn resume(&mut self, window: u64) {
        self.set_window(window as f64);
        self.mode = Mode::Drain { to: self.window };
    }

    fn window(&self) -> u64 {
        (self.window + self.back()) as u64
    }

    /// The window in a round trip, and a little more. The smoothed round trip is late when a queue
    /// has drained.
    fn pacing_rate(&self) -> Option<u64> {
        let smoothed = self.delay.smoothed();
        let recent = self.delay.recent().map(|rtt| rtt + self.delay.back());
        let rtt = recent.unwrap_or(smoothed).min(smoothed).as_secs_f64();
        let gain = match self.mode {
            Mode::Start(_) => START_PACE,
            Mode::Scale => 1.0,
            _ => PACE,
        };
        (smoothed >= LEAST_PACED_RTT).then(|| (gain * (self.window + self.back()) / rtt) as u64)
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        (!matches!(self.mode, Mode::Start(_))).then(|| self.window())
    }
}

#[cfg(test)]
mod tests;
