//! Flows as `evenkeel bulk` servers and clients inside nodes.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_apps::path::{HeaderCounts, HeaderReport, HeaderUse, SampleRecord};
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64;
use serde::Deserialize;

use super::place::Place;
use super::plan::{Plan, absolute, node_address};
use super::process::{Line, Process};
use super::silence::{idle_timeout, probe_interval};
use super::{NetnsError, pause, wall_clock};
use crate::metrics::{ControllerSample, FlowObservation, PathObservation, RttSample, Transfer};
use crate::random::{PeriodLength, Purpose, generator, pareto};
use crate::scenario::{App, FlowSpec, Payload, Scenario};

/// IPv4 and UDP headers around every datagram, in bytes.
pub(super) const HEADER_BYTES: u64 =
    (evenkeel_wire::IPV4_HEADER_LEN + evenkeel_wire::UDP_HEADER_LEN) as u64;

/// How long a server may take to listen, and a client to end when it is asked to.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// How often a waiting thread looks whether the run is over.
pub(super) const LOOK: Duration = Duration::from_millis(10);

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

/// What a server received in one of its own intervals.
#[derive(Debug)]
pub(super) struct Received {
    /// When its record came, and how long the interval was.
    pub(super) at: Instant,
    pub(super) length: Duration,
    pub(super) ip_bytes: u64,
    pub(super) app_bytes: u64,
}

