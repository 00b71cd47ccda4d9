//! Waits for the signals that stop the program: SIGINT, which is Ctrl-C, and SIGTERM.

use futures_util::future::{BoxFuture, FutureExt, Shared};
use tokio::signal::unix::{SignalKind, signal};

use super::failure::Failure;

/// Waits for such a signal. All clones get the same one, even if they start to wait after it.
#[derive(Debug, Clone)]
pub(crate) struct Signals(Shared<BoxFuture<'static, SignalKind>>);

impl Signals {
    /// Starts to listen: from here on a signal no longer ends the process at once.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failure = Failure::of_system("cannot wait for signals", "check the system's limits");
        let mut interrupt = signal(SignalKind::interrupt()).map_err(&failure)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(&failure)?;
        let received = async move {
            tokio::select! {
                _ = interrupt.recv() => SignalKind::interrupt(),
                _ = terminate.recv() => SignalKind::terminate(),
            }
        };
        Ok(Self(received.boxed().shared()))
    }

    pub(crate) async fn received(&self) -> SignalKind {
        self.0.clone().await
    }

    /// Runs `step`, and cancels it at a signal.
    pub(crate) async fn or_signal<T>(
        &self,
        step: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            result = step => result,
            signal = self.received() => {
                Err(Failure::interrupted(signal, "interrupted before it began", "nothing was moved"))
            }
        }
    }
}
