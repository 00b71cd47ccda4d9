//! A process on a host: a runtime whose tasks can be stopped for a time.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime};

use crate::executor::SimRuntime;

/// A runtime for the tasks of one process. None of them runs during its pauses, as after SIGSTOP;
/// timers that are due then, and datagrams that have arrived, are served at once when it goes on.
#[derive(Debug, Clone)]
pub struct Process {
    runtime: SimRuntime,
    /// In order; each ends before the next one begins.
    pauses: Arc<[Range<Instant>]>,
}

impl Process {
    /// A process that stands still at `pauses`: when each begins, since virtual time began, and how
    /// long it takes. They are in order, and each ends before the next one begins.
    pub fn new(
        runtime: SimRuntime,
        pauses: impl IntoIterator<Item = (Duration, Duration)>,
    ) -> Self {
        let epoch = runtime.epoch();
        let pauses = pauses.into_iter();
        let pauses = pauses.map(|(start, length)| epoch + start..epoch + start + length);
        Self {
            pauses: pauses.collect(),
            runtime,
        }
    }

    /// The instant at which virtual time began.
    pub fn epoch(&self) -> Instant {
        self.runtime.epoch()
    }

    /// Completes when virtual time reaches `at`, at once if it has passed.
    pub async fn sleep_until(&self, at: Instant) {
        self.runtime.sleep_until(at).await;
    }

    /// When the process goes on, if it stands still now.
    fn goes_on(&self) -> Option<Instant> {
        let now = self.now();
        let over = self.pauses.partition_point(|pause| pause.end <= now);
        let pause = self.pauses.get(over)?;
        pause.contains(&now).then_some(pause.end)
    }
}

impl Runtime for Process {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.runtime.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        if self.pauses.is_empty() {
            return self.runtime.spawn(future);
        }
        self.runtime.spawn(Box::pin(Task {
            future,
            process: self.clone(),
            goes_on: None,
        }));
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        self.runtime.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        Runtime::now(&self.runtime)
    }
}

/// A task of a process that has pauses.
struct Task {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    process: Process,
    /// Wakes the task at the end of a pause in which somebody woke it.
    goes_on: Option<Pin<Box<dyn AsyncTimer>>>,
}

impl Future for Task {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self {
            future,
            process,
            goes_on,
        } = &mut *self;
        if let Some(at) = process.goes_on() {
            // One pause may begin as another ends.
            let timer = goes_on.insert(process.new_timer(at));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
        }
        *goes_on = None;
        future.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{Simulation, lock, origin};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// When the ticks of a task come that wants one each 10 ms for 100 ms, in milliseconds.
    fn ticks(pauses: &[(u64, u64)]) -> Vec<u128> {
        let mut simulation = Simulation::new(origin(), 1500, Vec::new(), Vec::new());
        let pauses = pauses
            .iter()
            .map(|(start, length)| (ms(*start), ms(*length)));
        let process = Process::new(simulation.runtime(), pauses);
        let ticks = Arc::<Mutex<Vec<u128>>>::default();
        let (seen, within) = (ticks.clone(), process.clone());
        process.spawn(Box::pin(async move {
            for tick in 1..=10 {
                within.sleep_until(within.epoch() + ms(10 * tick)).await;
                lock(&seen).push((within.now() - within.epoch()).as_millis());
            }
        }));
        simulation.run_until(ms(200));
        let ticks = lock(&ticks);
        ticks.clone()
    }

    #[test]
    fn what_is_due_in_a_pause_happens_at_once_at_its_end() {
        let all: Vec<u128> = (1..=10).map(|tick| 10 * tick).collect();
        assert_eq!(ticks(&[]), all);
        // The first instant of a pause belongs to it, the last one does not.
        assert_eq!(
            ticks(&[(20, 30)]),
            [10, 50, 50, 50, 50, 60, 70, 80, 90, 100]
        );
        assert_eq!(
            ticks(&[(0, 15), (15, 10), (95, 50)]),
            [25, 25, 30, 40, 50, 60, 70, 80, 90, 145]
        );
        assert_eq!(ticks(&[(0, 1000)]), []);
    }
}
