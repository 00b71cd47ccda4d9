//! `evenkeel bulk client`.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use quinn::{Connection, Endpoint, Runtime, TokioRuntime, VarInt};
use tokio::signal::unix::SignalKind;

use super::{
    Failure,
    args::ClientArgs,
    files::{FileSink, FileSource},
    live::LiveLine,
    net::{self, BULK, Transport, plain},
    output::{ClientResult, Form, PathRecord, Record, lines, print, table},
    reach,
    series::{ClientCounts, ClientSeries, Listener, Periods},
    signals::Signals,
    units::{show_bytes, show_rate},
};
use crate::{
    bulk::{self, Amount, Direction, Job, Local, Outcome, Progress, Sink, Source},
    path::HeaderReport,
    time::sleep_until,
    tls::Trust,
};

/// How often the figures on a terminal change: several times a second looks alive.
const REDRAW: Duration = Duration::from_millis(200);

/// How often a moment is looked for at which every echo that was counted has been heard, too.
const TRIES: u32 = 1000;

/// Does one transfer.
pub(super) async fn run(args: ClientArgs) -> Result<(), Failure> {
    let qlog = args.output_form.qlog.clone();
    let transport = Transport::new(BULK, &args.transport, args.unasked_headers(), qlog)?;
    let source = upload(&args).await?;
    let length = source.length();
    let job = args
        .job(length)
        .map_err(|cause| Failure::usage(cause, "see `evenkeel bulk client --help`"))?;
    let trust = reach::trust(&args.reach).await?;
    let address = net::resolve(&args.reach.server, args.reach.bind).await?;
    let endpoint = reach::open(&transport, args.reach.bind, address)?;
    // From here on there is something to clear away.
    let signals = Signals::listen()?;
    let sink = match &args.output {
        Some(path) => Some(Arc::new(FileSink::create(path).await?)),
        None => None,
    };
    let local = Local {
        source,
        sink: sink
            .clone()
            .map_or(Sink::Discard, |sink| Sink::Stored(sink)),
        patience: args.transport.idle_timeout,
    };
    let mut transfers = Vec::new();
    for direction in directions(&args) {
        for connection in 1..=args.connections {
            let job = Job {
                direction,
                ..job.clone()
            };
            transfers.push(Transfer {
                args: &args,
                transport: &transport,
                endpoint: &endpoint,
                signals: &signals,
                address,
                connection,
                alone: args.connections == 1 && !args.bidir,
                job,
            });
        }
    }
    let results = transfers
        .iter()
        .map(|transfer| transfer.run(trust.clone(), local.clone()));
    let results = join_all(results).await;
    let outcomes = print_together(&transfers, &results);
    net::farewell(&endpoint).await;
    let result = results
        .into_iter()
        .try_for_each(|result| result.map(|_| ()))
        .and(outcomes);
    match (&result, sink) {
        (Ok(()), Some(sink)) => sink.keep().await?,
        (Err(_), Some(sink)) => sink.discard().await,
        (_, None) => {}
    }
    // What was transferred is good without its trace.
    result.and(transport.end_traces())
}

/// Which ways data goes.
fn directions(args: &ClientArgs) -> Vec<Direction> {
    if args.bidir {
        vec![Direction::Up, Direction::Down]
    } else {
        vec![args.direction()]
    }
}

