//! Controllers of other QUIC stacks, to compare with: each is the other stack's own code behind a
//! bridge to quinn's trait. They register like an application's own controllers.

mod noq;

use std::sync::Arc;

use evenkeel_congestion::{ControllerBuild, ControllerRow};

/// The rows of this module.
pub(crate) const ROWS: [ControllerRow; 1] = [ControllerRow {
    name: "noq-bbr3",
    summary: "noq's own BBRv3; random by itself, so that no seed repeats a run",
    parameters: &[],
    build: ControllerBuild {
        uses_path: |_| false,
        factory: |_| Ok(Arc::new(noq::Factory)),
    },
}];
