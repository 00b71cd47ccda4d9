//! The clock and the standard streams of this machine.

use std::{os::fd::BorrowedFd, time::SystemTime};

use quinn::{Runtime, TokioRuntime};
use tokio::fs::File;

use crate::cli::failure::Failure;
use crate::stream::Clock;

/// Returns this machine's clock, which programs on it share.
#[expect(
    clippy::disallowed_methods,
    reason = "capture times have to be compared between programs"
)]
pub(crate) fn wall_clock(shared: bool) -> Clock {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Clock {
        at: TokioRuntime.now(),
        // A clock before 1970 is not worth a failure.
        micros: since.map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(0)),
        shared,
    }
}

/// Opens standard input or output as a file.
pub(crate) fn descriptor(fd: BorrowedFd<'_>, which: &str) -> Result<File, Failure> {
    let what = format!("cannot use standard {which}");
    let owned = fd.try_clone_to_owned();
    let owned = owned.map_err(Failure::of_system(what, "do not close it"))?;
    Ok(File::from_std(std::fs::File::from(owned)))
}
