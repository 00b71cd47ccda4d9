//! Runs on several threads.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Parts of a job after each of which its progress is reported.
const STEPS: f64 = 50.0;

/// Interval at which the interrupt is checked.
const PATIENCE: Duration = Duration::from_millis(100);

/// What happens while jobs are done.
#[derive(Debug)]
pub enum JobEvent<R> {
    /// The job of this number has come so far, from 0 to 1.
    Advanced(usize, f64),
    /// It has ended with this, or panicked, as a line says.
    Ended(usize, Result<R, String>),
}

/// How jobs are done.
#[derive(Debug, Clone)]
pub struct Jobs {
    /// How many there are.
    pub count: usize,
    /// How many are done at a time, at least one.
    pub at_a_time: usize,
    /// Set when no further one is to begin.
    pub interrupt: Arc<AtomicBool>,
    /// Whether jobs under way heed the interrupt themselves and are waited for; others are left to
    /// the end of the process.
    pub heed_it: bool,
}

impl Jobs {
    /// Does the jobs in order of their numbers, from 0. `work` gets a number, and whom to tell how far
    /// it has come, from 0 to 1. Events come on this thread. Returns whether it was interrupted.
    ///
    /// # Errors
    /// The first of `on_event`, which ends it all. A job that panics, which is our bug, is an event.
    pub fn run<R: Send + 'static, E>(
        &self,
        work: impl Fn(usize, &mut dyn FnMut(f64)) -> R + Send + Sync + 'static,
        mut on_event: impl FnMut(JobEvent<R>) -> Result<(), E>,
    ) -> Result<bool, E> {
        let pending: Arc<Mutex<VecDeque<usize>>> = Arc::new(Mutex::new((0..self.count).collect()));
        let (sender, receiver) = mpsc::channel();
        let work = Arc::new(work);
        for _ in 0..self.at_a_time.max(1).min(self.count) {
            let (pending, work, sender) = (pending.clone(), work.clone(), sender.clone());
            let interrupt = self.interrupt.clone();
            // Not joined: a run cannot be stopped half-way, and an interrupt does not wait for it.
            thread::spawn(move || take(&*work, &pending, &interrupt, &sender));
        }
        drop(sender);
        let mut ended = 0;
        loop {
            if self.interrupt.load(Ordering::Relaxed) {
                if self.heed_it {
                    while receiver.recv().is_ok() {}
                }
                return Ok(true);
            }
            match receiver.recv_timeout(PATIENCE) {
                Ok(event) => {
                    ended += usize::from(matches!(event, JobEvent::Ended(..)));
                    on_event(event)?;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Threads see the interrupt first at times.
                Err(RecvTimeoutError::Disconnected) => return Ok(ended < self.count),
            }
        }
    }
}

/// A thread's work: takes jobs until none is left.
fn take<R>(
    work: &(impl Fn(usize, &mut dyn FnMut(f64)) -> R + ?Sized),
    pending: &Mutex<VecDeque<usize>>,
    interrupt: &AtomicBool,
    sender: &Sender<JobEvent<R>>,
) {
    loop {
        let mut left = pending.lock().unwrap_or_else(PoisonError::into_inner);
        let next = left.pop_front();
        drop(left);
        let Some(index) = next.filter(|_| !interrupt.load(Ordering::Relaxed)) else {
            return;
        };
        let mut reported = 0.0;
        let mut advance = |share: f64| {
            let step = (share * STEPS).floor();
            if step > reported {
                reported = step;
                // After an interrupt the receiver is gone.
                let _ = sender.send(JobEvent::Advanced(index, share));
            }
        };
        let done = catch_unwind(AssertUnwindSafe(|| work(index, &mut advance)));
        let done = done.map_err(|panic| panic_message(&*panic));
        if sender.send(JobEvent::Ended(index, done)).is_err() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_jobs_are_done_and_one_that_panics_does_not_end_the_others() {
        let jobs = Jobs {
            count: 20,
            at_a_time: 3,
            interrupt: Arc::default(),
            heed_it: false,
        };
        let mut done = Vec::new();
        let work = |index: usize, advance: &mut dyn FnMut(f64)| {
            advance(0.5);
            assert_ne!(index, 7, "seven");
            index * 10
        };
        let interrupted = jobs.run(work, |event| {
            if let JobEvent::Ended(index, result) = event {
                done.push((index, result));
            }
            Ok::<(), ()>(())
        });
        assert_eq!(interrupted, Ok(false));
        done.sort();
        let (failed, right): (Vec<_>, Vec<_>) = done.into_iter().partition(|(_, r)| r.is_err());
        assert!(
            failed[0]
                .1
                .as_ref()
                .is_err_and(|line| line.contains("seven")),
            "{failed:?}"
        );
        assert!(
            right
                .iter()
                .all(|(index, result)| *result == Ok(index * 10))
        );
        assert_eq!((failed.len(), right.len()), (1, 19));
    }

    #[test]
    fn an_interrupt_keeps_what_is_left_from_beginning() {
        let interrupt = Arc::<AtomicBool>::default();
        let jobs = Jobs {
            count: 5,
            at_a_time: 1,
            interrupt: interrupt.clone(),
            heed_it: true,
        };
        let begun = Arc::new(Mutex::new(Vec::new()));
        let list = begun.clone();
        let work = move |index: usize, _: &mut dyn FnMut(f64)| {
            list.lock().unwrap().push(index);
            interrupt.store(index == 1, Ordering::Relaxed);
        };
        assert_eq!(jobs.run(work, |_| Ok::<(), ()>(())), Ok(true));
        assert_eq!(*begun.lock().unwrap(), [0, 1]);
    }

    #[test]
    fn threads_that_end_at_an_interrupt_before_it_is_seen_here_have_not_done_all() {
        for _ in 0..200 {
            let interrupt = Arc::<AtomicBool>::default();
            let jobs = Jobs {
                count: 5,
                at_a_time: 1,
                interrupt: interrupt.clone(),
                heed_it: false,
            };
            let work = move |_: usize, _: &mut dyn FnMut(f64)| {
                interrupt.store(true, Ordering::Relaxed);
            };
            assert_eq!(jobs.run(work, |_| Ok::<(), ()>(())), Ok(true));
        }
    }
}
