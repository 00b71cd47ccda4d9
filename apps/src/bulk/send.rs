//! The sender's side of a transfer.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::{OptionFuture, try_join_all};
use quinn::{SendStream, VarInt};
use tracing::trace;

use super::checksum::{Checksum, Hasher};
use super::data::{Feed, LEAST_CHUNK, MOST_AT_ONCE, Source};
use super::job::Amount;
use super::protocol::{Plan, Received, Sent};
use super::report::{Meter, Outcome, Report, Start};
use super::session::{Control, Session};
use super::throttle::Throttle;
use crate::{error::AppError, message, time::sleep_until};

/// Bytes that quinn may buffer beyond two congestion windows, 32 KiB: more than the initial window
/// of RFC 9002, section 7.2, so that the first round trips find enough to send.
const SEND_SLACK: u64 = 32 * 1024;

/// Chunks of a full send window, where a path carries much: quinn looks for the next bytes to send
/// from chunk to chunk.
const CHUNKS_OF_A_WINDOW: u64 = 32;

/// Sends what `plan` says, and exchanges the reports.
pub(super) async fn send(
    session: &Session<'_>,
    control: &mut Control,
    plan: &Plan<'_>,
    source: &Source,
) -> Result<Outcome, AppError> {
    let start = Start::new(session.connection, session.cpu);
    let meter = Meter::new(plan.job.omit);
    let begun = session.now();
    meter.start(begun);
    let deadline = match plan.job.amount {
        Amount::Duration(duration) => Some(begun + duration),
        Amount::Bytes(_) | Amount::File(_) => None,
    };

    let streams = (0..plan.job.streams).map(|index| async move {
        let offset = plan.range(index).map_or(0, |range| range.start);
        let stream = session.connection.open_uni().await?;
        Ok::<_, AppError>((index, stream, source.feed(offset)))
    });
    let opened = session.moving(&meter, try_join_all(streams)).await?;

    let window_in_force = AtomicU64::new(0);
    let context = evenkeel::Context::of(session.connection);
    let remembered = context.and_then(|context| context.state().resumed_window);
    let least_send_window = remembered.unwrap_or(0).min(session.send_window);
    let throttle = Throttle::new(plan.job.rate_bps, plan.job.on_off, session.now());
    let streams = opened.into_iter().map(|(index, stream, feed)| {
        let length = plan.range(index).map(|range| range.end - range.start);
        let writer = StreamWriter {
            session,
            meter: &meter,
            stream: DataStream {
                stream,
                finished: false,
            },
            hasher: (plan.job.verify).map(|hashing| Hasher::spawn(hashing, session.runtime)),
            send_window: &window_in_force,
            least_send_window,
            throttle: &throttle,
        };
        writer.run(index, feed, length, deadline)
    });
    let checksums = session.moving(&meter, try_join_all(streams)).await?;
    // Both sides' checksums are of what was read, a mixture of old and new if the source changed.
    let unchanged = source.unchanged().await;
    unchanged.map_err(AppError::storage("reading the data to send"))?;
    let checksums: Vec<Checksum> = checksums.into_iter().flatten().collect();
    let checksum = Checksum::combined(&checksums);

    let sent = Sent {
        bytes: meter.bytes(),
        checksums,
    };
    session.write(control, &sent).await?;
    let confirmed = message::read(&mut control.recv);
    let received: Received = session.moving(&meter, confirmed).await?;
    meter.end(session.now());

    let report = Report::new(session.connection, &start, &meter, checksum);
    session.write(control, &report).await?;
    session.conclude(control).await;
    if !received.intact {
        return Err(AppError::Mismatch);
    }
    Ok(Outcome {
        verified: plan.job.verify.is_some(),
        controller: None,
        sender: report,
        receiver: received.report,
    })
}

/// A data stream that is reset unless it is finished: quinn finishes a stream that is dropped, and
/// what was written so far would pass for all of it.
struct DataStream {
    stream: SendStream,
    finished: bool,
}

/// Writes one data stream.
struct StreamWriter<'a> {
    session: &'a Session<'a>,
    meter: &'a Meter,
    stream: DataStream,
    hasher: Option<Hasher>,
    /// The connection's send window as last set, in bytes.
    send_window: &'a AtomicU64,
    /// What a remembered path carries, in bytes: it may have as much in flight at once.
    least_send_window: u64,
    throttle: &'a Throttle,
}

impl DataStream {
    /// A peer cannot stop the stream unnoticed: that ends in its own error message or in a mismatch.
    fn finish(&mut self) {
        self.finished = true;
        let _ = self.stream.finish();
    }
}

impl Drop for DataStream {
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.stream.reset(VarInt::from_u32(0));
        }
    }
}

