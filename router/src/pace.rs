//! When a link is served: at each event, or in ticks while it is busy.

use std::time::{Duration, Instant};

/// Time between two ticks. A packet is seen that much late at most, and leaves that much late again.
const TICK: Duration = Duration::from_micros(125);

/// Wake-ups within [`BUSY_TIME`] that make a link busy.
const BUSY_WAKEUPS: usize = 3;

/// The time in which they come: at that rate ticks are two thirds of the wake-ups.
const BUSY_TIME: Duration = Duration::from_micros(250);

/// Ticks after which a link is judged again.
const JUDGED_TICKS: u32 = 16;

/// Packets that a tick must save a wake-up for, on average; with fewer, events cost less.
const WORTHWHILE: u32 = 2;

/// After packets were sent at an event, the next event is at least this much later, unless a packet
/// arrives first: each wake-up costs as much as several packets do (docs/router.md has figures). A
/// packet that comes alone leaves on time.
const COALESCING: Duration = Duration::from_micros(100);

/// How a link is served.
///
/// An idle link is served at events: a packet arrives, or one is due. Each wakes the process, which
/// costs more than the packet itself. So a busy link is served by ticks, at which all waiting packets
/// are read and all that are due leave.
#[derive(Debug)]
pub(crate) struct Pace {
    is_exact: bool,
    /// The latest wake-ups, the oldest first.
    wakeups: [Option<Instant>; BUSY_WAKEUPS],
    ticks: Option<Ticks>,
    /// When the last packets were read, if more may have come since then.
    read: Option<Instant>,
    sent: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Ticks {
    next: Instant,
    made: u32,
    /// Packets that came or left in the ticks made.
    packets: u32,
}

/// What a link waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// The next packet, or this instant.
    Event(Option<Instant>),
    /// This instant alone.
    Tick(Instant),
}

impl Pace {
    /// Of a link that has been idle. An exact one never ticks.
    pub(crate) fn new(now: Instant, is_exact: bool) -> Self {
        Self {
            is_exact,
            wakeups: [None; BUSY_WAKEUPS],
            ticks: None,
            read: None,
            sent: now,
        }
    }

    /// Returns the next tick, before which there is nothing to do; `None` for a link that is served
    /// at events.
    pub(crate) fn tick(&self) -> Option<Instant> {
        self.ticks.map(|ticks| ticks.next)
    }

    /// Whether packets have been arriving since the last reading, so that they can be dated.
    pub(crate) fn is_continuous(&self) -> bool {
        self.read.is_some()
    }

    /// Returns when packets arrived of which `count` have been read by `now`: at once for a link that
    /// slept, else evenly since the last reading. All at `now` would make a queue that is not there.
    pub(crate) fn arrivals(&mut self, now: Instant, count: u32) -> impl Iterator<Item = Instant> {
        let since = self.read.replace(now).unwrap_or(now);
        let step = now.saturating_duration_since(since) / count.max(1);
        self.count(count);
        (1..=count).map(move |number| since + step * number)
    }

    /// Notes that packets were sent.
    pub(crate) fn sent(&mut self, now: Instant, count: u32) {
        if count > 0 {
            self.sent = now;
            self.count(count);
        }
    }

    /// Returns what to wait for, once nothing is left to read. The next packet that is known leaves
    /// at `due`.
    pub(crate) fn wait(&mut self, now: Instant, due: Option<Instant>) -> Wait {
        if self.ticks.is_none() && self.is_busy(now) {
            self.ticks = Some(Ticks {
                next: now,
                made: 0,
                packets: 0,
            });
        }
        if let Some(ticks) = &mut self.ticks {
            if ticks.made < JUDGED_TICKS || ticks.packets >= JUDGED_TICKS * WORTHWHILE {
                if ticks.made == JUDGED_TICKS {
                    (ticks.made, ticks.packets) = (0, 0);
                }
                ticks.made += 1;
                ticks.next += TICK;
                if ticks.next <= now {
                    // Too late: those that were missed are not made up for.
                    ticks.next = now + TICK;
                }
                return Wait::Tick(ticks.next);
            }
            self.ticks = None;
            self.wakeups = [None; BUSY_WAKEUPS];
        }
        self.read = None;
        Wait::Event(due.map(|at| at.max(self.sent + COALESCING)))
    }

