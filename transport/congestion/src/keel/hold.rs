//! Keeps keel's share beside flows that fill the queue, and looks out for their end.

use std::time::{Duration, Instant};

use super::cubic::{BETA, Curve};
use super::delay::OLD;
use super::rate::Round;
use super::search::{AIM, COMPARED, FOLLOWS, LEFT, Reference, SHOWN, Seen};
use super::{COUNTED_PACKETS, Keel, Mode, USED};
use crate::window::minimum_window;

/// If a step of the window moves round trips along with it by less than the first part, the route
/// is longer, or the queue is on the way back. Such a queue may drift the other way meanwhile, by
/// less than the second part.
const STILL: f64 = 0.01;
const DRIFT: f64 = 0.05;

/// Cross traffic is gone if the queue is short for this many rounds although the window is back at
/// [`AIM`] of where they stopped it.
const QUIET_ROUNDS: u32 = 2;

/// A window that grows by CUBIC's rule.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    curve: Curve,
    step: Option<Step>,
    quiet: u32,
}

/// A step of the window, whose effect on round trips shows who fills the queue.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// What was before.
    before: Reference,
    rounds: u32,
    /// Room is made; else the window is back at what it was before giving way.
    is_room: bool,
    /// Round trips have moved with the window.
    has_moved: bool,
    /// Packets were marked in the room, or more lost than the path loses anyway, and others may
    /// have given way to that: it shows nothing.
    is_void: bool,
}

impl Step {
    fn new(before: Reference, is_room: bool) -> Self {
        Self {
            before,
            rounds: 0,
            is_room,
            has_moved: false,
            is_void: false,
        }
    }
}

/// What to do after a round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// Continue with this window, in bytes.
    Window(f64),
    /// Make room: continue with this window, in bytes.
    Room(f64),
    /// Cross traffic is gone; continue with this window, in bytes.
    Leave(f64),
    /// There is none on the way there: the route has become longer, or the way back has a queue.
    /// Continue with this window, in bytes.
    Longer(f64),
}

impl Hold {
    /// Holds `seen.window` and more until it is `most` bytes; giving way had left `before`.
    pub(super) fn new(seen: &Seen, most: f64, before: Reference, mtu: f64) -> Self {
        let beta = seen.switches.beta(BETA);
        let is_rise = before.window <= COMPARED * seen.window;
        Self {
            curve: Curve::new(seen.now, seen.window / mtu, most / mtu, beta),
            step: is_rise.then(|| Step::new(before, false)),
            quiet: 0,
        }
    }

    /// A round ends on a path with this smoothed round trip. `is_room_due` says that it is time to
    /// make room; `unused` is the round's length if the window was not in use.
    pub(super) fn round(
        &mut self,
        seen: &Seen,
        smoothed: Duration,
        is_room_due: bool,
        unused: Option<Duration>,
        mtu: f64,
    ) -> Next {
        if seen.is_alone {
            return Next::Leave(seen.window);
        }
        if let Some(step) = &mut self.step {
            step.rounds += 1;
            let Reference { window, standing } = step.before;
            let fell = standing.saturating_sub(seen.standing);
            let rose = seen.standing.saturating_sub(standing);
            let (with, against) = match step.is_room {
                true => (fell, rose),
                false => (rose, fell),
            };
            step.has_moved |= with > standing.mul_f64(STILL) || against > standing.mul_f64(DRIFT);
            if step.rounds < SHOWN {
                return Next::Window(seen.window);
            }
            let step = self.step.take().expect("it is there");
            let before = step.before;
            let own = before.followed(LEFT * window, seen.standing, seen.base);
            let window = window.max(seen.window);
            return if step.is_void {
                Next::Window(window)
            } else if !step.has_moved && window >= COUNTED_PACKETS * mtu {
                Next::Longer(window)
            } else if step.is_room && own > seen.switches.follows(FOLLOWS) {
                // All who fill the queue have made room: each takes what fits of its window.
                let fits = (seen.base + seen.target).div_duration_f64(standing);
                Next::Leave(window * fits.clamp(LEFT, 1.0))
            } else {
                Next::Window(window)
            };
        }
        let regrown = seen.window >= AIM * self.curve.most() * mtu;
        self.quiet = match seen.queue() < seen.quiet && regrown {
            true => self.quiet + 1,
            false => 0,
        };
        if self.quiet >= QUIET_ROUNDS {
            return Next::Leave(seen.window);
        }
        if let Some(time) = unused {
            self.curve.pause(time);
            return Next::Window(seen.window);
        }
        if is_room_due {
            self.step = Some(Step::new(seen.reference(), true));
            return Next::Room(LEFT * seen.window);
        }
        let grown = self.curve.window(seen.now, smoothed) * mtu;
        Next::Window(grown.clamp(seen.window, 1.5 * seen.window))
    }

