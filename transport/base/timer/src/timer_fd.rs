//! A timerfd(2) among the descriptors that tokio polls.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A timer that wakes its task once, after the wait last set.
#[derive(Debug)]
pub struct TimerFd(AsyncFd<OwnedFd>);

impl TimerFd {
    /// Creates a timer that is not set. Call it within a tokio runtime.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that others may close; this one is owned"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        AsyncFd::with_interest(descriptor, Interest::READABLE).map(Self)
    }

    /// Fires once after `wait`; replaces an earlier setting.
    ///
    /// # Panics
    /// If `wait` is longer than 292 years, which the kernel cannot count.
    pub fn set(&self, wait: Duration) {
        let setting = Itimerspec {
            it_interval: Timespec::default(),
            // Zero would turn the timer off.
            it_value: Timespec::try_from(wait.max(Duration::from_nanos(1)))
                .expect("waits end before the kernel's count"),
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &setting)
            .expect("a timer of our own takes any setting");
    }

    /// Ready if the timer has fired since it was set. If its time has `passed`, or if it does not
    /// matter whether it has, skips the system call that would ask.
    ///
    /// # Errors
    /// If the runtime is shutting down.
    pub fn poll(&self, passed: bool, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut readable = ready!(self.0.poll_read_ready(cx))?;
            if passed {
                // The next setting discards the unread expiration. tokio reports the next one,
                // because it listens for edges.
                readable.clear_ready();
                return Poll::Ready(Ok(()));
            }
            // It may have fired just now, or this is left over from the last time.
            let mut expirations = [0; 8];
            let read = readable
                .try_io(|fd| rustix::io::read(fd, &mut expirations).map_err(io::Error::from));
            if read.is_ok() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}
