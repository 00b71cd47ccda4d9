//! Why a scenario could not be run on a kernel.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

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
    NoIp(io::Error),
    /// A program cannot be started on a host.
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
    /// The scenario has something that no kernel backend can do.
    #[error(
        "flow {flow}: ON/OFF users that keep their connection run in virtual time only; use reconnect = true, or --on sim"
    )]
    Unsupported {
        /// The flow's name.
        flow: String,
    },
    /// A link demands netem, which cannot do it.
    #[error("link {link}: netem cannot do {key}; leave out emulator = \"netem\" or {key}")]
    BeyondNetem {
        /// The link's name.
        link: String,
        /// The key of the scenario.
        key: &'static str,
    },
    /// A link demands netem, and the kernel has none.
    #[error(
        "link {link} wants netem, which this kernel lacks (modules sch_netem, ifb, act_mirred, cls_matchall); use --on uml, or leave out emulator = \"netem\""
    )]
    NoNetem {
        /// The link's name.
        link: String,
    },
    /// A link demands netem, and hosts are containers.
    #[error(
        "link {link}: containers queue with evenkeel-router; leave out emulator = \"netem\", or use --on netns"
    )]
    NetemInContainers {
        /// The link's name.
        link: String,
    },
    /// A link cannot be built as the scenario says.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A flow names a controller that does not exist.
    #[error("flow {flow}: {source}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// What is wrong.
        source: evenkeel::SpecError,
    },
    /// A flow names a controller that only virtual time has.
    #[error(
        "flow {flow}: {controller} runs in virtual time only; use --on sim, or a controller that ships"
    )]
    VirtualOnly {
        /// The flow's name.
        flow: String,
        /// The controller.
        controller: String,
    },
    /// No such host in the scenario.
    #[error("no host {name:?}; the scenario has {known}")]
    UnknownHost {
        /// What was asked for.
        name: String,
        /// The hosts there are.
        known: String,
    },
    /// There is no Docker client.
    #[error("cannot run docker: {0}; install Docker (Debian's docker.io), or use --on sim")]
    NoDocker(io::Error),
    /// There is no Docker engine, or this user may not use it.
    #[error("Docker's engine cannot be used: {reason}; start it (dockerd), or use --on sim")]
    NoEngine {
        /// What the client said.
        reason: String,
    },
    /// The image of containers was not built.
    #[error(
        "the image {IMAGE} is missing; build it in the repository: docker build -t {IMAGE} . (and before that testbed/compose/base, where no registry can be reached)"
    )]
    NoImage,
    /// Docker's engine refused something.
    #[error("docker {what} failed: {reason}")]
    Docker {
        /// The client's command.
        what: String,
        /// What it said, in one line.
        reason: String,
    },
    /// A program on a host ended by itself.
    #[error("{what} ended: {reason}")]
    Died {
        /// Which.
        what: String,
        /// Its last words.
        reason: String,
    },
    /// A program on a host said nothing for too long.
    #[error("{what} does not answer")]
    Silent {
        /// Which.
        what: String,
    },
    /// A program on a host said something else than documented.
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

impl KernelError {
    /// Whether the scenario or the command is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Build(_)
                | Self::Unsupported { .. }
                | Self::BeyondNetem { .. }
                | Self::NetemInContainers { .. }
                | Self::Controller { .. }
                | Self::VirtualOnly { .. }
                | Self::UnknownHost { .. }
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
