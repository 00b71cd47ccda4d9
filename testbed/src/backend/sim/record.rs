//! What a flow's tasks and controllers record while the simulation runs.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use evenkeel::{AckReport, Context, HeaderCounters, Observer, PathSample};
use evenkeel_apps::path::{HeaderReport, SampleRecord};
use quinn::Connection;

use crate::metrics::{
    ControllerSample, FlowObservation, PacketSample, PathObservation, RttSample, Transfer,
};
use crate::scenario::FlowSpec;

/// The record of one flow, shared by its tasks, its controllers and the sampler.
#[derive(Debug)]
pub(super) struct Record {
    epoch: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    live: Vec<Connection>,
    /// Packets of connections that have ended.
    ended: Packets,
    /// Path headers of connections that have ended; the state is the last one's.
    ended_headers: Option<HeaderReport>,
    /// What was counted when the warm-up ended.
    warm: Packets,
    warm_headers: HeaderCounters,
    /// What was counted when the last sampling interval ended, and in each interval.
    sampled: Packets,
    packet_series: Vec<PacketSample>,
    rtt: Vec<RttSample>,
    path: Vec<SampleRecord>,
    transfers: Vec<Transfer>,
    /// The first failure.
    failure: Option<(Duration, String)>,
    done: Option<Duration>,
    asked_for_rate: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Packets {
    sent: u64,
    lost: u64,
}

impl Record {
    /// The record of a flow of a run that begins at `epoch`.
    pub(super) fn new(epoch: Instant) -> Arc<Self> {
        let state = Mutex::default();
        Arc::new(Self { epoch, state })
    }

    /// A connection has begun to carry the flow.
    pub(super) fn connected(&self, connection: &Connection) {
        self.lock().live.push(connection.clone());
    }

    /// A connection carries the flow no longer.
    pub(super) fn ended(&self, connection: &Connection) {
        let mut state = self.lock();
        state
            .live
            .retain(|live| live.stable_id() != connection.stable_id());
        state.ended = state.ended.plus(connection);
        state.ended_headers = plus(state.ended_headers.take(), connection);
    }

    /// A transfer has begun; its number is for [`Record::transferred`].
    pub(super) fn transfer_began(&self, now: Instant) -> usize {
        let start = now - self.epoch;
        let mut state = self.lock();
        state.transfers.push(Transfer {
            start,
            end: None,
            bytes: 0,
            sha256_verified: None,
        });
        state.transfers.len() - 1
    }

    /// A transfer is complete: the receiver has all its bytes.
    pub(super) fn transferred(
        &self,
        now: Instant,
        transfer: usize,
        bytes: u64,
        verified: Option<bool>,
    ) {
        let end = Some(now - self.epoch);
        let transfer = &mut self.lock().transfers[transfer];
        (transfer.end, transfer.bytes, transfer.sha256_verified) = (end, bytes, verified);
    }

    /// A transfer was broken off when the receiver had `bytes` bytes.
    pub(super) fn broken_off(&self, transfer: usize, bytes: u64) {
        self.lock().transfers[transfer].bytes = bytes;
    }

    /// The flow has delivered all it had to.
    pub(super) fn done(&self, now: Instant) {
        self.lock().done = Some(now - self.epoch);
    }

    /// The flow failed; the first reason stands.
    pub(super) fn failed(&self, now: Instant, error: &dyn std::error::Error) {
        let failure = (now - self.epoch, error.to_string());
        self.lock().failure.get_or_insert(failure);
    }

    /// The warm-up is over: packets and headers count from here.
    pub(super) fn warmed_up(&self) {
        let mut state = self.lock();
        state.warm = state.packets();
        state.warm_headers = state
            .headers()
            .map(|report| report.counts)
            .unwrap_or_default();
    }

    /// A sampling interval is over.
    pub(super) fn sample_packets(&self) {
        let mut state = self.lock();
        let packets = state.packets();
        let before = std::mem::replace(&mut state.sampled, packets);
        state.packet_series.push(PacketSample {
            sent: packets.sent - before.sent,
            lost: packets.lost - before.lost,
        });
    }

    /// The controllers of all connections together.
    pub(super) fn controllers(&self) -> Option<ControllerSample> {
        let mut state = self.lock();
        let mut asked_for_rate = false;
        let contexts = state.live.iter().filter_map(Context::of);
        let samples = contexts.map(|context| {
            let path = context.state();
            asked_for_rate |= path.own_rate.is_some();
            ControllerSample {
                window: path.window,
                slow_start_threshold: path.slow_start_threshold,
                pacing_rate: path.pacing_rate,
            }
        });
        let sample = samples.reduce(ControllerSample::plus);
        state.asked_for_rate |= asked_for_rate;
        sample
    }

    /// Moves what was recorded into the flow's observation.
    pub(super) fn finish(&self, spec: &FlowSpec, observation: &mut FlowObservation) {
        let mut state = self.lock();
        let packets = state.packets();
        observation.sent_packets = packets.sent - state.warm.sent;
        observation.lost_packets = packets.lost - state.warm.lost;
        observation.path = state.headers().map(|headers| PathObservation {
            headers: HeaderReport {
                counts: headers.counts.since(state.warm_headers),
                ..headers
            },
            samples: std::mem::take(&mut state.path),
        });
        observation.packet_series = std::mem::take(&mut state.packet_series);
        observation.rtt = std::mem::take(&mut state.rtt);
        observation.asked_for_rate = state.asked_for_rate;
        observation.transfers = std::mem::take(&mut state.transfers);
        if let Some(done) = state.done {
            observation.stop = done;
        }
        if let Some((at, reason)) = state.failure.take() {
            observation.failed(spec, at, reason);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("the simulation has one thread, which panicked")
    }
}

impl State {
    fn packets(&self) -> Packets {
        self.live.iter().fold(self.ended, Packets::plus)
    }

    /// Path headers of all connections; `None` if no peer took any.
    fn headers(&self) -> Option<HeaderReport> {
        self.live.iter().fold(self.ended_headers.clone(), plus)
    }
}

impl Packets {
    fn plus(self, connection: &Connection) -> Self {
        let path = connection.stats().path;
        Self {
            sent: self.sent + path.sent_packets,
            lost: self.lost + path.lost_packets,
        }
    }
}

/// Adds the headers of one more connection.
fn plus(reports: Option<HeaderReport>, connection: &Connection) -> Option<HeaderReport> {
    let Some(report) = HeaderReport::of(connection) else {
        return reports;
    };
    let before = reports.map_or_else(HeaderCounters::default, |reports| reports.counts);
    Some(HeaderReport {
        counts: before.plus(report.counts),
        ..report
    })
}

impl Observer for Record {
    fn on_acks(&self, report: &AckReport) {
        let at = report.now - self.epoch;
        let sample = report.rtt.map(|rtt| RttSample { at, rtt });
        self.lock().rtt.extend(sample);
    }

    fn on_path(&self, sample: &PathSample) {
        let record = SampleRecord::new(sample, self.epoch);
        self.lock().path.push(record);
    }
}
