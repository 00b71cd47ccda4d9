//! Runs the router: from a configuration to forwarded packets, and back to a clean host.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use evenkeel_queue::LinkError;
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::timeout;
use tracing::debug;

use crate::clock;
use crate::complaint::complain;
use crate::config::Config;
use crate::forwarder::Forwarder;
use crate::host::HostError;
use crate::netlink::{Events, Netlink};
use crate::plumbing::{Lack, Plumbing, SetupError};
use crate::preflight;
use crate::status::{Answer, LinkStatus, Meter, Request, Server, SocketError, Status};
use crate::transit::Transit;

/// Why a router did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The host does not allow it.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The kernel refused something.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// There is no status socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A link cannot be built.
    #[error("link {name}: {source}")]
    Link {
        /// The link's name.
        name: String,
        /// The error.
        source: LinkError,
    },
    /// A device stopped working.
    #[error(
        "link {name} has lost its TUN device {tun}: {source}; was it removed? start the router again"
    )]
    Device {
        /// The link's name.
        name: String,
        /// The device's name.
        tun: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The system refused something that it normally grants.
    #[error("cannot start {what}: {source}; are there too many open files or processes?")]
    System {
        /// What the router asked for.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// A link of a running router.
struct Line {
    meter: RefCell<Meter>,
    forwarder: RefCell<Forwarder>,
}

/// A running router, as its status socket sees it.
struct Router {
    name: String,
    began: Instant,
    plumbing: RefCell<Plumbing>,
    lines: Vec<Rc<Line>>,
}

/// How many tasks tokio polls between two looks at sockets and timers: with its own 61, a flood on
/// one link would keep the others waiting for milliseconds.
const EVENT_INTERVAL: u32 = 4;

/// How often to look whether links have what they need, and how often at most to put back what
/// another program keeps taking away.
const CHECK: Duration = Duration::from_secs(1);

/// Runs a router until a signal stops it (SIGINT, SIGTERM, SIGHUP), and removes what it installed.
///
/// # Errors
/// [`RunError`] if it cannot start, or loses a device.
pub(crate) fn run(config: &Config) -> Result<(), RunError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(EVENT_INTERVAL)
        .build()
        .map_err(system("the event loop"))?;
    LocalSet::new().block_on(&runtime, route(config))
}

async fn route(config: &Config) -> Result<(), RunError> {
    // First: from here on a signal no longer ends the process at once.
    let mut signals = Signals::listen().map_err(system("listening to signals"))?;
    let server = Server::bind(&config.socket)?;
    let mut netlink = Netlink::open().map_err(system("netlink"))?;
    let events = Events::listen().map_err(system("listening to netlink"))?;
    preflight::examine(config, &mut netlink)?;
    let flow_hash_key = secret().map_err(system("the random number generator"))?;
    let began = clock::now();
    let transits: Vec<_> = config
        .links
        .iter()
        .enumerate()
        .map(|(index, link)| {
            Transit::new(began, link, config.seed, index, flow_hash_key).map_err(|source| {
                RunError::Link {
                    name: link.name.clone(),
                    source,
                }
            })
        })
        .collect::<Result<_, _>>()?;
    let (plumbing, tuns) = Plumbing::install(config, netlink)?;

    let mut lines = Vec::new();
    for ((link, transit), tun) in config.links.iter().zip(transits).zip(tuns) {
        let forwarder = Forwarder::new(tun, transit, link.timing).map_err(system("a timer"))?;
        lines.push(Rc::new(Line {
            meter: RefCell::new(Meter::new(link.clone())),
            forwarder: RefCell::new(forwarder),
        }));
    }
    let router = Rc::new(Router {
        name: config.name.clone(),
        began,
        plumbing: RefCell::new(plumbing),
        lines,
    });
    let mut tasks = JoinSet::new();
    for line in &router.lines {
        tasks.spawn_local(forward(Rc::clone(line)));
    }
    tasks.spawn_local(watch(Rc::clone(&router), events));
    let answering = Rc::clone(&router);
    tasks.spawn_local(async move {
        server
            .serve(Rc::new(move |request| answering.answer(request)))
            .await;
        unreachable!("it serves for ever")
    });
    announce(config);
    let ended = tokio::select! {
        () = signals.wait() => Ok(()),
        Some(ended) = tasks.join_next() => match ended {
            Ok(error) => Err(error),
            // Our bug: the panic continues, and unwinding removes what is installed.
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        },
    };
    // The tasks share the router: once they end, it is dropped and the host is clean.
    tasks.shutdown().await;
    ended
}

impl Router {
    fn answer(&self, request: Request) -> Answer {
        let now = clock::now();
        let links = self
            .lines
            .iter()
            .map(|line| self.answer_for(line, request, now));
        match links.collect::<io::Result<Vec<_>>>() {
            Ok(links) => Answer::Status(Status {
                router: self.name.clone(),
                pid: std::process::id(),
                uptime_s: now.saturating_duration_since(self.began).as_secs_f64(),
                links,
            }),
            Err(error) => Answer::Error {
                error: format!("cannot read a device's counters: {error}"),
            },
        }
    }

    fn answer_for(&self, line: &Line, request: Request, now: Instant) -> io::Result<LinkStatus> {
        let ring_dropped = self.ring_dropped(line)?;
        let mut meter = line.meter.borrow_mut();
        let mut forwarder = line.forwarder.borrow_mut();
        let transit = forwarder.transit();
        if request == Request::Sample {
            return Ok(meter.sample(transit, ring_dropped, now));
        }
        if request == Request::RestartMeasurement {
            meter.restart(transit, ring_dropped, now);
        }
        Ok(meter.status(transit, ring_dropped, now))
    }

    /// Puts back what links have lost. Returns an error if one has no device any more.
    fn mend(&self, thoroughly: bool) -> Result<(), RunError> {
        let lacks = self.plumbing.borrow_mut().mend(thoroughly);
        for (line, lack) in self.lines.iter().zip(lacks) {
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
        }
        Ok(())
    }

    fn is_degraded(&self) -> bool {
        self.lines
            .iter()
            .any(|line| line.meter.borrow().is_degraded())
    }

    fn ring_dropped(&self, line: &Line) -> io::Result<u64> {
        let mut plumbing = self.plumbing.borrow_mut();
        plumbing.ring_dropped(&line.meter.borrow().spec().tun)
    }
}

impl Line {
    fn note_lack(&self, reason: Option<String>) {
        let mut meter = self.meter.borrow_mut();
        let message = match &reason {
            Some(reason) => format!("link {} is degraded: {reason}", meter.spec().name),
            None => format!("link {} has everything again", meter.spec().name),
        };
        if meter.note_lack(reason, clock::now()) {
            complain(&message);
        }
    }

    fn lost_device(&self, source: io::Error) -> RunError {
        let meter = self.meter.borrow();
        RunError::Device {
            name: meter.spec().name.clone(),
            tun: meter.spec().tun.clone(),
            source,
        }
    }
}

/// The signals that stop a router.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn wait(&mut self) {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.hangup.recv() => "SIGHUP",
        };
        debug!(signal, "shutting down");
    }
}

async fn forward(line: Rc<Line>) -> RunError {
    let source = poll_fn(|cx| line.forwarder.borrow_mut().turn(cx)).await;
    line.lost_device(source)
}

/// Looks after what is installed in the kernel, at once when something changes there. What only the
/// files of /proc/sys/net tell is looked at every second.
async fn watch(router: Rc<Router>, events: Events) -> RunError {
    loop {
        let concerns = |route: &_| router.plumbing.borrow().concerns(route);
        let has_changed = timeout(CHECK, events.changed(concerns)).await.is_ok();
        if let Err(error) = router.mend(has_changed || router.is_degraded()) {
            return error;
        }
        if has_changed {
            clock::pause(CHECK).await;
        }
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

fn system(what: &'static str) -> impl FnOnce(io::Error) -> RunError {
    move |source| RunError::System { what, source }
}