    /// Packets of a window of `window` bytes were lost or marked. Returns the next window, at least
    /// `least` bytes; `None` while room is made with a window that is lower already.
    pub(super) fn on_congestion(
        &mut self,
        now: Instant,
        window: f64,
        least: f64,
        mtu: f64,
    ) -> Option<f64> {
        if let Some(step) = self.step.as_mut().filter(|step| step.is_room) {
            step.is_void = true;
            return None;
        }
        self.step = None;
        let packets = window / mtu;
        let beta = self.curve.beta();
        // Fast convergence (RFC 9438, section 4.7).
        let most = if packets < self.curve.most() {
            packets * (1.0 + beta) / 2.0
        } else {
            packets
        };
        let next = (beta * window).max(least);
        self.curve = Curve::new(now, next / mtu, most, beta);
        Some(next)
    }
}

impl Keel {
    /// HOLD, for each round.
    pub(super) fn hold_round(&mut self, now: Instant, round: &Round) {
        let seen = self.seen(now);
        let smoothed = self.delay.smoothed();
        let due = self.delay.low_at().unwrap_or(now) + OLD / 2;
        let is_lossy = round.is_lossy && self.losses.exceed_path(self.mtu);
        let is_room_due = now > due && self.room_at < due && !is_lossy;
        let mtu = self.packet();
        self.losses.count(self.mtu, true);
        let Mode::Hold(hold) = &mut self.mode else {
            return;
        };
        let is_used = round.in_flight as f64 >= USED * seen.window;
        let unused = (!is_used).then_some(round.length);
        let next = hold.round(&seen, smoothed, is_room_due, unused, mtu);
        let least = minimum_window(self.mtu) as f64;
        match next {
            Next::Window(window) => self.window = window.max(least),
            Next::Room(window) => {
                self.room_at = now;
                self.window = window.max(least);
            }
            Next::Leave(window) => {
                self.track();
                self.window = (window - self.back()).max(least);
            }
            Next::Longer(window) => {
                self.track();
                self.window = window;
                self.take_for_longer(&seen);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const MTU: f64 = 1000.0;
    const LEAST: f64 = 2.0 * MTU;

    fn new(seen: &Seen, most: f64) -> Hold {
        Hold::new(seen, most, seen.reference(), MTU)
    }

    /// Runs rounds of 100 ms, of which each fiftieth is due for room, with round trips that `rtt`
    /// computes from the window; returns the round at which keel leaves, and the windows.
    fn hold(rounds: u64, rtt: impl Fn(f64) -> Duration) -> (Option<u64>, Vec<f64>) {
        let seen = |round, window| Seen {
            now: epoch() + ms(100 * round),
            window,
            ..Seen::standing(rtt(window))
        };
        let mut windows = vec![100_000.0];
        let mut hold = new(&seen(0, 100_000.0), 100_000.0);
        for round in 1..rounds {
            let seen = seen(round, windows[windows.len() - 1]);
            match hold.round(&seen, ms(100), round % 50 == 20, None, MTU) {
                Next::Window(window) | Next::Room(window) => windows.push(window),
                Next::Leave(_) | Next::Longer(_) => return (Some(round), windows),
            }
        }
        (None, windows)
    }

    #[test]
    fn it_holds_on_while_others_take_what_it_leaves() {
        let (left, windows) = hold(200, |window| ms(100).mul_f64((window / 1e5).powf(0.1)));
        assert_eq!(left, None);
        let rooms = windows.windows(2).filter(|w| w[1] < w[0]).count();
        assert_eq!(rooms, 4, "after 2, 7, 12 and 17 s");
        assert!(
            windows[windows.len() - 1] > 100_000.0,
            "it grows between them"
        );
    }

    #[test]
    fn it_leaves_when_the_queue_is_its_own() {
        let (left, _) = hold(200, |window| {
            Duration::from_secs_f64(window / 1e6).max(ms(50))
        });
        assert_eq!(left, Some(23), "three rounds after it made room, at 2 s");
    }

    /// A window that giving way had halved behind round trips of 90 ms is back; packets are lost
    /// before the round `lost`. Returns what four rounds ask.
    fn risen(rtt: impl Fn(u32) -> Duration, lost: Option<u32>) -> Vec<Next> {
        let seen = Seen::standing(ms(90));
        let before = Reference {
            window: 50_000.0,
            standing: ms(90),
        };
        let mut hold = Hold::new(&seen, seen.window, before, MTU);
        let round = |round| {
            if lost == Some(round) {
                hold.on_congestion(seen.now, seen.window, LEAST, MTU);
            }
            let now = Seen {
                standing: rtt(round),
                ..seen
            };
            hold.round(&now, ms(90), false, None, MTU)
        };
        (1..=4).map(round).collect()
    }

    #[test]
    fn round_trips_that_do_not_move_when_the_window_is_back_are_a_longer_route() {
        let is_longer = |rounds: Vec<Next>| rounds[2] == Next::Longer(100_000.0);
        assert!(is_longer(risen(|_| ms(90), None)));
        assert!(!is_longer(risen(|round| ms(90 + u64::from(round)), None)));
        assert!(!is_longer(risen(|_| ms(90), Some(2))), "a full queue");
    }

    #[test]
    fn a_step_of_a_few_packets_shows_no_longer_route() {
        let is_longer = |window| {
            let seen = Seen {
                window,
                ..Seen::standing(ms(90))
            };
            let before = Reference {
                window: window / 2.0,
                standing: ms(90),
            };
            let mut hold = Hold::new(&seen, window, before, MTU);
            (0..3).any(|_| hold.round(&seen, ms(90), false, None, MTU) == Next::Longer(window))
        };
        assert!(is_longer(10.0 * MTU) && !is_longer(9.0 * MTU));
    }

    #[test]
    fn a_queue_that_room_does_not_move_is_not_on_the_way_there() {
        assert_eq!(hold(200, |_| ms(100)).0, Some(23), "after three rounds");
    }

    #[test]
    fn a_queue_that_others_fill_while_room_is_made_is_no_longer_route() {
        let is_longer = |after| {
            let mut hold = new(&Seen::standing(ms(100)), 100_000.0);
            hold.round(&Seen::standing(ms(100)), ms(100), true, None, MTU);
            let room = Seen {
                window: 50_000.0,
                ..Seen::standing(ms(after))
            };
            (0..3).any(|_| {
                let next = hold.round(&room, ms(100), false, None, MTU);
                matches!(next, Next::Longer(_))
            })
        };
        assert!(is_longer(105) && !is_longer(106));
    }

    #[test]
    fn room_in_which_packets_are_lost_proves_nothing() {
        let left = |is_lost| {
            let full = Seen::standing(ms(100));
            let mut hold = new(&full, 100_000.0);
            hold.round(&full, ms(100), true, None, MTU);
            if is_lost {
                hold.on_congestion(full.now, 50_000.0, LEAST, MTU);
            }
            let room = Seen {
                window: 50_000.0,
                ..Seen::standing(ms(50))
            };
            (0..3).any(|_| matches!(hold.round(&room, ms(50), false, None, MTU), Next::Leave(_)))
        };
        assert!(left(false) && !left(true));
    }

    #[test]
    fn it_leaves_when_the_queue_is_short() {
        assert_eq!(hold(200, |_| ms(52)).0, Some(2));
    }

    #[test]
    fn it_leaves_when_routers_count_nobody_else_any_more() {
        let seen = Seen::standing(ms(100));
        let round = |is_alone| {
            let now = Seen { is_alone, ..seen };
            new(&seen, 100_000.0).round(&now, ms(100), false, None, MTU)
        };
        assert_eq!(round(true), Next::Leave(100_000.0));
        assert!(matches!(round(false), Next::Window(_)));
    }

    #[test]
    fn losses_lower_the_window_as_those_of_cubic_do() {
        let seen = Seen::standing(ms(100));
        let mut hold = new(&seen, 100_000.0);
        let mut lose = |window| hold.on_congestion(epoch(), window, LEAST, MTU);
        assert_eq!(lose(2_500.0), Some(LEAST), "two packets are left");
        assert_eq!(lose(100_000.0), Some(70_000.0));
        // Two seconds later, K = cbrt(30 / 0.4) = 4.2 s, CUBIC has made up for half of it.
        let at = Seen {
            now: epoch() + ms(2000),
            window: 70_000.0,
            ..seen
        };
        let Next::Window(window) = hold.round(&at, ms(100), false, None, MTU) else {
            panic!("the queue is long");
        };
        assert!((94_000.0..97_000.0).contains(&window), "{window}");
    }

    #[test]
    fn it_neither_grows_nor_ages_while_the_window_is_not_in_use() {
        let seen = Seen::standing(ms(100));
        let later = Seen {
            now: epoch() + ms(1000),
            ..seen
        };
        let new = || new(&seen, 200_000.0);
        let at_once = new().round(&seen, ms(100), false, None, MTU);
        let mut paused = new();
        let unused = paused.round(&later, ms(100), false, Some(ms(1000)), MTU);
        assert_eq!(unused, Next::Window(100_000.0));
        assert_eq!(paused.round(&later, ms(100), false, None, MTU), at_once);
        assert_ne!(new().round(&later, ms(100), false, None, MTU), at_once);
    }

    #[test]
    fn a_loss_below_the_last_window_leaves_room_to_others() {
        let seen = Seen::standing(ms(100));
        let most_after = |window| {
            let mut hold = new(&seen, 100_000.0);
            hold.on_congestion(epoch(), window, LEAST, MTU);
            hold.curve.most()
        };
        assert_eq!(most_after(100_000.0), 100.0, "where the last one was");
        assert_eq!(most_after(80_000.0), 68.0, "80 x (1 + 0.7) / 2");
    }

    #[test]
    fn a_short_queue_says_nothing_before_the_window_is_back_where_it_was() {
        let seen = Seen::standing(ms(54));
        let quiet = |window, standing| {
            let mut hold = new(&seen, 200_000.0);
            let now = Seen {
                window,
                standing: ms(standing),
                ..seen
            };
            hold.round(&now, ms(54), false, None, MTU);
            hold.round(&now, ms(54), false, None, MTU) == Next::Leave(window)
        };
        assert!(quiet(180_000.0, 54), "at 0.9 of it");
        assert!(!quiet(179_000.0, 54), "below");
        assert!(!quiet(180_000.0, 55), "5 ms are not short");
    }
}
