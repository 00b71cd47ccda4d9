//! What a flow's tasks and controllers record while the simulation runs.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use evenkeel::{AckReport, Context, HeaderCounters, Observer, PathSample};
use evenkeel_apps::bulk::Progress;
use evenkeel_apps::path::{HeaderReport, SampleRecord};
use evenkeel_apps::stream::Viewing;
use quinn::Connection;

use crate::metrics::{
    Arrived, ControllerSample, DelaySample, FlowObservation, PacketSample, PathObservation,
    RttSample, Transfer,
};
use crate::scenario::FlowSpec;
use crate::sim::{PacketLog, SimSocket, lock};

/// The record of one flow, shared by its tasks, its controllers and the sampler.
#[derive(Debug)]
pub(super) struct Record {
    epoch: Instant,
    /// Set once the endpoints are there.
    receiver: OnceLock<Receiver>,
    /// What became of each packet, if that is kept.
    packets: OnceLock<Arc<Mutex<PacketLog>>>,
    state: Mutex<State>,
}

/// Where a flow's packets and data arrive.
#[derive(Debug)]
pub(super) struct Receiver {
    /// More than one if the receiver moves.
    pub(super) sockets: Vec<Arc<SimSocket>>,
    pub(super) application: Application,
}

/// The receiving application.
#[derive(Debug)]
pub(super) enum Application {
    Bulk(Arc<Progress>),
    Stream(Arc<Viewing>),
}

impl Receiver {
    fn arrived(&self) -> Arrived {
        Arrived {
            ip_bytes: self
                .sockets
                .iter()
                .map(|socket| socket.received_bytes())
                .sum(),
            app_bytes: match &self.application {
                Application::Bulk(progress) => progress.received(),
                Application::Stream(viewing) => viewing.received(),
            },
        }
    }
}

#[derive(Debug, Default)]
struct State {
    live: Vec<Connection>,
    /// Packets of connections that have ended.
    ended: PacketSample,
    /// Path headers of connections that have ended; the state is the last one's.
    ended_headers: Option<HeaderReport>,
    /// What was counted when the warm-up ended.
    warm: PacketSample,
    warm_headers: HeaderCounters,
    /// What was counted when the last sampling interval ended.
    sampled: PacketSample,
    arrived: Arrived,
    path: Vec<SampleRecord>,
    /// The first failure, and what had come since the last sampling interval.
    failure: Option<(Duration, String, Arrived)>,
    /// What is known of the flow otherwise.
    observation: FlowObservation,
}

impl Record {
    /// The record of the flow that `spec` describes, of a run that begins at `epoch`.
    pub(super) fn new(epoch: Instant, spec: &FlowSpec) -> Arc<Self> {
        let state = Mutex::new(State {
            observation: FlowObservation::of(spec),
            ..State::default()
        });
        Arc::new(Self {
            epoch,
            receiver: OnceLock::new(),
            packets: OnceLock::new(),
            state,
        })
    }

