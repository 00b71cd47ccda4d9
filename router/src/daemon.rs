//! Runs the router: from a configuration to forwarded packets, and back to a clean host.

mod reload;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::io::{self, Write};
use std::path::{self, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use evenkeel_sandbox::{Confinement, Held};
use rustix::rand::{GetRandomFlags, getrandom};
use sd_notify::NotifyState;
use tokio::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Mutex;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tracing::{debug, info, warn};

pub(crate) use self::reload::keep_tables;
use crate::clock;
use crate::config::{Config, LinkSpec};
use crate::confinement;
use crate::device::{Device, Opened};
use crate::failure::Failure;
use crate::forwarder::Forwarder;
use crate::metrics::{Endpoint, Figures};
use crate::netlink::Netlink;
use crate::plumber::{Plumber, Reports};
use crate::plumbing::{Counts, Found, Lack, Plumbing};
use crate::preflight;
use crate::status::{Answer, LinkStatus, Meter, Request, Server, Status};
use crate::supervisor;
use crate::transit::Transit;

/// A link of a running router.
struct Line {
    /// What forwards its packets.
    task: RefCell<Option<AbortHandle>>,
    meter: RefCell<Meter>,
    forwarder: RefCell<Forwarder>,
}

/// A running router, as its status socket sees it.
struct Router {
    began: Instant,
    plumber: Plumber,
    /// Held by the reload in progress.
    reloading: Mutex<()>,
    /// In the order of the configuration.
    lines: RefCell<Vec<Rc<Line>>>,
    config: RefCell<Config>,
    /// Where the configuration is read again.
    path: PathBuf,
    /// When it was read last and taken over, and how often it was read again.
    read: Cell<(Instant, u64)>,
    flow_hash_key: [u8; 16],
    tasks: RefCell<JoinSet<Failure>>,
    /// `None` if it keeps all its rights.
    confinement: Option<(Confinement, Held)>,
}

/// How many tasks tokio polls between two looks at sockets and timers: with its own 61, a flood on
/// one link would keep the others waiting for milliseconds.
const EVENT_INTERVAL: u32 = 4;

/// Runs a router until a signal stops it (SIGINT, SIGTERM), and removes what it installed. SIGHUP
/// and requests on its socket make it read its configuration at `path` again. Confined, it gives up
/// the rights that it does not need before it forwards.
///
/// # Errors
/// If it cannot start, or loses a device.
pub(crate) fn run(config: Config, path: PathBuf, confined: bool) -> Result<(), Failure> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .build()
        .map_err(Failure::system("the event loop"))?;
    LocalSet::new().block_on(&runtime, route(config, path, confined))
}

async fn route(config: Config, path: PathBuf, confined: bool) -> Result<(), Failure> {
    // First: from here on a signal no longer ends the process at once.
    let listen = |kind| signal(kind).map_err(Failure::system("listening to signals"));
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let hangup = listen(SignalKind::hangup())?;
    let server = Server::bind(&config.socket)?;
    let metrics = config.metrics.as_ref().map(Endpoint::bind).transpose()?;
    let mut netlink = Netlink::open().map_err(Failure::system("netlink"))?;
    preflight::examine(&config, &BTreeSet::new(), &mut netlink)?;
    for warning in preflight::warnings(&config) {
        warn!("{warning}");
    }
    let flow_hash_key = secret().map_err(Failure::system("the random number generator"))?;
    let began = clock::now();
    let transits = (0..config.links.len())
        .map(|index| build(&config, index, flow_hash_key, began))
        .collect::<Result<Vec<_>, _>>()?;
    let (plumbing, tuns) = Plumbing::install(&config, netlink)?;
    let links = config.links.iter().zip(transits).zip(tuns);
    let lines = links.map(|((link, transit), tun)| Line::new(link, transit, tun));
    let lines = lines.collect::<Result<_, _>>()?;
    let confine = || confinement::rights(&config, &path).confine();
    let confinement = confined.then(confine).transpose().map_err(Failure::new)?;
    debug!(?confinement, "rights given up");
    let plumber = Plumber::start(plumbing);
    let (plumber, reports) = plumber.map_err(Failure::system("the thread for routes"))?;
    let router = Rc::new(Router {
        began,
        plumber,
        reloading: Mutex::default(),
        lines: RefCell::new(lines),
        config: RefCell::new(config),
        path,
        read: Cell::new((began, 0)),
        flow_hash_key,
        tasks: RefCell::default(),
        confinement,
    });
    for line in router.lines.borrow().iter() {
        router.start(line);
    }
    router.spawn(watch(Rc::clone(&router), reports));
    router.spawn(reload_at(hangup, Rc::clone(&router)));
    if let Some(metrics) = metrics {
        // It has the rights that this thread has by now.
        let scrapes = metrics
            .serve()
            .map_err(Failure::system("a thread for metrics"))?;
        let answering = Rc::clone(&router);
        router.spawn(
            async move { match scrapes.answer(async || answering.figures().await).await {} },
        );
    }
    let answering = Rc::clone(&router);
    router.spawn(async move {
        server
            .serve(move |request| {
                let router = Rc::clone(&answering);
                async move { router.answer(request).await }
            })
            .await;
        unreachable!("it serves for ever")
    });
    announce(&router.config.borrow());
    supervisor::tell(NotifyState::Ready);
    let ended = tokio::select! {
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
        ended = router.failure() => Err(ended),
    };
    supervisor::tell(NotifyState::Stopping);
    // The tasks share the router: once they end, it is dropped and the host is clean.
    let mut tasks = router.tasks.take();
    tasks.shutdown().await;
    ended
}

