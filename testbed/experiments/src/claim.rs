//! What a paper claims, and whether it came out.

use serde::{Deserialize, Serialize};

use super::dataset::{Dataset, needed};
use super::experiment::Experiment;
use super::expression::{Expression, number_text};
use super::file::{ClaimFile, Place, Stated, Tier};
use super::matrix::{Extent, Point};
use super::place::{self, Spread};

/// A claim, checked.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) figure: String,
    pub(super) text: String,
    pub(super) paper: Option<Stated>,
    pub(super) ns2: Option<Stated>,
    points: Vec<Point>,
    test: Test,
    note: Option<String>,
    differs: Option<Differs>,
}

/// The cause that is named for a difference, and where it is absent.
#[derive(Debug, Clone)]
struct Differs {
    reason: String,
    at: Place,
}

#[derive(Debug, Clone)]
enum Test {
    /// Between two bounds; a number of the paper and its tolerance are such.
    Between {
        value: Term,
        least: f64,
        greatest: f64,
    },
    /// Every value of a tier is less than every one of the next, or greater by `slack` at most.
    Ordered { tiers: Vec<Vec<Term>>, slack: f64 },
}

/// What is compared, and how the claim's author wrote it.
#[derive(Debug, Clone)]
struct Term {
    text: String,
    expression: Expression,
}

/// What came of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the paper says.
    Holds,
    /// Not as the paper says, for a reason that a run confirms.
    Differs,
    /// Not as the paper says.
    DoesNotHold,
}

/// A claim and what came out.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    /// `None` if runs that it needs were not made.
    pub(super) verdict: Option<Verdict>,
    pub(super) reason: Option<String>,
    /// The values at every point.
    pub(super) values: Vec<PointValues>,
    /// The same where the named cause is absent, if it differs.
    pub(super) without_cause: Vec<PointValues>,
    /// Commands of runs in which the named cause is absent.
    pub(super) commands: Vec<String>,
}

/// The values that a claim compares, at one point.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PointValues {
    pub(super) point: Point,
    /// One value, or those that are put in order.
    pub(super) values: Vec<Option<Spread>>,
    pub(super) holds: bool,
}

impl Claim {
    pub(super) fn new(file: ClaimFile, experiment: &Experiment) -> Result<Self, String> {
        let test = Test::new(&file, experiment)?;
        let base = place::point(experiment, &file.at)?;
        let points = place::points(experiment, &base, &file.each)?;
        let runnable =
            |point: &Point| place::has_runs(experiment, &test.expressions(), point, Extent::Full);
        let points: Vec<Point> = points.into_iter().filter(runnable).collect();
        if points.is_empty() {
            return Err("no [[runs]] have the points that it needs; name every axis in at, each or brackets".into());
        }
        let differs = file.differs.map(|differs| {
            let mut moved = points
                .iter()
                .map(|point| place::moved(experiment, point, &differs.at));
            let first = moved.next().transpose()?;
            let others = moved.collect::<Result<Vec<_>, _>>()?;
            if !first.iter().chain(&others).any(runnable) {
                return Err("differs: no [[runs]] have the points that it names".to_owned());
            }
            Ok(Differs {
                reason: differs.reason,
                at: differs.at,
            })
        });
        Ok(Self {
            figure: file.figure,
            text: file.claim,
            paper: file.paper,
            ns2: file.ns2,
            points,
            test,
            note: file.note,
            differs: differs.transpose()?,
        })
    }

    /// What is asked of our values, in words.
    pub(super) fn criterion(&self) -> String {
        self.test.criterion()
    }

    /// What the values at a point are of, as the claim's author wrote it.
    pub(super) fn terms(&self) -> Vec<String> {
        let terms = self.test.terms().into_iter();
        terms.map(|term| term.text.clone()).collect()
    }