impl StreamWriter<'_> {
    /// Writes the stream's number and then `length` bytes, or until `deadline`.
    async fn run(
        mut self,
        index: u16,
        mut feed: Feed,
        length: Option<u64>,
        deadline: Option<Instant>,
    ) -> Result<Option<Checksum>, AppError> {
        self.stream.stream.write_all(&index.to_be_bytes()).await?;
        let (runtime, begun) = (self.session.runtime, self.session.now());
        let mut time_up = pin!(async {
            match deadline {
                Some(deadline) => sleep_until(runtime, deadline).await,
                None => pending().await,
            }
        });
        let mut left = length.unwrap_or(u64::MAX);
        let mut chunks = Vec::new();
        let mut ended = !feed.is_piped();
        while left > 0 && deadline.is_none_or(|deadline| runtime.now() < deadline) {
            if chunks.is_empty() {
                tokio::select! {
                    biased;
                    () = self.throttle.wait(runtime) => {}
                    () = &mut time_up => break,
                }
                let chunk = chunk(self.send_window.load(Ordering::Relaxed));
                chunks = take(&mut feed, left.min(self.throttle.chunk()), chunk).await?;
                if chunks.is_empty() {
                    ended = true;
                    break;
                }
            }
            tokio::select! {
                biased;
                written = self.write_some(&mut chunks) => left -= written?,
                () = &mut time_up => break,
            }
        }
        if !ended {
            return Err(AppError::TooLong(self.session.now() - begun));
        }
        trace!(stream = index, "data stream written");
        self.stream.finish();
        Ok(OptionFuture::from(self.hasher.map(Hasher::finish)).await)
    }

    /// Writes as much of `chunks` as quinn accepts, and counts and hashes that. Leaves the rest;
    /// returns how many bytes were written.
    async fn write_some(&mut self, chunks: &mut Vec<Bytes>) -> Result<u64, AppError> {
        let connection = self.session.connection;
        let send_window = send_window(connection.stats().path.cwnd, self.session.send_window);
        let send_window = send_window.max(self.least_send_window);
        // Setting it wakes the connection, so set it only when it changes.
        if self.send_window.swap(send_window, Ordering::Relaxed) != send_window {
            connection.set_send_window(send_window);
        }

        let room = OptionFuture::from(self.hasher.as_mut().map(Hasher::room)).await;
        let offered = chunks.clone();
        let written = self.stream.stream.write_chunks(chunks).await?.bytes as u64;
        if let Some(room) = room {
            let accepted = offered.into_iter().zip(&*chunks);
            room.add(accepted.map(|(all, rest)| all.slice(..all.len() - rest.len())));
        }
        chunks.retain(|rest| !rest.is_empty());
        self.meter.add(self.session.now(), written);
        self.throttle.add(written);
        self.session.progress.add_sent(written);
        Ok(written)
    }
}

/// Takes up to [`MOST_AT_ONCE`] bytes from `feed`, for one lock and one wake-up, at most `most` (which
/// is not 0), in pieces of up to `chunk`; none at the end of a pipe. What has come from a pipe waits
/// for no more.
async fn take(feed: &mut Feed, most: u64, chunk: u64) -> Result<Vec<Bytes>, AppError> {
    let mut chunks = Vec::new();
    let mut room = most.min(MOST_AT_ONCE as u64);
    while room > 0 {
        let chunk = feed
            .next(room.min(chunk))
            .await
            .map_err(AppError::storage("reading the data to send"))?;
        if chunk.is_empty() {
            break;
        }
        room -= chunk.len() as u64;
        chunks.push(chunk);
        if feed.is_piped() && !feed.is_ready() {
            break;
        }
    }
    Ok(chunks)
}

/// Returns how many bytes one piece of data should have for this send window.
///
/// The window counts a piece until its last byte is acknowledged, so it must be well below what the
/// window has beyond the bytes in flight, its half: otherwise the path runs dry once for each.
fn chunk(send_window: u64) -> u64 {
    (send_window / CHUNKS_OF_A_WINDOW).clamp(LEAST_CHUNK as u64, MOST_AT_ONCE as u64)
}

/// Returns how many bytes quinn may buffer for this congestion window, in bytes.
///
/// By default quinn buffers megabytes, however slow the path: a transfer whose time is up would
/// then last until they drain. Two windows keep the path busy: one in flight, one to follow. `most`
/// bounds the memory, whatever the peer acknowledges.
fn send_window(congestion_window: u64, most: u64) -> u64 {
    congestion_window
        .saturating_mul(2)
        .saturating_add(SEND_SLACK)
        .min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_two_windows_and_some_within_bounds() {
        assert_eq!(send_window(0, 1 << 20), 32_768);
        assert_eq!(send_window(12_000, 1 << 20), 24_000 + 32_768);
        assert_eq!(send_window(u64::MAX, 1 << 20), 1 << 20);
    }

    #[test]
    fn pieces_are_a_small_part_of_what_the_buffer_holds_beyond_the_window() {
        for (window, bytes) in [
            (0, 16_384),
            (200_000, 16_384),
            (1 << 20, 66_560),
            (1 << 30, 131_072),
        ] {
            let buffer = send_window(window, u64::MAX);
            assert_eq!(chunk(buffer), bytes, "{window}");
            assert!(2 * chunk(buffer) <= buffer - window, "{window}");
        }
    }
}
