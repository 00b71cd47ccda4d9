//! `evenkeel stream server`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    os::fd::AsFd,
    path::Path,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use quinn::{Connection, Incoming, Runtime, ServerConfig, TokioRuntime, VarInt};
use tokio::fs::File;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::mpsc;

use super::{
    Failure, complain,
    listen::{Listener as Listening, listen, unmapped},
    net::{STREAM, Transport, farewell, plain},
    output::{Form, print},
    series::{Listener, PacketCounts, Periods, Span, lock},
    signals::Signals,
    stream_args::StreamServerArgs,
    stream_client::{descriptor, wall_clock},
    stream_output::{Stopped, StreamRecord, Viewer, ViewerInterval},
    units::show_bytes,
};
use crate::{
    AppError,
    bulk::packets_sent,
    path::{HeaderReport, HeaderUse, SampleRecord},
    stream::{self, AccessUnit, AccessUnits, Host, Live, Media, Sending, ServeOptions},
    time::milliseconds,
};

/// How long a viewer may take to ask, and to go in the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest file to stream, 1 GiB: it is held in memory for all viewers.
const MAX_FILE: u64 = 1 << 30;

/// Bytes read from standard input at once.
const READ: usize = 64 * 1024;

/// Serves until it is interrupted, or once.
pub(super) async fn run(args: StreamServerArgs) -> Result<(), Failure> {
    let wrong = |cause: String| Failure::usage(cause, "see `evenkeel stream server --help`");
    let (encoder, send) = (args.encoder().map_err(wrong)?, args.send().map_err(wrong)?);
    let qlog = args.output.qlog.clone();
    let transport = Transport::new(STREAM, &args.transport, HeaderUse::Echo, qlog)?;
    let (failed, input) = mpsc::unbounded_channel();
    let media = match &args.input {
        None => Media::Synthetic(encoder),
        Some(path) if path == Path::new("-") => {
            let live = Arc::new(Live::new(encoder.frame_rate));
            let input = descriptor(std::io::stdin().as_fd(), "input")?;
            tokio::spawn(read_live(input, live.clone(), failed));
            Media::Live(live)
        }
        Some(path) => Media::Recorded {
            pictures: read_file(path).await?,
            frame_rate: encoder.frame_rate,
            repeat: args.repeat,
        },
    };
    let form = Form::of(&args.output);
    let Listening {
        endpoint,
        address,
        config,
        signals,
    } = listen(&args.at, &transport, &args.transport.controller, form).await?;
    let (report, ended) = mpsc::unbounded_channel();
    let traced = transport.clone();
    let viewers = Arc::new(Viewers {
        live: Mutex::default(),
        heard: Mutex::default(),
        samples: (args.rtt_samples, args.path_samples),
        config,
        transport,
        report,
    });
    let serving = tokio::spawn(stream::serve(
        endpoint.clone(),
        Arc::new(TokioRuntime),
        ServeOptions {
            media,
            send,
            viewers: args.viewers.into(),
            patience: PATIENCE,
            clock: wall_clock(false),
            host: viewers.clone(),
        },
    ));
    let server = Server {
        form,
        once: args.once,
        interval: args.output.interval(),
        viewers: viewers.clone(),
        signals,
    };
    let summary = Stopped {
        version: env!("CARGO_PKG_VERSION"),
        address: address.to_string(),
        controller: args.transport.controller.clone(),
        viewers: 0,
        failed: 0,
        last: None,
    };
    let stopped = server.attend(ended, input, summary).await;
    for watching in lock(&viewers.live).values() {
        evenkeel::close(
            &watching.connection,
            VarInt::from_u32(0),
            b"the server stops",
        );
    }
    endpoint.close(VarInt::from_u32(0), b"the server stops");
    farewell(&endpoint).await;
    serving.abort();
    stopped.and(traced.end_traces())
}

