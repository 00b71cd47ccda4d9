//! The clients of a flow: a thread starts them when the scenario says so and reads their reports.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::super::clock::{pause, wall_clock};
use super::arguments::{bulk_client, stream_client};
use super::error::KernelError;
use super::network::Network;
use super::pauses::Pauses;
use super::process::{Line, Process};
use super::reports::{Reporter, Reports};
use super::tcp;
use crate::metrics::Transfer;
use crate::scenario::{App, FlowSpec, Payload, StreamSpec};
use crate::traffic::{Planned, Transfers};

/// How often a waiting thread looks whether the run is over.
const LOOK: Duration = Duration::from_millis(10);

/// The client side of a flow, shared by its threads.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) network: Arc<Network>,
    /// Position of the flow in the scenario.
    pub(super) index: usize,
    /// `evenkeel`, or what stands for it.
    pub(super) program: PathBuf,
    pub(super) server_address: String,
    pub(super) pin: String,
    /// The run has ended: everything stops where it is.
    pub(super) over: AtomicBool,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) reports: Reports,
    /// Bulk clients that run.
    clients: usize,
}

impl Client {
    pub(super) fn spec(&self) -> &FlowSpec {
        &self.network.scenario.flows[self.index]
    }

    /// Carries out what the flow's application does in a run that began at `epoch`.
    pub(super) fn run(self: &Arc<Self>, epoch: Instant) {
        let (spec, scenario) = (self.spec(), &self.network.scenario);
        let transfers = Transfers::new(scenario, self.index);
        if let App::Stream(stream) = &spec.app {
            self.wait_until(epoch + spec.start);
            return self.view(epoch, stream, transfers.stop.map(|stop| epoch + stop));
        }
        let mut running = Vec::new();
        for Planned { at, until, payload } in transfers {
            self.wait_until(epoch + at);
            if self.is_over() {
                break;
            }
            let until = until.map(|until| epoch + until);
            if let App::Short { .. } = spec.app {
                let client = self.clone();
                let transfer = move || client.transfer(epoch, &payload, until);
                running.push(std::thread::spawn(transfer));
                running.retain(|transfer| !transfer.is_finished());
            } else if self.transfer(epoch, &payload, until)
                && let App::Bulk(_) | App::Tcp { .. } = spec.app
            {
                self.lock().reports.done = Some(wall_clock() - epoch);
            }
        }
        for transfer in running {
            let _ = transfer.join();
        }
    }

    /// Runs one bulk client, broken off at `until`; returns whether it completed its transfer.
    fn transfer(&self, epoch: Instant, payload: &Payload, until: Option<Instant>) -> bool {
        if self.is_over() {
            return false;
        }
        let reporter = {
            let mut state = self.lock();
            state.clients += 1;
            state.reports.transfers.push(Transfer {
                start: wall_clock() - epoch,
                end: None,
                bytes: 0,
                sha256_verified: None,
            });
            Reporter::of_transfer(state.reports.transfers.len() - 1)
        };
        let (spec, scenario) = (self.spec(), &self.network.scenario);
        let address = &self.server_address;
        let arguments = match spec.app {
            App::Tcp { bytes } => tcp::source(scenario, spec, address, bytes),
            _ => bulk_client(scenario, spec, address, &self.pin, payload),
        };
        let what = format!("the client of {}", spec.name);
        let started = Process::start(&self.network, what, spec.from, &self.program, &arguments);
        let pauses = Pauses::of(spec, epoch);
        let completed = self.follow(epoch, started, (reporter, pauses), until);
        let mut state = self.lock();
        state.clients -= 1;
        if state.clients == 0 {
            state.reports.controller = None;
        }
        completed
    }

    /// Runs the viewer of a stream until `stop` or the end of the run.
    fn view(&self, epoch: Instant, stream: &StreamSpec, stop: Option<Instant>) {
        if self.is_over() {
            return;
        }
        let (spec, scenario) = (self.spec(), &self.network.scenario);
        let arguments = stream_client(scenario, spec, stream, &self.server_address, &self.pin);
        let what = format!("the viewer of {}", spec.name);
        let started = Process::start(&self.network, what, spec.to, &self.program, &arguments);
        let viewer = (Reporter::default(), Pauses::default());
        self.follow(epoch, started, viewer, stop);
    }

    /// Reads a client's lines until it ends, `until` has come or the run is over. Returns whether
    /// it completed a transfer.
    fn follow(
        &self,
        epoch: Instant,
        started: Result<Process, KernelError>,
        (mut reporter, mut pauses): (Reporter, Pauses),
        until: Option<Instant>,
    ) -> bool {
        let mut client = match started {
            Ok(client) => client,
            Err(error) => {
                self.fail(epoch, error.to_string());
                return false;
            }
        };
        loop {
            let wait = pauses.keep(&mut client, LOOK);
            match client.line(wait) {
                Ok(Some(line)) => {
                    if self.take(&line, epoch, &mut reporter) {
                        client.end();
                        return true;
                    }
                }
                // Its output has ended before a result: it failed, and its last line says why.
                Ok(None) => {
                    client.end();
                    self.fail(epoch, client.reason());
                    return false;
                }
                Err(_) => {}
            }
            // At the end of the run only a viewer has something left to report.
            if self.is_over() && reporter.transfer.is_some() {
                return false;
            }
            if self.is_over() || until.is_some_and(|until| wall_clock() >= until) {
                pauses.end(&mut client);
                client.interrupt();
                for line in client.lines() {
                    self.take(&line, epoch, &mut reporter);
                }
                return false;
            }
        }
    }

    /// The flow has failed now.
    fn fail(&self, epoch: Instant, reason: String) {
        self.lock().reports.fail(wall_clock() - epoch, reason);
    }

    /// Takes in a line of one of the flow's programs. Returns whether it completes a transfer.
    pub(super) fn take(&self, line: &Line, epoch: Instant, reporter: &mut Reporter) -> bool {
        let scenario = &self.network.scenario;
        let mut state = self.lock();
        state
            .reports
            .take(line, epoch, scenario, self.spec(), reporter)
    }

    fn wait_until(&self, at: Instant) {
        while !self.is_over() {
            let left = at.saturating_duration_since(wall_clock());
            if left.is_zero() {
                break;
            }
            pause(left.min(LOOK));
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.state.lock();
        state.expect("no thread of a flow panics with its state")
    }
}
