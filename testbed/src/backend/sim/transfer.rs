//! What a flow's sender does over time: one transfer, ON and OFF, or many short ones.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel_apps::bulk::{
    self, Amount, Direction, Job, Limits, Local, Pieces, Progress, Readable, ServeOptions, Source,
};
use futures_util::future::{Either, select};
use futures_util::stream::{StreamExt, unfold};
use quinn::{Connection, Endpoint, Runtime};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

use super::endpoints::{Endpoints, SERVER_NAME};
use super::record::Record;
use super::{SimError, file_error};
use crate::random::{PeriodLength, Purpose, generator, pareto};
use crate::scenario::{App, FlowSpec, Payload, Scenario};
use crate::sim::{SimRuntime, Simulation};

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
            let bytes =
                std::fs::read(path).map_err(|source| file_error("cannot read", path, source))?;
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
    let sender = Sender {
        start: runtime.epoch() + spec.start,
        // A flow that lasts to the end of the run is not torn down in its last instant.
        stop: (spec.stop < scenario.duration).then(|| runtime.epoch() + spec.stop),
        longest: scenario.duration,
        streams: u16::try_from(spec.streams).unwrap_or(bulk::MAX_STREAMS),
        verify: spec.verify,
        runtime: runtime.clone(),
        endpoint: endpoints.sender,
        receiver: endpoints.receiver_socket.address(),
        progress: progress.clone(),
        record,
    };
    let mut rng = generator(scenario.seed, Purpose::Flow, index);
    let app = spec.app.clone();
    runtime.clone().spawn(Box::pin(async move {
        sender.runtime.sleep_until(sender.start).await;
        match app {
            App::Bulk(payload) => sender.bulk(payload, file).await,
            App::OnOff {
                periods,
                begins,
                reconnect,
            } => {
                let (on, off) = PeriodLength::pair(&periods);
                let first = sender.start + off.before_first(begins, &mut rng);
                if sender.stop.is_some_and(|stop| first >= stop) {
                    return;
                }
                sender.runtime.sleep_until(first).await;
                if reconnect {
                    sender.on_off(first, on, off, rng).await;
                } else {
                    sender.on_off_one_connection(on, off, rng).await;
                }
            }
            App::Short {
                arrivals_per_s,
                mean_bytes,
                shape,
            } => {
                Arc::new(sender)
                    .short(arrivals_per_s, mean_bytes, shape, rng)
                    .await;
            }
            App::Stream(_) => unreachable!("streams have tasks of their own"),
        }
    }));
    Ok(progress)
}

/// The sending side of a flow.
struct Sender {
    runtime: SimRuntime,
    endpoint: Endpoint,
    /// Where the receiver listens.
    receiver: SocketAddr,
    /// What the receiver counts.
    progress: Arc<Progress>,
    record: Arc<Record>,
    start: Instant,
    /// When to break off; `None` at the end of the run.
    stop: Option<Instant>,
    /// No transfer lasts longer than the run.
    longest: Duration,
    streams: u16,
    verify: bool,
}

impl Sender {
    async fn bulk(&self, payload: Payload, file: Option<Bytes>) {
        let (amount, source) = match (payload, file) {
            (_, Some(bytes)) => (Amount::Bytes(bytes.len() as u64), Source::Memory(bytes)),
            (Payload::Bytes(bytes), None) => (Amount::Bytes(bytes), Source::Generated),
            _ => (Amount::Duration(self.longest), Source::Generated),
        };
        if self.transfer_until(self.stop, amount, source).await {
            self.record.done(self.runtime.now());
        }
    }

    /// Every ON period is a new connection that is broken off at its end.
    async fn on_off(&self, first: Instant, on: PeriodLength, off: PeriodLength, mut rng: Pcg64) {
        let mut now = first;
        while self.stop.is_none_or(|stop| now < stop) {
            let ends = now + on.sample(&mut rng);
            let ends = self.stop.map_or(ends, |stop| ends.min(stop));
            let amount = Amount::Duration(self.longest);
            self.transfer_until(Some(ends), amount, Source::Generated)
                .await;
            now = ends + off.sample(&mut rng);
            self.runtime.sleep_until(now).await;
        }
    }

    /// One connection whose application has nothing to send in OFF periods. What quinn holds
    /// when a period ends, about two windows, is still sent.
    async fn on_off_one_connection(&self, on: PeriodLength, off: PeriodLength, rng: Pcg64) {
        let source = Source::Stored(Arc::new(OnOffSource {
            runtime: self.runtime.clone(),
            on,
            off,
            rng,
        }));
        let amount = Amount::Bytes(bulk::MAX_BYTES);
        self.transfer_until(self.stop, amount, source).await;
    }

    /// New transfers until the flow stops; those that run then are finished.
    async fn short(
        self: Arc<Self>,
        arrivals_per_s: f64,
        mean_bytes: u64,
        shape: f64,
        mut rng: Pcg64,
    ) {
        let mut now = self.start;
        loop {
            let gap: f64 = Exp1.sample(&mut rng);
            now += Duration::from_secs_f64(gap / arrivals_per_s);
            if self.stop.is_some_and(|stop| now >= stop) {
                return;
            }
            self.runtime.sleep_until(now).await;
            let bytes = pareto(&mut rng, mean_bytes as f64, shape).max(1.0) as u64;
            let sender = self.clone();
            self.runtime.spawn(Box::pin(async move {
                let amount = Amount::Bytes(bytes.min(bulk::MAX_BYTES));
                sender.transfer_until(None, amount, Source::Generated).await;
            }));
        }
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
            verify: self.verify,
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
    runtime: SimRuntime,
    on: PeriodLength,
    off: PeriodLength,
    rng: Pcg64,
}

impl Readable for OnOffSource {
    fn length(&self) -> u64 {
        bulk::MAX_BYTES
    }

    fn read(&self, _: u64) -> Pieces {
        let (runtime, on, off) = (self.runtime.clone(), self.on, self.off);
        let mut rng = self.rng.clone();
        let off_at = runtime.now() + on.sample(&mut rng);
        let block = Bytes::from(vec![0; BLOCK]);
        let pieces = unfold((off_at, rng), move |(mut off_at, mut rng)| {
            let (runtime, block) = (runtime.clone(), block.clone());
            async move {
                while runtime.now() >= off_at {
                    let ends = off_at + off.sample(&mut rng);
                    runtime.sleep_until(ends).await;
                    off_at = ends + on.sample(&mut rng);
                }
                Some((Ok(block), (off_at, rng)))
            }
        });
        pieces.boxed()
    }
}
