//! The contents of `report.json`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::command::Commands;
use crate::evaluate::claims::{PointValues, Verdict};
use crate::evaluate::dataset::Spread;
use crate::run::store::{Build, Plan};
use crate::spec::claim::Stated;

/// All claims and what came of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Version of evenkeel-testbed that made the runs that are not taken over.
    #[serde(default)]
    pub version: String,
    /// The commit that it was built from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The command that made the report.
    pub command: String,
    /// What was run.
    pub plan: Plan,
    /// What was run on the kernel beside it.
    pub kernel_plan: Option<Plan>,
    /// The programs that made the runs.
    pub builds: Vec<Build>,
    /// The ids of experiments that were taken over from an earlier report.
    #[serde(default)]
    pub taken_over: Vec<String>,
    /// Claims whose runs were made.
    pub claims: Vec<ClaimRow>,
    /// Claims whose runs were not made, or not all.
    pub not_run: Vec<NotRun>,
    /// Metrics in virtual time and on the kernel.
    pub kernel: Vec<KernelRow>,
    /// The runs, by experiment.
    pub runs: Vec<RunsRow>,
}

/// A claim and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// The paper.
    pub paper: String,
    /// The experiment's id.
    pub experiment: String,
    /// The figure or table.
    pub figure: String,
    /// What the paper says, in words.
    pub claim: String,
    /// The paper's number or words; null if it gives none.
    pub paper_value: Value,
    /// ns-2's; null if there is none.
    pub ns2_value: Value,
    /// What is asked of our value for the claim to hold.
    pub criterion: String,
    /// What is compared: expressions of the experiment.
    pub terms: Vec<String>,
    /// Ours, the median over seeds: a number, or one for each of `terms`, at each of `points`.
    pub value: Value,
    /// Least and greatest over seeds, in the shape of `value`.
    pub spread: Value,
    /// Where the claim was judged, if at several points.
    pub points: Vec<String>,
    /// Those of `points` where it does not hold.
    pub fails_at: Vec<String>,
    /// What came of it.
    pub verdict: Verdict,
    /// Why it differs, or what is known of why it does not hold.
    pub reason: Option<String>,
    /// Our values where the named cause is absent.
    pub value_without_cause: Value,
    /// Commands of runs in which the named cause is absent.
    pub commands: Vec<Commands>,
    /// The same claim judged on the kernel, in the shape of `value`; null if it was not run there.
    pub kernel_value: Value,
    /// What came of it there.
    pub kernel_verdict: Option<Verdict>,
}

/// A metric of one run in virtual time and on the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelRow {
    /// The experiment's id.
    pub experiment: String,
    /// The run.
    pub run: String,
    /// The metric, as the experiment calls it.
    pub metric: String,
    /// In virtual time, the median over seeds; null if it has no value there.
    pub simulated: Value,
    /// Least and greatest over seeds.
    pub simulated_spread: Value,
    /// On the kernel.
    pub kernel: Value,
    /// Least and greatest over seeds.
    pub kernel_spread: Value,
    /// In percent of the value in virtual time.
    pub difference_percent: Value,
    /// Whether the difference is above 5 %.
    pub notable: bool,
    /// Why it is.
    pub reason: Option<String>,
}

/// A claim whose runs were not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// The experiment's id.
    pub experiment: String,
    /// The figure or table.
    pub figure: String,
    /// What the paper says, in words.
    pub claim: String,
}

/// The runs of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsRow {
    /// The experiment's id.
    pub experiment: String,
    /// The version of evenkeel-testbed that made the runs.
    #[serde(default)]
    pub version: String,
    /// What it is about.
    pub title: String,
    /// Section and figures of the paper.
    pub source: String,
    /// Runs that were made.
    pub made: usize,
    /// Runs of the plan that were not.
    pub missing: usize,
    /// The most seeds that a run in virtual time was made with, from 1 on.
    pub seeds: u64,
    /// Parameters that the paper leaves open, and how they were read.
    pub open: Vec<String>,
    /// Each run's command.
    pub commands: Vec<Commands>,
    /// Flows that failed, with their runs.
    pub errors: Vec<String>,
}

