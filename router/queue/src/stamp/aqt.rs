//! AQT: how long packets have queued on their way.
//!
//! Y.-C. Chan, C.-T. Chan, Y.-C. Chen, "RoVegas: a router-based congestion avoidance mechanism for
//! TCP Vegas": each router adds to the AQT field the time that the packet waited in its queue
//! (section 3.1). The hop limit is recorded along with it, so that endpoints learn when a router on
//! the way did not (docs/path-header.md, section 5).

use std::time::Instant;

use evenkeel_spec::Row;

use super::{Departure, Stamp, StampConfig, StampRow};
use crate::discipline::PortView;

pub(super) const ROW: StampRow = Row {
    name: "aqt",
    summary: "adds the time that a packet has queued here (RoVegas), and records its hop limit",
    parameters: &[],
    build: |_| Ok(Box::new(Aqt)),
};

/// The stamp; it has no parameters and no state.
#[derive(Debug, Clone, Copy)]
struct Aqt;

impl StampConfig for Aqt {
    fn name(&self) -> &'static str {
        ROW.name
    }

    fn build(&self, _now: Instant) -> Box<dyn Stamp> {
        Box::new(*self)
    }
}

impl Stamp for Aqt {
    fn on_departure(&mut self, _now: Instant, departure: &mut Departure<'_>, _port: &PortView) {
        departure.header.add_queueing_time(departure.queued);
        departure.header.record_ttl(departure.leaving_ttl);
    }
}
