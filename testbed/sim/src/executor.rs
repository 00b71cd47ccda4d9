//! Virtual time: a single-threaded executor and the `quinn::Runtime` on top of it.
//!
//! The clock stands still while tasks run and jumps to the next event when none can.
//! Events of one instant happen in the order in which they were scheduled, so a run
//! depends on nothing but its inputs.

mod queue;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TimeSource};

use queue::{ITEMS, Queue, Scheduled};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs tasks and hands out the events of the virtual network, one instant at a time.
pub(crate) struct Executor {
    core: Arc<Core>,
    tasks: Vec<Option<Running>>,
    free: Vec<usize>,
}

/// A task with what wakes it.
struct Running {
    task: Task,
    queued: Arc<TaskWaker>,
    waker: Waker,
}

impl Executor {
    /// An executor whose virtual time starts at `epoch`.
    pub(crate) fn new(epoch: Instant) -> Self {
        Self {
            core: Arc::new(Core {
                epoch,
                now_ns: AtomicU64::new(0),
                ready: Arc::default(),
                spawned: Mutex::default(),
                has_spawned: AtomicBool::new(false),
                events: Mutex::default(),
            }),
            tasks: Vec::new(),
            free: Vec::new(),
        }
    }

    /// What tasks, timers and the network share with this executor.
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Runs every task and event up to and including `until`, then stands there.
    ///
    /// `on_link` is called for each link wake-up asked for with [`Core::schedule_link`].
    pub(crate) fn run_until(&mut self, until: Instant, mut on_link: impl FnMut(Instant, usize)) {
        let until_ns = self.core.nanos(until);
        loop {
            self.run_ready();
            let Some(fired) = self.core.next_event(until_ns) else {
                break;
            };
            match fired {
                Fired::Timer(waker) => waker.wake(),
                Fired::Link(link) => on_link(self.core.now(), link),
                Fired::Nothing => {}
            }
        }
        self.core.advance(until);
    }

    fn run_ready(&mut self) {
        self.adopt_spawned();
        while let Some(id) = self.core.ready.pop() {
            let Some(running) = &mut self.tasks[id] else {
                continue;
            };
            running.queued.queued.store(false, Ordering::Relaxed);
            let mut context = Context::from_waker(&running.waker);
            if running.task.as_mut().poll(&mut context).is_ready() {
                self.tasks[id] = None;
                self.free.push(id);
            }
            self.adopt_spawned();
        }
    }

    fn adopt_spawned(&mut self) {
        if !self.core.has_spawned.load(Ordering::Relaxed) {
            return;
        }
        self.core.has_spawned.store(false, Ordering::Relaxed);
        for task in std::mem::take(&mut *lock(&self.core.spawned)) {
            // A finished task's number is given again; a late wake-up of the old one
            // polls the new one once too often, which every future must allow.
            let id = self.free.pop().unwrap_or_else(|| {
                self.tasks.push(None);
                self.tasks.len() - 1
            });
            let queued = Arc::new(TaskWaker {
                id,
                queued: AtomicBool::new(true),
                ready: self.core.ready.clone(),
            });
            self.tasks[id] = Some(Running {
                task,
                waker: Waker::from(queued.clone()),
                queued,
            });
            self.core.ready.push(id);
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("now", &self.core.elapsed())
            .field("tasks", &(self.tasks.len() - self.free.len()))
            .finish()
    }
}

/// Clock, event queue and task queue: everything that outlives a borrow of the executor.
pub(crate) struct Core {
    epoch: Instant,
    now_ns: AtomicU64,
    ready: Arc<Ready>,
    spawned: Mutex<Vec<Task>>,
    has_spawned: AtomicBool,
    events: Mutex<Events>,
}

impl Core {
    /// The present virtual instant.
    pub(crate) fn now(&self) -> Instant {
        self.epoch + self.elapsed()
    }

    /// Virtual time since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now_ns.load(Ordering::Relaxed))
    }

    /// Adds a task; it is first polled at the present instant.
    pub(crate) fn spawn(&self, task: Task) {
        lock(&self.spawned).push(task);
        self.has_spawned.store(true, Ordering::Relaxed);
    }

    /// Asks for a link wake-up at `at` (or now, if that has passed).
    pub(crate) fn schedule_link(&self, at: Instant, link: usize) {
        let at = self.nanos(at);
        lock(&self.events).queue.push(at, Event::Link(link).item());
    }

    fn nanos(&self, at: Instant) -> u64 {
        let ns = at.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    fn advance(&self, to: Instant) {
        let to = self.nanos(to);
        debug_assert!(
            to >= self.now_ns.load(Ordering::Relaxed),
            "virtual time never goes back"
        );
        self.now_ns.store(to, Ordering::Relaxed);
    }

    /// Moves the clock to the next event that is due by `until` and takes it.
    fn next_event(&self, until: u64) -> Option<Fired> {
        let mut events = lock(&self.events);
        let at = events.queue.next().filter(|at| *at <= until)?;
        let event = events.queue.pop()?;
        let now = at.max(self.now_ns.load(Ordering::Relaxed));
        self.now_ns.store(now, Ordering::Relaxed);
        Some(match Event::of(event.item) {
            Event::Link(link) => Fired::Link(link),
            Event::Timer(slot) => events.fire_timer(slot, event),
        })
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("now", &self.elapsed())
            .finish_non_exhaustive()
    }
}

/// A quinn runtime in virtual time. Clones share one clock.
#[derive(Debug, Clone)]
pub struct SimRuntime(pub(crate) Arc<Core>);

impl SimRuntime {
    /// Virtual time since the run began.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Completes when virtual time reaches `at`, at once if it has passed.
    pub async fn sleep_until(&self, at: Instant) {
        let mut timer = self.new_timer(at);
        std::future::poll_fn(|cx| timer.as_mut().poll(cx)).await;
    }

