//! keel: short queues where the path allows it, a fair share where others fill them.
//!
//! keel watches how round trips answer to its window. It starts fast until a queue shows (START),
//! drains what it overshot (DRAIN), and then keeps a queue of a few packets, which shows that the
//! link is full (TRACK). Now and then it makes room, so that the empty path shows (YIELD). If a
//! queue stays although keel gives way, it finds out why (`crowd`). Beside flows that take
//! whatever they are left it keeps its share by CUBIC's rule (HOLD), until they are gone. Random
//! loss (`losses`) and jitter (`delay`) change none of it within bounds.
//! `docs/algorithms/keel.md` explains the whole, its sources and its bounds.

mod crowd;
mod cubic;
mod delay;
mod hold;
mod losses;
mod rate;
mod routers;
mod row;
mod stalls;
mod start;
mod target;

use std::time::{Duration, Instant};

use crate::controller::{Ack, Cause, Congestion, Controller, LEAST_PACED_RTT, PathSample};
use crate::window::{InitialWindow, minimum_window, most_risked};
use crowd::{Answer, Crowd, Seen};
use cubic::{BETA, Curve};
use delay::Delay;
use hold::{Hold, Next};
use losses::{Losses, Verdict};
use rate::{Rates, Turn};
use routers::Routers;
pub(crate) use row::ROW;
#[cfg(feature = "ablation")]
pub(crate) use row::SWITCHED;
use row::Switches;
use stalls::Stalls;
use start::Start;

/// keel gives way down to so many packets: fewer cannot show what the path delivers. Beside others
/// losses may leave it two.
const LEAST_PACKETS: f64 = 4.0;

/// START triples the window each round trip up to so many packets, then doubles it.
const TRIPLED_PACKETS: f64 = 100.0;

/// START never has more in flight than so many times what the path delivered in an empty round
/// trip: it overshoots by less than that.
const START_REACH: f64 = 1.8;

/// START ends when the last eight round trips exceed the empty one by a twentieth of it, within
/// these bounds (after RFC 9406, section 4.3, which takes an eighth).
const START_QUEUE_PART: u32 = 20;
const START_QUEUE_LEAST: Duration = Duration::from_millis(4);
const START_QUEUE_MOST: Duration = Duration::from_millis(16);

/// DRAIN sends so much of what is acknowledged: a pause would leave the link empty afterwards.
const DRAIN_GAIN: f64 = 0.5;

/// A window of which so much is in use is validated and may grow while others take what is left
/// (RFC 7661, section 4.2).
const USED: f64 = 0.5;

/// Others that come back so soon after HOLD ended were not gone. Each time twice as long a calm must
/// show that they are, up to so many times.
const RELAPSE: Duration = Duration::from_secs(10);
const MOST_RELAPSES: u32 = 4;

/// Windows leave in the round trip at these gains.
const START_PACE: f64 = 2.0;
const PACE: f64 = 1.1;

/// A loss while half of the target queues shows a queue that is not larger: its share of the target
/// falls by this factor, to no less than the second, and recovers by the third each turn.
const ROOM_FALL: f64 = 0.85;
const LEAST_ROOM: f64 = 0.4;
const ROOM_RISE: f64 = 1.005;

/// More losses than the path has anyway lower the window to these parts, but not below this part of
/// what was delivered.
const LOSS_FACTOR: f64 = 0.85;
const MANY_LOSSES_FACTOR: f64 = 0.7;
const DELIVERED_FACTOR: f64 = 0.9;

/// Fewer packets are too few for a share: each loss lowers a window below as it lowers CUBIC's. At
/// such windows even Reno lives with a loss of 1.5 % (RFC 5348, section 3.1).
const COUNTED_PACKETS: f64 = 10.0;

/// CUBIC's curve limits growth after such losses until it allows so many times the window at them.
const CURVE_END: f64 = 4.0;

/// A mark lowers the window to this part (RFC 8511, section 3.1).
const MARK_FACTOR: f64 = 0.85;

/// Below this part of the target the window grows.
const GROWTH_QUEUE: f64 = 0.75;

/// Queues that come and go teach keel to wait for so many turns before it answers one, and so long
/// without them to forget it.
const MOST_PATIENCE: u32 = 7;
const CALM: Duration = Duration::from_secs(5);

