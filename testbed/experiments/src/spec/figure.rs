//! A figure or table of a paper: what is drawn, at which points.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::axes::Place;
use super::expression::Expression;
use super::metric::{Across, Selection};
use super::runs::{Extent, Point};
use super::scope::Scope;

/// `[[figures]]` as it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FigureFile {
    pub(crate) figure: String,
    pub(crate) title: String,
    #[serde(default)]
    pub(crate) kind: FigureKind,
    #[serde(default)]
    pub(crate) at: Place,
    pub(crate) x: Option<String>,
    pub(crate) x_label: Option<String>,
    #[serde(default)]
    pub(crate) x_log: bool,
    pub(crate) y: Option<String>,
    #[serde(default)]
    pub(crate) y_label: String,
    pub(crate) y_from: Option<f64>,
    pub(crate) lines: Option<String>,
    #[serde(default)]
    pub(crate) curves: Vec<CurveFile>,
    #[serde(default)]
    pub(crate) series: Vec<SeriesFile>,
    pub(crate) from_s: Option<f64>,
    pub(crate) to_s: Option<f64>,
    #[serde(default)]
    pub(crate) paper: BTreeMap<String, Vec<f64>>,
    #[serde(default)]
    pub(crate) ns2: BTreeMap<String, Vec<f64>>,
    pub(crate) note: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FigureKind {
    #[default]
    Lines,
    Bars,
    Table,
    Time,
}

/// One line of a figure, as an expression of its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CurveFile {
    pub(crate) label: String,
    pub(crate) y: String,
}

/// Lines over time.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SeriesFile {
    pub(crate) of: String,
    pub(crate) label: Option<String>,
    #[serde(default)]
    pub(crate) at: Place,
    pub(crate) across: Option<Across>,
    pub(crate) bin_s: Option<f64>,
    pub(crate) divide_by: Option<f64>,
}

/// A figure, checked.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    pub(crate) file: FigureFile,
    pub(crate) content: Content,
}

/// The lines of a figure.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// Values along the axis `x`.
    Graph { x: String, lines: Vec<LineOf> },
    /// Values over time.
    Time(Vec<TimeSeries>),
}

/// A line of a graph before its values along x are known.
#[derive(Debug, Clone)]
pub(crate) struct LineOf {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) from: Point,
    pub(crate) y: Expression,
}

/// Lines over time before their values are known.
#[derive(Debug, Clone)]
pub(crate) struct TimeSeries {
    pub(crate) label: Option<String>,
    pub(crate) selection: Selection,
    pub(crate) divide_by: f64,
    pub(crate) point: Point,
}

impl Figure {
    /// Checks a figure.
    pub(crate) fn new(file: FigureFile, scope: &Scope) -> Result<Self, String> {
        let content = match file.kind {
            FigureKind::Time => Content::Time(series(&file, scope)?),
            FigureKind::Lines | FigureKind::Bars | FigureKind::Table => {
                let (x, lines) = graph(&file, scope)?;
                Content::Graph { x, lines }
            }
        };
        Ok(Self { file, content })
    }

    /// The paths of the series that it reads.
    pub(crate) fn series(&self) -> Vec<&str> {
        match &self.content {
            Content::Graph { .. } => Vec::new(),
            Content::Time(series) => series
                .iter()
                .map(|one| one.selection.path.text.as_str())
                .collect(),
        }
    }
}

fn series(file: &FigureFile, scope: &Scope) -> Result<Vec<TimeSeries>, String> {
    let graph_only = file.x.is_some()
        || file.x_label.is_some()
        || file.y.is_some()
        || file.lines.is_some()
        || file.x_log
        || !file.curves.is_empty()
        || !file.paper.is_empty()
        || !file.ns2.is_empty();
    if graph_only || file.series.is_empty() {
        return Err("kind = \"time\" takes series, from_s and to_s, and none of x, y, lines, curves, paper and ns2".into());
    }
    let base = scope.point(&file.at)?;
    let series = file.series.iter().map(|one| {
        let point = scope.moved(&base, &one.at)?;
        if !scope.has_run(&point, Extent::Full) {
            return Err("no [[runs]] have the point of a series; name every axis in at".to_owned());
        }
        let divide_by = one.divide_by.unwrap_or(1.0);
        if !(divide_by > 0.0 && divide_by.is_finite()) {
            return Err("divide_by must be positive".into());
        }
        Ok(TimeSeries {
            label: one.label.clone(),
            selection: Selection::new(&one.of, one.across, one.bin_s)?,
            divide_by,
            point,
        })
    });
    let from_s = file.from_s.unwrap_or(0.0);
    if file
        .to_s
        .is_some_and(|to_s| to_s.is_nan() || to_s <= from_s)
    {
        return Err("from_s must lie before to_s".into());
    }
    series.collect()
}

fn graph(file: &FigureFile, scope: &Scope) -> Result<(String, Vec<LineOf>), String> {
    if !file.series.is_empty() || file.from_s.is_some() || file.to_s.is_some() {
        return Err("series, from_s and to_s need kind = \"time\"".into());
    }
    let x = file.x.clone().ok_or("it needs x, an axis")?;
    let x_values = scope.values(&x)?;
    let base = scope.point(&file.at)?;
    let has_runs = |line: &LineOf| {
        x_values.iter().any(|value| {
            let point = line.from.with(&x, value);
            scope.has_runs(&[&line.y], &point, Extent::Full)
        })
    };
    let mut lines = LineOf::all(file, scope, &base)?;
    lines.retain(has_runs);
    if lines.is_empty() {
        return Err("no [[runs]] have its points; name every axis in at".into());
    }
    for (name, values) in file.paper.iter().chain(&file.ns2) {
        if values.len() != x_values.len() || !lines.iter().any(|line| line.name == *name) {
            return Err(format!(
                "the values given for {name:?} need a line of that name and one for each of the {} values of {x} (nan where there is none)",
                x_values.len()
            ));
        }
    }
    Ok((x, lines))
}

impl LineOf {
    /// The lines: one for each value of the axis `lines`, each of the curves, or a single one.
    fn all(file: &FigureFile, scope: &Scope, base: &Point) -> Result<Vec<Self>, String> {
        match (&file.y, &file.lines) {
            (Some(y), Some(axis)) if file.curves.is_empty() => {
                let y = scope.expression(y)?;
                let values = scope.values(axis)?.into_iter();
                let lines = values.map(|value| Self {
                    title: scope.value_title(axis, &value).to_owned(),
                    from: base.with(axis, &value),
                    name: value,
                    y: y.clone(),
                });
                Ok(lines.collect())
            }
            (Some(y), None) if file.curves.is_empty() => Ok(vec![Self {
                name: "all".into(),
                title: file.y_label.clone(),
                from: base.clone(),
                y: scope.expression(y)?,
            }]),
            (None, None) if !file.curves.is_empty() => {
                let curves = file.curves.iter().map(|curve| {
                    Ok(Self {
                        name: curve.label.clone(),
                        title: curve.label.clone(),
                        from: base.clone(),
                        y: scope.expression(&curve.y)?,
                    })
                });
                curves.collect()
            }
            _ => Err("it needs y, with or without lines, or curves".into()),
        }
    }
}
