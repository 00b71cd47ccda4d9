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
    Precise(evenkeel_timer::TimerFd),
    Runtime(Arc<dyn quinn::Runtime>, Option<Pin<Box<dyn AsyncTimer>>>),
}

impl Timer {
    /// Creates a timer of `runtime`. If `precise`, which only tokio supports, creates one finer
    /// than tokio's milliseconds while the system has any left.
    pub(super) fn new(runtime: &Arc<dyn quinn::Runtime>, precise: bool) -> Self {
        #[cfg(target_os = "linux")]
        if precise && let Ok(timer) = evenkeel_timer::TimerFd::new() {
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
                match timer.poll(now >= at, cx) {
                    Poll::Ready(Ok(())) => Poll::Ready(()),
                    // Pending, or the runtime is shutting down.
                    _ => Poll::Pending,
                }
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
