//! The signals that ask the program to end: SIGINT, which is Ctrl-C, and SIGTERM.

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::signal::unix::{SignalKind, signal};

use super::{Failure, net::plain};

/// Waits for such a signal. Clones hear of the same one, also those that listen late.
#[derive(Debug, Clone)]
pub(super) struct Signals(Shared<BoxFuture<'static, SignalKind>>);

impl Signals {
    /// From here on a signal no longer ends the process at once.
    ///
    /// # Errors
    /// If signals cannot be waited for.
    pub(super) fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::failed(
                    format!("cannot wait for signals: {}", plain(&error)),
                    "check the system's limits",
                )
            })
        };
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut terminate = listen(SignalKind::terminate())?;
        let heard = async move {
            tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
            }
        };
        Ok(Self(heard.boxed().shared()))
    }

    /// Ends when there is one: which.
    pub(super) async fn heard(&self) -> SignalKind {
        self.0.clone().await
    }

    /// What comes of `step`, which is given up at a signal.
    ///
    /// # Errors
    /// If `step` fails, or a signal comes before it is done.
    pub(super) async fn unless_heard<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = step => result,
            signal = self.heard() => {
                Err(Failure::interrupted(signal, "interrupted before it began", "nothing was moved"))
            }
        }
    }
}
