//! The receiver's side of a transfer.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use quinn::RecvStream;
use tokio::io::AsyncWriteExt;
use tracing::trace;

use super::checksum::{Checksum, Hasher};
use super::data::Sink;
use super::protocol::{Plan, Received, Sent};
use super::report::{Meter, Outcome, Report, Start};
use super::session::{Control, Session};
use crate::error::AppError;

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
        claimed: (0..plan.job.streams)
            .map(|_| AtomicBool::new(false))
            .collect(),
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
        verified: plan.job.verify,
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
    claimed: Vec<AtomicBool>,
}

impl Receiver<'_> {
    /// Receives every stream of the plan; returns their checksums in order, if asked for.
    async fn run(&self) -> Result<Vec<Checksum>, AppError> {
        let mut running = FuturesUnordered::new();
        let mut done = Vec::new();
        let mut accepted = 0;
        while done.len() < usize::from(self.plan.job.streams) {
            tokio::select! {
                biased;
                stream = self.session.connection.accept_uni() => {
                    let stream = stream?;
                    if accepted == self.plan.job.streams {
                        return Err(AppError::Protocol("more data streams than agreed".into()));
                    }
                    accepted += 1;
                    self.meter.start(self.session.now());
                    running.push(self.stream(stream));
                }
                Some(result) = running.next() => done.push(result?),
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
        stream.read_exact(&mut header).await?;
        let index = u16::from_be_bytes(header);
        match self.claimed.get(usize::from(index)) {
            Some(claimed) if !claimed.swap(true, Ordering::Relaxed) => {}
            _ => {
                return Err(AppError::Protocol(format!(
                    "data stream {index} was not agreed, or came twice"
                )));
            }
        }
        let range = self.plan.range(index);
        let mut left = range
            .as_ref()
            .map_or(u64::MAX, |range| range.end - range.start);
        let offset = range.as_ref().map_or(0, |range| range.start);
        let stored = AppError::storage("writing the received data");
        let mut writer = self.sink.writer(offset).await.map_err(&stored)?;
        let verify = self.plan.job.verify;
        let hasher = verify.then(|| Hasher::spawn(self.session.runtime));

        let mut chunks = [const { Bytes::new() }; CHUNKS];
        while let Some(count) = stream.read_chunks(&mut chunks).await? {
            if let Some(hasher) = &hasher {
                hasher.room().await.send(chunks[..count].to_vec());
            }
            for chunk in &mut chunks[..count] {
                let chunk = std::mem::take(chunk);
                left = left
                    .checked_sub(chunk.len() as u64)
                    .ok_or_else(|| AppError::Protocol("more data than agreed".into()))?;
                writer.write_all(&chunk).await.map_err(&stored)?;
                self.meter.add(self.session.now(), chunk.len() as u64);
                self.session.progress.add_received(chunk.len() as u64);
            }
        }
        if range.is_some() && left > 0 {
            return Err(AppError::Protocol("less data than agreed".into()));
        }
        writer.shutdown().await.map_err(&stored)?;
        trace!(stream = index, "data stream received");
        let checksum = match hasher {
            Some(hasher) => Some(hasher.finish().await),
            None => None,
        };
        Ok((index, checksum))
    }
}
