//! Flows as `evenkeel stream` servers and their viewers inside nodes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use evenkeel_apps::path::HeaderCounts;
use evenkeel_apps::stream::{Delivery, SentCounts, ViewReport};
use serde::Deserialize;

use super::flows::{FIRST_PORT, HEADER_BYTES, PATIENCE};
use super::place::Place;
use super::plan::{Plan, node_address};
use super::process::{Line, Process};
use super::received::{Received, spread};
use super::records::{Interval, pin};
use super::sender::{LOOK, State};
use super::{KernelError, options, pause, wall_clock};
use crate::backend::unseen;
use crate::metrics::{FlowObservation, StreamObservation, StreamSample};
use crate::scenario::{FlowSpec, Scenario, StreamSpec};

/// A stream of a run: its server, and the thread that starts its viewer and listens to it.
#[derive(Debug)]
pub(super) struct Stream {
    server: Process,
    headers: HeaderCounts,
    told: State,
    sent: SentCounts,
    warmup: Duration,
    viewer: Arc<Viewer>,
    thread: Option<JoinHandle<()>>,
    observation: FlowObservation,
}

/// What starts the viewer, and what it said.
#[derive(Debug)]
struct Viewer {
    name: String,
    place: Place,
    program: std::path::PathBuf,
    arguments: Vec<String>,
    start: Duration,
    /// `None` at the end of the run.
    stop: Option<Duration>,
    over: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    received: Vec<Received>,
    /// With the time at which each interval ended.
    samples: Vec<(Instant, StreamSample)>,
    report: Option<ViewReport>,
    error: Option<String>,
}

impl Stream {
    /// Starts the stream's server and waits until it listens.
    pub(super) fn start(
        scenario: &Scenario,
        plan: &Plan,
        index: usize,
        spec: &FlowSpec,
        stream: &StreamSpec,
        program: &Path,
    ) -> Result<Self, KernelError> {
        let interval = scenario.sampling_interval;
        let address = format!("{}:{}", node_address(spec.from.0), FIRST_PORT + index);
        let what = format!("the server of {}", spec.name);
        let place = |node: usize| &plan.namespaces[node].place;
        let mut server = Process::start(
            what,
            place(spec.from.0),
            program,
            &server_arguments(spec, stream, &address, interval),
        )?;
        let pin = pin(&mut server)?;
        let mut arguments = vec!["stream".into(), "client".into(), address];
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--pin", pin);
        add("--bind", node_address(spec.to.0).to_string());
        add("--clock", "shared".into());
        add("--buffer", stream.buffer.as_millis().to_string());
        let omit = scenario.warmup.saturating_sub(spec.start);
        add("--omit", omit.as_secs_f64().to_string());
        arguments.extend(options::of_receiver(spec, interval));
        Ok(Self {
            server,
            headers: HeaderCounts::default(),
            told: State::default(),
            sent: SentCounts::default(),
            warmup: scenario.warmup,
            viewer: Arc::new(Viewer {
                name: spec.name.clone(),
                place: place(spec.to.0).clone(),
                program: program.to_owned(),
                arguments,
                start: spec.start,
                stop: (spec.stop < scenario.duration).then_some(spec.stop),
                over: AtomicBool::new(false),
                seen: Mutex::default(),
            }),
            thread: None,
            observation: unseen(spec),
        })
    }

    /// The run has begun.
    pub(super) fn begin(&mut self, epoch: Instant) {
        let viewer = self.viewer.clone();
        self.thread = Some(std::thread::spawn(move || viewer.run(epoch)));
    }

    /// A sampling interval is over.
    pub(super) fn sample(&mut self, epoch: Instant) -> Result<(), KernelError> {
        let lines: Vec<Line> = self.server.lines().collect();
        for line in lines {
            self.take(epoch, &line);
        }
        self.observation.controller_state.push(self.told.controller);
        match self.server.ended() {
            Some(_) => Err(self.server.failure()),
            None => Ok(()),
        }
    }

    fn take(&mut self, epoch: Instant, line: &Line) {
        match parse(line) {
            Record::ViewerInterval { sent, interval } => {
                self.sent = sent;
                let at = line.at.saturating_duration_since(epoch);
                self.told.take(interval, at, self.warmup, &mut self.headers);
            }
            Record::Viewer { error, sent } => {
                self.sent = sent;
                self.told.controller = None;
                if let Some(error) = error {
                    self.told.error.get_or_insert(error);
                }
            }
            _ => {}
        }
    }

    /// All that was seen of the stream, in intervals of `interval` since `epoch`.
    pub(super) fn finish(mut self, epoch: Instant, interval: Duration) -> FlowObservation {
        self.stop();
        let mut observation = std::mem::take(&mut self.observation);
        let buckets = observation.controller_state.len();
        self.told.give(&mut observation);
        let mut seen = self.viewer.lock();
        let spread =
            |bytes: fn(&Received) -> u64| spread(&seen.received, epoch, interval, buckets, bytes);
        observation.delivered = spread(|received| received.ip_bytes);
        observation.app_delivered = spread(|received| received.app_bytes);
        let mut series = vec![StreamSample::default(); buckets];
        for (at, sample) in &seen.samples {
            // An interval ends a little after what it tells of.
            let since = at
                .saturating_duration_since(epoch)
                .saturating_sub(interval / 2);
            let bucket = (since.as_nanos() / interval.as_nanos()) as usize;
            if let Some(place) = series.get_mut(bucket) {
                *place = *sample;
            }
        }
        if let Some(error) = seen.error.take() {
            observation.error.get_or_insert(error);
        }
        let sent = self.sent;
        observation.stream = seen.report.take().map(|report| StreamObservation {
            report,
            sent,
            series,
        });
        observation
    }

