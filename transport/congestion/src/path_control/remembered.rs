//! Begins with what a path carried before: Careful Resume (RFC 9959).
//!
//! A connection first shows in a round trip of its own that the path looks like the remembered one
//! and loses nothing (reconnaissance). Then it may have half of what the path carried in flight
//! (unvalidated), and, as that is acknowledged, up to all of it (validating). A loss, a mark or a
//! queue ends the trial: the controller continues with half of what was acknowledged by then (safe
//! retreat). Once a packet sent later is acknowledged, it is known how much the path has delivered of
//! the trial, and slow start leads to half of that. While it lasts, the controller hears all, and its
//! window counts where it is larger.

use std::time::{Duration, Instant};

/// What a path carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remembered {
    /// Bytes of UDP payload in a round trip.
    pub window: u64,
    /// The least round trip.
    pub min_rtt: Duration,
    /// The most streams over which the application is sure to spread its data, at least 1.
    pub streams: u16,
}

/// The first window is this part of the remembered one (RFC 9959: at most half).
const JUMP_PART: u64 = 2;

/// Packets for each stream in the first window, and by which it grows in a round trip. Where the path
/// carries half of what leaves, every second packet is missing, and quinn-proto 0.11 ends a
/// connection beyond 1024 gaps in a stream.
const MOST_JUMPED: u64 = 1600;
const MOST_GROWN: u64 = 400;

/// A path whose round trip is below this part of the remembered one, or above it by the second and by
/// what the peer may delay its ACK, is another path (RFC 9959 allows a half to ten times).
const SHORTER: f64 = 0.75;
const LONGER: f64 = 1.25;

/// Round trips that exceed the first one by this part, and by what the peer may delay its ACK, show a
/// queue.
const QUEUE_PART: f64 = 0.25;

/// Windows leave within a round trip, and a little sooner; in slow start twice as fast.
const PACE: f64 = 1.1;
const SLOW_START_PACE: f64 = 2.0;

/// A window of which less than this part is in use for a round trip is not tried.
const USED_PART: u64 = 2;

/// A connection that begins with what its path carried.
#[derive(Debug, Clone)]
pub(super) struct Resumption {
    memory: Remembered,
    phase: Phase,
    /// The longest that the peer delays its ACKs.
    max_ack_delay: Duration,
    /// Bytes acknowledged in reconnaissance, or of packets of the trial.
    acked: u64,
    /// The greatest round trip in reconnaissance.
    rtt: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    /// Until the initial window is acknowledged.
    Reconnaissance,
    Trial(Trial),
    /// The trial failed at `since`, with so large a window in bytes: what left before is still on its
    /// way, or lost.
    Retreat {
        since: Instant,
        tried: u64,
    },
    /// Slow start after it.
    Return(Return),
}

/// Slow start to what the path has shown to carry.
#[derive(Debug, Clone, Copy)]
struct Return {
    /// When the trial had failed.
    since: Instant,
    /// Bytes, and those at which it ends.
    window: u64,
    threshold: u64,
}

/// Packets test whether the path carries what it did.
#[derive(Debug, Clone, Copy)]
struct Trial {
    began: Instant,
    /// Bytes that may be in flight, and what they grow to.
    window: u64,
    most: u64,
    /// When the present round trip began, and with how large a window.
    round: Instant,
    round_window: u64,
    /// The most bytes in flight in it.
    in_flight: u64,
    /// It is the last.
    is_last: bool,
}

/// What an ACK showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckFacts {
    pub(super) now: Instant,
    pub(super) sent: Instant,
    pub(super) rtt: Option<Duration>,
    pub(super) bytes: u64,
    /// Before the ACK.
    pub(super) in_flight: u64,
    pub(super) app_limited: bool,
    /// The controller's own window, and its initial one.
    pub(super) window: u64,
    pub(super) initial_window: u64,
    pub(super) mtu: u16,
    /// The controller is in slow start.
    pub(super) in_slow_start: bool,
}

/// What comes after an ACK or a loss, if it is not more of the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is over: the controller goes on by itself.
    Over,
    /// It is over: the controller continues with this window, in bytes.
    OverWith(u64),
    /// The trial has failed: the controller continues with this window, in bytes, and slow start
    /// follows.
    Retreat(u64),
}

impl Resumption {
    pub(super) fn new(memory: Remembered, max_ack_delay: Duration) -> Self {
        Self {
            memory,
            phase: Phase::Reconnaissance,
            max_ack_delay,
            acked: 0,
            rtt: Duration::ZERO,
        }
    }

    /// Returns the bytes that may be in flight, and the bytes per second at which they leave, in a
    /// trial and in slow start after it.
    pub(super) fn allows(&self) -> Option<(u64, u64)> {
        let (window, pace) = match self.phase {
            Phase::Reconnaissance | Phase::Retreat { .. } => return None,
            Phase::Trial(Trial { window, .. }) => (window, PACE),
            Phase::Return(Return { window, .. }) => (window, SLOW_START_PACE),
        };
        let rate = pace * window as f64 / self.rtt.as_secs_f64();
        Some((window, rate as u64))
    }