    /// The instant at which virtual time began.
    pub fn epoch(&self) -> Instant {
        self.0.epoch
    }
}

impl Runtime for SimRuntime {
    fn new_timer(&self, i: Instant) -> Pin<Box<dyn AsyncTimer>> {
        let at = self.0.nanos(i);
        Box::pin(SimTimer {
            slot: lock(&self.0.events).new_timer(at),
            core: self.0.clone(),
        })
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(future);
    }

    fn wrap_udp_socket(&self, _: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "a kernel socket cannot run in virtual time; bind one on the simulated network",
        ))
    }

    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// The date of servers' tokens: virtual time began with the Unix epoch.
impl TimeSource for SimRuntime {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.0.elapsed()
    }
}

/// A timer of virtual time.
#[derive(Debug)]
struct SimTimer {
    core: Arc<Core>,
    slot: usize,
}

impl AsyncTimer for SimTimer {
    fn reset(self: Pin<&mut Self>, i: Instant) {
        let at = self.core.nanos(i);
        lock(&self.core.events).reset_timer(self.slot, at);
    }

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let now = self.core.now_ns.load(Ordering::Relaxed);
        let mut events = lock(&self.core.events);
        let timer = &mut events.timers[self.slot];
        if timer.deadline <= now {
            return Poll::Ready(());
        }
        match &mut timer.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for SimTimer {
    fn drop(&mut self) {
        lock(&self.core.events).free_timer(self.slot);
    }
}

/// What is to happen, in order of time and, within an instant, of scheduling.
#[derive(Default)]
struct Events {
    queue: Queue,
    timers: Vec<Timer>,
    free: Vec<usize>,
}

/// quinn moves its timers with almost every packet, mostly to a later instant. A timer
/// therefore keeps at most one *useful* heap entry, which is pushed on when it fires early.
#[derive(Default)]
struct Timer {
    /// How many events were scheduled before it: those of earlier timers in its slot are leftovers.
    born: u64,
    deadline: u64,
    /// Time of the heap entry that counts; others of this timer are leftovers.
    scheduled: Option<u64>,
    waker: Option<Waker>,
}

impl Events {
    fn new_timer(&mut self, at: u64) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.timers.push(Timer::default());
            self.timers.len() - 1
        });
        self.timers[slot].born = self.queue.scheduled();
        self.reset_timer(slot, at);
        slot
    }

    fn reset_timer(&mut self, slot: usize, at: u64) {
        let timer = &mut self.timers[slot];
        timer.deadline = at;
        if timer.scheduled.is_none_or(|scheduled| at < scheduled) {
            timer.scheduled = Some(at);
            self.queue.push(at, Event::Timer(slot).item());
        }
    }

    fn free_timer(&mut self, slot: usize) {
        let timer = &mut self.timers[slot];
        timer.scheduled = None;
        timer.waker = None;
        self.free.push(slot);
    }

    fn fire_timer(&mut self, slot: usize, Scheduled { at, number, .. }: Scheduled) -> Fired {
        let timer = &mut self.timers[slot];
        if number <= timer.born || timer.scheduled != Some(at) {
            return Fired::Nothing;
        }
        if timer.deadline > at {
            timer.scheduled = Some(timer.deadline);
            self.queue.push(timer.deadline, Event::Timer(slot).item());
            return Fired::Nothing;
        }
        timer.scheduled = None;
        timer.waker.take().map_or(Fired::Nothing, Fired::Timer)
    }
}

enum Fired {
    Timer(Waker),
    Link(usize),
    Nothing,
}

enum Event {
    Timer(usize),
    Link(usize),
}

impl Event {
    /// What stands for it in the queue: twice its index, and one more for a link.
    fn item(self) -> u32 {
        let (Self::Timer(index) | Self::Link(index)) = self;
        let item = 2 * index + usize::from(matches!(self, Self::Link(_)));
        let item = u32::try_from(item).ok().filter(|item| *item < ITEMS);
        item.expect("eight million links or timers fill the memory")
    }

    fn of(item: u32) -> Self {
        let index = (item / 2) as usize;
        match item % 2 {
            0 => Self::Timer(index),
            _ => Self::Link(index),
        }
    }
}

/// Numbers of the tasks to poll, in order.
#[derive(Default)]
struct Ready {
    /// Most events make no task ready: spares a look at the queue.
    any: AtomicBool,
    queue: Mutex<VecDeque<usize>>,
}

impl Ready {
    fn push(&self, id: usize) {
        lock(&self.queue).push_back(id);
        self.any.store(true, Ordering::Relaxed);
    }

    fn pop(&self) -> Option<usize> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let mut queue = lock(&self.queue);
        let id = queue.pop_front();
        self.any.store(!queue.is_empty(), Ordering::Relaxed);
        id
    }
}

struct TaskWaker {
    id: usize,
    queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // One thread runs the simulation: nothing comes between the two.
        if !self.queued.load(Ordering::Relaxed) {
            self.queued.store(true, Ordering::Relaxed);
            self.ready.push(self.id);
        }
    }
}

/// One thread runs the simulation, so a lock is only ever poisoned by our own panic.
pub fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .expect("the simulation has one thread, which panicked")
}

#[cfg(test)]
mod tests;
