//! Looks after what is installed in the kernel, on a thread of its own: a host may have a million
//! routes, and the kernel answers no question about them while another program changes them. The
//! thread that forwards sends its questions here and goes on.

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::clock;
use crate::netlink::Events;
use crate::plumbing::{Found, Plumbing};

/// How often to look whether links have what they need, and how often at most to put back what
/// another program keeps taking away.
const CHECK: Duration = Duration::from_secs(1);

/// What the thread does for another one.
type Job = Box<dyn FnOnce(&mut Plumbing) + Send>;

/// The thread. Dropping this ends it, and removes what is installed.
#[derive(Debug)]
pub(crate) struct Plumber {
    /// `None` once it shall end.
    jobs: Option<mpsc::UnboundedSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread finds out by itself.
#[derive(Debug)]
pub(crate) struct Reports(mpsc::UnboundedReceiver<Vec<Found>>);

impl Plumber {
    /// Starts the thread. It looks at everything at once, then when something changes in the
    /// kernel. What only the files of /proc/sys/net tell is looked at every second. It has the
    /// rights that the calling thread has by now.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn start(plumbing: Plumbing) -> io::Result<(Self, Reports)> {
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let events = {
            let _runtime = runtime.enter();
            Events::listen()?
        };
        let (jobs, asked) = mpsc::unbounded_channel();
        let (report, reports) = mpsc::unbounded_channel();
        let thread = thread::Builder::new()
            .name("plumber".to_owned())
            .spawn(move || runtime.block_on(work(plumbing, events, asked, report)))?;
        let plumber = Self {
            jobs: Some(jobs),
            thread: Some(thread),
        };
        Ok((plumber, Reports(reports)))
    }

    /// Returns what the thread answers, for which it may wait for the kernel.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Plumbing) -> T + Send + 'static,
    ) -> T {
        let (answer, answered) = oneshot::channel();
        let job = Box::new(move |plumbing: &mut Plumbing| {
            // Who asked may have gone.
            let _ = answer.send(question(plumbing));
        });
        let jobs = self.jobs.as_ref().expect("only dropping ends the thread");
        let _ = jobs.send(job);
        match answered.await {
            Ok(answer) => answer,
            // The thread has panicked: the end of its reports ends the router.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Plumber {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // If it has panicked, it has said so.
            let _ = thread.join();
        }
    }
}

impl Reports {
    /// Waits for the next look.
    pub(crate) async fn next(&mut self) -> Vec<Found> {
        let found = self.0.recv().await;
        found.expect("the thread that looks after routes does not panic")
    }
}

async fn work(
    plumbing: Plumbing,
    events: Events,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    reports: mpsc::UnboundedSender<Vec<Found>>,
) {
    let plumbing = RefCell::new(plumbing);
    let (mut has_changed, mut is_degraded) = (false, true);
    loop {
        let found = plumbing.borrow_mut().mend(has_changed || is_degraded);
        is_degraded = found.iter().any(|found| found.lack.is_err());
        if reports.send(found).is_err() {
            return;
        }
        let pause = if has_changed { CHECK } else { Duration::ZERO };
        let mut next_look = pin!(async {
            clock::pause(pause).await;
            let concerns = |route: &_| plumbing.borrow().concerns(route);
            timeout(CHECK, events.changed(concerns)).await.is_ok()
        });
        has_changed = loop {
            tokio::select! {
                has_changed = &mut next_look => break has_changed,
                job = jobs.recv() => match job {
                    Some(job) => job(&mut plumbing.borrow_mut()),
                    None => return,
                },
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as std_mpsc;

    use super::*;
    use crate::netlink::Netlink;

    fn started() -> (Plumber, Reports) {
        let netlink = Netlink::open().expect("anybody may ask");
        Plumber::start(Plumbing::empty(netlink)).expect("a thread")
    }

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        let runtime = runtime::Builder::new_current_thread().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn the_forwarder_goes_on_while_the_thread_waits_for_the_kernel() {
        let (plumber, _reports) = started();
        let (kernel, answers) = std_mpsc::channel();
        block_on(async {
            let asking = plumber.ask(move |_| answers.recv());
            // If asking held up this thread, the answer would never come.
            let forwarding = async { kernel.send(7).expect("it waits") };
            let (answer, ()) = tokio::join!(asking, forwarding);
            assert_eq!(answer, Ok(7));
        });
    }

    #[test]
    fn the_thread_looks_by_itself_and_ends_when_it_is_dropped() {
        let (plumber, mut reports) = started();
        block_on(async {
            assert!(reports.next().await.is_empty(), "there is no link");
            drop(plumber);
            while reports.0.recv().await.is_some() {}
        });
    }
}
