//! Plots of a run as SVG: rates, windows and queues over time.

mod chart;

use chart::{Chart, Line, Weight};

use super::document::timing;
use crate::metrics::{
    self, FlowObservation, LinkObservation, Observations, PathSeries, SAMPLE, StreamSample,
};
use crate::scenario::Scenario;

/// Most flows that are told apart by colour; of more, groups are.
const MAX_COLOURS: usize = chart::COLOURS.len();

/// Most points of a line: about as many as there are pixels.
const MAX_POINTS: usize = 800;

/// A link has a panel if its greatest queue is at least this share of the greatest of all.
const PANEL_SHARE: f64 = 0.1;

/// Payload of a QUIC packet of the smallest full size, in bytes (RFC 9000 section 14).
const PACKET_BYTES: f64 = 1200.0;

/// All plots with their file names; those of path headers and streams if there are any.
pub(super) fn all(scenario: &Scenario, observations: &Observations) -> Vec<(&'static str, String)> {
    let chart = |name, y_label, panels| chart(scenario, name, y_label, panels);
    let windows = flow_lines(scenario, observations, 0.0, |flow| {
        let states = flow.controller_state.iter();
        states
            .map(|state| state.map(|state| state.window as f64 / PACKET_BYTES))
            .collect()
    });
    let queues = queue_panels(scenario, observations);
    let mut plots = of_flows(scenario, observations);
    plots.insert(
        1,
        (
            "window.svg",
            chart("Congestion window", "packets of 1200 bytes", vec![windows]).draw(),
        ),
    );
    plots.insert(2, ("queue.svg", chart("Queue", "packets", queues).draw()));
    let lines =
        |values: fn(PathSeries) -> Vec<Option<f64>>| header_lines(scenario, observations, values);
    let there = lines(|series| series.forward_queueing_ms);
    let back = lines(|series| series.backward_queueing_ms);
    let panels: Vec<_> = there.into_iter().chain(back).collect();
    if !panels.is_empty() {
        let name = "Queueing on the way and on the way back, from path headers";
        plots.push(("queueing.svg", chart(name, "milliseconds", panels).draw()));
    }
    let grants = lines(|series| {
        let grants = series.grant_bps.into_iter();
        grants
            .map(|bits| bits.map(|bits| bits as f64 / 1e6))
            .collect()
    });
    if let Some(grants) = grants {
        let chart = chart("Rate granted by routers", "Mb/s", vec![grants]);
        plots.push(("grant.svg", chart.draw()));
    }
    plots
}

/// The plots that need nothing but flows: their rates, and of streams the delays and bitrates.
pub(super) fn of_flows(
    scenario: &Scenario,
    observations: &Observations,
) -> Vec<(&'static str, String)> {
    let chart = |name, y_label, panels| chart(scenario, name, y_label, panels);
    let rates = flow_lines(scenario, observations, SAMPLE.as_secs_f64(), |flow| {
        let per_interval = 8.0 / 1e6 / scenario.sampling_interval.as_secs_f64();
        let rates = flow
            .delivered
            .iter()
            .map(|bytes| Some(*bytes as f64 * per_interval));
        rates.collect()
    });
    let rates = chart("Throughput", "Mb/s of IP packets", vec![rates]);
    let mut plots = vec![("rate.svg", rates.draw())];
    let streams = |value: fn(&StreamSample) -> Option<f64>| {
        let lines = flow_lines(scenario, observations, 0.0, |flow| {
            flow.stream.as_ref().map_or_else(
                || vec![None; flow.delivered.len()],
                |stream| stream.series.iter().map(value).collect(),
            )
        });
        lines
            .iter()
            .any(|line| !line.segments.is_empty())
            .then_some(lines)
    };
    if let Some(delays) = streams(|sample| sample.delay_ms) {
        let chart = chart("Delay of frames", "milliseconds from capture", vec![delays]);
        plots.push(("delay.svg", chart.draw()));
    }
    if let Some(rates) = streams(|sample| sample.bitrate_bps.map(|bps| bps as f64 / 1e6)) {
        let chart = chart("What encoders aim at", "Mb/s", vec![rates]);
        plots.push(("bitrate.svg", chart.draw()));
    }
    plots
}

