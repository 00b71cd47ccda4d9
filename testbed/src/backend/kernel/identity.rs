//! Which process a run belongs to: what a killed run has left behind is told from what runs.

use std::fs;

use super::error::KernelError;

/// What tells this process from all others of this machine: `PID-STARTTIME`.
pub(in crate::backend) fn own_identity() -> Result<String, KernelError> {
    let pid = std::process::id();
    let start = start_time(pid).ok_or(KernelError::NoProc)?;
    Ok(format!("{pid}-{start}"))
}

/// Whether the process of an [`own_identity`] still runs.
pub(in crate::backend) fn is_alive(identity: &str) -> bool {
    identity.split_once('-').is_some_and(|(pid, start)| {
        let now = pid.parse().ok().and_then(start_time);
        now.is_some_and(|now| now.to_string() == start)
    })
}

/// What begins the labels of this process's hosts.
pub(in crate::backend) fn label_prefix() -> String {
    format!("ek{}", std::process::id())
}

/// When a process started, in the kernel's ticks: tells it from a later one with the same number
/// (proc(5), field 22 of stat). `None` if it has ended, waited for by its parent or not.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(start)
}
