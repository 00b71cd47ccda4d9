//! A flow that is a stream of live media.

use std::sync::Arc;
use std::time::Duration;

use evenkeel_apps::AppError;
use evenkeel_apps::stream::{
    self, Clock, Host, Media, Sending, ServeOptions, ViewOptions, Viewing,
};
use futures_util::future::{Either, select};
use quinn::{Connection, Runtime};

use super::endpoints::{Endpoints, SERVER_NAME};
use super::record::Record;
use crate::scenario::{FlowSpec, Scenario, StreamSpec};
use crate::sim::{SimRuntime, Simulation};

/// Serves the stream, and starts the task that is its viewer; it waits for the flow's start.
/// Returns what each side records while it runs.
pub(super) fn spawn(
    simulation: &Simulation,
    scenario: &Scenario,
    spec: &FlowSpec,
    stream: &StreamSpec,
    endpoints: Endpoints,
    record: Arc<Record>,
) -> (Arc<Viewing>, Arc<Sending>) {
    let runtime = simulation.runtime();
    let epoch = runtime.epoch();
    let clock = Clock {
        at: epoch,
        micros: 0,
        shared: true,
    };
    let counts = Arc::<Sending>::default();
    let sending = endpoints.sending;
    sending.spawn(Box::pin(stream::serve(
        endpoints.sender,
        Arc::new(sending.clone()),
        ServeOptions {
            media: match stream.tracks.is_empty() {
                true => Media::Synthetic(stream.encoder),
                false => Media::Tracks(stream.tracks.clone()),
            },
            send: stream.send,
            viewers: 1,
            patience: scenario.duration,
            clock,
            host: Arc::new(OneViewer {
                runtime: runtime.clone(),
                record: record.clone(),
                counts: counts.clone(),
            }),
        },
    )));
    let viewing = stream
        .latency
        .map_or_else(Viewing::default, Viewing::with_latency);
    let viewing = Arc::new(viewing);
    let returned = (viewing.clone(), counts);
    let (start, stop) = (epoch + spec.start, epoch + spec.stop);
    // A flow that lasts to the end of the run is not torn down in its last instant.
    let stops = spec.stop < scenario.duration;
    let options = ViewOptions {
        began: start,
        clock,
        controller: None,
        buffer: stream.buffer,
        skip_damaged: false,
        reconnect: None,
        omit: scenario.warmup.saturating_sub(spec.start),
        time: None,
        patience: scenario.duration + Duration::from_secs(1),
        output: None,
    };
    let server = endpoints.sender_socket.address();
    let viewer = endpoints.receiver;
    runtime.clone().spawn(Box::pin(async move {
        runtime.sleep_until(start).await;
        let connecting = viewer
            .connect(server, SERVER_NAME)
            .expect("the server's address and name are ours");
        let connection = match connecting.await {
            Ok(connection) => connection,
            Err(error) => return record.failed(runtime.now(), &error),
        };
        let tasks = Arc::new(runtime.clone());
        let watching = Box::pin(stream::view(
            connection.clone(),
            tasks,
            options,
            viewing.clone(),
        ));
        if !stops {
            if let Err(error) = watching.await {
                record.failed(runtime.now(), &error);
            }
            return;
        }
        let time_up = Box::pin(runtime.sleep_until(stop));
        match select(watching, time_up).await {
            Either::Left((Err(error), _)) => record.failed(runtime.now(), &error),
            Either::Left((Ok(()), _)) => {}
            Either::Right(_) => {
                viewing.cut(runtime.now());
                connection.close(0_u32.into(), b"stopped");
            }
        }
    }));
    returned
}

/// Notes the connection of the stream's only viewer.
struct OneViewer {
    runtime: SimRuntime,
    record: Arc<Record>,
    counts: Arc<Sending>,
}

impl Host for OneViewer {
    fn accepted(&self, connection: &Connection) -> Arc<Sending> {
        self.record.connected(connection);
        self.counts.clone()
    }

    fn ended(&self, connection: &Connection, _sending: &Sending, result: &Result<(), AppError>) {
        self.record.ended(connection);
        if let Err(error) = result {
            self.record.failed(self.runtime.now(), error);
        }
    }
}
