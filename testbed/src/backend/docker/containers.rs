//! The containers and networks of a run, which are gone when it is.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;

use rustix::process::Signal;
use serde::Deserialize;

use super::client::{ask, docker};
use crate::backend::kernel::{
    Host, IMAGE, KernelError, Plan, Platform, absolute, check_interrupt, is_alive, label_prefix,
    own_identity,
};
use crate::scenario::{App, IpVersion, Payload, Scenario};

/// The label of all that a run makes: the machine's name and the run's identity.
const LABEL: &str = "evenkeel-testbed.run";

/// A run's directory, below that for temporary files, is named by this and the run's identity.
const DIRECTORY: &str = "evenkeel-docker.";

/// Where the image has the programs.
const PROGRAMS: &str = "/usr/local/bin";

/// What a router sets on its devices, and cannot set in a container: they inherit it.
const FOR_ROUTERS: [&str; 1] = ["net.ipv4.conf.default.accept_local=1"];

/// The same for IPv6, which Docker switches off on networks that have no addresses of it.
const FOR_ROUTERS_V6: [&str; 4] = [
    "net.ipv6.conf.all.disable_ipv6=0",
    "net.ipv6.conf.default.disable_ipv6=0",
    "net.ipv6.conf.default.addr_gen_mode=1",
    "net.ipv6.conf.default.accept_ra=0",
];

/// First address of the networks: 10.128.0.0.
const NETWORKS: u32 = 0x0a80_0000;

/// How many networks of eight addresses there are from there on.
const NETWORK_COUNT: u32 = 1 << 20;

/// How many of them are tried for one link.
const TRIES: u32 = 1000;

/// The containers and networks of one run, and its directory. Dropping it removes all of them.
#[derive(Debug)]
pub(in crate::backend) struct Containers {
    /// `PID-STARTTIME` of this process.
    identity: String,
    directory: PathBuf,
}

/// A network and the addresses that Docker gives the two ends of its link.
struct Network {
    name: String,
    ends: [Ipv4Addr; 2],
}

impl Containers {
    /// The directory of this process's run. Removes what runs that were killed have left behind.
    pub(in crate::backend) fn new() -> Result<Self, KernelError> {
        remove_leftovers();
        let identity = own_identity()?;
        let directory = std::env::temp_dir().join(format!("{DIRECTORY}{identity}"));
        // Sockets in it answer everybody who reaches them.
        let created = DirBuilder::new().mode(0o700).create(&directory);
        created.map_err(|error| KernelError::Directory(directory.clone(), error))?;
        Ok(Self {
            identity,
            directory,
        })
    }

    /// A network for every link. Docker's own addresses there only tell the devices apart.
    fn create_networks(
        &self,
        plan: &Plan,
        interrupted: &AtomicBool,
    ) -> Result<Vec<Network>, KernelError> {
        // Runs at the same time begin at different places, and do not try the same ones.
        let start = std::process::id().wrapping_mul(4096);
        let mut candidates =
            (0..).map(|number| NETWORKS + 8 * (start.wrapping_add(number) % NETWORK_COUNT));
        let mut networks = Vec::new();
        for pair in &plan.pairs {
            let name = format!("{}-{}", label_prefix(), pair.device);
            let mut tries = 0;
            let first = loop {
                check_interrupt(interrupted)?;
                let first = candidates.next().expect("they have no end");
                match self.create_network(&name, Ipv4Addr::from(first), plan.mtu) {
                    Ok(()) => break first,
                    Err(KernelError::Docker(_, reason))
                        if reason.contains("overlap") && tries < TRIES =>
                    {
                        tries += 1;
                    }
                    Err(error) => return Err(error),
                }
            };
            // The first is for the bridge.
            let ends = [first + 2, first + 3].map(Ipv4Addr::from);
            networks.push(Network { name, ends });
        }
        Ok(networks)
    }

    fn create_network(&self, name: &str, first: Ipv4Addr, mtu: u16) -> Result<(), KernelError> {
        let label = label(&self.identity);
        let subnet = format!("{first}/29");
        let mtu = format!("com.docker.network.driver.mtu={mtu}");
        // Without an address on the machine there is no way out. `--internal` would also let
        // iptables drop what routers forward, where it sees bridged packets.
        let arguments = [
            ["network", "create"],
            ["--driver", "bridge"],
            ["--label", &label],
            ["--subnet", &subnet],
            ["--opt", "com.docker.network.bridge.inhibit_ipv4=true"],
            [
                "--opt",
                "com.docker.network.bridge.enable_ip_masquerade=false",
            ],
            ["--opt", &mtu],
        ];
        let mut arguments = arguments.concat();
        arguments.push(name);
        ask(&arguments, "").map(|_| ())
    }

