//! The server's side of a stream to one viewer.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel::Context;
use futures_util::{StreamExt, stream::FuturesUnordered};
use quinn::{Connection, Runtime};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tracing::{debug, trace};

use super::account::Account;
use super::adapt::{AdaptConfig, Adaptation, Path};
use super::clock::Clock;
use super::frame::Header;
use super::lateness::Delays;
use super::media::Feed;
use super::player::LATE_START;
use super::protocol::Delivery;
use super::queue::{Frame, Queue, Queues};
use super::track::Kind;
use super::writer::{Shared, Writer};
use crate::error::AppError;
use crate::lock::lock;
use crate::time::{positive_seconds, sleep_until};

/// A path without acknowledgements for this long is away: it says nothing about a bitrate.
const ALIVE: Duration = Duration::from_secs(1);

/// How a server sends to each viewer; also options of `evenkeel stream server`.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct SendOptions {
    /// How the encoder follows the connection.
    #[command(flatten)]
    pub adapt: AdaptConfig,
    /// How to send pictures
    #[arg(long, value_enum, default_value_t)]
    pub delivery: Delivery,
    /// How to send sound, data and tables
    #[arg(long, value_enum, default_value_t)]
    pub sound_delivery: Delivery,
    /// Cancel a frame, and the rest of its group, if it is not sent this long after its capture
    ///
    /// Later frames refer even to a frame that comes too late to be shown in time, so choose a time
    /// longer than viewers' buffers. A viewer of live pictures begins with frames from before it
    /// came. As long as it catches up, frames may be late by as much as the least late so far, and
    /// this time. A quarter of it holds for further tracks of pictures.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = positive_seconds)]
    pub cancel_after: Duration,
}

/// What one viewer was sent; counters since the stream began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentCounts {
    /// Frames that the encoder made.
    pub frames_captured: u64,
    /// Frames handed to the connection whole.
    pub frames_sent: u64,
    /// Frames given up because they or a frame of their group were too late.
    pub frames_cancelled: u64,
    /// Streams reset because the viewer did not get all of them in time.
    pub streams_reset: u64,
    /// Bytes of content handed to the connection.
    pub bytes: u64,
    /// The encoder's present target, in bits per second; 0 where no encoder follows the connection.
    pub bitrate_bps: u64,
    /// How often the target has changed.
    pub bitrate_switches: u64,
}

/// Live counters of one viewer.
#[derive(Debug, Default)]
pub struct Sending(Mutex<SentCounts>);

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            delivery: Delivery::Frames,
            sound_delivery: Delivery::Frames,
            adapt: AdaptConfig::default(),
            cancel_after: Duration::from_secs(1),
        }
    }
}

impl Sending {
    /// Returns what was sent so far.
    pub fn counts(&self) -> SentCounts {
        *lock(&self.0)
    }
}

/// Sends one viewer's stream.
pub(super) struct Sender<'a> {
    pub(super) connection: &'a Connection,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) options: SendOptions,
    pub(super) clock: Clock,
    pub(super) sending: &'a Sending,
    /// Whether an encoder follows the connection.
    pub(super) encodes: bool,
    /// How long after its capture the viewer shows a frame, if that is fixed.
    pub(super) latency: Option<Duration>,
}