impl Document {
    /// As `report.json` holds it: an element of a list on each line.
    pub(super) fn json(&self) -> String {
        let mut fields = vec![("version", line(&self.version))];
        fields.extend(self.commit.iter().map(|commit| ("commit", line(commit))));
        fields.extend([
            ("command", line(&self.command)),
            ("plan", line(&json!(self.plan))),
            ("kernel_plan", line(&json!(self.kernel_plan))),
            (
                "builds",
                lines(self.builds.iter().map(|build| json!(build))),
            ),
            ("taken_over", lines(&self.taken_over)),
            ("claims", lines(&self.claims)),
            ("not_run", lines(self.not_run.iter().map(|row| json!(row)))),
            ("kernel", lines(&self.kernel)),
            ("runs", lines(&self.runs)),
        ]);
        object(&fields)
    }

    /// Leaves only the experiments whose id is `wanted`.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.claims.retain(|row| wanted(&row.experiment));
        self.not_run.retain(|row| wanted(&row.experiment));
        self.kernel.retain(|row| wanted(&row.experiment));
        self.runs.retain(|row| wanted(&row.experiment));
    }

    /// Adds the experiments of an earlier report, of which this one has none.
    pub(super) fn take_over(&mut self, earlier: &Self) {
        self.plan.join(&earlier.plan);
        match (&mut self.kernel_plan, &earlier.kernel_plan) {
            (Some(ours), Some(theirs)) => ours.join(theirs),
            (ours @ None, theirs) if !earlier.kernel.is_empty() => ours.clone_from(theirs),
            _ => {}
        }
        self.builds.extend(earlier.builds.iter().cloned());
        let ids = earlier.runs.iter().map(|row| row.experiment.clone());
        self.taken_over = ids.collect();
        self.claims.extend(earlier.claims.iter().cloned());
        self.not_run.extend(earlier.not_run.iter().cloned());
        self.kernel.extend(earlier.kernel.iter().cloned());
        self.runs
            .extend(earlier.runs.iter().cloned().map(|mut row| {
                // Reports of 0.2.0 and before have one version for all.
                if row.version.is_empty() {
                    row.version.clone_from(&earlier.plan.build.version);
                }
                row
            }));
        // Experiments that were run again leave no other version behind.
        self.builds
            .retain(|build| self.runs.iter().any(|row| row.version == build.version));
        self.builds.sort();
        self.builds.dedup();
        // Stable: claims stay in the order of their experiments' files.
        self.claims.sort_by(|a, b| a.experiment.cmp(&b.experiment));
        self.not_run.sort_by(|a, b| a.experiment.cmp(&b.experiment));
        self.kernel.sort_by(|a, b| a.experiment.cmp(&b.experiment));
        self.runs.sort_by(|a, b| a.experiment.cmp(&b.experiment));
    }
}

/// An object with a field on each line, or on several.
pub(super) fn object(fields: &[(&str, String)]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, text)| format!("{name:?}: {text}"))
        .collect();
    format!("{{\n{}\n}}\n", fields.join(",\n"))
}

pub(super) fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("string keys only")
}

pub(super) fn lines(all: impl IntoIterator<Item = impl Serialize>) -> String {
    let lines: Vec<String> = all.into_iter().map(|one| line(&one)).collect();
    if lines.is_empty() {
        return "[]".into();
    }
    format!("[\n{}\n]", lines.join(",\n"))
}

/// The median of a number over seeds.
pub(super) fn median(spread: Spread) -> Value {
    number(spread.median)
}

/// The least and the greatest.
pub(super) fn ends(spread: Spread) -> Value {
    json!([number(spread.least), number(spread.greatest)])
}

/// One value, or a list of them, per point; a list of points if there are several.
pub(super) fn shaped(points: &[PointValues], of: impl Fn(Spread) -> Value) -> Value {
    let mut shaped: Vec<Value> = points
        .iter()
        .map(|point| {
            let mut values: Vec<Value> = point
                .values
                .iter()
                .map(|value| value.map_or(Value::Null, &of))
                .collect();
            match values.len() {
                1 => values.remove(0),
                _ => Value::Array(values),
            }
        })
        .collect();
    match shaped.len() {
        0 => Value::Null,
        1 => shaped.remove(0),
        _ => Value::Array(shaped),
    }
}

/// What a paper or ns-2 states; null for nothing.
pub(super) fn stated(stated: Option<&Stated>) -> Value {
    match stated {
        None => Value::Null,
        Some(Stated::Number(value)) => number(*value),
        Some(Stated::Numbers(values)) => values.iter().map(|value| number(*value)).collect(),
        Some(Stated::Words(words)) => Value::String(words.clone()),
    }
}

/// Six digits: more would be noise.
pub(super) fn number(value: f64) -> Value {
    let text = format!("{value:.5e}");
    let rounded: f64 = text.parse().unwrap_or(value);
    json!(rounded)
}
