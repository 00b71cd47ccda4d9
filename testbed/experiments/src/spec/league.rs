//! The league's cases: the networks, what is measured on each and what is good there.
//! docs/league.md describes the files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::scenario::{Controllers, Scenario};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::axes::listed;
use super::random::{self, RANDOM};
use super::runs::{Point, Run, run_command};
use super::traces::{Bottleneck, Recording, Recordings, TRACES};
use super::variants::{self, Variant};

/// The groups of cases, in the order of the table, and their files.
const FILES: &[(&str, &str)] = &[
    ("clean", include_str!("../../league/clean.toml")),
    ("buffers", include_str!("../../league/buffers.toml")),
    ("loss", include_str!("../../league/loss.toml")),
    ("jitter", include_str!("../../league/jitter.toml")),
    ("wireless", include_str!("../../league/wireless.toml")),
    ("changes", include_str!("../../league/changes.toml")),
    ("policers", include_str!("../../league/policers.toml")),
    ("own-kind", include_str!("../../league/own-kind.toml")),
    ("beside", include_str!("../../league/beside.toml")),
    ("way-back", include_str!("../../league/way-back.toml")),
    ("start", include_str!("../../league/start.toml")),
    ("media", include_str!("../../league/media.toml")),
    ("routers", include_str!("../../league/routers.toml")),
    ("parking-lot", include_str!("../../league/parking-lot.toml")),
    (
        "combinations",
        include_str!("../../league/combinations.toml"),
    ),
    ("c4", include_str!("../../league/c4.toml")),
    ("c4-media", include_str!("../../league/c4-media.toml")),
    ("picoquic", include_str!("../../league/picoquic.toml")),
    ("bbr-draft", include_str!("../../league/bbr-draft.toml")),
    ("abba", include_str!("../../league/abba.toml")),
    ("pantheon", include_str!("../../league/pantheon.toml")),
    ("l4s", include_str!("../../league/l4s.toml")),
    (NEIGHBOURS, include_str!("../../league/neighbours.toml")),
    (FAST, include_str!("../../league/fast.toml")),
    (TUNING, include_str!("../../league/tuning.toml")),
];

/// The group with which keel was tuned.
const TUNING: &str = "tuning";

/// The group whose runs take many seconds of processor time each.
const FAST: &str = "fast";

/// The group beside Linux's own TCP, which virtual time does not have.
const NEIGHBOURS: &str = "neighbours";

/// Groups that belong to the league only if somebody asks for them.
const ASKED_FOR: [&str; 3] = [TUNING, FAST, NEIGHBOURS];

/// What a flow names as its controller if it is measured.
const MEASURED: &str = "measured";

/// What a flow names that takes the controller of the measured ones, and is not measured.
const SAME: &str = "same";

/// The controller of measured flows in the files that a league leaves for `run`.
const STANDARD: &str = "cubic";

/// The seeds with which `--quick` plays a case of which one seed hides much.
const CHAOTIC_SEEDS: u64 = 3;

/// The axis of a run whose value is the controller.
pub(crate) const CONTROLLER: &str = "controller";

/// Cases that make no sense. Displays as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeagueError {
    /// This group's file is wrong: cause and remedy.
    #[error("league/{0}.toml: {1}")]
    Invalid(String, String),
    /// The case of this id cannot be run, for this reason.
    #[error("case {0}: {1}")]
    Case(String, String),
    /// This folder or file has no recorded network: cause and remedy.
    #[error("{0}")]
    Traces(String),
    /// No controller can be varied like this: cause and remedy.
    #[error("{0}")]
    Variant(String),
    /// No case has this in its name; the groups are those listed.
    #[error("no case has {0:?} in its name; the groups are {1}")]
    NoMatch(String, String),
}

/// A raw figure of a run; docs/league.md defines each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "docs/league.md defines each once")]
pub enum Figure {
    Share,
    Others,
    QueueingP50Ms,
    QueueingP95Ms,
    QueueingP99Ms,
    #[serde(rename = "cov_100ms")]
    Cov100Ms,
    #[serde(rename = "cov_500ms")]
    Cov500Ms,
    #[serde(rename = "cov_5s")]
    Cov5S,
    Loss,
    Jain,
    CompletionS,
    FramesLate,
    FrameP95Ms,
    SoundMeanMs,
    SoundMaxMs,
    LowMeanMs,
    LowMaxMs,
    HighMeanMs,
    HighMaxMs,
    Stalls,
    StalledS,
}

