//! `evenkeel stream client`.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::Controllers;
use quinn::{Connection, ConnectionError, Runtime, TokioRuntime};

use super::args::{ClockName, StreamClientArgs};
use super::output::{View, ViewInterval, show_delay};
use super::plot::draw;
use super::system::{descriptor, wall_clock};
use crate::AppError;
use crate::cli::client::{Client, Failed};
use crate::cli::ecn::EcnRecord;
use crate::cli::failure::{Failure, say};
use crate::cli::live::follow;
use crate::cli::net::{STREAM, Transport};
use crate::cli::output::{Form, Record};
use crate::cli::series::{Periods, Span};
use crate::cli::units::show_rate;
use crate::lock::lock;
use crate::path::HeaderUse;
use crate::stream::{self, Clock, Opening, Output, Snapshot, ViewOptions, Viewing};
use crate::time::milliseconds;

/// How often the figures on a terminal change.
const REDRAW: Duration = Duration::from_millis(500);

pub(crate) async fn run(
    args: StreamClientArgs,
    live: bool,
    controllers: &Controllers,
) -> Result<(), Failure> {
    let clock = wall_clock(args.clock == ClockName::Shared);
    let qlog = args.output_form.qlog.as_deref();
    let application = STREAM.with_clients(args.names.client);
    let transport = Transport::new(
        application,
        &args.transport,
        HeaderUse::Echo,
        qlog,
        controllers,
    )?;
    let client = Client::open(&args.reach, transport, live).await?;
    let trace = format!("client-{}", std::process::id());
    let result = match client.connect(&client.transport, &trace).await {
        Ok(connection) => view(&args, &client, connection, clock, live).await,
        Err(failure) => Err(failure),
    };
    client.farewell().await;
    result.and(client.transport.end_traces())
}

/// Watches until the stream ends, `--time` is over or a signal arrives, and prints the report.
async fn view(
    args: &StreamClientArgs,
    client: &Client<'_>,
    connection: Connection,
    clock: Clock,
    live: bool,
) -> Result<(), Failure> {
    let unopened = Arc::<Mutex<Option<Failure>>>::default();
    let output = match &args.output {
        Some(path) => Some(output(path, args.names.output, unopened.clone())?),
        None => None,
    };
    let watch = Watch {
        args,
        form: Form::of(&args.output_form),
        live,
        connection: Arc::new(Mutex::new(connection.clone())),
        viewing: Arc::new(
            args.latency
                .map_or_else(Viewing::default, Viewing::with_latency),
        ),
        began: clock.at,
        frames_on_stdout: args.output.as_deref() == Some(Path::new("-")),
    };
    let options = ViewOptions {
        began: clock.at,
        clock,
        controller: None,
        buffer: args.buffer,
        skip_damaged: args.skip_damaged,
        omit: args.omit,
        time: args.time,
        // How long the server may be silent.
        patience: args.transport.settings.idle_timeout,
        output,
        reconnect: Some(Box::new(|| {
            Box::pin(reconnect(
                client,
                watch.connection.clone(),
                unopened.clone(),
            ))
        })),
    };
    let viewing = watch.viewing.clone();
    let running = stream::view(connection.clone(), Arc::new(TokioRuntime), options, viewing);
    let failed = format!("the stream from {} ended early", args.reach.server);
    let interrupted = || {
        let seconds = TokioRuntime.now().duration_since(clock.at).as_secs_f64();
        let cause = format!("interrupted after {seconds:.1} s");
        (cause, "the report is of what came until then")
    };
    let result = client
        .attend(&connection, running, watch.show(), &failed, interrupted)
        .await;
    if result.is_err() {
        watch.viewing.cut(TokioRuntime.now());
    }
    let unopened = lock(&unopened).take();
    let result = unopened.map_or(result, Err);
    watch.print_report(result.as_ref().err())?;
    result
}

/// Connects anew to a server that fell silent. That another one answers goes to `untrusted`.
async fn reconnect(
    client: &Client<'_>,
    present: Arc<Mutex<Connection>>,
    untrusted: Arc<Mutex<Option<Failure>>>,
) -> Result<Connection, AppError> {
    let attempt = client.attempts.fetch_add(1, Ordering::Relaxed);
    let trace = format!("client-{}-again-{attempt}", std::process::id());
    match client.retry(&trace).await {
        Ok(connection) => {
            say("evenkeel: the server was gone; connected anew");
            *lock(&present) = connection.clone();
            Ok(connection)
        }
        Err(Failed::Untrusted(failure)) => {
            *lock(&untrusted) = Some(failure);
            Err(AppError::Refused("another server answers".into()))
        }
        Err(Failed::Unreached(_)) => Err(ConnectionError::TimedOut.into()),
    }
}

