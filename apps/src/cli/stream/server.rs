//! `evenkeel stream server`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::{Controllers, SharedFactory};
use quinn::{Connection, Runtime, TokioRuntime};
use serde::Serialize;
use tokio::sync::{Notify, mpsc};

use super::args::StreamServerArgs;
use super::input::{self, Reading};
use super::output::{StoppedCounts, Viewer, ViewerInterval};
use super::rate::RateSink;
use super::system::wall_clock;
use crate::accept::Setup;
use crate::bulk::packets_sent;
use crate::cli::address::unmapped;
use crate::cli::args::SampleArgs;
use crate::cli::controllers::Allowed;
use crate::cli::ecn::EcnRecord;
use crate::cli::failure::{Failure, say};
use crate::cli::net::{STREAM, Transport};
use crate::cli::output::Record;
use crate::cli::series::{PacketCounts, SampleRecorder, Span};
use crate::cli::server::{Clients, Event, Server, Settings};
use crate::lock::lock;
use crate::path::{HeaderReport, HeaderUse};
use crate::stream::{Host, Live, Media, Sending, ServeOptions};
use crate::{AppError, stream};

/// How long a viewer may take to ask for the stream, and to leave at the end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves until interrupted, or once.
pub(crate) async fn run(
    args: StreamServerArgs,
    rate: Option<RateSink>,
    controllers: &Controllers,
) -> Result<(), Failure> {
    let wrong = |cause: String| {
        let server = args.names.server;
        Failure::usage(cause, format!("see `evenkeel stream {server} --help`"))
    };
    let (encoder, send) = (args.encoder().map_err(wrong)?, args.send().map_err(wrong)?);
    let qlog = args.output.qlog.as_deref();
    let application = STREAM.with_clients(args.names.client);
    let transport = Transport::new(
        application,
        &args.transport,
        HeaderUse::Echo,
        qlog,
        controllers,
    )?;
    let (report, events) = mpsc::unbounded_channel();
    let (media, reading) = input::open(&args, encoder).await?;
    let controller = &args.transport.controller;
    let allowed = Allowed::new(controller, &args.others.controllers, controllers)?;
    let server = Server::start(&args.at, &args.output, controller, transport).await?;
    let live = match &media {
        Media::Live(live) => Some(live.clone()),
        Media::Synthetic(_) | Media::Tracks(_) | Media::Recorded { .. } => None,
    };
    let viewers = Arc::new(Viewers {
        live: Arc::default(),
        gone: Notify::new(),
        any: AtomicBool::new(false),
        samples: args.samples,
        allowed,
        settings: server.settings.clone(),
        report,
    });
    let serving = tokio::spawn(stream::serve(
        server.endpoint.clone(),
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
    if let Some((live, reading)) = live.zip(reading) {
        tokio::spawn(viewers.clone().end_with(live, reading));
    }
    if let Some(rate) = rate {
        let (viewers, start_bps) = (viewers.live.clone(), send.adapt.start_bps);
        tokio::spawn(rate.follow(move || {
            let viewers = lock(&viewers);
            let rates = viewers
                .values()
                .map(|viewer| viewer.sending.counts().bitrate_bps);
            Some(rates.filter(|rate| *rate > 0).min().unwrap_or(start_bps))
        }));
    }
    server.attend(serving, args.once, events, viewers).await
}

/// Makes the command line's decisions for the library's server, and knows who watches.
struct Viewers {
    /// Viewers by the stable identifiers of their connections.
    live: Arc<Mutex<BTreeMap<usize, LiveViewer>>>,
    /// One of them has gone.
    gone: Notify,
    /// Any viewer ever came.
    any: AtomicBool,
    samples: SampleArgs,
    /// The controllers that viewers may ask for.
    allowed: Allowed,
    settings: Settings,
    report: mpsc::UnboundedSender<Event<Viewer>>,
}

struct LiveViewer {
    /// The name of the controller with which it is sent to.
    controller: String,
    connection: Connection,
    sending: Arc<Sending>,
    since: Instant,
    recorder: Arc<SampleRecorder>,
    packets: PacketCounts,
}

impl Host for Viewers {
    fn configure(&self, _client: IpAddr) -> Option<Setup> {
        let recorder = Arc::new(SampleRecorder::new(self.samples));
        let transport = self.settings.transport.observed(recorder.clone());
        let (live, controller) = (self.live.clone(), self.allowed.own().to_owned());
        Some(self.settings.next(&transport, move |connection| {
            let viewer = LiveViewer {
                controller,
                connection: connection.clone(),
                sending: Arc::default(),
                since: TokioRuntime.now(),
                recorder,
                packets: PacketCounts::default(),
            };
            lock(&live).insert(connection.stable_id(), viewer);
        }))
    }

    fn controller(
        &self,
        connection: &Connection,
        asked_for: &str,
    ) -> Result<SharedFactory, String> {
        let found = self.allowed.find(asked_for)?;
        let mut live = lock(&self.live);
        let viewer = live.get_mut(&connection.stable_id());
        let viewer = viewer.ok_or("it knows no such viewer")?;
        asked_for.clone_into(&mut viewer.controller);
        Ok(evenkeel::observed(found, viewer.recorder.clone()))
    }

    fn accepted(&self, connection: &Connection) -> Arc<Sending> {
        self.any.store(true, Ordering::Relaxed);
        let live = lock(&self.live);
        let viewer = live.get(&connection.stable_id());
        viewer.map_or_else(Arc::default, |viewer| viewer.sending.clone())
    }

    fn ended(&self, connection: &Connection, sending: &Sending, result: &Result<(), AppError>) {
        let (since, controller) = match lock(&self.live).get(&connection.stable_id()) {
            Some(live) => (live.since, live.controller.clone()),
            None => (TokioRuntime.now(), String::new()),
        };
        let stats = connection.stats();
        let viewer = unmapped(connection.remote_address()).to_string();
        let error = result.as_ref().err().map(ToString::to_string);
        let failure = error.as_ref().map(|error| {
            Failure::failed(
                format!("the stream to {viewer} failed: {error}"),
                "see the viewer's own messages",
            )
        });
        let viewer = Viewer {
            viewer,
            error,
            duration_s: TokioRuntime.now().duration_since(since).as_secs_f64(),
            controller,
            sent: sending.counts(),
            packets_sent: packets_sent(&stats),
            packets_lost: stats.path.lost_packets,
            path: HeaderReport::of(connection),
            ecn: EcnRecord::of(connection),
        };
        // Nobody listens once the server stops.
        let _ = self.report.send(Event::Ended(viewer, failure));
        lock(&self.live).remove(&connection.stable_id());
        self.gone.notify_waiters();
    }
}

impl Viewers {
    /// Waits until standard input has ended and all viewers have gone, and then ends the server.
    async fn end_with(self: Arc<Self>, live: Arc<Live>, reading: Reading) {
        let read = reading.await.expect("reading does not panic");
        loop {
            let gone = self.gone.notified();
            if lock(&self.live).is_empty() {
                break;
            }
            gone.await;
        }
        let result = if read.is_err() {
            read
        } else if !live.can_begin() {
            Err(Failure::failed(
                "nothing in standard input begins a picture or sound",
                "see what the encoder says; have it repeat its parameter sets at each key frame \
                 (x265: repeat-headers=1)",
            ))
        } else if self.any.load(Ordering::Relaxed) {
            say("evenkeel: standard input has ended, and the server with it");
            Ok(())
        } else {
            Err(Failure::failed(
                "standard input ended before anybody watched",
                "pace the encoder, as `ffmpeg -re` does, and start viewers while it runs",
            ))
        };
        let _ = self.report.send(Event::Over(result));
    }
}

impl Clients for Arc<Viewers> {
    fn intervals(&mut self, span: Span, is_rest: bool) -> Vec<impl Record> {
        let record = |live: &mut LiveViewer| ViewerInterval {
            viewer: unmapped(live.connection.remote_address()).to_string(),
            span,
            sent: live.sending.counts(),
            samples: live.recorder.take(span.origin),
            sender: live.packets.figures(&live.connection),
        };
        let mut live = lock(&self.live);
        let live = live.values_mut().filter(|_| !is_rest);
        live.map(record).collect::<Vec<_>>()
    }

    fn counts(&self, served: u64, failed: u64) -> impl Serialize {
        StoppedCounts {
            viewers: served,
            failed,
        }
    }

    fn connections(&self) -> Vec<Connection> {
        let live = lock(&self.live);
        live.values().map(|live| live.connection.clone()).collect()
    }
}
