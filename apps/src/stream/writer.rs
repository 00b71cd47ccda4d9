//! Hands one track's frames to a connection in the chosen way.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use futures_util::future::join_all;
use quinn::{Connection, Runtime, SendDatagramError, SendStream, VarInt};

use super::frame::{FRAGMENT_HEADER_LEN, HEADER_LEN};
use super::lateness::Delays;
use super::protocol::Delivery;
use super::queue::{Frame, Queues};
use super::track::Track;
use crate::error::AppError;
use crate::time::timeout;

/// The application error code of streams that are reset because their frames are too late.
const TOO_LATE: VarInt = VarInt::from_u32(1);

/// Bytes that quinn may buffer beyond one and a half congestion windows. Frames outside that buffer
/// can still be cancelled. Frames on streams of their own: 4 KiB, about three packets, so that a
/// window of one packet stays full; at 200 kb/s they are 0.16 s of frames.
const FRAMES_SLACK: u64 = 4 * 1024;

/// The same with one stream for a group, 16 KiB: until a lost packet was sent again, quinn keeps all
/// that follows it in the stream.
const GROUPS_SLACK: u64 = 16 * 1024;

/// The priorities of streams of one rank: frames of a track beyond have the same.
const PRIORITIES: i32 = 1 << 28;

/// The connection that the writers of all tracks share.
pub(super) struct Shared<'a> {
    pub(super) connection: &'a Connection,
    pub(super) queues: &'a Queues,
    /// How many bytes quinn may buffer at present.
    pub(super) send_window: AtomicU64,
}

/// Writes the frames of a track.
pub(super) struct Writer<'a> {
    shared: &'a Shared<'a>,
    track: Track,
    delivery: Delivery,
    /// The stream of the frame or group that is being written.
    current: Option<SendStream>,
    /// Completely written streams.
    unconfirmed: VecDeque<Unconfirmed>,
    /// The number of the group that is being written.
    group: u64,
}

/// A stream that the viewer may not have whole.
struct Unconfirmed {
    stream: SendStream,
    /// The capture time of its last frame.
    at: Instant,
    /// The group of its frames.
    group: u64,
    /// What had delayed that frame when it was written.
    delays: Delays,
}

