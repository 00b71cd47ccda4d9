//! DropTail: the port's limit alone decides.

use std::time::Instant;

use super::{Discipline, PortView, Verdict};
use crate::PacketMeta;

/// First come, first served; what does not fit is dropped on arrival.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropTail;

impl Discipline for DropTail {
    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, _port: &PortView) -> Verdict {
        Verdict::Admit
    }
}
