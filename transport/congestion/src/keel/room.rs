//! YIELD: makes room, so that this flow and others see the empty path.

use super::search::{COMPARED, FOLLOWS, Reference, Seen};
use super::{Keel, Mode};

/// YIELD leaves at least this part of the window, for this many rounds.
const LEAST: f64 = 0.5;
const ROUNDS: u32 = 2;

/// How the flow makes room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// What was before.
    before: Reference,
    /// Rounds to come.
    rounds: u32,
    /// If round trips do not follow the window, the one that stands becomes base.
    asks: bool,
}

impl Keel {
    /// YIELD begins. Where stalls would keep the window, it asks whether the queue is jitter: the
    /// least round trip of 30 s may be one that jitter spared.
    pub(super) fn make_room(&mut self, seen: &Seen) {
        let empty = seen.base.as_secs_f64() / seen.standing.as_secs_f64();
        let asks = seen.queue() * 2 > seen.target && self.kept() > COMPARED * self.window;
        let kept = if asks { 0.0 } else { self.kept() };
        self.room_at = seen.now;
        self.mode = Mode::Yield(Room {
            before: Reference {
                window: self.window,
                standing: seen.standing,
            },
            rounds: ROUNDS,
            asks,
        });
        self.set_window((self.window * (0.9 * empty).max(LEAST)).max(kept));
    }

    /// YIELD, for each round.
    pub(super) fn yield_round(&mut self, room: Room) {
        let rounds = room.rounds - 1;
        if rounds > 0 {
            self.mode = Mode::Yield(Room { rounds, ..room });
            return;
        }
        let (base, standing) = (self.delay.base(), self.delay.standing());
        let followed = room.before.followed(self.window, standing, base);
        let is_small = self.window <= COMPARED * room.before.window;
        if room.asks && is_small && followed < 1.0 - self.switches.follows(FOLLOWS) {
            self.delay.rebase();
        }
        self.window = room.before.window;
        self.mode = Mode::Track;
        self.search = None;
    }
}
