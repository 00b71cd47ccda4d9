//! Adaptive additive increase: NewReno whose alpha follows the contention for the path.
//!
//! C. V. Samaras and V. Tsaoussidis, "On the Properties of Adaptive Additive Increase",
//! section 5: few flows should grow faster than a packet per round trip, many flows slower, so
//! that together they always grow alike. The paper knows the contention beforehand and
//! switches alpha at given times; here routers can also tell it, in path headers. All else is
//! the NewReno of RFC 9002, and without such routers so is alpha.
//! What the paper leaves open: `docs/algorithms/a-aimd.md`; deviations: `docs/deviations.md`.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::controller::{Ack, Congestion, Controller, PathSample};
use crate::freshness::Freshness;
use crate::gaimd::{self, Gaimd, Timeouts};
use crate::window::InitialWindow;

/// Tells how fast a flow may grow at the present contention.
pub trait Contention: Debug + Clone + Send + Sync + 'static {
    /// A path header told of one round trip.
    fn on_path(&mut self, sample: &PathSample) {
        let _ = sample;
    }

    /// Packets to add per round trip from `ack` on, above 0. Asked with every ACK.
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

/// A schedule that the paper tried.
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
    /// Packets that all flows together are to add per round trip.
    pub target: f64,
    /// The most that this one adds.
    pub most: f64,
}

impl Share {
    /// The most with which no more effort is wasted than by the best of the paper's versions, while
    /// flows double or halve from 10 to 80 (`docs/algorithms/a-aimd.md`). No version has more than 2
    /// for a flow.
    pub const FRUGAL: Self = Self {
        target: 6.0,
        most: 2.0,
    };

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
    /// By the newest path header with a count.
    alpha: f64,
    freshness: Freshness,
}

