//! What a paper claims, and the test that decides whether a value agrees with it.

use serde::Deserialize;

use super::axes::Place;
use super::expression::{Expression, number_text};
use super::runs::{Extent, Point};
use super::scope::{Each, Scope};

/// `[[claims]]` as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimFile {
    pub(crate) figure: String,
    pub(crate) claim: String,
    #[serde(default)]
    pub(crate) at: Place,
    #[serde(default)]
    pub(crate) each: Each,
    pub(crate) value: Option<String>,
    #[serde(default)]
    pub(crate) order: Vec<Tier>,
    #[serde(default)]
    pub(crate) slack: f64,
    pub(crate) paper: Option<Stated>,
    pub(crate) tolerance: Option<f64>,
    pub(crate) within: Option<f64>,
    pub(crate) at_least: Option<f64>,
    pub(crate) at_most: Option<f64>,
    pub(crate) ns2: Option<Stated>,
    pub(crate) note: Option<String>,
    pub(crate) differs: Option<DiffersFile>,
}

/// The cause that is named for a difference, and where it is absent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffersFile {
    pub(crate) reason: String,
    pub(crate) at: Place,
}

/// One place in an order, which several expressions may share.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum Tier {
    One(String),
    Several(Vec<String>),
}

/// What a paper or ns-2 says: a number, or words.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Stated {
    Number(f64),
    Numbers(Vec<f64>),
    Words(String),
}

/// A claim, checked.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) file: ClaimFile,
    /// Where it must hold.
    pub(crate) points: Vec<Point>,
    pub(crate) test: Test,
}

/// What is asked of our values.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// Between two bounds; a number of the paper and its tolerance are such.
    Between {
        value: Expression,
        least: f64,
        greatest: f64,
    },
    /// Every value of a tier is less than every one of the next, or greater by `slack` at most.
    Ordered {
        tiers: Vec<Vec<Expression>>,
        slack: f64,
    },
}

impl Claim {
    /// Checks a claim.
    pub(crate) fn new(file: ClaimFile, scope: &Scope) -> Result<Self, String> {
        let test = Test::new(&file, scope)?;
        let mut points = scope.points(scope.point(&file.at)?, &file.each)?;
        let runnable = |point: &Point| scope.has_runs(&test.expressions(), point, Extent::Full);
        points.retain(runnable);
        if points.is_empty() {
            return Err("no [[runs]] have the points that it needs; name every axis in at, each or brackets".into());
        }
        if let Some(differs) = &file.differs {
            let moved = points.iter().map(|point| scope.moved(point, &differs.at));
            if !moved.collect::<Result<Vec<_>, _>>()?.iter().any(runnable) {
                return Err("differs: no [[runs]] have the points that it names".to_owned());
            }
        }
        Ok(Self { file, points, test })
    }

    /// The points whose runs belong to the extent.
    pub(crate) fn planned(&self, scope: &Scope, extent: Extent) -> Vec<&Point> {
        let expressions = self.test.expressions();
        let points = self.points.iter();
        points
            .filter(|point| scope.has_runs(&expressions, point, extent))
            .collect()
    }
}

impl Test {
    fn new(file: &ClaimFile, scope: &Scope) -> Result<Self, String> {
        let bounds = file.at_least.is_some() || file.at_most.is_some();
        let margins = file.tolerance.is_some() || file.within.is_some();
        let Some(value) = &file.value else {
            if file.order.len() < 2 || bounds || margins {
                return Err(
                    "it needs a value with bounds, or an order of two and more without".into(),
                );
            }
            let tiers = file.order.iter().map(|tier| {
                let texts = match tier {
                    Tier::One(text) => std::slice::from_ref(text),
                    Tier::Several(texts) => texts,
                };
                let tier = texts.iter().map(|text| scope.expression(text));
                tier.collect::<Result<Vec<_>, _>>()
            });
            return Ok(Self::Ordered {
                tiers: tiers.collect::<Result<_, _>>()?,
                slack: file.slack,
            });
        };
        if !file.order.is_empty() || file.slack != 0.0 {
            return Err("value, or order with slack; not both".into());
        }
        let (least, greatest) = match (&file.paper, file.tolerance, file.within) {
            (Some(Stated::Number(paper)), Some(share), None) if !bounds => {
                let margin = share * paper.abs();
                (paper - margin, paper + margin)
            }
            (Some(Stated::Number(paper)), None, Some(margin)) if !bounds => {
                (paper - margin, paper + margin)
            }
            (_, None, None) if bounds => (
                file.at_least.unwrap_or(f64::NEG_INFINITY),
                file.at_most.unwrap_or(f64::INFINITY),
            ),
            _ => {
                return Err("it needs a number of the paper with tolerance or within, or at_least and at_most".into());
            }
        };
        if least.is_nan() || greatest.is_nan() || least > greatest {
            return Err("nothing lies between its bounds".into());
        }
        Ok(Self::Between {
            value: scope.expression(value)?,
            least,
            greatest,
        })
    }

    /// What is compared, in order.
    pub(crate) fn expressions(&self) -> Vec<&Expression> {
        match self {
            Self::Between { value, .. } => vec![value],
            Self::Ordered { tiers, .. } => tiers.iter().flatten().collect(),
        }
    }

    /// What is asked of the values, in words.
    pub(crate) fn criterion(&self) -> String {
        match self {
            Self::Between {
                least, greatest, ..
            } => match (least.is_finite(), greatest.is_finite()) {
                (true, true) => format!("{} to {}", number_text(*least), number_text(*greatest)),
                (true, false) => format!("at least {}", number_text(*least)),
                _ => format!("at most {}", number_text(*greatest)),
            },
            Self::Ordered { tiers, slack } => {
                let tiers = tiers.iter().map(|tier| {
                    let texts: Vec<&str> = tier.iter().map(|term| term.text.as_str()).collect();
                    texts.join(", ")
                });
                let order = tiers.collect::<Vec<_>>().join(" < ");
                if *slack > 0.0 {
                    format!("{order} (to {})", number_text(*slack))
                } else {
                    order
                }
            }
        }
    }

    /// Whether these values of the expressions meet it.
    pub(crate) fn holds(&self, medians: &[f64]) -> bool {
        match self {
            Self::Between {
                least, greatest, ..
            } => medians
                .iter()
                .all(|value| (least..=greatest).contains(&value)),
            Self::Ordered { tiers, slack } => {
                let mut rest = medians;
                let mut before: Option<&[f64]> = None;
                tiers.iter().all(|tier| {
                    let (these, after) = rest.split_at(tier.len());
                    rest = after;
                    let lower = before.replace(these).unwrap_or(&[]);
                    let in_order = |a: &f64, b: &f64| a < b || (*slack > 0.0 && *a <= b + slack);
                    lower.iter().all(|a| these.iter().all(|b| in_order(a, b)))
                })
            }
        }
    }
}
