//! A scenario on this machine's kernel: namespaces, veth pairs, router daemons over TUN, and the
//! `evenkeel` program inside.

mod cross;
mod flows;
mod netem;
mod options;
mod place;
mod plan;
mod process;
mod received;
mod records;
mod routers;
mod sandbox;
mod sender;
mod site;
mod stream;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use cross::{udp_sink, udp_source};

use super::clock::{pause, wall_clock};
use super::docker::DockerError;
use crate::metrics::{FlowObservation, Observations};
use crate::scenario::{App, Emulator, FlowSpec, LinkSpec, Scenario};
use crate::sim::{BuildError, Simulation};
use cross::CrossTraffic;
use flows::Flow;
use routers::Routers;
use sandbox::Sandbox;
use stream::Stream;

pub(super) use place::Place;
pub(super) use plan::{Plan, absolute};
pub(super) use sandbox::{SETTINGS, is_alive, node_commands, own_identity};
pub(super) use site::Site;

/// Where the programs are that a run starts, if not beside this one.
const PROGRAMS: &str = "EVENKEEL_BIN_DIR";

/// Why a scenario could not be run on the kernel.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// This process lacks the rights.
    #[error(
        "namespaces need root (CAP_NET_ADMIN and CAP_SYS_ADMIN); run as root, or use --on uml or --on sim"
    )]
    NotRoot,
    /// There is no TUN.
    #[error(
        "/dev/net/tun is missing; load the tun module (modprobe tun), or use --on uml or --on sim"
    )]
    NoTun,
    /// There is no proc(5).
    #[error("/proc cannot be read; mount it, or use --on uml or --on sim")]
    NoProc,
    /// The `ip` program is missing.
    #[error("cannot run ip: {0}; install iproute2")]
    NoIp(io::Error),
    /// A program cannot be started on a node.
    #[error("cannot start {what}: {source}; install iproute2, or Docker for --on docker")]
    Start {
        /// Which.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// A program of ours is missing.
    #[error("{path} is missing; build it with cargo build --release -p {package}, or say where it is with {PROGRAMS}", path = .path.display())]
    NoProgram {
        /// Where it was looked for.
        path: PathBuf,
        /// The crate that it belongs to.
        package: &'static str,
    },
    /// A directory or file of the run cannot be made.
    #[error("cannot write {path}: {source}", path = .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused a namespace, device, address or route.
    #[error("cannot set up the network: {message}")]
    Setup {
        /// What `ip` said.
        message: String,
    },
    /// The scenario has something that this backend cannot do.
    #[error(
        "flow {flow}: ON/OFF users that keep their connection run in virtual time only; use reconnect = true, or --on sim"
    )]
    Unsupported {
        /// The flow's name.
        flow: String,
    },
    /// A link is to be netem's and cannot be.
    #[error("link {link}: netem cannot do {key}; leave out emulator = \"netem\" or {key}")]
    BeyondNetem {
        /// The link's name.
        link: String,
        /// The key of the scenario.
        key: &'static str,
    },
    /// A link is to be netem's, and the kernel has none.
    #[error(
        "link {link} wants netem, which this kernel lacks (modules sch_netem, ifb, act_mirred, cls_matchall); use --on uml, or leave out emulator = \"netem\""
    )]
    NoNetem {
        /// The link's name.
        link: String,
    },
    /// A link cannot be built as the scenario says.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The nodes are to be containers and cannot be.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// A flow names a controller that does not exist.
    #[error("flow {flow}: {source}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// What is wrong.
        source: evenkeel::SpecError,
    },
    /// No such host in the scenario.
    #[error("no host {name:?}; the scenario has {known}")]
    UnknownHost {
        /// What was asked for.
        name: String,
        /// The hosts there are.
        known: String,
    },
    /// A child ended by itself.
    #[error("{what} ended: {reason}")]
    Died {
        /// Which.
        what: String,
        /// Its last words.
        reason: String,
    },
    /// A child said nothing for too long.
    #[error("{what} does not answer")]
    Silent {
        /// Which.
        what: String,
    },
    /// A child said something else than documented.
    #[error("{what} gave no sensible answer: {reason}")]
    Protocol {
        /// Which.
        what: String,
        /// What was wrong with it.
        reason: String,
    },
    /// The user interrupted the run.
    #[error("interrupted; nothing was left behind")]
    Interrupted,
}

impl NetnsError {
    /// Whether the scenario or the command is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Build(_)
                | Self::Unsupported { .. }
                | Self::BeyondNetem { .. }
                | Self::Controller { .. }
                | Self::UnknownHost { .. }
        ) || matches!(self, Self::Docker(error) if error.is_usage())
    }
}

