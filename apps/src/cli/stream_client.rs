//! `evenkeel stream client`.

use std::{
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use quinn::{Connection, Runtime, TokioRuntime, VarInt};
use tokio::fs::File;
use tokio::io::AsyncWrite;

use super::{
    Failure,
    live::LiveLine,
    net::{self, STREAM, Transport, plain},
    output::{Form, print},
    reach, say,
    series::Periods,
    signals::Signals,
    stream_args::{ClockName, StreamClientArgs},
    stream_output::{StreamRecord, View, ViewInterval, table},
    units::show_rate,
};
use crate::{
    path::HeaderUse,
    stream::{self, Clock, ViewOptions, Viewing},
    time::sleep_until,
};

/// How often the figures on a terminal change.
const REDRAW: Duration = Duration::from_millis(500);

/// Watches a stream.
pub(super) async fn run(args: StreamClientArgs) -> Result<(), Failure> {
    let clock = wall_clock(args.clock == ClockName::Shared);
    let qlog = args.output_form.qlog.clone();
    let transport = Transport::new(STREAM, &args.transport, HeaderUse::Echo, qlog)?;
    let trust = reach::trust(&args.reach).await?;
    let address = net::resolve(&args.reach.server, args.reach.bind).await?;
    let endpoint = reach::open(&transport, args.reach.bind, address)?;
    let signals = Signals::listen()?;
    let trace = format!("client-{}", std::process::id());
    let connecting = reach::connect(&args.reach, &transport, trust, &endpoint, address, &trace);
    let result = match signals.unless_heard(connecting).await {
        Ok(connection) => view(&args, connection, clock, &signals).await,
        Err(failure) => Err(failure),
    };
    net::farewell(&endpoint).await;
    result.and(transport.end_traces())
}

/// Watches until the stream ends, `--time` is over or a signal comes, and says what it saw.
async fn view(
    args: &StreamClientArgs,
    connection: Connection,
    clock: Clock,
    signals: &Signals,
) -> Result<(), Failure> {
    let output = match &args.output {
        Some(path) => Some(signals.unless_heard(open_output(path)).await?),
        None => None,
    };
    let viewing = Arc::<Viewing>::default();
    let watch = Watch {
        form: Form::of(&args.output_form),
        connection: connection.clone(),
        viewing: viewing.clone(),
        began: clock.at,
        interval: args.output_form.interval(),
        frames_on_stdout: args.output.as_deref() == Some(Path::new("-")),
    };
    let options = ViewOptions {
        began: clock.at,
        clock,
        buffer: args.buffer(),
        omit: args.omit,
        time: args.time,
        // How long the server may be silent.
        patience: args.transport.idle_timeout,
        output,
    };
    let running = stream::view(connection.clone(), Arc::new(TokioRuntime), options, viewing);
    let result = tokio::select! {
        biased;
        result = running => result.map_err(|error| Failure::failed(
            format!("the stream from {} ended early: {error}", args.reach.server),
            reach::remedy(&error),
        )),
        failure = watch.show() => Err(failure),
        signal = signals.heard() => {
            evenkeel::close(&connection, VarInt::from_u32(0), b"interrupted");
            let seconds = TokioRuntime.now().duration_since(clock.at).as_secs_f64();
            Err(Failure::interrupted(
                signal,
                format!("interrupted after {seconds:.1} s"),
                "the report is of what came until then",
            ))
        }
    };
    if result.is_err() {
        watch.viewing.cut(TokioRuntime.now());
    }
    watch.print_report(args, &result)?;
    result
}

/// This machine's clock, which programs on it share.
#[expect(
    clippy::disallowed_methods,
    reason = "capture times have to be compared between programs"
)]
pub(super) fn wall_clock(shared: bool) -> Clock {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Clock {
        at: TokioRuntime.now(),
        // Before 1970 no clock is worth a failure.
        micros: since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0)),
        shared,
    }
}

/// Standard input or output as a file.
///
/// # Errors
/// If it is closed.
pub(super) fn descriptor(fd: BorrowedFd<'_>, which: &str) -> Result<File, Failure> {
    let owned = fd.try_clone_to_owned().map_err(|error| {
        Failure::failed(
            format!("cannot use standard {which}: {}", plain(&error)),
            "do not close it",
        )
    })?;
    Ok(File::from_std(std::fs::File::from(owned)))
}

