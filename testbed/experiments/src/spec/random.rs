//! Networks drawn at random: what a controller meets that nobody chose. docs/league.md has the
//! distributions.

use evenkeel_testbed::report::page::{environment, render};
use minijinja::context;
use minijinja::value::Value;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// The name of their group.
pub(crate) const RANDOM: &str = "random";

/// Bytes of a packet, for queues in packets.
const PACKET: f64 = 1228.0;

/// Share of the rate that short transfers ask for, and their mean size in bytes.
const SHORT_LOAD: f64 = 0.2;
const SHORT_BYTES: f64 = 50_000.0;

/// The file of their group, of what was drawn.
const TEMPLATE: &str = include_str!("../../league/random.toml.jinja");

/// What becomes of the rate; shares are of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Varies {
    Constant,
    /// A random walk that goes down to this share.
    Walk(f64),
    /// This share in every other interval of this many seconds.
    Step(f64, f64),
    /// A policer that lets this share through, with a burst in bytes.
    Policed(f64, f64),
}

/// Other traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Neighbour {
    None,
    /// Downloads with this controller.
    Downloads(&'static str, u64),
    /// An upload with CUBIC.
    Upload,
    /// Short CUBIC transfers.
    Short,
}

/// A network and its traffic.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
struct Network {
    rate_bps: f64,
    rtt_ms: f64,
    /// Room of the queue, in bandwidth x delay.
    queue: f64,
    loss: f64,
    jitter_ms: f64,
    varies: Varies,
    /// Aggregation of acknowledgements.
    held_ms: Option<f64>,
    own: u64,
    neighbour: Neighbour,
}

/// The file of a group with these networks, in the words of docs/league.md. A number is the same
/// network each time.
pub(crate) fn file(numbers: impl IntoIterator<Item = u64>) -> String {
    let networks = numbers.into_iter().map(|number| {
        let network = Network::draw(&mut Pcg64Mcg::seed_from_u64(number));
        network.case(number)
    });
    let mut environment = environment(&[("random.toml", TEMPLATE)]);
    environment.add_filter("n", |number: f64| number.to_string());
    let networks: Vec<Value> = networks.collect();
    render(&environment, "random.toml", context! { networks })
}

impl Network {
    fn draw(rng: &mut impl Rng) -> Self {
        let rate_bps = digits(between(rng, 1e6, 1e8));
        let rtt_ms = digits(between(rng, 5.0, 300.0));
        let queue = digits(between(rng, 0.2, 10.0));
        let loss = digits(between(rng, 1e-4, 0.03));
        let loss = if rng.random_bool(0.4) { loss } else { 0.0 };
        let jitter_ms = digits(between(rng, 0.5, 20.0).min(rtt_ms / 2.0));
        let jitter_ms = if rng.random_bool(0.3) { jitter_ms } else { 0.0 };
        let share = digits(between(rng, 0.2, 0.8));
        let burst = digits(between(rng, 15e3, 150e3));
        let lasts_s = digits(between(rng, 2.0, 15.0));
        let varies = match rng.random_range(0..10) {
            0 => Varies::Walk(share),
            1 => Varies::Step(share, lasts_s),
            2 => Varies::Policed(share, burst),
            _ => Varies::Constant,
        };
        let held_ms = digits(between(rng, 1.0, 20.0));
        let held_ms = rng.random_bool(0.1).then_some(held_ms);
        let own = rng.random_range(2..=8);
        let own = if rng.random_bool(0.2) { own } else { 1 };
        let neighbour = match rng.random_range(0..20) {
            0..4 => Neighbour::Downloads("cubic", rng.random_range(1..=3)),
            4..6 => Neighbour::Downloads("reno", 1),
            6..8 => Neighbour::Upload,
            8..10 => Neighbour::Short,
            _ => Neighbour::None,
        };
        Self {
            rate_bps,
            rtt_ms,
            queue,
            loss,
            jitter_ms,
            varies,
            held_ms,
            own,
            neighbour,
        }
    }

    /// Parts of the capacity that are fair for the measured flows and, if they count, the others.
    fn fair(&self) -> (f64, Option<f64>) {
        match self.neighbour {
            Neighbour::None => (1.0, None),
            Neighbour::Downloads(_, others) => {
                let own = self.own as f64 / (self.own + others) as f64;
                (own, Some(1.0 - own))
            }
            // The upload has the other direction for itself.
            Neighbour::Upload => (1.0, None),
            Neighbour::Short => (1.0 - SHORT_LOAD, Some(SHORT_LOAD)),
        }
    }

    /// What its `[[cases]]` is made of.
    fn case(&self, number: u64) -> Value {
        let Self {
            rate_bps,
            rtt_ms,
            loss,
            ..
        } = self;
        let share = match self.varies {
            Varies::Constant => 1.0,
            Varies::Walk(share) | Varies::Step(share, _) | Varies::Policed(share, _) => share,
        };
        let (fair, others_fair) = self.fair();
        let product = rate_bps / 8.0 * rtt_ms / 1e3 / PACKET;
        context! {
            number,
            network => self,
            share,
            part => (share * rate_bps).round(),
            delay_ms => rtt_ms / 2.0,
            queue_packets => (self.queue * product).ceil().max(10.0),
            loss_percent => format!("{:.2}", loss * 100.0),
            loss_aim => loss + 0.01,
            queueing_ms => queueing_aim_ms(*rate_bps, *rtt_ms),
            fair,
            others_fair,
            arrivals_per_s => SHORT_LOAD * rate_bps / 8.0 / SHORT_BYTES,
            short_bytes => SHORT_BYTES,
        }
    }
}

/// The target of the 95th percentile of queueing, in milliseconds: half of the round trip or ten
/// packets' time.
pub(super) fn queueing_aim_ms(rate_bps: f64, rtt_ms: f64) -> String {
    let packets_ms = 10.0 * PACKET * 8.0 / rate_bps * 1e3;
    format!("{:.1}", (rtt_ms / 2.0).max(packets_ms))
}

/// From a log-uniform distribution.
fn between(rng: &mut impl Rng, least: f64, greatest: f64) -> f64 {
    least * (greatest / least).powf(rng.random::<f64>())
}

/// Two digits, as people say such figures.
fn digits(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_documented_distributions() {
        let drawn: Vec<_> = (1..=10_000)
            .map(|number| Network::draw(&mut Pcg64Mcg::seed_from_u64(number)))
            .collect();
        let share = |of: &dyn Fn(&Network) -> bool| {
            drawn.iter().filter(|network| of(network)).count() as f64 / 10_000.0
        };
        // Five standard deviations of 10,000 draws are at most 0.025.
        let near = |share: f64, expected: f64| {
            assert!((share - expected).abs() < 0.025, "{share} for {expected}");
        };
        near(share(&|one| one.rate_bps < 1e7), 0.5);
        near(share(&|one| one.rtt_ms < 38.7), 0.5);
        near(share(&|one| one.queue < 1.414), 0.5);
        near(share(&|one| one.loss > 0.0), 0.4);
        near(share(&|one| one.jitter_ms > 0.0), 0.3);
        near(share(&|one| matches!(one.varies, Varies::Walk(..))), 0.1);
        near(share(&|one| matches!(one.varies, Varies::Step(..))), 0.1);
        near(share(&|one| matches!(one.varies, Varies::Policed(..))), 0.1);
        near(share(&|one| one.held_ms.is_some()), 0.1);
        near(share(&|one| one.own > 1), 0.2);
        near(share(&|one| one.neighbour == Neighbour::None), 0.5);
    }
}