/// All pictures of a file.
async fn read_file(path: &Path) -> Result<Arc<[AccessUnit]>, Failure> {
    let failure = |cause: &dyn std::fmt::Display| {
        Failure::failed(
            format!("cannot stream {}: {cause}", path.display()),
            "give --input H.264 in Annex B format; `ffmpeg -i FILE -an -c:v copy -f h264 OUT` makes it",
        )
    };
    let metadata = tokio::fs::metadata(path)
        .await
        .map_err(|error| failure(&plain(&error)))?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(failure(&"it is no regular file of at most 1 GiB"));
    }
    let bytes = tokio::fs::read(path)
        .await
        .map_err(|error| failure(&plain(&error)))?;
    let mut parser = AccessUnits::default();
    let mut pictures = Vec::new();
    for bytes in bytes.chunks(READ) {
        pictures.extend(parser.push(bytes).map_err(|error| failure(&error))?);
    }
    pictures.extend(parser.finish());
    if pictures.is_empty() {
        return Err(failure(&"it has no picture"));
    }
    Ok(pictures.into())
}

/// Pictures from standard input, until it ends or makes no sense.
async fn read_live(mut input: File, live: Arc<Live>, failed: mpsc::UnboundedSender<Failure>) {
    let result = read_pictures(&mut input, &live).await;
    live.end();
    if let Err(cause) = result {
        // Once the server stops nobody listens.
        let _ = failed.send(Failure::failed(
            format!("cannot stream standard input: {cause}"),
            "send H.264 in Annex B format, as `ffmpeg ... -f h264 -` does",
        ));
    }
}

async fn read_pictures(input: &mut (impl AsyncRead + Unpin), live: &Live) -> Result<(), String> {
    let mut parser = AccessUnits::default();
    let mut buffer = vec![0; READ];
    loop {
        let length = input
            .read(&mut buffer)
            .await
            .map_err(|error| plain(&error))?;
        if length == 0 {
            break;
        }
        let pictures = parser
            .push(&buffer[..length])
            .map_err(|error| error.to_string())?;
        for picture in pictures {
            live.push(TokioRuntime.now(), picture);
        }
    }
    if let Some(last) = parser.finish() {
        live.push(TokioRuntime.now(), last);
    }
    Ok(())
}

/// The command line's decisions for the library's server, and who watches.
struct Viewers {
    /// By the stable identifiers of their connections.
    live: Mutex<BTreeMap<usize, Watching>>,
    /// What the controllers of connections hear that are being made, by address.
    heard: Mutex<BTreeMap<SocketAddr, Arc<Listener>>>,
    /// Whether round-trip times and path headers are listed.
    samples: (bool, bool),
    config: ServerConfig,
    transport: Transport,
    report: mpsc::UnboundedSender<Viewer>,
}

struct Watching {
    connection: Connection,
    sending: Arc<Sending>,
    since: Instant,
    listener: Option<Arc<Listener>>,
    packets: PacketCounts,
}

impl Host for Viewers {
    fn configure(&self, incoming: &Incoming) -> Option<Arc<ServerConfig>> {
        let listener = Arc::new(Listener::new(self.samples.0, self.samples.1));
        let transport = self.transport.observed(listener.clone());
        match transport.connection(&format!("server-{}", incoming.orig_dst_cid())) {
            Ok(transport) => {
                lock(&self.heard).insert(incoming.remote_address(), listener);
                let mut config = self.config.clone();
                config.transport_config(transport);
                Some(Arc::new(config))
            }
            Err(failure) => {
                complain(&failure);
                None
            }
        }
    }

    fn accepted(&self, connection: &Connection, sending: &Arc<Sending>) {
        let listener = lock(&self.heard).remove(&connection.remote_address());
        let watching = Watching {
            connection: connection.clone(),
            sending: sending.clone(),
            since: TokioRuntime.now(),
            listener,
            packets: PacketCounts::default(),
        };
        lock(&self.live).insert(connection.stable_id(), watching);
    }

