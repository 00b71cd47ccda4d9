//! The server: each connection is a viewer.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use data_encoding::HEXLOWER;
use evenkeel::{Context, SharedFactory};
use quinn::{Connection, Endpoint, RecvStream, Runtime, SendStream};
use tokio::sync::oneshot;
use tracing::debug;

use super::clock::Clock;
use super::media::Media;
use super::protocol::{Accepted, Answer, Notice, Request};
use super::send::{SendOptions, Sender, Sending};
use crate::accept::{Door, HANDSHAKE_TIMEOUT, Setup, accept};
use crate::error::{AppError, OWN_CONTROLLER, close, printable};
use crate::least::too_slow;
use crate::message;
use crate::time::timeout;

/// Settings of a server.
#[derive(Clone)]
pub struct ServeOptions {
    /// What the server streams.
    pub media: Media,
    /// How to send to each viewer.
    pub send: SendOptions,
    /// Viewers at the same time, half of them from one host; more are turned away.
    pub viewers: usize,
    /// How long a viewer may take to ask for the stream, and to close its connection at the end.
    pub patience: Duration,
    /// The clock for capture times.
    pub clock: Clock,
    /// Makes the owner's decisions, and informs the owner.
    pub host: Arc<dyn Host>,
}

/// Decides for the owner of a server, and informs the owner.
pub trait Host: Send + Sync {
    /// Returns the settings of the next connection, from this address, whose handshake may yet fail;
    /// `None` for those of the endpoint.
    fn configure(&self, _client: IpAddr) -> Option<Setup> {
        None
    }

    /// Returns the controller for which a viewer asks by name, to take the place of the connection's
    /// own; it begins as on a new path. The name comes from the viewer: it is hostile. The error goes
    /// to the viewer.
    /// By default none is allowed. Needs a connection that evenkeel has configured.
    fn controller(
        &self,
        _connection: &Connection,
        _asked_for: &str,
    ) -> Result<SharedFactory, String> {
        Err(OWN_CONTROLLER.into())
    }

    /// Called after a viewer's handshake; returns the counters of what it gets. [`Host::ended`]
    /// follows.
    fn accepted(&self, _connection: &Connection) -> Arc<Sending> {
        Arc::default()
    }

    /// Called when a viewer has gone or the media has ended. A viewer that closes its connection
    /// without complaint is no error.
    fn ended(&self, _connection: &Connection, _sending: &Sending, _result: &Result<(), AppError>) {}
}

/// A host that accepts any viewer and ignores all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyViewer;

impl Host for AnyViewer {}

/// Accepts viewers until the endpoint is closed, and serves each in its own task on `runtime`.
pub async fn serve(endpoint: Endpoint, runtime: Arc<dyn Runtime>, options: ServeOptions) {
    let host = options.host.clone();
    let door = Door {
        connections: options.viewers,
        patience: HANDSHAKE_TIMEOUT,
        guarded: true,
    };
    let (tasks, viewers) = (runtime.clone(), Arc::new(AtomicU64::new(0)));
    let serve = move |connection: Connection, slot| {
        let (runtime, options) = (runtime.clone(), options.clone());
        let viewer = viewers.fetch_add(1, Ordering::Relaxed);
        async move {
            let sending = options.host.accepted(&connection);
            let result = serve_viewer(&connection, runtime, &options, viewer, &sending).await;
            close(&connection, &result);
            debug!(peer = %connection.remote_address(), sent = ?sending.counts(), ?result, "viewer gone");
            drop(slot);
            options.host.ended(&connection, &sending, &result);
        }
    };
    accept(
        endpoint,
        tasks,
        door,
        |client| host.configure(client),
        serve,
    )
    .await;
}

