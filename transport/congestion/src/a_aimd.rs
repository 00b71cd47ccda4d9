//! Adaptive additive increase: NewReno whose alpha follows the path's contention.
//!
//! C. V. Samaras and V. Tsaoussidis, "On the Properties of Adaptive Additive Increase", section 5:
//! few flows should grow faster than a packet per round trip, many flows slower, so that their sum
//! always grows alike. The paper knows the contention beforehand and switches alpha at given times;
//! here routers can also report it in path headers. All else is the NewReno of RFC 9002; without
//! such routers, so is alpha.
//! What the paper leaves open: `docs/algorithms/a-aimd.md`; deviations: `docs/deviations.md`.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use evenkeel_spec::{SpecError, SpecParameter, SpecValues};

use crate::adapter::{SharedFactory, adapt};
use crate::controller::{Ack, Congestion, Controller, PathSample};
use crate::freshness::Freshness;
use crate::gaimd::{self, Gaimd};
use crate::row::{ControllerBuild, ControllerRow};
use crate::slow_start::{HYSTART, SlowStart};
use crate::window::{INITIAL_WINDOW, InitialWindow};

/// Decides how fast a flow may grow at the present contention.
pub trait Contention: Debug + Clone + Send + Sync + 'static {
    /// A path header measured one round trip.
    fn on_path(&mut self, sample: &PathSample) {
        let _ = sample;
    }

    /// Returns the packets to add per round trip from `ack` on, above 0. Called with every ACK.
    fn alpha(&mut self, ack: &Ack) -> f64;
}

/// Length of each of a schedule's four periods (sections 5.2 and 5.3).
pub const PERIOD: Duration = Duration::from_secs(30);

/// A contention known beforehand: alpha in four periods of [`PERIOD`]; the last one lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// When the connection began.
    pub start: Instant,
    /// How much of the schedule had passed by then.
    pub elapsed: Duration,
    /// alpha_1 to alpha_4, packets per round trip.
    pub alphas: [f64; 4],
}

impl Contention for Schedule {
    fn alpha(&mut self, ack: &Ack) -> f64 {
        let elapsed = self.elapsed + ack.now.saturating_duration_since(self.start);
        let period = elapsed.as_secs() / PERIOD.as_secs();
        self.alphas[period.min(3) as usize]
    }
}

/// A schedule from the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Version {
    /// Its letter.
    pub name: &'static str,
    /// alpha_1 to alpha_4, packets per round trip.
    pub alphas: [f64; 4],
}

/// Tables 1 (A to G, for 10 flows that double three times) and 2 (H to N, for 80 that halve).
pub const VERSIONS: [Version; 14] = [
    version("A", [2.0, 1.0, 0.5, 0.1]),
    version("B", [2.0, 1.0, 0.25, 0.05]),
    version("C", [2.0, 1.0, 0.1, 0.01]),
    version("D", [1.5, 1.0, 0.5, 0.1]),
    version("E", [1.0, 0.7, 0.4, 0.1]),
    version("F", [1.0, 0.5, 0.1, 0.05]),
    version("G", [0.5, 0.4, 0.2, 0.1]),
    version("H", [0.1, 0.5, 1.0, 2.0]),
    version("I", [0.05, 0.25, 1.0, 2.0]),
    version("J", [0.01, 0.1, 1.0, 2.0]),
    version("K", [0.1, 0.5, 1.0, 1.5]),
    version("L", [0.1, 0.4, 0.7, 1.0]),
    version("M", [0.05, 0.1, 0.5, 1.0]),
    version("N", [0.1, 0.2, 0.4, 0.5]),
];

/// The least alpha of the paper's tables: versions C and J at 80 flows.
const LEAST_ALPHA: f64 = 0.01;

/// How fast to grow at a contention that routers count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    /// Packets that all flows together should add per round trip.
    pub target: f64,
    /// The most that this flow adds.
    pub most: f64,
}

impl Share {
    /// The greatest target that wastes no more effort than the best of the paper's versions, while
    /// flows double or halve from 10 to 80 (`docs/algorithms/a-aimd.md`). No version lets a flow
    /// add more than 2.
    pub const FRUGAL: Self = Self {
        target: 6.0,
        most: 2.0,
    };

    pub(crate) fn read(values: &SpecValues) -> Self {
        Self {
            target: values.number("target"),
            most: values.number("most"),
        }
    }

    /// alpha = target / N, from the least to the most.
    fn alpha(self, flows: u32) -> f64 {
        (self.target / f64::from(flows.max(1))).clamp(LEAST_ALPHA, self.most)
    }
}

impl Default for Share {
    fn default() -> Self {
        Self::FRUGAL
    }
}

