//! DropTail: the port's limit alone decides.

use std::time::Instant;

use evenkeel_spec::Row;

use super::{Discipline, DisciplineRow, PortView, Verdict};
use crate::packet::PacketMeta;

pub(super) const ROW: DisciplineRow = Row {
    name: "drop-tail",
    summary: "first come, first served; drops arrivals when the queue is full",
    parameters: &[],
    build: |_, _| Ok(Box::new(DropTail)),
};

/// First come, first served; what does not fit is dropped on arrival.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropTail;

impl Discipline for DropTail {
    fn judges(&self) -> bool {
        false
    }

    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, _port: &PortView) -> Verdict {
        Verdict::Admit
    }
}
