//! The signals that ask this program to end: SIGINT, which is Ctrl-C, and SIGTERM.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

pub(super) use others::{pass_on, status_of};

use super::CliError;

/// What a process has heard, once it listens.
#[derive(Debug, Default)]
struct Heard {
    any: Arc<AtomicBool>,
    /// The number of the last one; 0 before the first.
    last: Arc<AtomicUsize>,
}

static HEARD: OnceLock<Heard> = OnceLock::new();

/// Set when the user interrupts or the system ends this program. From the first call on a signal no
/// longer ends the process at once.
pub(super) fn interrupts() -> Result<&'static Arc<AtomicBool>, CliError> {
    if let Some(heard) = HEARD.get() {
        return Ok(&heard.any);
    }
    let heard = HEARD.get_or_init(Heard::default);
    for signal in [SIGINT, SIGTERM] {
        // In this order: who sees that there was one may ask which.
        flag::register_usize(signal, heard.last.clone(), signal as usize)
            .and_then(|_| flag::register(signal, heard.any.clone()))
            .map_err(CliError::Signals)?;
    }
    Ok(&heard.any)
}

/// The number of the signal that this program has heard, if any.
pub(super) fn heard() -> Option<u8> {
    let number = HEARD.get()?.last.load(Ordering::SeqCst);
    u8::try_from(number).ok().filter(|number| *number > 0)
}

/// The exit status of a program that it has ended, as shells have it: 128 and the signal's number.
pub(super) fn interrupted() -> u8 {
    heard().map_or(1, |signal| 128 + signal)
}

#[cfg(unix)]
mod others {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Child, ExitStatus};

    use rustix::process::{Pid, Signal, kill_process};

    /// The status of another program as this one's own.
    pub(in crate::cli) fn status_of(ended: ExitStatus) -> u8 {
        let signalled = || Some(128 + ended.signal()?);
        let status = ended.code().or_else(signalled);
        status
            .and_then(|status| u8::try_from(status).ok())
            .unwrap_or(1)
    }

    /// Passes on a signal that this program has heard.
    pub(in crate::cli) fn pass_on(signal: u8, child: &mut Child) {
        if let Some(signal) = Signal::from_named_raw(signal.into()) {
            let _ = kill_process(Pid::from_child(child), signal);
        }
    }
}

#[cfg(not(unix))]
mod others {
    use std::process::{Child, ExitStatus};

    pub(in crate::cli) fn status_of(ended: ExitStatus) -> u8 {
        let status = ended.code().map(u8::try_from);
        status.and_then(Result::ok).unwrap_or(1)
    }

    pub(in crate::cli) fn pass_on(_: u8, child: &mut Child) {
        let _ = child.kill();
    }
}