async fn open_output(path: &Path) -> Result<Box<dyn AsyncWrite + Send + Sync + Unpin>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(descriptor(std::io::stdout().as_fd(), "output")?));
    }
    let file = tokio::fs::File::create(path).await.map_err(|error| {
        Failure::failed(
            format!("cannot write {}: {}", path.display(), plain(&error)),
            "choose another --output",
        )
    })?;
    Ok(Box::new(file))
}

/// A running stream, for those who look on.
struct Watch {
    form: Form,
    connection: Connection,
    viewing: Arc<Viewing>,
    began: Instant,
    interval: Duration,
    /// Frames go to standard output, where nothing else may.
    frames_on_stdout: bool,
}

impl Watch {
    /// Shows how it goes until it is dropped or cannot go on.
    async fn show(&self) -> Failure {
        match self.form {
            Form::JsonLines | Form::Lines => self.print_intervals().await,
            Form::Json => std::future::pending().await,
            Form::People => match LiveLine::new() {
                Some(line) => self.draw(line).await,
                None => std::future::pending().await,
            },
        }
    }

    async fn print_intervals(&self) -> Failure {
        let mut periods = Periods::new(self.began, self.interval);
        let (mut datagrams, mut bytes) = (0, 0);
        loop {
            let span = periods.next().await;
            let seen = self
                .viewing
                .snapshot(TokioRuntime.now())
                .unwrap_or_default();
            // After the content that came in these datagrams was counted.
            let udp = self.connection.stats().udp_rx;
            let seconds = (span.end - span.start).as_secs_f64();
            let interval = ViewInterval {
                start_s: span.start.as_secs_f64(),
                end_s: span.end.as_secs_f64(),
                throughput_bps: seen.bytes as f64 * 8.0 / seconds.max(1e-9),
                seen,
                udp_datagrams_received: udp.datagrams - datagrams,
                udp_bytes_received: udp.bytes - bytes,
            };
            (datagrams, bytes) = (udp.datagrams, udp.bytes);
            let printed = if self.form == Form::Lines && self.frames_on_stdout {
                say(&interval.line());
                Ok(())
            } else {
                self.form
                    .print_interval(interval, ViewInterval::line, StreamRecord::ViewInterval)
            };
            if let Err(failure) = printed {
                return failure;
            }
        }
    }

    async fn draw(&self, mut line: LiveLine) -> Failure {
        line.show("waiting for the stream", None);
        let mut before = TokioRuntime.now();
        loop {
            sleep_until(&TokioRuntime, TokioRuntime.now() + REDRAW).await;
            let now = TokioRuntime.now();
            let seconds = now.duration_since(before).as_secs_f64();
            before = now;
            let Some(seen) = self.viewing.snapshot(now) else {
                continue;
            };
            let text = format!(
                "{}  delay {}  buffer {:.0} ms  stalls {} ({:.1} s)",
                show_rate(seen.bytes as f64 * 8.0 / seconds.max(1e-9)),
                seen.delay_ms.map_or("-".into(), |ms| format!("{ms:.0} ms")),
                seen.buffer_ms,
                seen.stalls,
                seen.stalled_s,
            );
            line.show(&text, None);
        }
    }

    fn print_report(
        &self,
        args: &StreamClientArgs,
        result: &Result<(), Failure>,
    ) -> Result<(), Failure> {
        let report = self.viewing.report(TokioRuntime.now());
        if self.form.is_words() {
            let Some(report) = report.filter(|report| report.frames.received > 0) else {
                return Ok(());
            };
            // Frames on standard output are for a decoder.
            if self.frames_on_stdout {
                say(&table(&report));
                return Ok(());
            }
            return print(&table(&report));
        }
        let failure = result.as_ref().err();
        Form::print(&StreamRecord::View(View {
            version: env!("CARGO_PKG_VERSION"),
            server: args.reach.server.to_string(),
            interrupted: failure.is_some_and(Failure::is_interruption),
            error: failure
                .filter(|failure| !failure.is_interruption())
                .map(|failure| failure.cause.clone()),
            buffer_ms: args.buffer().as_secs_f64() * 1e3,
            omit_s: args.omit.as_secs_f64(),
            report,
        }))
    }
}
