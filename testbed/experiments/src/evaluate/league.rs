//! The raw figures of a run of the league, and its score.

use std::collections::BTreeMap;

use serde_json::Value;

use super::dataset::Spread;
use super::values::{Samples, descend};
use crate::run::store::Record;
use crate::spec::league::{Aims, Case, Figure};
use crate::spec::metric::{Across, Reduce, ReducedSeries, Selection};

/// The raw figures of a run, those that have a value.
pub(crate) type Figures = BTreeMap<Figure, f64>;

/// Who has less than this part of what is fair is starved: docs/league.md has the reasons.
pub(crate) const STARVED: f64 = 0.25;

/// A stream whose picture stands still for a greater share of its time is of no use.
pub(crate) const MOST_STALLED: f64 = 0.05;

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    pub(crate) figures: Figures,
    /// 0 to 1; 0 if it failed.
    pub(crate) score: f64,
    /// Why the controller has failed the network; empty if it has not.
    pub(crate) failures: Vec<String>,
}

/// A run of a case: its flows and links as `result.json` has them.
struct Outcome<'r> {
    record: &'r Record,
    measured: Vec<&'r Value>,
    others: Vec<&'r Value>,
    /// Those of the case, at least one.
    links: Vec<&'r Value>,
    duration_s: f64,
    warmup_s: f64,
}

impl Standing {
    /// Of a run of `case`.
    ///
    /// # Errors
    /// If the record lacks something.
    pub(crate) fn of(case: &Case, record: &Record) -> Result<Self, String> {
        let outcome = Outcome::new(case, record)?;
        let mut figures = Figures::new();
        for (figure, value) in outcome.values(case)? {
            figures.extend(value.filter(|value| value.is_finite()).map(|v| (figure, v)));
        }
        let mut failures = outcome.failures(&case.aims);
        failures.extend(starved(&case.aims, &figures));
        let score = if failures.is_empty() {
            score(&case.aims, &figures)
        } else {
            0.0
        };
        Ok(Self {
            figures,
            score,
            failures,
        })
    }
}

impl<'r> Outcome<'r> {
    fn new(case: &Case, record: &'r Record) -> Result<Self, String> {
        let result = &record.result;
        let elements = |key: &str| {
            let elements = result[key].as_array();
            elements.ok_or_else(|| format!("the results have no {key}"))
        };
        let is_measured = |flow: &&Value| case.measured.iter().any(|name| flow["group"] == **name);
        let (measured, others) = elements("flows")?.iter().partition(is_measured);
        let all = elements("links")?;
        let link = |name: &String| {
            let found = all.iter().find(|link| link["name"] == **name);
            found.ok_or_else(|| format!("the results have no link {name}"))
        };
        let number = |key| number(result, key).ok_or_else(|| format!("the results have no {key}"));
        Ok(Self {
            record,
            measured,
            others,
            links: case.file.links.iter().map(link).collect::<Result<_, _>>()?,
            duration_s: number("duration_s")?,
            warmup_s: number("warmup_s")?,
        })
    }

