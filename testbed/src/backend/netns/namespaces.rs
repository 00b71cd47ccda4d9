//! Namespaces that are gone when the run is, whatever ends it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::AtomicBool;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CapabilitySet, capabilities};

use crate::backend::kernel::{
    Host, KernelError, Plan, Platform, is_alive, label_prefix, needing_netem, output_of,
    own_identity, trial, wants_netem,
};
use crate::scenario::Scenario;

/// Where each run keeps its files and the list of its namespaces: `RUN/PID-STARTTIME/`.
const RUNS: &str = "/run/evenkeel-testbed";

/// The name of that list.
const LIST: &str = "namespaces";

/// Where `ip netns exec` finds files to put over those of /etc.
const ETC_NETNS: &str = "/etc/netns";

/// The namespaces of one run and its directory. Dropping it removes both and ends all programs in
/// the namespaces.
#[derive(Debug)]
pub(in crate::backend) struct Namespaces {
    directory: PathBuf,
}

impl Namespaces {
    /// The directory of this process's run. Removes what runs that were killed have left behind.
    pub(in crate::backend) fn new() -> Result<Self, KernelError> {
        remove_leftovers();
        let directory = Path::new(RUNS).join(own_identity()?);
        fs::create_dir_all(&directory)
            .map_err(|error| KernelError::Directory(directory.clone(), error))?;
        Ok(Self { directory })
    }

    /// Creates the plan's namespaces, devices, addresses, routes and netems.
    fn set_up(&self, plan: &Plan) -> Result<(), KernelError> {
        let mut list = String::new();
        let mut namespaces = String::new();
        for Host { label, .. } in &plan.hosts {
            list += &format!("{label}\n");
            namespaces += &format!("netns add {label}\n");
        }
        // The list comes first: a run killed in the middle leaves nothing that is not on it.
        self.write(LIST, &list)?;
        batch("ip", None, &namespaces)?;
        let mut devices = String::new();
        for pair in &plan.pairs {
            let [a, b] = pair.ends.map(|node| &plan.hosts[node.0].label);
            let (device, mtu) = (&pair.device, plan.mtu);
            devices += &format!(
                "link add {device} netns {a} mtu {mtu} type veth peer name {device} netns {b} mtu {mtu}\n"
            );
        }
        batch("ip", None, &devices)?;
        for (node, Host { label, .. }) in plan.hosts.iter().enumerate() {
            batch("ip", Some(label), &plan.ip_commands(node))?;
            batch("tc", Some(label), &plan.tc_commands(node))?;
            let mut sysctl = inside(label, Path::new("sysctl"));
            run(sysctl.arg("-qw").args(plan.settings()), "")?;
            let etc = Path::new(ETC_NETNS).join(label);
            fs::create_dir_all(&etc)
                .and_then(|()| fs::write(etc.join("hosts"), plan.hosts_file()))
                .map_err(|error| KernelError::Directory(etc, error))?;
        }
        Ok(())
    }

    /// Tries all that netem needs in a namespace of its own.
    fn has_netem(&self) -> Result<bool, KernelError> {
        // Left to itself the kernel would load ifb with two devices in the caller's namespace.
        let _ = output_of(Command::new("modprobe").args(["ifb", "numifbs=0"]), "");
        let name = format!("{}-netem", label_prefix());
        self.write(LIST, &format!("{name}\n"))?;
        batch("ip", None, &format!("netns add {name}\n"))?;
        let device = batch("ip", Some(&name), "link add ifb0 type ifb\n");
        let found = device.and_then(|()| batch("tc", Some(&name), &trial()));
        batch("ip", None, &format!("netns delete {name}\n"))?;
        Ok(found.is_ok())
    }
}

impl Platform for Namespaces {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn create(&self, scenario: &Scenario, _: &AtomicBool) -> Result<Plan, KernelError> {
        let has_netem = wants_netem(scenario) && self.has_netem()?;
        if !has_netem && let Some(link) = needing_netem(scenario).next() {
            return Err(KernelError::NoNetem(link.name.clone()));
        }
        let plan = Plan::new(scenario, &label_prefix(), &self.directory, has_netem);
        self.set_up(&plan)?;
        Ok(plan)
    }

    fn program(&self, name: &str) -> Result<PathBuf, KernelError> {
        super::program(name)
    }

    fn command(&self, host: &Host, _: u64, program: &Path) -> Command {
        inside(&host.label, program)
    }

    fn signal(&self, _: &Host, _: u64, child: &Child, signal: Signal) {
        let _ = kill_process(Pid::from_child(child), signal);
    }

    fn prepare(&self, plan: &Plan, _: &Host, command: &mut Command) -> Result<(), KernelError> {
        let hosts = plan.hosts.iter();
        command.envs(hosts.map(|host| (variable(&host.name), &host.label)));
        Ok(())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// The environment variable that names a host's namespace: letters and digits of its name stay.
fn variable(host: &str) -> String {
    let name = host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    "EVENKEEL_NETNS_".chars().chain(name).collect()
}

/// A command that runs `program` inside a namespace.
fn inside(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Runs a program of iproute2, in a namespace if one is named, with one command per line of
/// `commands`.
fn batch(program: &str, namespace: Option<&str>, commands: &str) -> Result<(), KernelError> {
    if commands.is_empty() {
        return Ok(());
    }
    let mut command = Command::new(program);
    if let Some(namespace) = namespace {
        command.args(["-n", namespace]);
    }
    run(command.args(["-batch", "-"]), commands)
}

fn run(command: &mut Command, input: &str) -> Result<(), KernelError> {
    let output = output_of(command, input).map_err(KernelError::NoIp)?;
    output.map(|_| ()).map_err(KernelError::Setup)
}

/// Removes what runs whose process is gone have left behind.
fn remove_leftovers() {
    let Ok(runs) = fs::read_dir(RUNS) else { return };
    for run in runs.flatten() {
        let name = run.file_name();
        if !name.to_str().is_some_and(is_alive) {
            remove(&run.path());
        }
    }
}

/// Ends whatever runs in the namespaces of a run, and removes them and its directory. What is
/// gone already is no matter.
fn remove(directory: &Path) {
    let list = fs::read_to_string(directory.join(LIST)).unwrap_or_default();
    for namespace in list.lines() {
        let ask = |action| output_of(Command::new("ip").args(["netns", action, namespace]), "");
        let pids = ask("pids").ok().and_then(Result::ok).unwrap_or_default();
        for pid in pids.lines().filter_map(|line| line.trim().parse().ok()) {
            let _ = Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = ask("delete");
        let _ = fs::remove_dir_all(Path::new(ETC_NETNS).join(namespace));
    }
    let _ = fs::remove_dir_all(directory);
}

/// Whether this process may create namespaces and devices.
pub(super) fn may_administer() -> Result<(), KernelError> {
    // For devices, and for namespaces.
    let needed = CapabilitySet::NET_ADMIN | CapabilitySet::SYS_ADMIN;
    match capabilities(None) {
        Ok(sets) if sets.effective.contains(needed) => Ok(()),
        _ => Err(KernelError::NotRoot),
    }
}
