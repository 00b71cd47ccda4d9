//! Doubt: whether to believe a grant far below what the path carries without loss or queue.
//!
//! Where many share a link an honest grant is small, and who sends more than that makes a queue or
//! losses. Those who follow routers yield, though: only what is far above the grant is seen. So
//! grants below a 32nd of what was free and below a 16th of a packet are obeyed for ten round
//! trips. Then the window doubles from that 32nd on, as long as nothing queues or is lost. If all
//! of it is still free the grant is refuted: the fallback decides until routers grant a 32nd of its
//! window again. If not the grant holds, and the next try is twice as far off.

use std::time::{Duration, Instant};

use crate::controller::{LEAST_RTT, Round};

/// Grants below this part of what was free are doubted. A flow that had an n-th of a link and tries
/// to have it again, unseen, lengthens round trips by less than [`MORE_QUEUE`]: n is above 60 on a
/// path of tens of milliseconds, and there are 2000 flows.
const FAR_BELOW: f64 = 1.0 / 32.0;

/// Grants of this part of a packet in a round trip are not doubted: hundreds may share a narrow
/// link.
const LEAST_SHARE: f64 = 1.0 / 16.0;

/// Packets in a round trip that any path is taken to carry: the least window (RFC 9002, section
/// 7.2).
const LEAST_FREE: f64 = 2.0;

/// Round trips for which a doubted grant is obeyed, at first and at most.
const PATIENCE: u32 = 10;
const MOST_PATIENCE: u32 = 640;

/// Rounds of a step of a try before the one that counts: their round trips began before it.
const ROUNDS_BEFORE: u32 = 1;

/// The parts of the empty round trip, besides [`LEAST_RTT`], by which queues may lengthen it: at
/// all, and in a try.
const MOST_QUEUE: u32 = 8;
const MORE_QUEUE: u32 = 64;

#[derive(Debug, Clone)]
pub(super) struct Doubt {
    /// The most bytes that a round trip has carried without loss or queue.
    free: f64,
    /// Bytes of a full-size packet.
    packet: f64,
    state: State,
    /// In round trips.
    patience: u32,
    /// Since the state, or a step of it, began.
    least_rtt: Duration,
    has_lost: bool,
    /// The least round trip before a try.
    rtt_before: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// Grants are obeyed...
    Believes,
    /// ... as they are while there is doubt, since then.
    Doubts(Instant),
    /// The window is at least these bytes, for this number of rounds more.
    Tries(f64, u32),
    Refuted,
}

impl Doubt {
    pub(super) fn new(mtu: u16) -> Self {
        Self {
            free: LEAST_FREE * f64::from(mtu),
            packet: f64::from(mtu),
            state: State::Believes,
            patience: PATIENCE,
            least_rtt: Duration::MAX,
            has_lost: false,
            rtt_before: Duration::ZERO,
        }
    }

    /// Whether grants do not count.
    pub(super) fn refutes(&self) -> bool {
        self.state == State::Refuted
    }

    /// The bytes that a window has, whatever was granted.
    pub(super) fn least_window(&self) -> f64 {
        match self.state {
            State::Tries(window, _) => window,
            _ => 0.0,
        }
    }

    pub(super) fn on_rtt(&mut self, rtt: Duration) {
        self.least_rtt = self.least_rtt.min(rtt);
    }

    pub(super) fn on_congestion(&mut self) {
        self.has_lost = true;
    }

    /// Judges a grant that comes to `window` bytes per round trip. The empty path's takes `base`.
    pub(super) fn on_grant(&mut self, now: Instant, window: f64, base: Duration) {
        let is_far_below = window < (FAR_BELOW * self.free).min(LEAST_SHARE * self.packet);
        match self.state {
            State::Believes if is_far_below => self.enter(State::Doubts(now)),
            State::Doubts(_) | State::Refuted if !is_far_below => self.believe(PATIENCE),
            State::Doubts(since) if now - since > base * self.patience => {
                if self.is_free(longest(base, base, MOST_QUEUE)) {
                    self.rtt_before = self.least_rtt;
                    self.enter(State::Tries(FAR_BELOW * self.free, ROUNDS_BEFORE));
                } else {
                    self.enter(State::Doubts(now));
                }
            }
            _ => (),
        }
    }

    /// A round is over, with full-size packets of `mtu` bytes and a `window` in force.
    pub(super) fn on_round(&mut self, round: &Round, base: Duration, mtu: u16, window: u64) {
        let carried = round.bytes.min(round.in_flight) as f64;
        let has_queued = round.rtt_min > longest(base, base, MOST_QUEUE);
        if !has_queued && round.lost == 0 && !round.in_recovery {
            self.free = self.free.max(carried);
        }
        self.packet = f64::from(mtu);
        let least = LEAST_FREE * self.packet;
        let is_free = self.is_free(longest(self.rtt_before, base, MORE_QUEUE));
        match self.state {
            // Loss and delay decide, and so about what is free.
            State::Refuted => self.free = least.max(window as f64),
            State::Tries(window, 0) if !is_free => {
                self.free = window.max(least);
                self.believe((self.patience * 2).min(MOST_PATIENCE));
            }
            State::Tries(window, 0) if carried * 2.0 < window => (),
            State::Tries(window, 0) if window >= self.free => self.enter(State::Refuted),
            State::Tries(window, 0) => {
                let next = (window * 2.0).min(self.free);
                self.enter(State::Tries(next, ROUNDS_BEFORE));
            }
            State::Tries(window, rounds) => self.enter(State::Tries(window, rounds - 1)),
            _ => (),
        }
    }

    fn is_free(&self, longest: Duration) -> bool {
        !self.has_lost && self.least_rtt <= longest
    }

    fn believe(&mut self, patience: u32) {
        self.patience = patience;
        self.enter(State::Believes);
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.least_rtt = Duration::MAX;
        self.has_lost = false;
    }
}

/// The longest round trip that shows no more queue than `rtt`, where the empty path's takes `base`.
fn longest(rtt: Duration, base: Duration, part: u32) -> Duration {
    rtt + base / part + LEAST_RTT
}
