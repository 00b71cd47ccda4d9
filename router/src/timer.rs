//! Waits for the next thing that is due.

use std::io;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use evenkeel_timer::TimerFd;

use crate::clock::now;

/// A timer that wakes its task once, at the instant last set.
#[derive(Debug)]
pub(crate) struct Timer {
    timer: TimerFd,
    /// When the timer will fire.
    armed: Option<Instant>,
}

impl Timer {
    /// Creates a timer that is not set. Call it within a tokio runtime.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            timer: TimerFd::new()?,
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
            self.timer.set(deadline.saturating_duration_since(now()));
            self.armed = Some(deadline);
        }
        ready!(self.timer.poll(true, cx))?;
        self.armed = None;
        Poll::Ready(Ok(()))
    }
}
