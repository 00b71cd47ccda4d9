//! Waits precisely: a timerfd(2) knows nanoseconds where tokio's timers know milliseconds. On other
//! systems than Linux the crate is empty.
//!
//! Internal to evenkeel: no promise, the API may change with every version.

#[cfg(target_os = "linux")]
mod timer_fd;

#[cfg(target_os = "linux")]
pub use timer_fd::TimerFd;
