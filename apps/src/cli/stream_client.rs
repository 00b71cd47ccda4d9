//! `evenkeel stream client`.

use std::{
    io::IsTerminal,
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use indicatif::ProgressBar;
use quinn::{Connection, Runtime, TokioRuntime, VarInt};
use tokio::fs::File;
use tokio::io::AsyncWrite;

use super::{
    Failure, INTERRUPTED,
    net::{self, STREAM, Transport, plain},
    output::{Form, print},
    reach,
    series::Periods,
    stream_args::{ClockName, StreamClientArgs},
    stream_output::{StreamRecord, View, ViewInterval, table},
    units::show_rate,
};
use crate::{
    path::HeaderUse,
    stream::{self, Clock, ViewOptions, Viewing},
};

/// How often the figures on a terminal change.
const REDRAW: Duration = Duration::from_millis(500);

/// How long the last packets get to leave after everything is said.
const FAREWELL: Duration = Duration::from_secs(1);

/// Watches a stream.
pub(super) async fn run(args: StreamClientArgs) -> Result<(), Failure> {
    let clock = wall_clock(args.clock == ClockName::Shared);
    let qlog = args.output_form.qlog.clone();
    let transport = Transport::new(STREAM, &args.transport, HeaderUse::Echo, qlog)?;
    let trust = reach::trust(&args.reach).await?;
    let address = net::resolve(&args.reach.server, args.reach.bind).await?;
    let endpoint = reach::open(&transport, args.reach.bind, address)?;
    let trace = format!("client-{}", std::process::id());
    let connection =
        reach::connect(&args.reach, &transport, trust, &endpoint, address, &trace).await?;
    let output = match &args.output {
        Some(path) => Some(open_output(path).await?),
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
            "see the server's own messages, then try again",
        )),
        failure = watch.show() => Err(failure),
        _ = tokio::signal::ctrl_c() => {
            connection.close(VarInt::from_u32(0), b"interrupted");
            let seconds = TokioRuntime.now().duration_since(clock.at).as_secs_f64();
            Err(Failure::new(
                INTERRUPTED,
                format!("interrupted after {seconds:.1} s"),
                "the report is of what came until then",
            ))
        }
    };
    if result.is_err() {
        watch.viewing.cut(TokioRuntime.now());
    }
    watch.print_report(&args, &result)?;
    // The connection's last packet still has to leave.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
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
            Form::People if std::io::stderr().is_terminal() => self.draw().await,
            Form::People | Form::Json => std::future::pending().await,
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
                eprintln!("{}", interval.line());
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

    async fn draw(&self) -> Failure {
        let bar = ProgressBar::new_spinner().with_finish(indicatif::ProgressFinish::AndClear);
        let mut tick = tokio::time::interval(REDRAW);
        let mut before = TokioRuntime.now();
        loop {
            tick.tick().await;
            let now = TokioRuntime.now();
            let seconds = now.duration_since(before).as_secs_f64();
            before = now;
            bar.tick();
            let Some(seen) = self.viewing.snapshot(now) else {
                bar.set_message("waiting for the stream");
                continue;
            };
            bar.set_message(format!(
                "{}  delay {}  buffer {:.0} ms  {} stalls, {:.1} s",
                show_rate(seen.bytes as f64 * 8.0 / seconds.max(1e-9)),
                seen.delay_ms.map_or("-".into(), |ms| format!("{ms:.0} ms")),
                seen.buffer_ms,
                seen.stalls,
                seen.stalled_s,
            ));
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
                eprintln!("{}", table(&report));
                return Ok(());
            }
            return print(&table(&report));
        }
        let failure = result.as_ref().err();
        Form::print(&StreamRecord::View(View {
            version: env!("CARGO_PKG_VERSION"),
            server: args.reach.server.to_string(),
            interrupted: failure.is_some_and(|failure| failure.status == INTERRUPTED),
            error: failure
                .filter(|failure| failure.status != INTERRUPTED)
                .map(|failure| failure.cause.clone()),
            buffer_ms: args.buffer().as_secs_f64() * 1e3,
            omit_s: args.omit.as_secs_f64(),
            report,
        }))
    }
}
