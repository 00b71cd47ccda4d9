//! TCP-friendly rate control: the rate that TCP would get with the measured losses.
//!
//! S. Floyd, M. Handley, J. Padhye and J. Widmer, RFC 5348. The throughput equation (section 3.1)
//! computes a rate from the round trip and the rate of loss events, a mean of the last eight
//! intervals between them, so that each loss moves the rate little. Until the first loss the rate
//! doubles each round trip; it is never more than twice what arrived. The rate paces, and the
//! window is a cap that paced packets do not reach.
//! Deviations: the sender does the receiver's part, from ACKs, and expiries of the no-feedback
//! timer take effect when the next ACK arrives; see `docs/deviations.md`.

mod equation;
mod intervals;
mod no_feedback;
mod received;
mod round_trip;

use std::time::{Duration, Instant};

use evenkeel_spec::{SpecParameter, SpecValues};

use crate::adapter::adapt;
use crate::controller::{Ack, Congestion, Controller, Round};
use crate::row::{ControllerBuild, ControllerRow};
use crate::window::{INITIAL_WINDOW, InitialWindow, minimum_window, most_risked};
use equation::{loss_event_rate, throughput};
use intervals::LossIntervals;
use received::ReceiveRates;
use round_trip::{LEAST_RTT, RoundTrip};

/// A packet leaves at least this often, whatever was lost (RFC 5348, section 4.3, t_mbi).
const LONGEST_GAP: Duration = Duration::from_secs(64);

/// Factor of X_recv after a loss, if the sender had little to send (RFC 5348, section 4.3).
const LIMITED_LOSS: f64 = 0.85;

/// The window holds a quarter more than the rate keeps in flight: queueing may lengthen the round
/// trip by that much within one. Without pacing, a connection can send no more than that too much.
const HEADROOM: f64 = 1.25;

/// What a pacer may be late by, added to the window; on a short path more than its round trip.
const PACER_LATENESS: Duration = Duration::from_millis(1);

/// Packets added to the window too, because a lone one may wait for the peer's timer.
const HEADROOM_PACKETS: u64 = 2;

/// Settings of TFRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Packets leave more slowly while the round trip is longer than usual (RFC 5348, section 4.5).
    pub damping: bool,
    /// A long time without losses makes older losses count less (RFC 5348, section 5.5).
    pub discounting: bool,
    /// The window of the first round trip.
    pub initial_window: InitialWindow,
}

impl Config {
    /// Everything that RFC 5348 describes.
    pub const RFC_5348: Self = Self {
        damping: true,
        discounting: true,
        initial_window: InitialWindow::Rfc9002,
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::RFC_5348
    }
}

