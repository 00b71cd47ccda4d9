//! Room that TRACK makes, so that this flow and others see the empty path.

use std::time::Instant;

use super::cubic::BETA;
use super::search::{AIM, COMPARED, LEFT, Reference, Seen};
use super::{Keel, Mode};

/// A queue that shrinks by more than this part of what the window gives up is shared by the flow:
/// one of six equal flows has a sixth of it.
const PART_OF_ONE_FLOW: f64 = 0.15;

/// Rounds for which it makes room.
const ROUNDS: u32 = 2;

/// How the flow makes room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// What was before.
    before: Reference,
    /// Rounds to come.
    rounds: u32,
    /// Does the router that marks have the queue, or is it on the way back, or the route longer?
    asks: bool,
}

impl Keel {
    /// Room begins.
    pub(super) fn make_room(&mut self, seen: &Seen) {
        let left = (AIM * seen.base.div_duration_f64(seen.standing)).max(LEFT);
        self.begin_room(seen, false, (left * self.window).max(self.kept()));
    }

    /// Room begins with a window of `window` bytes, to find out whose the queue is if it `asks`.
    pub(super) fn begin_room(&mut self, seen: &Seen, asks: bool, window: f64) {
        self.room_at = seen.now;
        self.mode = Mode::Track(Some(Room {
            before: seen.reference(),
            rounds: ROUNDS,
            asks,
        }));
        self.set_window(window);
    }

    /// TRACK, for each round of room.
    pub(super) fn room_round(&mut self, now: Instant, room: Room) {
        let rounds = room.rounds - 1;
        if rounds > 0 {
            self.mode = Mode::Track(Some(Room { rounds, ..room }));
            return;
        }
        let (base, standing) = (self.delay.base(), self.delay.standing());
        let followed = room.before.followed(self.window, standing, base);
        let is_small = self.window <= COMPARED * room.before.window;
        self.window = room.before.window;
        self.mode = Mode::Track(None);
        self.search = None;
        if !room.asks {
            return;
        }
        if is_small && followed < PART_OF_ONE_FLOW {
            self.marks.acquit();
            self.take_for_longer(&self.seen(now));
        } else if self.marks.convict(now) {
            self.lower(now, BETA * self.window, self.window);
        }
    }

    /// Nobody queues: the route has become longer, and takes a window that is larger by as much, as
    /// far as a step of the window has shown. If routers alone reported the queue, they were wrong.
    pub(super) fn take_for_longer(&mut self, seen: &Seen) {
        let longer = seen.standing.div_duration_f64(seen.base);
        self.window *= longer.clamp(1.0, 1.0 / LEFT);
        self.curve = None;
        if self.delay.reported() * 2 > seen.queue() {
            self.routers.distrust(seen.now, &mut self.delay);
        } else {
            self.delay.rebase();
            self.losses.doubt(seen.now);
        }
    }
}
