//! A figure or table of a paper, drawn from our runs.

use std::collections::BTreeMap;

use super::dataset::Dataset;
use super::experiment::Experiment;
use super::expression::Expression;
use super::file::{FigureFile, FigureKind};
use super::matrix::{Extent, Point};
use super::metric::{Path, Samples, Selection};
use super::place::{self, Spread};

/// A figure, checked.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) figure: String,
    pub(super) title: String,
    pub(super) y_label: String,
    pub(super) note: Option<String>,
    content: Content,
}

#[derive(Debug, Clone)]
enum Content {
    Graph(Graph),
    Time {
        series: Vec<TimeSeries>,
        from_s: f64,
        to_s: Option<f64>,
        y_from: Option<f64>,
    },
}

#[derive(Debug, Clone)]
struct Graph {
    kind: FigureKind,
    x: String,
    x_label: String,
    x_log: bool,
    y_from: Option<f64>,
    lines: Vec<LineOf>,
    paper: BTreeMap<String, Vec<f64>>,
    ns2: BTreeMap<String, Vec<f64>>,
}

/// A line of a graph before its values along x are known.
#[derive(Debug, Clone)]
struct LineOf {
    name: String,
    title: String,
    from: Point,
    y: Expression,
}

#[derive(Debug, Clone)]
struct TimeSeries {
    label: Option<String>,
    selection: Selection,
    divide_by: f64,
    point: Point,
}

/// What is drawn.
#[derive(Debug, Clone)]
pub(super) enum Drawing {
    /// Values against an axis.
    Graph(GraphDrawing),
    /// Values over time.
    Time(TimeDrawing),
}

#[derive(Debug, Clone)]
pub(super) struct GraphDrawing {
    pub(super) kind: FigureKind,
    pub(super) x_label: String,
    pub(super) x_log: bool,
    pub(super) y_from: Option<f64>,
    /// The axis' values as people read them.
    pub(super) x_titles: Vec<String>,
    /// The same as numbers, if all of them are.
    pub(super) x_numbers: Option<Vec<f64>>,
    pub(super) lines: Vec<Line>,
}

/// A line of a graph: ours, the paper's and ns-2's values, for each value of x.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) title: String,
    pub(super) ours: Vec<Option<Spread>>,
    pub(super) paper: Vec<Option<f64>>,
    pub(super) ns2: Vec<Option<f64>>,
}

#[derive(Debug, Clone)]
pub(super) struct TimeDrawing {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) y_from: Option<f64>,
    pub(super) lines: Vec<Samples>,
}

impl Figure {
    pub(super) fn new(file: FigureFile, experiment: &Experiment) -> Result<Self, String> {
        let content = if file.kind == FigureKind::Time {
            time(&file, experiment)?
        } else {
            Content::Graph(Graph::new(&file, experiment)?)
        };
        Ok(Self {
            figure: file.figure,
            title: file.title,
            y_label: file.y_label,
            note: file.note,
            content,
        })
    }

    /// The series that it reads.
    pub(super) fn series(&self) -> Vec<&Path> {
        match &self.content {
            Content::Graph(_) => Vec::new(),
            Content::Time { series, .. } => series.iter().map(|one| &one.selection.path).collect(),
        }
    }

    /// The figure from the runs that there are; `None` if there is nothing to draw.
    pub(super) fn draw(&self, data: &Dataset<'_>) -> Result<Option<Drawing>, String> {
        match &self.content {
            Content::Graph(graph) => Ok(graph.draw(data).map(Drawing::Graph)),
            Content::Time {
                series,
                from_s,
                to_s,
                y_from,
            } => {
                let mut lines = Vec::new();
                for one in series {
                    // Several seeds over one another could not be read: the first stands for all.
                    let seed = data.seeds(&one.point).first().copied();
                    if let Some(record) = seed.and_then(|seed| data.record(&one.point, seed)) {
                        lines.extend(one.lines(record)?);
                    }
                }
                let ends = lines
                    .iter()
                    .map(|line| line.bin_s * line.values.len() as f64);
                let end = ends.fold(0.0, f64::max);
                Ok((!lines.is_empty()).then(|| {
                    Drawing::Time(TimeDrawing {
                        from_s: *from_s,
                        to_s: to_s.unwrap_or(end),
                        y_from: *y_from,
                        lines,
                    })
                }))
            }
        }
    }
}

