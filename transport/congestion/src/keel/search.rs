//! Finds out who fills a queue that stays although keel gives way.
//!
//! By Little's law a flow's rate is its window over the round trip. If the queue is its own, round
//! trips shrink as its window does, and the rate stays. If cross traffic fills it, round trips stay
//! and the rate shrinks: the part by which they do not follow the window is what cross traffic has
//! in the path.

use std::time::{Duration, Instant};

use super::row::Switches;

/// What should fall with a smaller window, and falls by more than this part of what was expected
/// (in logarithms), follows the window.
pub(super) const FOLLOWS: f64 = 0.7;

/// Windows are compared once the smaller one is this part of the other. Smaller steps drown in
/// noise.
pub(super) const COMPARED: f64 = 0.75;

/// A round lowers the window at most to this part, so that the next shows what it did.
const MOST_STEP: f64 = 0.7;

/// keel gives way to this part of what fits: a window that met it exactly would be above it by a
/// rounding.
pub(super) const AIM: f64 = 0.9;

/// Beside cross traffic, and to make room, the window falls to this part of what it was. Losses
/// leave no less of the target.
pub(super) const LEFT: f64 = 0.5;

/// Rounds after which a change has shown its effect: time to drain, and for others to answer. The
/// first rounds of a queue show what made it, not its cause.
pub(super) const SHOWN: u32 = 3;

/// This many rounds is a queue of cross traffic given to go away.
const SUSPICION_ROUNDS: u32 = 8;

/// By how much a quantity followed what was expected of it: 0 if it stayed as it was before, 1 if
/// it is what was expected.
pub(super) fn followed(before: f64, after: f64, expected: f64) -> f64 {
    let expected = (before / expected).ln();
    (before / after).ln() / expected.max(0.01)
}

/// A queue that stays although the window shrinks.
#[derive(Debug, Clone)]
pub(super) struct Search {
    /// The window at the beginning, in bytes, and the round trip that stood.
    top: f64,
    top_standing: Duration,
    /// The target at the beginning: as its rate falls, a flow must not come to like the queue that
    /// keeps it down.
    target: Duration,
    rounds: u32,
    /// The window of the round before, in bytes: round trips of now are of packets that it sent.
    sent: f64,
    /// Rounds that add to the suspicion.
    suspicious: u32,
    /// With what the next rounds are compared.
    reference: Option<Reference>,
    /// The last comparison showed cross traffic in the path.
    has_cross_traffic: bool,
    /// Rounds at the least window.
    at_least: u32,
}

/// A window, in bytes, and the round trip that stood behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) window: f64,
    pub(super) standing: Duration,
}

impl Reference {
    /// By how much round trips followed a window that shrank to `window` bytes, above an empty
    /// round trip of `base`.
    pub(super) fn followed(&self, window: f64, standing: Duration, base: Duration) -> f64 {
        let before = self.standing.as_secs_f64();
        let expected = (before * window / self.window).max(base.as_secs_f64());
        followed(before, standing.as_secs_f64(), expected)
    }
}

/// What keel knows of the path at the end of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) now: Instant,
    /// Bytes.
    pub(super) window: f64,
    /// The least window, in bytes.
    pub(super) least: f64,
    /// The empty round trip, and the one that stands.
    pub(super) base: Duration,
    pub(super) standing: Duration,
    pub(super) target: Duration,
    /// The longest queue that flows which fill queues do not leave.
    pub(super) quiet: Duration,
    /// Routers count no other flow.
    pub(super) is_alone: bool,
    pub(super) switches: Switches,
}

impl Seen {
    /// What tests show a flow: a window of 100 kB, an empty round trip of 50 ms, a target of 5 ms.
    #[cfg(test)]
    pub(super) fn standing(standing: Duration) -> Self {
        Self {
            now: crate::testing::epoch(),
            window: 100_000.0,
            least: 4_000.0,
            base: Duration::from_millis(50),
            standing,
            target: Duration::from_millis(5),
            quiet: Duration::from_millis(5),
            is_alone: false,
            switches: Switches::default(),
        }
    }

    pub(super) fn reference(&self) -> Reference {
        Reference {
            window: self.window,
            standing: self.standing,
        }
    }

    pub(super) fn queue(&self) -> Duration {
        self.standing.saturating_sub(self.base)
    }

    /// Whether the queue is longer than one that keel makes itself.
    pub(super) fn is_long(&self) -> bool {
        self.queue() > self.target * 2
    }

    /// Whether the queue stands above the target.
    pub(super) fn stands(&self) -> bool {
        self.queue() > self.target
    }
}