async fn serve_viewer(
    connection: &Connection,
    runtime: Arc<dyn Runtime>,
    options: &ServeOptions,
    viewer: u64,
    sending: &Sending,
) -> Result<(), AppError> {
    let stalled = AppError::Stalled(options.patience);
    let ask = async {
        let (send, mut recv) = connection.accept_bi().await?;
        let request: Request = message::read(&mut recv).await?;
        Ok::<_, AppError>((send, recv, request))
    };
    let Some(asked) = timeout(&*runtime, options.patience, ask).await else {
        return Err(stalled);
    };
    let (mut control, asked, request) = asked?;
    debug!(peer = %connection.remote_address(), viewer, ?request, "stream asked for");
    let controller = match admit(connection, options, request.controller.as_deref()) {
        Ok(controller) => controller,
        Err(reason) => {
            let reason = printable(&reason);
            let refused = Answer::Refused {
                reason: reason.clone(),
            };
            message::write(&mut control, &refused).await?;
            let _ = control.finish();
            timeout(&*runtime, options.patience, connection.closed()).await;
            return Err(AppError::Job(reason));
        }
    };
    let tables = tokio::select! {
        biased;
        error = connection.closed() => return unless_done(connection, error.into()),
        tables = options.media.tables() => tables,
    };
    let accepted = Accepted {
        clock_us: options.clock.read(runtime.now()),
        frame_rate: options.media.frame_rate(),
        encoded: options.media.is_encoded(),
        tables: HEXLOWER.encode(&tables),
    };
    let begun = controller.map(|(context, controller)| context.restart_controller(controller));
    message::write(&mut control, &Answer::Accepted(accepted)).await?;
    if let Some(begun) = begun {
        // The viewer acknowledges the answer. Without one the connection ends, and all else fails.
        begun.await;
    }
    let sender = Sender {
        connection,
        runtime: runtime.clone(),
        options: options.send,
        clock: options.clock,
        sending,
        encodes: options.media.is_encoded(),
        latency: request
            .latency_ms
            .map(|ms| Duration::from_millis(ms.into())),
    };
    let feed = options.media.feed(viewer, runtime.now());
    let mut before = sending.counts();
    let slow = too_slow(&*runtime, options.patience, || {
        let before = std::mem::replace(&mut before, sending.counts());
        let waited = before.frames_cancelled < sending.counts().frames_cancelled;
        waited.then(|| sending.counts().bytes - before.bytes)
    });
    let (all_sent, end) = oneshot::channel();
    let send = async {
        let frames = sender.run(feed).await?;
        // The other task waits for it, or has failed.
        let _ = all_sent.send(frames);
        Ok(())
    };
    let clock = || options.clock.read(runtime.now());
    let sent = tokio::select! {
        biased;
        sent = async { tokio::try_join!(send, converse(control, asked, clock, end)) } => sent,
        error = slow => Err(error),
    };
    if let Err(error) = sent {
        return unless_done(connection, error);
    }
    let closed = timeout(&*runtime, options.patience, connection.closed()).await;
    unless_done(connection, closed.map_or(stalled, AppError::from))
}

/// Decides whether this server streams to a viewer, and returns the controller of its own that it asks
/// for.
fn admit(
    connection: &Connection,
    options: &ServeOptions,
    controller: Option<&str>,
) -> Result<Option<(Context, SharedFactory)>, String> {
    if options.media.has_ended() {
        return Err("the source has ended".into());
    }
    let Some(name) = controller else {
        return Ok(None);
    };
    let found = options.host.controller(connection, name)?;
    let context = Context::of(connection).ok_or("the server cannot change its controller")?;
    Ok(Some((context, found)))
}

/// Tells the viewer the time whenever it asks, and at last how many frames there were.
async fn converse(
    mut control: SendStream,
    asked: RecvStream,
    clock: impl Fn() -> u64,
    mut end: oneshot::Receiver<u32>,
) -> Result<(), AppError> {
    let next = |mut asked: RecvStream| async {
        let request = message::read_next::<Request>(&mut asked).await;
        (request, asked)
    };
    let mut asking = pin!(next(asked));
    let mut listens = true;
    let frames = loop {
        tokio::select! {
            biased;
            frames = &mut end => match frames {
                Ok(frames) => break frames,
                // It was not sent whole, for a reason that is told already.
                Err(_) => return Ok(()),
            },
            (request, asked) = &mut asking, if listens => match request? {
                Some(Request { clock_us: asked_us, .. }) => {
                    let clock_us = clock();
                    message::write(&mut control, &Notice::Clock { asked_us, clock_us }).await?;
                    asking.set(next(asked));
                }
                None => listens = false,
            },
        }
    };
    message::write(&mut control, &Notice::End { frames }).await?;
    let _ = control.finish();
    Ok(())
}

/// Returns success if the viewer closed with code 0: it has seen enough.
fn unless_done(connection: &Connection, error: AppError) -> Result<(), AppError> {
    match connection.close_reason() {
        Some(quinn::ConnectionError::ApplicationClosed(close))
            if close.error_code == 0_u32.into() =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}
