//! `evenkeel bulk client`.

use std::{
    io::IsTerminal,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use quinn::{Connection, Runtime, TokioRuntime, VarInt};

use super::{
    Failure, INTERRUPTED,
    args::ClientArgs,
    files::{FileSink, FileSource},
    net::{self, BULK, Transport, plain},
    output::{ClientResult, Form, PathRecord, Record, print, table},
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
        pattern: args.pattern(),
        ..Local::default()
    };
    if args.bidir {
        let back = Job {
            direction: Direction::Down,
            ..job.clone()
        };
        let (again, theirs) = (reach::trust(&args.reach).await?, Local::default());
        let (up, down) = tokio::join!(
            transfer(&args, &transport, trust, address, job, local),
            transfer(&args, &transport, again, address, back, theirs),
        );
        return up.and(down);
    }
    let result = transfer(&args, &transport, trust, address, job, local).await;
    match (&result, sink) {
        (Ok(()), Some(sink)) => sink.keep().await?,
        (Err(_), Some(sink)) => sink.discard().await,
        (_, None) => {}
    }
    result
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

async fn transfer(
    args: &ClientArgs,
    transport: &Transport,
    trust: Trust,
    address: SocketAddr,
    job: Job,
    local: Local,
) -> Result<(), Failure> {
    let listener = Arc::new(Listener::new(args.rtt_samples, args.path_samples));
    let transport = &transport.observed(listener.clone());
    let endpoint = reach::open(transport, args.reach.bind, address)?;
    let connection = reach::connect(&args.reach, transport, trust, &endpoint, address).await?;

    let watch = Watch {
        form: Form::of(&args.output_form),
        bidir: args.bidir,
        job: job.clone(),
        connection: connection.clone(),
        progress: Arc::default(),
        start: TokioRuntime.now(),
        listener,
        transport,
    };
    let mut series = (watch.form == Form::JsonLines).then(|| ClientSeries {
        connection: connection.clone(),
        direction: job.direction,
        progress: watch.progress.clone(),
        listener: watch.listener.clone(),
        periods: Periods::new(watch.start, args.output_form.interval),
        before: ClientCounts::default(),
    });
    let running = bulk::client(
        connection.clone(),
        Arc::new(TokioRuntime),
        job,
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
        watch.print_result(args, outcome.cloned(), interrupted)?;
    }
    // The connection's last packet still has to leave.
    let _ = tokio::time::timeout(FAREWELL, endpoint.wait_idle()).await;
    result.map(|_| ()).and(rest)
}

/// A running transfer, for those who look on.
struct Watch<'a> {
    form: Form,
    bidir: bool,
    job: Job,
    connection: Connection,
    progress: Arc<Progress>,
    start: Instant,
    listener: Arc<Listener>,
    transport: &'a Transport,
}

impl Watch<'_> {
    fn elapsed(&self) -> Duration {
        TokioRuntime.now().duration_since(self.start)
    }

    /// Bytes on this side so far.
    fn bytes(&self) -> u64 {
        match self.job.direction {
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
        // Two directions would draw over each other.
        if std::io::stderr().is_terminal() && !self.bidir {
            self.draw().await;
        }
        std::future::pending().await
    }

    async fn draw(&self) {
        let (bar, template) = match self.job.amount {
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
            bar.set_position(match self.job.amount {
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

    fn print_result(
        &self,
        args: &ClientArgs,
        outcome: Option<Outcome>,
        interrupted: bool,
    ) -> Result<(), Failure> {
        let path = HeaderReport::of(&self.connection).map(|headers| PathRecord {
            headers,
            samples: self.listener.summary(),
        });
        if self.form == Form::People {
            return outcome.map_or(Ok(()), |outcome| {
                let table = table(&outcome, self.job.omit, path.as_ref());
                let heading = match self.job.direction {
                    _ if !self.bidir => "",
                    Direction::Up => "upload:\n",
                    Direction::Down => "download:\n",
                };
                print(&format!("{heading}{table}"))
            });
        }
        Form::print(&Record::Result(ClientResult {
            version: env!("CARGO_PKG_VERSION"),
            server: args.reach.server.to_string(),
            controller: args.transport.controller.clone(),
            pacing: self.transport.pacing(),
            path_headers: self.transport.headers().to_string(),
            direction: self.job.direction,
            streams: self.job.streams,
            omit_s: self.job.omit.as_secs_f64(),
            interrupted,
            bytes_sent: self.progress.sent(),
            bytes_received: self.progress.received(),
            path,
            outcome,
        }))
    }
}
