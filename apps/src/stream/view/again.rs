//! Outlasts a server that falls silent, or is stopped and comes back.

use std::time::Duration;

use bytes::Bytes;
use quinn::{ConnectionError, VarInt};
use tokio::sync::Notify;
use tracing::debug;

use super::{Received, Reconnect, Session, ViewOptions, Viewer};
use crate::error::AppError;
use crate::lock::lock;
use crate::time::{sleep_until, timeout};

/// How often to look whether anything came from the server, and how often in a row nothing may have
/// before the viewer connects anew: a second of silence.
const SILENCE: (Duration, u32) = (Duration::from_millis(250), 4);

/// How long a handshake and the question for the stream may take each, over a short path: an attempt
/// that begins later may find the server sooner, and does before the first packet would be sent again
/// after 1 s (RFC 9002, section 6.2.2).
const ATTEMPT: Duration = Duration::from_millis(750);

impl Viewer<'_> {
    /// Receives frames over one connection after the other; returns whether the stream ended before
    /// the time to watch.
    pub(super) async fn sessions(
        &self,
        mut session: Session,
        options: &ViewOptions<'_>,
        changed: &Notify,
    ) -> Result<bool, AppError> {
        let mut until = None;
        loop {
            let received = self.receive(session.control, options, changed, &mut until);
            let received = match received.await {
                Err(stopped) if options.reconnect.is_some() && self.has_stopped() => {
                    let last = self.now() + options.patience;
                    let last = until.map_or(last, |until| until.min(last));
                    let patience = last.saturating_duration_since(self.now());
                    match timeout(self.runtime, patience, self.restart(options)).await {
                        Some(session) => Received::Replaced(Box::new(session?)),
                        None if until == Some(last) => Received::End(false),
                        None => return Err(stopped),
                    }
                }
                received => received?,
            };
            match received {
                Received::End(ended) => return Ok(ended),
                Received::Replaced(next) => session = *next,
            }
            let next = session.connection.clone();
            let before = std::mem::replace(&mut *lock(&self.connection), next);
            evenkeel::close(&before, 0_u32.into(), b"another connection");
            let readings = (!options.clock.shared).then_some(session.readings);
            let tables = match self.keeps {
                true => std::mem::take(&mut session.tables),
                false => Bytes::new(),
            };
            self.hold(tables.len())?;
            (self.viewing).rejoin(session.accepted.clock_us, readings, tables);
            changed.notify_one();
        }
    }

    /// Waits until the server is silent and another connection finds it, while it stays silent.
    pub(super) async fn replacement(&self, options: &ViewOptions<'_>) -> Result<Session, AppError> {
        let Some(reconnect) = &options.reconnect else {
            return std::future::pending().await;
        };
        let connection = self.connection();
        // Frames of the server itself. Datagrams would count as well what a server that came back says
        // about packets that it does not know.
        let received = || {
            let frames = connection.stats().frame_rx;
            frames.acks + frames.ping + frames.stream + frames.datagram
        };
        loop {
            let before = received();
            let mut silent = 0;
            while silent < SILENCE.1 && received() == before {
                self.sleep_until(self.now() + SILENCE.0).await;
                silent += 1;
            }
            if received() != before {
                continue;
            }
            match self.attempt(reconnect, options).await? {
                // What was only an outage is over.
                Some(session) if received() != before => {
                    evenkeel::close(&session.connection, 0_u32.into(), b"not needed");
                }
                Some(session) => return Ok(session),
                None => {}
            }
        }
    }

    /// Returns whether the server was stopped, which may be for a restart, before the stream ended.
    fn has_stopped(&self) -> bool {
        let reason = self.connection().close_reason();
        matches!(reason, Some(ConnectionError::ApplicationClosed(close))
            if close.error_code == VarInt::from_u32(0))
    }

    /// Waits until a server that was stopped is there again.
    async fn restart(&self, options: &ViewOptions<'_>) -> Result<Session, AppError> {
        let Some(reconnect) = &options.reconnect else {
            return std::future::pending().await;
        };
        loop {
            if let Some(session) = self.attempt(reconnect, options).await? {
                return Ok(session);
            }
        }
    }

    /// Tries to connect anew; `None` if the server is not there.
    async fn attempt(
        &self,
        reconnect: &Reconnect<'_>,
        options: &ViewOptions<'_>,
    ) -> Result<Option<Session>, AppError> {
        let began = self.now();
        let patience = ATTEMPT.max(3 * self.connection().rtt());
        let attempt = async {
            let Some(connection) = timeout(self.runtime, patience, reconnect()).await else {
                return Ok(None);
            };
            let asked = self.ask(connection?, options);
            timeout(self.runtime, patience, asked).await.transpose()
        };
        match attempt.await {
            Err(error @ (AppError::Connection(_) | AppError::PeerGaveUp(_))) => {
                debug!(%error, "the server is not there yet");
                sleep_until(self.runtime, began + patience / 4).await;
                Ok(None)
            }
            session => session,
        }
    }
}
