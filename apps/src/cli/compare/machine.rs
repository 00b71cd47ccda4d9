//! Follows a run from beside it: how much has moved, and whether the machine itself disturbs it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quinn::{Runtime, TokioRuntime};
use serde::{Deserialize, Serialize};

use crate::cli::cpu::cpu_time;
use crate::lock::lock;
use crate::time::{milliseconds, sleep_until};

/// How often the watch wants to be woken.
const PERIOD: Duration = Duration::from_millis(20);

/// Distance of the points of a run's progress.
const STEP: Duration = Duration::from_millis(100);

/// Ticks of /proc/stat in a second, on every Linux (USER_HZ).
const TICKS: f64 = 100.0;

/// What a machine did during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::cli) struct Machine {
    /// Share of all processors' time that other programs took, 0 to 1; `None` if it is not known.
    pub(in crate::cli) others: Option<f64>,
    /// The longest time by which this program was woken too late, in milliseconds.
    pub(in crate::cli) late_ms: f64,
}

/// Watches a run until it is asked.
pub(in crate::cli) struct Watch {
    pub(in crate::cli) begun: Instant,
    seen: Arc<Mutex<Seen>>,
    task: tokio::task::JoinHandle<()>,
    before: Option<Ticks>,
    own: Duration,
}

/// What a watch saw of a run.
pub(in crate::cli) struct Course {
    /// Seconds since the run began, and bytes that have moved by then.
    pub(super) progress: Vec<(f64, u64)>,
    pub(super) machine: Machine,
}

#[derive(Default)]
struct Seen {
    progress: Vec<(f64, u64)>,
    late: Duration,
}

/// Time of all processors, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    all: f64,
    idle: f64,
}

impl Watch {
    /// Begins with a run, of which `moved` tells the bytes so far.
    pub(in crate::cli) fn begin(moved: impl Fn() -> u64 + Send + 'static) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let begun = TokioRuntime.now();
        let task = tokio::spawn({
            let seen = seen.clone();
            async move {
                let mut next = begun + STEP;
                loop {
                    let due = TokioRuntime.now() + PERIOD;
                    sleep_until(&TokioRuntime, due).await;
                    let now = TokioRuntime.now();
                    let mut seen = lock(&seen);
                    seen.late = seen.late.max(now.saturating_duration_since(due));
                    if now >= next {
                        next = now + STEP;
                        seen.progress.push((since(begun, now), moved()));
                    }
                }
            }
        });
        Self {
            begun,
            seen,
            task,
            before: ticks(),
            own: own(),
        }
    }

    pub(in crate::cli) fn end(self) -> Course {
        self.task.abort();
        let own = own().saturating_sub(self.own).as_secs_f64();
        let others = self.before.zip(ticks()).and_then(|(before, now)| {
            let (all, idle) = (now.all - before.all, now.idle - before.idle);
            (all > 0.0).then(|| ((all - idle - own * TICKS) / all).clamp(0.0, 1.0))
        });
        let seen = std::mem::take(&mut *lock(&self.seen));
        Course {
            progress: seen.progress,
            machine: Machine {
                others,
                late_ms: milliseconds(seen.late),
            },
        }
    }
}

/// Returns this program's processor time.
fn own() -> Duration {
    let time = cpu_time();
    time.user + time.system
}

/// Reads the machine's own clock of its processors (proc_stat(5)).
fn ticks() -> Option<Ticks> {
    parse(&std::fs::read_to_string("/proc/stat").ok()?)
}

fn parse(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .map_while(|t| t.parse().ok())
        .collect();
    // User, nice, system, idle, waiting for disks, interrupts, soft ones, stolen; guests are in user.
    let &[user, nice, system, idle, waiting, hard, soft, stolen] = ticks.get(..8)? else {
        return None;
    };
    let idle = idle + waiting;
    Some(Ticks {
        all: user + nice + system + idle + hard + soft + stolen,
        idle,
    })
}

/// Returns the seconds from one instant to a later one.
pub(in crate::cli) fn since(begun: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(begun).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_processors_is_idle_or_not() {
        let stat = "cpu  10 1 5 100 7 1 2 3 50 0\ncpu0 1 2 3\n";
        let found = parse(stat).unwrap();
        assert_eq!((found.all, found.idle), (129.0, 107.0));
        for broken in ["", "cpu 1 2", "cpu a b c d e f g h", "intr 5"] {
            assert_eq!(parse(broken), None, "{broken}");
        }
        assert!(ticks().is_some());
    }
}
