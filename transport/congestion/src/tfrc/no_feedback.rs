//! The no-feedback timer of `tfrc` (RFC 5348, sections 4.3 and 4.4).

use std::time::{Duration, Instant};

use super::Tfrc;

/// Round trips without feedback that halve the rate (RFC 5348, section 4.3, step 3).
const FEEDBACK_RTTS: u32 = 4;

impl Tfrc {
    /// Returns when the timer started at `start` expires (RFC 5348, section 4.3, step 3).
    fn feedback_due(&self, start: Instant) -> Option<Instant> {
        let packets = 2.0 * self.packet() / self.rate;
        let packets = Duration::try_from_secs_f64(packets).ok()?;
        start.checked_add(packets.max(self.rtt.smoothed.saturating_mul(FEEDBACK_RTTS)))
    }

    /// Applies every expiry of the no-feedback timer before `now`. `idle` means that the sender had
    /// nothing to send, otherwise it got no answer.
    pub(super) fn miss_feedback(&mut self, now: Instant, idle: bool) {
        let mut start = self.heard;
        while let Some(due) = self.feedback_due(start).filter(|due| *due < now) {
            let before = self.rate;
            self.no_feedback(due, idle);
            if self.rate == before {
                break;
            }
            start = due;
        }
        self.heard = now;
    }

    /// Applies one expiry of the no-feedback timer (RFC 5348, section 4.4).
    fn no_feedback(&mut self, now: Instant, idle: bool) {
        let received = self.received.max();
        let recover_rate = self.initial_rate();
        let Some(equation_rate) = self.equation_rate() else {
            if !(idle && self.rate < 2.0 * recover_rate) {
                self.rate = (self.rate / 2.0).max(self.least_rate());
            }
            return;
        };
        if idle && received < recover_rate {
            return;
        }
        // Twice what arrived may already have been the limit.
        let limit = received.min(equation_rate / 2.0);
        self.limit_to(now, limit);
    }

    /// RFC 5348, section 4.4, Update_Limits: limits X to `rate` until more arrives.
    fn limit_to(&mut self, now: Instant, rate: f64) {
        let limit = rate.max(self.least_rate());
        self.received.replace(now, limit / 2.0);
        self.recompute(now, limit);
    }
}
