//! The same controller on noq and, in the testbed, on quinn: over the same link in virtual time.

use std::time::Duration;

use evenkeel_noq::{SharedFactory, controller};
use evenkeel_queue::{Limit, LinkConfig, Rate, Service};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, Scenario};

use super::network::Pair;

const RATE_BPS: u64 = 10_000_000;
const ONE_WAY: Duration = Duration::from_millis(20);
/// Bandwidth times round trip in packets of 1228 bytes.
const QUEUE_PACKETS: u32 = 41;
const WARMUP: Duration = Duration::from_secs(10);
const LENGTH: Duration = Duration::from_secs(40);

/// What the bottleneck saw after the warm-up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// Of the link's rate.
    pub(crate) used: f64,
    /// Of the packets that came to the link, dropped there or lost behind it.
    pub(crate) lost: f64,
    /// Packets.
    pub(crate) queue: f64,
}

impl Figures {
    fn new(bytes: u64, arrived: u64, lost: u64, queue: f64) -> Self {
        let seconds = (LENGTH - WARMUP).as_secs_f64();
        Self {
            used: bytes as f64 * 8.0 / seconds / RATE_BPS as f64,
            lost: lost as f64 / arrived as f64,
            queue,
        }
    }

    /// Means of `runs`.
    pub(crate) fn mean(runs: &[Self]) -> Self {
        let mean =
            |figure: fn(&Self) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
        Self {
            used: mean(|run| run.used),
            lost: mean(|run| run.lost),
            queue: mean(|run| run.queue),
        }
    }

    pub(crate) fn print(&self, case: &str, who: &str) {
        println!(
            "{case}, {who}: {:.1} % used, {:.2} % lost, queue {:.1} packets",
            self.used * 100.0,
            self.lost * 100.0,
            self.queue
        );
    }
}

/// `spec` in a scenario of the testbed, on quinn.
pub(crate) fn on_quinn(spec: &str, loss: f64, seed: u64) -> Figures {
    let link = LinkBuilder::new("bottleneck")
        .rate_bps(RATE_BPS)
        .delay(ONE_WAY)
        .queue_packets(QUEUE_PACKETS)
        .loss(loss)
        .set_reverse("loss", 0);
    let scenario = Scenario::builder("noq", LENGTH)
        .warmup(WARMUP)
        .seed(i64::try_from(seed).expect("a small seed"))
        .set("topology", "dumbbell")
        .link(link)
        .flow(FlowBuilder::bulk("a", spec))
        .build()
        .expect("a right scenario");
    let seen = sim::run(&scenario, &sim::Options::default(), |_| {}).expect("it runs");
    let link = &seen.links[0];
    Figures::new(
        link.forwarded_bytes,
        link.arrived,
        link.dropped + link.lost,
        link.queue.mean,
    )
}

/// `controller` on noq.
pub(crate) fn on_noq(controller: SharedFactory, loss: f64, seed: u64) -> Figures {
    let port = || LinkConfig {
        service: Service::Rate(Rate::new(RATE_BPS).expect("a rate")),
        limit: Limit::packets(QUEUE_PACKETS.into()),
        delay: ONE_WAY,
        ..LinkConfig::default()
    };
    let there = LinkConfig { loss, ..port() };
    let mut pair = Pair::new(controller, u64::MAX, there, port(), seed);
    let begin = pair.now;
    pair.run(begin + WARMUP);
    pair.client.to.restart_measurement(pair.now);
    let lost_before = pair.client.to.lost().packets;
    pair.run(begin + LENGTH);
    let lost = pair.client.to.lost().packets - lost_before;
    let stats = pair.client.to.stats(pair.now);
    let window = stats.window();
    Figures::new(
        window.forwarded.bytes,
        window.arrived.packets,
        window.dropped.total().packets + lost,
        stats.queue().mean().expect("there was a queue"),
    )
}

/// How far noq's figures may be from quinn's: shares of the link, of the packets, and packets.
struct Tolerance {
    used: f64,
    lost: f64,
    queue: f64,
}

/// Compares means of three seeds, and prints them.
fn compare(spec: &str, loss: f64, tolerance: &Tolerance) {
    let case = format!("{spec}, {:.0} % random loss", loss * 100.0);
    let mean = |run: &dyn Fn(u64) -> Figures| Figures::mean(&[run(1), run(2), run(3)]);
    let quinn = mean(&|seed| on_quinn(spec, loss, seed));
    quinn.print(&case, "quinn");
    let noq = mean(&|seed| on_noq(controller(spec).expect("a name"), loss, seed));
    noq.print(&case, "noq");
    assert!((quinn.used - noq.used).abs() < tolerance.used, "{case}");
    assert!((quinn.lost - noq.lost).abs() < tolerance.lost, "{case}");
    assert!((quinn.queue - noq.queue).abs() < tolerance.queue, "{case}");
}

#[test]
fn on_a_clean_link_a_controller_does_on_noq_what_it_does_on_quinn() {
    for (spec, queue) in [("keel", 4.0), ("vegas", 2.0), ("reno", 4.0)] {
        let tolerance = Tolerance {
            used: 0.03,
            lost: 0.003,
            queue,
        };
        compare(spec, 0.0, &tolerance);
    }
}

#[test]
fn on_a_lossy_link_a_controller_does_on_noq_what_it_does_on_quinn() {
    for spec in ["keel", "vegas", "reno"] {
        let tolerance = Tolerance {
            used: 0.06,
            lost: 0.003,
            queue: 3.0,
        };
        compare(spec, 0.01, &tolerance);
    }
}