    /// Takes in an ACK.
    pub(super) fn on_ack(&mut self, shown: &AckFacts) -> Option<Outcome> {
        match self.phase {
            Phase::Reconnaissance => self.look(shown),
            Phase::Trial(trial) => self.go_on(trial, shown),
            Phase::Retreat { since, tried } => self.retreat(since, tried, shown),
            Phase::Return(back) => self.grow(back, shown),
        }
    }

    /// Packets were lost or marked, the newest sent at `sent`.
    pub(super) fn on_congestion(
        &mut self,
        now: Instant,
        sent: Instant,
        initial_window: u64,
    ) -> Option<Outcome> {
        match self.phase {
            Phase::Reconnaissance => Some(Outcome::Over),
            Phase::Trial(trial) => Some(self.fail(&trial, now, initial_window)),
            Phase::Retreat { since, .. } | Phase::Return(Return { since, .. }) if sent <= since => {
                None
            }
            Phase::Retreat { .. } => Some(Outcome::Over),
            Phase::Return(back) => Some(Outcome::OverWith((back.window / 2).max(initial_window))),
        }
    }

    /// The trial has failed.
    fn fail(&mut self, trial: &Trial, now: Instant, initial_window: u64) -> Outcome {
        self.phase = Phase::Retreat {
            since: now,
            tried: trial.window,
        };
        Outcome::Retreat((self.acked.min(trial.window) / 2).max(initial_window))
    }

    /// Safe retreat, for each ACK.
    fn retreat(&mut self, since: Instant, tried: u64, shown: &AckFacts) -> Option<Outcome> {
        if shown.sent <= since {
            self.acked = self.acked.saturating_add(shown.bytes);
            return None;
        }
        let threshold = self.acked.min(tried) / 2;
        let back = Return {
            since,
            window: shown.window,
            threshold,
        };
        self.grow(back, shown)
    }

    /// Slow start after it, for each ACK.
    fn grow(&mut self, mut back: Return, shown: &AckFacts) -> Option<Outcome> {
        if shown.window >= back.threshold {
            return Some(Outcome::Over);
        }
        if !shown.app_limited {
            back.window = back.window.saturating_add(shown.bytes);
        }
        if back.window >= back.threshold {
            return Some(Outcome::OverWith(back.threshold));
        }
        self.phase = Phase::Return(back);
        None
    }

    /// Reconnaissance, for each ACK.
    fn look(&mut self, shown: &AckFacts) -> Option<Outcome> {
        self.acked = self.acked.saturating_add(shown.bytes);
        let rtt = shown.rtt?;
        let least = self.memory.min_rtt.mul_f64(SHORTER);
        let most = self.memory.min_rtt.mul_f64(LONGER) + self.max_ack_delay;
        if !(least..=most).contains(&rtt) {
            return Some(Outcome::Over);
        }
        self.rtt = self.rtt.max(rtt);
        if self.acked < shown.initial_window || shown.app_limited {
            return None;
        }
        let jump = self.memory.window / JUMP_PART;
        let jump = jump.min(MOST_JUMPED * self.packets(shown.mtu));
        if jump <= shown.window {
            return Some(Outcome::Over);
        }
        self.acked = 0;
        self.phase = Phase::Trial(Trial {
            began: shown.now,
            window: jump,
            most: self.memory.window,
            round: shown.now,
            round_window: jump,
            in_flight: 0,
            is_last: false,
        });
        None
    }

    /// A trial, for each ACK.
    fn go_on(&mut self, mut trial: Trial, shown: &AckFacts) -> Option<Outcome> {
        self.acked = self.acked.saturating_add(shown.bytes);
        let longest = self.rtt.mul_f64(1.0 + QUEUE_PART) + self.max_ack_delay;
        if shown.rtt.is_some_and(|rtt| rtt > longest) {
            return Some(self.fail(&trial, shown.now, shown.initial_window));
        }
        trial.in_flight = trial.in_flight.max(shown.in_flight);
        if shown.sent >= trial.began {
            let most = trial.round_window + MOST_GROWN * self.packets(shown.mtu);
            let grown = trial.window.saturating_add(shown.bytes);
            trial.window = grown.min(most).min(trial.most);
        }
        if shown.sent >= trial.round && shown.rtt.is_some() {
            if trial.in_flight < trial.round_window / USED_PART {
                return Some(Outcome::Over);
            }
            if trial.is_last {
                let goes_on = shown.in_slow_start && shown.window >= trial.most / 4 * 3;
                return Some(if goes_on {
                    Outcome::Over
                } else {
                    Outcome::OverWith(trial.most)
                });
            }
            trial.is_last = trial.window == trial.most;
            (trial.round, trial.round_window) = (shown.now, trial.window);
            trial.in_flight = 0;
        }
        self.phase = Phase::Trial(trial);
        None
    }

