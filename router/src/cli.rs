//! The command line of `evenkeel-router`.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{self, Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use evenkeel_log::{LogArgs, complain, remark};
use tracing::debug;

use crate::config::{Config, Via};
use crate::daemon;
use crate::failure::Failure;
use crate::metrics::Endpoint;
use crate::netlink::Netlink;
use crate::plumbing::{self, Plumbing};
use crate::preflight;
use crate::status::{self, Request};
use crate::watch;

/// Give this host's routes the rate, queue, delay and loss of a link.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    log: LogArgs,
}

const EXAMPLES: &str = "\
Examples:
  evenkeel-router check --config r1.toml
  evenkeel-router run --config r1.toml
  evenkeel-router status
  evenkeel-router status --watch
  evenkeel-router status --json --name r1
  evenkeel-router reload --name r1

A configuration (docs/router.md has all keys):
  name = \"r1\"
  [[links]]
  name = \"bottleneck\"
  tun = \"ek-bn\"
  rate_bps = 2_000_000
  delay_ms = 18
  queue_packets = 50
  routes = [{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"veth1\" }]";

#[derive(Debug, Subcommand)]
enum Command {
    /// Forward packets until SIGINT or SIGTERM; SIGHUP reads the configuration again; needs CAP_NET_ADMIN
    Run {
        /// The configuration (TOML)
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Keep all rights, to find out what the sandbox is in the way of
        #[arg(long)]
        no_sandbox: bool,
    },
    /// Say all that is wrong with a configuration on this host; touch nothing
    Check {
        /// Print what `run` would set on the host, as commands
        #[arg(long)]
        explain: bool,
        /// The configuration (TOML)
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Print a running router's figures
    Status {
        /// Print them as one JSON document
        #[arg(long)]
        json: bool,
        /// Show each second what happens, until interrupted
        #[arg(long, conflicts_with = "json")]
        watch: bool,
        #[command(flatten)]
        router: RunningRouter,
    },
    /// Make a running router read its configuration again, as SIGHUP does, and wait for it
    Reload {
        #[command(flatten)]
        router: RunningRouter,
    },
}

#[derive(Debug, Args)]
struct RunningRouter {
    /// The router's name; not needed if there is one only
    #[arg(long, conflicts_with = "socket")]
    name: Option<String>,
    /// The router's status socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

impl RunningRouter {
    fn socket(self) -> Result<PathBuf, Failure> {
        let name = self.name.as_deref();
        self.socket.map_or_else(|| status::find_socket(name), Ok)
    }
}

/// Describes the command line, for its manual.
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the command that the arguments (program name first) ask for.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output and is no failure; clap tells them apart.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let started = match arguments.command {
        Command::Run { .. } => arguments.log.start_service(),
        _ => arguments.log.start(),
    };
    match started
        .map_err(Failure::usage)
        .and_then(|()| carry_out(arguments.command))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for cause in error.causes() {
                complain("evenkeel-router", cause);
            }
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

fn carry_out(command: Command) -> Result<(), Failure> {
    match command {
        Command::Run { config, no_sandbox } => {
            Plumbing::remove_killed();
            daemon::run(load(&config)?, config, !no_sandbox)
        }
        Command::Check { explain, config } => print(&check(&config, explain)?),
        Command::Reload { router } => {
            let status = status::ask(&router.socket()?, Request::Reload)?;
            let links: Vec<_> = status.links.iter().map(|link| &link.name[..]).collect();
            print(&format!(
                "reloaded name={} links={}\n",
                status.router,
                links.join(",")
            ))
        }
        Command::Status {
            json,
            watch,
            router,
        } => {
            let socket = router.socket()?;
            if watch {
                return watch::watch(&socket);
            }
            let status = status::ask(&socket, Request::Status)?;
            if json {
                let text = serde_json::to_string_pretty(&status);
                print(&(text.expect("figures are JSON") + "\n"))
            } else {
                print(&status::table(&status))
            }
        }
    }
}

fn load(path: &Path) -> Result<Config, Failure> {
    let config = Config::load(path)?;
    debug!(path = %path.display(), router = config.name, links = config.links.len(), "configured");
    Ok(config)
}

/// Runs the checks that `run` does first, or `reload` if the router is running, without changing
/// anything; returns what they would do.
fn check(path: &Path, explain: bool) -> Result<String, Failure> {
    let mut config = load(path)?;
    let mut netlink = Netlink::open().map_err(|error| {
        Failure::new(format!(
            "cannot ask the kernel anything: {error}; the router needs netlink"
        ))
    })?;
    let mut text = format!("router {}: nothing wrong\n", config.name);
    if status::is_served(&config.socket, "socket")? {
        let path = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let running = status::ask(&config.socket, Request::Check(path))?;
        let links = running.links.iter();
        let tables: Vec<_> = links.map(|link| (&link.name[..], link.table)).collect();
        daemon::keep_tables(&tables, &mut config);
        text = format!(
            "router {}: nothing wrong, a reload takes it over\n",
            config.name
        );
    } else {
        let metrics = config.metrics.as_ref();
        Failure::of(
            [
                metrics.and_then(|address| Endpoint::check(address).err()),
                preflight::examine(&config, &BTreeSet::new(), &mut netlink).err(),
            ]
            .into_iter()
            .flatten(),
        )?;
    }
    for warning in preflight::warnings(&config) {
        remark(&format!("warning: {warning}"));
    }
    if explain {
        return plumbing::explain(&config, &mut netlink);
    }
    for link in &config.links {
        for route in &link.routes {
            let via = match route.via {
                Via::Direct => String::new(),
                via => format!(" via {via}"),
            };
            text += &format!(
                "{}: {}{} -> {} (MTU {}) -> table {}{via} dev {}\n",
                link.name, route.to, route.selector, link.tun, link.mtu, link.table, route.dev
            );
        }
    }
    Ok(text)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    match written {
        // The reader has closed the pipe: it has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Failure::output),
    }
}
