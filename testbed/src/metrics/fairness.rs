//! Figures that compare flows.

use super::flow::{sample_bps, whole_samples};
use super::{FlowObservation, Timing};

/// Jain's fairness index (sum x)^2 / (n sum x^2), between 1/n and 1; over throughputs in
/// "smoothness", section IV-B, and A-AIMD, section 4; over windows in AdaVegas, section IV.
///
/// `None` for fewer than two values, or if all are zero.
pub fn jain_index(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|x| x * x).sum();
    (values.len() >= 2 && squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// Smallest over greatest throughput: worst-case fairness of "smoothness", section IV-B.
///
/// `None` for fewer than two values, or if all are zero.
pub fn worst_case_fairness(values: &[f64]) -> Option<f64> {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(0.0, f64::max);
    (values.len() >= 2 && max > 0.0).then(|| min / max)
}

/// Short-term fairness of "smoothness", section IV-B: the mean over time of [`jain_index`] of
/// the throughputs in 0.5 s samples. A sample counts if at least two flows were active
/// throughout it and one of them got something; it compares those flows.
pub fn short_term_fairness(flows: &[&FlowObservation], timing: &Timing) -> Option<f64> {
    let spans: Vec<_> = flows
        .iter()
        .map(|flow| whole_samples(flow, timing))
        .collect();
    let first = spans.iter().map(|span| span.start).min()?;
    let end = spans.iter().map(|span| span.end).max()?;
    let indices: Vec<f64> = (first..end)
        .filter_map(|sample| {
            let active = flows
                .iter()
                .zip(&spans)
                .filter(|(_, span)| span.contains(&sample));
            let rates: Vec<_> = active
                .map(|(flow, _)| sample_bps(flow, timing, sample))
                .collect();
            jain_index(&rates)
        })
        .collect();
    (!indices.is_empty()).then(|| indices.iter().sum::<f64>() / indices.len() as f64)
}

#[cfg(test)]
mod tests;
