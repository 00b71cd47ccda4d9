//! The experiment file as it is written; docs/reproduce.md has all keys.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer};

use super::expression::number_text;

/// Axis names with one value each.
pub(super) type Place = BTreeMap<String, Word>;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentFile {
    pub(super) title: String,
    pub(super) source: String,
    /// Parameters that the paper leaves open, and how they were read.
    pub(super) open: Vec<String>,
    pub(super) scenario: String,
    #[serde(default)]
    pub(super) set: Vec<String>,
    #[serde(default)]
    pub(super) axes: BTreeMap<String, Vec<AxisEntry>>,
    pub(super) runs: Vec<GroupFile>,
    pub(super) metrics: BTreeMap<String, MetricFile>,
    pub(super) figures: Vec<FigureFile>,
    pub(super) claims: Vec<ClaimFile>,
    #[serde(default)]
    pub(super) kernel: KernelFile,
}

/// What of runs on the kernel stands beside those in virtual time.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelFile {
    /// Metrics to compare.
    #[serde(default)]
    pub(super) metrics: Vec<String>,
    /// Why a metric differs, by its name.
    #[serde(default)]
    pub(super) because: BTreeMap<String, String>,
}

/// A value of an axis: a word, or a table with a name and further fields.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum AxisEntry {
    Word(Word),
    Fields(BTreeMap<String, Word>),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupFile {
    #[serde(default = "main_group")]
    pub(super) name: String,
    #[serde(default)]
    pub(super) title: Option<String>,
    #[serde(default)]
    pub(super) scenario: Option<String>,
    #[serde(default)]
    pub(super) set: Vec<String>,
    #[serde(default)]
    pub(super) only: BTreeMap<String, Vec<Word>>,
    #[serde(default)]
    pub(super) quick: BTreeMap<String, Vec<Word>>,
    #[serde(default)]
    pub(super) quick_set: Vec<String>,
    /// How many seeds the full extent wants, at the points of `seeds_at`.
    #[serde(default = "one")]
    pub(super) seeds: u64,
    #[serde(default)]
    pub(super) seeds_at: BTreeMap<String, Vec<Word>>,
    /// The points that are also run on the kernel; none without it.
    #[serde(default)]
    pub(super) kernel: Option<BTreeMap<String, Vec<Word>>>,
}

fn one() -> u64 {
    1
}

fn main_group() -> String {
    "main".into()
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MetricFile {
    pub(super) of: Option<String>,
    pub(super) series: Option<String>,
    pub(super) formula: Option<String>,
    pub(super) across: Option<Across>,
    #[serde(default)]
    pub(super) idle_as_zero: bool,
    pub(super) bin_s: Option<f64>,
    pub(super) from_s: Option<f64>,
    pub(super) to_s: Option<f64>,
    pub(super) reduce: Option<Reduce>,
    pub(super) level: Option<String>,
    pub(super) band: Option<f64>,
}

/// How the values of several flows or links become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Across {
    Sum,
    Mean,
    Min,
    Max,
    Jain,
    WorstCase,
}

/// How a series becomes one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reduce {
    /// Of counts: how many in all.
    Sum,
    Mean,
    Sd,
    Cov,
    Min,
    Max,
    Last,
    /// Seconds until it first reaches the level.
    Rises,
    /// Seconds until it first is at or below the level.
    Falls,
    /// Seconds until it stays within the band around the level.
    Settles,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FigureFile {
    pub(super) figure: String,
    pub(super) title: String,
    #[serde(default)]
    pub(super) kind: FigureKind,
    #[serde(default)]
    pub(super) at: Place,
    #[serde(default)]
    pub(super) x: Option<String>,
    #[serde(default)]
    pub(super) x_label: Option<String>,
    #[serde(default)]
    pub(super) x_log: bool,
    #[serde(default)]
    pub(super) y: Option<String>,
    #[serde(default)]
    pub(super) y_label: String,
    #[serde(default)]
    pub(super) y_from: Option<f64>,
    #[serde(default)]
    pub(super) lines: Option<String>,
    #[serde(default)]
    pub(super) curves: Vec<CurveFile>,
    #[serde(default)]
    pub(super) series: Vec<SeriesFile>,
    #[serde(default)]
    pub(super) from_s: Option<f64>,
    #[serde(default)]
    pub(super) to_s: Option<f64>,
    #[serde(default)]
    pub(super) paper: BTreeMap<String, Vec<f64>>,
    #[serde(default)]
    pub(super) ns2: BTreeMap<String, Vec<f64>>,
    #[serde(default)]
    pub(super) note: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FigureKind {
    #[default]
    Lines,
    Bars,
    Table,
    Time,
}

/// One line of a figure, as an expression of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CurveFile {
    pub(super) label: String,
    pub(super) y: String,
}

/// Lines over time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SeriesFile {
    pub(super) of: String,
    #[serde(default)]
    pub(super) label: Option<String>,
    #[serde(default)]
    pub(super) at: Place,
    #[serde(default)]
    pub(super) across: Option<Across>,
    #[serde(default)]
    pub(super) bin_s: Option<f64>,
    #[serde(default)]
    pub(super) divide_by: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimFile {
    pub(super) figure: String,
    pub(super) claim: String,
    #[serde(default)]
    pub(super) at: Place,
    #[serde(default)]
    pub(super) each: Each,
    #[serde(default)]
    pub(super) value: Option<String>,
    #[serde(default)]
    pub(super) order: Vec<Tier>,
    #[serde(default)]
    pub(super) slack: f64,
    #[serde(default)]
    pub(super) paper: Option<Stated>,
    #[serde(default)]
    pub(super) tolerance: Option<f64>,
    #[serde(default)]
    pub(super) within: Option<f64>,
    #[serde(default)]
    pub(super) at_least: Option<f64>,
    #[serde(default)]
    pub(super) at_most: Option<f64>,
    #[serde(default)]
    pub(super) ns2: Option<Stated>,
    #[serde(default)]
    pub(super) note: Option<String>,
    #[serde(default)]
    pub(super) differs: Option<DiffersFile>,
}

/// A cause that is named, and where it is absent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DiffersFile {
    pub(super) reason: String,
    pub(super) at: Place,
}

/// The axes over whose values a claim holds: all values, or those that are listed.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Each {
    All(Vec<String>),
    Listed(BTreeMap<String, Vec<Word>>),
}

impl Default for Each {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

/// One place in an order, which several may share.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum Tier {
    One(String),
    Several(Vec<String>),
}

/// What a paper or ns-2 says: a number, or words.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum Stated {
    Number(f64),
    Numbers(Vec<f64>),
    Words(String),
}

/// A string or a number, as text; `1` and `1.0` are the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word(pub(super) String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Word;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a number")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Word, E> {
                Ok(Word(text.to_owned()))
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Word, E> {
                Ok(Word(number.to_string()))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Word, E> {
                Ok(Word(number_text(number)))
            }
        }
        deserializer.deserialize_any(Text)
    }
}