/// One table for people of several transfers that have ended.
fn print_together(
    transfers: &[Transfer<'_>],
    results: &[Result<Outcome, Failure>],
) -> Result<(), Failure> {
    let outcomes: Vec<_> = transfers
        .iter()
        .zip(results)
        .filter(|(transfer, _)| !transfer.alone && transfer.form().is_words())
        .filter_map(|(transfer, result)| Some((transfer.name(), result.as_ref().ok()?.clone())))
        .collect();
    if outcomes.is_empty() {
        return Ok(());
    }
    print(&lines(&outcomes))
}

async fn upload(args: &ClientArgs) -> Result<Source, Failure> {
    let Some(path) = args.upload() else {
        return Ok(Source::Generated);
    };
    let file = FileSource::open(path).await.map_err(|error| {
        Failure::failed(
            format!("cannot read {}: {}", path.display(), plain(&error)),
            "check the path given to --file",
        )
    })?;
    Ok(Source::Stored(Arc::new(file)))
}

/// One transfer over a connection of its own.
struct Transfer<'a> {
    args: &'a ClientArgs,
    transport: &'a Transport,
    endpoint: &'a Endpoint,
    signals: &'a Signals,
    address: SocketAddr,
    /// Of those in its direction, from 1.
    connection: u16,
    /// There is no other.
    alone: bool,
    job: Job,
}

impl Transfer<'_> {
    fn form(&self) -> Form {
        Form::of(&self.args.output_form)
    }

    fn name(&self) -> String {
        let way = match self.job.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        };
        format!("{way} {}", self.connection)
    }

    /// What its trace is called.
    fn trace(&self) -> String {
        let process = std::process::id();
        if self.alone {
            return format!("client-{process}");
        }
        format!("client-{process}-{}", self.name().replace(' ', "-"))
    }

    async fn run(&self, trust: Trust, local: Local) -> Result<Outcome, Failure> {
        let args = self.args;
        let listener = Arc::new(Listener::new(args.rtt_samples, args.path_samples));
        let transport = &self.transport.observed(listener.clone());
        let (endpoint, trace) = (self.endpoint, self.trace());
        let connecting = reach::connect(
            &args.reach,
            transport,
            trust,
            endpoint,
            self.address,
            &trace,
        );
        let connection = self.signals.unless_heard(connecting).await?;

        let watch = Watch {
            of: self,
            connection: connection.clone(),
            progress: Arc::default(),
            start: TokioRuntime.now(),
            listener,
        };
        let mut series = self.form().has_intervals().then(|| ClientSeries {
            connection: connection.clone(),
            form: self.form(),
            name: (!self.alone).then(|| self.name()),
            number: self.connection,
            direction: self.job.direction,
            progress: watch.progress.clone(),
            listener: watch.listener.clone(),
            periods: Periods::new(watch.start, args.output_form.interval()),
            before: ClientCounts::default(),
        });
        let running = bulk::client(
            connection.clone(),
            Arc::new(TokioRuntime),
            self.job.clone(),
            local,
            watch.progress.clone(),
        );
        let result = tokio::select! {
            biased;
            result = running => result.map_err(|error| Failure::failed(
                format!("the transfer with {} failed: {error}", args.reach.server),
                reach::remedy(&error),
            )),
            failure = watch.show(series.as_mut()) => Err(failure),
            signal = self.signals.heard() => {
                evenkeel::close(&connection, VarInt::from_u32(0), b"interrupted");
                Err(watch.interrupted(signal))
            }
        };
        let headers = watch.end_listening().await;
        let rest = series.as_mut().map_or(Ok(()), ClientSeries::print_rest);
        let interrupted = result.as_ref().is_err_and(Failure::is_interruption);
        let outcome = result.as_ref().ok();
        if outcome.is_some() || interrupted {
            watch.print_result(headers, outcome.cloned(), interrupted)?;
        }
        rest.and(result)
    }
}

/// A running transfer, for those who look on.
struct Watch<'a> {
    of: &'a Transfer<'a>,
    connection: Connection,
    progress: Arc<Progress>,
    start: Instant,
    listener: Arc<Listener>,
}