    /// Makes the container of a node, with all its networks; it does not run yet.
    fn create_container(
        &self,
        scenario: &Scenario,
        plan: &Plan,
        name: &str,
        links: &[(&str, Ipv4Addr)],
    ) -> Result<(), KernelError> {
        let mut arguments: Vec<String> = Vec::new();
        let mut add = |words: [&str; 2]| arguments.extend(words.map(Into::into));
        add(["create", "--init"]);
        add(["--name", name]);
        add(["--label", &label(&self.identity)]);
        add(["--pull", "never"]);
        add(["--tmpfs", "/run"]);
        // Devices, routes and the router's TUN.
        add(["--cap-add", "NET_ADMIN"]);
        add(["--device", "/dev/net/tun"]);
        let mut settings = [&plan.settings()[..], &FOR_ROUTERS].concat();
        if plan.carries(IpVersion::V6) {
            settings.extend(FOR_ROUTERS_V6);
        }
        for setting in settings {
            add(["--sysctl", setting]);
        }
        let directory = self.directory.display();
        add(["--volume", &format!("{directory}:{directory}")]);
        for file in files(scenario) {
            let file = file.display();
            add(["--volume", &format!("{file}:{file}:ro")]);
        }
        match links.first() {
            Some((network, address)) => {
                add(["--network", network]);
                add(["--ip", &address.to_string()]);
            }
            None => add(["--network", "none"]),
        }
        add([IMAGE, "sleep"]);
        arguments.push("infinity".into());
        ask(&arguments, "")?;
        for (network, address) in links.iter().skip(1) {
            let address = address.to_string();
            ask(&["network", "connect", "--ip", &address, network, name], "")?;
        }
        Ok(())
    }
}

impl Platform for Containers {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn create(&self, scenario: &Scenario, interrupted: &AtomicBool) -> Result<Plan, KernelError> {
        let plan = Plan::new(scenario, &label_prefix(), &self.directory, false);
        let networks = self.create_networks(&plan, interrupted)?;
        let mut start = vec!["start"];
        for (node, host) in plan.hosts.iter().enumerate() {
            check_interrupt(interrupted)?;
            let links: Vec<_> = ends_at(&plan, &networks, node)
                .map(|(_, network, address)| (network, address))
                .collect();
            self.create_container(scenario, &plan, &host.label, &links)?;
            start.push(&host.label);
        }
        check_interrupt(interrupted)?;
        ask(&start, "")?;
        for (node, Host { label, .. }) in plan.hosts.iter().enumerate() {
            check_interrupt(interrupted)?;
            let devices = ["exec", label, "ip", "-4", "-json", "address", "show"];
            let devices = ask(&devices, "")?;
            let mut commands = String::new();
            for (device, _, address) in ends_at(&plan, &networks, node) {
                let given = device_with(&devices, address)?;
                commands += &format!(
                    "link set {given} down\naddress flush dev {given}\nlink set {given} name {device}\n"
                );
            }
            commands += &plan.ip_commands(node);
            ask(&["exec", "-i", label, "ip", "-batch", "-"], &commands)?;
        }
        Ok(plan)
    }

    fn program(&self, name: &str) -> Result<PathBuf, KernelError> {
        Ok(Path::new(PROGRAMS).join(name))
    }

    /// Docker's client passes no signals on, so the process leaves its number in a file.
    fn command(&self, host: &Host, number: u64, program: &Path) -> Command {
        let file = pid_file(number);
        // The caller is to reach the router's socket, which root makes in the container.
        let script = format!("umask 0; echo $$ >{file}; exec \"$@\"");
        let mut command = docker();
        command
            .args(["exec", "-i", &host.label, "sh", "-c", &script, "sh"])
            .arg(program);
        command
    }

    /// Waits up to two seconds for a program that has not started yet. `kill` is the shell's own: the
    /// image has no other.
    fn signal(&self, host: &Host, number: u64, _: &Child, signal: Signal) {
        let (file, signal) = (pid_file(number), signal.as_raw());
        let script = format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do \
             if [ -s {file} ]; then kill -{signal} $(cat {file}); exit; fi; sleep 0.2; done"
        );
        // A program that is gone is no matter.
        let _ = ask(&["exec", &host.label, "sh", "-c", &script], "");
    }

    fn prepare(&self, plan: &Plan, host: &Host, command: &mut Command) -> Result<(), KernelError> {
        let write = ["exec", "-i", &host.label, "sh", "-c", "cat >>/etc/hosts"];
        ask(&write, &plan.hosts_file())?;
        // The client is no part of the terminal's foreground and must not read from it.
        command.stdin(Stdio::null());
        Ok(())
    }
}

/// The file in a container that holds the number of a process there.
fn pid_file(number: u64) -> String {
    format!("/run/evenkeel-{number}.pid")
}

