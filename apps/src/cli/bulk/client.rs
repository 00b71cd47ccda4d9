//! `evenkeel bulk client`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::Controllers;
use futures_util::future::join_all;
use quinn::{Connection, Runtime, TokioRuntime};

use super::args::ClientArgs;
use super::files::{FileSink, FileSource, StandardOutput, standard_input};
use super::memories::Memories;
use super::output::{ClientResult, Interval, PathRecord, lines};
use crate::bulk::{
    self, Amount, Direction, Job, Local, Outcome, PingReport, Pings, Progress, Sink, Source,
};
use crate::cli::client::Client;
use crate::cli::cpu::cpu_time;
use crate::cli::ecn::EcnRecord;
use crate::cli::failure::{Failure, say};
use crate::cli::live::follow;
use crate::cli::net::{BULK, Transport};
use crate::cli::output::{Form, Record, print};
use crate::cli::series::{PacketCounts, Periods, SampleRecorder, Span};
use crate::cli::units::{show_bytes, show_rate};
use crate::path::HeaderReport;

/// How often the figures on a terminal change: several times a second looks alive.
const REDRAW: Duration = Duration::from_millis(200);

/// How often to try for a moment at which every counted echo has also been observed.
const TRIES: u32 = 1000;

pub(crate) async fn run(
    mut args: ClientArgs,
    live: bool,
    controllers: &Controllers,
) -> Result<(), Failure> {
    args.settle();
    let args = args;
    let qlog = args.output_form.qlog.as_deref();
    let transport = Transport::new(
        BULK,
        &args.transport,
        args.unasked_headers(),
        qlog,
        controllers,
    )?;
    let source = match args.upload() {
        None => Source::Generated,
        Some(_) if args.is_fed() => standard_input().map_err(Failure::of_system(
            "cannot read standard input",
            "redirect something to it",
        ))?,
        Some(path) => {
            let file = FileSource::open(path).await;
            Source::Stored(Arc::new(file.map_err(unreadable(path))?))
        }
    };
    let job = args
        .job(source.length())
        .map_err(|cause| Failure::usage(cause, "see `evenkeel bulk client --help`"))?;
    let memories = args.remember.as_deref().map(Memories::open).transpose()?;
    let client = Client::open(&args.reach, transport, live).await?;
    let sink = match &args.output {
        Some(path) if !args.feeds() => Some(Arc::new(FileSink::new(path)?)),
        _ => None,
    };
    let local = Local {
        source,
        sink: match &sink {
            Some(sink) => Sink::Stored(sink.clone()),
            None if args.feeds() => Sink::Stored(Arc::new(StandardOutput)),
            None => Sink::Discard,
        },
        patience: args.transport.settings.idle_timeout,
        cpu: Some(cpu_time),
    };
    let directions = args.directions();
    let alone = args.connections == 1 && directions.len() == 1;
    let numbered = |direction| (1..=args.connections).map(move |number| (direction, number));
    let transfers: Vec<_> = directions
        .into_iter()
        .flat_map(numbered)
        .map(|(direction, connection)| Transfer {
            args: &args,
            form: Form::of(&args.output_form),
            live: live && alone,
            client: &client,
            memories: memories.as_ref().filter(|_| direction == Direction::Up),
            connection,
            alone,
            job: args.directed(&job, direction),
        })
        .collect();
    let results = transfers.iter().map(|transfer| transfer.run(local.clone()));
    let results = join_all(results).await;
    let printed = print_together(&transfers, &results);
    client.farewell().await;
    let result = results
        .into_iter()
        .try_for_each(|result| result.map(|_| ()))
        .and(printed);
    match (&result, sink) {
        (Ok(()), Some(sink)) => sink.keep().await?,
        (Err(_), Some(sink)) => sink.discard().await,
        (_, None) => {}
    }
    // A transfer is good even without its trace.
    result.and(client.transport.end_traces())
}

fn unreadable(path: &Path) -> impl Fn(io::Error) -> Failure {
    move |error| {
        let option = match error.kind() {
            io::ErrorKind::InvalidInput => "--file; `--file -` sends what is piped to it",
            _ => "--file",
        };
        Failure::unreadable(path, option)(error)
    }
}