impl Config {
    pub(crate) fn read(values: &SpecValues) -> Self {
        Self {
            damping: values.flag("damping"),
            discounting: values.flag("discounting"),
            initial_window: InitialWindow::read(values, "iw"),
        }
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct Tfrc {
    config: Config,
    /// Bytes of UDP payload in a full-size packet: s.
    mtu: u16,
    /// In bytes.
    window: u64,
    /// X: bytes per second, finite and above 0.
    rate: f64,
    rtt: RoundTrip,
    intervals: LossIntervals,
    received: ReceiveRates,
    /// The greatest X_recv so far, in bytes per second.
    most_received: f64,
    /// Where the present interval of X_recv begins; `None` until its first ACK.
    interval: Option<Instant>,
    /// When the previous interval ended.
    interval_end: Instant,
    /// A loss event has begun since then.
    lost: bool,
    /// tld: when the rate was last doubled.
    doubled: Instant,
    /// When the no-feedback timer was started.
    heard: Instant,
}

impl Tfrc {
    /// Creates a controller that begins slow start at `now`, with full-size packets of `mtu` bytes.
    pub fn new(config: Config, now: Instant, mtu: u16) -> Self {
        let mut tfrc = Self {
            config,
            mtu,
            window: config.initial_window.bytes(mtu),
            rate: 0.0,
            rtt: RoundTrip::UNKNOWN,
            intervals: LossIntervals::new(config.discounting),
            received: ReceiveRates::unlimited(now),
            most_received: 0.0,
            interval: None,
            interval_end: now,
            lost: false,
            doubled: now,
            heard: now,
        };
        tfrc.rate = tfrc.initial_rate();
        tfrc
    }

    fn packet(&self) -> f64 {
        f64::from(self.mtu)
    }

    /// W_init / R (RFC 5348, section 4.2).
    fn initial_rate(&self) -> f64 {
        self.config.initial_window.bytes(self.mtu) as f64 / self.rtt.smoothed.as_secs_f64()
    }

    /// s / t_mbi.
    fn least_rate(&self) -> f64 {
        self.packet() / LONGEST_GAP.as_secs_f64()
    }

    /// Returns X_Bps; `None` before the first loss.
    fn equation_rate(&self) -> Option<f64> {
        let p = self.intervals.loss_event_rate()?;
        Some(throughput(self.packet(), self.rtt.smoothed, p))
    }

    /// RFC 5348, section 4.3, step 4: X = max(min(X_Bps, recv_limit), s / t_mbi), and before the
    /// first loss, once a round trip, X = max(min(2 X, recv_limit), initial_rate), where X grows by
    /// no more packets than other controllers risk.
    fn recompute(&mut self, now: Instant, receive_limit: f64) {
        if let Some(equation_rate) = self.equation_rate() {
            self.rate = equation_rate.min(receive_limit).max(self.least_rate());
        } else if now.saturating_duration_since(self.doubled) >= self.rtt.smoothed {
            let risked = most_risked(self.mtu) as f64 / self.rtt.smoothed.as_secs_f64();
            self.rate = (self.rate + self.rate.min(risked))
                .min(receive_limit)
                .max(self.initial_rate());
            self.doubled = now;
        }
    }

    /// RFC 5348, section 4.3, step 4, first half: applies an interval that brought `rate` bytes per
    /// second. Returns recv_limit.
    fn limit(&mut self, now: Instant, rate: f64, data_limited: bool) -> f64 {
        if !data_limited {
            self.received.update(now, rate, self.rtt.smoothed);
            2.0 * self.received.max()
        } else if self.lost {
            self.received.halve();
            self.received.maximize(now, LIMITED_LOSS * rate);
            self.received.max()
        } else {
            self.received.maximize(now, rate);
            2.0 * self.received.max()
        }
    }

    /// Returns the bytes to which the window falls, and to which ACKs let it grow.
    fn cap(&self) -> u64 {
        let newest = self.rtt.sample.unwrap_or(self.rtt.smoothed);
        let rtt = self.rtt.smoothed.max(newest).as_secs_f64();
        let time = HEADROOM * rtt + PACER_LATENESS.as_secs_f64();
        ((self.rate * time) as u64).saturating_add(HEADROOM_PACKETS * u64::from(self.mtu))
    }

    /// Lowers the window to the cap.
    fn lower_window(&mut self) {
        self.window = self.window.min(self.cap()).max(minimum_window(self.mtu));
    }

    /// Returns X_inst (RFC 5348, section 4.5), or X, in bytes per second.
    fn sending_rate(&self) -> f64 {
        let damping = if self.config.damping {
            self.rtt.damping()
        } else {
            1.0
        };
        (self.rate * damping).max(self.least_rate())
    }
}

impl Controller for Tfrc {
    fn on_ack(&mut self, ack: &Ack) {
        self.miss_feedback(ack.now, ack.app_limited);
        self.intervals.count(ack.packets as f64);
        if let (None, Some(sample)) = (self.rtt.sample, ack.rtt) {
            self.rtt.update(sample);
            self.doubled = ack.now;
            if self.intervals.is_empty() {
                self.rate = self.initial_rate();
            }
        }
        // After silence, at most a round trip belongs to the data that ends it: the receiver of
        // RFC 5348, section 6.2, counts so.
        let silence = ack.now.saturating_duration_since(self.interval_end);
        let rtt = self.rtt.smoothed;
        let start = if silence > rtt {
            ack.now.checked_sub(rtt).unwrap_or(self.interval_end)
        } else {
            self.interval_end
        };
        self.interval.get_or_insert(start);
        // Grow no faster than slow start, so that a longer round trip opens no window at once.
        self.window = self.window.saturating_add(ack.bytes_after_recovery);
        self.lower_window();
    }

    fn on_round(&mut self, round: &Round) {
        self.rtt.update(round.rtt_end);
        self.intervals.count(round.lost as f64 / self.packet());
        let start = self.interval.take().unwrap_or(self.interval_end);
        let time = round.now.saturating_duration_since(start).max(LEAST_RTT);
        let rate = round.bytes as f64 / time.as_secs_f64();
        self.interval_end = round.now;
        self.most_received = self.most_received.max(rate);
        let receive_limit = self.limit(round.now, rate, round.app_limited);
        self.recompute(round.now, receive_limit);
        self.lost = false;
        self.lower_window();
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if self.intervals.is_empty() {
            // RFC 5348, section 6.3.1: assumes that slow start reached twice the right rate.
            let target = if self.most_received > 0.0 {
                self.most_received.min(self.rate)
            } else {
                self.rate / 2.0
            };
            let p = loss_event_rate(self.packet(), self.rtt.smoothed, target);
            self.intervals.first_loss_event(1.0 / p);
        } else {
            self.intervals.loss_event();
        }
        self.lost = true;
        let rate = self.rate;
        self.recompute(event.now, 2.0 * self.received.max());
        self.rate = self.rate.min(rate);
        self.lower_window();
    }

    fn on_persistent_congestion(&mut self) {
        // QUIC's minimum window per round trip, where RFC 5348 would have halved the rate once or
        // twice; twice what arrives leads back up.
        self.window = minimum_window(self.mtu);
        let least = self.window as f64 / self.rtt.smoothed.as_secs_f64();
        self.rate = self.rate.min(least);
        self.received.replace(self.interval_end, self.rate / 2.0);
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.window = self.window.max(minimum_window(mtu));
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.rtt.sample?;
        Some((self.sending_rate() as u64).max(1))
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

pub(crate) const ROW: ControllerRow = ControllerRow {
    name: "tfrc",
    summary: "TFRC: the rate that TCP would get with the losses measured",
    parameters: &[
        SpecParameter::flag(
            "damping",
            "whether packets leave slower while the round trip is longer than usual",
            true,
        ),
        SpecParameter::flag(
            "discounting",
            "whether a long time without losses makes earlier ones count less",
            true,
        ),
        INITIAL_WINDOW,
    ],
    build: ControllerBuild {
        uses_path: |_| false,
        factory: |values| {
            let config = Config::read(values);
            Ok(adapt(move |now, mtu| Box::new(Tfrc::new(config, now, mtu))))
        },
    },
};

#[cfg(test)]
mod tests;
