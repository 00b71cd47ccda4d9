//! Why a scenario could not be run on a kernel.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::scenario::Place;
use crate::sim::BuildError;

/// Names the directory with the programs that a run starts, if they are not beside this one.
pub(in crate::backend) const PROGRAMS: &str = "EVENKEEL_BIN_DIR";

/// The image of containers, as the repository's Dockerfile makes it of this version.
pub(in crate::backend) const IMAGE: &str = concat!("evenkeel:", env!("CARGO_PKG_VERSION"));

/// Why a scenario could not be run on a kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
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
    /// A program of iproute2 is missing.
    #[error("cannot run ip: {0}; install iproute2")]
    NoIp(#[source] io::Error),
    /// A program cannot be started on a host.
    #[error("cannot start {0}: {1}; install iproute2, or Docker for --on docker")]
    Start(String, #[source] io::Error),
    /// A program of ours is missing at this path.
    #[error("{path} is missing; build evenkeel's programs with cargo build --release -p evenkeel-apps -p evenkeel-router, or say where they are with {PROGRAMS}", path = .0.display())]
    NoProgram(PathBuf),
    /// A directory or file of the run cannot be made.
    #[error("cannot write {path}: {1}", path = .0.display())]
    Directory(PathBuf, #[source] io::Error),
    /// The kernel refused a namespace, device, address or route: what `ip` said.
    #[error("cannot set up the network: {0}")]
    Setup(String),
    /// This flow has something that no kernel backend can do.
    #[error(
        "flow {0}: ON/OFF users that keep their connection run in virtual time only; use reconnect = true, or --on sim"
    )]
    Unsupported(String),
    /// This flow's client moves to another port, which the programs on hosts do not.
    #[error(
        "flow {0}: rebinds_s is for virtual time alone, evenkeel's programs keep their port; leave it out, or use --on sim"
    )]
    NoRebind(String),
    /// This flow remembers its path, which a run on a kernel cannot invent.
    #[error("flow {0}: remembered is for virtual time alone; leave it out, or use --on sim")]
    NoMemory(String),
    /// This link demands netem, which cannot do this key.
    #[error("link {0}: netem cannot do {1}; leave out emulator = \"netem\" or {1}")]
    BeyondNetem(String, &'static str),
    /// This link demands netem, and the kernel has none.
    #[error(
        "link {0} wants netem, which this kernel lacks (modules sch_netem, ifb, act_mirred, cls_matchall); use --on uml, or leave out emulator = \"netem\""
    )]
    NoNetem(String),
    /// This link demands netem, and hosts are containers.
    #[error(
        "link {0}: containers queue with evenkeel-router; leave out emulator = \"netem\", or use --on netns"
    )]
    NetemInContainers(String),
    /// A link cannot be built as the scenario says.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Here this flow names a controller that does not exist.
    #[error("{0}: flow {1}: {2}")]
    Controller(Place, String, #[source] evenkeel::SpecError),
    /// Here this flow names this controller, which this program adds to evenkeel's.
    #[error("{0}: flow {1}: hosts run evenkeel's programs, which lack {2}; use --on sim")]
    OwnController(Place, String, String),
    /// This flow is the kernel's own TCP with this controller, and the kernel has those listed.
    #[error("flow {0}: this kernel's TCP has no controller {1}; use one of {2}, or load tcp_{1}")]
    KernelController(String, String, String),
    /// No such host in the scenario, which has those listed.
    #[error("no host {0:?}; the scenario has {1}")]
    UnknownHost(String, String),
    /// There is no Docker client.
    #[error("cannot run docker: {0}; install Docker (Debian's docker.io), or use --on sim")]
    NoDocker(#[source] io::Error),
    /// There is no Docker engine, or this user may not use it: what the client said.
    #[error("Docker's engine cannot be used: {0}; start it (dockerd), or use --on sim")]
    NoEngine(String),
    /// The image of containers was not built.
    #[error(
        "the image {IMAGE} is missing; build it in the repository: docker build -t {IMAGE} . (and before that testbed/compose/base, where no registry can be reached)"
    )]
    NoImage,
    /// Docker's engine refused this command of its client, for this reason.
    #[error("docker {0} failed: {1}")]
    Docker(String, String),
    /// This program on a host ended by itself, with these last words.
    #[error("{0} ended: {1}")]
    Died(String, String),
    /// This program on a host said nothing for too long.
    #[error("{0} does not answer")]
    Silent(String),
    /// This program on a host said something else than documented.
    #[error("{0} gave no sensible answer: {1}")]
    Protocol(String, String),
    /// The user interrupted the run.
    #[error("interrupted; nothing was left behind")]
    Interrupted,
}

impl KernelError {
    /// Whether the scenario or the command is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Build(_)
                | Self::Unsupported(_)
                | Self::NoRebind(_)
                | Self::NoMemory(_)
                | Self::BeyondNetem(..)
                | Self::NetemInContainers(_)
                | Self::Controller(..)
                | Self::OwnController(..)
                | Self::KernelController(..)
                | Self::UnknownHost(..)
        )
    }
}

/// Fails if the run was interrupted.
pub(in crate::backend) fn check_interrupt(interrupted: &AtomicBool) -> Result<(), KernelError> {
    if interrupted.load(Ordering::Relaxed) {
        Err(KernelError::Interrupted)
    } else {
        Ok(())
    }
}
