//! Keeps keel's share beside flows that fill the queue, and looks out for their end.

use std::time::{Duration, Instant};

use super::crowd::Seen;
use super::cubic::{BETA, Curve};
use super::row::Switches;

/// keel looks for the end this often at first, or after so many round trips, whichever is longer;
/// and a third of that after it began.
const INTERVAL: Duration = Duration::from_secs(6);
const INTERVAL_RTTS: u32 = 30;

/// So much of the window remains for [`PULSE_TURNS`] turns: time to drain, and for the others to
/// answer.
const PULSE: f64 = 0.5;
const PULSE_TURNS: u32 = 3;

/// Round trips that follow the window by more than this part show that the queue is keel's own; one
/// pulse by more than the second part shows it alone; by less than the third shows others at once.
const OWN: f64 = 0.75;
const CLEARLY_OWN: f64 = 0.85;
const CLEARLY_OTHERS: f64 = 0.5;

/// Each pulse that shows others makes the time to the next longer by this factor, up to so many
/// times what it was: a pulse costs share.
const BACKOFF: f64 = 1.5;
const MOST_BACKOFF: u32 = 4;

/// The others are gone if the queue is short for so many turns although the window is back at this
/// part of where they stopped it.
const QUIET_TURNS: u32 = 2;
const REGROWN: f64 = 0.95;

/// A queue is short below a tenth of the empty round trip, or this.
const SHORT: Duration = Duration::from_millis(4);

/// A window that grows by CUBIC's rule.
#[derive(Debug, Clone)]
pub(super) struct Hold {
    switches: Switches,
    curve: Curve,
    interval: Duration,
    next_pulse: Instant,
    pulse: Option<Pulse>,
    quiet: u32,
    /// Quiet turns that show that the others are gone.
    quiet_needed: u32,
    /// Pulses in a row that showed keel's own queue.
    own: u32,
    /// As it began, routers did not count those that fill the queue: they do not see them.
    began_alone: bool,
}

#[derive(Debug, Clone, Copy)]
struct Pulse {
    /// The window to return to, in bytes.
    window: f64,
    stand: Duration,
    turns: u32,
}

/// What to do after a turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    /// Continue with this window, in bytes.
    Window(f64),
    /// The others are gone; continue with this window, in bytes.
    Leave(f64),
}

impl Hold {
    /// Holds `seen.window` and more until it is `most` bytes, on a path with this smoothed round
    /// trip.
    pub(super) fn new(seen: &Seen, most: f64, smoothed: Duration, relapses: u32, mtu: f64) -> Self {
        let switches = seen.switches;
        Self {
            switches,
            curve: Curve::new(seen.now, seen.window / mtu, most / mtu, switches),
            interval: interval(smoothed),
            next_pulse: seen.now + interval(smoothed) / 3,
            pulse: None,
            quiet: 0,
            quiet_needed: QUIET_TURNS << relapses,
            own: 0,
            began_alone: seen.is_alone,
        }
    }

    /// A turn ends. `is_base_old` lets flows that share a queue pulse together; `unused` is the
    /// turn's length if the window was not in use.
    pub(super) fn turn(
        &mut self,
        seen: &Seen,
        smoothed: Duration,
        is_base_old: bool,
        unused: Option<Duration>,
        mtu: f64,
    ) -> Next {
        let short = (seen.base / 10).max(SHORT) + seen.noise.min(seen.base / 2);
        let is_short = seen.queue() < short;
        if let Some(pulse) = &mut self.pulse {
            pulse.turns += 1;
            let followed = (pulse.stand.as_secs_f64() / seen.stand.as_secs_f64()).ln();
            let own = followed / (1.0 / PULSE).ln();
            let is_early = pulse.turns < PULSE_TURNS;
            if pulse.turns == 1 || is_early && own > CLEARLY_OTHERS {
                return Next::Window(seen.window);
            }
            if own > OWN {
                self.own += 1;
            } else {
                self.own = 0;
                self.interval = self
                    .interval
                    .mul_f64(BACKOFF)
                    .min(interval(smoothed) * MOST_BACKOFF);
                self.next_pulse = seen.now + self.interval;
            }
            let window = pulse.window.max(seen.window);
            self.pulse = None;
            if own > CLEARLY_OWN || self.own >= 2 {
                return Next::Leave(window);
            }
            return Next::Window(window);
        }
        if seen.is_alone && !self.began_alone {
            return Next::Leave(seen.window);
        }
        let regrown = seen.window >= REGROWN * self.curve.most() * mtu;
        self.quiet = if is_short && regrown {
            self.quiet + 1
        } else {
            0
        };
        if self.quiet >= self.quiet_needed {
            return Next::Leave(seen.window);
        }
        if let Some(time) = unused {
            self.curve.pause(time);
            return Next::Window(seen.window);
        }
        let wait = if is_base_old {
            Duration::ZERO
        } else {
            interval(smoothed)
        };
        if seen.now >= self.next_pulse + wait {
            self.next_pulse = seen.now + self.interval;
            self.pulse = Some(Pulse {
                window: seen.window,
                stand: seen.stand,
                turns: 0,
            });
            return Next::Window(seen.window * PULSE);
        }
        let grown = self.curve.window(seen.now, smoothed) * mtu;
        Next::Window(grown.clamp(seen.window, 1.5 * seen.window))
    }