/// Targets by figure.
pub(crate) type Aims = BTreeMap<Figure, f64>;

/// A group as its file describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupFile {
    title: String,
    about: String,
    #[serde(default)]
    aims: Aims,
    scenario: Table,
    cases: Vec<CaseFile>,
}

/// A case as its group's file describes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaseFile {
    name: String,
    /// What it models.
    pub(crate) models: String,
    /// Where that is from.
    pub(crate) source: String,
    /// What a good controller does there, in words.
    pub(crate) good: String,
    /// Instead of the group's.
    aims: Option<Aims>,
    /// Links whose queueing counts; the first of the scenario without it.
    #[serde(default)]
    pub(crate) links: Vec<String>,
    /// What the path can carry, where that is not the mean rate of the first of its links.
    pub(crate) capacity_bps: Option<f64>,
    /// Share of the capacity that is fair for the measured flows together.
    #[serde(default = "whole")]
    pub(crate) fair: f64,
    /// The same for the others together; without it they are not counted.
    pub(crate) others_fair: Option<f64>,
    /// One seed hides much here.
    #[serde(default)]
    pub(crate) chaotic: bool,
    /// Laid over the group's.
    #[serde(default)]
    scenario: Table,
}

fn whole() -> f64 {
    1.0
}

/// Cases of a kind.
#[derive(Debug, Clone, PartialEq)]
pub struct LeagueGroup {
    /// Name of its file.
    pub name: String,
    /// For people.
    pub title: String,
    /// What its cases have in common.
    pub about: String,
    /// At least one.
    pub cases: Vec<Case>,
}

/// A network, the traffic on it, and what is good there.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// `GROUP/NAME`.
    pub id: String,
    /// Its description, with the links that count.
    pub(crate) file: CaseFile,
    pub(crate) aims: Aims,
    /// Names of the measured `[[flows]]`.
    pub(crate) measured: Vec<String>,
    /// Controllers of the other flows.
    pub(crate) opponents: Vec<String>,
    /// The network of a group of [`recorded`] ones.
    pub(crate) recording: Option<Recording>,
    /// Where the flows with the measured controller stand among all.
    places: Vec<usize>,
    /// The scenario's file, with [`STANDARD`] as the measured flows' controller.
    text: String,
}

impl Figure {
    /// Whether a larger value is better; else a smaller one.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Self::Share | Self::Others | Self::Jain)
    }

    /// Its name in files.
    pub(crate) fn key(self) -> String {
        let name = serde_json::to_value(self).expect("a figure is a word");
        name.as_str().expect("a figure is a word").to_owned()
    }
}

/// The groups with those of their cases whose id contains one of `patterns`; all without patterns.
/// Only a pattern that begins with `tuning`, `fast` or `neighbours` finds that group, and only
/// `random/N` a network drawn at random.
///
/// # Errors
/// If a file makes no sense, or nothing matches a pattern.
pub fn league(patterns: &[String]) -> Result<Vec<LeagueGroup>, LeagueError> {
    let found = |id: &str, pattern: &str| match id.split_once('/') {
        Some((RANDOM, _)) => id == pattern,
        Some((group, _)) if ASKED_FOR.contains(&group) => {
            pattern.starts_with(group) && id.contains(pattern)
        }
        _ => !pattern.is_empty() && id.contains(pattern),
    };
    if patterns.is_empty() {
        return matching(&["/".to_owned()], found);
    }
    matching(patterns, found)
}

/// The networks drawn at random with these numbers, from 1; docs/league.md has the distributions.
///
/// # Errors
/// If one makes no sense, which a test rules out for the first thousand.
pub fn random(numbers: RangeInclusive<u64>) -> Result<LeagueGroup, LeagueError> {
    group(RANDOM, &random::file(numbers))
}

/// Recorded networks behind `bottleneck`.
///
/// # Errors
/// If one makes no sense.
pub fn recorded(
    recordings: &Recordings,
    bottleneck: &Bottleneck,
) -> Result<LeagueGroup, LeagueError> {
    let text = recordings.file(bottleneck).map_err(LeagueError::Traces)?;
    let mut group = group(TRACES, &text)?;
    for case in &mut group.cases {
        case.recording = recordings.get(&case.file.name).cloned();
    }
    Ok(group)
}

