//! A flow of a run: a server of an application on one host, its clients on another.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::arguments::{bulk_server, stream_server};
use super::client::Client;
use super::error::KernelError;
use super::network::Network;
use super::pauses::Pauses;
use super::process::{Line, Process};
use super::records::pin;
use super::reports::Reporter;
use super::tcp;
use crate::metrics::{ControllerSample, FlowObservation};
use crate::scenario::App;

/// The first port of the flows' servers.
const FIRST_PORT: usize = 20_000;

/// A flow: its server, and the thread that starts its clients.
#[derive(Debug)]
pub(super) struct Flow {
    server: Process,
    /// Of the server, if it sends.
    pauses: Pauses,
    reporter: Reporter,
    client: Arc<Client>,
    thread: Option<JoinHandle<()>>,
    controller_state: Vec<Option<ControllerSample>>,
}

impl Flow {
    /// Starts the server of the flow `index` of the scenario by `program`, and waits until it
    /// listens. It receives bulk data, or sends a stream.
    pub(super) fn start(
        network: &Arc<Network>,
        index: usize,
        program: &Path,
    ) -> Result<Self, KernelError> {
        let scenario = &network.scenario;
        let spec = &scenario.flows[index];
        let node = match spec.app {
            App::Stream(_) => spec.from,
            _ => spec.to,
        };
        let port = u16::try_from(FIRST_PORT + index).expect("scenarios have at most 2000 flows");
        let server_address = SocketAddr::new(node.address(spec.ip_version), port).to_string();
        let arguments = match &spec.app {
            App::Stream(stream) => stream_server(scenario, spec, stream, &server_address),
            App::Tcp { .. } => tcp::sink(scenario, &server_address),
            _ => bulk_server(scenario, spec, &server_address),
        };
        let what = format!("the server of {}", spec.name);
        let mut server = Process::start(network, what, node, program, &arguments)?;
        let pin = pin(&mut server)?;
        Ok(Self {
            server,
            pauses: Pauses::default(),
            reporter: Reporter::default(),
            client: Arc::new(Client {
                network: network.clone(),
                index,
                program: program.to_owned(),
                server_address,
                pin,
                over: AtomicBool::new(false),
                state: Mutex::default(),
            }),
            thread: None,
            controller_state: Vec::new(),
        })
    }

    /// The run has begun.
    pub(super) fn begin(&mut self, epoch: Instant) {
        let client = self.client.clone();
        if let App::Stream(_) = client.spec().app {
            self.pauses = Pauses::of(client.spec(), epoch);
        }
        self.thread = Some(std::thread::spawn(move || client.run(epoch)));
    }

    /// Stops the server or lets it go on, if it is time to. Returns how long to wait until the next
    /// call, at most `longest`.
    pub(super) fn pause_server(&mut self, longest: Duration) -> Duration {
        self.pauses.keep(&mut self.server, longest)
    }

    /// A sampling interval is over. Fails if the server has ended.
    pub(super) fn sample(&mut self, epoch: Instant) -> Result<(), KernelError> {
        self.read_server(epoch);
        let controller = self.client.lock().reports.controller;
        self.controller_state.push(controller);
        self.server.check()
    }

    /// All that was seen of the flow.
    pub(super) fn finish(mut self, epoch: Instant) -> FlowObservation {
        self.stop();
        self.read_server(epoch);
        let controller_state = std::mem::take(&mut self.controller_state);
        let interval = self.client.network.scenario.sampling_interval;
        let mut state = self.client.lock();
        let reports = &mut state.reports;
        reports.observation(self.client.spec(), interval, controller_state)
    }

    fn read_server(&mut self, epoch: Instant) {
        let lines: Vec<Line> = self.server.lines().collect();
        for line in lines {
            self.client.take(&line, epoch, &mut self.reporter);
        }
    }

    fn stop(&mut self) {
        self.client.over.store(true, Ordering::Relaxed);
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
