//! The sending side of a flow of `evenkeel bulk`: its clients, and what they say.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use evenkeel_apps::path::{HeaderCounts, HeaderReport, SampleRecord};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;

use super::flows::PATIENCE;
use super::place::Place;
use super::plan::absolute;
use super::process::{Line, Process};
use super::records::{ClientResult, Interval, Record, parse};
use super::{options, pause, wall_clock};
use crate::metrics::{ControllerSample, FlowObservation, PathObservation, RttSample, Transfer};
use crate::random::{PeriodLength, pareto};
use crate::scenario::{App, FlowSpec, Payload};

/// How often a waiting thread looks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// The sending side of a flow: starts clients as the scenario's application says.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) spec: FlowSpec,
    pub(super) rng: Pcg64,
    pub(super) place: Place,
    pub(super) program: PathBuf,
    pub(super) server_address: String,
    pub(super) source: Ipv4Addr,
    pub(super) pin: String,
    pub(super) interval: Duration,
    pub(super) warmup: Duration,
    pub(super) duration: Duration,
    /// The run has ended: everything stops where it is.
    pub(super) over: AtomicBool,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    clients: usize,
    pub(super) controller: Option<ControllerSample>,
    sent: u64,
    lost: u64,
    rtt: Vec<RttSample>,
    headers: Option<HeaderReport>,
    path: Vec<SampleRecord>,
    pub(super) transfers: Vec<Transfer>,
    pub(super) error: Option<String>,
    pub(super) done: Option<Duration>,
}

impl State {
    /// Takes in what a sender said of an interval that ended `at`, whose headers were `before` in
    /// the one before.
    pub(super) fn take(
        &mut self,
        interval: Interval,
        at: Duration,
        warmup: Duration,
        before: &mut HeaderCounts,
    ) {
        self.controller = Some(ControllerSample {
            window: interval.window_bytes,
            slow_start_threshold: interval.slow_start_threshold_bytes,
            pacing_rate: interval.pacing_rate_bps.map(|bits| bits / 8),
        });
        if let Some(path) = interval.path {
            let new = path.counts.since(std::mem::replace(before, path.counts));
            let counted = self.headers.as_ref().map(|headers| headers.counts);
            let counted = counted.unwrap_or_default();
            let counts = if at > warmup {
                counted.plus(new)
            } else {
                counted
            };
            self.headers = Some(HeaderReport { counts, ..path });
        }
        // They are as long before the line as before the interval's end.
        let origin_s = at.as_secs_f64() - interval.end_s;
        self.path.extend(
            interval
                .path_samples
                .into_iter()
                .map(|sample| SampleRecord {
                    at_s: (origin_s + sample.at_s).max(0.0),
                    ..sample
                }),
        );
        if at > warmup {
            self.sent += interval.packets_sent;
            self.lost += interval.packets_lost;
        }
        let samples = interval.rtt_samples_ms.iter().map(|ms| RttSample {
            at,
            rtt: Duration::from_secs_f64(ms / 1e3),
        });
        self.rtt.extend(samples);
    }

    /// Hands over what was taken in.
    pub(super) fn give(&mut self, observation: &mut FlowObservation) {
        observation.sent_packets = self.sent;
        observation.lost_packets = self.lost;
        observation.rtt = std::mem::take(&mut self.rtt);
        observation.path = self.headers.take().map(|headers| PathObservation {
            headers,
            samples: std::mem::take(&mut self.path),
        });
        observation.error = self.error.take();
    }
}

impl Sender {
    pub(super) fn run(self: Arc<Self>, epoch: Instant) {
        let start = epoch + self.spec.start;
        // A flow that lasts to the end of the run is not torn down in its last instant.
        let stop = (self.spec.stop < self.duration).then(|| epoch + self.spec.stop);
        self.wait_until(start);
        let mut rng = self.rng.clone();
        match &self.spec.app {
            App::Bulk(payload) => {
                let amount = match payload {
                    Payload::Endless => Amount::Endless,
                    Payload::Bytes(bytes) => Amount::Bytes(*bytes),
                    Payload::File(path) => Amount::File(absolute(path)),
                };
                if self.transfer(epoch, &amount, stop) {
                    self.lock().done = Some(wall_clock() - epoch);
                }
            }
            App::OnOff {
                periods, begins, ..
            } => {
                let (on, off) = PeriodLength::pair(periods);
                let mut now = start + off.before_first(*begins, &mut rng);
                self.wait_until(now);
                while !self.is_over() && stop.is_none_or(|stop| now < stop) {
                    let ends = now + on.sample(&mut rng);
                    let ends = stop.map_or(ends, |stop| ends.min(stop));
                    self.transfer(epoch, &Amount::Endless, Some(ends));
                    now = ends + off.sample(&mut rng);
                    self.wait_until(now);
                }
            }
            App::Stream(_) => unreachable!("streams have clients of their own"),
            App::Short {
                arrivals_per_s,
                mean_bytes,
                shape,
            } => {
                let mut transfers = Vec::new();
                let mut now = start;
                loop {
                    let gap: f64 = Exp1.sample(&mut rng);
                    now += Duration::from_secs_f64(gap / arrivals_per_s);
                    self.wait_until(now);
                    if self.is_over() || stop.is_some_and(|stop| now >= stop) {
                        break;
                    }
                    let bytes = pareto(&mut rng, *mean_bytes as f64, *shape).max(1.0) as u64;
                    let sender = self.clone();
                    transfers.push(std::thread::spawn(move || {
                        sender.transfer(epoch, &Amount::Bytes(bytes), None)
                    }));
                    transfers.retain(|transfer| !transfer.is_finished());
                }
                for transfer in transfers {
                    let _ = transfer.join();
                }
            }
        }
    }

