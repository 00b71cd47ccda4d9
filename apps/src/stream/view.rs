//! The viewer's side of a stream.

use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use data_encoding::HEXLOWER;
use futures_util::{StreamExt, stream::FuturesUnordered};
use quinn::{Connection, ReadError, ReadExactError, RecvStream, Runtime, SendStream};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tracing::debug;

use super::clock::{Clock, Comparison};
use super::frame::{Assembly, FRAGMENT_HEADER_LEN, HEADER_LEN, Header};
use super::protocol::{Accepted, Answer, Notice, Request};
use super::viewing::{Beginning, Viewing};
use crate::error::{AppError, close, printable};
use crate::lock::lock;
use crate::message;
use crate::time::{sleep_until, timeout};

mod again;

/// How long frames may still arrive after the last message: four round trips of a satellite link.
const GRACE: Duration = Duration::from_secs(2);

/// The most bytes of kept frames that are incomplete or wait to be shown, 256 MiB: a minute of
/// buffer at 30 Mb/s.
const MAX_HELD: usize = 256 << 20;

/// How long after an answer the viewer asks for the server's clock again: at first, and at most.
const CLOCK_PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];

/// A machine that wakes a program later than this after the time that it asked for stood still.
const STOOD: Duration = Duration::from_millis(10);

/// What fails if the output takes no frames.
const WRITING: &str = "writing the received frames";

/// How to watch a stream.
pub struct ViewOptions<'a> {
    /// When the viewer began to wait: startup is measured from here.
    pub began: Instant,
    /// The clock for arrival times; its instant is not after `began`.
    pub clock: Clock,
    /// The controller with which the server is to send, as in `vegas:alpha=2`; `None` leaves it to
    /// the server. At most 300 bytes.
    pub controller: Option<String>,
    /// Playout buffer: how much longer than the first frame others may take. It has no effect with
    /// [`Viewing::with_latency`].
    pub buffer: Duration,
    /// Leave out frames that refer to a missing one, until decoding can begin anew.
    pub skip_damaged: bool,
    /// Warm-up left out of the figures, counted from `began`.
    pub omit: Duration,
    /// How long to watch, counted from the first frame's arrival; `None` watches to the end.
    pub time: Option<Duration>,
    /// The stream fails after this long without anything from the server.
    pub patience: Duration,
    /// Opens what receives the frames in display order, once the server has accepted the viewer;
    /// `None` discards them.
    pub output: Option<Opening>,
    /// Connects anew when nothing has come from the server for a second, and again if that fails by
    /// [`AppError::Connection`] or takes more than a second; `None` leaves it at one connection. The
    /// connection must ask its peer for a sign of life more than once a second, as
    /// [`viewer_transport_config`](super::viewer_transport_config) does.
    pub reconnect: Option<Reconnect<'a>>,
}

/// Makes another connection to the same server.
pub type Reconnect<'a> = Box<dyn Fn() -> Connecting<'a> + Send + Sync + 'a>;

/// A connection that is being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Connection, AppError>> + Send + 'a>>;

/// Receives frames.
pub type Output = Box<dyn AsyncWrite + Send + Sync + Unpin>;

/// Opens an output when it is awaited.
pub type Opening = Pin<Box<dyn Future<Output = std::io::Result<Output>> + Send + Sync>>;

/// Watches a stream over `connection` to its end, for `options.time`, or until nobody reads what is
/// put out (a broken pipe), and closes the connection. `viewing` has the figures, even if this fails
/// or is cancelled.
///
/// `connection` should come from an endpoint whose TLS offers [`ALPN`](super::ALPN), with the
/// settings of [`transport_config`](super::transport_config), and live on `runtime`.
///
/// # Errors
/// See [`AppError`]; the server learns why.
pub async fn view(
    connection: Connection,
    runtime: Arc<dyn Runtime>,
    options: ViewOptions<'_>,
    viewing: Arc<Viewing>,
) -> Result<(), AppError> {
    let viewer = Viewer {
        connection: Mutex::new(connection),
        runtime: &*runtime,
        viewing: &viewing,
        keeps: options.output.is_some(),
        held: AtomicUsize::new(0),
    };
    let result = match viewer.watch(options).await {
        // A user who closes the player has seen enough.
        Err(AppError::Storage { error, .. }) if error.kind() == ErrorKind::BrokenPipe => {
            viewing.cut(runtime.now());
            Ok(())
        }
        result => result,
    };
    let connection = viewer.connection();
    debug!(peer = %connection.remote_address(), ?result, "stream over");
    close(&connection, &result);
    result
}