impl Watch<'_> {
    /// Hears nothing from now on; what became of headers until then, with as many echoes as there are
    /// samples summed up.
    async fn end_listening(&self) -> Option<HeaderReport> {
        for _ in 0..TRIES {
            let headers = HeaderReport::of(&self.connection);
            let echoes = headers.as_ref().map_or(0, |headers| headers.counts.echoes);
            if self.listener.stop_at(echoes) {
                return headers;
            }
            // One has been counted and will be heard in a moment, or came just now.
            tokio::task::yield_now().await;
        }
        self.listener.stop();
        HeaderReport::of(&self.connection)
    }

    fn elapsed(&self) -> Duration {
        TokioRuntime.now().duration_since(self.start)
    }

    /// Bytes on this side so far.
    fn bytes(&self) -> u64 {
        match self.of.job.direction {
            Direction::Up => self.progress.sent(),
            Direction::Down => self.progress.received(),
        }
    }

    /// Shows how it goes until it is dropped or cannot go on.
    async fn show(&self, series: Option<&mut ClientSeries>) -> Failure {
        if let Some(series) = series {
            return match series.print().await {
                Err(failure) => failure,
                Ok(never) => match never {},
            };
        }
        // Several would draw over each other.
        if self.of.alone
            && self.of.form() == Form::People
            && let Some(line) = LiveLine::new()
        {
            self.draw(line).await;
        }
        std::future::pending().await
    }

    async fn draw(&self, mut line: LiveLine) {
        let (mut at, mut before) = (self.elapsed(), self.bytes());
        loop {
            sleep_until(&TokioRuntime, TokioRuntime.now() + REDRAW).await;
            let (elapsed, bytes) = (self.elapsed(), self.bytes());
            let span = elapsed.saturating_sub(at).as_secs_f64();
            if span > 0.0 {
                let path = self.connection.stats().path;
                let done = self.done(elapsed, bytes);
                let mut text =
                    done.map_or(String::new(), |done| format!("{:>3.0} %  ", done * 1e2));
                text += &format!(
                    "{}  {}  RTT {:.1} ms  {} lost",
                    show_bytes(bytes),
                    show_rate((bytes - before) as f64 * 8.0 / span),
                    path.rtt.as_secs_f64() * 1e3,
                    path.lost_packets,
                );
                if let Some(done) = done.filter(|done| *done > 0.0) {
                    let left = elapsed.as_secs_f64() * (1.0 - done) / done;
                    text += &format!("  {left:.0} s left");
                }
                line.show(&text, done);
            }
            (at, before) = (elapsed, bytes);
        }
    }

    /// Share of the transfer that is done; `None` if nobody knows how long it is.
    fn done(&self, elapsed: Duration, bytes: u64) -> Option<f64> {
        let done = match self.of.job.amount {
            Amount::Bytes(all) => bytes as f64 / all.max(1) as f64,
            Amount::Duration(time) => elapsed.as_secs_f64() / time.as_secs_f64(),
            Amount::File(_) => return None,
        };
        Some(done.min(1.0))
    }

    fn interrupted(&self, signal: SignalKind) -> Failure {
        Failure::interrupted(
            signal,
            format!(
                "interrupted after {:.1} s and {}",
                self.elapsed().as_secs_f64(),
                show_bytes(self.bytes())
            ),
            "nothing was verified",
        )
    }

    fn print_result(
        &self,
        headers: Option<HeaderReport>,
        outcome: Option<Outcome>,
        interrupted: bool,
    ) -> Result<(), Failure> {
        let (args, job, transport) = (self.of.args, &self.of.job, self.of.transport);
        let path = headers.map(|headers| PathRecord {
            headers,
            samples: self.listener.summary(),
        });
        if self.of.form().is_words() {
            return match outcome.filter(|_| self.of.alone) {
                Some(outcome) => print(&table(&outcome, job.omit, path.as_ref())),
                None => Ok(()),
            };
        }
        Form::print(&Record::Result(ClientResult {
            version: env!("CARGO_PKG_VERSION"),
            server: args.reach.server.to_string(),
            controller: args.transport.controller.clone(),
            pacing: transport.pacing().name(),
            path_headers: transport.headers().to_string(),
            direction: job.direction,
            connection: self.of.connection,
            streams: job.streams,
            omit_s: job.omit.as_secs_f64(),
            interrupted,
            bytes_sent: self.progress.sent(),
            bytes_received: self.progress.received(),
            path,
            outcome,
        }))
    }
}
