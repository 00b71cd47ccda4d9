//! Finds out for how long a path holds packets back although it can deliver, as crowded Wi-Fi does.
//!
//! A queue behind a link that delivers at its rate R delays a packet by what leaves meanwhile: a
//! round trip that delivers D bytes takes D / R. What it takes beyond that is a stall. A window of
//! R x (base + the longest stall) keeps the link busy through all of them; a smaller one leaves it
//! idle after each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::controller::Ack;

/// Stalls and rates are remembered for this long: a link that became slower counts as stalled for as
/// long.
const MEMORY: Duration = Duration::from_secs(2);

/// The least span in which stalls vary, if a smoothed round trip is shorter.
const SPAN: Duration = Duration::from_millis(50);

/// Stalls of the path vary within a span by more than this many times the target, and by more than
/// the empty round trip over that. A queue of the flow, or one that it shares, varies by less.
const PROVEN_TARGETS: u32 = 2;
const PROVEN_PART: u32 = 8;

/// A longer stall is an outage, or a queue behind a link that has become slower: the window does not
/// cover it. Crowded Wi-Fi holds packets back for up to 165 ms at a mean of 7 ms (private-octopus/c4,
/// doc/c4-tests.md).
const LONGEST: Duration = Duration::from_millis(150);

/// No round trip takes longer: 86,400 s.
const A_DAY_S: f64 = 86_400.0;

/// The stalls of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Stalls {
    /// The current span, and when it began.
    span: Span,
    since: Option<Instant>,
    /// The remembered ones with their ends, oldest first.
    past: VecDeque<(Instant, Span)>,
    /// The greatest delivery rate of them all, in bytes per second.
    rate: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Span {
    rate: f64,
    /// The shortest and the longest stall; `None` before the first round trip.
    stalls: Option<(Duration, Duration)>,
}

impl Stalls {
    /// Takes in an ACK on a path with this empty round trip and this smoothed one.
    pub(super) fn on_ack(&mut self, ack: &Ack, base: Duration, smoothed: Duration) {
        let (Some(rtt), Some(delivery)) = (ack.rtt, ack.delivery) else {
            return;
        };
        let since = *self.since.get_or_insert(ack.now);
        let delivered = (delivery.total - delivery.before) as f64;
        let interval = delivery.send_interval.max(delivery.ack_interval);
        if !interval.is_zero() {
            let rate = delivered / interval.as_secs_f64();
            if !delivery.app_limited || rate > self.rate {
                self.span.rate = self.span.rate.max(rate);
                self.rate = self.rate.max(rate);
            }
        }
        if self.rate <= 0.0 {
            return;
        }
        let explained = Duration::from_secs_f64((delivered / self.rate).min(A_DAY_S)).max(base);
        let stall = rtt.saturating_sub(explained);
        let (least, most) = self.span.stalls.unwrap_or((stall, stall));
        self.span.stalls = Some((least.min(stall), most.max(stall)));
        if ack.now.saturating_duration_since(since) >= smoothed.max(SPAN) {
            self.end_span(ack.now);
        }
    }

    fn end_span(&mut self, now: Instant) {
        self.past.push_back((now, std::mem::take(&mut self.span)));
        self.since = Some(now);
        let is_old = |at: Instant| now.saturating_duration_since(at) > MEMORY;
        while self.past.front().is_some_and(|(at, _)| is_old(*at)) {
            self.past.pop_front();
        }
        let rates = self.past.iter().map(|(_, span)| span.rate);
        self.rate = rates.fold(0.0, f64::max);
    }

    /// The window in bytes below which stalls leave the link idle, on a path with this empty round trip
    /// for a flow with this target; 0 if it has no stalls.
    pub(super) fn floor(&self, base: Duration, target: Duration) -> f64 {
        let spans = self.past.iter().filter_map(|(_, span)| span.stalls);
        let mut varied: Vec<Duration> = spans.clone().map(|(least, most)| most - least).collect();
        let middle = varied.len() / 2;
        if varied.is_empty() {
            return 0.0;
        }
        let (_, median, _) = varied.select_nth_unstable(middle);
        if *median <= (target * PROVEN_TARGETS).max(base / PROVEN_PART) {
            return 0.0;
        }
        let now = self.span.stalls.into_iter();
        let longest = spans.chain(now).map(|(_, most)| most).max();
        self.rate * (base + longest.unwrap_or_default().min(LONGEST)).as_secs_f64()
    }

    /// `rate`, in bytes per second, as a part of the greatest one, at most 1; 0 before there is one.
    pub(super) fn part(&self, rate: f64) -> f64 {
        if self.rate > 0.0 {
            (rate / self.rate).min(1.0)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Delivery;
    use crate::testing::{epoch, ms};

    const BASE: Duration = Duration::from_millis(10);
    const TARGET: Duration = Duration::from_millis(5);

    /// Two seconds of ACKs, one each 2 ms, on a path that delivers 1 MB/s; `rtt` in milliseconds and
    /// the bytes delivered meanwhile follow from the time in milliseconds.
    fn stalls(rtt: impl Fn(u64) -> (u64, u64)) -> Stalls {
        let mut stalls = Stalls::default();
        for at in (0..2000).step_by(2) {
            let now = epoch() + ms(1000 + at);
            let (rtt, delivered) = rtt(at);
            let delivery = Delivery {
                total: 1_000_000 + delivered,
                before: 1_000_000,
                send_interval: ms(delivered / 1000),
                ack_interval: ms(delivered / 1000),
                app_limited: false,
            };
            let ack = Ack {
                delivery: Some(delivery),
                ..Ack::new(now, now - ms(rtt), 1200)
            };
            stalls.on_ack(&ack, BASE, ms(20));
        }
        stalls
    }

    #[test]
    fn a_queue_of_any_length_is_no_stall() {
        // It grows from nothing to 50 ms and is gone again, each 100 ms.
        let queue = |at: u64| BASE.as_millis() as u64 + at % 100 / 2;
        let stalls = stalls(|at| (queue(at), 1000 * queue(at)));
        assert_eq!(stalls.floor(BASE, TARGET), 0.0);
    }

    #[test]
    fn a_window_covers_the_longest_stall_at_the_rate_between_stalls() {
        // 30 ms in each 60 nothing is delivered.
        let held = |at: u64| 30_u64.saturating_sub(at % 60);
        let stalls = stalls(|at| (10 + held(at), 10_000));
        // 1 MB/s in 10 + 30 ms.
        assert!((stalls.floor(BASE, TARGET) - 40_000.0).abs() < 1.0);
        assert_eq!((stalls.part(0.5e6), stalls.part(2e6)), (0.5, 1.0));
        // Less than two targets is no proof.
        assert_eq!(stalls.floor(BASE, ms(16)), 0.0);
    }

    #[test]
    fn an_outage_is_covered_for_150_milliseconds() {
        let held = |at: u64| if at % 60 < 30 { 400 } else { 0 };
        let stalls = stalls(|at| (10 + held(at), 10_000));
        assert!((stalls.floor(BASE, TARGET) - 160_000.0).abs() < 1.0);
    }
}