    /// Bytes of a packet for each stream.
    fn packets(&self, mtu: u16) -> u64 {
        u64::from(mtu) * u64::from(self.memory.streams.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    const MEMORY: Remembered = Remembered {
        window: 1_200_000,
        min_rtt: Duration::from_millis(100),
        streams: 1,
    };

    fn resumption() -> Resumption {
        Resumption::new(MEMORY, ms(25))
    }

    /// An ACK at `at` ms of `bytes` bytes, sent `rtt` ms before, with the window in use.
    fn shown(at: u64, rtt: u64, bytes: u64) -> AckFacts {
        AckFacts {
            now: epoch() + ms(at),
            sent: epoch() + ms(at - rtt),
            rtt: Some(ms(rtt)),
            bytes,
            in_flight: 1_200_000,
            app_limited: false,
            window: 24_000,
            initial_window: 12_000,
            mtu: 1200,
            in_slow_start: true,
        }
    }

    #[test]
    fn half_of_what_the_path_carried_is_tried_once_the_initial_window_is_acknowledged() {
        let mut resumption = resumption();
        assert_eq!(resumption.on_ack(&shown(100, 100, 6000)), None);
        assert_eq!(resumption.allows(), None);
        assert_eq!(resumption.on_ack(&shown(110, 100, 6000)), None);
        assert_eq!(resumption.allows(), Some((600_000, 6_600_000)));
        // It grows by what is acknowledged of it, up to all, and has that tried for a round trip.
        assert_eq!(resumption.on_ack(&shown(210, 100, 480_000)), None);
        assert_eq!(resumption.on_ack(&shown(211, 100, 480_000)), None);
        assert_eq!(
            resumption.allows().map(|(window, _)| window),
            Some(1_200_000)
        );
        assert_eq!(resumption.on_ack(&shown(310, 100, 1200)), None);
        let end = resumption.on_ack(&shown(410, 100, 1200));
        assert_eq!(end, Some(Outcome::OverWith(1_200_000)));
    }

    #[test]
    fn a_path_with_another_round_trip_or_a_loss_at_the_beginning_is_another_path() {
        for rtt in [74, 151] {
            let outcome = resumption().on_ack(&shown(200, rtt, 12_000));
            assert_eq!(outcome, Some(Outcome::Over), "{rtt}");
        }
        assert_eq!(lost(&mut resumption(), 100, 90), Some(Outcome::Over));
    }

    /// Packets are found lost at `at` ms, the newest sent at `sent` ms.
    fn lost(resumption: &mut Resumption, at: u64, sent: u64) -> Option<Outcome> {
        resumption.on_congestion(epoch() + ms(at), epoch() + ms(sent), 12_000)
    }

    fn tried() -> Resumption {
        let mut resumption = resumption();
        resumption.on_ack(&shown(100, 100, 12_000));
        resumption.on_ack(&shown(200, 100, 60_000));
        resumption
    }

    #[test]
    fn a_loss_or_a_queue_leaves_half_of_what_was_delivered_in_the_trial() {
        assert_eq!(lost(&mut tried(), 210, 110), Some(Outcome::Retreat(30_000)));
        let outcome = tried().on_ack(&shown(260, 151, 20_000));
        assert_eq!(outcome, Some(Outcome::Retreat(40_000)));
    }

    #[test]
    fn slow_start_leads_to_half_of_what_the_path_delivered_of_a_failed_trial() {
        let mut resumption = tried();
        lost(&mut resumption, 210, 110);
        // More of the trial arrives, and more of it is lost.
        assert_eq!(resumption.on_ack(&shown(260, 100, 60_000)), None);
        assert_eq!(lost(&mut resumption, 270, 150), None);
        assert_eq!(resumption.allows(), None);
        // The first packet sent since then: 120 kB were delivered.
        assert_eq!(resumption.on_ack(&shown(320, 100, 6000)), None);
        assert_eq!(resumption.allows(), Some((30_000, 600_000)));
        let outcome = resumption.on_ack(&shown(400, 100, 36_000));
        assert_eq!(outcome, Some(Outcome::OverWith(60_000)));
    }

    #[test]
    fn a_loss_in_the_slow_start_after_a_failed_trial_halves_its_window() {
        let mut resumption = tried();
        lost(&mut resumption, 210, 110);
        resumption.on_ack(&shown(260, 100, 60_000));
        resumption.on_ack(&shown(320, 100, 6000));
        assert_eq!(lost(&mut resumption, 330, 209), None);
        let outcome = lost(&mut resumption, 330, 220);
        assert_eq!(outcome, Some(Outcome::OverWith(15_000)));
        // Nor does it begin if the first packets after the trial are lost.
        let mut resumption = tried();
        lost(&mut resumption, 210, 110);
        assert_eq!(lost(&mut resumption, 400, 220), Some(Outcome::Over));
    }

    #[test]
    fn a_window_that_is_not_in_use_is_not_tried_and_one_stream_limits_it() {
        let mut resumption = Resumption::new(
            Remembered {
                window: 120_000_000,
                ..MEMORY
            },
            ms(25),
        );
        resumption.on_ack(&shown(100, 100, 12_000));
        let window = resumption.allows().map(|(window, _)| window);
        assert_eq!(window, Some(1600 * 1200));
        let little = AckFacts {
            in_flight: 100_000,
            ..shown(200, 100, 12_000)
        };
        assert_eq!(resumption.on_ack(&little), Some(Outcome::Over));
    }
}
