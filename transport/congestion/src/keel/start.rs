//! START: finds the link's rate within few round trips, and little queue.

use std::time::Duration;

use super::rate::Round;
use super::search::SHOWN;
use super::{Keel, Mode};
use crate::controller::Ack;
use crate::window::most_risked;

/// START triples the window each round trip up to this many packets, then doubles it.
const TRIPLED_PACKETS: f64 = 100.0;

/// START does not grow beyond this many times what the path delivered in an empty round trip, once
/// that is more than [`TRIPLED_PACKETS`] or a queue shows: it overshoots by less than that.
const START_REACH: f64 = 1.8;

/// Acknowledgements that come this many times slower than the packets left show that the link is
/// full. START ends then, if the last eight round trips show a queue that is not short.
const STRETCHED: f64 = 1.25;

/// Behind such a queue that cross traffic may have made, START grows by this part of what is
/// acknowledged (like the conservative slow start of RFC 9406, section 4.2). DRAIN sends this part:
/// a pause would leave the link empty afterwards.
pub(super) const SLOW_GAIN: f64 = 0.5;

/// What START remembers of the round before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Start {
    /// Rounds in a row behind a queue.
    slow: u32,
    /// Bytes acknowledged per second.
    rate: f64,
    /// Jitter as it was then: in this round START may make a queue that looks like it.
    noise: Duration,
}

impl Keel {
    /// START, for each ACK.
    pub(super) fn start(&mut self, ack: &Ack, start: &Start) {
        let is_delayed = self.delay.shows_queue(start.noise);
        let is_stretched = ack.delivery.is_some_and(|delivery| {
            delivery.ack_interval
                > delivery
                    .send_interval
                    .mul_f64(self.switches.stretched(STRETCHED))
        });
        let is_over = is_stretched || start.slow >= SHOWN || !self.switches.slow_start();
        if is_delayed && is_over {
            return self.leave_start();
        }
        if ack.app_limited || 2.0 * (ack.in_flight as f64) < self.window {
            return;
        }
        let tripled = TRIPLED_PACKETS * self.packet();
        let gain = match is_delayed {
            true => SLOW_GAIN,
            false if self.window < tripled => 2.0,
            false => 1.0,
        };
        let before = self.window;
        self.window += gain * ack.bytes_after_recovery as f64;
        let delivered = self.rates.bandwidth() * self.delay.base().as_secs_f64();
        let reach = (START_REACH * delivered).min(delivered + most_risked(self.mtu) as f64);
        if (is_delayed || reach > tripled) && self.switches.reach_cap() {
            self.window = self.window.min(reach.max(before));
        }
    }

    /// START, for each round. Losses end it that come while delivery no longer grows: a path that
    /// loses packets by itself delivers more of a larger window.
    pub(super) fn start_round(&mut self, round: &Round) {
        let is_lossy = self.losses.count(self.mtu, false);
        let Mode::Start(start) = &mut self.mode else {
            return;
        };
        start.slow = match self.delay.shows_queue(start.noise) {
            true => start.slow + 1,
            false => 0,
        };
        start.noise = self.delay.short_noise();
        let is_flat = round.rate < STRETCHED * std::mem::replace(&mut start.rate, round.rate);
        if is_lossy && is_flat {
            self.leave_start();
        }
    }
}
