//! Makes runs on several threads.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::store::{Plan, Record, Store, StoreError};
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::jobs::{JobEvent, Jobs};

use crate::spec::runs::Run;

/// What happens while runs are made.
#[derive(Debug)]
pub enum Event<'r> {
    /// A run has come so far, from 0 to 1.
    Advanced(&'r Run, f64),
    /// A run is complete and kept.
    Finished(&'r Run),
    /// A run has failed, in one line.
    Failed(&'r Run, &'r str),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Runs that are complete.
    pub finished: usize,
    /// Runs that have failed.
    pub failed: usize,
    /// A line for each flow that died or failed in a complete run.
    pub dead_flows: Vec<String>,
    /// Whether it was interrupted: runs that were under way are lost, finished ones are kept.
    pub interrupted: bool,
}

/// Makes `runs` with as many threads as `jobs`, in order, and keeps each in `store` as soon as
/// it is complete. Returns early when `interrupt` is set. Runs on a kernel share the machine's
/// real time, so that they are made one at a time.
///
/// # Errors
/// If a record cannot be kept. A run that fails is an event and does not end the others.
pub fn run(
    runs: Vec<Run>,
    plan: &Plan,
    store: &Store,
    jobs: usize,
    interrupt: &Arc<AtomicBool>,
    mut on_event: impl FnMut(Event<'_>),
) -> Result<Outcome, StoreError> {
    let runs = Arc::new(runs);
    let jobs = Jobs {
        count: runs.len(),
        at_a_time: if plan.on_kernel() { 1 } else { jobs },
        interrupt: interrupt.clone(),
        // Runs on the kernel remove their networks first.
        heed_it: plan.on_kernel(),
    };
    let mut outcome = Outcome {
        finished: 0,
        failed: 0,
        dead_flows: Vec::new(),
        interrupted: false,
    };
    let (making, of, heard) = (runs.clone(), plan.clone(), interrupt.clone());
    let work = move |index: usize, advance: &mut dyn FnMut(f64)| {
        make(&making[index], &of, &heard, advance)
    };
    outcome.interrupted = jobs.run(work, |event| {
        match event {
            JobEvent::Advanced(index, share) => on_event(Event::Advanced(&runs[index], share)),
            JobEvent::Ended(index, result) => match result.and_then(|made| made) {
                Ok(record) => {
                    store.keep(&runs[index], plan, &record)?;
                    outcome.dead_flows.extend(record.failures(&runs[index]));
                    outcome.finished += 1;
                    on_event(Event::Finished(&runs[index]));
                }
                Err(message) => {
                    outcome.failed += 1;
                    on_event(Event::Failed(&runs[index], &message));
                }
            },
        }
        Ok::<(), StoreError>(())
    })?;
    Ok(outcome)
}

/// Makes a run.
fn make(
    run: &Run,
    plan: &Plan,
    interrupt: &Arc<AtomicBool>,
    advance: &mut dyn FnMut(f64),
) -> Result<Record, String> {
    let scenario = &run.scenario;
    let progress = |at: Duration| advance(at.as_secs_f64() / scenario.duration.as_secs_f64());
    let observed = match plan.backend.as_str() {
        "sim" => {
            let observed = sim::run(scenario, &sim::Options::default(), progress);
            observed.map_err(|error| error.to_string())?
        }
        #[cfg(target_os = "linux")]
        on => {
            use evenkeel_testbed::backend::Hosts;

            let hosts = match on {
                "docker" => Hosts::Containers,
                _ => Hosts::Namespaces,
            };
            let observed = hosts.run(scenario, interrupt, progress);
            observed.map_err(|error| error.to_string())?
        }
        #[cfg(not(target_os = "linux"))]
        on => return Err(format!("{on} needs Linux")),
    };
    Ok(Record::new(run, plan, &observed))
}
