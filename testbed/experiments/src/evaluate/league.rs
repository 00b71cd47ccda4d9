//! The raw figures of a run of the league, and its score.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::dataset::Spread;
use super::values::Samples;
use crate::run::store::Record;
use crate::spec::league::{Aims, Case, Figure};
use crate::spec::metric::{Across, Reduce, ReducedSeries, Selection};

/// The raw figures of a run, those that have a value.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    pub(crate) figures: Figures,
    /// 0 to 1.
    pub(crate) score: f64,
    /// Measured flows that died, and why.
    pub(crate) dead: Vec<String>,
}

/// What the league reads of `result.json`.
#[derive(Debug, Deserialize)]
struct Outcome {
    duration_s: f64,
    warmup_s: f64,
    flows: Vec<Flow>,
    links: Vec<Link>,
}

#[derive(Debug, Deserialize)]
struct Flow {
    name: String,
    group: String,
    start_s: f64,
    stop_s: f64,
    throughput_bps: Option<f64>,
    sent_packets: f64,
    lost_packets: f64,
    transfers: Transfers,
    stream: Option<Stream>,
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Transfers {
    completion_s: Option<Percentiles>,
}

#[derive(Debug, Deserialize)]
struct Link {
    name: String,
    rate_bps: Option<f64>,
    sojourn_ms: Option<Percentiles>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Percentiles {
    p50: f64,
    p95: f64,
    p99: f64,
}

#[derive(Debug, Deserialize)]
struct Stream {
    frames: Frames,
    delay_ms: Option<Percentiles>,
    stalls: Stalls,
}

#[derive(Debug, Deserialize)]
struct Frames {
    received: f64,
    late: f64,
    skipped: f64,
    lost: f64,
}

#[derive(Debug, Deserialize)]
struct Stalls {
    count: f64,
    total_s: f64,
}

impl Standing {
    /// Of a run of `case`.
    ///
    /// # Errors
    /// If the record lacks something.
    pub(crate) fn of(case: &Case, record: &Record) -> Result<Self, String> {
        let outcome = Outcome::deserialize(&record.result).map_err(|error| error.to_string())?;
        let (measured, others): (Vec<&Flow>, Vec<&Flow>) = outcome
            .flows
            .iter()
            .partition(|flow| case.measured.contains(&flow.group));
        let dead = measured.iter().filter_map(|flow| {
            let error = flow.error.as_ref()?;
            Some(format!("{}: {error}", flow.name))
        });
        let dead: Vec<String> = dead.collect();
        let mut figures = Figures::new();
        for (figure, value) in outcome.values(case, record, &measured, &others)? {
            figures.extend(value.filter(|value| value.is_finite()).map(|v| (figure, v)));
        }
        let score = if dead.is_empty() {
            score(&case.aims, &figures)
        } else {
            0.0
        };
        Ok(Self {
            figures,
            score,
            dead,
        })
    }
}

impl Outcome {
    fn values(
        &self,
        case: &Case,
        record: &Record,
        measured: &[&Flow],
        others: &[&Flow],
    ) -> Result<Vec<(Figure, Option<f64>)>, String> {
        let link = |name: &String| {
            let found = self.links.iter().find(|link| link.name == *name);
            found.ok_or_else(|| format!("the results have no link {name}"))
        };
        let links = case.links.iter().map(link).collect::<Result<Vec<_>, _>>()?;
        let capacity_bps = case.capacity_bps.or(links[0].rate_bps);
        let share = |flows: &[&Flow], fair: f64| {
            let goodput_bps = self.goodput_bps(record, flows)?;
            Ok::<_, String>(capacity_bps.map(|capacity_bps| goodput_bps / (capacity_bps * fair)))
        };
        let others = case
            .others_fair
            .map(|fair| share(others, fair))
            .transpose()?;
        // Of several queues on the way the longest counts.
        let queueing = |of: fn(&Percentiles) -> f64| {
            let sojourns = links.iter().filter_map(|link| link.sojourn_ms.as_ref());
            Across::Max.of(&sojourns.map(of).collect::<Vec<_>>())
        };
        let cov = |bin_s: f64| {
            let covs = measured.iter().map(|flow| self.cov(record, flow, bin_s));
            let covs = covs.collect::<Result<Vec<_>, String>>()?;
            Ok::<_, String>(Across::Mean.of(&covs.into_iter().flatten().collect::<Vec<_>>()))
        };
        let sum = |of: fn(&Flow) -> f64| measured.iter().map(|flow| of(flow)).sum::<f64>();
        let rates = measured.iter().filter_map(|flow| flow.throughput_bps);
        let rates: Vec<f64> = rates.collect();
        let completions = measured.iter().map(|flow| flow.transfers.completion_s);
        let completions: Option<Vec<Percentiles>> = completions.collect();
        let completion = completions
            .and_then(|all| Spread::of(all.iter().map(|completion| completion.p50).collect()));
        let streams: Vec<&Stream> = measured.iter().filter_map(|f| f.stream.as_ref()).collect();
        let seen = |of: fn(&Stream) -> f64| {
            (!streams.is_empty()).then(|| streams.iter().map(|stream| of(stream)).sum::<f64>())
        };
        let frames = seen(|stream| stream.frames.received + stream.frames.lost);
        let late = seen(|stream| {
            let Frames {
                late,
                skipped,
                lost,
                ..
            } = stream.frames;
            late + skipped + lost
        });
        let delays = streams.iter().filter_map(|stream| stream.delay_ms);
        let delays: Vec<f64> = delays.map(|delay| delay.p95).collect();
        Ok(vec![
            (Figure::Share, share(measured, case.fair)?),
            (Figure::Others, others.flatten()),
            (Figure::QueueingP50Ms, queueing(|sojourn| sojourn.p50)),
            (Figure::QueueingP95Ms, queueing(|sojourn| sojourn.p95)),
            (Figure::QueueingP99Ms, queueing(|sojourn| sojourn.p99)),
            (Figure::Cov100Ms, cov(0.1)?),
            (Figure::Cov500Ms, cov(0.5)?),
            (Figure::Cov5S, cov(5.0)?),
            (
                Figure::Loss,
                Some(sum(|flow| flow.lost_packets) / sum(|flow| flow.sent_packets)),
            ),
            (
                Figure::Jain,
                (rates.len() > 1).then(|| Across::Jain.of(&rates)).flatten(),
            ),
            (Figure::CompletionS, completion.map(|spread| spread.median)),
            (
                Figure::FramesLate,
                late.zip(frames).map(|(late, all)| late / all),
            ),
            (Figure::FrameP95Ms, Across::Max.of(&delays)),
            (Figure::Stalls, seen(|stream| stream.stalls.count)),
            (Figure::StalledS, seen(|stream| stream.stalls.total_s)),
        ])
    }