/// keel makes room so long after START ended, and when it has not seen the empty path for so long,
/// or for so many empty round trips if that is longer. It leaves at least this part of its window.
const FIRST_ROOM: Duration = Duration::from_secs(2);
const OLD_BASE: Duration = Duration::from_secs(10);
const OLD_BASE_RTTS: u32 = 40;
const LEAST_YIELD: f64 = 0.5;
const YIELD_TURNS: u32 = 2;

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
    /// When HOLD ended last, and how often it began again soon after.
    held: Option<Instant>,
    relapses: u32,
    /// Turns of growth in a row.
    growth: u32,
    /// The part of the usual target that losses leave.
    room: f64,
    /// Limits growth after losses that no queue announced.
    curve: Option<Curve>,
    /// A queue above the target.
    crowd: Option<Crowd>,
    /// Turns for which a queue must stay to be answered.
    patience: u32,
    /// When patience last changed.
    calm_since: Instant,
    /// When the flow last made room, and when it will for the first time.
    room_at: Instant,
    first_room_at: Option<Instant>,
}

#[derive(Debug, Clone)]
enum Mode {
    /// Grows each round trip until a queue, losses or the rate show that the link is full.
    Start(Start),
    /// Sends less than arrives until the window is down to so many bytes.
    Drain { to: f64 },
    /// Keeps the queue at the target.
    Track,
    /// Makes room for so many more turns, then returns to a window in bytes.
    Yield { back: f64, turns: u32 },
    /// Keeps its share beside others.
    Hold(Hold),
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
            held: None,
            relapses: 0,
            rates: Rates::new(now),
            stalls: Stalls::default(),
            losses: Losses::new(switches),
            growth: 0,
            room: 1.0,
            curve: None,
            crowd: None,
            patience: 0,
            calm_since: now,
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
            stand: self.delay.stand(),
            target: self.target(),
            noise: self.delay.noise(),
            is_alone: self.routers.see_nobody_else(),
            switches: self.switches,
        }
    }

    /// The part of the window that giving way leaves: the link stays busy through stalls.
    fn kept(&self) -> f64 {
        let base = self.delay.base();
        let target = target::own(self.rates.bandwidth(), base, self.packet(), 1.0);
        let floor = target.map_or(0.0, |target| self.stalls.floor(base, target));
        if self.switches.stalls() {
            self.window.min(floor)
        } else {
            0.0
        }
    }

    /// The queueing time that keel aims at.
    fn target(&self) -> Duration {
        let base = self.delay.base();
        let own = target::own(self.rates.bandwidth(), base, self.packet(), self.room);
        let target = own.map_or(target::FIRST, |own| own + self.delay.noise());
        self.crowd
            .as_ref()
            .map_or(target, |crowd| target.min(crowd.target()))
    }

    /// START, for each ACK.
    fn start(&mut self, ack: &Ack) {
        let base = self.delay.base();
        let queue = (base / START_QUEUE_PART).clamp(START_QUEUE_LEAST.min(base), START_QUEUE_MOST);
        if self.delay.recent().is_some_and(|rtt| rtt > base + queue) {
            return self.leave_start();
        }
        if ack.app_limited || 2.0 * (ack.in_flight as f64) < self.window {
            return;
        }
        let tripled = TRIPLED_PACKETS * self.packet();
        let gain = if self.window < tripled { 2.0 } else { 1.0 };
        self.window += gain * ack.bytes_after_recovery as f64;
        let delivered = self.rates.bandwidth() * base.as_secs_f64();
        let reach = (START_REACH * delivered).min(delivered + most_risked(self.mtu) as f64);
        if reach > tripled && self.switches.reach_cap() {
            self.window = self.window.min(reach);
        }
    }

    /// START, for each turn.
    fn start_turn(&mut self, turn: &Turn) {
        let is_lossy = self.losses.judge(self.mtu, false).is_some();
        if let Mode::Start(start) = &mut self.mode
            && (start.is_flat(self.rates.bandwidth(), turn.is_used) || is_lossy)
        {
            self.leave_start();
        }
    }

    fn leave_start(&mut self) {
        let fits = self.rates.bandwidth() * self.delay.base().as_secs_f64();
        let to = fits.max(LEAST_PACKETS * self.packet()).max(self.kept());
        self.mode = Mode::Drain { to };
    }

    /// DRAIN, for each ACK.
    fn drain(&mut self, ack: &Ack, to: f64) {
        let in_flight = self.window.min(ack.in_flight as f64 - self.back());
        self.window = (in_flight - DRAIN_GAIN * ack.bytes as f64).max(to);
        if self.window <= to {
            self.losses.forget();
            self.first_room_at = Some(ack.now + FIRST_ROOM);
            self.track();
        }
    }

    fn track(&mut self) {
        self.mode = Mode::Track;
        self.growth = 0;
        self.crowd = None;
        self.curve = None;
    }

    /// TRACK, for each turn.
    fn track_turn(&mut self, now: Instant, turn: &Turn) {
        let seen = self.seen(now);
        if let Some(verdict) = self.losses.judge(self.mtu, seen.stands()) {
            return self.give_way_to_loss(&seen, turn, verdict);
        }
        if turn.is_lossy {
            if seen.queue() * 2 > seen.target {
                self.room = (self.room * ROOM_FALL).max(LEAST_ROOM);
            }
        } else {
            self.room = (self.room * ROOM_RISE).min(1.0);
        }
        // A window that is not in use says nothing about the path.
        if !turn.is_used {
            self.growth = 0;
        } else if seen.stands() {
            self.crowded(&seen, turn.rate);
        } else {
            self.calm(&seen);
        }
    }

    fn give_way_to_loss(&mut self, seen: &Seen, turn: &Turn, verdict: Verdict) {
        self.routers.on_excess_losses(seen, &mut self.delay);
        let delivered = self.window.min(turn.rate * seen.stand.as_secs_f64());
        let factor = match verdict {
            Verdict::Some => LOSS_FACTOR,
            Verdict::Many => MANY_LOSSES_FACTOR,
        };
        let kept = self.switches.delivered_factor(DELIVERED_FACTOR);
        let window = (factor * self.window).max(kept * delivered);
        self.lower(seen.now, window.max(LOSS_FACTOR * self.kept()), delivered);
    }

    /// Lowers the window to `bytes`; CUBIC's curve limits growth up to `most` bytes and a while
    /// beyond.
    fn lower(&mut self, now: Instant, bytes: f64, most: f64) {
        let packet = self.packet();
        self.window = bytes.max(minimum_window(self.mtu) as f64);
        let from = self.window / packet;
        self.curve = Some(Curve::new(now, from, most / packet, self.switches));
        self.growth = 0;
    }

    /// A turn ended above the target, with `rate` bytes per second acknowledged.
    fn crowded(&mut self, seen: &Seen, rate: f64) {
        let crowd = self.crowd.get_or_insert_with(|| Crowd::new(seen));
        match crowd.turn(seen, rate) {
            Answer::GiveWay(window) => self.set_window(window.max(self.kept())),
            Answer::Longer(window) => {
                if self.delay.told() * 2 > seen.queue() {
                    self.routers.distrust(seen.now, &mut self.delay);
                } else {
                    self.delay.rebase();
                }
                (self.crowd, self.curve) = (None, None);
                self.window = window;
            }
            Answer::Others { .. } if !self.switches.hold() => self.crowd = None,
            Answer::Others { window, same_rate } => {
                self.crowd = None;
                let back = self.back();
                self.window = self.window.max(window) + back;
                let smoothed = self.delay.smoothed();
                let (seen, packet) = (self.seen(seen.now), self.packet());
                let since = |at| seen.now.saturating_duration_since(at);
                let relapsed = self.held.is_some_and(|at| since(at) <= RELAPSE);
                self.relapses = match relapsed {
                    true => (self.relapses + 1).min(MOST_RELAPSES),
                    false => 0,
                };
                let hold = Hold::new(&seen, same_rate + back, smoothed, self.relapses, packet);
                self.mode = Mode::Hold(hold);
            }
        }
        self.growth = 0;
    }

    /// A turn ended within the target.
    fn calm(&mut self, seen: &Seen) {
        // What made the queue is still there as long as it leaves no room to grow.
        let is_short = seen.queue() < seen.target.mul_f64(GROWTH_QUEUE);
        if let Some(crowd) = self.crowd.take_if(|_| is_short) {
            if let Some(window) = crowd.was_noise(seen, self.losses.any()) {
                self.window = self.window.max(window);
                self.patience = (self.patience + 1).min(MOST_PATIENCE);
                self.calm_since = seen.now;
            } else {
                self.crowd = crowd.ease();
            }
        }
        if self.patience > 0 && seen.now.saturating_duration_since(self.calm_since) > CALM {
            self.patience -= 1;
            self.calm_since = seen.now;
        }
        self.delay.set_patience(self.patience);
        if self.switches.make_room() && self.is_base_old(seen.now) {
            self.make_room(seen.now);
        } else if is_short {
            self.grow(seen);
        } else {
            self.growth = 0;
        }
    }

    /// Grows by 1, 2, 4, 8 packets (AdaVegas's rows), then in proportion while the queue is far
    /// below the target, by at most a quarter.
    fn grow(&mut self, seen: &Seen) {
        self.growth += 1;
        let packet = self.packet();
        let is_far = seen.queue() * 2 < seen.target;
        let step = match self.growth {
            1..=4 => packet * f64::from(1 << (self.growth - 1)),
            5..=6 if is_far => (self.window / 8.0).max(8.0 * packet),
            _ if is_far => (self.window / 4.0).max(8.0 * packet),
            _ => 8.0 * packet,
        };
        let most = (self.window / 4.0).min(most_risked(self.mtu) as f64);
        let mut next = self.window + step.min(most).max(packet);
        if let Some(curve) = self.curve {
            // Each loss of a small window counts: without Reno's growth it would never be regained.
            let limit = if self.window < COUNTED_PACKETS * packet {
                curve.window(seen.now, seen.stand)
            } else {
                curve.alone(seen.now, seen.stand)
            };
            if limit > CURVE_END * curve.most() {
                self.curve = None;
            }
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
        let age = OLD_BASE.max(self.delay.base() * OLD_BASE_RTTS);
        now.saturating_duration_since(self.delay.seen()) > age
            && now.saturating_duration_since(self.room_at) > age / 2
    }

    /// YIELD begins.
    fn make_room(&mut self, now: Instant) {
        let empty = self.delay.base().as_secs_f64() / self.delay.stand().as_secs_f64();
        self.room_at = now;
        self.mode = Mode::Yield {
            back: self.window,
            turns: YIELD_TURNS,
        };
        self.set_window((self.window * (0.9 * empty).max(LEAST_YIELD)).max(self.kept()));
    }

    /// HOLD, for each turn.
    fn hold_turn(&mut self, now: Instant, turn: &Turn) {
        let seen = self.seen(now);
        let smoothed = self.delay.smoothed();
        let is_base_old = self.is_base_old(now);
        let mtu = self.packet();
        self.losses.judge(self.mtu, true);
        let Mode::Hold(hold) = &mut self.mode else {
            return;
        };
        let is_used = turn.in_flight as f64 >= USED * seen.window;
        let unused = (!is_used).then_some(turn.length);
        match hold.turn(&seen, smoothed, is_base_old, unused, mtu) {
            Next::Window(window) => self.window = window.max(minimum_window(self.mtu) as f64),
            Next::Leave(window) => {
                self.held = Some(now);
                self.track();
                self.window = (window - self.back()).max(minimum_window(self.mtu) as f64);
            }
        }
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
        let before = self.delay.base();
        if let Some((rtt, queueing)) = self.routers.sample(ack, self.delay.smoothed()) {
            self.delay.on_rtt(ack.now, rtt, queueing);
        }
        self.stalls
            .on_ack(ack, self.delay.base(), self.delay.smoothed());
        let room = self.window + self.back() - ack.in_flight as f64;
        let is_full = !ack.app_limited && room <= 0.1 * self.window + 2.0 * self.packet();
        match self.mode {
            Mode::Start(_) => self.start(ack),
            Mode::Drain { to } => self.drain(ack, to),
            // Somebody else's making room has shown a shorter path: join in.
            Mode::Track
                if is_full
                    && self.switches.make_room()
                    && !self.delay.is_told()
                    && before > self.delay.base() + self.target() / 4 =>
            {
                self.make_room(ack.now);
            }
            _ => {}
        }
        let Some(turn) = self.rates.on_ack(ack, is_full, self.delay.span()) else {
            return;
        };
        match &mut self.mode {
            Mode::Start(_) => self.start_turn(&turn),
            Mode::Drain { .. } => {}
            Mode::Track => self.track_turn(ack.now, &turn),
            Mode::Yield { back, turns } => {
                *turns -= 1;
                if *turns == 0 {
                    self.window = *back;
                    self.mode = Mode::Track;
                    self.crowd = None;
                }
            }
            Mode::Hold(_) => self.hold_turn(ack.now, &turn),
        }
    }

    fn on_lost(&mut self, _now: Instant, bytes: u64) {
        self.losses.on_lost(bytes);
        self.rates.on_lost();
    }

    fn on_congestion(&mut self, event: &Congestion) {
        let (window, packet) = (self.window, self.packet());
        let stands = self.seen(event.now).stands();
        let counts = window < COUNTED_PACKETS * packet && self.losses.exceed(stands);
        match &mut self.mode {
            Mode::Hold(hold) => {
                if let Some(window) = hold.on_congestion(event.now, window, packet) {
                    self.window = window.max(minimum_window(self.mtu) as f64);
                }
            }
            Mode::Track if event.cause == Cause::Loss && counts => {
                self.lower(event.now, self.switches.beta(BETA) * window, window);
            }
            // Losses of larger windows are judged by their share, each turn.
            _ if event.cause == Cause::Loss => {}
            Mode::Start(_) => self.leave_start(),
            Mode::Track => {
                self.set_window(MARK_FACTOR * window);
                self.growth = 0;
            }
            Mode::Drain { .. } | Mode::Yield { .. } => {}
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
