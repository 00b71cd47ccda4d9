//! When transmissions start and end.

mod cellular;

use std::time::{Duration, Instant};

use crate::rate::Rate;
use crate::trace::DeliveryTrace;
use crate::trace::OPPORTUNITY_BYTES;
use cellular::CellularServer;
pub use cellular::{Cellular, NotCellular};

/// How a port serves its queue.
#[derive(Debug, Clone, PartialEq)]
pub enum Service {
    /// At once: a transmission takes no time and nothing ever waits.
    Unlimited,
    /// At a rate: a packet takes its bits divided by the rate.
    Rate(Rate),
    /// When a trace says so.
    Trace(DeliveryTrace),
    /// At a rate that walks at random.
    Cellular(Cellular),
}

impl Service {
    /// The same with this seed for what is random in it.
    pub(crate) fn seeded(self, seed: u64) -> Self {
        match self {
            Self::Cellular(cellular) => Self::Cellular(cellular.seeded(seed)),
            Self::Unlimited | Self::Rate(_) | Self::Trace(_) => self,
        }
    }
}

/// A [`Service`] and where it stands.
#[derive(Debug)]
pub(crate) enum Server {
    Unlimited,
    Rate(RateServer),
    Trace(TraceServer),
    Cellular(Box<CellularServer>),
}

impl Server {
    pub(crate) fn new(now: Instant, service: Service) -> Self {
        match service {
            Service::Unlimited => Self::Unlimited,
            Service::Rate(rate) => Self::Rate(RateServer::new(now, rate)),
            Service::Trace(trace) => Self::Trace(TraceServer::new(now, trace)),
            Service::Cellular(cellular) => {
                Self::Cellular(Box::new(CellularServer::new(now, &cellular)))
            }
        }
    }

    /// When a packet that came at `arrived`, and is the next, can start; `None` while suspended.
    pub(crate) fn next_start(&self, arrived: Instant) -> Option<Instant> {
        match self {
            Self::Unlimited => Some(arrived),
            Self::Rate(server) => server.next_start(arrived),
            Self::Trace(server) => Some(server.next_start(arrived)),
            Self::Cellular(server) => Some(server.next_start(arrived)),
        }
    }

    /// Transmits a packet that came at `arrived` from its next start on; returns the end.
    pub(crate) fn transmit(&mut self, arrived: Instant, bytes: u32) -> Instant {
        match self {
            Self::Unlimited => arrived,
            Self::Rate(server) => server.transmit(arrived, bytes),
            Self::Trace(server) => server.transmit(arrived, bytes),
            Self::Cellular(server) => server.transmit(arrived, bytes),
        }
    }

    /// The rate, or the mean one if it varies; `None` if there is no limit.
    pub(crate) fn rate(&self) -> Option<Rate> {
        match self {
            Self::Rate(server) => Some(server.rate),
            Self::Trace(server) => Some(server.trace.mean_rate()),
            Self::Cellular(server) => Some(server.mean_rate()),
            Self::Unlimited => None,
        }
    }

    /// Bytes that a trace or cellular rate has offered to let through until `now`, which does not
    /// decrease; `None` without one.
    pub(crate) fn offered_bytes(&mut self, now: Instant) -> Option<u64> {
        match self {
            Self::Trace(server) => Some(server.offered_bytes(now)),
            Self::Cellular(server) => Some(server.offered_bytes(now)),
            Self::Unlimited | Self::Rate(_) => None,
        }
    }
}

/// 10^-9 bit: what one bit per second carries in a nanosecond.
const NANOBITS_PER_BYTE: u128 = 8_000_000_000;

/// A transmitter of constant rate.
///
/// Its instants are exact: the end of each transmission is the true, rational one rounded down
/// to the nanosecond, and what was rounded away is carried into the next transmission.
#[derive(Debug)]
pub(crate) struct RateServer {
    rate: Rate,
    /// End of the last transmission, rounded down.
    free_at: Instant,
    /// What the last transmission still had to send at `free_at`: less than a nanosecond's worth.
    leftover_nanobits: u128,
    /// What was unsent when the server was suspended; `None` while it serves.
    suspended_nanobits: Option<u128>,
}

impl RateServer {
    pub(crate) fn new(now: Instant, rate: Rate) -> Self {
        Self {
            rate,
            free_at: now,
            leftover_nanobits: 0,
            suspended_nanobits: None,
        }
    }

    fn next_start(&self, arrived: Instant) -> Option<Instant> {
        match self.suspended_nanobits {
            None => Some(self.free_at.max(arrived)),
            Some(_) => None,
        }
    }