    /// Packets of a window of `window` bytes were lost or marked. Returns the next window; `None`
    /// in a pulse, whose window is lower already.
    pub(super) fn on_congestion(&mut self, now: Instant, window: f64, mtu: f64) -> Option<f64> {
        if self.pulse.is_some() {
            return None;
        }
        let packets = window / mtu;
        let beta = self.switches.beta(BETA);
        // Fast convergence (RFC 9438, section 4.7).
        let most = if packets < self.curve.most() {
            packets * (1.0 + beta) / 2.0
        } else {
            packets
        };
        self.curve = Curve::new(now, beta * packets, most, self.switches);
        Some(beta * window)
    }
}

fn interval(smoothed: Duration) -> Duration {
    INTERVAL.max(smoothed * INTERVAL_RTTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const MTU: f64 = 1000.0;

    /// Runs turns of 100 ms with round trips that `rtt` computes from the window; returns the turn
    /// at which keel leaves, and the windows.
    fn hold(turns: u64, rtt: impl Fn(f64) -> Duration) -> (Option<u64>, Vec<f64>) {
        let seen = |turn, window| Seen {
            now: epoch() + ms(100 * turn),
            window,
            ..Seen::standing(rtt(window))
        };
        let mut windows = vec![100_000.0];
        let mut hold = Hold::new(&seen(0, 100_000.0), 100_000.0, ms(100), 0, MTU);
        for turn in 1..turns {
            let seen = seen(turn, windows[windows.len() - 1]);
            match hold.turn(&seen, ms(100), true, None, MTU) {
                Next::Window(window) => windows.push(window),
                Next::Leave(_) => return (Some(turn), windows),
            }
        }
        (None, windows)
    }

    #[test]
    fn it_holds_on_while_others_take_what_it_leaves() {
        let (left, windows) = hold(200, |_| ms(100));
        assert_eq!(left, None);
        let pulses = windows.windows(2).filter(|w| w[1] < w[0]).count();
        assert_eq!(pulses, 2, "after 2 and 11 s, and the next after 25 s");
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
        assert_eq!(left, Some(23), "after the first pulse, at 2 s");
    }

    #[test]
    fn it_leaves_when_the_queue_is_short() {
        assert_eq!(hold(200, |_| ms(52)).0, Some(2));
    }

    #[test]
    fn it_leaves_when_routers_count_nobody_else_any_more() {
        let seen = |is_alone| Seen {
            is_alone,
            ..Seen::standing(ms(100))
        };
        let turn = |began: bool, now: bool| {
            let mut hold = Hold::new(&seen(began), 100_000.0, ms(100), 0, MTU);
            hold.turn(&seen(now), ms(100), false, None, MTU)
        };
        assert_eq!(turn(false, true), Next::Leave(100_000.0));
        assert!(matches!(turn(false, false), Next::Window(_)));
        // Who fills the queue is not among those that they count.
        assert!(matches!(turn(true, true), Next::Window(_)));
    }

    #[test]
    fn losses_lower_the_window_as_those_of_cubic_do() {
        let seen = Seen::standing(ms(100));
        let mut hold = Hold::new(&seen, 100_000.0, ms(100), 0, MTU);
        assert_eq!(hold.on_congestion(epoch(), 100_000.0, MTU), Some(70_000.0));
        // Two seconds later, K = cbrt(30 / 0.4) = 4.2 s, CUBIC has made up for half of it.
        let at = Seen {
            now: epoch() + ms(2000),
            window: 70_000.0,
            ..seen
        };
        let Next::Window(window) = hold.turn(&at, ms(100), false, None, MTU) else {
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
        let new = || Hold::new(&seen, 200_000.0, ms(100), 0, MTU);
        let at_once = new().turn(&seen, ms(100), false, None, MTU);
        let mut paused = new();
        let unused = paused.turn(&later, ms(100), false, Some(ms(1000)), MTU);
        assert_eq!(unused, Next::Window(100_000.0));
        assert_eq!(paused.turn(&later, ms(100), false, None, MTU), at_once);
        assert_ne!(new().turn(&later, ms(100), false, None, MTU), at_once);
    }

    #[test]
    fn a_loss_below_the_last_window_leaves_room_to_others() {
        let seen = Seen::standing(ms(100));
        let most_after = |window| {
            let mut hold = Hold::new(&seen, 100_000.0, ms(100), 0, MTU);
            hold.on_congestion(epoch(), window, MTU);
            hold.curve.most()
        };
        assert_eq!(most_after(100_000.0), 100.0, "where the last one was");
        assert_eq!(most_after(80_000.0), 68.0, "80 x (1 + 0.7) / 2");
    }

    #[test]
    fn it_looks_for_the_end_every_six_seconds_or_thirty_round_trips() {
        assert_eq!(interval(ms(100)), ms(6000));
        assert_eq!(interval(ms(300)), ms(9000));
    }

    #[test]
    fn a_short_queue_says_nothing_before_the_window_is_back_where_it_was() {
        let seen = Seen::standing(ms(54));
        let quiet = |window, stand, noise| {
            let mut hold = Hold::new(&seen, 200_000.0, ms(54), 0, MTU);
            let now = Seen {
                window,
                stand: ms(stand),
                noise: ms(noise),
                ..seen
            };
            hold.turn(&now, ms(54), false, None, MTU);
            hold.turn(&now, ms(54), false, None, MTU) == Next::Leave(window)
        };
        assert!(quiet(190_000.0, 54, 0), "at 0.95 of it");
        assert!(!quiet(189_000.0, 54, 0), "below");
        // A tenth of the empty round trip is 5 ms. Jitter comes on top, up to half of it.
        assert!(!quiet(190_000.0, 55, 0));
        assert!(quiet(190_000.0, 57, 3));
        assert!(!quiet(190_000.0, 58, 3));
        assert!(quiet(190_000.0, 79, 40));
        assert!(!quiet(190_000.0, 80, 40));
    }
}
