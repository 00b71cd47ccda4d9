//! Tells systemd how the router is (sd_notify(3)). Without systemd nobody hears it.

use std::cell::RefCell;

use sd_notify::NotifyState;
use tracing::debug;

/// What systemd knows.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    status: RefCell<String>,
}

impl Supervisor {
    /// The router forwards.
    pub(crate) fn ready(&self) {
        tell(&[NotifyState::Ready]);
    }

    /// The router is alive, and how it is; systemd kills one that does not say so for too long.
    pub(crate) fn alive(&self, status: String) {
        tell(&[NotifyState::Watchdog]);
        if *self.status.borrow() != status {
            tell(&[NotifyState::Status(&status)]);
            self.status.replace(status);
        }
    }

    /// The router ends.
    pub(crate) fn stopping(&self) {
        tell(&[NotifyState::Stopping]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        debug!(%error, "systemd does not hear");
    }
}