/// Makes the link at this position.
fn build(
    config: &Config,
    index: usize,
    flow_hash_key: [u8; 16],
    now: Instant,
) -> Result<Transit, Failure> {
    let link = &config.links[index];
    let transit = Transit::new(now, link, config.seed, index, flow_hash_key);
    transit.map_err(|error| Failure::new(format!("link {}: {error}", link.name)))
}

impl Router {
    /// Starts to forward on a line, or goes on with what has changed there.
    fn start(&self, line: &Rc<Line>) {
        let task = self.spawn(forward(Rc::clone(line)));
        line.stop();
        *line.task.borrow_mut() = Some(task);
    }

    fn spawn(&self, task: impl Future<Output = Failure> + 'static) -> AbortHandle {
        self.tasks.borrow_mut().spawn_local(task)
    }

    /// Waits until a task cannot go on.
    async fn failure(&self) -> Failure {
        loop {
            match poll_fn(|cx| self.tasks.borrow_mut().poll_join_next(cx)).await {
                Some(Ok(error)) => return error,
                Some(Err(stopped)) if stopped.is_cancelled() => {}
                // Our bug: the panic continues, and unwinding removes what is installed.
                Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
                None => unreachable!("the status socket is served for ever"),
            }
        }
    }

    async fn answer(&self, request: Request) -> Answer {
        let obeyed = match &request {
            Request::Reload => self.reload().await,
            Request::Check(path) => self.check(path).await,
            _ => Ok(()),
        };
        if let Err(error) = obeyed {
            return Answer::Error {
                error: error.to_string(),
                configuration: error.is_usage(),
            };
        }
        let counts = self.plumber.ask(Plumbing::counts).await;
        let now = clock::now();
        let lines = self.lines.borrow();
        match counts {
            Ok(counts) => Answer::Status(Status {
                router: self.config.borrow().name.clone(),
                pid: std::process::id(),
                sandbox: self.confinement.as_ref().map(|(state, _)| state.clone()),
                uptime_s: now.saturating_duration_since(self.began).as_secs_f64(),
                config: path::absolute(&self.path).unwrap_or_else(|_| self.path.clone()),
                reloads: self.read.get().1,
                config_read_s: now
                    .saturating_duration_since(self.read.get().0)
                    .as_secs_f64(),
                links: lines
                    .iter()
                    .map(|line| line.answer(&request, &counts, now))
                    .collect(),
            }),
            Err(error) => Answer::Error {
                error: format!("cannot read a device's counters: {error}"),
                configuration: false,
            },
        }
    }

    /// Returns all figures; `None` if the kernel does not tell its counters.
    async fn figures(&self) -> Option<Figures> {
        let Answer::Status(status) = self.answer(Request::Status).await else {
            return None;
        };
        let now = clock::now();
        let lines = self.lines.borrow();
        let sojourns = lines.iter().map(|line| {
            let mut forwarder = line.forwarder.borrow_mut();
            forwarder.transit.link.stats(now).sojourn_total()
        });
        Some(Figures {
            status,
            sojourns: sojourns.collect(),
        })
    }

