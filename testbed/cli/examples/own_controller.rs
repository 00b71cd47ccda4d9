//! The testbed with a controller of your own: a fixed window, as `fixed:packets=N`.
//!
//! ```text
//! cargo run --release --example own_controller -- \
//!     compare testbed/scenarios/dumbbell.toml --controllers fixed,cubic
//! cargo run --release --example own_controller -- \
//!     league --quick --controllers fixed:packets=100,cubic,vegas
//! ```
//!
//! In a crate of its own, it depends on `evenkeel`, `evenkeel-testbed` and `evenkeel-testbed-core`.

use std::process::ExitCode;

use evenkeel::SharedFactory;
use evenkeel::SpecError;
use evenkeel::controller::{
    Congestion, Controller, ControllerBuild, ControllerRow, SpecParameter, SpecValues, adapt,
};

/// Keeps this many full-size packets in flight, whatever happens.
#[derive(Debug, Clone)]
struct Fixed {
    packets: u16,
    /// Bytes of UDP payload in a full-size packet.
    mtu: u16,
}

impl Controller for Fixed {
    fn on_congestion(&mut self, _event: &Congestion) {}

    fn on_persistent_congestion(&mut self) {}

    fn on_mtu(&mut self, mtu: u16) {
        self.mtu = mtu;
    }

    fn window(&self) -> u64 {
        u64::from(self.packets) * u64::from(self.mtu)
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

fn factory(values: &SpecValues) -> Result<SharedFactory, SpecError> {
    let packets = values.count("packets");
    Ok(adapt(move |_now, mtu| Box::new(Fixed { packets, mtu })))
}

const FIXED: ControllerRow = ControllerRow {
    name: "fixed",
    summary: "a fixed window",
    parameters: &[SpecParameter::count(
        "packets",
        "the window",
        2,
        10_000,
        Some(20),
    )],
    build: ControllerBuild {
        uses_path: |_| false,
        factory,
    },
};

fn main() -> ExitCode {
    evenkeel_testbed_cli::main(&evenkeel_testbed::controllers().with(FIXED))
}
