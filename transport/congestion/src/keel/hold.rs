//! Keeps keel's share beside flows that fill the queue, and looks out for their end.

use std::time::{Duration, Instant};

use super::cubic::{BETA, Curve};
use super::rate::Round;
use super::search::{FOLLOWS, Reference, Seen};
use super::{Keel, Mode, USED};
use crate::window::minimum_window;

/// This part of the window remains for up to [`ROOM_ROUNDS`] rounds: time to drain, and for the
/// others to answer.
const ROOM: f64 = 0.5;
const ROOM_ROUNDS: u32 = 3;

/// Cross traffic is gone if the queue is short for this many rounds although the window is back at
/// this part of where they stopped it.
const QUIET_ROUNDS: u32 = 2;
const REGROWN: f64 = 0.95;

/// A window that grows by CUBIC's rule.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    curve: Curve,
    room: Option<Room>,
    quiet: u32,
}

/// Room is made to see who fills the queue.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// What was before.
    before: Reference,
    rounds: u32,
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
}

impl Hold {
    /// Holds `seen.window` and more until it is `most` bytes.
    pub(super) fn new(seen: &Seen, most: f64, mtu: f64) -> Self {
        let beta = seen.switches.beta(BETA);
        Self {
            curve: Curve::new(seen.now, seen.window / mtu, most / mtu, beta),
            room: None,
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
        if let Some(room) = &mut self.room {
            room.rounds += 1;
            let own = room
                .before
                .followed(ROOM * room.before.window, seen.standing, seen.base);
            if room.rounds < ROOM_ROUNDS {
                return Next::Window(seen.window);
            }
            let Reference { window, standing } = room.before;
            self.room = None;
            if own > seen.switches.follows(FOLLOWS) {
                // All who fill the queue have made room: each takes what fits of its window.
                let fits = (seen.base + seen.target).as_secs_f64() / standing.as_secs_f64();
                return Next::Leave(window * fits.clamp(ROOM, 1.0));
            }
            return Next::Window(window.max(seen.window));
        }
        let regrown = seen.window >= REGROWN * self.curve.most() * mtu;
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
            let before = Reference {
                window: seen.window,
                standing: seen.standing,
            };
            self.room = Some(Room { before, rounds: 0 });
            return Next::Room(ROOM * seen.window);
        }
        let grown = self.curve.window(seen.now, smoothed) * mtu;
        Next::Window(grown.clamp(seen.window, 1.5 * seen.window))
    }

    /// Packets of a window of `window` bytes were lost or marked. Returns the next window; `None`
    /// while room is made with a window that is lower already.
    pub(super) fn on_congestion(&mut self, now: Instant, window: f64, mtu: f64) -> Option<f64> {
        if self.room.is_some() {
            return None;
        }
        let packets = window / mtu;
        let beta = self.curve.beta();
        // Fast convergence (RFC 9438, section 4.7).
        let most = if packets < self.curve.most() {
            packets * (1.0 + beta) / 2.0
        } else {
            packets
        };
        self.curve = Curve::new(now, beta * packets, most, beta);
        Some(beta * window)
    }
}

impl Keel {
    /// HOLD, for each round.
    pub(super) fn hold_round(&mut self, now: Instant, round: &Round) {
        let seen = self.seen(now);
        let smoothed = self.delay.smoothed();
        let low_at = self.delay.low_at().map_or(now, |at| at.max(self.room_at));
        let is_room_due = now.saturating_duration_since(low_at) > self.delay.old() / 2;
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const MTU: f64 = 1000.0;

    fn new(seen: &Seen, most: f64) -> Hold {
        Hold::new(seen, most, MTU)
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
                Next::Leave(_) => return (Some(round), windows),
            }
        }
        (None, windows)
    }

    #[test]
    fn it_holds_on_while_others_take_what_it_leaves() {
        let (left, windows) = hold(200, |_| ms(100));
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
        assert_eq!(hold.on_congestion(epoch(), 100_000.0, MTU), Some(70_000.0));
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
            hold.on_congestion(epoch(), window, MTU);
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
        assert!(quiet(190_000.0, 54), "at 0.95 of it");
        assert!(!quiet(189_000.0, 54), "below");
        assert!(!quiet(190_000.0, 55), "5 ms are not short");
    }
}
