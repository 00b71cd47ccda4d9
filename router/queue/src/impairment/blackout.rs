//! Interruptions.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

use super::{Fate, Impairment};
use crate::packet::PacketMeta;

/// Drops everything that comes within given intervals, their starts included, their ends not.
///
/// Only the entry counts: behind a port, what was sent before the interruption still arrives, and
/// the port goes on transmitting into nothing, so that its queue drains.
#[derive(Debug)]
pub struct Blackout {
    /// Those that have not ended yet, in order of their starts.
    intervals: VecDeque<Range<Instant>>,
}

impl Blackout {
    /// An impairment with these interruptions, which may overlap.
    pub fn new(mut intervals: Vec<Range<Instant>>) -> Self {
        intervals.sort_by_key(|interval| (interval.start, interval.end));
        Self {
            intervals: intervals.into(),
        }
    }
}

impl Impairment for Blackout {
    fn name(&self) -> &'static str {
        "blackout"
    }

    fn decide(&mut self, now: Instant, _: &PacketMeta) -> Fate {
        while self
            .intervals
            .front()
            .is_some_and(|interval| interval.end <= now)
        {
            self.intervals.pop_front();
        }
        // An interval behind the first one may have begun too, but then so has the first.
        if self
            .intervals
            .front()
            .is_some_and(|interval| interval.start <= now)
        {
            Fate::Lost
        } else {
            Fate::Out(now)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::impairment::Node;
    use crate::testing::{epoch, ms, packet};

    #[test]
    fn everything_is_dropped_from_the_start_of_an_interval_to_before_its_end() {
        let start = epoch();
        let interval = |from, to| start + ms(from)..start + ms(to);
        // Unsorted, overlapping, one inside another, one empty.
        let intervals = vec![
            interval(10, 12),
            interval(2, 9),
            interval(3, 4),
            interval(8, 10),
            interval(15, 15),
        ];
        let mut blackout = Node::new(Blackout::new(intervals));
        let passed: Vec<u64> = (0..20)
            .filter(|&number| {
                blackout.push(start + ms(number), packet(100, number));
                blackout.pop(start + ms(number)).is_some()
            })
            .collect();
        assert_eq!(passed, [0, 1, 12, 13, 14, 15, 16, 17, 18, 19]);
        assert_eq!(blackout.counters().dropped.packets, 10);
        assert_eq!(blackout.counters().check("blackout"), Ok(()));
    }
}