struct Viewer<'a> {
    /// The present connection.
    connection: Mutex<Connection>,
    runtime: &'a dyn Runtime,
    viewing: &'a Viewing,
    /// Whether to keep frames' content.
    keeps: bool,
    /// Bytes of kept content.
    held: AtomicUsize,
}

/// Why a viewer stops receiving from a connection.
enum Received {
    /// The stream ended, or the time to watch did; `true` if the stream ended.
    End(bool),
    /// Another connection has taken over.
    Replaced(Box<Session>),
}

/// A connection over which a server has accepted the viewer.
struct Session {
    connection: Connection,
    control: Control,
    accepted: Accepted,
    /// What is put out before all frames.
    tables: Bytes,
    /// Our clock's readings around the server's.
    readings: (u64, u64),
}

/// The control stream; its first half asks for the server's clock, unless that is shared.
type Control = (Option<SendStream>, RecvStream);

impl Viewer<'_> {
    async fn watch(&self, mut options: ViewOptions<'_>) -> Result<(), AppError> {
        let patience = options.patience;
        let asked = timeout(
            self.runtime,
            patience,
            self.ask(self.connection(), &options),
        )
        .await;
        let session = asked.unwrap_or(Err(AppError::Stalled(patience)))?;
        let accepted = session.accepted.clone();
        let mut clock = Comparison::default();
        if !options.clock.shared {
            let (asked_us, answered_us) = session.readings;
            clock.exchange(asked_us, accepted.clock_us, answered_us);
        }
        let began_us = i64::try_from(options.clock.read(options.began)).unwrap_or(i64::MAX);
        let frame = Duration::from_secs_f64(1.0 / accepted.frame_rate);
        let mut player = self.viewing.player(options.buffer, frame);
        player.skips_damaged = options.skip_damaged;
        let beginning = Beginning {
            began: options.began,
            began_us,
            accepted_us: accepted.clock_us,
            omit_until: options.began + options.omit,
            is_encoded: accepted.encoded,
        };
        self.viewing.begin(beginning, clock, player);
        if self.keeps {
            self.hold(session.tables.len())?;
            self.viewing.put_first(session.tables.clone());
        }
        let mut output = match options.output.take() {
            Some(output) => Some(output.await.map_err(AppError::storage(WRITING))?),
            None => None,
        };
        let changed = Notify::new();
        let ended = {
            let mut receiving = pin!(self.sessions(session, &options, &changed));
            loop {
                tokio::select! {
                    biased;
                    () = self.due(&changed), if self.keeps => {
                        self.write(&mut output, self.viewing.shown(self.now())).await?;
                    }
                    ended = &mut receiving => break ended,
                }
            }
        };
        if let Ok(true) = ended
            && self.keeps
        {
            // The server has nothing more to do for the pictures that are not yet due.
            close(&self.connection(), &ended);
            // A server may claim any capture time.
            let last = self.now() + self.viewing.buffer(options.buffer) + options.patience;
            while let Some(due) = self.viewing.next_due().filter(|due| *due < last) {
                sleep_until(self.runtime, due).await;
                self.write(&mut output, self.viewing.shown(self.now()))
                    .await?;
            }
        }
        let rest = match ended {
            Ok(true) => self.viewing.finish(),
            _ => self.viewing.cut(self.now()),
        };
        self.write(&mut output, rest).await?;
        if let Some(output) = &mut output {
            output.flush().await.map_err(AppError::storage(WRITING))?;
        }
        match ended {
            Ok(true) if self.viewing.received() == 0 => Err(AppError::Nothing),
            ended => ended.map(|_| ()),
        }
    }

    /// Waits until a picture is due, while frames change which is the next.
    async fn due(&self, changed: &Notify) {
        loop {
            let changed = changed.notified();
            match self.viewing.next_due() {
                Some(due) => tokio::select! {
                    biased;
                    () = self.sleep_until(due) => return,
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// Sleeps until a time to come, and notes if the machine wakes it late.
    async fn sleep_until(&self, due: Instant) {
        let is_to_come = due > self.now();
        sleep_until(self.runtime, due).await;
        if is_to_come {
            self.stood_since(due);
        }
    }

    /// Notes that this program has done nothing else since then.
    fn stood_since(&self, since: Instant) {
        let now = self.now();
        if now > since + STOOD {
            self.viewing.stood(since, now);
        }
    }

    fn connection(&self) -> Connection {
        lock(&self.connection).clone()
    }

    /// Asks for the stream over a connection.
    async fn ask(
        &self,
        connection: Connection,
        options: &ViewOptions<'_>,
    ) -> Result<Session, AppError> {
        let (mut send, mut recv) = connection.open_bi().await?;
        let asked_us = options.clock.read(self.now());
        let request = Request {
            clock_us: asked_us,
            controller: options.controller.clone(),
            latency_ms: self.viewing.latency_ms(),
        };
        message::write(&mut send, &request).await?;
        let shared = options.clock.shared;
        if shared {
            let _ = send.finish();
        }
        let accepted = match message::read(&mut recv).await? {
            Answer::Accepted(accepted) => accepted,
            Answer::Refused { reason } => return Err(AppError::Refused(printable(&reason))),
        };
        if !(accepted.frame_rate >= 1.0 && accepted.frame_rate <= 240.0) {
            return Err(AppError::protocol(
                "its frame rate is not between 1 and 240",
            ));
        }
        let tables = HEXLOWER.decode(accepted.tables.as_bytes());
        let tables = tables.map_err(|_| AppError::protocol("its tables are no digits"))?;
        debug!(peer = %connection.remote_address(), ?accepted, "stream begins");
        Ok(Session {
            connection,
            control: ((!shared).then_some(send), recv),
            accepted,
            tables: tables.into(),
            readings: (asked_us, options.clock.read(self.now())),
        })
    }

    /// Receives frames over the present connection.
    async fn receive(
        &self,
        (mut ask, answers): Control,
        options: &ViewOptions<'_>,
        changed: &Notify,
        until: &mut Option<Instant>,
    ) -> Result<Received, AppError> {
        let connection = self.connection();
        let mut replacement = pin!(self.replacement(options));
        let mut streams = FuturesUnordered::new();
        let mut assembly = Assembly::default();
        let next = |mut answers: RecvStream| async {
            let notice = message::read::<Notice>(&mut answers).await;
            (notice, answers)
        };
        let mut notices = pin!(next(answers));
        // What the viewer's clock showed when it asked, until an answer comes.
        let mut asked: Option<u64> = None;
        let [mut pause, longest] = CLOCK_PAUSES;
        // At once: the server may have waited long for its stream before it accepted the viewer.
        let mut rest = pin!(sleep_until(self.runtime, self.now()));
        let mut ended = false;
        let mut before = self.viewing.received();
        let mut quiet = pin!(sleep_until(self.runtime, self.now() + options.patience));
        loop {
            if until.is_none() && self.viewing.received() > 0 {
                *until = options.time.map(|time| self.now() + time);
            }
            // A day stands for no limit.
            let stop = until.unwrap_or_else(|| self.now() + Duration::from_secs(86_400));
            tokio::select! {
                biased;
                () = sleep_until(self.runtime, stop), if until.is_some() => {
                    return Ok(Received::End(ended));
                }
                next = &mut replacement, if !ended => {
                    return Ok(Received::Replaced(Box::new(next?)));
                }
                Some(result) = streams.next(), if !streams.is_empty() => result?,
                stream = connection.accept_uni() => {
                    streams.push(self.stream(stream?, changed));
                }
                datagram = connection.read_datagram() => {
                    self.datagram(datagram?, &mut assembly, changed)?;
                }
                (notice, answers) = &mut notices, if !ended => match notice? {
                    Notice::End { .. } => {
                        ended = true;
                        let grace = self.now() + GRACE.min(4 * connection.rtt());
                        *until = Some(until.map_or(grace, |until| until.min(grace)));
                    }
                    Notice::Clock { asked_us, clock_us } => {
                        if asked.take() != Some(asked_us) {
                            return Err(AppError::protocol("it tells the time unasked"));
                        }
                        let answered_us = options.clock.read(self.now());
                        self.viewing.exchange(asked_us, clock_us, answered_us);
                        rest.set(sleep_until(self.runtime, self.now() + pause));
                        pause = longest.min(2 * pause);
                        notices.set(next(answers));
                    }
                },
                () = &mut rest, if ask.is_some() && asked.is_none() && !ended => {
                    let clock_us = options.clock.read(self.now());
                    if let Some(ask) = &mut ask {
                        let request = Request {
                            clock_us,
                            controller: None,
                            latency_ms: None,
                        };
                        message::write(ask, &request).await?;
                        asked = Some(clock_us);
                    }
                }
                () = &mut quiet => {
                    let now = self.viewing.received();
                    if now == before {
                        return Err(AppError::Stalled(options.patience));
                    }
                    before = now;
                    quiet.set(sleep_until(self.runtime, self.now() + options.patience));
                }
            }
        }
    }

    /// Receives the frames of one stream; a reset stream is no error.
    async fn stream(&self, mut stream: RecvStream, changed: &Notify) -> Result<(), AppError> {
        loop {
            let mut head = [0; HEADER_LEN];
            match stream.read_exact(&mut head).await {
                Ok(()) => {}
                Err(
                    ReadExactError::FinishedEarly(0)
                    | ReadExactError::ReadError(ReadError::Reset(_)),
                ) => {
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
            let header = Header::decode(&head)?;
            let mut left = header.length as usize;
            let mut content = BytesMut::new();
            while left > 0 {
                match stream.read_chunk(left, true).await {
                    Ok(Some(chunk)) => {
                        left -= chunk.bytes.len();
                        self.viewing.bytes(self.now(), chunk.bytes.len());
                        if self.keeps {
                            self.hold(chunk.bytes.len())?;
                            content.extend_from_slice(&chunk.bytes);
                        }
                    }
                    Ok(None) => return Err(AppError::protocol("a frame ended too early")),
                    Err(ReadError::Reset(_)) => {
                        self.held.fetch_sub(content.len(), Ordering::Relaxed);
                        return Ok(());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            self.frame(&header, content.freeze(), changed)?;
        }
    }

    fn datagram(
        &self,
        datagram: Bytes,
        assembly: &mut Assembly,
        changed: &Notify,
    ) -> Result<(), AppError> {
        let content = datagram.len().saturating_sub(FRAGMENT_HEADER_LEN);
        let whole = assembly.add(datagram)?;
        self.viewing.bytes(self.now(), content);
        let Some((header, content)) = whole else {
            return Ok(());
        };
        if !self.keeps {
            return self.frame(&header, Bytes::new(), changed);
        }
        self.hold(content.len())?;
        self.frame(&header, content, changed)
    }

    /// Passes on a complete frame.
    fn frame(&self, header: &Header, content: Bytes, changed: &Notify) -> Result<(), AppError> {
        if self.viewing.is_full() {
            return Err(AppError::protocol("it sends frames without end"));
        }
        self.viewing.frame(self.now(), header, content);
        let dropped = self.viewing.dropped();
        self.held.fetch_sub(dropped, Ordering::Relaxed);
        changed.notify_one();
        Ok(())
    }

    /// Counts content that is kept, and limits it.
    fn hold(&self, bytes: usize) -> Result<(), AppError> {
        if self.held.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_HELD {
            return Err(AppError::protocol(
                "frames that cannot be shown yet take too much memory",
            ));
        }
        Ok(())
    }

    async fn write(&self, output: &mut Option<Output>, frames: Vec<Bytes>) -> Result<(), AppError> {
        if let Some(output) = output {
            let began = self.now();
            for frame in frames {
                output
                    .write_all(&frame)
                    .await
                    .map_err(AppError::storage(WRITING))?;
                self.held.fetch_sub(frame.len(), Ordering::Relaxed);
            }
            // It takes nothing that comes meanwhile.
            self.stood_since(began);
        }
        Ok(())
    }

    fn now(&self) -> Instant {
        self.runtime.now()
    }
}