impl<'a> Writer<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, track: Track, delivery: Delivery) -> Self {
        Self {
            shared,
            track,
            delivery,
            current: None,
            unconfirmed: VecDeque::new(),
            group: 0,
        }
    }

    pub(super) async fn write(&mut self, frame: &Frame) -> Result<(), AppError> {
        let begins = frame.captured.entry.is_some();
        match self.delivery {
            Delivery::Frames => {
                self.group += u64::from(begins);
                self.open(frame).await?;
                self.write_stream(frame).await?;
                self.close(frame.captured.at, frame.header.delays);
            }
            Delivery::Groups => {
                if begins || self.current.is_none() {
                    self.close(frame.captured.at, frame.header.delays);
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
        let stream = self.shared.connection.open_uni().await?;
        // A lower rank goes first, and of a track older frames, also when retransmitted. A stream
        // that is already closed needs no priority.
        let number = i32::try_from(frame.header.sequence).unwrap_or(i32::MAX);
        let rank = i32::from(self.track.rank()) * PRIORITIES;
        let _ = stream.set_priority(-rank - number.min(PRIORITIES - 1));
        self.current = Some(stream);
        Ok(())
    }

    /// Writes while no other track goes first.
    async fn write_stream(&mut self, frame: &Frame) -> Result<(), AppError> {
        let stream = self.current.as_mut().expect("a stream was opened");
        let mut head = BytesMut::with_capacity(HEADER_LEN);
        frame.header.encode(&mut head);
        let mut chunks = [head.freeze(), frame.captured.content.clone()];
        let mut rest = &mut chunks[..];
        let length = HEADER_LEN + frame.captured.content.len();
        while !rest.is_empty() {
            self.shared.queues.turn(self.track).await;
            self.shared.make_room(self.track, self.delivery, length);
            tokio::select! {
                biased;
                written = stream.write_chunks(rest) => rest = &mut rest[written?.chunks..],
                () = self.shared.queues.overtaken(self.track) => {}
            }
        }
        Ok(())
    }

    fn close(&mut self, at: Instant, delays: Delays) {
        if let Some(mut stream) = self.current.take() {
            // If the viewer has stopped it, there is nothing to do.
            let _ = stream.finish();
            let group = self.group;
            self.unconfirmed.push_back(Unconfirmed {
                stream,
                at,
                group,
                delays,
            });
        }
    }

    async fn write_datagrams(&mut self, frame: &Frame) -> Result<(), AppError> {
        let content = &frame.captured.content;
        let connection = self.shared.connection;
        let mut offset = 0;
        while offset < content.len() {
            self.shared.queues.turn(self.track).await;
            let most = connection
                .max_datagram_size()
                .ok_or_else(|| AppError::protocol("it takes no datagrams"))?;
            let room = most.saturating_sub(FRAGMENT_HEADER_LEN).max(1);
            let end = content.len().min(offset + room);
            let datagram = frame.header.fragment(offset as u32, &content[offset..end]);
            match connection.send_datagram_wait(datagram).await {
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
    pub(super) fn cancel(&mut self) -> u64 {
        self.current
            .take()
            .map_or(0, |mut stream| u64::from(stream.reset(TOO_LATE).is_ok()))
    }

    /// Resets streams of earlier groups that the viewer has not confirmed; returns how many, and how
    /// old the first frame of those is, with its delays when it was written.
    ///
    /// A stream whose last frame was captured longer than `after` ago goes, and with it the rest of
    /// its group, which needs it. A group of pictures whose newest frame is older than half of `after`
    /// goes whole: the viewer is far behind the present.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        after: Duration,
    ) -> (u64, Option<(Duration, Delays)>) {
        let (mut resets, mut incomplete, mut oldest) = (0, None, None);
        while let Some(first) = self.unconfirmed.front()
            && first.group < self.group
        {
            let group = first.group;
            let others = self.unconfirmed.iter();
            let newest = others.take_while(|other| other.group == group).last();
            let is_behind =
                self.track.has_groups() && newest.is_some_and(|newest| newest.at + after / 2 < now);
            if first.at + after >= now && incomplete != Some(group) && !is_behind {
                break;
            }
            let mut first = self.unconfirmed.pop_front().expect("it was just there");
            // A stream that the viewer has whole cannot be reset.
            if first.stream.reset(TOO_LATE).is_ok() {
                incomplete = Some(group);
                resets += 1;
                let age = now.saturating_duration_since(first.at);
                oldest.get_or_insert((age, first.delays));
            }
        }
        (resets, oldest)
    }

    /// After the last frame, waits until the viewer has everything, or until it is too late.
    pub(super) async fn conclude(&mut self, runtime: &dyn Runtime, cancel_after: Duration) {
        self.close(runtime.now(), Delays::default());
        let confirmed = self.unconfirmed.iter().map(|sent| sent.stream.stopped());
        timeout(runtime, cancel_after, join_all(confirmed)).await;
    }
}

impl Shared<'_> {
    /// Lets quinn buffer what belongs to the congestion window, and for a track with others behind it
    /// the next frame, of `length` bytes, beyond that: it need not wait for what these have buffered,
    /// which its priority overtakes.
    fn make_room(&self, track: Track, delivery: Delivery, length: usize) {
        let window = send_window(self.connection.stats().path.cwnd, delivery);
        let more = match self.queues.has_behind(track) {
            true => window.min(length as u64),
            false => 0,
        };
        // Setting it wakes the connection, so set it only when it changes.
        if self.send_window.swap(window + more, Ordering::Relaxed) != window + more {
            self.connection.set_send_window(window + more);
        }
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
