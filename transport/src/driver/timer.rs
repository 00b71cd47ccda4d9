//! Waits for the bucket, to the microsecond where the system can.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn::AsyncTimer;

/// Times closer than this are the same: they come from one bucket, rounded.
const SAME: Duration = Duration::from_micros(1);

/// A timer of one driver.
pub(super) struct Timer {
    kind: Kind,
    set_for: Option<Instant>,
}

enum Kind {
    #[cfg(target_os = "linux")]
    Precise(precise::TimerFd),
    Runtime(Arc<dyn quinn::Runtime>, Option<Pin<Box<dyn AsyncTimer>>>),
}

impl Timer {
    /// Creates a timer of `runtime`. If `precise`, which only tokio supports, creates one finer
    /// than tokio's milliseconds while the system has any left.
    pub(super) fn new(runtime: &Arc<dyn quinn::Runtime>, precise: bool) -> Self {
        #[cfg(target_os = "linux")]
        if precise && let Ok(timer) = precise::TimerFd::new() {
            return Self {
                kind: Kind::Precise(timer),
                set_for: None,
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = precise;
        Self {
            kind: Kind::Runtime(runtime.clone(), None),
            set_for: None,
        }
    }

    /// Registers `cx` to be woken at `at`; ready if that time has passed.
    pub(super) fn poll_until(
        &mut self,
        now: Instant,
        at: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        #[cfg(not(target_os = "linux"))]
        let _ = now;
        let changed = self
            .set_for
            .is_none_or(|set| set.max(at) - set.min(at) > SAME);
        if changed {
            self.set_for = Some(at);
        }
        let poll = match &mut self.kind {
            #[cfg(target_os = "linux")]
            Kind::Precise(timer) => {
                if changed {
                    timer.set(at.saturating_duration_since(now));
                }
                timer.poll(now >= at, cx)
            }
            Kind::Runtime(_, Some(timer)) => {
                if changed {
                    timer.as_mut().reset(at);
                }
                timer.as_mut().poll(cx)
            }
            Kind::Runtime(runtime, none) => {
                let timer = none.insert(runtime.new_timer(at));
                timer.as_mut().poll(cx)
            }
        };
        if poll.is_ready() {
            self.set_for = None;
        }
        poll
    }
}

#[cfg(target_os = "linux")]
mod precise {
    //! A timerfd among tokio's file descriptors: timerfd_create(2).

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

    pub(super) struct TimerFd {
        fd: AsyncFd<OwnedFd>,
    }

    impl TimerFd {
        /// Must be called in a task of tokio.
        #[expect(
            deprecated,
            reason = "its unsafe successor asks for what an OwnedFd guarantees: open, and the same until dropped"
        )]
        pub(super) fn new() -> io::Result<Self> {
            let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
            let fd: OwnedFd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            Ok(Self {
                fd: AsyncFd::with_interest(fd, Interest::READABLE)?,
            })
        }

        /// Fires once after `wait`; replaces an earlier setting.
        pub(super) fn set(&self, wait: Duration) {
            // Zero would turn the timer off.
            let wait = wait.max(Duration::from_nanos(1));
            let never = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let setting = Itimerspec {
                it_interval: never,
                it_value: Timespec::try_from(wait).expect("no wait is longer than 20 s"),
            };
            timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::empty(), &setting)
                .expect("a timer of our own takes any setting");
        }

        /// Ready if the timer has fired since it was set. If its time has `passed`, skips the
        /// system call that would ask.
        pub(super) fn poll(&self, passed: bool, cx: &mut Context<'_>) -> Poll<()> {
            loop {
                let Ok(mut readable) = ready!(self.fd.poll_read_ready(cx)) else {
                    // The runtime is shutting down.
                    return Poll::Pending;
                };
                if passed {
                    // The next setting discards the unread expiration.
                    readable.clear_ready();
                    return Poll::Ready(());
                }
                // It may have fired just now, or this is left over from the last time.
                let mut expirations = [0; 8];
                match readable.try_io(|fd| {
                    rustix::io::read(fd.get_ref(), &mut expirations).map_err(io::Error::from)
                }) {
                    Ok(_) => return Poll::Ready(()),
                    Err(_would_block) => {}
                }
            }
        }
    }
}
