//! What a flow's sender does over time: one transfer, ON and OFF, or many short ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel_apps::bulk::{
    self, Amount, Direction, Hashing, Job, Limits, Local, Pieces, Progress, Readable, ServeOptions,
    Source,
};
use futures_util::future::{Either, select};
use futures_util::stream::{StreamExt, unfold};
use quinn::{Connection, Endpoint, Runtime};
use rand_pcg::Pcg64;

use super::SimError;
use super::endpoints::{Endpoints, SERVER_NAME};
use super::record::Record;
use crate::scenario::{App, FlowSpec, Payload, Periods, Scenario};
use crate::sim::{Process, Simulation};
use crate::traffic::{Planned, Transfers};

/// Serves the receiver, and starts the task that is the flow's application; it waits for the
/// flow's start. Returns what the receiver counts.
pub(super) fn spawn(
    simulation: &Simulation,
    scenario: &Scenario,
    index: usize,
    spec: &FlowSpec,
    endpoints: Endpoints,
    record: Arc<Record>,
) -> Result<Arc<Progress>, SimError> {
    let file = match &spec.app {
        App::Bulk(Payload::File(path)) => {
            let bytes = std::fs::read(path)
                .map_err(|error| SimError::File("cannot read", path.clone(), error))?;
            Some(Bytes::from(bytes))
        }
        _ => None,
    };
    let runtime = simulation.runtime();
    let progress = Arc::<Progress>::default();
    let serve = ServeOptions {
        limits: Limits {
            connections: usize::MAX,
            handshake: scenario.duration,
            // The simulated client stands for as many users as there are connections.
            guard_handshakes: false,
            duration: scenario.duration,
            patience: scenario.duration,
            memory: u64::MAX,
        },
        ..ServeOptions::default()
    };
    runtime.spawn(Box::pin(bulk::serve(
        endpoints.receiver,
        Arc::new(runtime.clone()),
        serve,
        progress.clone(),
    )));
    // All that follows belongs to the sender.
    let runtime = endpoints.sending;
    let epoch = runtime.epoch();
    let sender = Arc::new(Sender {
        longest: scenario.duration,
        streams: u16::try_from(spec.streams).unwrap_or(bulk::MAX_STREAMS),
        verify: spec.verify,
        runtime: runtime.clone(),
        endpoint: endpoints.sender,
        receiver: endpoints.receiver_socket.address(),
        progress: progress.clone(),
        record,
    });
    let transfers = Transfers::new(scenario, index);
    let (app, start) = (spec.app.clone(), epoch + spec.start);
    runtime.clone().spawn(Box::pin(async move {
        runtime.sleep_until(start).await;
        if let App::OnOff {
            periods,
            reconnect: false,
            ..
        } = app
        {
            return sender.on_off_one_connection(periods, transfers).await;
        }
        for Planned { at, until, payload } in transfers {
            runtime.sleep_until(epoch + at).await;
            let until = until.map(|until| epoch + until);
            let (amount, source) = match (payload, &file) {
                (_, Some(bytes)) => (
                    Amount::Bytes(bytes.len() as u64),
                    Source::Memory(bytes.clone()),
                ),
                (Payload::Bytes(bytes), None) => (Amount::Bytes(bytes), Source::Generated),
                _ => (Amount::Duration(sender.longest), Source::Generated),
            };
            if let App::Short { .. } = app {
                // Those that run when the flow stops are finished.
                let sender = sender.clone();
                runtime.spawn(Box::pin(async move {
                    sender.transfer_until(until, amount, source).await;
                }));
            } else if sender.transfer_until(until, amount, source).await
                && let App::Bulk(_) = app
            {
                sender.record.done(runtime.now());
            }
        }
    }));
    Ok(progress)
}

/// The sending side of a flow.
struct Sender {
    runtime: Process,
    endpoint: Endpoint,
    /// Where the receiver listens.
    receiver: SocketAddr,
    /// What the receiver counts.
    progress: Arc<Progress>,
    record: Arc<Record>,
    /// No transfer lasts longer than the run.
    longest: Duration,
    streams: u16,
    verify: bool,
}