    fn ended(&self, connection: &Connection, sending: &Sending, result: &Result<(), AppError>) {
        let watching = lock(&self.live).remove(&connection.stable_id());
        let since = watching.map_or_else(|| TokioRuntime.now(), |watching| watching.since);
        let stats = connection.stats();
        // Once the server stops nobody listens.
        let _ = self.report.send(Viewer {
            viewer: unmapped(connection.remote_address()).to_string(),
            error: result.as_ref().err().map(ToString::to_string),
            duration_s: TokioRuntime.now().duration_since(since).as_secs_f64(),
            sent: sending.counts(),
            packets_sent: packets_sent(&stats),
            packets_lost: stats.path.lost_packets,
            path: HeaderReport::of(connection),
        });
    }
}

impl Viewers {
    /// A record of each viewer; times count from `origin`, when the server began.
    fn intervals(&self, span: Span, origin: Instant) -> Vec<ViewerInterval> {
        let (rtts, paths) = self.samples;
        lock(&self.live)
            .values_mut()
            .map(|watching| {
                let heard = watching.listener.as_ref().map(|listener| listener.take());
                let (rtt, path) = heard.unwrap_or_default();
                ViewerInterval {
                    viewer: unmapped(watching.connection.remote_address()).to_string(),
                    start_s: span.start.as_secs_f64(),
                    end_s: span.end.as_secs_f64(),
                    sent: watching.sending.counts(),
                    sender: watching.packets.figures(&watching.connection),
                    rtt_samples_ms: rtts.then(|| rtt.into_iter().map(milliseconds).collect()),
                    path_samples: paths.then(|| {
                        let record = |sample| SampleRecord::new(sample, origin);
                        path.iter().map(record).collect()
                    }),
                }
            })
            .collect()
    }
}

/// A server that runs.
struct Server {
    form: Form,
    once: bool,
    interval: Duration,
    viewers: Arc<Viewers>,
    signals: Signals,
}

impl Server {
    /// Reports what happens until a signal or, with `--once`, a viewer's end.
    async fn attend(
        &self,
        mut ended: mpsc::UnboundedReceiver<Viewer>,
        mut input: mpsc::UnboundedReceiver<Failure>,
        mut summary: Stopped,
    ) -> Result<(), Failure> {
        let origin = TokioRuntime.now();
        let mut periods = Periods::new(origin, self.interval);
        let mut result = Ok(());
        loop {
            tokio::select! {
                biased;
                Some(viewer) = ended.recv() => {
                    summary.viewers += 1;
                    summary.failed += u64::from(viewer.error.is_some());
                    let failure = viewer.error.as_ref().map(|error| Failure::failed(
                        format!("the stream to {} failed: {error}", viewer.viewer),
                        "see the viewer's own messages",
                    ));
                    summary.last = Some(viewer.clone());
                    self.print_viewer(viewer)?;
                    match failure {
                        Some(failure) if self.once => result = Err(failure),
                        Some(failure) => complain(&failure),
                        None => {}
                    }
                    if self.once {
                        break;
                    }
                }
                Some(failure) = input.recv() => {
                    result = Err(failure);
                    break;
                }
                _ = self.signals.heard() => break,
                span = periods.next(), if self.form.has_intervals() => {
                    for interval in self.viewers.intervals(span, origin) {
                        self.form.print_interval(
                            interval,
                            ViewerInterval::line,
                            StreamRecord::ViewerInterval,
                        )?;
                    }
                }
            }
        }
        if !self.form.is_words() {
            Form::print(&StreamRecord::Stopped(summary))?;
        }
        result
    }

    fn print_viewer(&self, viewer: Viewer) -> Result<(), Failure> {
        match self.form {
            Form::JsonLines => Form::print(&StreamRecord::Viewer(viewer)),
            Form::Json => Ok(()),
            Form::People | Form::Lines => print(&format!(
                "{}: {} of {} frames in {:.1} s, {}, {} cancelled, {} bitrate switches",
                viewer.viewer,
                viewer.sent.frames_sent,
                viewer.sent.frames_captured,
                viewer.duration_s,
                show_bytes(viewer.sent.bytes),
                viewer.sent.frames_cancelled,
                viewer.sent.bitrate_switches,
            )),
        }
    }
}