/// A chart of `scenario`.
fn chart(scenario: &Scenario, name: &str, y_label: &'static str, panels: Vec<Vec<Line>>) -> Chart {
    Chart {
        title: format!("{name}: {}", title(scenario)),
        y_label,
        duration_s: scenario.duration.as_secs_f64(),
        warmup_s: scenario.warmup.as_secs_f64(),
        panels,
    }
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
    let told = lines.iter().any(|line| !line.segments.is_empty());
    told.then_some(lines)
}

/// Scenario, controllers and seed.
fn title(scenario: &Scenario) -> String {
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
    if flows.len() <= MAX_COLOURS {
        let line = |(index, (flow, bins)): (usize, &(&FlowObservation, Bins))| Line {
            label: Some(flow.name.clone()),
            colour: index,
            weight: Weight::Plain,
            segments: bins.segments(),
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
        let line = |label, weight, bins: &Bins| Line {
            label,
            colour,
            weight,
            segments: bins.segments(),
        };
        lines.extend(members.iter().map(|bins| line(None, Weight::Pale, bins)));
        let label = match members.len() {
            1 => (*group).to_owned(),
            count => format!("{group}: mean of {count}"),
        };
        means.push(line(Some(label), Weight::Bold, &Bins::mean(&members)));
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
        let line = |label, weight, values: Vec<Option<f64>>, merge| Line {
            label,
            colour,
            weight,
            segments: Bins::merged(&values, interval_s, 0.0, merge).segments(),
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
            line(Some("greatest".to_owned()), Weight::Pale, greatest, max),
            line(Some(link.name.clone()), Weight::Plain, length, mean),
        ]
    };
    let mut panels: Vec<_> = queued.take(MAX_COLOURS).enumerate().map(panel).collect();
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

    /// Runs of points without gaps: middle of the bin in seconds, value.
    fn segments(&self) -> Vec<Vec<(f64, f64)>> {
        let mut segments = vec![Vec::new()];
        for (index, value) in self.values.iter().enumerate() {
            let last = segments.last_mut().expect("there is always one segment");
            match value {
                Some(value) => last.push(((index as f64 + 0.5) * self.width_s, *value)),
                None if last.is_empty() => {}
                None => segments.push(Vec::new()),
            }
        }
        segments.retain(|segment| !segment.is_empty());
        segments
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_average_what_is_there_and_leave_gaps() {
        let values = [Some(1.0), Some(3.0), Some(5.0), None, None, None, Some(2.0)];
        let bins = Bins::of(&values, 0.25, 0.5);
        assert_eq!(bins.values, [Some(2.0), Some(5.0), None, Some(2.0)]);
        assert_eq!(
            bins.segments(),
            [vec![(0.25, 2.0), (0.75, 5.0)], vec![(1.75, 2.0)]]
        );
    }

    #[test]
    fn long_series_are_thinned_to_what_a_plot_can_show() {
        let bins = Bins::of(&vec![Some(1.0); 100_000], 0.1, 0.5);
        assert!(bins.values.len() <= MAX_POINTS, "{}", bins.values.len());
        assert!(bins.values.len() > MAX_POINTS / 2);
        // Whole samples of 0.5 s: no bin has more intervals than another.
        assert_eq!((bins.width_s / 0.5).fract(), 0.0);
    }

    #[test]
    fn a_series_without_values_has_no_line() {
        assert!(Bins::of(&[], 0.1, 0.5).segments().is_empty());
        assert!(Bins::of(&[None, None], 0.1, 0.1).segments().is_empty());
    }
}