/// The variants of controllers without each of these parts, and with each of these constants scaled,
/// which are like `beta=x0.8,x1.25`; `all` stands for all of them.
///
/// # Errors
/// If a controller, which is from `controllers`, has no such switch.
pub fn variants(
    names: &[String],
    without: &[String],
    vary: &[String],
    controllers: &Controllers,
) -> Result<Vec<Variant>, LeagueError> {
    variants::variants(names, without, vary, controllers).map_err(LeagueError::Variant)
}

/// How many seeds a league with `all` seeds plays of a case.
pub(crate) fn seeds(all: u64, quick: bool, chaotic: bool) -> u64 {
    match quick && chaotic {
        true => CHAOTIC_SEEDS,
        false => all,
    }
}

/// The groups with exactly the cases that have these ids.
pub(crate) fn exactly(ids: &[String]) -> Result<Vec<LeagueGroup>, LeagueError> {
    matching(ids, |id, wanted| id == wanted)
}

/// The groups with the cases that match a pattern each; each pattern matches a case.
fn matching(
    patterns: &[String],
    found: impl Fn(&str, &str) -> bool,
) -> Result<Vec<LeagueGroup>, LeagueError> {
    let groups = FILES.iter().map(|(name, text)| group(name, text));
    let mut groups = groups.collect::<Result<Vec<_>, _>>()?;
    let drawn = patterns.iter().filter_map(|pattern| {
        let number = pattern.strip_prefix(RANDOM)?.strip_prefix('/')?;
        number.parse().ok().filter(|number| *number > 0)
    });
    let drawn: BTreeSet<u64> = drawn.collect();
    if !drawn.is_empty() {
        groups.push(group(RANDOM, &random::file(drawn))?);
    }
    for pattern in patterns {
        let mut cases = groups.iter().flat_map(|group| &group.cases);
        if !cases.any(|case| found(&case.id, pattern)) {
            let known = listed(FILES.iter().map(|(name, _)| name));
            return Err(LeagueError::NoMatch(pattern.clone(), known));
        }
    }
    for group in &mut groups {
        let wanted = |case: &Case| patterns.iter().any(|pattern| found(&case.id, pattern));
        group.cases.retain(wanted);
    }
    groups.retain(|group| !group.cases.is_empty());
    Ok(groups)
}

/// A group from its file.
pub(crate) fn group(name: &str, text: &str) -> Result<LeagueGroup, LeagueError> {
    let invalid = |message: String| {
        LeagueError::Invalid(name.to_owned(), message.trim_end().replace('\n', " "))
    };
    let file: GroupFile = toml::from_str(text).map_err(|error| invalid(error.to_string()))?;
    let GroupFile {
        aims,
        scenario: base,
        ..
    } = file;
    let cases = file.cases.into_iter().map(|case| {
        let id = format!("{name}/{}", case.name);
        Case::new(id.clone(), case, &aims, &base).map_err(|why| invalid(format!("{id}: {why}")))
    });
    Ok(LeagueGroup {
        name: name.to_owned(),
        title: file.title,
        about: file.about,
        cases: cases.collect::<Result<_, _>>()?,
    })
}

impl Case {
    fn new(id: String, mut file: CaseFile, aims: &Aims, base: &Table) -> Result<Self, String> {
        let aims = file.aims.clone().unwrap_or_else(|| aims.clone());
        if aims.is_empty()
            || aims
                .values()
                .any(|target| target.is_nan() || *target <= 0.0)
        {
            return Err("it needs aims, each with a target above 0".into());
        }
        let mut scenario = Value::Table(base.clone());
        lay_over(&mut scenario, Value::Table(file.scenario.clone()));
        let Value::Table(mut scenario) = scenario else {
            unreachable!("a table laid over a table is a table");
        };
        scenario.insert("name".into(), id.replace('/', "-").into());
        let (mut measured, mut places, mut opponents) = (Vec::new(), Vec::new(), Vec::new());
        let flows = scenario.get_mut("flows").and_then(Value::as_array_mut);
        for (place, flow) in flows.into_iter().flatten().enumerate() {
            match flow.get(CONTROLLER).and_then(Value::as_str) {
                Some(MEASURED) => {
                    let name = flow.get("name").and_then(Value::as_str);
                    measured.push(
                        name.ok_or("a measured flow has no name; add one")?
                            .to_owned(),
                    );
                }
                Some(SAME) => {}
                // A kernel's controllers are none of ours.
                _ if flow.get("app").and_then(Value::as_str) == Some("tcp") => continue,
                other => {
                    opponents.extend(other.map(str::to_owned));
                    continue;
                }
            }
            places.push(place);
            if let Some(flow) = flow.as_table_mut() {
                flow.insert(CONTROLLER.into(), STANDARD.into());
            }
        }
        if measured.is_empty() {
            return Err(format!(
                "no flow is measured; give one controller = {MEASURED:?}"
            ));
        }
        let first = scenario.get("links").and_then(|links| links.get(0));
        let first = first.and_then(|link| link.get("name")?.as_str());
        if file.links.is_empty() {
            let first = first.ok_or("its scenario has no link with a name; add one")?;
            file.links.push(first.to_owned());
        }
        let text = toml::to_string(&scenario).map_err(|error| error.to_string())?;
        Ok(Self {
            id,
            file,
            aims,
            measured,
            opponents,
            recording: None,
            places,
            text,
        })
    }

