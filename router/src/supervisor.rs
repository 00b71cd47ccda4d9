//! Tells systemd how the router is (sd_notify(3)). Without systemd nobody hears it.

use sd_notify::NotifyState;
use tracing::debug;

pub(crate) fn tell(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        debug!(%error, "systemd does not hear");
    }
}