/// How to answer a round above the target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// Continue with this window, in bytes.
    GiveWay(f64),
    /// Cross traffic fills the queue.
    CrossTraffic {
        /// The window before keel gave way, in bytes.
        window: f64,
        /// The window that would deliver as much at the round trip of now.
        same_rate: f64,
    },
}

impl Search {
    /// A round ends above the target for the first time.
    pub(super) fn new(seen: &Seen) -> Self {
        Self {
            top: seen.window,
            top_standing: seen.standing,
            target: seen.target,
            rounds: 0,
            sent: seen.window,
            suspicious: 0,
            reference: None,
            has_cross_traffic: false,
            at_least: 0,
        }
    }

    pub(super) fn target(&self) -> Duration {
        self.target
    }

    /// A round ends above the target.
    pub(super) fn round(&mut self, seen: &Seen) -> Answer {
        let window = seen.window;
        let gave_way = self.has_cross_traffic && window <= COMPARED * self.top;
        if seen.is_long() || gave_way {
            self.suspicious += 1;
        }
        self.rounds += 1;
        self.compare(seen);
        self.has_cross_traffic &= !seen.is_alone;
        self.sent = window;
        if window <= seen.least {
            self.at_least += 1;
            // keel has given way as far as it can.
            self.has_cross_traffic |= self.at_least >= SUSPICION_ROUNDS;
        }
        if self.has_cross_traffic && self.suspicious >= SUSPICION_ROUNDS {
            let longer = seen.standing.div_duration_f64(self.top_standing);
            return Answer::CrossTraffic {
                window: self.top,
                same_rate: self.top * longer.max(1.0),
            };
        }
        let floor = if self.has_cross_traffic {
            LEFT * self.top
        } else {
            0.0
        };
        let aim = seen.base + seen.target.mul_f64(seen.switches.aim(AIM));
        let fits = aim.as_secs_f64() / seen.standing.as_secs_f64();
        let step = fits.max(seen.switches.most_step(MOST_STEP));
        Answer::GiveWay((window * step).max(floor.min(window)))
    }

    fn compare(&mut self, seen: &Seen) {
        let sent = Reference {
            window: self.sent,
            standing: seen.standing,
        };
        let Some(reference) = self.reference else {
            if self.rounds >= SHOWN {
                self.reference = Some(sent);
            }
            return;
        };
        if self.sent > COMPARED * reference.window {
            // The queue still grows.
            let standing = reference.standing.max(seen.standing);
            self.reference = Some(Reference {
                standing,
                ..reference
            });
            return;
        }
        self.has_cross_traffic = reference.followed(self.sent, seen.standing, seen.base)
            <= seen.switches.follows(FOLLOWS);
        if !self.has_cross_traffic {
            self.reference = Some(sent);
        }
    }

