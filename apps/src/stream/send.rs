//! The server's side of a stream to one viewer.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use clap::Args;
use evenkeel::Context;
use futures_util::future::join_all;
use quinn::{Connection, Runtime, SendDatagramError, SendStream, VarInt};
use serde::{Deserialize, Serialize};
use tracing::{debug, trace};

use super::account::Account;
use super::adapt::{AdaptConfig, Adaptation, Path};
use super::clock::Clock;
use super::frame::{FRAGMENT_HEADER_LEN, HEADER_LEN, Header};
use super::lateness::Delays;
use super::media::Feed;
use super::protocol::Delivery;
use super::queue::{Frame, Queue};
use crate::error::AppError;
use crate::lock::lock;
use crate::time::{positive_seconds, sleep_until, timeout};

/// The application error code of streams that are reset because their frames are too late.
const TOO_LATE: VarInt = VarInt::from_u32(1);

/// Bytes that quinn may buffer beyond one and a half congestion windows. Frames outside that buffer
/// can still be cancelled. Frames on streams of their own: 4 KiB, about three packets, so that a
/// window of one packet stays full; at 200 kb/s they are 0.16 s of frames.
const FRAMES_SLACK: u64 = 4 * 1024;

/// The same with one stream for a group, 16 KiB: until a lost packet was sent again, quinn keeps all
/// that follows it in the stream.
const GROUPS_SLACK: u64 = 16 * 1024;

/// How a server sends to each viewer; also options of `evenkeel stream server`.
#[derive(Clone, Copy, Debug, PartialEq, Args)]
pub struct SendOptions {
    /// How the encoder follows the connection.
    #[command(flatten)]
    pub adapt: AdaptConfig,
    /// How to send frames
    #[arg(long, value_enum, default_value_t)]
    pub delivery: Delivery,
    /// Cancel a frame, and the rest of its group, if it is not sent this long after its capture
    ///
    /// Later frames refer even to a frame that comes too late to be shown in time, so choose a time
    /// longer than viewers' buffers. A viewer of live pictures begins with frames from before it
    /// came. As long as it catches up, frames may be late by as much as the least late so far, and
    /// this time.
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
    /// The encoder's present target, in bits per second; 0 of real media, which nobody encodes.
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
}

