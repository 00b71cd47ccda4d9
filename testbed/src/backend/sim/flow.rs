//! One flow of a scenario: its endpoints, its application, and what is seen of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_apps::bulk::Progress;
use evenkeel_apps::stream::{Sending, Viewing};
use evenkeel_apps::trace::Traces;

use super::endpoints::Endpoints;
use super::record::Record;
use super::{SimError, stream, transfer};
use crate::metrics::{FlowObservation, StreamObservation, StreamSample};
use crate::scenario::{App, FlowSpec, Scenario};
use crate::sim::{SimSocket, Simulation};

/// A flow of a running simulation.
#[derive(Debug)]
pub(super) struct Flow {
    epoch: Instant,
    record: Arc<Record>,
    /// Those of the receiver, if it moves.
    sockets: Vec<Arc<SimSocket>>,
    received: Received,
    delivered_before: u64,
    app_before: u64,
}

/// What the flow's application has received.
#[derive(Debug)]
enum Received {
    Bulk(Arc<Progress>),
    Stream {
        viewing: Arc<Viewing>,
        sending: Arc<Sending>,
        series: Vec<StreamSample>,
    },
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
        let epoch = simulation.runtime().epoch();
        let record = Record::new(epoch, spec);
        let endpoints = Endpoints::bind(simulation, scenario, index, spec, traces, &record)?;
        let mut sockets = vec![endpoints.receiver_socket.clone()];
        if let App::Stream(_) = spec.app {
            sockets.extend(endpoints.moves.iter().cloned());
        }
        let received = if let App::Stream(media) = &spec.app {
            let record = record.clone();
            let (viewing, sending) =
                stream::spawn(simulation, scenario, spec, media, endpoints, record);
            Received::Stream {
                viewing,
                sending,
                series: Vec::new(),
            }
        } else {
            let record = record.clone();
            let progress = transfer::spawn(simulation, scenario, index, spec, endpoints, record)?;
            Received::Bulk(progress)
        };
        Ok(Self {
            epoch,
            record,
            sockets,
            received,
            delivered_before: 0,
            app_before: 0,
        })
    }

    /// The warm-up is over: packets count from here.
    pub(super) fn warmed_up(&mut self) {
        self.record.warmed_up();
    }

    /// A sampling interval is over; it ended at `end`, counted from the run's beginning.
    pub(super) fn sample(&mut self, end: Duration) {
        let sockets = self.sockets.iter();
        let delivered = sockets.map(|socket| socket.received_bytes()).sum();
        let app = match &mut self.received {
            Received::Bulk(progress) => progress.received(),
            Received::Stream {
                viewing, series, ..
            } => {
                let seen = viewing.snapshot(self.epoch + end).unwrap_or_default();
                series.push(StreamSample {
                    delay_ms: seen.delay_ms,
                    bitrate_bps: seen.bitrate_bps,
                });
                viewing.received()
            }
        };
        let arrived = delivered - self.delivered_before;
        self.record.sample(arrived, app - self.app_before);
        (self.delivered_before, self.app_before) = (delivered, app);
    }

    /// All that was seen of the flow that `spec` describes.
    pub(super) fn finish(self, spec: &FlowSpec, duration: Duration) -> FlowObservation {
        let mut observation = self.record.finish(spec);
        if let Received::Stream {
            viewing,
            sending,
            series,
        } = self.received
        {
            let end = self.epoch + duration;
            if observation.died.is_some() || observation.stop >= duration {
                viewing.cut(self.epoch + observation.stop.min(duration));
            }
            observation.stream = viewing.report(end).map(|report| StreamObservation {
                report,
                sent: sending.counts(),
                series,
            });
        }
        observation
    }
}