impl Sender<'_> {
    /// Sends all frames of `feed`; returns how many there were.
    pub(super) async fn run(&self, feed: Feed) -> Result<u32, AppError> {
        let (queues, account) = (Queues::default(), Account::new(self.runtime.now()));
        let (new, tracks) = mpsc::unbounded_channel();
        let (frames, written) = tokio::join!(
            self.capture(feed, &queues, &account, new),
            self.pump_all(tracks, &queues, &account)
        );
        written.and(frames)
    }

    /// Queues frames as they are captured, until the connection is lost; tells of `new` tracks.
    async fn capture(
        &self,
        mut feed: Feed,
        queues: &Queues,
        account: &Account,
        new: mpsc::UnboundedSender<Arc<Queue>>,
    ) -> Result<u32, AppError> {
        let context = Context::of(self.connection);
        // What real media needs is not known before it comes.
        if let Some(context) = context.as_ref().filter(|_| self.encodes) {
            // Includes room for headers and retransmissions.
            let desired = self.options.adapt.ceiling_bps / 8 * 5 / 4;
            context.limit_requested_rate(Some(desired));
        }
        let now = self.runtime.now();
        let mut adaptation = Adaptation::new(self.options.adapt, now);
        let mut frames = 0_u32;
        let lost = loop {
            let decide = |now: Instant| {
                adaptation.decide(now, self.path(context.as_ref(), queues));
                (adaptation.target_bps, queues.wants_entry())
            };
            let captured = tokio::select! {
                biased;
                error = self.connection.closed() => break Err(error.into()),
                captured = feed.next(&*self.runtime, decide) => captured,
            };
            let Some(captured) = captured else {
                break Ok(frames);
            };
            let (queue, is_new) = queues.of(captured.track);
            if is_new {
                // The other task waits for it, or has failed.
                let _ = new.send(queue.clone());
            }
            let sequence = queue
                .number()
                .ok_or_else(|| AppError::Job("a track has more than 2^32 frames".into()))?;
            frames = frames.saturating_add(1);
            let header = Header {
                track: captured.track,
                sequence,
                captured_us: self.clock.read(captured.at),
                bitrate_bps: u32::try_from(adaptation.target_bps).unwrap_or(u32::MAX),
                length: captured.content.len() as u32,
                entry: captured.entry,
                delays: Delays::default(),
                given_up: None,
            };
            let path = context.as_ref().map(Context::state);
            let now = self.runtime.now();
            let kept = queue.push(Frame {
                header,
                account: account.enter(now, path.as_ref(), &captured),
                captured,
            });
            if !kept {
                account.give_up(now, header.track);
            }
            trace!(?header, kept, "frame captured");
            let mut counts = lock(&self.sending.0);
            counts.frames_captured += 1;
            counts.frames_cancelled += u64::from(!kept);
            if self.encodes {
                counts.bitrate_bps = adaptation.target_bps;
                counts.bitrate_switches = adaptation.switches;
            }
        };
        queues.end();
        lost
    }

    /// Returns the present state of the connection.
    fn path(&self, context: Option<&Context>, queues: &Queues) -> Path {
        let waiting = queues.waiting();
        let (rate, rtt, is_limited, is_alive) = match context.map(Context::state) {
            Some(state) => {
                let rtt = state.smoothed_rtt.unwrap_or_default();
                let alive = state
                    .updated
                    .is_some_and(|at| self.runtime.now() < at + ALIVE);
                (state.rate_estimate(), rtt, !state.app_limited, alive)
            }
            None => {
                let path = self.connection.stats().path;
                let rate = path.cwnd as f64 / path.rtt.as_secs_f64().max(1e-6);
                (Some(rate as u64), path.rtt, false, true)
            }
        };
        Path {
            estimate_bps: rate.map(|bytes| bytes.saturating_mul(8)),
            rtt,
            backlog: waiting > 0 || is_limited,
            waiting,
            given_up: queues.given_up(),
            is_alive,
        }
    }

    /// Hands the frames of all `tracks` to the connection.
    async fn pump_all(
        &self,
        mut tracks: mpsc::UnboundedReceiver<Arc<Queue>>,
        queues: &Queues,
        account: &Account,
    ) -> Result<(), AppError> {
        let shared = Shared {
            connection: self.connection,
            queues,
            send_window: AtomicU64::new(0),
        };
        let mut pumps = FuturesUnordered::new();
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                track = tracks.recv(), if is_open => match track {
                    Some(track) => pumps.push(self.pump(track, &shared, account)),
                    None => is_open = false,
                },
                Some(pumped) = pumps.next() => pumped?,
                else => return Ok(()),
            }
        }
    }

    /// Hands frames of a track from its queue to the connection, in order.
    async fn pump(
        &self,
        queue: Arc<Queue>,
        shared: &Shared<'_>,
        account: &Account,
    ) -> Result<(), AppError> {
        let track = queue.track;
        let cancel_after = match (track.kind, track.index) {
            (Kind::Video, 1..) => self.options.cancel_after / 4,
            _ => self.options.cancel_after,
        };
        let delivery = match track.has_groups() {
            true => self.options.delivery,
            false => self.options.sound_delivery,
        };
        let context = Context::of(self.connection);
        let mut writer = Writer::new(shared, track, delivery);
        let mut least_age = Duration::MAX;
        let began = self.runtime.now();
        // Why frames were given up since the last one that was written.
        let mut given_up = None;
        while let Some(mut frame) = queue.next().await {
            let now = self.runtime.now();
            let rtt = self.connection.rtt();
            let delays = |now: Instant, frame: &Frame| {
                let path = context.as_ref().map(Context::state);
                account.delays(now, path.as_ref(), &frame.account, &frame.captured)
            };
            frame.header.delays = delays(now, &frame);
            let present = frame.header.delays;
            let (resets, reset) = writer.expire(now, cancel_after + rtt);
            given_up = given_up.or(reset.map(|(age, then)| account.cause(now, age, then, present)));
            lock(&self.sending.0).streams_reset += resets;
            let age = now.saturating_duration_since(frame.captured.at);
            // What comes later than a fixed delay is dropped, but for the beginning.
            let in_time = self
                .latency
                .filter(|_| track.has_groups() && now > began + LATE_START);
            let in_time = in_time.map(|latency| latency.saturating_sub(rtt).max(latency / 4));
            let patience = in_time.map_or(cancel_after, |in_time| in_time.min(cancel_after));
            if age > patience && queue.has_entry() {
                // The viewer still catches up, and sees the present sooner if it begins anew.
                given_up = given_up.or(Some(account.cause(now, age, present, present)));
                let cancelled = 1 + queue.give_up_group();
                account.give_up(now, track);
                let sequence = frame.header.sequence;
                debug!(%track, sequence, cancelled, "frames skipped: a newer group");
                lock(&self.sending.0).frames_cancelled += cancelled;
                continue;
            }
            least_age = least_age.min(age);
            frame.header.given_up = given_up;
            let too_late = frame.captured.at + least_age + patience;
            tokio::select! {
                biased;
                written = writer.write(&frame) => {
                    written?;
                    given_up = None;
                    let mut counts = lock(&self.sending.0);
                    counts.frames_sent += 1;
                    counts.bytes += u64::from(frame.header.length);
                }
                () = sleep_until(&*self.runtime, too_late) => {
                    let now = self.runtime.now();
                    let age = now.saturating_duration_since(frame.captured.at);
                    let present = delays(now, &frame);
                    given_up = Some(account.cause(now, age, present, present));
                    let resets = writer.cancel();
                    let cancelled = 1 + queue.give_up_group();
                    account.give_up(now, track);
                    let sequence = frame.header.sequence;
                    debug!(%track, sequence, cancelled, "frames cancelled: too late");
                    let mut counts = lock(&self.sending.0);
                    counts.streams_reset += resets;
                    counts.frames_cancelled += cancelled;
                }
            }
        }
        writer.conclude(&*self.runtime, cancel_after).await;
        Ok(())
    }
}
