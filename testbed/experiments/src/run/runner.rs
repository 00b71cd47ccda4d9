//! Makes runs on several threads.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::store::{Plan, Record, Store, StoreError};
use evenkeel_testbed::backend::sim;

use crate::spec::runs::Run;

/// Parts of a run after each of which its progress is reported.
const STEPS: u32 = 50;

/// Interval at which the interrupt is checked.
const PATIENCE: Duration = Duration::from_millis(100);

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

enum Message {
    Advanced(usize, f64),
    Ended(usize, Box<Result<Record, String>>),
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
    let jobs = if plan.on_kernel() { 1 } else { jobs.max(1) };
    let runs = Arc::new(runs);
    let pending: Arc<Mutex<VecDeque<usize>>> = Arc::new(Mutex::new((0..runs.len()).collect()));
    let (sender, receiver) = mpsc::channel();
    for _ in 0..jobs.min(runs.len()) {
        let (runs, pending, sender) = (runs.clone(), pending.clone(), sender.clone());
        let (plan, interrupt) = (plan.clone(), interrupt.clone());
        // Not joined: a run cannot be stopped half-way, and an interrupt does not wait for it.
        thread::spawn(move || work(&runs, &pending, &plan, &interrupt, &sender));
    }
    drop(sender);
    let mut outcome = Outcome {
        finished: 0,
        failed: 0,
        dead_flows: Vec::new(),
        interrupted: false,
    };
    loop {
        if interrupt.load(Ordering::Relaxed) {
            outcome.interrupted = true;
            // Runs on the kernel notice it, too: wait until they have removed their networks.
            if plan.on_kernel() {
                while receiver.recv().is_ok() {}
            }
            return Ok(outcome);
        }
        match receiver.recv_timeout(PATIENCE) {
            Ok(Message::Advanced(index, share)) => on_event(Event::Advanced(&runs[index], share)),
            Ok(Message::Ended(index, result)) => match *result {
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
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(outcome),
        }
    }
}

/// A thread's work: takes runs until none is left.
fn work(
    runs: &[Run],
    pending: &Mutex<VecDeque<usize>>,
    plan: &Plan,
    interrupt: &Arc<AtomicBool>,
    sender: &Sender<Message>,
) {
    loop {
        let next = pending
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(index) = next.filter(|_| !interrupt.load(Ordering::Relaxed)) else {
            return;
        };
        let run = &runs[index];
        let mut reported = 0;
        let progress = |at: Duration| {
            let share = at.as_secs_f64() / run.scenario.duration.as_secs_f64();
            let step = (share * f64::from(STEPS)) as u32;
            if step > reported {
                reported = step;
                // After an interrupt the receiver is gone.
                let _ = sender.send(Message::Advanced(index, share));
            }
        };
        // A panic is our bug. It is reported with its run and does not end the others.
        let observed = catch_unwind(AssertUnwindSafe(|| {
            let scenario = &run.scenario;
            match plan.backend.as_str() {
                "sim" => sim::run(scenario, &sim::Options::default(), progress)
                    .map_err(|error| error.to_string()),
                #[cfg(target_os = "linux")]
                on => {
                    use evenkeel_testbed::backend::Hosts;

                    let hosts = match on {
                        "docker" => Hosts::Containers,
                        _ => Hosts::Namespaces,
                    };
                    let observed = hosts.run(scenario, interrupt, progress);
                    observed.map_err(|error| error.to_string())
                }
                #[cfg(not(target_os = "linux"))]
                on => Err(format!("{on} needs Linux")),
            }
        }));
        let observed = observed.unwrap_or_else(|panic| Err(panic_message(&*panic)));
        let record = observed.map(|observed| Record::new(run, plan, &observed));
        if sender
            .send(Message::Ended(index, Box::new(record)))
            .is_err()
        {
            return;
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!(
        "it panicked: {}",
        text.unwrap_or("no message").replace('\n', " ")
    )
}