    /// One client, broken off at `until`; whether it completed its transfer.
    fn transfer(&self, epoch: Instant, amount: &Amount, until: Option<Instant>) -> bool {
        if self.is_over() {
            return false;
        }
        let number = {
            let mut state = self.lock();
            state.clients += 1;
            state.transfers.push(Transfer {
                start: wall_clock() - epoch,
                end: None,
                bytes: 0,
                sha256_verified: None,
            });
            state.transfers.len() - 1
        };
        let what = format!("the client of {}", self.spec.name);
        let completed =
            match Process::start(what, &self.place, &self.program, &self.arguments(amount)) {
                Ok(client) => self.follow(epoch, client, number, until),
                Err(error) => {
                    self.fail(error.to_string());
                    false
                }
            };
        let mut state = self.lock();
        state.clients -= 1;
        if state.clients == 0 {
            state.controller = None;
        }
        completed
    }

    fn follow(
        &self,
        epoch: Instant,
        mut client: Process,
        number: usize,
        until: Option<Instant>,
    ) -> bool {
        let mut headers = HeaderCounts::default();
        loop {
            match client.line(LOOK) {
                Ok(Some(line)) => {
                    if self.record(epoch, &line, number, &mut headers) {
                        client.end(PATIENCE);
                        return true;
                    }
                }
                // Its output has ended before a result: it failed, and its last line says why.
                Ok(None) => {
                    client.end(PATIENCE);
                    self.fail(client.reason());
                    return false;
                }
                Err(_) => {}
            }
            if self.is_over() {
                return false;
            }
            if until.is_some_and(|until| wall_clock() >= until) {
                client.interrupt();
                client.end(PATIENCE);
                for line in client.lines() {
                    self.record(epoch, &line, number, &mut headers);
                }
                return false;
            }
        }
    }

    /// Takes in a line of a client, whose headers were `before` in the line before; whether it was
    /// the result of a completed transfer.
    fn record(
        &self,
        epoch: Instant,
        line: &Line,
        number: usize,
        before: &mut HeaderCounts,
    ) -> bool {
        let at = line.at - epoch;
        let mut state = self.lock();
        match parse(line) {
            // The run is over, and the routers are gone.
            Record::Interval(interval) if at.saturating_sub(interval.length()) >= self.duration => {
                false
            }
            Record::Interval(interval) => {
                state.take(interval, at, self.warmup, before);
                false
            }
            Record::Result(ClientResult {
                interrupted: false,
                verified,
                receiver: Some(receiver),
            }) => {
                let transfer = &mut state.transfers[number];
                transfer.end = Some(at);
                transfer.bytes = receiver.bytes;
                transfer.sha256_verified = self.spec.verify.then_some(verified == Some(true));
                true
            }
            _ => false,
        }
    }

    fn arguments(&self, amount: &Amount) -> Vec<String> {
        let mut arguments: Vec<String> =
            vec!["bulk".into(), "client".into(), self.server_address.clone()];
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--pin", self.pin.clone());
        add("--bind", self.source.to_string());
        add("--streams", self.spec.streams.to_string());
        match amount {
            // Longer than the run, which ends it.
            Amount::Endless => add("--time", (self.duration.as_secs_f64() + 60.0).to_string()),
            Amount::Bytes(bytes) => add("--bytes", bytes.to_string()),
            Amount::File(path) => add("--file", path.display().to_string()),
        }
        arguments.extend(options::of_sender(&self.spec, self.interval));
        if !self.spec.verify {
            arguments.push("--no-verify".into());
        }
        arguments
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

    /// Notes the first reason for which the flow failed.
    fn fail(&self, reason: String) {
        self.lock().error.get_or_insert(reason);
    }

    pub(super) fn controller(&self) -> Option<ControllerSample> {
        self.lock().controller
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread of a flow panics with its state")
    }
}

/// What a client is asked to send.
enum Amount {
    Endless,
    Bytes(u64),
    File(PathBuf),
}