impl Sender<'_> {
    /// Sends all frames of `feed`; returns how many there were.
    pub(super) async fn run(&self, feed: Feed) -> Result<u32, AppError> {
        let (queue, account) = (Queue::default(), Account::new(self.runtime.now()));
        let (frames, written) = tokio::join!(
            self.capture(feed, &queue, &account),
            self.pump(&queue, &account)
        );
        written.and(frames)
    }

    /// Queues frames as they are captured, until the connection is lost.
    async fn capture(
        &self,
        mut feed: Feed,
        queue: &Queue,
        account: &Account,
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
        let mut sequence = 0_u32;
        let lost = loop {
            let decide = |now: Instant| {
                adaptation.decide(now, self.path(context.as_ref(), queue));
                (adaptation.target_bps, queue.wants_entry())
            };
            let captured = tokio::select! {
                biased;
                error = self.connection.closed() => break Err(error.into()),
                captured = feed.next(&*self.runtime, decide) => captured,
            };
            let Some(captured) = captured else {
                break Ok(sequence);
            };
            let header = Header {
                sequence,
                captured_us: self.clock.read(captured.at),
                bitrate_bps: u32::try_from(adaptation.target_bps).unwrap_or(u32::MAX),
                length: captured.content.len() as u32,
                entry: captured.entry,
                delays: Delays::default(),
            };
            sequence = sequence
                .checked_add(1)
                .ok_or_else(|| AppError::Job("the stream has more than 2^32 frames".into()))?;
            let path = context.as_ref().map(Context::state);
            let kept = queue.push(Frame {
                header,
                account: account.enter(self.runtime.now(), path.as_ref(), captured.content.len()),
                captured,
            });
            if !kept {
                account.give_up(self.runtime.now());
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
        queue.end();
        lost
    }

    /// Returns the present state of the connection.
    fn path(&self, context: Option<&Context>, queue: &Queue) -> Path {
        let waiting = queue.waiting();
        let (rate, rtt, is_limited) = match context.map(Context::state) {
            Some(state) => {
                let rtt = state.smoothed_rtt.unwrap_or_default();
                (state.rate_estimate(), rtt, !state.app_limited)
            }
            None => {
                let path = self.connection.stats().path;
                let rate = path.cwnd as f64 / path.rtt.as_secs_f64().max(1e-6);
                (Some(rate as u64), path.rtt, false)
            }
        };
        Path {
            estimate_bps: rate.map(|bytes| bytes.saturating_mul(8)),
            rtt,
            backlog: waiting > 0 || is_limited,
            waiting,
        }
    }

    /// Hands frames from the queue to the connection, in order.
    async fn pump(&self, queue: &Queue, account: &Account) -> Result<(), AppError> {
        let cancel_after = self.options.cancel_after;
        let context = Context::of(self.connection);
        let mut writer = Writer {
            connection: self.connection,
            delivery: self.options.delivery,
            current: None,
            unconfirmed: VecDeque::new(),
            group: 0,
            send_window: 0,
        };
        let mut least_age = Duration::MAX;
        while let Some(mut frame) = queue.next().await {
            let now = self.runtime.now();
            let rtt = self.connection.rtt();
            let resets = writer.expire(now, cancel_after + rtt);
            lock(&self.sending.0).streams_reset += resets;
            let age = now.saturating_duration_since(frame.captured.at);
            if age > cancel_after && queue.has_entry() {
                // The viewer still catches up, and sees the present sooner if it begins anew.
                let cancelled = 1 + queue.give_up_group();
                account.give_up(now);
                debug!(
                    sequence = frame.header.sequence,
                    cancelled, "frames skipped: a newer group"
                );
                lock(&self.sending.0).frames_cancelled += cancelled;
                continue;
            }
            least_age = least_age.min(age);
            let path = context.as_ref().map(Context::state);
            frame.header.delays =
                account.delays(now, path.as_ref(), &frame.account, &frame.captured);
            let too_late = frame.captured.at + least_age + cancel_after;
            tokio::select! {
                biased;
                written = writer.write(&frame) => {
                    written?;
                    let mut counts = lock(&self.sending.0);
                    counts.frames_sent += 1;
                    counts.bytes += u64::from(frame.header.length);
                }
                () = sleep_until(&*self.runtime, too_late) => {
                    let resets = writer.cancel();
                    let cancelled = 1 + queue.give_up_group();
                    account.give_up(self.runtime.now());
                    debug!(sequence = frame.header.sequence, cancelled, "frames cancelled: too late");
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

/// Writes frames in the chosen way.
struct Writer<'a> {
    connection: &'a Connection,
    delivery: Delivery,
    /// The stream of the frame or group that is being written.
    current: Option<SendStream>,
    /// Completely written streams.
    unconfirmed: VecDeque<Unconfirmed>,
    /// The number of the group that is being written.
    group: u64,
    send_window: u64,
}

/// A stream that the viewer may not have whole.
struct Unconfirmed {
    stream: SendStream,
    /// The capture time of its last frame.
    at: Instant,
    /// The group of its frames.
    group: u64,
}

impl Writer<'_> {
    async fn write(&mut self, frame: &Frame) -> Result<(), AppError> {
        let begins = frame.captured.entry.is_some();
        match self.delivery {
            Delivery::Frames => {
                self.group += u64::from(begins);
                self.open(frame).await?;
                self.write_stream(frame).await?;
                self.close(frame.captured.at);
            }
            Delivery::Groups => {
                if begins || self.current.is_none() {
                    self.close(frame.captured.at);
                    self.group += 1;
                    self.open(frame).await?;
                }
                self.write_stream(frame).await?;
            }
            Delivery::Datagrams => self.write_datagrams(frame).await?,
        }
        Ok(())
    }

    async fn open(&mut self, frame: &Frame) -> Result<(), AppError> {
        let stream = self.connection.open_uni().await?;
        // Older frames go first, also when retransmitted. A stream that is already closed needs no
        // priority.
        let priority = i32::try_from(frame.header.sequence).unwrap_or(i32::MAX);
        let _ = stream.set_priority(-priority);
        self.current = Some(stream);
        Ok(())
    }

    async fn write_stream(&mut self, frame: &Frame) -> Result<(), AppError> {
        let send_window = send_window(self.connection.stats().path.cwnd, self.delivery);
        // Setting it wakes the connection, so set it only when it changes.
        if std::mem::replace(&mut self.send_window, send_window) != send_window {
            self.connection.set_send_window(send_window);
        }
        let stream = self.current.as_mut().expect("a stream was opened");
        let mut head = BytesMut::with_capacity(HEADER_LEN);
        frame.header.encode(&mut head);
        let mut chunks = [head.freeze(), frame.captured.content.clone()];
        stream.write_all_chunks(&mut chunks).await?;
        Ok(())
    }

    fn close(&mut self, at: Instant) {
        if let Some(mut stream) = self.current.take() {
            // If the viewer has stopped it, there is nothing to do.
            let _ = stream.finish();
            let group = self.group;
            self.unconfirmed
                .push_back(Unconfirmed { stream, at, group });
        }
    }

    async fn write_datagrams(&mut self, frame: &Frame) -> Result<(), AppError> {
        let content = &frame.captured.content;
        let mut offset = 0;
        while offset < content.len() {
            let most = self
                .connection
                .max_datagram_size()
                .ok_or_else(|| AppError::protocol("it takes no datagrams"))?;
            let room = most.saturating_sub(FRAGMENT_HEADER_LEN).max(1);
            let end = content.len().min(offset + room);
            let datagram = frame.header.fragment(offset as u32, &content[offset..end]);
            match self.connection.send_datagram_wait(datagram).await {
                Ok(()) => offset = end,
                // The path's MTU has just become smaller.
                Err(SendDatagramError::TooLarge) if room > 1 => {}
                Err(SendDatagramError::ConnectionLost(error)) => return Err(error.into()),
                Err(error) => return Err(AppError::Protocol(error.to_string())),
            }
        }
        Ok(())
    }

    /// Gives up the stream that is being written; returns how many streams were reset.
    fn cancel(&mut self) -> u64 {
        self.current
            .take()
            .map_or(0, |mut stream| u64::from(stream.reset(TOO_LATE).is_ok()))
    }

    /// Resets streams of earlier groups that the viewer has not confirmed; returns how many.
    ///
    /// A stream whose last frame was captured longer than `after` ago goes, and with it the rest of
    /// its group, which needs it. A group whose newest frame is older than half of `after` goes
    /// whole: the viewer is far behind the present.
    fn expire(&mut self, now: Instant, after: Duration) -> u64 {
        let (mut resets, mut incomplete) = (0, None);
        while let Some(first) = self.unconfirmed.front()
            && first.group < self.group
        {
            let group = first.group;
            let others = self.unconfirmed.iter();
            let newest = others.take_while(|other| other.group == group).last();
            let is_behind = newest.is_some_and(|newest| newest.at + after / 2 < now);
            if first.at + after >= now && incomplete != Some(group) && !is_behind {
                break;
            }
            let mut first = self.unconfirmed.pop_front().expect("it was just there");
            // A stream that the viewer has whole cannot be reset.
            if first.stream.reset(TOO_LATE).is_ok() {
                incomplete = Some(group);
                resets += 1;
            }
        }
        resets
    }

    /// After the last frame, waits until the viewer has everything, or until it is too late.
    async fn conclude(&mut self, runtime: &dyn Runtime, cancel_after: Duration) {
        self.close(runtime.now());
        let confirmed = self.unconfirmed.iter().map(|sent| sent.stream.stopped());
        timeout(runtime, cancel_after, join_all(confirmed)).await;
    }
}

/// Returns how many bytes quinn may buffer for this congestion window, in bytes.
fn send_window(congestion_window: u64, delivery: Delivery) -> u64 {
    let slack = match delivery {
        Delivery::Groups => GROUPS_SLACK,
        Delivery::Frames | Delivery::Datagrams => FRAMES_SLACK,
    };
    congestion_window.saturating_mul(3) / 2 + slack
}
