//! CoDel: controlled delay.
//!
//! K. Nichols, V. Jacobson, A. McGregor, J. Iyengar, "Controlled Delay Active Queue Management",
//! RFC 8289. A queue that works off bursts is empty now and then; one that stands is not. When
//! packets have waited longer than TARGET for an INTERVAL, CoDel drops one, and more of them at
//! intervals that shrink with the square root of their number, until the queue is short.
//!
//! Packets wait from their arrival to the start of their transmission.

use std::time::{Duration, Instant};

use evenkeel_spec::{Row, SpecParameter, SpecValues};

use super::{Discipline, DisciplineRow, DropReason, PortView, Verdict};
use crate::packet::PacketMeta;

/// TARGET and INTERVAL (RFC 8289, section 4).
const TARGET_MS: f64 = 5.0;
const INTERVAL_MS: f64 = 100.0;

/// A dropping state that begins within this many INTERVALs of the last one drops as often as
/// that one did at its end (RFC 8289, section 5).
const RESUMED_INTERVALS: u32 = 16;

pub(super) const TARGET: SpecParameter = SpecParameter::number(
    "target_ms",
    "TARGET: the delay in ms that a standing queue may have",
    0.01,
    10_000.0,
    Some(TARGET_MS),
);

pub(super) const INTERVAL: SpecParameter = SpecParameter::number(
    "interval_ms",
    "INTERVAL: ms for which a queue above TARGET may be a burst; about the longest round trip",
    0.1,
    100_000.0,
    Some(INTERVAL_MS),
);

pub(super) const fn ecn(default: bool) -> SpecParameter {
    let meaning = "packets are marked instead of dropped where the sender understands it";
    SpecParameter::flag("ecn", meaning, default)
}

pub(super) const ROW: DisciplineRow = Row {
    name: "codel",
    summary: "controlled delay: drops ever more often while packets wait too long",
    parameters: &[TARGET, INTERVAL, ecn(false)],
    build: |values, _| {
        Ok(Box::new(CoDel {
            params: Params::read(values),
            control: Control::default(),
        }))
    },
};

/// What CoDel is told.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Params {
    /// TARGET.
    target: Duration,
    /// INTERVAL.
    interval: Duration,
    ecn: bool,
}

impl Params {
    pub(super) fn read(values: &SpecValues) -> Self {
        let time = |name| Duration::from_secs_f64(values.number(name) / 1e3);
        Self {
            target: time(TARGET.name),
            interval: time(INTERVAL.name),
            ecn: values.flag("ecn"),
        }
    }

    /// control_law: when the next packet is dropped, after `count`.
    fn next(&self, last: Instant, count: u32) -> Instant {
        last + self.interval.div_f64(f64::from(count).sqrt())
    }
}

/// The discipline.
#[derive(Debug, Clone)]
struct CoDel {
    params: Params,
    control: Control,
}

impl Discipline for CoDel {
    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, _port: &PortView) -> Verdict {
        Verdict::Admit
    }

    fn on_departure(&mut self, now: Instant, meta: &mut PacketMeta, port: &PortView) -> Verdict {
        self.control.on_departure(&self.params, now, meta, port)
    }
}

/// What CoDel knows of one queue.
#[derive(Debug, Clone, Default)]
pub(super) struct Control {
    /// first_above_time: when the queue will have been above TARGET for an INTERVAL.
    first_above: Option<Instant>,
    /// maxpacket: bytes of the largest packet so far.
    largest: u32,
    /// count and lastcount: packets dropped in this dropping state, and as it began.
    count: u32,
    last_count: u32,
    /// drop_next: when the next packet is dropped, or was to be as the last dropping state ended.
    drop_next: Option<Instant>,
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
enum State {
    #[default]
    Forwarding,
    Dropping,
    /// A packet was dropped, and the one behind it is looked at: as the state began...
    Began,
    /// ... or in its course.
    Dropped,
}

impl Control {
    /// A packet is about to be transmitted.
    pub(super) fn on_departure(
        &mut self,
        params: &Params,
        now: Instant,
        meta: &PacketMeta,
        port: &PortView,
    ) -> Verdict {
        let ok_to_drop = self.ok_to_drop(params, now, meta, port);
        match self.state {
            State::Began => self.state = State::Dropping,
            State::Forwarding if ok_to_drop => {
                self.begin(params, now);
                return self.signal(params, meta, State::Began);
            }
            State::Forwarding => {}
            State::Dropping | State::Dropped if !ok_to_drop => self.state = State::Forwarding,
            State::Dropping | State::Dropped => {
                let mut next = self.drop_next.unwrap_or(now);
                if self.state == State::Dropped {
                    next = params.next(next, self.count);
                    self.drop_next = Some(next);
                }
                self.state = State::Dropping;
                if now >= next {
                    self.count = self.count.saturating_add(1);
                    let verdict = self.signal(params, meta, State::Dropped);
                    if verdict == Verdict::Mark {
                        self.drop_next = Some(params.next(next, self.count));
                    }
                    return verdict;
                }
            }
        }
        Verdict::Admit
    }

    /// dodequeue: whether packets have waited above TARGET for an INTERVAL.
    fn ok_to_drop(
        &mut self,
        params: &Params,
        now: Instant,
        meta: &PacketMeta,
        port: &PortView,
    ) -> bool {
        self.largest = self.largest.max(meta.bytes);
        if meta.queued < params.target || port.own.bytes <= u64::from(self.largest) {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert(now + params.interval);
        now >= first_above
    }

    /// A dropping state begins.
    fn begin(&mut self, params: &Params, now: Instant) {
        let dropped = self.count.saturating_sub(self.last_count);
        let is_recent = self.drop_next.is_some_and(|next| {
            now.saturating_duration_since(next) < params.interval * RESUMED_INTERVALS
        });
        self.count = if dropped > 1 && is_recent { dropped } else { 1 };
        self.last_count = self.count;
        self.drop_next = Some(params.next(now, self.count));
    }

    /// Drops the packet, or marks it: then the one behind it is none of this signal.
    fn signal(&mut self, params: &Params, meta: &PacketMeta, dropped: State) -> Verdict {
        if params.ecn && meta.ecn.marked().is_some() {
            self.state = State::Dropping;
            Verdict::Mark
        } else {
            self.state = dropped;
            Verdict::Drop(DropReason::Early)
        }
    }
}

#[cfg(test)]
mod tests;
