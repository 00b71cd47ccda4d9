//! What tests of the controllers that share [`DiffWindow`] need of it. They test it, too.

use super::*;

impl DiffWindow {
    /// In `phase` with a window of `bytes` bytes.
    pub(crate) fn at(phase: Phase, bytes: u64, mtu: u16, base_rtt: Duration) -> Self {
        Self {
            bytes,
            mtu,
            phase,
            threshold: None,
            base_rtt: Some(SizedRtt::large(base_rtt)),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn least_rtt(&self) -> Option<SizedRtt> {
        self.base_rtt
    }
}