    /// Notes what links lack. Returns an error if one has no device any more.
    fn note(&self, found: Vec<Found>) -> Result<(), Failure> {
        for Found {
            tun,
            lack,
            comes_round,
        } in found
        {
            let lines = self.lines.borrow();
            let mut lines = lines.iter();
            // It may just have been made, or be about to go.
            let Some(line) = lines.find(|line| line.meter.borrow().spec.tun == tun) else {
                continue;
            };
            let reason = match lack {
                Ok(()) => None,
                Err(Lack::Device(source)) => return Err(line.lost_device(source)),
                Err(Lack::Parts(parts)) => {
                    let mut reasons: Vec<_> = parts.iter().map(ToString::to_string).collect();
                    reasons.dedup();
                    Some(reasons.join("; "))
                }
            };
            line.note_lack(reason);
            line.forwarder.borrow_mut().transit.comes_round = comes_round;
        }
        Ok(())
    }

    /// Says what links lack, or how many forward.
    fn summary(&self) -> String {
        let lines = self.lines.borrow();
        let lacks: Vec<_> = lines.iter().filter_map(|line| line.lack()).collect();
        match lacks.is_empty() {
            true => format!("forwarding on {} links", lines.len()),
            false => lacks.join("; "),
        }
    }
}

impl Line {
    fn new(link: &LinkSpec, transit: Transit, tun: Opened) -> Result<Rc<Self>, Failure> {
        let forwarder = Device::read(tun)
            .and_then(|device| Forwarder::new(device, transit, link.timing))
            .map_err(Failure::system("a timer"))?;
        Ok(Rc::new(Self {
            task: RefCell::default(),
            meter: RefCell::new(Meter::new(link.clone())),
            forwarder: RefCell::new(forwarder),
        }))
    }

    fn stop(&self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    /// Figures for a request; `counts` by the names of the devices.
    fn answer(
        &self,
        request: &Request,
        counts: &HashMap<String, Counts>,
        now: Instant,
    ) -> LinkStatus {
        let mut meter = self.meter.borrow_mut();
        let mut forwarder = self.forwarder.borrow_mut();
        let transit = &mut forwarder.transit;
        // A link that has been made since has dropped nothing.
        let counts = counts.get(&meter.spec.tun).copied().unwrap_or_default();
        if *request == Request::Sample {
            return meter.sample(transit, counts, now);
        }
        if *request == Request::RestartMeasurement {
            meter.restart(transit, counts, now);
        }
        meter.status(transit, counts, now)
    }

    fn lack(&self) -> Option<String> {
        let meter = self.meter.borrow();
        let reason = meter.lack()?;
        Some(format!("link {} is degraded: {reason}", meter.spec.name))
    }

    fn note_lack(&self, reason: Option<String>) {
        let mut meter = self.meter.borrow_mut();
        if !meter.note_lack(reason.clone(), clock::now()) {
            return;
        }
        let link = &meter.spec.name;
        match reason {
            Some(reason) => warn!(link, "link {link} is degraded: {reason}"),
            None => info!(link, "link {link} has everything again"),
        }
    }

    fn lost_device(&self, source: io::Error) -> Failure {
        let meter = self.meter.borrow();
        let LinkSpec { name, tun, .. } = &meter.spec;
        Failure::new(format!(
            "link {name} has lost its TUN device {tun}: {source}; was it removed? start the router again"
        ))
    }
}

async fn forward(line: Rc<Line>) -> Failure {
    let source = poll_fn(|cx| line.forwarder.borrow_mut().turn(cx)).await;
    line.lost_device(source)
}

/// Hears what the thread finds that looks after the kernel's tables, and says how the router is.
async fn watch(router: Rc<Router>, mut reports: Reports) -> Failure {
    let mut told = String::new();
    loop {
        if let Err(error) = router.note(reports.next().await) {
            return error;
        }
        let summary = router.summary();
        // systemd kills a router that does not say so for too long.
        supervisor::tell(NotifyState::Watchdog);
        if summary != told {
            supervisor::tell(NotifyState::Status(&summary));
            told = summary;
        }
    }
}

async fn reload_at(mut hangup: Signal, router: Rc<Router>) -> Failure {
    loop {
        hangup.recv().await;
        // It has said in the log what is in the way.
        let _ = router.reload().await;
    }
}

/// Returns random bytes that nobody can guess.
fn secret() -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    // The kernel gives up to 256 bytes at once (getrandom(2)).
    getrandom(&mut secret, GetRandomFlags::empty())?;
    Ok(secret)
}

/// Tells a supervisor, in one line, that the router now forwards packets.
fn announce(config: &Config) {
    let links: Vec<_> = config.links.iter().map(|link| &link.name[..]).collect();
    let mut stdout = io::stdout().lock();
    // A supervisor that has closed the pipe does not want the line.
    let _ = writeln!(
        stdout,
        "ready name={} pid={} links={}",
        config.name,
        std::process::id(),
        links.join(",")
    );
    let _ = stdout.flush();
}