/// Opens the output when it is awaited: a server that is not to be trusted, or has nothing to show,
/// must not cost what a file holds. That the file of `option` cannot be opened goes to `unopened`.
fn output(
    path: &Path,
    option: &'static str,
    unopened: Arc<Mutex<Option<Failure>>>,
) -> Result<Opening, Failure> {
    if path == Path::new("-") {
        let stdout: Output = Box::new(descriptor(io::stdout().as_fd(), "output")?);
        return Ok(Box::pin(async { Ok(stdout) }));
    }
    let path = path.to_owned();
    Ok(Box::pin(async move {
        match tokio::fs::File::create(&path).await {
            Ok(file) => Ok(Box::new(file) as Output),
            Err(error) => {
                let kind = error.kind();
                *lock(&unopened) = Some(Failure::unwritable(&path, option)(error));
                Err(kind.into())
            }
        }
    }))
}

/// Watches a running stream.
struct Watch<'a> {
    args: &'a StreamClientArgs,
    form: Form,
    /// Whether it may draw on a terminal.
    live: bool,
    /// The present connection.
    connection: Arc<Mutex<Connection>>,
    viewing: Arc<Viewing>,
    began: Instant,
    /// Frames go to standard output, so nothing else may.
    frames_on_stdout: bool,
}

impl Watch<'_> {
    /// Shows the progress until it is dropped or fails.
    async fn show(&self) -> Failure {
        if self.form.has_intervals() {
            return self.print_intervals().await;
        }
        let wanted = self.live && self.form == Form::People;
        let mut before = TokioRuntime.now();
        let view = || self.view(&mut before);
        follow(wanted, "waiting for the stream", REDRAW, view).await
    }

    async fn print_intervals(&self) -> Failure {
        let mut periods = Periods::new(self.began, self.args.output_form.interval());
        let mut before = (0, 0);
        loop {
            let span = periods.next().await;
            if let Err(failure) = self.print(&self.interval(span, &mut before)) {
                return failure;
            }
        }
    }

    /// Returns the completed interval; `before` holds the datagrams and bytes before it began.
    fn interval(&self, span: Span, before: &mut (u64, u64)) -> ViewInterval {
        let seen = self.viewing.snapshot(TokioRuntime.now());
        let seen = seen.unwrap_or_default();
        // Read this after counting the content of these datagrams.
        let udp = lock(&self.connection).stats().udp_rx;
        let (datagrams, bytes) = std::mem::replace(before, (udp.datagrams, udp.bytes));
        ViewInterval {
            span,
            throughput_bps: span.rate(seen.bytes),
            seen,
            udp_datagrams_received: udp.datagrams.saturating_sub(datagrams),
            udp_bytes_received: udp.bytes.saturating_sub(bytes),
        }
    }

    /// Returns the live line; `None` before the stream begins.
    fn view(&self, before: &mut Instant) -> Option<(String, Option<f64>)> {
        let now = TokioRuntime.now();
        let seconds = now.duration_since(*before).as_secs_f64();
        *before = now;
        let seen: Snapshot = self.viewing.snapshot(now)?;
        let text = format!(
            "{}  delay {}  buffer {:.0} ms  stalls {} ({:.1} s)",
            show_rate(seen.bytes as f64 * 8.0 / seconds.max(1e-9)),
            show_delay(&seen),
            seen.buffer_ms,
            seen.stalls,
            seen.stalled_s,
        );
        Some((text, None))
    }

    fn print_report(&self, failure: Option<&Failure>) -> Result<(), Failure> {
        let error = failure.filter(|failure| !failure.is_interruption());
        let now = TokioRuntime.now();
        if let Some(path) = &self.args.plot {
            let latency_ms = self.args.latency.map(milliseconds);
            let picture = draw(self.viewing.stacked().as_ref(), latency_ms);
            std::fs::write(path, picture).map_err(Failure::unwritable(path, "--plot"))?;
        }
        self.print(&View {
            version: env!("CARGO_PKG_VERSION"),
            server: self.args.reach.server.to_string(),
            interrupted: failure.is_some_and(Failure::is_interruption),
            error: error.map(|failure| failure.cause.clone()),
            buffer_ms: match self.args.latency {
                Some(_) => None,
                None => Some(milliseconds(self.args.buffer)),
            },
            latency_ms: self.args.latency.map(milliseconds),
            omit_s: self.args.omit.as_secs_f64(),
            report: self.viewing.report(now),
            ecn: EcnRecord::of(&lock(&self.connection)),
        })
    }

    /// Prints a record. If frames use standard output, words go to standard error.
    fn print(&self, record: &impl Record) -> Result<(), Failure> {
        if !self.frames_on_stdout || !self.form.is_words() {
            return self.form.print(record);
        }
        let text = record.text();
        if !text.is_empty() {
            say(&text);
        }
        Ok(())
    }
}
