//! The receiver's side of a transfer.

use std::collections::BTreeSet;
use std::ops::Range;
use std::pin::pin;
use std::sync::Mutex;

use bytes::Bytes;
use futures_util::future::{Fuse, FutureExt, OptionFuture};
use futures_util::stream::{FuturesUnordered, StreamExt};
use quinn::{ReadError, ReadExactError, RecvStream};
use tokio::io::AsyncWriteExt;
use tracing::trace;

use super::checksum::{Checksum, Hasher};
use super::data::Sink;
use super::protocol::{Plan, Received, Sent};
use super::report::{Meter, Outcome, Report, Start};
use super::session::{Control, Session};
use crate::error::AppError;
use crate::lock::lock;

/// Chunks taken from quinn at once: one lock and one wake-up for about this many packets.
const CHUNKS: usize = 32;

/// Receives what `plan` says, checks it, and exchanges the reports.
pub(super) async fn receive(
    session: &Session<'_>,
    control: &mut Control,
    plan: &Plan<'_>,
    sink: &Sink,
) -> Result<Outcome, AppError> {
    let start = Start::new(session.connection, session.cpu);
    let meter = Meter::new(plan.job.omit);
    let receiver = Receiver {
        session,
        meter: &meter,
        plan,
        sink,
        claimed: Mutex::default(),
    };
    let checksums = session.moving(&meter, receiver.run()).await?;
    let checksum = Checksum::combined(&checksums);

    let sent: Sent = session.read(control).await?;
    let intact = sent.bytes == meter.bytes() && sent.checksums == checksums;
    let report = Report::new(session.connection, &start, &meter, checksum);
    let received = Received { intact, report };
    session.write(control, &received).await?;
    let sender: Report = session.read(control).await?;
    session.conclude(control).await;
    if !intact {
        return Err(AppError::Mismatch);
    }
    Ok(Outcome {
        verified: plan.job.verify.is_some(),
        controller: None,
        sender,
        receiver: received.report,
    })
}

/// Receives all data streams.
struct Receiver<'a> {
    session: &'a Session<'a>,
    meter: &'a Meter,
    plan: &'a Plan<'a>,
    sink: &'a Sink,
    /// Which streams of the plan have begun.
    claimed: Mutex<BTreeSet<u16>>,
}

impl Receiver<'_> {
    /// Receives every stream of the plan; returns their checksums in order, if asked for.
    async fn run(&self) -> Result<Vec<Checksum>, AppError> {
        // Most transfers have one stream, which costs less alone: the others are polled once more
        // each time that one of them has been polled.
        let mut first = pin!(Fuse::terminated());
        let mut others = FuturesUnordered::new();
        let mut done = Vec::new();
        let mut accepted = 0;
        while done.len() < usize::from(self.plan.job.streams) {
            tokio::select! {
                biased;
                stream = self.session.connection.accept_uni() => {
                    let stream = stream?;
                    if accepted == self.plan.job.streams {
                        return Err(AppError::protocol("more data streams than agreed"));
                    }
                    accepted += 1;
                    self.meter.start(self.session.now());
                    match accepted {
                        1 => first.set(self.stream(stream).fuse()),
                        _ => others.push(self.stream(stream)),
                    }
                }
                result = &mut first => done.push(result?),
                Some(result) = others.next() => done.push(result?),
            }
        }
        done.sort_unstable_by_key(|&(index, _)| index);
        Ok(done
            .into_iter()
            .filter_map(|(_, checksum)| checksum)
            .collect())
    }

    async fn stream(&self, mut stream: RecvStream) -> Result<(u16, Option<Checksum>), AppError> {
        let mut header = [0; 2];
        if let Err(error) = stream.read_exact(&mut header).await {
            return Err(self.cause(error).await);
        }
        let index = u16::from_be_bytes(header);
        if index >= self.plan.job.streams || !lock(&self.claimed).insert(index) {
            let how = format!("data stream {index} was not agreed, or came twice");
            return Err(AppError::Protocol(how));
        }
        let range = self.plan.range(index);
        let Range { start, end } = range.clone().unwrap_or(0..u64::MAX);
        let mut left = end - start;
        let stored = AppError::storage("writing the received data");
        let mut writer = self.sink.writer(start).await.map_err(&stored)?;
        let verify = self.plan.job.verify;
        let mut hasher = verify.map(|hashing| Hasher::spawn(hashing, self.session.runtime));

        let mut chunks = [const { Bytes::new() }; CHUNKS];
        loop {
            let count = match stream.read_chunks(&mut chunks).await {
                Ok(Some(count)) => count,
                Ok(None) => break,
                Err(error) => return Err(self.cause(error).await),
            };
            if let Some(hasher) = &mut hasher {
                hasher.room().await.add(chunks[..count].iter().cloned());
            }
            for chunk in &mut chunks[..count] {
                let chunk = std::mem::take(chunk);
                left = left
                    .checked_sub(chunk.len() as u64)
                    .ok_or_else(|| AppError::protocol("more data than agreed"))?;
                writer.write_all(&chunk).await.map_err(&stored)?;
                self.meter.add(self.session.now(), chunk.len() as u64);
                self.session.progress.add_received(chunk.len() as u64);
            }
        }
        if range.is_some() && left > 0 {
            return Err(AppError::protocol("less data than agreed"));
        }
        writer.shutdown().await.map_err(&stored)?;
        trace!(stream = index, "data stream received");
        Ok((index, OptionFuture::from(hasher.map(Hasher::finish)).await))
    }

    /// Why a data stream ended too early: a sender that gives up resets its streams, and says why when
    /// it closes the connection.
    async fn cause(&self, error: impl Into<ReadExactError>) -> AppError {
        match error.into() {
            ReadExactError::ReadError(ReadError::Reset(_)) => {
                self.session.connection.closed().await.into()
            }
            error => error.into(),
        }
    }
}
