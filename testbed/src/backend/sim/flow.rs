//! One flow of a scenario: its endpoints, its application, and what is seen of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::{AckReport, Context, Observer, PathSample};
use evenkeel_apps::bulk::Progress;
use evenkeel_apps::path::{HeaderCounts, HeaderReport, SampleRecord};
use evenkeel_apps::trace::Traces;
use quinn::Connection;

use super::SimError;
use super::endpoints::{Endpoints, StreamEndpoints};
use super::{stream, transfer};
use crate::backend::unseen;
use crate::metrics::{
    ControllerSample, FlowObservation, PathObservation, RttSample, StreamObservation, StreamSample,
    Transfer,
};
use crate::scenario::{App, FlowSpec, Scenario};
use crate::sim::{SimSocket, Simulation};

/// A flow of a running simulation.
#[derive(Debug)]
pub(super) struct Flow {
    record: Arc<Record>,
    receiver: Receiver,
    series: Vec<StreamSample>,
    observation: FlowObservation,
    delivered_before: u64,
    app_before: u64,
    warm: Packets,
    warm_headers: HeaderCounts,
}

impl Flow {
    /// Binds the flow's endpoints and starts its application's task, which waits for its time.
    pub(super) fn start(
        simulation: &Simulation,
        scenario: &Scenario,
        index: usize,
        spec: &FlowSpec,
        traces: Option<&Traces>,
    ) -> Result<Self, SimError> {
        let record = Arc::new(Record {
            epoch: simulation.runtime().epoch(),
            state: Mutex::default(),
        });
        let receiver = if let App::Stream(stream) = &spec.app {
            let endpoints =
                StreamEndpoints::bind(simulation, scenario, index, spec, traces, &record)?;
            Receiver::Stream(stream::spawn(
                simulation,
                scenario,
                spec,
                stream,
                endpoints,
                record.clone(),
            ))
        } else {
            let endpoints = Endpoints::bind(simulation, scenario, index, spec, traces, &record)?;
            let (socket, progress) = (
                endpoints.receiver_socket.clone(),
                endpoints.progress.clone(),
            );
            transfer::spawn(simulation, scenario, index, spec, endpoints, record.clone())?;
            Receiver::Bulk { socket, progress }
        };
        let observation = unseen(spec);
        Ok(Self {
            record,
            receiver,
            series: Vec::new(),
            observation,
            delivered_before: 0,
            app_before: 0,
            warm: Packets::default(),
            warm_headers: HeaderCounts::default(),
        })
    }

    /// The warm-up is over: packets count from here.
    pub(super) fn warmed_up(&mut self) {
        self.warm = self.record.packets();
        self.warm_headers = self
            .record
            .headers()
            .map_or_else(HeaderCounts::default, |h| h.counts);
    }

    /// A sampling interval is over; it ended at `end`, counted from the run's beginning.
    pub(super) fn sample(&mut self, end: Duration) {
        let (delivered, app) = match &self.receiver {
            Receiver::Bulk { socket, progress } => (socket.received_bytes(), progress.received()),
            Receiver::Stream(stream) => {
                let at = self.record.epoch + end;
                let seen = stream.viewing.snapshot(at).unwrap_or_default();
                self.series.push(StreamSample {
                    delay_ms: seen.delay_ms,
                    bitrate_bps: seen.bitrate_bps,
                });
                (stream.socket.received_bytes(), stream.viewing.received())
            }
        };
        self.observation
            .delivered
            .push(delivered - self.delivered_before);
        self.observation.app_delivered.push(app - self.app_before);
        self.observation
            .controller_state
            .push(self.record.controllers());
        (self.delivered_before, self.app_before) = (delivered, app);
    }

    /// All that was seen of the flow.
    pub(super) fn finish(self, duration: Duration) -> FlowObservation {
        let packets = self.record.packets();
        let headers = self.record.headers();
        let mut state = self.record.lock();
        let mut observation = self.observation;
        observation.sent_packets = packets.sent - self.warm.sent;
        observation.lost_packets = packets.lost - self.warm.lost;
        observation.rtt = std::mem::take(&mut state.rtt);
        observation.path = headers.map(|headers| PathObservation {
            headers: HeaderReport {
                counts: headers.counts.since(self.warm_headers),
                ..headers
            },
            samples: std::mem::take(&mut state.path),
        });
        observation.transfers = std::mem::take(&mut state.transfers);
        observation.error = state.error.take();
        if let Receiver::Stream(stream) = self.receiver {
            let end = self.record.epoch + duration;
            if observation.stop >= duration {
                stream.viewing.cut(end);
            }
            observation.stream = stream.viewing.report(end).map(|report| StreamObservation {
                report,
                sent: stream.sending.counts(),
                series: self.series,
            });
        }
        if let Some(done) = state.done {
            observation.stop = done;
        }
        observation
    }
}

/// Where the flow's data goes.
#[derive(Debug)]
enum Receiver {
    Bulk {
        socket: Arc<SimSocket>,
        progress: Arc<Progress>,
    },
    Stream(stream::Stream),
}

/// What the flow's tasks and controllers write down while the simulation runs.
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
    rtt: Vec<RttSample>,
    path: Vec<SampleRecord>,
    transfers: Vec<Transfer>,
    error: Option<String>,
    done: Option<Duration>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Packets {
    sent: u64,
    lost: u64,
}

impl Record {
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
    pub(super) fn failed(&self, error: &dyn std::error::Error) {
        self.lock().error.get_or_insert(error.to_string());
    }

    fn packets(&self) -> Packets {
        let state = self.lock();
        state.live.iter().fold(state.ended, Packets::plus)
    }

    /// Path headers of all connections; `None` if no peer took any.
    fn headers(&self) -> Option<HeaderReport> {
        let state = self.lock();
        state.live.iter().fold(state.ended_headers.clone(), plus)
    }

    /// The controllers of all connections together.
    fn controllers(&self) -> Option<ControllerSample> {
        let state = self.lock();
        let states = state.live.iter().filter_map(Context::of);
        let samples = states.map(|context| {
            let state = context.state();
            ControllerSample {
                window: state.window,
                slow_start_threshold: state.slow_start_threshold,
                pacing_rate: state.pacing_rate,
            }
        });
        samples.reduce(ControllerSample::plus)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("the simulation has one thread, which panicked")
    }
}

impl Observer for Record {
    fn on_acks(&self, report: &AckReport) {
        let at = report.now - self.epoch;
        let rtt = report.rtt;
        self.lock().rtt.push(RttSample { at, rtt });
    }

    fn on_path(&self, sample: &PathSample) {
        let record = SampleRecord::new(sample, self.epoch);
        self.lock().path.push(record);
    }
}

/// With what became of the headers of one more connection.
fn plus(reports: Option<HeaderReport>, connection: &Connection) -> Option<HeaderReport> {
    let Some(report) = HeaderReport::of(connection) else {
        return reports;
    };
    let before = reports.map_or_else(HeaderCounts::default, |reports| reports.counts);
    Some(HeaderReport {
        counts: before.plus(report.counts),
        ..report
    })
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
