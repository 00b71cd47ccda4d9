//! What the path has been seen to deliver, and the rounds in which keel decides.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::controller::Ack;

/// The delivery rate is the greatest of this many rounds and the present one.
const ROUNDS: usize = 6;

/// A round: a round trip of data, at least as long as a queue must stand to count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    pub(super) length: Duration,
    /// Bytes per second that were acknowledged.
    pub(super) rate: f64,
    /// The flow filled its window.
    pub(super) is_used: bool,
    /// The most bytes in flight.
    pub(super) in_flight: u64,
    /// Packets were declared lost.
    pub(super) is_lossy: bool,
}

#[cfg(test)]
impl Round {
    /// A round of 50 ms that used its window and delivered `rate` bytes per second.
    pub(super) fn used(rate: f64) -> Self {
        Self {
            length: Duration::from_millis(50),
            rate,
            is_used: true,
            in_flight: 0,
            is_lossy: false,
        }
    }
}

/// Delivery rates of one path.
#[derive(Debug, Clone)]
pub(super) struct Rates {
    since: Instant,
    /// The round ends with a packet that was sent after this many bytes were delivered.
    ends: u64,
    acked: u64,
    used: bool,
    in_flight: u64,
    lossy: bool,
    /// The greatest sample of this round, bytes per second.
    greatest: f64,
    past: VecDeque<f64>,
}

impl Rates {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            ends: 0,
            acked: 0,
            used: false,
            in_flight: 0,
            lossy: false,
            greatest: 0.0,
            past: VecDeque::new(),
        }
    }

    /// Bytes per second that the path has delivered lately; 0 before the first sample.
    pub(super) fn bandwidth(&self) -> f64 {
        self.past.iter().copied().fold(self.greatest, f64::max)
    }

    /// Packets were declared lost.
    pub(super) fn on_lost(&mut self) {
        self.lossy = true;
    }

    /// Takes in an ACK, which found the window full or not; returns the round that it ends. `least`
    /// is the shortest round.
    pub(super) fn on_ack(&mut self, ack: &Ack, full: bool, least: Duration) -> Option<Round> {
        self.acked += ack.bytes;
        self.used |= full;
        self.in_flight = self.in_flight.max(ack.in_flight);
        let delivery = ack.delivery?;
        let interval = delivery
            .send_interval
            .max(delivery.ack_interval)
            .as_secs_f64();
        if interval > 0.0 {
            let sample = (delivery.total - delivery.before) as f64 / interval;
            if !delivery.app_limited || sample > self.bandwidth() {
                self.greatest = self.greatest.max(sample);
            }
        }
        let length = ack.now.saturating_duration_since(self.since);
        if delivery.before < self.ends || length < least {
            return None;
        }
        let round = Round {
            length,
            rate: self.acked as f64 / length.as_secs_f64().max(1e-9),
            is_used: self.used,
            in_flight: self.in_flight,
            is_lossy: self.lossy,
        };
        if self.greatest > 0.0 {
            if self.past.len() == ROUNDS {
                self.past.pop_front();
            }
            self.past.push_back(self.greatest);
        }
        self.begin(ack.now, delivery.total);
        Some(round)
    }

    /// A round begins with this ACK, if it shows what is delivered: it ends with a packet that
    /// leaves after this.
    pub(super) fn begin_anew(&mut self, ack: &Ack) {
        if let Some(delivery) = ack.delivery {
            let greatest = self.greatest;
            self.begin(ack.now, delivery.total);
            self.greatest = greatest;
        }
    }

    /// A round begins, after `total` bytes were delivered.
    fn begin(&mut self, now: Instant, total: u64) {
        *self = Self {
            ends: total,
            past: std::mem::take(&mut self.past),
            ..Self::new(now)
        };
    }
}
