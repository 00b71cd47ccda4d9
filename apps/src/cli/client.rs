//! `evenkeel bulk client`.

use std::{
    io::IsTerminal,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use quinn::{Connection, Endpoint, Runtime, TokioRuntime, VarInt};

use super::{
    Failure, INTERRUPTED,
    args::ClientArgs,
    files::{FileSink, FileSource},
    net::{self, BULK, Transport, plain},
    output::{ClientResult, Form, PathRecord, Record, lines, print, table},
    reach,
    series::{ClientCounts, ClientSeries, Listener, Periods},
    units::{show_bytes, show_rate},
};
use crate::{
    bulk::{self, Amount, Direction, Job, Local, Outcome, Progress, Sink, Source},
    path::HeaderReport,
    tls::Trust,
};

/// How often the figures on a terminal change: several times a second looks alive.
const REDRAW: Duration = Duration::from_millis(200);

/// How long the last packets get to leave after everything is said.
const FAREWELL: Duration = Duration::from_secs(1);

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
    let endpoint = reach::open(&transport, args.reach.bind, address)?;
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
    // The connections' last packets still have to leave.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    let result = results
        .into_iter()
        .try_for_each(|result| result.map(|_| ()))
        .and(outcomes);
    match (&result, sink) {
        (Ok(()), Some(sink)) => sink.keep().await?,
        (Err(_), Some(sink)) => sink.discard().await,
        (_, None) => {}
    }
    result
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
        let connection = reach::connect(
            &args.reach,
            transport,
            trust,
            endpoint,
            self.address,
            &trace,
        )
        .await?;

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
                "see the server's own messages, then try again",
            )),
            failure = watch.show(series.as_mut()) => Err(failure),
            _ = tokio::signal::ctrl_c() => {
                connection.close(VarInt::from_u32(0), b"interrupted");
                Err(watch.interrupted())
            }
        };
        watch.listener.stop();
        let rest = series.as_mut().map_or(Ok(()), ClientSeries::print_rest);
        let interrupted = matches!(&result, Err(failure) if failure.status == INTERRUPTED);
        let outcome = result.as_ref().ok();
        if outcome.is_some() || interrupted {
            watch.print_result(outcome.cloned(), interrupted)?;
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
        if std::io::stderr().is_terminal() && self.of.alone && self.of.form() == Form::People {
            self.draw().await;
        }
        std::future::pending().await
    }

    async fn draw(&self) {
        let (bar, template) = match self.of.job.amount {
            Amount::Bytes(bytes) => (
                ProgressBar::new(bytes),
                "{bar:30} {percent:>3} %  {msg}  {eta} left",
            ),
            Amount::Duration(time) => (
                ProgressBar::new(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
                "{bar:30} {percent:>3} %  {msg}",
            ),
            Amount::File(_) => (ProgressBar::no_length(), "{spinner} {msg}"),
        };
        let style = ProgressStyle::with_template(template).expect("the templates are valid");
        let bar = bar
            .with_style(style)
            .with_finish(indicatif::ProgressFinish::AndClear);
        let mut tick = tokio::time::interval(REDRAW);
        let (mut at, mut before) = (self.elapsed(), self.bytes());
        loop {
            tick.tick().await;
            let (elapsed, bytes) = (self.elapsed(), self.bytes());
            bar.set_position(match self.of.job.amount {
                Amount::Duration(_) => u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                Amount::Bytes(_) | Amount::File(_) => bytes,
            });
            let span = elapsed.saturating_sub(at).as_secs_f64();
            if span > 0.0 {
                let path = self.connection.stats().path;
                bar.set_message(format!(
                    "{}  {}  RTT {:.1} ms  {} lost",
                    show_bytes(bytes),
                    show_rate((bytes - before) as f64 * 8.0 / span),
                    path.rtt.as_secs_f64() * 1e3,
                    path.lost_packets,
                ));
            }
            (at, before) = (elapsed, bytes);
        }
    }

    fn interrupted(&self) -> Failure {
        Failure::new(
            INTERRUPTED,
            format!(
                "interrupted after {:.1} s and {}",
                self.elapsed().as_secs_f64(),
                show_bytes(self.bytes())
            ),
            "nothing was verified",
        )
    }

    fn print_result(&self, outcome: Option<Outcome>, interrupted: bool) -> Result<(), Failure> {
        let (args, job, transport) = (self.of.args, &self.of.job, self.of.transport);
        let path = HeaderReport::of(&self.connection).map(|headers| PathRecord {
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
            pacing: transport.pacing(),
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
