//! Computes a link's figures for the status socket.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use evenkeel_queue::{DurationHistogram, PortStats, QueueLength, StampFigures};

use super::{Counters, Degraded, Interval, LinkStatus, QueueFigures, Route, SojournFigures, flows};
use crate::config::{Entry, LinkSpec, MAIN_TABLE, RouteSpec, Via};
use crate::plumbing::Counts;
use crate::transit::Transit;

/// Reads a link's figures, and remembers when their window and interval began.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The link; one that has the same queue may take its place, with other routes perhaps.
    pub(crate) spec: LinkSpec,
    /// The counters when the measurement window began, and at the last sample.
    at_restart: Counters,
    sampled: Counters,
    /// What the link lacks, and since when.
    degraded: Option<(String, Instant)>,
    /// When the link became what it is, if that was after it began.
    altered: Option<Instant>,
}

impl Meter {
    pub(crate) fn new(spec: LinkSpec) -> Self {
        Self {
            spec,
            at_restart: Counters::default(),
            sampled: Counters::default(),
            degraded: None,
            altered: None,
        }
    }

    /// The link has become another one while it goes on.
    pub(crate) fn alter(&mut self, spec: LinkSpec, now: Instant) {
        self.spec = spec;
        self.altered = Some(now);
    }

    /// Notes what the link lacks now; returns true if that is something else than before.
    pub(crate) fn note_lack(&mut self, reason: Option<String>, now: Instant) -> bool {
        let since = self.degraded.as_ref().map_or(now, |(_, since)| *since);
        let before = self.degraded.take();
        self.degraded = reason.map(|reason| (reason, since));
        let [before, after] =
            [&before, &self.degraded].map(|lack| lack.as_ref().map(|(reason, _)| reason));
        before != after
    }

    /// Returns what the link lacks.
    pub(crate) fn lack(&self) -> Option<&str> {
        self.degraded.as_ref().map(|(reason, _)| &reason[..])
    }

    /// Returns all figures.
    pub(crate) fn status(&self, transit: &mut Transit, counts: Counts, now: Instant) -> LinkStatus {
        let total = counters(transit, counts, now);
        let elapsed = transit.elapsed(now);
        let altered = self.altered.map(|at| now.saturating_duration_since(at));
        let since = altered.unwrap_or(elapsed);
        let stamps = transit.link.stamp_figures(now).into_iter();
        let stamps = stamps.map(by_name).collect();
        let (flows, classes) = flows::figures(transit.link.flows(now));
        let stats = transit.link.stats(now);
        let description = &self.spec.description;
        LinkStatus {
            name: self.spec.name.clone(),
            tun: self.spec.tun.clone(),
            table: self.spec.table,
            configured: serde_json::to_value(description).expect("keys of a file are JSON"),
            routes: self.spec.routes.iter().map(route).collect(),
            since_s: since.as_secs_f64(),
            degraded: self.degraded.as_ref().map(|(reason, since)| Degraded {
                reason: reason.clone(),
                since_s: now.saturating_duration_since(*since).as_secs_f64(),
            }),
            rate_bps: description.rate_bps_after(elapsed),
            rate_varies: description.trace.is_some() || description.cellular.is_some(),
            queued: stats.queued(),
            inside: total.arrived + total.duplicated - total.dropped - total.lost - total.delivered,
            total,
            window_s: stats.window_length().as_secs_f64(),
            window: total - self.at_restart,
            queue_packets: queue_figures(stats.queue(), stats),
            sojourn_us: sojourn_figures(stats.sojourn()),
            utilization: stats.utilization(),
            loss_rate: stats.loss_rate(),
            passed_beside: counts.beside,
            stamps,
            flows,
            classes,
            interval: None,
        }
    }

    /// Returns all figures, and those since the last sample.
    pub(crate) fn sample(
        &mut self,
        transit: &mut Transit,
        counts: Counts,
        now: Instant,
    ) -> LinkStatus {
        let queue = transit.link.take_interval(now);
        let mut status = self.status(transit, counts, now);
        let since = status.total - std::mem::replace(&mut self.sampled, status.total);
        status.interval = Some(Interval {
            queue_mean: queue.mean,
            queue_max: queue.max,
            arrived: since.arrived,
            forwarded: since.forwarded,
            dropped: since.dropped,
            lost: since.lost,
            ring_dropped: since.ring_dropped,
        });
        status
    }

    /// Begins a new measurement window.
    pub(crate) fn restart(&mut self, transit: &mut Transit, counts: Counts, now: Instant) {
        transit.link.restart_measurement(now);
        self.at_restart = counters(transit, counts, now);
    }
}

fn route(spec: &RouteSpec) -> Route {
    Route {
        to: spec.to.to_string(),
        via: (spec.via != Via::Direct).then(|| spec.via.to_string()),
        dev: spec.dev.clone(),
        only: spec.selector.to_string().trim_start().to_owned(),
        table: match spec.entry {
            Entry::Table(table) if table != MAIN_TABLE => Some(table),
            _ => None,
        },
    }
}

fn by_name(stamp: StampFigures) -> (String, BTreeMap<String, f64>) {
    let figures = stamp.figures.into_iter();
    let figures = figures.map(|(name, value)| (name.to_owned(), value));
    (stamp.stamp.to_owned(), figures.collect())
}

/// The counters since the start.
fn counters(transit: &mut Transit, counts: Counts, now: Instant) -> Counters {
    let port = transit.link.stats(now).total();
    let rest = transit.total();
    Counters {
        arrived: port.arrived,
        forwarded: port.forwarded,
        dropped: port.dropped.total(),
        dropped_full: port.dropped.full,
        dropped_early: port.dropped.early,
        marked: port.marked,
        duplicated: rest.duplicated,
        lost: rest.lost,
        wire: rest.wire,
        delivered: rest.delivered,
        refused: rest.refused,
        full_ttl: rest.full_ttl,
        link_scope: rest.link_scope,
        not_ip: rest.not_ip,
        ring_dropped: counts.ring_dropped,
        headers: port.headers,
    }
}

/// Returns the figures of the queue; before any time has passed, those of its present length.
fn queue_figures(queue: &QueueLength, stats: &PortStats) -> QueueFigures {
    let present = stats.queued().packets;
    QueueFigures {
        mean: queue.mean().unwrap_or(present as f64),
        sd: queue.standard_deviation().unwrap_or(0.0),
        p95: queue.percentile(0.95).unwrap_or(present),
        max: queue.max(),
    }
}

fn sojourn_figures(sojourn: &DurationHistogram) -> Option<SojournFigures> {
    let microseconds = |time: Duration| time.as_nanos() as f64 / 1e3;
    let percentile = |p| sojourn.percentile(p).map(microseconds);
    Some(SojournFigures {
        p50: percentile(0.5)?,
        p95: percentile(0.95)?,
        p99: percentile(0.99)?,
        mean: microseconds(sojourn.mean()?),
        max: microseconds(sojourn.max()?),
    })
}
