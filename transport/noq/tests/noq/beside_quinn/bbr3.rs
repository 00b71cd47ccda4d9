//! The testbed's `noq-bbr3`, noq's BBRv3 behind a bridge to quinn, against noq itself.

use std::sync::Arc;

use evenkeel_noq::controller::foreign;
use noq_proto::congestion::Bbr3Config;

use super::figures::{Figures, on_noq, on_quinn};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=24;

/// Compares both and prints their figures. noq draws when to probe for bandwidth: neither repeats.
///
/// Their shares of the link may differ by six points, three times what chance does to two means of
/// 24 runs.
fn compare(case: &str, loss: f64) {
    let mean = |run: &dyn Fn(u64) -> Figures| {
        let runs: Vec<Figures> = SEEDS.map(run).collect();
        Figures::mean(&runs)
    };
    let bridged = mean(&|seed| on_quinn("noq-bbr3", loss, seed));
    bridged.print(case, "noq-bbr3");
    let real = mean(&|seed| on_noq(foreign(Arc::new(Bbr3Config::default())), loss, seed));
    real.print(case, "noq");
    assert!((bridged.used - real.used).abs() < 0.06);
    assert!((bridged.lost - real.lost).abs() < 0.005);
    assert!((bridged.queue - real.queue).abs() < 3.0);
}

#[test]
#[ignore = "takes a minute, and noq draws random numbers of its own; .ci/full runs it"]
fn on_a_clean_link_it_does_as_noq_does() {
    compare("clean", 0.0);
}

#[test]
#[ignore = "takes a minute, and noq draws random numbers of its own; .ci/full runs it"]
fn on_a_lossy_link_it_does_as_noq_does() {
    compare("1 % loss", 0.01);
}
