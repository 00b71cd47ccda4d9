//! The figures of a run that a comparison shows, and what comes of those of several seeds.

use evenkeel_apps::stream::ViewReport;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::metrics::median;
use crate::report::document::rounded;

/// The figures of a run's compared flows. Those that are streams count if there are any; otherwise
/// all do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigures {
    /// Mean CoV of the throughput in 0.5 s ([`metrics::cov`](crate::metrics::cov)).
    pub cov: Option<f64>,
    /// Sum of the throughputs, bits of IP packets per second.
    pub throughput_bps: u64,
    /// Sum of goodputs, bits of application data per second.
    pub goodput_bps: u64,
    /// Mean of the flows' median round-trip times, milliseconds.
    pub rtt_p50_ms: Option<f64>,
    /// Packets lost / packets sent.
    pub retransmitted_ratio: Option<f64>,
    /// Of streams; `None` if there are none.
    pub stream: Option<ComparedStreams>,
    /// Sum of the goodputs of all flows that do not count above; `None` if all count.
    pub others_goodput_bps: Option<u64>,
}

/// What viewers saw: means over the streams, or sums where it says so.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ComparedStreams {
    /// Mean of the encoders' mean rates, bits per second.
    pub bitrate_bps: Option<f64>,
    /// Mean of the median delays of frames, milliseconds.
    pub delay_p50_ms: Option<f64>,
    /// Mean of the 95th percentiles, milliseconds.
    pub delay_p95_ms: Option<f64>,
    /// The greatest of all delays, milliseconds.
    pub delay_max_ms: Option<f64>,
    /// Mean of the playout delays at the end, milliseconds: how long after its capture a viewer sees
    /// a picture.
    pub playout_delay_ms: Option<f64>,
    /// Sum of the stalls.
    pub stalls: f64,
    /// Sum of the time in stalls, seconds.
    pub stalled_s: f64,
    /// Frames that were late, of all that were expected, 0 to 1.
    pub late_ratio: Option<f64>,
    /// Frames that were lost, of all that were expected, 0 to 1.
    pub lost_ratio: Option<f64>,
    /// Sum of the changes of the encoders' rates.
    pub switches: f64,
    /// Mean CoV of what arrived in 1 s.
    pub cov_1s: Option<f64>,
}

/// The figures of several seeds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverSeeds {
    /// Each figure's least value.
    pub least: ComparedFigures,
    /// Each figure's greatest value.
    pub greatest: ComparedFigures,
    /// Each figure's mean.
    pub mean: ComparedFigures,
    /// Half the width of each mean's 95 % confidence interval, by Student's t over the seeds that have
    /// a value; `None` where one alone has.
    pub ci95: ComparedFigures,
}

impl ComparedFigures {
    /// Of a `result.json`; `compared` names the `[[flows]]` that are.
    pub(super) fn of(result: &Value, compared: &[String]) -> Self {
        let flows = result["flows"].as_array().into_iter().flatten();
        let flows: Vec<&Value> = flows.collect();
        let is_compared = |flow: &Value| compared.iter().any(|name| flow["group"] == **name);
        let is_stream = |flow: &&Value| is_compared(flow) && flow["stream"].is_object();
        let has_streams = flows.iter().any(is_stream);
        let (counted, others): (Vec<&Value>, Vec<&Value>) = flows
            .into_iter()
            .partition(|flow| is_compared(flow) && (!has_streams || is_stream(flow)));
        let sum = |flows: &[&Value], key: &str| -> u64 {
            flows.iter().filter_map(|flow| flow[key].as_u64()).sum()
        };
        let (sent, lost) = (sum(&counted, "sent_packets"), sum(&counted, "lost_packets"));
        let values =
            |value: fn(&Value) -> Option<f64>| mean(counted.iter().filter_map(|flow| value(flow)));
        Self {
            cov: values(|flow| flow["cov"].as_f64()),
            throughput_bps: sum(&counted, "throughput_bps"),
            goodput_bps: sum(&counted, "goodput_bps"),
            rtt_p50_ms: values(|flow| flow["rtt_ms"]["p50"].as_f64()),
            retransmitted_ratio: rounded(lost as f64 / sent as f64, 6),
            stream: has_streams.then(|| ComparedStreams::of(&counted)),
            others_goodput_bps: (!others.is_empty()).then(|| sum(&others, "goodput_bps")),
        }
    }

    /// What `pick` makes of each figure's values in these runs, at least one, in order.
    fn over(runs: &[Self], pick: fn(&[f64]) -> f64) -> Self {
        let runs = runs.iter().map(|run| json!(run)).collect();
        serde_json::from_value(over(runs, pick)).expect("at least one run has every key")
    }

    /// Each figure's median.
    pub(super) fn median(runs: &[Self]) -> Self {
        Self::over(runs, median)
    }
}

