//! Reads the processor time of this process.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::bulk::CpuTime;

/// Returns the processor time of all threads since the process began.
pub(crate) fn cpu_time() -> CpuTime {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("a process may ask about itself");
    CpuTime {
        user: duration(usage.user_time()),
        system: duration(usage.system_time()),
    }
}

fn duration(time: TimeVal) -> Duration {
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    Duration::from_secs(part(time.tv_sec())) + Duration::from_micros(part(time.tv_usec()))
}
