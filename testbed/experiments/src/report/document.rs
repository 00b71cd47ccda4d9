//! The contents of `report.json`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::claim::{Claim, Finding, PointValues, Verdict};
use super::super::file::Stated;
use super::super::place::Spread;
use super::super::store::{Build, Plan};
use super::command::Commands;
use super::{Report, Section};

/// All claims and what came of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
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

/// The fields of `report.json`, in order.
const FIELDS: [&str; 9] = [
    "command",
    "plan",
    "kernel_plan",
    "builds",
    "taken_over",
    "claims",
    "not_run",
    "kernel",
    "runs",
];

impl Document {
    /// What came out, without what is taken over.
    pub(super) fn new(report: &Report) -> Self {
        let mut document = Self {
            command: report.command.clone(),
            plan: report.plan.clone(),
            kernel_plan: report.kernel.clone(),
            builds: report.builds.clone(),
            taken_over: Vec::new(),
            claims: Vec::new(),
            not_run: Vec::new(),
            kernel: report.sections.iter().flat_map(KernelRow::all).collect(),
            runs: report.sections.iter().map(RunsRow::new).collect(),
        };
        for section in &report.sections {
            for (index, claim) in section.experiment.claims.iter().enumerate() {
                let finding = &section.findings[index];
                let kernel = section.kernel.as_ref();
                let kernel = kernel.map(|kernel| &kernel.findings[index]);
                match finding.verdict {
                    Some(verdict) => {
                        let row = ClaimRow::new(section, claim, (finding, verdict), kernel);
                        document.claims.push(row);
                    }
                    None => document.not_run.push(NotRun {
                        experiment: section.experiment.id.clone(),
                        figure: claim.figure.clone(),
                        claim: claim.text.clone(),
                    }),
                }
            }
        }
        document
    }

    /// As `report.json` holds it: an element of a list on each line.
    pub(super) fn json(&self) -> String {
        let Ok(Value::Object(fields)) = serde_json::to_value(self) else {
            unreachable!("a document is an object with string keys");
        };
        let rows = |name: &str| -> Vec<String> {
            match name {
                "claims" => self.claims.iter().map(line).collect(),
                "kernel" => self.kernel.iter().map(line).collect(),
                "runs" => self.runs.iter().map(line).collect(),
                _ => fields[name]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(line)
                    .collect(),
            }
        };
        let fields = FIELDS.iter().map(|name| {
            let text = match &fields[*name] {
                Value::Array(all) if !all.is_empty() => format!("[\n{}\n]", rows(name).join(",\n")),
                other => line(other),
            };
            format!("{name:?}: {text}")
        });
        let fields: Vec<String> = fields.collect();
        format!("{{\n{}\n}}\n", fields.join(",\n"))
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
        self.builds.sort();
        self.builds.dedup();
        let ids = earlier.runs.iter().map(|row| row.experiment.clone());
        self.taken_over = ids.collect();
        self.claims.extend(earlier.claims.iter().cloned());
        self.not_run.extend(earlier.not_run.iter().cloned());
        self.kernel.extend(earlier.kernel.iter().cloned());
        self.runs.extend(earlier.runs.iter().cloned());
        // Stable: claims stay in the order of their experiments' files.
        self.claims.sort_by(|a, b| a.experiment.cmp(&b.experiment));
        self.not_run.sort_by(|a, b| a.experiment.cmp(&b.experiment));
        self.kernel.sort_by(|a, b| a.experiment.cmp(&b.experiment));
        self.runs.sort_by(|a, b| a.experiment.cmp(&b.experiment));
    }
}

impl ClaimRow {
    fn new(
        section: &Section,
        claim: &Claim,
        (finding, verdict): (&Finding, Verdict),
        kernel: Option<&Finding>,
    ) -> Self {
        let several = finding.values.len() > 1;
        let labels = |of: fn(&PointValues) -> bool| -> Vec<String> {
            let values = finding.values.iter().filter(|values| several && of(values));
            values.map(|values| values.point.label()).collect()
        };
        Self {
            paper: section.experiment.paper().to_owned(),
            experiment: section.experiment.id.clone(),
            figure: claim.figure.clone(),
            claim: claim.text.clone(),
            paper_value: stated(claim.paper.as_ref()),
            ns2_value: stated(claim.ns2.as_ref()),
            criterion: claim.criterion(),
            terms: claim.terms(),
            value: shaped(&finding.values, median),
            spread: shaped(&finding.values, ends),
            points: labels(|_| true),
            fails_at: labels(|values| !values.holds),
            verdict,
            reason: finding.reason.clone(),
            value_without_cause: shaped(&finding.without_cause, median),
            commands: Commands::group(&finding.commands),
            kernel_value: kernel.map_or(Value::Null, |kernel| shaped(&kernel.values, median)),
            kernel_verdict: kernel.and_then(|kernel| kernel.verdict),
        }
    }
}

impl KernelRow {
    fn all(section: &Section) -> Vec<Self> {
        let comparisons = section.kernel.iter().flat_map(|kernel| &kernel.comparisons);
        let value =
            |spread: Option<Spread>, of: fn(Spread) -> Value| spread.map_or(Value::Null, of);
        let rows = comparisons.map(|comparison| Self {
            experiment: section.experiment.id.clone(),
            run: comparison.run.clone(),
            metric: comparison.metric.clone(),
            simulated: value(comparison.simulated, median),
            simulated_spread: value(comparison.simulated, ends),
            kernel: value(comparison.kernel, median),
            kernel_spread: value(comparison.kernel, ends),
            difference_percent: comparison
                .difference
                .map_or(Value::Null, |share| number(100.0 * share)),
            notable: comparison.is_notable(),
            reason: comparison.reason.clone(),
        });
        rows.collect()
    }
}

impl RunsRow {
    fn new(section: &Section) -> Self {
        let errors = section.runs.iter().flat_map(|run| {
            let errors = run.errors.iter();
            errors.map(|error| format!("{}: {error}", run.label))
        });
        let commands = section.runs.iter().map(|run| run.command.clone());
        let commands: Vec<String> = commands.collect();
        Self {
            experiment: section.experiment.id.clone(),
            title: section.experiment.title.clone(),
            source: section.experiment.source.clone(),
            made: section.runs.len(),
            missing: section.missing,
            seeds: section.seeds,
            open: section.experiment.open.clone(),
            commands: Commands::group(&commands),
            errors: errors.collect(),
        }
    }
}

fn line(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("string keys only")
}

fn median(spread: Spread) -> Value {
    number(spread.median)
}

fn ends(spread: Spread) -> Value {
    json!([number(spread.least), number(spread.greatest)])
}

/// One value, or a list of them, per point; a list of points if there are several.
fn shaped(points: &[PointValues], of: impl Fn(Spread) -> Value) -> Value {
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

fn stated(stated: Option<&Stated>) -> Value {
    match stated {
        None => Value::Null,
        Some(Stated::Number(value)) => number(*value),
        Some(Stated::Numbers(values)) => values.iter().map(|value| number(*value)).collect(),
        Some(Stated::Words(words)) => Value::String(words.clone()),
    }
}

/// Six digits: more would be noise.
fn number(value: f64) -> Value {
    let text = format!("{value:.5e}");
    let rounded: f64 = text.parse().unwrap_or(value);
    json!(rounded)
}
