//! DropTail: the port's limit alone decides.

use std::time::Instant;

use rand::rngs::Xoshiro256PlusPlus;

use super::{Discipline, DisciplineConfig, PortView, Verdict};
use crate::PacketMeta;

/// First come, first served; what does not fit is dropped on arrival.
#[derive(Debug, Clone, Copy, Default)]
pub struct DropTail;

impl DisciplineConfig for DropTail {
    fn build(&self, _rng: Xoshiro256PlusPlus) -> Box<dyn Discipline> {
        Box::new(*self)
    }
}

impl Discipline for DropTail {
    fn on_arrival(&mut self, _now: Instant, _meta: &mut PacketMeta, _port: &PortView) -> Verdict {
        Verdict::Admit
    }
}