    /// What comes of it with the runs that there are. All runs of the extent must be there.
    pub(super) fn judge(&self, data: &Dataset<'_>) -> Finding {
        let experiment = data.experiment;
        let expressions = self.test.expressions();
        let planned = self.planned(experiment, data.extent);
        let mut finding = Finding {
            verdict: None,
            reason: None,
            values: Vec::new(),
            without_cause: Vec::new(),
            commands: Vec::new(),
        };
        if planned.is_empty() || !planned.iter().all(|point| self.was_run(data, point)) {
            return finding;
        }
        finding.values = planned
            .iter()
            .map(|point| self.test.values(data, point))
            .collect();
        let failed: Vec<_> = finding
            .values
            .iter()
            .filter(|values| !values.holds)
            .collect();
        if failed.is_empty() {
            finding.verdict = Some(Verdict::Holds);
            return finding;
        }
        let Some(differs) = &self.differs else {
            finding.verdict = Some(Verdict::DoesNotHold);
            finding.reason = self.note.clone();
            return finding;
        };
        let mut explained = true;
        for values in failed {
            let without = place::moved(experiment, &values.point, &differs.at);
            let without = without.expect("it was checked when the claim was read");
            if self.was_run(data, &without) {
                let values = self.test.values(data, &without);
                explained &= values.holds;
                finding.without_cause.push(values);
                let command = expressions
                    .iter()
                    .flat_map(|expression| needed(experiment, expression, &without))
                    .find_map(|point| data.record(&point, 1));
                finding
                    .commands
                    .extend(command.map(|record| record.command.clone()));
            } else {
                explained = false;
            }
        }
        finding.verdict = Some(if explained {
            Verdict::Differs
        } else {
            Verdict::DoesNotHold
        });
        finding.reason = Some(if explained {
            differs.reason.clone()
        } else {
            let note = self
                .note
                .as_ref()
                .map_or(String::new(), |note| format!("{note} "));
            format!("{note}Not explained by this: {}", differs.reason)
        });
        finding
    }

    /// The points whose runs belong to the extent.
    fn planned(&self, experiment: &Experiment, extent: Extent) -> Vec<&Point> {
        let expressions = self.test.expressions();
        let points = self.points.iter();
        points
            .filter(|point| place::has_runs(experiment, &expressions, point, extent))
            .collect()
    }

    /// Whether it is judged when all runs of the extent are made.
    #[cfg(test)]
    pub(super) fn is_planned(&self, experiment: &Experiment, extent: Extent) -> bool {
        !self.planned(experiment, extent).is_empty()
    }

    fn was_run(&self, data: &Dataset<'_>, point: &Point) -> bool {
        let expressions = self.test.expressions();
        let mut needed = expressions
            .iter()
            .flat_map(|expression| needed(data.experiment, expression, point));
        needed.all(|point| {
            let mut seeds = data.planned_seeds(&point).into_iter();
            seeds.all(|seed| data.record(&point, seed).is_some())
        })
    }
}

impl Term {
    fn new(text: &str, experiment: &Experiment) -> Result<Self, String> {
        Ok(Self {
            text: text.to_owned(),
            expression: place::expression(experiment, text)?,
        })
    }
}

impl Test {
    fn new(file: &ClaimFile, experiment: &Experiment) -> Result<Self, String> {
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
                let tier = texts.iter().map(|text| Term::new(text, experiment));
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
            value: Term::new(value, experiment)?,
            least,
            greatest,
        })
    }

    fn terms(&self) -> Vec<&Term> {
        match self {
            Self::Between { value, .. } => vec![value],
            Self::Ordered { tiers, .. } => tiers.iter().flatten().collect(),
        }
    }

    fn expressions(&self) -> Vec<&Expression> {
        let terms = self.terms().into_iter();
        terms.map(|term| &term.expression).collect()
    }

    /// What is asked of the values, in words.
    fn criterion(&self) -> String {
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

    fn values(&self, data: &Dataset<'_>, point: &Point) -> PointValues {
        let expressions = self.expressions();
        let values: Vec<_> = expressions
            .iter()
            .map(|expression| Spread::at(data, expression, point))
            .collect();
        let medians: Option<Vec<f64>> = values
            .iter()
            .map(|value| Some(value.as_ref()?.median))
            .collect();
        PointValues {
            point: point.clone(),
            values,
            holds: medians.is_some_and(|medians| self.holds(&medians)),
        }
    }

    fn holds(&self, medians: &[f64]) -> bool {
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