/// Prints one table, for people, of several completed transfers.
fn print_together(
    transfers: &[Transfer<'_>],
    results: &[Result<(Outcome, Option<PingReport>), Failure>],
) -> Result<(), Failure> {
    let outcomes: Vec<_> = transfers
        .iter()
        .zip(results)
        .filter(|(transfer, _)| !transfer.alone && transfer.form.is_words())
        .filter_map(|(transfer, result)| {
            let (outcome, pings) = result.as_ref().ok()?;
            Some((transfer.name(), outcome.clone(), *pings))
        })
        .collect();
    if outcomes.is_empty() {
        return Ok(());
    }
    print(&lines(&outcomes))
}

/// One transfer over its own connection.
struct Transfer<'a> {
    args: &'a ClientArgs,
    form: Form,
    /// Whether it may draw on a terminal: lines of several would overwrite each other.
    live: bool,
    client: &'a Client<'a>,
    /// Where it finds what its path carried, if this side sends.
    memories: Option<&'a Memories>,
    /// The connection's number in its direction, from 1.
    connection: u16,
    /// Whether this is the only transfer.
    alone: bool,
    job: Job,
}

impl Transfer<'_> {
    fn name(&self) -> String {
        let way = match self.job.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        format!("{way} {}", self.connection)
    }

    fn trace(&self) -> String {
        let process = std::process::id();
        if self.alone {
            return format!("client-{process}");
        }
        format!("client-{process}-{}", self.name().replace(' ', "-"))
    }

    async fn run(&self, local: Local) -> Result<(Outcome, Option<PingReport>), Failure> {
        let recorder = Arc::new(SampleRecorder::new(self.args.samples));
        let mut transport = self.client.transport.observed(recorder.clone());
        let peer = self.client.address().ip();
        if let Some(memory) = self.memories.and_then(|memories| memories.of(peer)) {
            transport = transport.remembering(&memory, peer, self.job.streams);
        }
        let connection = self.client.connect(&transport, &self.trace()).await?;
        let pings = Arc::<Pings>::default();
        // Those of one connection tell enough.
        let pinging = (!self.args.no_pings && self.connection == 1).then(|| pings.clone());
        if let Some(pings) = &pinging {
            let idle = async {
                pings.idle(&connection, &TokioRuntime).await;
                Ok(())
            };
            self.client.signals.or_signal(idle).await?;
        }
        let watch = Watch {
            of: self,
            connection: connection.clone(),
            progress: Arc::default(),
            start: TokioRuntime.now(),
            recorder,
        };
        let mut series = self.form.has_intervals().then(|| Series {
            periods: Periods::new(watch.start, self.args.output_form.interval()),
            bytes: 0,
            packets: PacketCounts::default(),
        });
        let running = bulk::client(
            connection.clone(),
            Arc::new(TokioRuntime),
            self.job.clone(),
            local,
            watch.progress.clone(),
        );
        // A task of its own: the one of the transfer works long without a pause.
        let pinging = pinging.map(|pings| {
            let (connection, warm_up) = (connection.clone(), self.job.omit);
            tokio::spawn(async move { pings.loaded(&connection, &TokioRuntime, warm_up).await })
        });
        let failed = format!("the transfer with {} failed", self.args.reach.server);
        let show = watch.show(series.as_mut());
        let interrupted = || watch.interrupted();
        let result = self
            .client
            .attend(&connection, running, show, &failed, interrupted)
            .await;
        if let Some(pinging) = pinging {
            pinging.abort();
        }
        let pings = pings.report();
        let headers = watch.end_recording().await;
        let rest = series.as_mut().map_or(Ok(()), |series| {
            let span = series.periods.cut();
            watch.print_interval(series, span)
        });
        let interrupted = result.as_ref().is_err_and(Failure::is_interruption);
        let outcome = result.as_ref().ok();
        if outcome.is_some() || interrupted {
            watch.print_result(headers, pings, outcome.cloned(), interrupted)?;
        }
        let kept = match (self.memories, &result) {
            (Some(memories), Ok(_)) => memories.keep(&connection),
            (None, _) | (_, Err(_)) => Ok(()),
        };
        let result = result.map(|outcome| (outcome, pings));
        result.and_then(|result| rest.and(kept).map(|()| result))
    }
}

/// Watches a running transfer.
struct Watch<'a> {
    of: &'a Transfer<'a>,
    connection: Connection,
    progress: Arc<Progress>,
    start: Instant,
    recorder: Arc<SampleRecorder>,
}

/// The intervals of a transfer, without gaps, and the counters at the end of the last one.
struct Series {
    periods: Periods,
    bytes: u64,
    packets: PacketCounts,
}

