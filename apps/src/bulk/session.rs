//! What both sides of a running transfer share.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quinn::{Connection, RecvStream, Runtime, SendStream};
use serde::{Serialize, de::DeserializeOwned};
use tracing::debug;

use super::job::Direction;
use super::report::{CpuClock, Meter, Outcome};
use crate::error::AppError;
use crate::least::too_slow;
use crate::message;
use crate::time::{sleep_until, timeout};

/// Live counters of application bytes, for code that shows progress or samples a series while a
/// transfer runs.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    received: AtomicU64,
}

/// One transfer's connection, clock, counters and patience.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    pub(super) runtime: &'a dyn Runtime,
    pub(super) progress: &'a Progress,
    pub(super) patience: Duration,
    /// The most that quinn may buffer for sending, in bytes.
    pub(super) send_window: u64,
    /// Reads the processor time of this process, if it is to be reported.
    pub(super) cpu: Option<CpuClock>,
    /// Whether to give up a peer that is too slow: servers do.
    pub(super) demanding: bool,
}

/// The control stream, both halves.
pub(super) struct Control {
    pub(super) send: SendStream,
    pub(super) recv: RecvStream,
}

impl Progress {
    /// Returns the application bytes that quinn has accepted for sending so far.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the application bytes delivered to the sink so far.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the application bytes on the client's side of a transfer in `direction` so far.
    pub fn of(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Up => self.sent(),
            Direction::Down => self.received(),
        }
    }

    pub(super) fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn add_received(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl From<(SendStream, RecvStream)> for Control {
    fn from((send, recv): (SendStream, RecvStream)) -> Self {
        Self { send, recv }
    }
}

impl Session<'_> {
    pub(super) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// Runs `future` for as long as `meter` counts bytes or stream data is being sent.
    ///
    /// # Errors
    /// [`AppError::Stalled`] after `patience` without either, noticed between one and two times
    /// that long after the last byte; [`AppError::TooSlow`] from a server whose client keeps it
    /// waiting.
    pub(super) async fn moving<T>(
        &self,
        meter: &Meter,
        future: impl Future<Output = Result<T, AppError>>,
    ) -> Result<T, AppError> {
        let moved = || {
            let frames = self.connection.stats().frame_tx.stream;
            (meter.bytes(), frames)
        };
        let stalled = async {
            let mut before = moved();
            loop {
                sleep_until(self.runtime, self.now() + self.patience).await;
                let after = moved();
                if before == after {
                    break;
                }
                before = after;
            }
        };
        let mut counted = meter.bytes();
        let slow = too_slow(self.runtime, self.patience, || {
            let before = std::mem::replace(&mut counted, meter.bytes());
            Some(counted - before)
        });
        tokio::select! {
            biased;
            result = future => result,
            () = stalled => Err(AppError::Stalled(self.patience)),
            error = slow, if self.demanding => Err(error),
        }
    }

    /// Runs `future` for at most `patience`.
    ///
    /// # Errors
    /// [`AppError::Stalled`] after that.
    pub(super) async fn soon<T>(
        &self,
        future: impl Future<Output = Result<T, AppError>>,
    ) -> Result<T, AppError> {
        let done = timeout(self.runtime, self.patience, future).await;
        done.unwrap_or(Err(AppError::Stalled(self.patience)))
    }

    /// Receives one message, which must come soon.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        control: &mut Control,
    ) -> Result<T, AppError> {
        self.soon(message::read(&mut control.recv)).await
    }

    pub(super) async fn write<T: Serialize>(
        &self,
        control: &mut Control,
        message: &T,
    ) -> Result<(), AppError> {
        self.soon(message::write(&mut control.send, message)).await
    }

    /// Ends our half of the control stream, and waits until the peer has all of it.
    pub(super) async fn conclude(&self, control: &mut Control) {
        // A finished or closed stream leaves nothing to wait for.
        if control.send.finish().is_ok() {
            let delivered = control.send.stopped();
            let _ = self.soon(async { Ok(delivered.await.is_ok()) }).await;
        }
    }
}

/// Logs the end of a transfer.
pub(super) fn log_end(connection: &Connection, result: &Result<Outcome, AppError>) {
    let peer = connection.remote_address();
    match result {
        Ok(Outcome {
            sender, receiver, ..
        }) => debug!(
            %peer,
            bytes = receiver.bytes,
            seconds = receiver.duration_s,
            goodput_bps = receiver.goodput_bps,
            packets_lost = sender.packets_lost,
            "transfer done"
        ),
        Err(error) => debug!(%peer, %error, "transfer failed"),
    }
}