impl Sender {
    /// One connection whose application has nothing to send in OFF periods. What quinn holds
    /// when a period ends, about two windows, is still sent.
    async fn on_off_one_connection(&self, periods: Periods, transfers: Transfers) {
        let Transfers { now, stop, rng, .. } = transfers;
        if stop.is_some_and(|stop| now >= stop) {
            return;
        }
        let epoch = self.runtime.epoch();
        self.runtime.sleep_until(epoch + now).await;
        let source = Source::Stored(Arc::new(OnOffSource {
            runtime: self.runtime.clone(),
            periods,
            rng,
        }));
        let amount = Amount::Bytes(bulk::MAX_BYTES);
        let stop = stop.map(|stop| epoch + stop);
        self.transfer_until(stop, amount, source).await;
    }

    /// One transfer over a new connection, broken off at `until`; whether it was completed.
    async fn transfer_until(&self, until: Option<Instant>, amount: Amount, source: Source) -> bool {
        let transfer = Box::pin(self.transfer(amount, source));
        let Some(until) = until else {
            return transfer.await;
        };
        let time_up = Box::pin(self.runtime.sleep_until(until));
        match select(transfer, time_up).await {
            Either::Left((completed, _)) => completed,
            Either::Right(_) => false,
        }
    }

    async fn transfer(&self, amount: Amount, source: Source) -> bool {
        let runtime = Arc::new(self.runtime.clone());
        let connecting = self
            .endpoint
            .connect(self.receiver, SERVER_NAME)
            .expect("the receiver's address and name are ours");
        let connection = match connecting.await {
            Ok(connection) => connection,
            Err(error) => {
                self.record.failed(self.runtime.now(), &error);
                return false;
            }
        };
        let mut carried = Carried::new(self, connection.clone());
        let job = Job {
            streams: self.streams,
            verify: self.verify.then_some(Hashing::Sha256),
            ..Job::new(Direction::Up, amount)
        };
        let local = Local {
            source,
            patience: self.longest,
            ..Local::default()
        };
        match bulk::client(connection, runtime, job, local, Arc::default()).await {
            Ok(outcome) => {
                let verified = self.verify.then_some(outcome.verified);
                carried.completed = Some((outcome.receiver.bytes, verified));
                true
            }
            Err(error) => {
                self.record.failed(self.runtime.now(), &error);
                false
            }
        }
    }
}

/// A connection that carries the flow until this is dropped, however its transfer ends.
struct Carried<'a> {
    sender: &'a Sender,
    connection: Connection,
    transfer: usize,
    received_before: u64,
    completed: Option<(u64, Option<bool>)>,
}

impl<'a> Carried<'a> {
    fn new(sender: &'a Sender, connection: Connection) -> Self {
        sender.record.connected(&connection);
        Self {
            connection,
            transfer: sender.record.transfer_began(sender.runtime.now()),
            received_before: sender.progress.received(),
            completed: None,
            sender,
        }
    }
}

impl Drop for Carried<'_> {
    fn drop(&mut self) {
        let record = &self.sender.record;
        match self.completed {
            Some((bytes, verified)) => {
                record.transferred(self.sender.runtime.now(), self.transfer, bytes, verified);
            }
            None => {
                let received = self.sender.progress.received();
                record.broken_off(self.transfer, received - self.received_before);
                self.connection.close(0u32.into(), b"stopped");
            }
        }
        record.ended(&self.connection);
    }
}

/// Bytes that it gives at once: as many as a transfer takes.
const BLOCK: usize = 16 * 1024;

/// An endless source that has nothing to give in OFF periods.
struct OnOffSource {
    runtime: Process,
    periods: Periods,
    rng: Pcg64,
}

impl Readable for OnOffSource {
    fn length(&self) -> u64 {
        bulk::MAX_BYTES
    }

    fn read(&self, _: u64) -> Pieces {
        let (runtime, periods) = (self.runtime.clone(), self.periods);
        let mut rng = self.rng.clone();
        let off_at = runtime.now() + periods.sample_on(&mut rng);
        let block = Bytes::from(vec![0; BLOCK]);
        let pieces = unfold((off_at, rng), move |(mut off_at, mut rng)| {
            let (runtime, block) = (runtime.clone(), block.clone());
            async move {
                while runtime.now() >= off_at {
                    let ends = off_at + periods.sample_off(&mut rng);
                    runtime.sleep_until(ends).await;
                    off_at = ends + periods.sample_on(&mut rng);
                }
                Some((Ok(block), (off_at, rng)))
            }
        });
        pieces.boxed()
    }
}
