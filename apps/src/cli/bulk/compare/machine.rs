//! Notices when the machine itself disturbs a measurement.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quinn::{Runtime, TokioRuntime};
use serde::{Deserialize, Serialize};

use crate::cli::cpu::cpu_time;
use crate::time::sleep_until;

/// How often the watch wants to be woken.
const PERIOD: Duration = Duration::from_millis(20);

/// Ticks of /proc/stat in a second, on every Linux (USER_HZ).
const TICKS: f64 = 100.0;

/// What a machine did during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Machine {
    /// Share of all processors' time that other programs took, 0 to 1; `None` if it is not known.
    pub(super) others: Option<f64>,
    /// The longest time by which this program was woken too late, in milliseconds.
    pub(super) late_ms: f64,
}

/// Watches the machine until it is asked.
pub(super) struct Watch {
    late_us: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
    before: Option<Ticks>,
    own: Duration,
}

/// Time of all processors, in ticks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ticks {
    all: f64,
    idle: f64,
}

impl Watch {
    pub(super) fn begin() -> Self {
        let late_us = Arc::<AtomicU64>::default();
        let late = late_us.clone();
        let task = tokio::spawn(async move {
            loop {
                let due = TokioRuntime.now() + PERIOD;
                sleep_until(&TokioRuntime, due).await;
                let lateness = TokioRuntime.now().saturating_duration_since(due);
                let micros = u64::try_from(lateness.as_micros()).unwrap_or(u64::MAX);
                late.fetch_max(micros, Ordering::Relaxed);
            }
        });
        Self {
            late_us,
            task,
            before: ticks(),
            own: own(),
        }
    }

    pub(super) fn end(self) -> Machine {
        self.task.abort();
        let own = own().saturating_sub(self.own).as_secs_f64();
        let others = self.before.zip(ticks()).and_then(|(before, now)| {
            let (all, idle) = (now.all - before.all, now.idle - before.idle);
            (all > 0.0).then(|| ((all - idle - own * TICKS) / all).clamp(0.0, 1.0))
        });
        Machine {
            others,
            late_ms: self.late_us.load(Ordering::Relaxed) as f64 / 1e3,
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
