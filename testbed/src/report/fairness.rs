//! How flows shared, in `result.json`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::metrics::{self, FlowObservation, Timing};
use crate::scenario::Scenario;

/// How flows shared that cross a link in the same direction; `None` where fewer than two were active.
/// Of several sets of flows that share no link the least value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fairness {
    /// Of the set.
    #[serde(flatten)]
    pub least: FairnessFigures,
    /// Each set of flows that share no link with those of others; not written if there is one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<FairnessOfSet>,
}

/// A set of flows that share links, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FairnessOfSet {
    /// Their names.
    pub flows: Vec<String>,
    /// How they shared.
    #[serde(flatten)]
    pub figures: FairnessFigures,
}

/// How flows shared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FairnessFigures {
    /// [`metrics::jain_index`] of the throughputs.
    pub jain: Option<f64>,
    /// [`metrics::worst_case_fairness`] of the throughputs.
    pub worst_case: Option<f64>,
    /// [`metrics::short_term_fairness`].
    pub short_term: Option<f64>,
}

impl Fairness {
    pub(super) fn new(scenario: &Scenario, flows: &[FlowObservation], timing: &Timing) -> Self {
        let numbers = scenario.sharing_sets();
        let mut sets: BTreeMap<usize, Vec<&FlowObservation>> = BTreeMap::new();
        for (index, flow) in flows.iter().enumerate() {
            let number = numbers.get(index).copied().unwrap_or_default();
            sets.entry(number).or_default().push(flow);
        }
        let of_set = |flows: Vec<&FlowObservation>| FairnessOfSet {
            flows: flows.iter().map(|flow| flow.name.clone()).collect(),
            figures: FairnessFigures::new(&flows, timing),
        };
        let mut sets: Vec<_> = sets.into_values().map(of_set).collect();
        let least = |figure: fn(&FairnessFigures) -> Option<f64>| {
            let values = sets.iter().filter_map(|set| figure(&set.figures));
            values.reduce(f64::min)
        };
        let least = FairnessFigures {
            jain: least(|figures| figures.jain),
            worst_case: least(|figures| figures.worst_case),
            short_term: least(|figures| figures.short_term),
        };
        if sets.len() < 2 {
            sets.clear();
        }
        Self { least, sets }
    }
}

impl FairnessFigures {
    fn new(flows: &[&FlowObservation], timing: &Timing) -> Self {
        let throughputs = flows.iter();
        let throughputs: Vec<f64> = throughputs
            .filter_map(|flow| metrics::throughput_bps(flow, timing))
            .collect();
        Self {
            jain: metrics::jain_index(&throughputs).and_then(six_decimals),
            worst_case: metrics::worst_case_fairness(&throughputs).and_then(six_decimals),
            short_term: metrics::short_term_fairness(flows, timing).and_then(six_decimals),
        }
    }
}

fn six_decimals(value: f64) -> Option<f64> {
    let rounded = (value * 1e6).round() / 1e6;
    rounded.is_finite().then_some(rounded)
}