    fn values(&self, case: &Case) -> Result<Vec<(Figure, Option<f64>)>, String> {
        let (measured, links) = (&self.measured, &self.links);
        let capacity_bps = case.file.capacity_bps.or(number(links[0], "rate_bps"));
        let share = |flows: &[&Value], fair: f64| {
            let goodput_bps = self.goodput_bps(flows)?;
            Ok::<_, String>(capacity_bps.map(|capacity_bps| goodput_bps / (capacity_bps * fair)))
        };
        let others = case.file.others_fair.map(|fair| share(&self.others, fair));
        // Of several queues on the way the longest counts.
        let queueing = |path| Across::Max.of(&numbers(links, path));
        let cov = |bin_s: f64| {
            let covs = measured.iter().map(|flow| self.cov(flow, bin_s));
            let covs = covs.collect::<Result<Vec<_>, String>>()?;
            Ok::<_, String>(Across::Mean.of(&covs.into_iter().flatten().collect::<Vec<_>>()))
        };
        let sum = |path| numbers(measured, path).iter().sum::<f64>();
        let rates = numbers(measured, "throughput_bps");
        let completions = numbers(measured, "transfers.completion_s.p50");
        let all_complete = completions.len() == measured.len();
        let completion = Spread::of(completions).filter(|_| all_complete);
        let streams = measured.iter().filter_map(|flow| flow.get("stream"));
        let streams: Vec<&Value> = streams.collect();
        let seen = |paths: &[&str]| {
            let sum = |path: &&str| numbers(&streams, path).iter().sum::<f64>();
            (!streams.is_empty()).then(|| paths.iter().map(sum).sum::<f64>())
        };
        let queueing_of = |kind: &str, index: u64, figure: &str| {
            let tracks = streams
                .iter()
                .filter_map(|stream| stream["tracks"].as_array());
            let tracks = tracks.filter(|tracks| tracks.len() > 1).flatten();
            let tracks = tracks.filter(|track| track["kind"] == kind && track["index"] == index);
            Across::Max.of(&tracks
                .filter_map(|track| number(track, figure))
                .collect::<Vec<_>>())
        };
        let [mean, max] = ["queueing_ms.mean", "queueing_ms.max"];
        let frames = seen(&["frames.received", "frames.lost"]);
        let late = seen(&["frames.late", "frames.skipped", "frames.lost"]);
        Ok(vec![
            (Figure::Share, share(measured, case.file.fair)?),
            (Figure::Others, others.transpose()?.flatten()),
            (Figure::QueueingP50Ms, queueing("sojourn_ms.p50")),
            (Figure::QueueingP95Ms, queueing("sojourn_ms.p95")),
            (Figure::QueueingP99Ms, queueing("sojourn_ms.p99")),
            (Figure::Cov100Ms, cov(0.1)?),
            (Figure::Cov500Ms, cov(0.5)?),
            (Figure::Cov5S, cov(5.0)?),
            (
                Figure::Loss,
                Some(sum("lost_packets") / sum("sent_packets")),
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
            (
                Figure::FrameP95Ms,
                Across::Max.of(&numbers(&streams, "delay_ms.p95")),
            ),
            (Figure::SoundMeanMs, queueing_of("sound", 0, mean)),
            (Figure::SoundMaxMs, queueing_of("sound", 0, max)),
            (Figure::LowMeanMs, queueing_of("video", 0, mean)),
            (Figure::LowMaxMs, queueing_of("video", 0, max)),
            (Figure::HighMeanMs, queueing_of("video", 1, mean)),
            (Figure::HighMaxMs, queueing_of("video", 1, max)),
            (Figure::Stalls, seen(&["stalls.count"])),
            (Figure::StalledS, seen(&["stalls.total_s"])),
        ])
    }

    /// Measured flows that died, have next to nothing beside their own kind, or stand still.
    fn failures(&self, aims: &Aims) -> Vec<String> {
        let measured = self.measured.iter();
        let died = measured.clone().filter_map(|flow| {
            let error = flow["error"].as_str()?;
            Some(format!("{} died: {error}", name(flow)))
        });
        let mut failures: Vec<String> = died.collect();
        if aims.contains_key(&Figure::Jain) {
            let mean = Across::Mean.of(&numbers(&self.measured, "throughput_bps"));
            failures.extend(measured.clone().filter_map(|flow| {
                let part = number(flow, "throughput_bps")? / mean?;
                let is_starved = part < STARVED;
                is_starved.then(|| format!("{} has {part:.2} of the flows' mean", name(flow)))
            }));
        }
        failures.extend(measured.filter_map(|flow| {
            let stalled_s = number(flow, "stream.stalls.total_s")?;
            let from_s = number(flow, "start_s")?.max(self.warmup_s);
            let share = stalled_s / (number(flow, "stop_s")? - from_s);
            let is_stalled = share > MOST_STALLED;
            is_stalled.then(|| format!("{} stalls {:.0} % of its time", name(flow), share * 100.0))
        }));
        failures
    }

    /// Bits of application data per second of the whole measured time, of these flows together.
    fn goodput_bps(&self, flows: &[&Value]) -> Result<f64, String> {
        let mut bits = 0.0;
        for flow in flows {
            let mut reduced = reduced(series(flow, "goodput_bps", None)?, Reduce::Sum);
            reduced.from_s = self.warmup_s;
            let samples = reduced.selection.read(self.record)?;
            bits += reduced.value(&samples[0], None).unwrap_or(0.0) * samples[0].bin_s;
        }
        Ok(bits / (self.duration_s - self.warmup_s))
    }

    /// Standard deviation over mean of the rate in bins that lie in a flow's active time.
    fn cov(&self, flow: &Value, bin_s: f64) -> Result<Option<f64>, String> {
        let mut reduced = reduced(series(flow, "rate_bps", Some(bin_s))?, Reduce::Cov);
        let time = |key| number(flow, key).ok_or_else(|| format!("a flow has no {key}"));
        reduced.from_s = self.warmup_s.max(time("start_s")?);
        reduced.to_s = time("stop_s")?;
        // Fewer than two bins do not vary.
        if reduced.to_s - reduced.from_s < 2.0 * bin_s {
            return Ok(None);
        }
        let samples = reduced.selection.read(self.record)?;
        Ok(reduced.value(&samples[0], None))
    }
}

fn number(value: &Value, path: &str) -> Option<f64> {
    descend(value, path)?.as_f64()
}

/// The numbers that `path` leads to, of those that have one.
fn numbers(values: &[&Value], path: &str) -> Vec<f64> {
    let numbers = values.iter().filter_map(|value| number(value, path));
    numbers.collect()
}

fn name(flow: &Value) -> &str {
    flow["name"].as_str().unwrap_or_default()
}

/// Points of a line over time; more would not show.
const POINTS: f64 = 40.0;

/// Bits per second of IP packets of the measured flows together, over time.
pub(crate) fn rate(case: &Case, record: &Record) -> Result<Samples, String> {
    let outcome = Outcome::new(case, record)?;
    let mut total: Option<Samples> = None;
    for flow in outcome.measured {
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

fn series(flow: &Value, field: &str, bin_s: Option<f64>) -> Result<Selection, String> {
    Selection::new(&format!("flows.{}.{field}", name(flow)), None, bin_s)
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

/// Aims that have no value, or next to nothing of what is fair.
fn starved(aims: &Aims, figures: &Figures) -> Vec<String> {
    let failed = aims.keys().filter_map(|figure| {
        let value = figures.get(figure);
        match (figure, value) {
            (_, None) => Some(format!("{} has no value", figure.key())),
            (Figure::Share, Some(share)) if *share < STARVED => {
                Some(format!("it has {share:.2} of its share"))
            }
            (Figure::Others, Some(share)) if *share < STARVED => {
                Some(format!("the others have {share:.2} of theirs"))
            }
            _ => None,
        }
    });
    failed.collect()
}

/// The geometric mean of the aims' marks: docs/league.md. A figure without a value has none.
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
    use serde_json::json;

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

    #[test]
    fn flows_that_die_starve_among_their_own_or_stand_still_fail_a_network() {
        let flow = |name: &str, mbps: f64, stalled_s: f64, error: Option<&str>| {
            json!({
                "name": name, "throughput_bps": mbps * 1e6, "start_s": 5.0, "stop_s": 60.0,
                "error": error, "stream": { "stalls": { "total_s": stalled_s } },
            })
        };
        let flows = [
            flow("one", 2.0, 2.0, None),
            // 5 % of 40 s are not too many.
            flow("two", 0.44, 2.1, Some("timed out")),
            flow("three", 5.0, 0.0, None),
        ];
        let record = Record {
            experiment: String::new(),
            group: String::new(),
            axes: BTreeMap::new(),
            seed: 1,
            build: crate::Build::of_executable(std::path::Path::new("/dev/null")).unwrap(),
            command: String::new(),
            result: Value::Null,
            series: Value::Null,
        };
        let outcome = Outcome {
            record: &record,
            measured: flows.iter().collect(),
            others: Vec::new(),
            links: Vec::new(),
            duration_s: 60.0,
            warmup_s: 20.0,
        };
        let failures = outcome.failures(&Aims::from([(Figure::Jain, 0.95)]));
        let [died, starved, stalled] = [
            "two died: timed out",
            "two has 0.18 of the flows' mean",
            "two stalls 5 % of its time",
        ];
        assert_eq!(failures, [died, starved, stalled]);
        assert_eq!(outcome.failures(&Aims::new()), [died, stalled]);
    }

    #[test]
    fn who_has_less_than_a_quarter_of_what_is_fair_is_starved_if_a_case_asks_for_a_share() {
        let all = [Figure::Share, Figure::Others, Figure::CompletionS];
        let aims = |of: &[Figure]| of.iter().map(|figure| (*figure, 0.9)).collect::<Aims>();
        let figures = |share: f64, others: f64| {
            let both = [(Figure::Share, share), (Figure::Others, others)];
            Figures::from(both)
        };
        let shares = aims(&all[..2]);
        assert!(starved(&shares, &figures(0.25, 0.25)).is_empty());
        assert_eq!(
            starved(&shares, &figures(0.24, 0.1)),
            ["it has 0.24 of its share", "the others have 0.10 of theirs"]
        );
        assert_eq!(
            starved(&aims(&all[2..]), &figures(0.1, 0.1)),
            ["completion_s has no value"]
        );
    }
}
