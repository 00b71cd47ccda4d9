//! Precise waiting: a timerfd(2), which knows nanoseconds where tokio's timers know milliseconds.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::clock::Monotonic;

/// A timer that wakes its task once, at the instant that was set last.
#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    clock: Monotonic,
    /// When it will fire.
    armed: Option<Instant>,
}

impl Timer {
    /// A timer that is not set; must be called within a tokio runtime.
    #[expect(
        deprecated,
        reason = "its successor is unsafe, for descriptors that others may close; this one is owned"
    )]
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            descriptor: AsyncFd::with_interest(descriptor, Interest::READABLE)?,
            clock: Monotonic::read(),
            armed: None,
        })
    }

    /// Waits for `deadline`, or for ever. It may be ready too early, for an instant that was set
    /// before: setting a timer costs more than to look whether there is something to do.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        deadline: Option<Instant>,
    ) -> Poll<io::Result<()>> {
        if let Some(deadline) = deadline
            && self.armed.is_none_or(|armed| armed > deadline)
        {
            self.set(deadline)?;
        }
        match self.descriptor.poll_read_ready(cx)? {
            Poll::Pending => Poll::Pending,
            Poll::Ready(mut guard) => {
                // Setting it again resets what could be read, so reading is not needed; tokio hears of
                // the next expiration, because it listens for edges.
                guard.clear_ready();
                self.armed = None;
                Poll::Ready(Ok(()))
            }
        }
    }

    fn set(&mut self, deadline: Instant) -> io::Result<()> {
        let once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let value = Itimerspec {
            it_interval: once,
            it_value: self.clock.timespec(deadline),
        };
        timerfd_settime(&self.descriptor, TimerfdTimerFlags::ABSTIME, &value)?;
        self.armed = Some(deadline);
        Ok(())
    }
}
