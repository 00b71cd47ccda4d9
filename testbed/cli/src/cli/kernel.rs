//! Backends on a kernel of Linux: `exec`, and the commands that they give this program themselves.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use evenkeel_testbed::backend::kernel::{KernelError, tcp_sink, tcp_source, udp_sink, udp_source};
use evenkeel_testbed::backend::{Hosts, netns, uml};
use evenkeel_testbed::metrics::Observations;
use evenkeel_testbed::scenario::{Controllers, Scenario};

use super::signals::{interrupted, interrupts, status_of};
use super::{CliError, ScenarioArguments};

/// The backends on which `exec` runs programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Kernel {
    /// Network namespaces of this machine, with router daemons; needs root
    Netns,
    /// The same inside user-mode Linux, as root there; standard input is empty
    Uml,
    /// Containers of Docker, with what the image has; standard input is empty
    Docker,
}

impl Kernel {
    /// All of them.
    pub(super) const ALL: &[Self] = &[Self::Netns, Self::Uml, Self::Docker];

    /// Its name, in commands and results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Netns => "netns",
            Self::Uml => "uml",
            Self::Docker => "docker",
        }
    }

    /// What it is for a scenario, in a line.
    pub(super) fn summary(self) -> &'static str {
        match self {
            Self::Netns => {
                "Network namespaces of this machine, with router daemons, in real time; needs root"
            }
            Self::Uml => {
                "The same inside user-mode Linux: a kernel of its own, with netem; needs Debian packages, no root"
            }
            Self::Docker => {
                "Containers and private networks of Docker, with router daemons, in real time; needs the image"
            }
        }
    }

    /// Whether this process must start user-mode Linux, inside which the same command runs again.
    fn starts_uml(self) -> bool {
        self == Self::Uml && !uml::is_inside()
    }

    /// Whether it can run `scenario`.
    pub(super) fn check(self, scenario: &Scenario) -> Result<(), Failure> {
        match self.starts_uml() {
            true => netns::check_scenario(scenario)?,
            false => self.hosts().check(scenario)?,
        }
        Ok(())
    }

    /// Whether this very command could run inside user-mode Linux and see `files`, if it must.
    pub(super) fn check_inside(self, files: &[&Path]) -> Result<(), Failure> {
        if self.starts_uml() {
            uml::check(files)?;
        }
        Ok(())
    }

    /// Runs this very command inside user-mode Linux, if it must, for `limit` at most.
    pub(super) fn run_inside(
        self,
        files: &[&Path],
        limit: Option<Duration>,
    ) -> Result<Option<ExitCode>, CliError> {
        if !self.starts_uml() {
            return Ok(None);
        }
        let command: Vec<_> = std::env::args_os().skip(1).collect();
        let status = uml::run(&command, files, limit, interrupts()?).map_err(Failure::from)?;
        Ok(Some(status.into()))
    }

    /// Runs `scenario` to its end.
    pub(super) fn run(
        self,
        scenario: &Scenario,
        interrupted: &AtomicBool,
        progress: impl FnMut(Duration),
    ) -> Result<Observations, Failure> {
        Ok(self.hosts().run(scenario, interrupted, progress)?)
    }

    fn hosts(self) -> Hosts {
        match self {
            Self::Netns | Self::Uml => Hosts::Namespaces,
            Self::Docker => Hosts::Containers,
        }
    }
}