impl Drop for Containers {
    fn drop(&mut self) {
        remove(&self.identity);
    }
}

/// The links of a node: device, network, and the address that Docker gives it there.
fn ends_at<'a>(
    plan: &'a Plan,
    networks: &'a [Network],
    node: usize,
) -> impl Iterator<Item = (&'a str, &'a str, Ipv4Addr)> {
    let links = plan.pairs.iter().zip(networks);
    links.flat_map(move |(pair, network)| {
        let ends = pair.ends.iter().zip(network.ends);
        let here = ends.filter(move |(end, _)| end.0 == node);
        here.map(|(_, address)| (&*pair.device, &*network.name, address))
    })
}

/// A device in the output of `ip -json address show`, as far as it is needed.
#[derive(Deserialize)]
struct Device {
    ifname: String,
    #[serde(default)]
    addr_info: Vec<Address>,
}

#[derive(Deserialize)]
struct Address {
    local: Option<Ipv4Addr>,
}

/// The name of the device that has an address.
fn device_with(devices: &str, address: Ipv4Addr) -> Result<String, KernelError> {
    let failed = |reason| KernelError::Protocol("ip in a container".into(), reason);
    let devices: Vec<Device> =
        serde_json::from_str(devices).map_err(|error| failed(error.to_string()))?;
    let has = |device: &Device| {
        let mut addresses = device.addr_info.iter();
        addresses.any(|one| one.local == Some(address))
    };
    match devices.into_iter().find(has) {
        Some(device) => Ok(device.ifname),
        None => Err(failed(format!("no device has {address}"))),
    }
}

/// The files outside the run's directory that programs of a scenario read.
fn files(scenario: &Scenario) -> BTreeSet<PathBuf> {
    let links = scenario.links.iter();
    let traces = links.filter_map(|link| link.trace.as_ref());
    let traces = traces.map(|trace| absolute(&trace.path));
    let sent = scenario.flows.iter().filter_map(|flow| match &flow.app {
        App::Bulk(Payload::File(path)) => Some(absolute(path)),
        _ => None,
    });
    traces.chain(sent).collect()
}

/// The engine may be another machine's too.
fn label(identity: &str) -> String {
    let uname = rustix::system::uname();
    format!("{LABEL}={}/{identity}", uname.nodename().to_string_lossy())
}

/// Removes what runs of this machine whose process is gone have left behind.
fn remove_leftovers() {
    let mut found = BTreeSet::new();
    let own = label("");
    let machine = own.split_once('=').map_or("", |(_, machine)| machine);
    let value = format!("{{{{.Label \"{LABEL}\"}}}}");
    for list in [["ps", "--all"], ["network", "ls"]] {
        let filter = format!("label={LABEL}");
        let mut arguments = list.to_vec();
        arguments.extend(["--filter", &filter, "--format", &value]);
        let labels = ask(&arguments, "").unwrap_or_default();
        let runs = labels.lines().filter_map(|run| run.strip_prefix(machine));
        found.extend(runs.map(str::to_owned));
    }
    let entries = fs::read_dir(std::env::temp_dir());
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name();
        let run = name.to_str().and_then(|name| name.strip_prefix(DIRECTORY));
        found.extend(run.map(str::to_owned));
    }
    for run in found.iter().filter(|run| !is_alive(run)) {
        remove(run);
    }
}

/// Removes the containers of a run, its networks and its directory. What is gone already is no matter.
fn remove(identity: &str) {
    let filter = format!("label={}", label(identity));
    let kinds: [(&[&str], &[&str]); 2] = [
        (&["ps", "--all"], &["rm", "--force", "--volumes"]),
        (&["network", "ls"], &["network", "rm"]),
    ];
    for (list, remove) in kinds {
        let arguments = [list, &["--quiet", "--filter", &filter]].concat();
        let found = ask(&arguments, "").unwrap_or_default();
        let arguments: Vec<&str> = remove.iter().copied().chain(found.lines()).collect();
        if arguments.len() > remove.len() {
            let _ = ask(&arguments, "");
        }
    }
    let _ = fs::remove_dir_all(std::env::temp_dir().join(format!("{DIRECTORY}{identity}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_of_a_network_is_found_by_the_address_that_docker_gave_it() {
        let devices = r#"[{"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
            {"ifname": "tunl0", "addr_info": [{}]},
            {"ifname": "eth1", "addr_info": [{"family": "inet", "local": "10.128.0.11"}]}]"#;
        let device = device_with(devices, Ipv4Addr::new(10, 128, 0, 11));
        assert_eq!(device.expect("it is there"), "eth1");
        let missing = device_with(devices, Ipv4Addr::new(10, 128, 0, 12));
        assert!(
            missing
                .expect_err("it is not")
                .to_string()
                .contains("10.128.0.12")
        );
    }
}
