//! YIELD: makes room, so that this flow and others see the empty path.

use std::time::Instant;

use super::cubic::BETA;
use super::search::{COMPARED, FOLLOWS, Reference, Seen};
use super::{Keel, Mode};

/// YIELD leaves at least this part of the window, for this many rounds.
const LEAST: f64 = 0.5;
const ROUNDS: u32 = 2;

/// A queue that shrinks by more than this part of what the window gives up is shared by the flow:
/// one of six equal flows has a sixth of it.
const PART_OF_ONE_FLOW: f64 = 0.15;

/// How the flow makes room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// What was before.
    before: Reference,
    /// Rounds to come.
    rounds: u32,
    /// If it asks and round trips do not follow the window, the one that stands becomes base.
    asks: Option<Question>,
}

/// What YIELD is to find out.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    /// Is the queue this flow's, or does jitter look like one?
    Jitter,
    /// Does the router that marks have the queue, or is it on the way back, or the route longer?
    Marks,
}

impl Keel {
    /// YIELD begins. Where stalls would keep the window, it asks whether the queue is jitter: the
    /// least round trip of 30 s may be one that jitter spared.
    pub(super) fn make_room(&mut self, seen: &Seen) {
        let asks = seen.queue() * 2 > seen.target && self.kept() > COMPARED * self.window;
        let left = (0.9 * seen.base.as_secs_f64() / seen.standing.as_secs_f64()).max(LEAST);
        if asks {
            self.ask(seen, Some(Question::Jitter), left * self.window);
        } else {
            self.ask(seen, None, (left * self.window).max(self.kept()));
        }
    }

    /// YIELD begins with a window of `window` bytes, to find out what it `asks`.
    pub(super) fn ask(&mut self, seen: &Seen, asks: Option<Question>, window: f64) {
        self.room_at = seen.now;
        self.mode = Mode::Yield(Room {
            before: Reference {
                window: self.window,
                standing: seen.standing,
            },
            rounds: ROUNDS,
            asks,
        });
        self.set_window(window);
    }

    /// YIELD, for each round.
    pub(super) fn yield_round(&mut self, now: Instant, room: Room) {
        let rounds = room.rounds - 1;
        if rounds > 0 {
            self.mode = Mode::Yield(Room { rounds, ..room });
            return;
        }
        let (base, standing) = (self.delay.base(), self.delay.standing());
        let followed = room.before.followed(self.window, standing, base);
        let is_small = self.window <= COMPARED * room.before.window;
        let least = match room.asks {
            Some(Question::Marks) => PART_OF_ONE_FLOW,
            _ => 1.0 - self.switches.follows(FOLLOWS),
        };
        let follows = !is_small || followed >= least;
        self.window = room.before.window;
        self.mode = Mode::Track;
        self.search = None;
        match room.asks {
            None => {}
            Some(Question::Jitter) if follows => {}
            Some(Question::Jitter) => self.delay.rebase(),
            Some(Question::Marks) if follows => {
                let is_classic = self.marks.convict(now);
                if is_classic {
                    self.lower(now, BETA * self.window, self.window);
                }
            }
            Some(Question::Marks) => {
                self.marks.acquit();
                self.window *= standing.div_duration_f64(base).max(1.0);
                self.curve = None;
                self.delay.rebase();
            }
        }
    }
}