/// What only these backends do.
#[derive(Debug, Subcommand)]
pub(super) enum Commands {
    /// Run a program on a host of a scenario, between its links and routers, without its traffic
    Exec(ExecArguments),
    /// Send UDP datagrams at the times that come on standard input (the netns and docker backends' own)
    #[command(hide = true)]
    UdpSource {
        from: IpAddr,
        to: SocketAddr,
        payload: usize,
        acp_rtt_us: Option<u64>,
    },
    /// Receive UDP datagrams and forget them (the netns and docker backends' own)
    #[command(hide = true)]
    UdpSink { at: SocketAddr },
    /// Send over the kernel's own TCP (the kernel backends' own)
    #[command(hide = true)]
    TcpSource {
        from: IpAddr,
        to: SocketAddr,
        controller: String,
        interval_ms: u64,
        bytes: Option<u64>,
    },
    /// Receive over the kernel's own TCP (the kernel backends' own)
    #[command(hide = true)]
    TcpSink { at: SocketAddr, interval_ms: u64 },
    /// Be `evenkeel` with the testbed's controllers too (the kernel backends' own)
    #[command(hide = true, disable_help_flag = true)]
    Apps {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Hold a user-mode Linux until standard input ends (the uml backend's own)
    #[command(hide = true)]
    UmlGuard { work: PathBuf },
    /// Be process 1 of a user-mode Linux (the uml backend's own)
    #[command(hide = true)]
    UmlInit { work: PathBuf },
}

#[derive(Debug, Args)]
pub(super) struct ExecArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// Where the scenario's network is made
    #[arg(long, value_enum, default_value_t = Kernel::Netns)]
    on: Kernel,
    /// The host to run it on, by name [default: the first]; other hosts' names resolve there
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Commands {
    /// Whether it starts a log of its own: the applications do.
    pub(super) fn has_own_log(&self) -> bool {
        matches!(self, Self::Apps { .. })
    }

    /// Carries it out. Scenarios may name `controllers`.
    pub(super) fn run(&self, controllers: &Controllers) -> Result<ExitCode, CliError> {
        match self {
            Self::Exec(exec) => return run_program(exec, controllers),
            Self::UdpSource {
                from,
                to,
                payload,
                acp_rtt_us,
            } => {
                let acp_rtt = acp_rtt_us.map(Duration::from_micros);
                udp_source(*from, *to, *payload, acp_rtt).map_err(Failure::Traffic)?;
            }
            Self::UdpSink { at } => udp_sink(*at).map_err(Failure::Traffic)?,
            Self::TcpSource {
                from,
                to,
                controller,
                interval_ms,
                bytes,
            } => {
                let interval = Duration::from_millis(*interval_ms);
                tcp_source(*from, *to, controller, *bytes, interval).map_err(Failure::Traffic)?;
            }
            Self::TcpSink { at, interval_ms } => {
                tcp_sink(*at, Duration::from_millis(*interval_ms)).map_err(Failure::Traffic)?;
            }
            Self::Apps { arguments } => {
                let program = std::iter::once("evenkeel".into());
                let arguments = program.chain(arguments.iter().cloned());
                return Ok(evenkeel_apps::cli::run(arguments, controllers));
            }
            Self::UmlGuard { work } => uml::guard(work),
            Self::UmlInit { work } => uml::init(work),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn run_program(arguments: &ExecArguments, controllers: &Controllers) -> Result<ExitCode, CliError> {
    let scenario = arguments.scenario.load(controllers, None)?;
    let on = arguments.on;
    if on.starts_uml() {
        on.check(&scenario)?;
    }
    if let Some(code) = on.run_inside(&[&arguments.scenario.file], None)? {
        return Ok(code);
    }
    let host = arguments.host.as_deref();
    let (command, interrupted) = (&arguments.command, interrupts()?);
    let status = on.hosts().exec(&scenario, host, command, interrupted);
    Ok(status_of(status.map_err(Failure::from)?).into())
}

/// Why a backend on a kernel failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error(transparent)]
    Uml(#[from] uml::UmlError),
    #[error("{0}")]
    Traffic(io::Error),
}

impl Failure {
    /// As [`CliError::exit_code`].
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Kernel(error) if error.is_usage() => 2,
            Self::Uml(error) if error.is_usage() => 2,
            Self::Kernel(KernelError::Interrupted) | Self::Uml(uml::UmlError::Interrupted) => {
                interrupted()
            }
            _ => 1,
        }
    }
}