/// A contention that routers count: distinct flows at the most crowded link on the way.
#[derive(Debug, Clone)]
pub struct Counted {
    share: Share,
    /// The alpha of the newest path header with a count.
    alpha: f64,
    freshness: Freshness,
}

impl Counted {
    /// Creates a contention that grows as `share` says.
    pub fn new(share: Share) -> Self {
        Self {
            share,
            alpha: gaimd::Config::RENO.alpha,
            freshness: Freshness::default(),
        }
    }
}

impl Contention for Counted {
    fn on_path(&mut self, sample: &PathSample) {
        if let Some(flows) = sample.flows {
            self.alpha = self.share.alpha(flows);
            self.freshness.on_feedback(sample.now);
        }
    }

    fn alpha(&mut self, ack: &Ack) -> f64 {
        if let Some(rtt) = ack.rtt {
            self.freshness.on_rtt(rtt);
        }
        if !self.freshness.holds(ack.now) {
            self.freshness.forget();
            self.alpha = gaimd::Config::RENO.alpha;
        }
        self.alpha
    }
}

/// The algorithm's state.
#[derive(Debug, Clone)]
pub struct AAimd<C> {
    contention: C,
    aimd: Gaimd,
}

impl<C: Contention> AAimd<C> {
    /// Creates a controller in slow start, for full-size packets of `mtu` bytes: `reno`, but for
    /// its alpha.
    pub fn new(contention: C, reno: gaimd::Config, mtu: u16) -> Self {
        Self {
            contention,
            aimd: Gaimd::new(reno, mtu),
        }
    }
}

const fn version(name: &'static str, alphas: [f64; 4]) -> Version {
    Version { name, alphas }
}

impl<C: Contention> Controller for AAimd<C> {
    fn on_path(&mut self, sample: &PathSample) {
        self.contention.on_path(sample);
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.aimd.set_alpha(self.contention.alpha(ack));
        self.aimd.on_ack(ack);
    }

    fn on_congestion(&mut self, event: &Congestion) {
        self.aimd.on_congestion(event);
    }

    fn on_persistent_congestion(&mut self) {
        self.aimd.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.aimd.on_mtu(mtu);
    }

    fn resume(&mut self, window: u64) {
        self.aimd.resume(window);
    }

    fn window(&self) -> u64 {
        self.aimd.window()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.aimd.slow_start_threshold()
    }
}

pub(crate) const ROW: ControllerRow = ControllerRow {
    name: "a-aimd",
    summary: "adaptive additive increase: reno whose alpha follows the contention",
    parameters: &[
        SpecParameter::number(
            "target",
            "packets that all flows together add per round trip, as routers count them",
            0.1,
            1000.0,
            Some(Share::FRUGAL.target),
        ),
        SpecParameter::number(
            "most",
            "packets that this flow adds per round trip at most",
            0.01,
            100.0,
            Some(Share::FRUGAL.most),
        ),
        SpecParameter::choice(
            "schedule",
            "instead of routers, the paper's version: alpha of four periods of 30 s",
            &version_names(),
            None,
        ),
        SpecParameter::number(
            "start_s",
            "seconds of the schedule that have passed when the connection begins; not given, 0",
            0.0,
            120.0,
            None,
        ),
        INITIAL_WINDOW,
        HYSTART,
    ],
    build: ControllerBuild {
        // A schedule replaces what routers count.
        uses_path: |values| !values.is_given("schedule"),
        factory,
    },
};

const fn version_names() -> [&'static str; VERSIONS.len()] {
    let mut names = [""; VERSIONS.len()];
    let mut version = 0;
    while version < names.len() {
        names[version] = VERSIONS[version].name;
        version += 1;
    }
    names
}

fn factory(values: &SpecValues) -> Result<SharedFactory, SpecError> {
    values.exclude("target", "schedule")?;
    values.exclude("most", "schedule")?;
    values.require("start_s", "schedule")?;
    let reno = gaimd::Config {
        initial_window: InitialWindow::read(values, "iw"),
        slow_start: SlowStart::read(values, SlowStart::HyStart),
        ..gaimd::Config::RENO
    };
    let Some(version) = values.optional_choice("schedule", &VERSIONS) else {
        let share = Share::read(values);
        return Ok(adapt(move |_, mtu| {
            Box::new(AAimd::new(Counted::new(share), reno, mtu))
        }));
    };
    let elapsed = Duration::from_secs_f64(values.optional_number("start_s").unwrap_or_default());
    Ok(adapt(move |start, mtu| {
        let schedule = Schedule {
            start,
            elapsed,
            alphas: version.alphas,
        };
        Box::new(AAimd::new(schedule, reno, mtu))
    }))
}

#[cfg(test)]
mod tests;