impl Counted {
    /// Grows as `share` says.
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
            self.freshness.hear(sample.now);
        }
    }

    fn alpha(&mut self, ack: &Ack) -> f64 {
        if let Some(rtt) = ack.rtt {
            self.freshness.measure(rtt);
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
    /// A controller in slow start, for full-size packets of `mtu` bytes.
    pub fn new(contention: C, timeouts: Timeouts, initial_window: InitialWindow, mtu: u16) -> Self {
        let reno = gaimd::Config {
            timeouts,
            initial_window,
            ..gaimd::Config::RENO
        };
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

    fn on_probe_timeout(&mut self) -> bool {
        self.aimd.on_probe_timeout()
    }

    fn on_heavy_loss(&mut self) {
        self.aimd.on_heavy_loss();
    }

    fn on_persistent_congestion(&mut self) {
        self.aimd.on_persistent_congestion();
    }

    fn on_mtu(&mut self, mtu: u16) {
        self.aimd.on_mtu(mtu);
    }

    fn window(&self) -> u64 {
        self.aimd.window()
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.aimd.slow_start_threshold()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, epoch, loss, ms, path_sample};

    const MTU: u16 = 1000;

    fn schedule(name: &str, start: Instant, elapsed: u64) -> Schedule {
        let version = VERSIONS.iter().find(|version| version.name == name);
        Schedule {
            start,
            elapsed: Duration::from_secs(elapsed),
            alphas: version.expect("a letter of the tables").alphas,
        }
    }

    #[test]
    fn alpha_changes_every_thirty_seconds_and_the_last_one_stays() {
        let t0 = epoch();
        // (version, seconds of it before the connection, ms since then, alpha)
        let table = [
            ("A", 0, 0, 2.0),
            ("A", 0, 29_999, 2.0),
            ("A", 0, 30_000, 1.0),
            ("A", 0, 60_000, 0.5),
            ("A", 0, 89_999, 0.5),
            ("A", 0, 90_000, 0.1),
            ("A", 0, 120_000, 0.1),
            ("A", 0, 100_000_000, 0.1),
            ("A", 30, 0, 1.0),
            ("A", 45, 14_999, 1.0),
            ("A", 45, 15_000, 0.5),
            ("A", 120, 0, 0.1),
            ("N", 0, 0, 0.1),
            ("N", 60, 30_000, 0.5),
        ];
        for (name, elapsed, at, alpha) in table {
            let mut schedule = schedule(name, t0, elapsed);
            assert_eq!(
                schedule.alpha(&ack(t0 + ms(at), 100, 1000)),
                alpha,
                "{name} after {elapsed} s and {at} ms"
            );
        }
    }

    #[test]
    fn the_second_table_is_the_first_one_in_reverse() {
        for (increasing, decreasing) in VERSIONS[..7].iter().zip(&VERSIONS[7..]) {
            let mut reversed = increasing.alphas;
            reversed.reverse();
            assert_eq!(
                decreasing.alphas, reversed,
                "{} and {}",
                increasing.name, decreasing.name
            );
            assert!(
                increasing.alphas.windows(2).all(|pair| pair[0] > pair[1]),
                "{}",
                increasing.name
            );
        }
    }

    #[test]
    fn a_window_of_acks_adds_the_alpha_of_its_time_and_a_loss_halves() {
        let t0 = epoch();
        let mut aimd = AAimd::new(
            schedule("B", t0, 0),
            Timeouts::Quic,
            InitialWindow::Packets(40),
            MTU,
        );
        aimd.on_congestion(&loss());
        // (seconds, window after): alpha 2, 1, 0.25, 0.05 packets of 1000 bytes.
        for (seconds, window) in [
            (1, 22_000),
            (29, 24_000),
            (30, 25_000),
            (60, 25_250),
            (90, 25_300),
        ] {
            let now = t0 + Duration::from_secs(seconds);
            aimd.on_ack(&ack(now, 100, aimd.window()));
            assert_eq!(aimd.window(), window, "at {seconds} s");
        }
        aimd.on_congestion(&loss());
        assert_eq!(aimd.window(), 12_650);
    }

    fn counted(now: Instant, flows: Option<u32>) -> PathSample {
        PathSample {
            now,
            flows,
            ..path_sample()
        }
    }

    #[test]
    fn flows_that_routers_count_share_what_they_add() {
        let other = Share {
            target: 8.0,
            most: 1.0,
        };
        // (share, flows, alpha)
        let table = [
            (Share::FRUGAL, 0, 2.0),
            (Share::FRUGAL, 1, 2.0),
            (Share::FRUGAL, 3, 2.0),
            (Share::FRUGAL, 10, 0.6),
            (Share::FRUGAL, 20, 0.3),
            (Share::FRUGAL, 80, 0.075),
            (Share::FRUGAL, 2000, 0.01),
            (Share::FRUGAL, u32::MAX, 0.01),
            (other, 1, 1.0),
            (other, 16, 0.5),
        ];
        for (share, flows, alpha) in table {
            assert_eq!(share.alpha(flows), alpha, "{share:?}, {flows} flows");
            let mut contention = Counted::new(share);
            contention.on_path(&counted(epoch(), Some(flows)));
            assert_eq!(contention.alpha(&ack(epoch(), 100, 1000)), alpha);
        }
    }

    #[test]
    fn without_a_router_that_counts_it_is_reno_after_four_round_trips() {
        let t0 = epoch();
        let mut aimd = AAimd::new(
            Counted::new(Share::FRUGAL),
            Timeouts::Quic,
            InitialWindow::Packets(40),
            MTU,
        );
        aimd.on_congestion(&loss());
        let grown = |aimd: &mut AAimd<Counted>, at| {
            let before = aimd.window();
            aimd.on_ack(&ack(t0 + ms(at), 100, before));
            aimd.window() - before
        };
        assert_eq!(grown(&mut aimd, 0), 1000);
        aimd.on_path(&counted(t0, Some(40)));
        assert_eq!(grown(&mut aimd, 0), 150);
        aimd.on_path(&counted(t0 + ms(100), None));
        assert_eq!(grown(&mut aimd, 400), 150, "the count holds");
        assert_eq!(grown(&mut aimd, 401), 1000);
    }

    #[test]
    fn slow_start_is_that_of_reno() {
        let t0 = epoch();
        let mut aimd = AAimd::new(
            schedule("C", t0, 90),
            Timeouts::Quic,
            InitialWindow::Rfc9002,
            MTU,
        );
        aimd.on_ack(&ack(t0, 100, 10_000));
        assert_eq!((aimd.window(), aimd.slow_start_threshold()), (20_000, None));
    }
}