impl OverSeeds {
    /// Of the runs with several seeds; `None` of fewer.
    pub(super) fn of(runs: &[ComparedFigures]) -> Option<Self> {
        (runs.len() > 1).then(|| Self {
            least: ComparedFigures::over(runs, |sorted| sorted[0]),
            greatest: ComparedFigures::over(runs, |sorted| sorted[sorted.len() - 1]),
            mean: ComparedFigures::over(runs, |values| {
                values.iter().sum::<f64>() / values.len() as f64
            }),
            ci95: ComparedFigures::over(runs, half_width),
        })
    }
}

impl ComparedStreams {
    fn of(flows: &[&Value]) -> Self {
        let reports = flows
            .iter()
            .filter_map(|flow| serde_json::from_value(flow["stream"].clone()).ok());
        let reports: Vec<ViewReport> = reports.collect();
        let of =
            |figure: &dyn Fn(&ViewReport) -> Option<f64>| mean(reports.iter().filter_map(figure));
        let sum = |figure: &dyn Fn(&ViewReport) -> u64| -> u64 { reports.iter().map(figure).sum() };
        let expected = sum(&|report| report.frames.received + report.frames.lost);
        let share = |count: u64| rounded(count as f64 / expected as f64, 6);
        let stalled: f64 = reports.iter().map(|report| report.stalls.total_s).sum();
        let greatest = reports
            .iter()
            .filter_map(|report| Some(report.delay_ms?.max));
        Self {
            bitrate_bps: of(&|report| Some(report.bitrate?.mean_bps)),
            delay_p50_ms: of(&|report| Some(report.delay_ms?.p50)),
            delay_p95_ms: of(&|report| Some(report.delay_ms?.p95)),
            delay_max_ms: greatest.reduce(f64::max),
            playout_delay_ms: of(&|report| report.playout_delay_ms),
            stalls: sum(&|report| report.stalls.count) as f64,
            stalled_s: rounded(stalled, 6).unwrap_or(0.0),
            late_ratio: share(sum(&|report| report.frames.late)),
            lost_ratio: share(sum(&|report| report.frames.lost)),
            switches: sum(&|report| report.bitrate.map_or(0, |bitrate| bitrate.switches)) as f64,
            cov_1s: of(&|report| report.variation.iter().find(|v| v.interval_s == 1.0)?.cov),
        }
    }
}

/// To the millionth; `None` of nothing.
fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    rounded(values.iter().sum::<f64>() / values.len() as f64, 6)
}

/// One number of those that there are, which `pick` gets in order; of objects the same key by key.
fn over(mut values: Vec<Value>, pick: fn(&[f64]) -> f64) -> Value {
    values.retain(|value| !value.is_null());
    match values.first() {
        None => Value::Null,
        Some(Value::Object(first)) => {
            let of = |key| values.iter().map(|value| value[key].clone()).collect();
            let keys = first.keys();
            keys.map(|key| (key.clone(), over(of(key), pick))).collect()
        }
        Some(first) => {
            let mut numbers: Vec<f64> = values.iter().filter_map(Value::as_f64).collect();
            numbers.sort_by(f64::total_cmp);
            let number = pick(&numbers);
            match first.is_u64() {
                true => json!(number.round() as u64),
                false => json!(rounded(number, 6)),
            }
        }
    }
}

/// Half the width of the 95 % confidence interval of the mean: t s / sqrt(n). Not a number for fewer
/// than two values.
fn half_width(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    students_t(values.len().saturating_sub(1)) * (squares / (count - 1.0) / count).sqrt()
}

/// The 97.5th percentile of Student's t distribution, by degrees of freedom.
fn students_t(freedom: usize) -> f64 {
    const FEW: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    /// That of the normal distribution.
    const Z: f64 = 1.959_964;
    let Some(index) = freedom.checked_sub(1) else {
        return f64::NAN;
    };
    if let Some(t) = FEW.get(index) {
        return *t;
    }
    // Abramowitz and Stegun, 26.7.5: right to the third decimal from ten degrees on.
    let v = freedom as f64;
    let [first, second, third] = [
        (Z.powi(3) + Z) / 4.0,
        (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / 96.0,
        (3.0 * Z.powi(7) + 19.0 * Z.powi(5) + 17.0 * Z.powi(3) - 15.0 * Z) / 384.0,
    ];
    Z + first / v + second / v.powi(2) + third / v.powi(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confidence_interval_is_students() {
        // 1, 2, 3: s = 1, 4.303 / sqrt(3).
        assert!((half_width(&[1.0, 2.0, 3.0]) - 2.484).abs() < 1e-3);
        assert_eq!(half_width(&[5.0; 4]), 0.0);
        assert!(half_width(&[1.0]).is_nan());
        for (freedom, t) in [
            (1, 12.706),
            (10, 2.228),
            (11, 2.201),
            (30, 2.042),
            (120, 1.980),
        ] {
            assert!((students_t(freedom) - t).abs() < 6e-4, "{freedom}");
        }
    }
}
