//! Plots of a run as SVG: rates, windows and queues over time.

use std::collections::BTreeSet;

use super::document::timing;
use super::picture::{Axis, COLOURS, Line, Picture, Point, Style};
use crate::metrics::{
    self, FlowObservation, LinkObservation, Observations, PathSeries, SAMPLE, StreamSample,
};
use crate::scenario::{LinkIndex, Scenario};

/// Most points of a line: about as many as there are pixels.
const MAX_POINTS: usize = 800;

/// A link has a panel if its greatest queue is at least this share of the greatest of all.
const PANEL_SHARE: f64 = 0.1;

/// A link that could carry more than this many times what the fastest flow has is not drawn beside
/// it: the flows would lie on the axis.
const FAR: f64 = 4.0;

/// Points of a distribution, but for the first.
const CDF_STEPS: usize = 200;

/// Payload of a QUIC packet of the smallest full size, in bytes (RFC 9000 section 14).
const PACKET_BYTES: f64 = 1200.0;

/// Pictures with the names of their files.
pub(super) type Plots = Vec<(&'static str, Picture)>;

/// All plots with their file names; those of path headers and streams if there are any.
pub(super) fn all(scenario: &Scenario, observations: &Observations) -> Plots {
    let about = about(scenario);
    let chart = |name, y_label, panels| chart(scenario, &about, name, y_label, panels);
    let windows = flow_lines(scenario, observations, 0.0, |flow| {
        let states = flow.controller_state.iter();
        states
            .map(|state| state.map(|state| state.window as f64 / PACKET_BYTES))
            .collect()
    });
    let queues = queue_panels(scenario, observations);
    let mut plots = of_flows(scenario, observations, &about);
    let windows = chart("Congestion window", "packets of 1200 bytes", vec![windows]);
    plots.insert(1, ("window.svg", windows));
    plots.insert(2, ("queue.svg", chart("Queue", "packets", queues)));
    let lines =
        |values: fn(PathSeries) -> Vec<Option<f64>>| header_lines(scenario, observations, values);
    let there = lines(|series| series.forward_queueing_ms);
    let back = lines(|series| series.backward_queueing_ms);
    let panels: Vec<_> = there.into_iter().chain(back).collect();
    if !panels.is_empty() {
        let name = "Queueing on the way and on the way back, from path headers";
        plots.push(("queueing.svg", chart(name, "milliseconds", panels)));
    }
    let grants = lines(|series| {
        let grants = series.grant_bps.into_iter();
        grants
            .map(|bits| bits.map(|bits| bits as f64 / 1e6))
            .collect()
    });
    if let Some(grants) = grants {
        let chart = chart("Rate granted by routers", "Mb/s", vec![grants]);
        plots.push(("grant.svg", chart));
    }
    plots.extend(rtt_distribution(scenario, observations, &about).map(|cdf| ("rtt-cdf.svg", cdf)));
    plots
}

/// What the narrowest link that flows' data crosses can carry over time, unless that is far above
/// all `rates`.
fn capacity(scenario: &Scenario, observations: &Observations, rates: &[Line]) -> Option<Line> {
    let crossed: BTreeSet<LinkIndex> = scenario.ways().into_iter().flatten().collect();
    let specs = scenario.links.iter().enumerate();
    let reported = specs.filter(|(_, spec)| spec.reported);
    let mean_of = |link: &LinkObservation| {
        let known = link.capacity_series.iter().flatten();
        let known: Vec<f64> = known.map(|bps| *bps as f64).collect();
        (!known.is_empty()).then(|| mean(&known))
    };
    let crossed = reported
        .zip(&observations.links)
        .filter_map(|((index, _), link)| {
            let is_crossed = crossed.contains(&LinkIndex(index));
            Some((mean_of(link).filter(|_| is_crossed)?, link))
        });
    let (mean_bps, link) = crossed.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let points = rates.iter().flat_map(|line| &line.points);
    let greatest = max(&points.filter_map(|point| point.y).collect::<Vec<_>>());
    if mean_bps / 1e6 > greatest * FAR {
        return None;
    }
    let values = link.capacity_series.iter();
    let values: Vec<_> = values.map(|bps| bps.map(|bps| bps as f64 / 1e6)).collect();
    let interval_s = scenario.sampling_interval.as_secs_f64();
    Some(Line {
        name: format!("capacity of {}", link.name),
        colour: 0,
        style: Style::Level,
        points: Bins::of(&values, interval_s, SAMPLE.as_secs_f64()).points(),
    })
}

/// The shares of round trips that took at most so long, of each flow; of many flows, of each group.
fn rtt_distribution(
    scenario: &Scenario,
    observations: &Observations,
    about: &str,
) -> Option<Picture> {
    let one_by_one = observations.flows.len() <= COLOURS;
    let mut times: Vec<(&str, Vec<f64>)> = Vec::new();
    for flow in &observations.flows {
        let name = if one_by_one { &flow.name } else { &flow.group };
        if times.last().is_none_or(|(last, _)| last != name) {
            times.push((name, Vec::new()));
        }
        let (_, times) = times.last_mut().expect("one was added");
        let measured = flow.rtt.iter().filter(|one| one.at >= scenario.warmup);
        times.extend(measured.map(|sample| sample.rtt.as_secs_f64() * 1e3));
    }
    let line = |(colour, (name, mut times)): (usize, (&str, Vec<f64>))| {
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        let point = |step: usize| {
            let share = step as f64 / CDF_STEPS as f64;
            Point::new(times[last * step / CDF_STEPS], Some(share))
        };
        Some(Line {
            name: name.to_owned(),
            colour,
            style: Style::Plain,
            points: (0..=CDF_STEPS).map(point).collect(),
        })
    };
    let lines: Vec<Line> = times.into_iter().enumerate().filter_map(line).collect();
    let points = lines.iter().flat_map(|line| &line.points);
    let numbers: Vec<f64> = points.map(|point| point.x).collect();
    (!lines.is_empty()).then(|| Picture {
        title: format!("Round trips: {about}"),
        x: Axis::Numbers("milliseconds".into(), numbers, false),
        y_label: "share that took at most so long".into(),
        y_from: Some(0.0),
        warmup_s: 0.0,
        panels: vec![lines],
    })
}

/// The plots that need nothing but flows: their rates, and of streams the delays and bitrates.
pub(super) fn of_flows(scenario: &Scenario, observations: &Observations, about: &str) -> Plots {
    let chart = |name, y_label, panels| chart(scenario, about, name, y_label, panels);
    let mut rates = flow_lines(scenario, observations, SAMPLE.as_secs_f64(), |flow| {
        let per_interval = 8.0 / 1e6 / scenario.sampling_interval.as_secs_f64();
        let rates = flow
            .delivered
            .iter()
            .map(|bytes| Some(*bytes as f64 * per_interval));
        rates.collect()
    });
    rates.extend(capacity(scenario, observations, &rates));
    let rates = chart("Throughput", "Mb/s of IP packets", vec![rates]);
    let mut plots = vec![("rate.svg", rates)];
    let streams = |value: fn(&StreamSample) -> Option<f64>| {
        let lines = flow_lines(scenario, observations, 0.0, |flow| {
            flow.stream.as_ref().map_or_else(
                || vec![None; flow.delivered.len()],
                |stream| stream.series.iter().map(value).collect(),
            )
        });
        has_values(&lines).then_some(lines)
    };
    if let Some(delays) = streams(|sample| sample.delay_ms) {
        let chart = chart("Delay of frames", "milliseconds from capture", vec![delays]);
        plots.push(("delay.svg", chart));
    }
    if let Some(rates) = streams(|sample| sample.bitrate_bps.map(|bps| bps as f64 / 1e6)) {
        let chart = chart("What encoders aim at", "Mb/s", vec![rates]);
        plots.push(("bitrate.svg", chart));
    }
    plots
}

/// A picture over the time of `scenario`, named and followed by what it is `about`.
fn chart(
    scenario: &Scenario,
    about: &str,
    name: &str,
    y_label: &str,
    panels: Vec<Vec<Line>>,
) -> Picture {
    Picture {
        title: format!("{name}: {about}"),
        x: Axis::Time(0.0, scenario.duration.as_secs_f64()),
        y_label: y_label.to_owned(),
        y_from: Some(0.0),
        warmup_s: scenario.warmup.as_secs_f64(),
        panels,
    }
}

fn has_values(lines: &[Line]) -> bool {
    let mut points = lines.iter().flat_map(|line| &line.points);
    points.any(|point| point.y.is_some())
}

/// A line for each flow of what path headers told; `None` if they told no flow anything.
fn header_lines(
    scenario: &Scenario,
    observations: &Observations,
    values: impl Fn(PathSeries) -> Vec<Option<f64>>,
) -> Option<Vec<Line>> {
    let timing = timing(scenario);
    let lines = flow_lines(scenario, observations, 0.0, |flow| {
        let count = flow.delivered.len();
        flow.path.as_ref().map_or_else(
            || vec![None; count],
            |path| values(metrics::path_series(path, &timing, count)),
        )
    });
    has_values(&lines).then_some(lines)
}

/// Scenario, controllers and seed.
fn about(scenario: &Scenario) -> String {
    const MAX_CONTROLLERS: usize = 3;
    let mut controllers: Vec<&str> = Vec::new();
    for flow in &scenario.flows {
        if !controllers.contains(&flow.controller.as_str()) {
            controllers.push(&flow.controller);
        }
    }
    let more = if controllers.len() > MAX_CONTROLLERS {
        ", ..."
    } else {
        ""
    };
    controllers.truncate(MAX_CONTROLLERS);
    format!(
        "{}, {}{more}, seed {}",
        scenario.name,
        controllers.join(", "),
        scenario.seed
    )
}

/// A line for each flow; of many flows, pale lines and a bold mean for each group.
fn flow_lines(
    scenario: &Scenario,
    observations: &Observations,
    bin_s: f64,
    values: impl Fn(&FlowObservation) -> Vec<Option<f64>>,
) -> Vec<Line> {
    let binned = |flow: &FlowObservation| {
        let mut values = values(flow);
        let interval_s = scenario.sampling_interval.as_secs_f64();
        for (index, value) in values.iter_mut().enumerate() {
            let begin_s = index as f64 * interval_s;
            // Silence before the start and after the end is no throughput of zero.
            if begin_s + interval_s <= flow.start.as_secs_f64()
                || begin_s >= flow.stop.as_secs_f64()
            {
                *value = None;
            }
        }
        Bins::of(&values, interval_s, bin_s)
    };
    let flows: Vec<_> = observations
        .flows
        .iter()
        .map(|flow| (flow, binned(flow)))
        .collect();
    if flows.len() <= COLOURS {
        let line = |(index, (flow, bins)): (usize, &(&FlowObservation, Bins))| Line {
            name: flow.name.clone(),
            colour: index,
            style: Style::Plain,
            points: bins.points(),
        };
        return flows.iter().enumerate().map(line).collect();
    }
    let mut groups: Vec<&str> = flows.iter().map(|(flow, _)| flow.group.as_str()).collect();
    groups.dedup();
    let mut lines = Vec::new();
    let mut means = Vec::new();
    for (colour, group) in groups.iter().enumerate() {
        let members: Vec<&Bins> = flows
            .iter()
            .filter(|(flow, _)| flow.group == *group)
            .map(|(_, bins)| bins)
            .collect();
        let line = |name, style, bins: &Bins| Line {
            name,
            colour,
            style,
            points: bins.points(),
        };
        let pale = |bins: &&Bins| line(String::new(), Style::Pale, bins);
        lines.extend(members.iter().map(pale));
        let name = match members.len() {
            1 => (*group).to_owned(),
            count => format!("{group}: mean of {count}"),
        };
        means.push(line(name, Style::Bold, &Bins::mean(&members)));
    }
    lines.append(&mut means);
    lines
}

/// A panel for each reported link whose queue matters beside the others', with its length and,
/// paler, the greatest length in each interval.
fn queue_panels(scenario: &Scenario, observations: &Observations) -> Vec<Vec<Line>> {
    let interval_s = scenario.sampling_interval.as_secs_f64();
    let greatest = |link: &LinkObservation| {
        link.queue_series
            .iter()
            .map(|sample| sample.max)
            .max()
            .unwrap_or(0) as f64
    };
    let least = max(&observations.links.iter().map(greatest).collect::<Vec<_>>()) * PANEL_SHARE;
    let queued = observations
        .links
        .iter()
        .filter(|link| greatest(link) > 0.0 && greatest(link) >= least);
    let panel = |(colour, link): (usize, &LinkObservation)| {
        let line = |name, style, values: Vec<Option<f64>>, merge| Line {
            name,
            colour,
            style,
            points: Bins::merged(&values, interval_s, 0.0, merge).points(),
        };
        let greatest = link
            .queue_series
            .iter()
            .map(|sample| Some(sample.max as f64))
            .collect();
        let length = link
            .queue_series
            .iter()
            .map(|sample| Some(sample.packets as f64))
            .collect();
        vec![
            line("greatest".to_owned(), Style::Pale, greatest, max),
            line(link.name.clone(), Style::Plain, length, mean),
        ]
    };
    let mut panels: Vec<_> = queued.take(COLOURS).enumerate().map(panel).collect();
    if panels.is_empty() {
        // Axes without a line say it better than no plot.
        panels.push(Vec::new());
    }
    panels
}

/// A series, thinned out.
#[derive(Debug, Clone, PartialEq)]
struct Bins {
    width_s: f64,
    values: Vec<Option<f64>>,
}

impl Bins {
    fn of(values: &[Option<f64>], interval_s: f64, at_least_s: f64) -> Self {
        Self::merged(values, interval_s, at_least_s, mean)
    }

    /// Merges neighbours until bins are `at_least_s` wide and there are no more than
    /// [`MAX_POINTS`].
    fn merged(
        values: &[Option<f64>],
        interval_s: f64,
        at_least_s: f64,
        merge: fn(&[f64]) -> f64,
    ) -> Self {
        let unit = (at_least_s / interval_s).round().max(1.0) as usize;
        let width = unit * values.len().div_ceil(unit * MAX_POINTS).max(1);
        let values = values.chunks(width).map(|chunk| {
            let present: Vec<f64> = chunk.iter().copied().flatten().collect();
            (!present.is_empty()).then(|| merge(&present))
        });
        Self {
            width_s: width as f64 * interval_s,
            values: values.collect(),
        }
    }

    /// The mean of those that have a value.
    fn mean(members: &[&Self]) -> Self {
        let length = members
            .iter()
            .map(|bins| bins.values.len())
            .max()
            .unwrap_or(0);
        let values = (0..length).map(|index| {
            let present = members.iter().filter_map(|bins| *bins.values.get(index)?);
            let present: Vec<f64> = present.collect();
            (!present.is_empty()).then(|| mean(&present))
        });
        Self {
            width_s: members.first().map_or(1.0, |bins| bins.width_s),
            values: values.collect(),
        }
    }

    /// A point in the middle of each bin.
    fn points(&self) -> Vec<Point> {
        let values = self.values.iter().enumerate();
        values
            .map(|(index, value)| Point::new((index as f64 + 0.5) * self.width_s, *value))
            .collect()
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests;
