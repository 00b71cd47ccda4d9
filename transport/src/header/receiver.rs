//! Headers that arrive: `docs/path-header.md`, sections 4.2 and 6.

use std::time::{Duration, Instant};

use evenkeel_wire::{Echo, PathHeaderView};

use super::tag::{Keys, Master, same};

/// What one connection knows of the headers that its peer sends.
pub(super) struct Receiver {
    master: Master,
    /// When the masters were derived.
    epoch: Instant,
    generation: u64,
    keys: Keys,
    newest: Option<Newest>,
    /// The newest header has not been echoed yet.
    unechoed: bool,
}

/// The newest header that was accepted.
struct Newest {
    /// What comes back of it, but for the time it was held.
    echo: Echo,
    /// When it was sent, in microseconds of its sender's clock.
    time: u64,
    arrival: Instant,
}

/// What becomes of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is the newest.
    Accepted,
    /// The peer has not sent it, or somebody has changed it.
    Forged,
    /// It is not newer than the newest.
    Old,
}

impl Receiver {
    pub(super) fn new(master: Master, epoch: Instant) -> Self {
        Self {
            master,
            epoch,
            generation: 0,
            keys: Keys::new(&master, 0),
            newest: None,
            unechoed: false,
        }
    }

    /// Checks a header that has arrived.
    pub(super) fn check(&mut self, now: Instant, view: &PathHeaderView<'_>) -> Verdict {
        let expected = match &self.newest {
            Some(newest) => newest.time.saturating_add(micros(now, newest.arrival)),
            None => micros(now, self.epoch),
        };
        let first = self.generation + u64::from(view.phase() != (self.generation % 2 == 1));
        let (tag, covered) = (view.tag(), view.covered_by_tag());
        let found = [first, first + 2, first + 4]
            .into_iter()
            .find_map(|generation| {
                let keys = if generation == self.generation {
                    self.keys
                } else {
                    Keys::new(&self.master, generation)
                };
                let time = keys.time(view.timestamp(), expected)?;
                same(keys.tag(time, &covered), tag).then_some((generation, keys, time))
            });
        let Some((generation, keys, time)) = found else {
            return Verdict::Forged;
        };
        if self
            .newest
            .as_ref()
            .is_some_and(|newest| time <= newest.time)
        {
            return Verdict::Old;
        }
        (self.generation, self.keys) = (generation, keys);
        self.newest = Some(Newest {
            echo: Echo::of(view),
            time,
            arrival: now,
        });
        self.unechoed = true;
        Verdict::Accepted
    }

    /// Whether the newest header waits for its echo.
    pub(super) fn has_news(&self) -> bool {
        self.unechoed
    }

    /// When the newest header arrived.
    pub(super) fn arrived(&self) -> Option<Instant> {
        self.newest.as_ref().map(|newest| newest.arrival)
    }

    /// The echo of the newest header.
    pub(super) fn echo(&self, now: Instant) -> Option<Echo> {
        let newest = self.newest.as_ref()?;
        newest
            .echo
            .held_for(now.saturating_duration_since(newest.arrival))
    }

    /// The header that was the newest at `arrival` has been echoed.
    pub(super) fn echoed(&mut self, arrival: Option<Instant>) {
        self.unechoed &= self.arrived() != arrival;
    }
}

/// Microseconds from `from` to `to`.
pub(super) fn micros(to: Instant, from: Instant) -> u64 {
    let time: Duration = to.saturating_duration_since(from);
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
