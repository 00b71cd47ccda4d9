//! Waits precisely: a timerfd(2) knows nanoseconds where tokio's timers know milliseconds.

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

/// A timer that wakes its task once, at the instant last set.
#[derive(Debug)]
pub(crate) struct Timer {
    descriptor: AsyncFd<OwnedFd>,
    clock: Monotonic,
    /// When the timer will fire.
    armed: Option<Instant>,
}

impl Timer {
    /// Creates a timer that is not set. Call it within a tokio runtime.
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

    /// Waits for `deadline`, or for ever. It may be ready too early, at an instant set before:
    /// setting a timer costs more than looking whether there is work.
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
                // Setting it again resets what could be read, so nothing is read here. tokio
                // reports the next expiration, because it listens for edges.
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
