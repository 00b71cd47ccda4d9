//! What the links of a simulation did, sampled and summed up.

use evenkeel_queue::{PortStats, WireCounters};

use crate::metrics::{LinkObservation, QueueObservation, QueueSample, SojournObservation};
use crate::scenario::{LinkIndex, Scenario};
use crate::sim::Simulation;

/// Follows one reported link through a run.
#[derive(Debug)]
pub(super) struct LinkSampler {
    index: LinkIndex,
    observation: LinkObservation,
    stamps: bool,
    /// Whether the rate is known only afterwards.
    cellular: bool,
    interval_s: f64,
    dropped_before: u64,
    forwarded_before: u64,
    offered_before: u64,
    lost_before: u64,
    wire_before: WireCounters,
}

impl LinkSampler {
    /// One for every link that the scenario reports.
    pub(super) fn all(scenario: &Scenario) -> Vec<Self> {
        let links = scenario.links.iter().enumerate();
        links
            .filter(|(_, spec)| spec.reported)
            .map(|(index, spec)| Self {
                index: LinkIndex(index),
                observation: LinkObservation::of(spec, scenario, Some("evenkeel")),
                stamps: !spec.description.stamps.is_empty(),
                cellular: spec.description.cellular.is_some(),
                interval_s: scenario.sampling_interval.as_secs_f64(),
                dropped_before: 0,
                forwarded_before: 0,
                offered_before: 0,
                lost_before: 0,
                wire_before: WireCounters::default(),
            })
            .collect()
    }

    /// The warm-up is over: counters and averages begin.
    pub(super) fn warmed_up(&mut self, simulation: &Simulation) {
        let before = simulation.with_link(self.index, |now, link| {
            link.restart_measurement(now);
            (link.lost().packets, link.wire_counters())
        });
        (self.lost_before, self.wire_before) = before;
    }

    /// A sampling interval is over.
    pub(super) fn sample(&mut self, simulation: &Simulation) {
        if self.stamps {
            let figures = simulation.with_link(self.index, |now, link| link.stamp_figures(now));
            self.observation
                .sample_stamps(figures.iter().flat_map(|of| {
                    let figures = of.figures.iter();
                    figures.map(|(figure, value)| (of.stamp, *figure, *value))
                }));
        }
        let (interval, packets, total, offered) = simulation.with_link(self.index, |now, link| {
            let interval = link.take_interval(now);
            let stats = link.stats(now);
            let packets = stats.queued().packets;
            (interval, packets, stats.total(), stats.offered_total())
        });
        let observation = &mut self.observation;
        let index = observation.queue_series.len();
        observation.queue_series.push(QueueSample {
            packets,
            max: interval.max,
        });
        let since = |total: u64, before: &mut u64| total - std::mem::replace(before, total);
        let dropped = total.dropped.total().packets;
        let dropped = since(dropped, &mut self.dropped_before);
        observation.drop_series.push(dropped);
        let forwarded = since(total.forwarded.bytes, &mut self.forwarded_before);
        observation.forwarded_series.push(forwarded);
        // A random rate is known when it has been.
        let offered = offered.filter(|_| self.cellular);
        if let (Some(offered), Some(capacity)) =
            (offered, observation.capacity_series.get_mut(index))
        {
            let bits = since(offered, &mut self.offered_before) as f64 * 8.0;
            *capacity = Some((bits / self.interval_s).round() as u64);
        }
    }

    /// All that was seen of the link.
    pub(super) fn finish(self, simulation: &Simulation) -> LinkObservation {
        simulation.with_link(self.index, |now, link| {
            let lost = link.lost().packets - self.lost_before;
            let mut wire = self.observation.wire;
            wire.count(&(link.wire_counters() - self.wire_before));
            let stats = link.stats(now);
            let window = stats.window();
            let rate_bps = if self.cellular {
                mean_offered_bps(stats)
            } else {
                self.observation.rate_bps
            };
            LinkObservation {
                rate_bps,
                arrived: window.arrived.packets,
                forwarded: window.forwarded.packets,
                forwarded_bytes: window.forwarded.bytes,
                dropped: window.dropped.total().packets,
                dropped_early: Some(window.dropped.early.packets),
                marked: window.marked.packets,
                headers: self.stamps.then_some(window.headers),
                lost,
                wire,
                queue: queue(stats),
                sojourn: sojourn(stats),
                ..self.observation
            }
        })
    }
}

/// What the link offered in the window, in bits per second.
fn mean_offered_bps(stats: &PortStats) -> Option<u64> {
    let bits = stats.offered_bytes()? as f64 * 8.0;
    let window_s = stats.window_length().as_secs_f64();
    (window_s > 0.0).then(|| (bits / window_s).round() as u64)
}

fn queue(stats: &PortStats) -> QueueObservation {
    let queue = stats.queue();
    QueueObservation {
        mean: queue.mean().unwrap_or_default(),
        sd: queue.standard_deviation().unwrap_or_default(),
        p95: queue.percentile(0.95).unwrap_or_default(),
        max: queue.max(),
    }
}

fn sojourn(stats: &PortStats) -> Option<SojournObservation> {
    let sojourn = stats.sojourn();
    Some(SojournObservation {
        p50: sojourn.percentile(0.5)?,
        p95: sojourn.percentile(0.95)?,
        p99: sojourn.percentile(0.99)?,
    })
}
