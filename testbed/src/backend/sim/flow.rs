//! One flow of a scenario: its endpoints, its application, and what is seen of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_apps::stream::{Sending, Viewing};
use quinn::Runtime;

use super::endpoints::Endpoints;
use super::record::{Application, Receiver, Record};
use super::{Recording, SimError, stream, transfer};
use crate::metrics::{FlowObservation, StreamObservation, StreamSample};
use crate::scenario::{App, FlowSpec, Scenario};
use crate::sim::Simulation;

/// A flow of a running simulation.
#[derive(Debug)]
pub(super) struct Flow {
    epoch: Instant,
    record: Arc<Record>,
    /// Of a stream.
    stream: Option<Stream>,
}

#[derive(Debug)]
struct Stream {
    viewing: Arc<Viewing>,
    sending: Arc<Sending>,
    series: Vec<StreamSample>,
}

impl Flow {
    /// Binds the flow's endpoints and starts its application's task, which waits for its time.
    pub(super) fn start(
        simulation: &Simulation,
        scenario: &Scenario,
        index: usize,
        spec: &FlowSpec,
        recording: Recording<'_>,
    ) -> Result<Self, SimError> {
        let runtime = simulation.runtime();
        let epoch = runtime.epoch();
        let record = Record::new(epoch, spec);
        let endpoints = Endpoints::bind(simulation, scenario, index, spec, recording, &record)?;
        let mut sockets = vec![endpoints.receiver_socket.clone()];
        if let App::Stream(_) = spec.app {
            sockets.extend(endpoints.moves.iter().cloned());
        }
        if recording.packets {
            let sends = [&endpoints.sender_socket];
            let moves = endpoints.moves.iter();
            let moves = moves.filter(|_| !matches!(spec.app, App::Stream(_)));
            record.keeps_packets_of(sends.into_iter().chain(moves));
        }
        let sender = record.clone();
        let (application, stream) = if let App::Stream(media) = &spec.app {
            let (viewing, sending) =
                stream::spawn(simulation, scenario, spec, media, endpoints, sender);
            let application = Application::Stream(viewing.clone());
            let series = Vec::new();
            let stream = Stream {
                viewing,
                sending,
                series,
            };
            (application, Some(stream))
        } else {
            let progress = transfer::spawn(simulation, scenario, index, spec, endpoints, sender)?;
            (Application::Bulk(progress), None)
        };
        record.arrives_at(Receiver {
            sockets,
            application,
        });
        // Between two intervals the samples know what has come.
        let interval = scenario.sampling_interval.as_nanos();
        if spec.stop < scenario.duration && !spec.stop.as_nanos().is_multiple_of(interval) {
            let (record, stop) = (record.clone(), epoch + spec.stop);
            let clock = runtime.clone();
            runtime.spawn(Box::pin(async move {
                clock.sleep_until(stop).await;
                record.stopped(stop);
            }));
        }
        Ok(Self {
            epoch,
            record,
            stream,
        })
    }

    /// The warm-up is over: packets count from here.
    pub(super) fn warmed_up(&mut self) {
        self.record.warmed_up();
    }

    /// A sampling interval is over; it ended at `end`, counted from the run's beginning.
    pub(super) fn sample(&mut self, end: Duration) {
        if let Some(stream) = &mut self.stream {
            let seen = stream.viewing.snapshot(self.epoch + end);
            let seen = seen.unwrap_or_default();
            stream.series.push(StreamSample {
                delay_ms: seen.delay_ms,
                bitrate_bps: seen.bitrate_bps,
            });
        }
        self.record.sample();
    }

    /// All that was seen of the flow that `spec` describes.
    pub(super) fn finish(self, spec: &FlowSpec, duration: Duration) -> FlowObservation {
        let mut observation = self.record.finish(spec);
        if let Some(Stream {
            viewing,
            sending,
            series,
        }) = self.stream
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
