//! `evenkeel bulk client`.

use std::{
    io::IsTerminal,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use quinn::{Connection, ConnectionError, Endpoint, Runtime, TokioRuntime, VarInt};

use super::{
    Failure, INTERRUPTED,
    args::ClientArgs,
    files::{FileSink, FileSource},
    net::{self, Transport, plain, read_file},
    output::{ClientResult, Form, PathRecord, Record, print, table},
    series::{ClientCounts, ClientSeries, Listener, Periods},
    units::{show_bytes, show_rate},
};
use crate::{
    bulk::{self, Amount, Direction, Job, Local, Outcome, Progress, Sink, Source},
    path::HeaderReport,
    tls::{Seen, Sight, Trust},
};

/// How long a server may take to answer, 10 s: enough for four packets in a row to be
/// lost, which RFC 9002, section 6.2, sends again after 1, 2 and 4 s.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the figures on a terminal change: several times a second looks alive.
const REDRAW: Duration = Duration::from_millis(200);

/// How long the last packets get to leave after everything is said.
const FAREWELL: Duration = Duration::from_secs(1);

/// Does one transfer.
pub(super) async fn run(args: ClientArgs) -> Result<(), Failure> {
    let qlog = args.output_form.qlog.clone();
    let transport = Transport::new(&args.transport, args.unasked_headers(), qlog)?;
    let source = upload(&args).await?;
    let length = source.length();
    let job = args
        .job(length)
        .map_err(|cause| Failure::usage(cause, "see `evenkeel bulk client --help`"))?;
    let trust = trust(&args).await?;
    let address = net::resolve(&args.server, args.bind).await?;
    let sink = match &args.output {
        Some(path) => Some(Arc::new(FileSink::create(path).await?)),
        None => None,
    };
    let local = Local {
        source,
        sink: sink
            .clone()
            .map_or(Sink::Discard, |sink| Sink::Stored(sink)),
        ..Local::default()
    };
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

async fn trust(args: &ClientArgs) -> Result<Trust, Failure> {
    Ok(match (&args.pin, &args.ca, args.insecure) {
        (Some(pin), _, _) => Trust::Pin(*pin),
        (_, Some(path), _) => Trust::authorities(&read_file(path, "--ca").await?).map_err(|e| {
            Failure::failed(
                format!("{}: {e}", path.display()),
                "give --ca a PEM file of certificates",
            )
        })?,
        (_, _, true) => Trust::Anybody,
        _ => Trust::Nobody,
    })
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
    let endpoint = open(transport, args.bind, address)?;
    let connection = connect(args, transport, trust, &endpoint, address).await?;

    let watch = Watch {
        form: Form::of(&args.output_form),
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
            format!("the transfer with {} failed: {error}", args.server),
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

/// A socket that sends to `server`, from `local` if that is given.
fn open(
    transport: &Transport,
    local: Option<SocketAddr>,
    server: SocketAddr,
) -> Result<Endpoint, Failure> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let (address, remedy) = match local {
        Some(local) => (
            local,
            "give --bind an address of this machine and a free port",
        ),
        None => ((any, 0).into(), "check the network set-up"),
    };
    transport.bind(address, None, "cannot open a socket on", remedy)
}

async fn connect(
    args: &ClientArgs,
    transport: &Transport,
    trust: Trust,
    endpoint: &Endpoint,
    address: SocketAddr,
) -> Result<Connection, Failure> {
    let pinned = match &trust {
        Trust::Pin(pin) => Some(*pin),
        _ => None,
    };
    let (tls, sight) = trust
        .client(bulk::ALPN)
        .map_err(|error| Failure::failed(error, "give --ca a PEM file of certificates"))?;
    let config = transport.client(tls, &format!("client-{}", std::process::id()))?;

    let name = args.server_name.as_ref().unwrap_or(&args.server.host);
    let failure = |cause: &dyn std::fmt::Display| {
        Failure::failed(
            format!("cannot connect to {address}: {cause}"),
            "check that `evenkeel bulk server` runs there and that UDP gets through",
        )
    };
    let connecting = endpoint
        .connect_with(config, address, name)
        .map_err(|error| failure(&error))?;
    let unanswered = || {
        let seconds = HANDSHAKE_TIMEOUT.as_secs();
        failure(&format!("no answer within {seconds} s"))
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, connecting).await {
        Err(_) | Ok(Err(ConnectionError::TimedOut)) => Err(unanswered()),
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(match refusal(&sight) {
            Some(seen) => untrusted(args, pinned.map(|pin| pin.to_string()), &seen),
            None => failure(&error),
        }),
    }
}

/// The certificate, if it is why the handshake failed.
fn refusal(sight: &Sight) -> Option<Seen> {
    sight.seen().filter(|seen| seen.refusal.is_some())
}

fn untrusted(args: &ClientArgs, pinned: Option<String>, seen: &Seen) -> Failure {
    let fingerprint = seen.fingerprint;
    if let Some(pinned) = pinned {
        return Failure::failed(
            format!(
                "the server's certificate is {fingerprint}, but --pin wants {pinned}: \
                 another server or an attacker answers"
            ),
            "compare with the pin that the server printed at its start",
        );
    }
    if args.ca.is_some() {
        let refusal = seen.refusal.as_deref().unwrap_or("is not trusted");
        return Failure::failed(
            format!("the server's certificate ({fingerprint}) {refusal}"),
            "check --ca and --server-name, or use --pin",
        );
    }
    Failure::failed(
        format!("the server's certificate is not trusted yet: {fingerprint}"),
        format!(
            "if the server printed the same, run: evenkeel bulk client {} --pin {fingerprint}",
            args.server
        ),
    )
}

/// A running transfer, for those who look on.
struct Watch<'a> {
    form: Form,
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
        if std::io::stderr().is_terminal() {
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
                print(&table(&outcome, self.job.omit, path.as_ref()))
            });
        }
        Form::print(&Record::Result(ClientResult {
            version: env!("CARGO_PKG_VERSION"),
            server: args.server.to_string(),
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