impl Watch<'_> {
    /// Prints the record of a completed interval.
    fn print_interval(&self, series: &mut Series, span: Span) -> Result<(), Failure> {
        let samples = self.recorder.take(span.origin);
        let now = self.bytes();
        let bytes = now - std::mem::replace(&mut series.bytes, now);
        self.of.form.event(&Interval {
            direction: self.of.job.direction,
            connection: self.of.connection,
            span,
            bytes,
            throughput_bps: span.rate(bytes),
            sender: series.packets.figures(&self.connection),
            samples,
            name: (!self.of.alone).then(|| self.of.name()),
        })
    }

    /// Stops recording samples; returns the counters of headers at that moment, with as many echoes
    /// as there are path samples.
    async fn end_recording(&self) -> Option<HeaderReport> {
        for _ in 0..TRIES {
            let headers = HeaderReport::of(&self.connection);
            let echoes = headers.as_ref().map_or(0, |headers| headers.counts.echoes);
            if self.recorder.stop_at(echoes) {
                return headers;
            }
            // An echo has been counted and will be observed in a moment, or has just arrived.
            tokio::task::yield_now().await;
        }
        self.recorder.stop();
        HeaderReport::of(&self.connection)
    }

    fn elapsed(&self) -> Duration {
        TokioRuntime.now().duration_since(self.start)
    }

    /// Returns the bytes on this side so far.
    fn bytes(&self) -> u64 {
        self.progress.of(self.of.job.direction)
    }

    /// Shows the progress until it is dropped or fails.
    async fn show(&self, series: Option<&mut Series>) -> Failure {
        if let Some(series) = series {
            loop {
                let span = series.periods.next().await;
                if let Err(failure) = self.print_interval(series, span) {
                    return failure;
                }
            }
        }
        let wanted = self.of.live && self.of.form == Form::People;
        let mut before = (self.elapsed(), self.bytes());
        follow(wanted, "", REDRAW, || self.view(&mut before)).await
    }

    /// Returns the live line and the completed share of the transfer.
    fn view(&self, before: &mut (Duration, u64)) -> Option<(String, Option<f64>)> {
        let (elapsed, bytes) = (self.elapsed(), self.bytes());
        let (at, bytes_then) = std::mem::replace(before, (elapsed, bytes));
        let span = elapsed.saturating_sub(at).as_secs_f64();
        if span <= 0.0 {
            return None;
        }
        let path = self.connection.stats().path;
        let done = self.done(elapsed, bytes);
        let mut text = done.map_or(String::new(), |done| format!("{:>3.0} %  ", done * 1e2));
        text += &format!(
            "{}  {}  RTT {:.1} ms  {} lost",
            show_bytes(bytes),
            show_rate((bytes - bytes_then) as f64 * 8.0 / span),
            path.rtt.as_secs_f64() * 1e3,
            path.lost_packets,
        );
        if let Some(done) = done.filter(|done| *done > 0.0) {
            let left = elapsed.as_secs_f64() * (1.0 - done) / done;
            text += &format!("  {left:.0} s left");
        }
        Some((text, done))
    }

    /// Returns the completed share of the transfer; `None` if its length is unknown.
    fn done(&self, elapsed: Duration, bytes: u64) -> Option<f64> {
        let done = match self.of.job.amount {
            Amount::Bytes(all) => bytes as f64 / all.max(1) as f64,
            Amount::Duration(_) if self.of.args.is_fed() => return None,
            Amount::Duration(time) => elapsed.as_secs_f64() / time.as_secs_f64(),
            Amount::File(_) => return None,
        };
        Some(done.min(1.0))
    }

    fn interrupted(&self) -> (String, &'static str) {
        let seconds = self.elapsed().as_secs_f64();
        let bytes = show_bytes(self.bytes());
        let cause = format!("interrupted after {seconds:.1} s and {bytes}");
        (cause, "nothing was verified")
    }

    fn print_result(
        &self,
        headers: Option<HeaderReport>,
        pings: Option<PingReport>,
        outcome: Option<Outcome>,
        interrupted: bool,
    ) -> Result<(), Failure> {
        let (args, job) = (self.of.args, &self.of.job);
        if self.of.form.is_words() && !self.of.alone {
            return Ok(());
        }
        let result = ClientResult {
            version: env!("CARGO_PKG_VERSION"),
            server: args.reach.server.to_string(),
            controller: match job.direction {
                Direction::Up => Some(args.transport.controller.clone()),
                Direction::Down => outcome
                    .as_ref()
                    .and_then(|outcome| outcome.controller.clone()),
            },
            pacing: self.of.client.transport.pacing.name(),
            path_headers: self.of.client.transport.headers.to_string(),
            direction: job.direction,
            connection: self.of.connection,
            streams: job.streams,
            omit_s: job.omit.as_secs_f64(),
            interrupted,
            bytes_sent: self.progress.sent(),
            bytes_received: self.progress.received(),
            path: headers.map(|headers| PathRecord {
                headers,
                samples: self.recorder.summary(),
            }),
            ecn: EcnRecord::of(&self.connection),
            pings,
            outcome,
        };
        if !args.feeds() {
            return self.of.form.print(&result);
        }
        if self.of.live {
            say(&result.text());
        }
        Ok(())
    }
}