    fn count(&mut self, packets: u32) {
        if let Some(ticks) = &mut self.ticks {
            ticks.packets += packets;
        }
    }

    fn is_busy(&mut self, now: Instant) -> bool {
        self.wakeups.rotate_left(1);
        self.wakeups[BUSY_WAKEUPS - 1] = Some(now);
        let oldest = self.wakeups[0];
        !self.is_exact && oldest.is_some_and(|oldest| now - oldest < BUSY_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    const fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    /// A link that has been woken three times within 250 us, and when.
    fn busy() -> (Pace, Instant) {
        let epoch = clock::now();
        let mut pace = Pace::new(epoch, false);
        assert_eq!(pace.wait(epoch, None), Wait::Event(None));
        assert_eq!(pace.wait(epoch + micros(100), None), Wait::Event(None));
        let now = epoch + micros(200);
        assert_eq!(pace.wait(now, None), Wait::Tick(now + TICK));
        (pace, now)
    }

    #[test]
    fn a_link_that_is_woken_three_times_within_250_us_is_served_by_ticks() {
        let (pace, now) = busy();
        assert_eq!(pace.tick(), Some(now + TICK));
        let mut slow = Pace::new(now, false);
        for number in 0..100 {
            let wait = slow.wait(now + micros(125) * number, None);
            assert_eq!(wait, Wait::Event(None));
        }
    }

    #[test]
    fn an_exact_link_is_always_served_at_events() {
        let epoch = clock::now();
        let mut pace = Pace::new(epoch, true);
        for number in 0..100 {
            let wait = pace.wait(epoch + micros(number), None);
            assert_eq!(wait, Wait::Event(None));
        }
    }

    #[test]
    fn ticks_end_when_they_serve_too_few_packets() {
        for (packets, goes_on) in [(1, false), (2, true)] {
            let (mut pace, mut now) = busy();
            for _ in 1..JUDGED_TICKS {
                now += TICK;
                let _ = pace.arrivals(now, packets);
                assert_eq!(pace.wait(now, None), Wait::Tick(now + TICK));
            }
            now += TICK;
            let _ = pace.arrivals(now, 1);
            pace.sent(now, packets - 1);
            let wait = pace.wait(now, None);
            let expected = if goes_on {
                Wait::Tick(now + TICK)
            } else {
                Wait::Event(None)
            };
            assert_eq!(wait, expected);
        }
    }

    #[test]
    fn a_late_tick_is_followed_by_one_tick_and_not_by_those_that_were_missed() {
        let (mut pace, now) = busy();
        let late = now + TICK + micros(20);
        assert_eq!(pace.wait(late, None), Wait::Tick(now + 2 * TICK));
        let late = now + 9 * TICK;
        assert_eq!(pace.wait(late, None), Wait::Tick(late + TICK));
    }

    #[test]
    fn packets_of_a_busy_link_arrive_evenly_and_those_that_wake_one_at_once() {
        let (mut pace, now) = busy();
        let dates = |pace: &mut Pace, now, count| pace.arrivals(now, count).collect::<Vec<_>>();
        let first = now + TICK;
        assert_eq!(
            dates(&mut pace, first, 2),
            [first, first],
            "nothing was read before"
        );
        let next = first + micros(240);
        let evenly = [1, 2, 3].map(|number| first + micros(80) * number);
        assert_eq!(dates(&mut pace, next, 3), evenly);
        assert!(pace.is_continuous());
        let mut idle = Pace::new(now, false);
        assert_eq!(dates(&mut idle, now, 2), [now, now]);
        let _ = idle.wait(now, None);
        assert!(!idle.is_continuous());
        assert_eq!(dates(&mut idle, next, 2), [next, next]);
    }

    #[test]
    fn departures_at_events_are_at_least_100_us_apart_and_a_lonely_one_leaves_on_time() {
        let epoch = clock::now();
        let mut pace = Pace::new(epoch, false);
        pace.sent(epoch, 1);
        let later = |count: u64| epoch + micros(count);
        assert_eq!(
            pace.wait(epoch, Some(later(10))),
            Wait::Event(Some(later(100)))
        );
        assert_eq!(
            pace.wait(later(5), Some(later(300))),
            Wait::Event(Some(later(300)))
        );
    }
}
