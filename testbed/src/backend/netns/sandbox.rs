//! Namespaces that are gone when the run is, whatever ends it.

use std::fs;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use super::program;
use crate::backend::kernel::{
    self as netem, KernelError, Pair, Place, Plan, Site, wants_netem, with_netem,
};
use crate::scenario::Scenario;

/// Where each run keeps its files and the list of its namespaces: `RUN/PID-STARTTIME/`.
const RUNS: &str = "/run/evenkeel-testbed";

/// Where `ip netns exec` finds files to put over those of /etc.
const ETC_NETNS: &str = "/etc/netns";

/// The namespaces of one run and its directory; dropped, they and all in them are gone.
#[derive(Debug)]
pub(in crate::backend) struct Sandbox {
    /// Prefix of the namespaces' names.
    pub(in crate::backend) run: String,
    /// For configurations and sockets.
    pub(in crate::backend) directory: PathBuf,
}

impl Sandbox {
    /// A place for this process's run. Removes what runs that were killed have left behind.
    pub(in crate::backend) fn new() -> Result<Self, KernelError> {
        remove_leftovers();
        let directory = Path::new(RUNS).join(own_identity()?);
        fs::create_dir_all(&directory).map_err(|source| KernelError::Directory {
            path: directory.clone(),
            source,
        })?;
        Ok(Self {
            run: format!("ek{}", std::process::id()),
            directory,
        })
    }

    /// Creates the plan's namespaces, devices, addresses and routes.
    fn create(&self, plan: &Plan, mtu: u16) -> Result<(), KernelError> {
        let mut list = String::new();
        let mut create = String::new();
        for namespace in &plan.namespaces {
            list += &format!("{}\n", namespace.name);
            create += &format!("netns add {}\n", namespace.name);
        }
        // The list comes first: a run killed in the middle leaves nothing that is not on it.
        self.write("namespaces", &list)?;
        ip(&[], &create)?;
        let mut devices = String::new();
        for pair in &plan.pairs {
            let [(a, _), (b, _)] = pair
                .ends
                .map(|(node, address)| (&plan.namespaces[node.0].name, address));
            let device = &pair.device;
            devices += &format!(
                "link add {device} netns {a} mtu {mtu} type veth peer name {device} netns {b} mtu {mtu}\n"
            );
        }
        ip(&[], &devices)?;
        for (node, namespace) in plan.namespaces.iter().enumerate() {
            ip(&["-n", &namespace.name], &node_commands(plan, node))?;
            run(Command::new("ip")
                .args(["netns", "exec", &namespace.name, "sysctl", "-qw"])
                .args(SETTINGS))?;
            let etc = Path::new(ETC_NETNS).join(&namespace.name);
            let hosts =
                fs::create_dir_all(&etc).and_then(|()| fs::write(etc.join("hosts"), plan.hosts()));
            hosts.map_err(|source| KernelError::Directory { path: etc, source })?;
        }
        Ok(())
    }
}

impl Site for Sandbox {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn build(&self, scenario: &Scenario, _: &AtomicBool) -> Result<Plan, KernelError> {
        let has_netem = wants_netem(scenario) && netem::is_available(self)?;
        if !has_netem && let Some(link) = with_netem(scenario).next() {
            return Err(KernelError::NoNetem {
                link: link.name.clone(),
            });
        }
        let directory = &self.directory;
        let plan = Plan::new(scenario, &self.run, directory, has_netem, Place::Namespace);
        self.create(&plan, scenario.mtu)?;
        netem::build(scenario, &plan)?;
        Ok(plan)
    }

    fn program(&self, name: &str, package: &'static str) -> Result<PathBuf, KernelError> {
        program(name, package)
    }
}

/// What every node's kernel is told: it forwards, whatever way packets came.
pub(in crate::backend) const SETTINGS: [&str; 3] = [
    "net.ipv4.ip_forward=1",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.conf.default.rp_filter=0",
];