/// Whether this machine and `scenario` can do it; touches nothing.
///
/// # Errors
/// See [`NetnsError`].
pub fn check(scenario: &Scenario) -> Result<(), NetnsError> {
    check_scenario(scenario)?;
    sandbox::may_administer()?;
    if !Path::new("/dev/net/tun").exists() {
        return Err(NetnsError::NoTun);
    }
    Ok(())
}

/// Whether any Linux could run `scenario` with the programs there are, whoever asks; touches nothing.
///
/// # Errors
/// See [`NetnsError`].
pub fn check_scenario(scenario: &Scenario) -> Result<(), NetnsError> {
    check_plan(scenario)?;
    program("evenkeel", "evenkeel-apps")?;
    program("evenkeel-router", "evenkeel-router").map(|_| ())
}

/// Whether `scenario` can be nodes of a kernel, with programs from anywhere.
pub(super) fn check_plan(scenario: &Scenario) -> Result<(), NetnsError> {
    // What virtual time cannot build, the routers would refuse one by one.
    Simulation::new(scenario)?;
    for link in with_netem(scenario) {
        if let Some(key) = plan::beyond_netem(link) {
            return Err(NetnsError::BeyondNetem {
                link: link.name.clone(),
                key,
            });
        }
    }
    for spec in &scenario.flows {
        evenkeel::controller(&spec.controller).map_err(|source| NetnsError::Controller {
            flow: spec.name.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Runs `scenario` in real time. `progress` is told how far it has come, once per sampling
/// interval; `interrupted` ends the run. Whatever ends it, nothing is left behind.
///
/// # Errors
/// See [`NetnsError`]. A flow whose connection fails is not an error of the run: its
/// observation says so.
pub fn run(
    scenario: &Scenario,
    interrupted: &Arc<AtomicBool>,
    progress: impl FnMut(Duration),
) -> Result<Observations, NetnsError> {
    check(scenario)?;
    run_on(&Sandbox::new()?, scenario, interrupted, progress)
}

/// Runs `scenario` on nodes and links of `site`'s.
pub(super) fn run_on(
    site: &dyn Site,
    scenario: &Scenario,
    interrupted: &Arc<AtomicBool>,
    mut progress: impl FnMut(Duration),
) -> Result<Observations, NetnsError> {
    let evenkeel = site.program("evenkeel", "evenkeel-apps")?;
    let testbed = site.program("evenkeel-testbed", "evenkeel-testbed")?;
    let plan = site.build(scenario, interrupted)?;
    let mut flows = Vec::new();
    for (index, spec) in scenario.flows.iter().enumerate() {
        flows.push(AnyFlow::start(scenario, &plan, index, spec, &evenkeel)?);
    }
    let mut cross = Vec::new();
    for (index, spec) in scenario.cross.iter().enumerate() {
        cross.push(CrossTraffic::start(scenario, &plan, index, spec, &testbed)?);
    }
    // Their clocks, by which links change, start with them: so they come last.
    let router = site.program("evenkeel-router", "evenkeel-router")?;
    let mut netem = netem::Followed::start(scenario, &plan)?;
    let mut routers = Routers::start(scenario, &plan, site, &router)?;

    let epoch = wall_clock();
    flows.iter_mut().for_each(|flow| flow.begin(epoch));
    cross.iter_mut().for_each(CrossTraffic::begin);
    let wait_until = |at: Duration| wait_until(epoch + at, interrupted);
    let mut warm = false;
    let mut sample_at = scenario.sampling_interval;
    loop {
        let stop = sample_at.min(scenario.duration);
        if !warm && scenario.warmup <= stop {
            wait_until(scenario.warmup)?;
            routers.restart_measurement()?;
            netem.restart_measurement()?;
            warm = true;
        }
        wait_until(stop)?;
        routers.sample()?;
        netem.sample()?;
        routers.check()?;
        for flow in &mut flows {
            flow.sample(epoch)?;
        }
        cross.iter_mut().try_for_each(CrossTraffic::check)?;
        progress(stop);
        if stop == scenario.duration {
            break;
        }
        sample_at += scenario.sampling_interval;
    }
    let mut links = routers.finish()?;
    netem.finish(&mut links)?;
    let finish = |flow: AnyFlow| flow.finish(epoch, scenario.sampling_interval);
    let flows: Vec<_> = flows.into_iter().map(finish).collect();
    // Only the senders say what they sent; what receivers sent back is not counted here.
    let packets_sent = flows.iter().map(|flow| flow.sent_packets).sum();
    Ok(Observations {
        flows,
        links,
        packets_sent,
    })
}

/// A flow of a run, whatever its application.
enum AnyFlow {
    Bulk(Box<Flow>),
    Stream(Box<Stream>),
}

impl AnyFlow {
    fn start(
        scenario: &Scenario,
        plan: &Plan,
        index: usize,
        spec: &FlowSpec,
        program: &Path,
    ) -> Result<Self, NetnsError> {
        Ok(match &spec.app {
            App::Stream(stream) => Self::Stream(Box::new(Stream::start(
                scenario, plan, index, spec, stream, program,
            )?)),
            _ => Self::Bulk(Box::new(Flow::start(scenario, plan, index, spec, program)?)),
        })
    }

    fn begin(&mut self, epoch: Instant) {
        match self {
            Self::Bulk(flow) => flow.begin(epoch),
            Self::Stream(stream) => stream.begin(epoch),
        }
    }

    fn sample(&mut self, epoch: Instant) -> Result<(), NetnsError> {
        match self {
            Self::Bulk(flow) => flow.sample(),
            Self::Stream(stream) => stream.sample(epoch),
        }
    }

    fn finish(self, epoch: Instant, interval: Duration) -> FlowObservation {
        match self {
            Self::Bulk(flow) => flow.finish(epoch, interval),
            Self::Stream(stream) => stream.finish(epoch, interval),
        }
    }
}

/// Runs `command` on a host of the scenario (the first one if none is named), with all links and
/// routers but without the scenario's traffic; its exit status.
///
/// The hosts' names are in /etc/hosts there, and `EVENKEEL_NETNS_HOST` holds the name of each host's
/// namespace, for programs that need a partner on another host (`ip netns exec`).
///
/// # Errors
/// See [`NetnsError`].
pub fn exec(
    scenario: &Scenario,
    host: Option<&str>,
    command: &[String],
    interrupted: &Arc<AtomicBool>,
) -> Result<ExitStatus, NetnsError> {
    check(scenario)?;
    exec_on(
        &Sandbox::new()?,
        scenario,
        host,
        command,
        interrupted,
        |plan, _, command| {
            let namespaces = plan.namespaces.iter().map(|n| (variable(&n.host), &n.name));
            command.envs(namespaces);
            Ok(())
        },
    )
}

/// Runs `command` on a host of `site`'s; `prepare` is told the network and the host's node, and has
/// the command before it starts.
pub(super) fn exec_on(
    site: &dyn Site,
    scenario: &Scenario,
    host: Option<&str>,
    command: &[String],
    interrupted: &Arc<AtomicBool>,
    prepare: impl FnOnce(&Plan, usize, &mut Command) -> Result<(), NetnsError>,
) -> Result<ExitStatus, NetnsError> {
    let node = match host {
        None => 0,
        Some(name) => find_host(scenario, name)?,
    };
    let router = site.program("evenkeel-router", "evenkeel-router")?;
    let plan = site.build(scenario, interrupted)?;
    let mut routers = Routers::start(scenario, &plan, site, &router)?;
    let (program, arguments) = command.split_first().expect("there is a program");
    let place = &plan.namespaces[node].place;
    let (mut command, handle) = place.command(Path::new(program));
    command.args(arguments);
    prepare(&plan, node, &mut command)?;
    let failed = |source| NetnsError::Start {
        what: program.clone(),
        source,
    };
    let mut child = command.spawn().map_err(failed)?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        let pause = wait_until(wall_clock() + Duration::from_millis(20), interrupted);
        if let Err(error) = pause.and_then(|()| routers.check()) {
            handle.interrupt(&child);
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    }
}

/// The links that have to be netem's.
pub(super) fn with_netem(scenario: &Scenario) -> impl Iterator<Item = &LinkSpec> {
    let links = scenario.links.iter();
    links.filter(|link| link.emulator == Emulator::Netem)
}

/// The environment variable that names a host's namespace: letters and digits of its name stay.
fn variable(host: &str) -> String {
    let name = host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    "EVENKEEL_NETNS_".chars().chain(name).collect()
}

fn find_host(scenario: &Scenario, name: &str) -> Result<usize, NetnsError> {
    let position = scenario.nodes.iter().position(|node| node.name == name);
    position.ok_or_else(|| NetnsError::UnknownHost {
        name: name.into(),
        known: scenario
            .nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

fn wait_until(at: Instant, interrupted: &AtomicBool) -> Result<(), NetnsError> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(NetnsError::Interrupted);
        }
        let left = at.saturating_duration_since(wall_clock());
        if left.is_zero() {
            return Ok(());
        }
        pause(left.min(Duration::from_millis(20)));
    }
}

/// A program of ours, beside this one or where [`PROGRAMS`] says.
fn program(name: &str, package: &'static str) -> Result<PathBuf, NetnsError> {
    let directory = match std::env::var_os(PROGRAMS) {
        Some(directory) => PathBuf::from(directory),
        None => {
            let own = std::env::current_exe().map_err(|_| NetnsError::NoProc)?;
            own.parent().map(Path::to_owned).unwrap_or_default()
        }
    };
    let path = directory.join(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(NetnsError::NoProgram { path, package })
    }
}