    /// What becomes of each packet of these sockets is kept.
    pub(super) fn keeps_packets_of<'s>(&self, sockets: impl Iterator<Item = &'s Arc<SimSocket>>) {
        let log = self.packets.get_or_init(Arc::default);
        sockets.for_each(|socket| socket.keep_log(log.clone()));
    }

    /// The flow's endpoints are there.
    pub(super) fn arrives_at(&self, receiver: Receiver) {
        let set = self.receiver.set(receiver);
        set.expect("a flow has one receiver");
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
        state.ended = plus_packets(state.ended, connection);
        state.ended_headers = plus_headers(state.ended_headers.take(), connection);
    }

    /// A transfer has begun; its number is for [`Record::transferred`].
    pub(super) fn transfer_began(&self, now: Instant) -> usize {
        let start = now - self.epoch;
        let transfers = &mut self.lock().observation.transfers;
        transfers.push(Transfer {
            start,
            end: None,
            bytes: 0,
            sha256_verified: None,
        });
        transfers.len() - 1
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
        let transfer = &mut self.lock().observation.transfers[transfer];
        (transfer.end, transfer.bytes, transfer.sha256_verified) = (end, bytes, verified);
    }

    /// A transfer was broken off when the receiver had `bytes` bytes.
    pub(super) fn broken_off(&self, transfer: usize, bytes: u64) {
        self.lock().observation.transfers[transfer].bytes = bytes;
    }

    /// The flow has delivered all it had to.
    pub(super) fn done(&self, now: Instant) {
        self.lock().observation.stop = now - self.epoch;
    }

    /// The flow failed; the first reason stands.
    pub(super) fn failed(&self, now: Instant, error: &dyn std::error::Error) {
        let arrived = self.arrived();
        let mut state = self.lock();
        let since = arrived.since(state.arrived);
        let failure = (now - self.epoch, error.to_string(), since);
        state.failure.get_or_insert(failure);
    }

    /// The flow is stopped, if it has not ended before: what arrives from now on counts in no
    /// average.
    pub(super) fn stopped(&self, now: Instant) {
        let arrived = self.arrived();
        let mut state = self.lock();
        if state.observation.stop == now - self.epoch {
            state.observation.until_stop = Some(arrived.since(state.arrived));
        }
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

    /// Ends a sampling interval.
    pub(super) fn sample(&self) {
        let arrived = self.arrived();
        let receiver = self.receiver.get();
        let sockets = receiver.into_iter().flat_map(|receiver| &receiver.sockets);
        // Where it has moved to in this interval, those of its newest socket.
        let delays = sockets
            .filter_map(|socket| socket.take_delays())
            .reduce(|_, newest| newest);
        let state = &mut *self.lock();
        let new = arrived.since(std::mem::replace(&mut state.arrived, arrived));
        let packets = state.packets();
        let before = std::mem::replace(&mut state.sampled, packets);
        let seen = &mut state.observation;
        seen.packet_series.push(PacketSample {
            sent: packets.sent - before.sent,
            lost: packets.lost - before.lost,
        });
        seen.one_way
            .push(delays.map(|(mean, max)| DelaySample { mean, max }));
        seen.delivered.push(new.ip_bytes);
        seen.app_delivered.push(new.app_bytes);
        // The controllers of all connections together.
        let contexts = state.live.iter().filter_map(Context::of);
        let samples = contexts.map(|context| {
            let path = context.state();
            seen.asked_for_rate |= path.controller_rate.is_some();
            ControllerSample {
                window: path.window,
                slow_start_threshold: path.slow_start_threshold,
                pacing_rate: path.pacing_rate,
            }
        });
        let sample = samples.reduce(ControllerSample::plus);
        seen.controller_state.push(sample);
    }

    /// All that was seen of the flow that `spec` describes.
    pub(super) fn finish(&self, spec: &FlowSpec) -> FlowObservation {
        let mut state = self.lock();
        let mut observation = std::mem::take(&mut state.observation);
        let log = self.packets.get();
        observation.packets = log.map(|log| std::mem::take(&mut *lock(log)));
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
        if let Some((at, reason, arrived)) = state.failure.take() {
            observation.failed(spec, at, reason);
            if observation.died.is_some() {
                observation.until_stop = Some(arrived);
            }
        }
        observation
    }

    fn arrived(&self) -> Arrived {
        self.receiver
            .get()
            .map_or_else(Arrived::default, Receiver::arrived)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    fn packets(&self) -> PacketSample {
        self.live.iter().fold(self.ended, plus_packets)
    }

    /// Path headers of all connections; `None` if no peer took any.
    fn headers(&self) -> Option<HeaderReport> {
        let live = self.live.iter();
        live.fold(self.ended_headers.clone(), plus_headers)
    }
}

/// Adds the packets of one more connection.
fn plus_packets(packets: PacketSample, connection: &Connection) -> PacketSample {
    let path = connection.stats().path;
    packets.plus(PacketSample {
        sent: path.sent_packets,
        lost: path.lost_packets,
    })
}

/// Adds the headers of one more connection.
fn plus_headers(reports: Option<HeaderReport>, connection: &Connection) -> Option<HeaderReport> {
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
        self.lock().observation.rtt.extend(sample);
    }

    fn on_path(&self, sample: &PathSample) {
        let record = SampleRecord::new(sample, self.epoch);
        self.lock().path.push(record);
    }
}