    fn stop(&mut self) {
        self.viewer.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Viewer {
    /// Starts the viewer when it is time, and listens until it is stopped.
    fn run(&self, epoch: Instant) {
        while wall_clock() < epoch + self.start {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            pause(LOOK);
        }
        let what = format!("the viewer of {}", self.name);
        let mut client = match Process::start(what, &self.place, &self.program, &self.arguments) {
            Ok(client) => client,
            Err(error) => return self.fail(error.to_string()),
        };
        loop {
            match client.line(LOOK) {
                Ok(Some(line)) => self.take(&line),
                // Its output has ended: the stream did, or it failed.
                Ok(None) => {
                    client.end(PATIENCE);
                    let reason = client.reason();
                    if !reason.is_empty() {
                        self.fail(reason);
                    }
                    return;
                }
                Err(_) => {}
            }
            let stopped = self.stop.is_some_and(|stop| wall_clock() >= epoch + stop);
            if stopped || self.over.load(Ordering::Relaxed) {
                break;
            }
        }
        client.interrupt();
        client.end(PATIENCE);
        for line in client.lines() {
            self.take(&line);
        }
    }

    fn take(&self, line: &Line) {
        let mut seen = self.lock();
        match parse(line) {
            Record::ViewInterval(interval) => {
                seen.received.push(Received {
                    at: line.at,
                    length: Duration::from_secs_f64((interval.end_s - interval.start_s).max(0.0)),
                    ip_bytes: interval.udp_bytes_received
                        + HEADER_BYTES * interval.udp_datagrams_received,
                    app_bytes: interval.bytes,
                });
                let sample = StreamSample {
                    delay_ms: interval.delay_ms,
                    bitrate_bps: interval.bitrate_bps,
                };
                seen.samples.push((line.at, sample));
            }
            Record::View { error, report } => {
                seen.report = report;
                if let Some(error) = error {
                    seen.error.get_or_insert(error);
                }
            }
            _ => {}
        }
    }

    fn fail(&self, reason: String) {
        self.lock().error.get_or_insert(reason);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen
            .lock()
            .expect("no thread of a stream panics with what it saw")
    }
}

fn server_arguments(
    spec: &FlowSpec,
    stream: &StreamSpec,
    address: &str,
    interval: Duration,
) -> Vec<String> {
    let mut arguments = vec!["stream".into(), "server".into()];
    let (encoder, send, adapt) = (&stream.encoder, &stream.send, &stream.send.adapt);
    let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
    add("--listen", address.to_owned());
    let delivery = match send.delivery {
        Delivery::Frames => "frames",
        Delivery::Groups => "groups",
        Delivery::Datagrams => "datagrams",
    };
    add("--delivery", delivery.into());
    add(
        "--cancel-after",
        send.cancel_after.as_secs_f64().to_string(),
    );
    add("--bitrate", adapt.ceiling_bps.to_string());
    if !adapt.fixed {
        add("--start-rate", adapt.start_bps.to_string());
        add("--floor", adapt.floor_bps.to_string());
        add("--headroom", adapt.headroom.to_string());
        add("--deadband", adapt.deadband.to_string());
        add("--rise", adapt.rise_per_s.to_string());
    }
    add("--frame-rate", encoder.frame_rate.to_string());
    add("--group", encoder.group.to_string());
    add("--key-ratio", encoder.key_ratio.to_string());
    add("--noise", encoder.noise.to_string());
    add("--seed", encoder.seed.to_string());
    if adapt.fixed {
        arguments.push("--fixed".into());
    }
    arguments.extend(options::of_sender(spec, interval));
    arguments
}

fn parse(line: &Line) -> Record {
    serde_json::from_str(&line.text).unwrap_or(Record::Other)
}

/// What `evenkeel stream --json-lines` prints, as docs/stream.md describes it; what is not needed
/// is left out.
#[derive(Debug, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Record {
    ViewerInterval {
        #[serde(flatten)]
        sent: SentCounts,
        #[serde(flatten)]
        interval: Interval,
    },
    Viewer {
        error: Option<String>,
        #[serde(flatten)]
        sent: SentCounts,
    },
    ViewInterval(ViewInterval),
    View {
        error: Option<String>,
        report: Option<ViewReport>,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct ViewInterval {
    start_s: f64,
    end_s: f64,
    bytes: u64,
    delay_ms: Option<f64>,
    bitrate_bps: Option<u64>,
    udp_datagrams_received: u64,
    udp_bytes_received: u64,
}