    /// A round ends below the target. Returns the suspicion that remains.
    pub(super) fn ease(mut self) -> Option<Self> {
        self.suspicious = self.suspicious.checked_sub(2).filter(|left| *left > 0)?;
        if !self.has_cross_traffic {
            // What comes next is another queue.
            (self.rounds, self.reference) = (0, None);
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    /// Runs rounds of 100 ms with round trips that `rtt` computes from the window, until the queue
    /// is gone or an answer is not to give way; returns that, and the number of rounds.
    fn searched(rtt: impl FnMut(f64, u64) -> Duration) -> (Option<Answer>, u64) {
        searched_or_alone(false, rtt)
    }

    /// The same with routers that count no other flow, if `is_alone`.
    fn searched_or_alone(
        is_alone: bool,
        mut rtt: impl FnMut(f64, u64) -> Duration,
    ) -> (Option<Answer>, u64) {
        let seen = |round, window, standing| Seen {
            now: epoch() + ms(100 * round),
            window,
            is_alone,
            ..Seen::standing(standing)
        };
        let mut window = 100_000.0;
        let mut search = Search::new(&seen(0, window, rtt(window, 0)));
        for round in 1..100 {
            let seen = seen(round, window, rtt(window, round));
            if seen.queue() <= seen.target {
                return (None, round);
            }
            match search.round(&seen) {
                Answer::GiveWay(next) => window = next,
                answer => return (Some(answer), round),
            }
        }
        (Some(Answer::GiveWay(window)), 100)
    }

    #[test]
    fn a_queue_of_its_own_goes_when_it_gives_way() {
        // 1 MB/s: the window over the rate, but never less than the empty round trip.
        let (answer, rounds) =
            searched(|window, _| Duration::from_secs_f64(window / 1e6).max(ms(50)));
        assert_eq!(answer, None, "the queue is gone");
        assert!(rounds <= 4, "{rounds} rounds");
    }

    #[test]
    fn a_queue_of_its_own_goes_also_if_it_grew_for_long_and_round_trips_are_late() {
        // The link becomes four times slower in the third round above the target.
        let mut sent = 100_000.0;
        let (answer, rounds) = searched(|window, round| {
            let last = std::mem::replace(&mut sent, window);
            match round {
                0..=2 => ms(56),
                3 => ms(250),
                _ => Duration::from_secs_f64(last / 0.25e6).max(ms(50)),
            }
        });
        assert_eq!(answer, None, "the queue is gone");
        assert!(rounds <= 12, "{rounds} rounds");
    }

    #[test]
    fn a_queue_that_others_fill_is_found_within_about_a_second() {
        // Others take what is left free, and their queue grows and falls.
        let (answer, rounds) = searched(|_, round| ms(90 + round % 3 * 4));
        let Some(Answer::CrossTraffic { window, same_rate }) = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(window, 100_000.0);
        // 90 ms at the beginning, 98 ms at the end.
        assert_eq!(same_rate.round(), 108_889.0);
        assert!((8..=11).contains(&rounds), "{rounds} rounds");
    }

    #[test]
    fn a_queue_of_others_that_has_shrunk_is_still_theirs() {
        // A slow start has overshot; what it leaves stays.
        let (answer, rounds) =
            searched(|_, round| ms(if round < 4 { 250 } else { 110 } + round % 3 * 4));
        assert!(
            matches!(answer, Some(Answer::CrossTraffic { .. })),
            "{answer:?}"
        );
        assert!(rounds <= 16, "{rounds} rounds");
    }

    #[test]
    fn a_flow_that_routers_count_alone_suspects_nobody_before_it_has_given_all_way() {
        let mut given_way = f64::MAX;
        let (answer, rounds) = searched_or_alone(true, |window, round| {
            given_way = given_way.min(window);
            ms(90 + round % 3 * 4)
        });
        assert!(
            matches!(answer, Some(Answer::CrossTraffic { .. })),
            "{answer:?}"
        );
        assert!(given_way <= 4_000.0, "{given_way} after {rounds} rounds");
    }

    #[test]
    fn a_queue_that_stays_at_the_least_window_ends() {
        // An empty round trip that was never true: nothing that keel does meets its target.
        let (answer, rounds) = searched(|window, round| {
            let noise = ms(round % 4 * 3);
            Duration::from_secs_f64(window / 1e6).max(ms(75) + noise)
        });
        assert!(
            matches!(answer, Some(Answer::CrossTraffic { .. })),
            "{answer:?} after {rounds} rounds"
        );
    }

    #[test]
    fn rounds_below_the_target_ease_the_suspicion_and_make_the_next_queue_another() {
        let seen = Seen::standing(ms(90));
        let mut search = Search::new(&seen);
        for _ in 0..5 {
            search.round(&seen);
        }
        let search = search.ease().expect("five rounds were suspicious");
        assert_eq!((search.suspicious, search.rounds), (3, 0));
        assert!(search.reference.is_none());
        let search = search.ease().expect("one is left");
        assert!(search.ease().is_none());

        // Two rounds ease two.
        let mut search = Search::new(&seen);
        for _ in 0..2 {
            search.round(&seen);
        }
        assert!(search.ease().is_none());
    }

    #[test]
    fn others_in_the_path_stay_in_mind_when_their_queue_goes_for_a_round() {
        let seen = Seen::standing(ms(90));
        let mut search = Search::new(&seen);
        for round in 0..6 {
            let window = 100_000.0 * 0.8_f64.powi(round);
            search.round(&Seen { window, ..seen });
        }
        assert!(
            search.has_cross_traffic,
            "round trips do not follow the window"
        );
        let eased = search.ease().expect("six rounds were suspicious");
        assert_eq!(eased.rounds, 6);
        assert!(eased.reference.is_some());
    }

    #[test]
    fn a_queue_of_twice_the_target_is_suspicious_only_below_a_window_that_gave_way() {
        let at = |window, standing, has_cross_traffic| {
            let mut search = Search::new(&Seen::standing(ms(60)));
            search.has_cross_traffic = has_cross_traffic;
            search.round(&Seen {
                window,
                ..Seen::standing(ms(standing))
            });
            search.suspicious
        };
        assert_eq!(at(100_000.0, 60, true), 0, "keel has not given way");
        assert_eq!(at(75_001.0, 60, true), 0);
        assert_eq!(at(75_000.0, 60, true), 1);
        assert_eq!(at(75_000.0, 60, false), 0, "the queue may be its own");
        assert_eq!(at(100_000.0, 61, false), 1, "more than twice the target");
    }
}
