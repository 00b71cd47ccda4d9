//! The signals that ask this program to end: SIGINT, which is Ctrl-C, and SIGTERM.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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

/// The signal that this program has heard, if any.
pub(super) fn heard() -> Option<Signal> {
    let number = HEARD.get()?.last.load(Ordering::SeqCst);
    [Signal::INT, Signal::TERM]
        .into_iter()
        .find(|signal| signal.as_raw() as usize == number)
}

/// The exit status of a program that it has ended, as shells have it: 128 and the signal's number.
pub(super) fn interrupted() -> u8 {
    heard().map_or(1, |signal| 128 + signal.as_raw() as u8)
}

/// The status of another program as this one's own.
pub(super) fn status_of(ended: ExitStatus) -> u8 {
    let signalled = || Some(128 + ended.signal()?);
    let status = ended.code().or_else(signalled);
    status
        .and_then(|status| u8::try_from(status).ok())
        .unwrap_or(1)
}
