//! Flows as `evenkeel bulk` servers inside nodes; their clients are in `sender`.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::plan::{Plan, node_address};
use super::process::Process;
use super::received::{Received, spread};
use super::records::{Record, parse, pin};
use super::sender::Sender;
use super::{KernelError, options};
use crate::backend::unseen;
use crate::metrics::FlowObservation;
use crate::random::{Purpose, generator};
use crate::scenario::{App, FlowSpec, Scenario};

/// IPv4 and UDP headers around every datagram, in bytes.
pub(super) const HEADER_BYTES: u64 =
    (evenkeel_wire::IPV4_HEADER_LEN + evenkeel_wire::UDP_HEADER_LEN) as u64;

/// How long a server may take to listen, and a client to end when it is asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The first port of the flows' servers.
pub(super) const FIRST_PORT: usize = 20_000;

/// A flow of a run: its server, and the thread that starts its clients.
#[derive(Debug)]
pub(super) struct Flow {
    server: Process,
    received: Vec<Received>,
    sender: Arc<Sender>,
    thread: Option<JoinHandle<()>>,
    observation: FlowObservation,
}

impl Flow {
    /// Starts the flow's server and waits until it listens.
    pub(super) fn start(
        scenario: &Scenario,
        plan: &Plan,
        index: usize,
        spec: &FlowSpec,
        program: &Path,
    ) -> Result<Self, KernelError> {
        if matches!(
            spec.app,
            App::OnOff {
                reconnect: false,
                ..
            }
        ) {
            return Err(KernelError::Unsupported {
                flow: spec.name.clone(),
            });
        }
        let interval = scenario.sampling_interval;
        let server_address = format!("{}:{}", node_address(spec.to.0), FIRST_PORT + index);
        let mut arguments = ["bulk", "server", "--listen", &server_address]
            .map(str::to_owned)
            .to_vec();
        arguments.extend(options::of_receiver(spec, interval));
        let what = format!("the server of {}", spec.name);
        let mut server =
            Process::start(what, &plan.namespaces[spec.to.0].place, program, &arguments)?;
        let pin = pin(&mut server)?;
        let sender = Sender {
            spec: spec.clone(),
            rng: generator(scenario.seed, Purpose::Flow, index),
            place: plan.namespaces[spec.from.0].place.clone(),
            program: program.to_owned(),
            server_address,
            source: node_address(spec.from.0),
            pin,
            interval,
            warmup: scenario.warmup,
            duration: scenario.duration,
            over: AtomicBool::new(false),
            state: Mutex::default(),
        };
        Ok(Self {
            server,
            received: Vec::new(),
            sender: Arc::new(sender),
            thread: None,
            observation: unseen(spec),
        })
    }

    /// The run has begun.
    pub(super) fn begin(&mut self, epoch: Instant) {
        let sender = self.sender.clone();
        self.thread = Some(std::thread::spawn(move || sender.run(epoch)));
    }

    /// A sampling interval is over.
    pub(super) fn sample(&mut self) -> Result<(), KernelError> {
        self.drain();
        let controller = self.sender.controller();
        self.observation.controller_state.push(controller);
        match self.server.ended() {
            Some(_) => Err(self.server.failure()),
            None => Ok(()),
        }
    }

    /// All that was seen of the flow, in intervals of `interval` since `epoch`.
    pub(super) fn finish(mut self, epoch: Instant, interval: Duration) -> FlowObservation {
        self.stop();
        self.drain();
        let mut observation = std::mem::take(&mut self.observation);
        let buckets = observation.controller_state.len();
        let spread =
            |bytes: fn(&Received) -> u64| spread(&self.received, epoch, interval, buckets, bytes);
        observation.delivered = spread(|received| received.ip_bytes);
        observation.app_delivered = spread(|received| received.app_bytes);
        let mut state = self.sender.lock();
        state.give(&mut observation);
        observation.transfers = std::mem::take(&mut state.transfers);
        if let Some(done) = state.done {
            observation.stop = done;
        }
        if let [only] = &mut observation.transfers[..]
            && only.end.is_none()
        {
            only.bytes = self
                .received
                .iter()
                .map(|received| received.app_bytes)
                .sum();
        }
        observation
    }

    fn drain(&mut self) {
        for line in self.server.lines() {
            if let Record::ServerInterval(record) = parse(&line) {
                self.received.push(Received {
                    at: line.at,
                    length: Duration::from_secs_f64((record.end_s - record.start_s).max(0.0)),
                    ip_bytes: record.udp_bytes_received
                        + HEADER_BYTES * record.udp_datagrams_received,
                    app_bytes: record.bytes_received,
                });
            }
        }
    }

    fn stop(&mut self) {
        self.sender.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.stop();
    }
}