    /// Bits of application data per second of the whole measured time, of these flows together.
    fn goodput_bps(&self, record: &Record, flows: &[&Flow]) -> Result<f64, String> {
        let mut bits = 0.0;
        for flow in flows {
            let series = series(flow, "goodput_bps", None)?;
            let mut reduced = reduced(series, Reduce::Sum);
            reduced.from_s = self.warmup_s;
            let samples = reduced.selection.read(record)?;
            bits += reduced.value(&samples[0], None).unwrap_or(0.0) * samples[0].bin_s;
        }
        Ok(bits / (self.duration_s - self.warmup_s))
    }

    /// Standard deviation over mean of the rate in bins that lie in a flow's active time.
    fn cov(&self, record: &Record, flow: &Flow, bin_s: f64) -> Result<Option<f64>, String> {
        let mut reduced = reduced(series(flow, "rate_bps", Some(bin_s))?, Reduce::Cov);
        reduced.from_s = self.warmup_s.max(flow.start_s);
        reduced.to_s = flow.stop_s;
        // Fewer than two bins do not vary.
        if reduced.to_s - reduced.from_s < 2.0 * bin_s {
            return Ok(None);
        }
        let samples = reduced.selection.read(record)?;
        Ok(reduced.value(&samples[0], None))
    }
}

/// Points of a line over time; more would not show.
const POINTS: f64 = 40.0;

/// Bits per second of IP packets of the measured flows together, over time.
pub(crate) fn rate(case: &Case, record: &Record) -> Result<Samples, String> {
    let outcome = Outcome::deserialize(&record.result).map_err(|error| error.to_string())?;
    let flows = outcome.flows.iter();
    let mut total: Option<Samples> = None;
    for flow in flows.filter(|flow| case.measured.contains(&flow.group)) {
        let series = series(flow, "rate_bps", Some(outcome.duration_s / POINTS))?;
        let samples = series.read(record)?.remove(0);
        match &mut total {
            None => total = Some(samples),
            Some(total) => {
                for (sum, value) in total.values.iter_mut().zip(samples.values) {
                    *sum = Some(sum.unwrap_or(0.0) + value.unwrap_or(0.0));
                }
            }
        }
    }
    total.ok_or_else(|| "no flow is measured".into())
}

fn series(flow: &Flow, field: &str, bin_s: Option<f64>) -> Result<Selection, String> {
    Selection::new(&format!("flows.{}.{field}", flow.name), None, bin_s)
}

fn reduced(selection: Selection, reduce: Reduce) -> ReducedSeries {
    ReducedSeries {
        selection,
        from_s: 0.0,
        to_s: f64::INFINITY,
        reduce,
        level: None,
        band: 0.0,
    }
}

/// The geometric mean of the aims' marks: docs/league.md.
fn score(aims: &Aims, figures: &Figures) -> f64 {
    let marks = aims.iter().map(|(figure, target)| {
        let Some(value) = figures.get(figure) else {
            return 0.0;
        };
        let ratio = if figure.more_is_better() {
            value / target
        } else {
            target / value
        };
        // A value of 0 that should be small gives an infinite ratio.
        ratio.clamp(0.0, 1.0)
    });
    marks.product::<f64>().powf(1.0 / aims.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_the_geometric_mean_of_clamped_ratios() {
        let aims = Aims::from([(Figure::Share, 0.9), (Figure::QueueingP95Ms, 20.0)]);
        let score = |share: f64, queueing: f64| {
            let figures = [(Figure::Share, share), (Figure::QueueingP95Ms, queueing)];
            super::score(&aims, &Figures::from(figures))
        };
        // More than enough of one does not make up for the other.
        assert_eq!(score(1.5, 0.0), 1.0);
        assert_eq!(score(0.9, 80.0), 0.5);
        assert!((score(0.45, 40.0) - 0.5).abs() < 1e-12);
        assert_eq!(score(0.0, 1.0), 0.0);
        // What has no value misses its aim.
        let figures = Figures::from([(Figure::Share, 1.0)]);
        assert_eq!(super::score(&aims, &figures), 0.0);
    }
}