    fn transmit(&mut self, arrived: Instant, bytes: u32) -> Instant {
        let start = self.free_at.max(arrived);
        let leftover = if start == self.free_at {
            self.leftover_nanobits
        } else {
            0
        };
        self.send(start, leftover + u128::from(bytes) * NANOBITS_PER_BYTE)
    }

    /// Changes the rate, and serves again after a suspension. What is in transmission has the rest of
    /// its bits sent at the new one; returns the end of the last transmission.
    pub(crate) fn set_rate(&mut self, now: Instant, rate: Rate) -> Instant {
        let unsent = match self.suspended_nanobits.take() {
            Some(unsent) => {
                self.free_at = now;
                self.leftover_nanobits = 0;
                unsent
            }
            None => self.unsent_nanobits(now),
        };
        self.rate = rate;
        if unsent > 0 {
            self.send(now, unsent)
        } else {
            self.free_at
        }
    }

    /// Serves nothing until the next [`RateServer::set_rate`].
    pub(crate) fn suspend(&mut self, now: Instant) {
        if self.suspended_nanobits.is_none() {
            self.suspended_nanobits = Some(self.unsent_nanobits(now));
        }
    }

    /// What the present transmission still has to send.
    fn unsent_nanobits(&self, now: Instant) -> u128 {
        match self.free_at.saturating_duration_since(now) {
            Duration::ZERO => 0,
            left => {
                left.as_nanos() * u128::from(self.rate.bits_per_second()) + self.leftover_nanobits
            }
        }
    }

    fn send(&mut self, start: Instant, nanobits: u128) -> Instant {
        let rate = u128::from(self.rate.bits_per_second());
        let nanoseconds = nanobits / rate;
        self.leftover_nanobits = nanobits - nanoseconds * rate;
        self.free_at = start + from_nanoseconds(nanoseconds);
        self.free_at
    }
}

/// A transmitter that follows a trace.
///
/// A packet is served only by opportunities after its arrival. Several packets may share an
/// opportunity, a large one takes several; what is left of one when the queue runs empty is lost.
#[derive(Debug)]
pub(crate) struct TraceServer {
    trace: DeliveryTrace,
    epoch: Instant,
    /// Number of the first opportunity that has not been used.
    next: u64,
    /// When the last used opportunity came, and how many bytes of it are left.
    current: Instant,
    left_bytes: u32,
}

impl TraceServer {
    fn new(now: Instant, trace: DeliveryTrace) -> Self {
        Self {
            trace,
            epoch: now,
            next: 0,
            current: now,
            left_bytes: 0,
        }
    }

    fn next_start(&self, arrived: Instant) -> Instant {
        if self.may_share(arrived) {
            self.current
        } else {
            self.time_of(self.first_after(arrived))
        }
    }

    fn transmit(&mut self, arrived: Instant, bytes: u32) -> Instant {
        if !self.may_share(arrived) {
            self.take(self.first_after(arrived));
        }
        let mut unsent = bytes;
        loop {
            let sent = unsent.min(self.left_bytes);
            self.left_bytes -= sent;
            unsent -= sent;
            if unsent == 0 {
                return self.current;
            }
            self.take(self.next);
        }
    }

    fn offered_bytes(&self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.epoch);
        self.trace.opportunities_until(elapsed) * u64::from(OPPORTUNITY_BYTES)
    }

    /// Whether a packet that came at `arrived` was there when the current opportunity came.
    fn may_share(&self, arrived: Instant) -> bool {
        self.left_bytes > 0 && arrived < self.current
    }

    fn take(&mut self, opportunity: u64) {
        self.current = self.time_of(opportunity);
        self.next = opportunity + 1;
        self.left_bytes = OPPORTUNITY_BYTES;
    }

    fn first_after(&self, arrived: Instant) -> u64 {
        let elapsed = arrived.saturating_duration_since(self.epoch);
        self.trace.opportunities_until(elapsed).max(self.next)
    }

    fn time_of(&self, opportunity: u64) -> Instant {
        self.epoch + self.trace.time_of(opportunity)
    }
}

/// As much of it as a [`Duration`] holds without leaving the range of [`Instant`].
fn from_nanoseconds(nanoseconds: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    match u64::try_from(nanoseconds) {
        Ok(nanoseconds) => Duration::from_nanos(nanoseconds),
        Err(_) => {
            let seconds = u64::try_from(nanoseconds / PER_SECOND).unwrap_or(u64::MAX);
            Duration::from_secs(seconds)
        }
    }
}