impl Flow {
    /// Starts the flow's server and waits until it listens.
    pub(super) fn start(
        scenario: &Scenario,
        plan: &Plan,
        index: usize,
        spec: &FlowSpec,
        program: &Path,
    ) -> Result<Self, NetnsError> {
        if matches!(
            spec.app,
            App::OnOff {
                reconnect: false,
                ..
            }
        ) {
            return Err(NetnsError::Unsupported {
                flow: spec.name.clone(),
            });
        }
        let interval = scenario.sampling_interval.as_secs_f64();
        let server_address = format!("{}:{}", node_address(spec.to.0), FIRST_PORT + index);
        let mut arguments = vec![
            "bulk",
            "server",
            "--json-lines",
            "--listen",
            &server_address,
        ];
        let interval_text = interval.to_string();
        arguments.extend([
            "--interval",
            &interval_text,
            "--controller",
            &spec.controller,
        ]);
        if !spec.mtu_discovery {
            arguments.push("--no-mtu-discovery");
        }
        if !spec.pacing {
            arguments.push("--no-pacing");
        }
        let headers = HeaderUse::of_every(spec.path_headers).answer().to_string();
        arguments.extend(["--path-headers", &headers]);
        let mut arguments: Vec<String> = arguments.into_iter().map(Into::into).collect();
        arguments.extend(idle_timeout(spec));
        let what = format!("the server of {}", spec.name);
        let mut server =
            Process::start(what, &plan.namespaces[spec.to.0].place, program, &arguments)?;
        let pin = match server.line(PATIENCE)?.map(|line| parse(&line)) {
            Some(Record::Listening { pin }) => pin,
            _ => return Err(server.failure()),
        };
        let sender = Sender {
            spec: spec.clone(),
            rng: generator(scenario.seed, Purpose::Flow, index),
            place: plan.namespaces[spec.from.0].place.clone(),
            program: program.to_owned(),
            server_address,
            source: node_address(spec.from.0),
            pin,
            interval: interval_text,
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
            observation: FlowObservation {
                name: spec.name.clone(),
                group: spec.group.clone(),
                controller: spec.controller.clone(),
                start: spec.start,
                stop: spec.stop,
                pacing: spec.pacing,
                path_headers: spec.path_headers,
                ..FlowObservation::default()
            },
        })
    }

    /// The run has begun.
    pub(super) fn begin(&mut self, epoch: Instant) {
        let sender = self.sender.clone();
        self.thread = Some(std::thread::spawn(move || sender.run(epoch)));
    }

    /// A sampling interval is over.
    pub(super) fn sample(&mut self) -> Result<(), NetnsError> {
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

/// The sending side of a flow: starts clients as the scenario's application says.
#[derive(Debug)]
struct Sender {
    spec: FlowSpec,
    rng: Pcg64,
    place: Place,
    program: PathBuf,
    server_address: String,
    source: Ipv4Addr,
    pin: String,
    interval: String,
    warmup: Duration,
    duration: Duration,
    /// The run has ended: everything stops where it is.
    over: AtomicBool,
    state: Mutex<State>,
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
    transfers: Vec<Transfer>,
    pub(super) error: Option<String>,
    done: Option<Duration>,
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
    fn run(self: Arc<Self>, epoch: Instant) {
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
            App::OnOff { periods, .. } => {
                let (on, off) = PeriodLength::pair(periods);
                let mut now = start;
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
        add("--controller", self.spec.controller.clone());
        add("--streams", self.spec.streams.to_string());
        add("--interval", self.interval.clone());
        add("--ack-every", self.spec.acks.every.to_string());
        add(
            "--max-ack-delay",
            (self.spec.acks.max_delay.as_secs_f64() * 1e3).to_string(),
        );
        match amount {
            // Longer than the run, which ends it.
            Amount::Endless => add("--time", (self.duration.as_secs_f64() + 60.0).to_string()),
            Amount::Bytes(bytes) => add("--bytes", bytes.to_string()),
            Amount::File(path) => add("--file", path.display().to_string()),
        }
        add(
            "--path-headers",
            HeaderUse::of_every(self.spec.path_headers).to_string(),
        );
        arguments.extend(["--json-lines".into(), "--rtt-samples".into()]);
        arguments.extend(idle_timeout(&self.spec));
        arguments.extend(probe_interval(&self.spec));
        if self.spec.path_headers > 0 {
            arguments.push("--path-samples".into());
        }
        if !self.spec.pacing {
            arguments.push("--no-pacing".into());
        }
        if !self.spec.verify {
            arguments.push("--no-verify".into());
        }
        if !self.spec.mtu_discovery {
            arguments.push("--no-mtu-discovery".into());
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

    fn controller(&self) -> Option<ControllerSample> {
        self.lock().controller
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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

/// Shares out what came in intervals of the server's own to the run's intervals, by overlap.
pub(super) fn spread(
    received: &[Received],
    epoch: Instant,
    interval: Duration,
    buckets: usize,
    bytes: fn(&Received) -> u64,
) -> Vec<u64> {
    let mut shares = vec![0.0; buckets];
    let width = interval.as_secs_f64();
    for record in received {
        let end = record.at.saturating_duration_since(epoch).as_secs_f64();
        let length = record.length.as_secs_f64().max(1e-6);
        let start = (end - length).max(0.0);
        let last = (end / width) as usize;
        for (bucket, share) in shares
            .iter_mut()
            .enumerate()
            .take(last + 1)
            .skip((start / width) as usize)
        {
            let overlap = end.min((bucket + 1) as f64 * width) - start.max(bucket as f64 * width);
            *share += bytes(record) as f64 * (overlap / (end - start).max(1e-6)).clamp(0.0, 1.0);
        }
    }
    shares
        .into_iter()
        .map(|share: f64| share.round() as u64)
        .collect()
}

fn parse(line: &Line) -> Record {
    serde_json::from_str(&line.text).unwrap_or(Record::Other)
}

/// What `evenkeel bulk --json-lines` prints, as docs/bulk.md describes it; what is not needed is
/// left out.
#[derive(Debug, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record {
    Listening {
        pin: String,
    },
    Interval(Interval),
    ServerInterval(ServerInterval),
    Result(ClientResult),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct Interval {
    start_s: f64,
    end_s: f64,
    packets_sent: u64,
    packets_lost: u64,
    window_bytes: u64,
    slow_start_threshold_bytes: Option<u64>,
    pacing_rate_bps: Option<u64>,
    path: Option<HeaderReport>,
    #[serde(default)]
    rtt_samples_ms: Vec<f64>,
    #[serde(default)]
    path_samples: Vec<SampleRecord>,
}

impl Interval {
    pub(super) fn length(&self) -> Duration {
        Duration::from_secs_f64((self.end_s - self.start_s).max(0.0))
    }
}

#[derive(Debug, Deserialize)]
struct ServerInterval {
    start_s: f64,
    end_s: f64,
    bytes_received: u64,
    udp_datagrams_received: u64,
    udp_bytes_received: u64,
}

#[derive(Debug, Deserialize)]
struct ClientResult {
    interrupted: bool,
    verified: Option<bool>,
    receiver: Option<Report>,
}

#[derive(Debug, Deserialize)]
struct Report {
    bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(epoch: Instant, end_ms: u64, length_ms: u64, bytes: u64) -> Received {
        Received {
            at: epoch + Duration::from_millis(end_ms),
            length: Duration::from_millis(length_ms),
            ip_bytes: bytes,
            app_bytes: bytes / 2,
        }
    }

    #[test]
    fn bytes_are_shared_out_by_overlap_and_none_is_lost() {
        let epoch = wall_clock();
        let records = [
            received(epoch, 150, 100, 1000),
            received(epoch, 260, 110, 1100),
        ];
        let shares = spread(&records, epoch, Duration::from_millis(100), 3, |r| {
            r.ip_bytes
        });
        // 50..150 ms: half and half. 150..260 ms: 50 ms and 60 ms of 110.
        assert_eq!(shares, [500, 1000, 600]);
    }

    #[test]
    fn what_came_before_the_run_or_after_it_does_not_count() {
        let epoch = wall_clock();
        let records = [
            received(epoch, 50, 100, 1000),
            received(epoch, 900, 100, 1000),
        ];
        let shares = spread(&records, epoch, Duration::from_millis(100), 2, |r| {
            r.ip_bytes
        });
        assert_eq!(shares.iter().sum::<u64>(), 1000);
    }
}