    /// The name of its scenario's file below the results, which `run` takes.
    pub fn file_name(&self) -> PathBuf {
        format!("cases/{}.toml", self.id.replace('/', "-")).into()
    }

    /// What that file holds: CUBIC stands for the controller.
    pub fn scenario(&self) -> String {
        let CaseFile { models, source, .. } = &self.file;
        format!("# {models}\n# Source: {source}\n{}", self.text)
    }

    /// How many seeds a league with `all` seeds plays of this case; a quick league plays three of a
    /// chaotic one.
    pub fn seeds(&self, all: u64, quick: bool) -> u64 {
        seeds(all, quick, self.file.chaotic)
    }

    /// Whether flows of other controllers share its network.
    pub(crate) fn has_others(&self) -> bool {
        !self.opponents.is_empty()
    }

    /// Makes one of its runs on `backend` alone, with a controller and a seed to choose.
    pub(crate) fn command(&self, backend: &str) -> String {
        let places = self.places.iter();
        let sets = places.map(|place| format!(" --set flows.{place}.{CONTROLLER}=CONTROLLER"));
        let command = run_command(&self.file_name(), backend);
        format!("{command}{} --seed SEED", sets.collect::<String>())
    }

    /// Its runs with each of `names` and the seeds 1 to `seeds`; the names are from `controllers`.
    ///
    /// # Errors
    /// If a name is unknown, or the scenario is wrong.
    pub fn runs(
        &self,
        names: &[String],
        seeds: u64,
        controllers: &Controllers,
    ) -> Result<Vec<Run>, LeagueError> {
        let mut runs = Vec::new();
        for name in names {
            for seed in 1..=seeds {
                let run = self.run(name, seed, controllers);
                runs.push(run.map_err(|why| LeagueError::Case(self.id.clone(), why))?);
            }
        }
        Ok(runs)
    }

    fn run(&self, name: &str, seed: u64, controllers: &Controllers) -> Result<Run, String> {
        let places = self.places.iter();
        let overrides: Vec<_> = places
            .map(|place| format!("flows.{place}.{CONTROLLER}={name}"))
            .collect();
        let mut all = overrides.clone();
        all.push(format!("seed={seed}"));
        let mut file = self.file_name();
        if let (Some(recording), Some(name)) = (&self.recording, file.file_name()) {
            file = recording.beside().join(name);
        }
        let file = file.display().to_string();
        let mut scenario = Scenario::parse_with(&self.scenario(), &file, &all, controllers)
            .map_err(|error| error.to_string())?;
        for trace in scenario.links.iter_mut().flat_map(|link| &mut link.trace) {
            if let Some(recording) = &self.recording {
                recording.share(trace);
            }
        }
        if !scenario.needs_kernel() {
            sim::check(&scenario, &sim::Options::default()).map_err(|error| error.to_string())?;
        }
        Ok(Run {
            experiment: self.id.clone(),
            point: Point {
                group: "main".into(),
                axes: [(CONTROLLER.to_owned(), name.to_owned())].into(),
            },
            seed,
            scenario_path: self.file_name(),
            overrides,
            scenario,
            kept_series: vec!["flows.*.rate_bps".into(), "flows.*.goodput_bps".into()],
        })
    }
}

/// Lays a table over another: tables key by key, arrays of tables element by element; any other
/// value replaces what was there.
fn lay_over(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Table(base), Value::Table(over)) => {
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(below) => lay_over(below, value),
                    None => {
                        base.insert(key, value);
                    }
                }
            }
        }
        (Value::Array(base), Value::Array(over)) if over.iter().all(Value::is_table) => {
            for (place, value) in over.into_iter().enumerate() {
                match base.get_mut(place) {
                    Some(below) => lay_over(below, value),
                    None => base.push(value),
                }
            }
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests;