/// The commands for `ip` that set up a node whose links' devices are there.
pub(in crate::backend) fn node_commands(plan: &Plan, node: usize) -> String {
    let namespace = &plan.namespaces[node];
    let mut commands = format!(
        "link set lo up\naddress add {}/32 dev lo\n",
        namespace.address
    );
    let is_here = |pair: &&Pair| pair.ends.iter().any(|(end, _)| end.0 == node);
    for pair in plan.pairs.iter().filter(is_here) {
        commands += &pair_commands(pair, node, namespace.address);
    }
    for route in &namespace.routes {
        commands += &format!("route add {route}\n");
    }
    commands
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// The commands that set up a node's end of a link. Its device's address is for routes alone; what
/// the node sends has the node's own address, and the connected route says so: the router daemon
/// takes the source of its routes from there.
fn pair_commands(pair: &Pair, node: usize, own: Ipv4Addr) -> String {
    let device = &pair.device;
    let network = pair.ends[0].1;
    let ends = pair.ends.iter().filter(|(end, _)| end.0 == node);
    let addresses = ends.map(|(_, address)| {
        format!("address add {address}/31 dev {device} scope link noprefixroute\n")
    });
    let mut commands: String = addresses.collect();
    commands += &format!(
        "link set {device} up\nroute add {network}/31 dev {device} scope link src {own}\n"
    );
    commands
}

/// A command that runs `program` inside a namespace.
pub(in crate::backend) fn inside(namespace: &str, program: &Path) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

/// Runs `ip` with one command per line of `commands`.
pub(in crate::backend) fn ip(options: &[&str], commands: &str) -> Result<(), KernelError> {
    batch("ip", options, commands)
}

/// Runs a program of iproute2 with one command per line of `commands`.
pub(in crate::backend) fn batch(
    program: &str,
    options: &[&str],
    commands: &str,
) -> Result<(), KernelError> {
    let mut command = Command::new(program);
    command.args(options).args(["-batch", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(KernelError::NoIp)?;
    let mut stdin = child.stdin.take().expect("it was piped");
    // An `ip` that has given up closes the pipe; its own message says why.
    let _ = stdin.write_all(commands.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().map_err(KernelError::NoIp)?;
    check(&output)
}

fn run(command: &mut Command) -> Result<(), KernelError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(KernelError::NoIp)?;
    check(&output)
}

fn check(output: &std::process::Output) -> Result<(), KernelError> {
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(KernelError::Setup {
        message: message
            .lines()
            .next()
            .unwrap_or("ip failed without a word")
            .trim()
            .into(),
    })
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

/// What tells this process from all others of this machine: `PID-STARTTIME`.
pub(in crate::backend) fn own_identity() -> Result<String, KernelError> {
    let pid = std::process::id();
    let start = start_time(pid).ok_or(KernelError::NoProc)?;
    Ok(format!("{pid}-{start}"))
}

/// Whether the process of an [`own_identity`] still runs.
pub(in crate::backend) fn is_alive(identity: &str) -> bool {
    identity.split_once('-').is_some_and(|(pid, start)| {
        let now = pid.parse().ok().and_then(start_time);
        now.is_some_and(|now| now.to_string() == start)
    })
}

/// Ends whatever runs in the namespaces of a run, and removes them and its directory. What is
/// gone already is no matter.
fn remove(directory: &Path) {
    let list = fs::read_to_string(directory.join("namespaces")).unwrap_or_default();
    for namespace in list.lines() {
        for pid in pids(namespace) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        let _ = Command::new("ip")
            .args(["netns", "delete", namespace])
            .stderr(Stdio::null())
            .status();
        let _ = fs::remove_dir_all(Path::new(ETC_NETNS).join(namespace));
    }
    let _ = fs::remove_dir_all(directory);
}

fn pids(namespace: &str) -> Vec<rustix::process::Pid> {
    let output = Command::new("ip")
        .args(["netns", "pids", namespace])
        .stderr(Stdio::null())
        .output();
    let text = output
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    text.lines()
        .filter_map(|line| rustix::process::Pid::from_raw(line.trim().parse().ok()?))
        .collect()
}

/// When a process started, in the kernel's ticks: tells it from a later one with the same number
/// (proc(5), field 22 of stat). `None` if it has ended, waited for by its parent or not.
fn start_time(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, and may hold anything.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (state != "Z").then_some(start)
}

/// Whether this process may create namespaces and devices.
pub(in crate::backend) fn may_administer() -> Result<(), KernelError> {
    let status =
        fs::read_to_string("/proc/self/status").map_err(|_: io::Error| KernelError::NoProc)?;
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .unwrap_or("0");
    let capabilities = u64::from_str_radix(effective.trim(), 16).unwrap_or(0);
    // CAP_NET_ADMIN is 12 and CAP_SYS_ADMIN 21 (linux/capability.h): devices, and namespaces.
    let needed = 1 << 12 | 1 << 21;
    if capabilities & needed == needed {
        Ok(())
    } else {
        Err(KernelError::NotRoot)
    }
}