fn time(file: &FigureFile, experiment: &Experiment) -> Result<Content, String> {
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
    let base = place::point(experiment, &file.at)?;
    let series = file.series.iter().map(|one| {
        let point = place::moved(experiment, &base, &one.at)?;
        if !experiment.has_run(&point, Extent::Full) {
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
    Ok(Content::Time {
        series: series.collect::<Result<_, _>>()?,
        from_s,
        to_s: file.to_s,
        y_from: file.y_from,
    })
}

impl TimeSeries {
    fn lines(&self, record: &super::store::Record) -> Result<Vec<Samples>, String> {
        let mut lines = self.selection.read(record)?;
        let several = lines.len() > 1;
        for line in &mut lines {
            for value in line.values.iter_mut().flatten() {
                *value /= self.divide_by;
            }
            line.name = match &self.label {
                Some(label) if several => format!("{label} {}", line.name),
                Some(label) => label.clone(),
                None => line.name.clone(),
            };
        }
        Ok(lines)
    }
}

impl Graph {
    fn new(file: &FigureFile, experiment: &Experiment) -> Result<Self, String> {
        if !file.series.is_empty() || file.from_s.is_some() || file.to_s.is_some() {
            return Err("series, from_s and to_s need kind = \"time\"".into());
        }
        let x = file.x.clone().ok_or("it needs x, an axis")?;
        let x_values = place::values(experiment, &x)?;
        let base = place::point(experiment, &file.at)?;
        let has_runs = |line: &LineOf| {
            x_values.iter().any(|value| {
                let point = line.from.with(&x, value);
                place::has_runs(experiment, &[&line.y], &point, Extent::Full)
            })
        };
        let lines = LineOf::all(file, experiment, &base)?;
        let lines: Vec<LineOf> = lines.into_iter().filter(has_runs).collect();
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
        Ok(Self {
            kind: file.kind,
            x_label: file.x_label.clone().unwrap_or_else(|| x.clone()),
            x,
            x_log: file.x_log,
            y_from: file.y_from,
            lines,
            paper: file.paper.clone(),
            ns2: file.ns2.clone(),
        })
    }

    fn draw(&self, data: &Dataset<'_>) -> Option<GraphDrawing> {
        let experiment = data.experiment;
        let all = place::values(experiment, &self.x).expect("it was checked when it was read");
        // What was not run has no place on the axis.
        let ours: Vec<Vec<Option<Spread>>> = self
            .lines
            .iter()
            .map(|line| {
                let points = all.iter().map(|value| line.from.with(&self.x, value));
                let values = points.map(|point| Spread::at(data, &line.y, &point));
                values.collect()
            })
            .collect();
        let there = |index: &usize| ours.iter().any(|line| line[*index].is_some());
        let places: Vec<usize> = (0..all.len()).filter(there).collect();
        if places.is_empty() {
            return None;
        }
        let given = |from: &BTreeMap<String, Vec<f64>>, line: &LineOf| {
            let values = from.get(&line.name);
            let at = |index: &usize| values.map(|all| all[*index]).filter(|v| v.is_finite());
            places.iter().map(at).collect()
        };
        let lines = self.lines.iter().zip(&ours).map(|(line, ours)| Line {
            title: line.title.clone(),
            ours: places.iter().map(|index| ours[*index]).collect(),
            paper: given(&self.paper, line),
            ns2: given(&self.ns2, line),
        });
        let title = |index: &usize| experiment.value_title(&self.x, &all[*index]).to_owned();
        Some(GraphDrawing {
            kind: self.kind,
            x_label: self.x_label.clone(),
            x_log: self.x_log,
            y_from: self.y_from,
            x_titles: places.iter().map(title).collect(),
            x_numbers: places
                .iter()
                .map(|index| all[*index].parse().ok())
                .collect(),
            lines: lines.collect(),
        })
    }
}

impl LineOf {
    /// The lines: one for each value of the axis `lines`, each of the curves, or a single one.
    fn all(file: &FigureFile, experiment: &Experiment, base: &Point) -> Result<Vec<Self>, String> {
        match (&file.y, &file.lines) {
            (Some(y), Some(axis)) if file.curves.is_empty() => {
                let y = place::expression(experiment, y)?;
                let values = place::values(experiment, axis)?.into_iter();
                let lines = values.map(|value| Self {
                    title: experiment.value_title(axis, &value).to_owned(),
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
                y: place::expression(experiment, y)?,
            }]),
            (None, None) if !file.curves.is_empty() => {
                let curves = file.curves.iter().map(|curve| {
                    Ok(Self {
                        name: curve.label.clone(),
                        title: curve.label.clone(),
                        from: base.clone(),
                        y: place::expression(experiment, &curve.y)?,
                    })
                });
                curves.collect()
            }
            _ => Err("it needs y, with or without lines, or curves".into()),
        }
    }
}
