//! A small network for tests: `a -- r -- b`, if asked for with `-- c`, each in a network namespace of its own.
//!
//! It needs root, and `ip` of iproute2. Names hold this process's number, so that runs do not meet;
//! everything goes when the lab is dropped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use evenkeel_tests::skip::{Need, can_run};
use evenkeel_wire::{
    CompactRate, CompactTime, HeaderTimestamp, PATH_HEADER_LEN, PathHeaderKind, PathHeaderRepr,
    Signals,
};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

/// The three hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Host {
    /// Sends: 10.0.1.1, fd00:1::1.
    A,
    /// The router, with devices `va` towards A and `vb` towards B.
    R,
    /// Receives: 10.0.2.1 and fd00:2::1, behind 10.0.9.2 and fd00:9::2.
    B,
    /// Behind B once the lab is [extended](Lab::extend): 10.0.3.1, behind 10.0.8.2.
    C,
}

/// Which addresses a lab has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Versions {
    /// IPv4 and IPv6.
    Both,
    /// IPv6 alone.
    V6,
}

/// Three hosts.
#[derive(Debug)]
pub(crate) struct Lab {
    prefix: String,
    directory: tempfile::TempDir,
    _turn: Turn,
}

/// Who may be at work at the same time.
#[derive(Debug)]
#[expect(dead_code, reason = "guards are held, not read")]
enum Turn {
    Alone(RwLockWriteGuard<'static, ()>),
    Shared(RwLockReadGuard<'static, ()>),
}

/// How long a router may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

static TURNS: RwLock<()> = RwLock::new(());

static LABS: AtomicU32 = AtomicU32::new(0);

/// A link of 10.0.2.0/24 and fd00:2::/64 with these values.
pub(crate) fn link(values: &str) -> String {
    let routes = r#"{ to = "10.0.2.0/24", via = "10.0.9.2", dev = "vb" }, { to = "fd00:2::/64", via = "fd00:9::2", dev = "vb" }"#;
    format!("[[links]]\nname = \"bottleneck\"\ntun = \"ek-bn\"\n{values}\nroutes = [{routes}]\n")
}

/// A header as it leaves a sender whose packets have a TTL of 64.
pub(crate) fn header() -> [u8; PATH_HEADER_LEN] {
    let repr = PathHeaderRepr {
        kind: PathHeaderKind::Acp,
        rtt: CompactTime::from_duration(Duration::from_millis(20)),
        signals: Signals::initial(CompactRate::NO_LIMIT, Some(64)),
        phase: false,
        timestamp: HeaderTimestamp::from_micros(99),
        echo: None,
        tag: [1, 2, 3, 4],
    };
    repr.emit()
}

impl Lab {
    /// A lab for a test that measures: no other is at work at the same time.
    pub(crate) fn alone(versions: Versions) -> Option<Self> {
        let turn = TURNS.write().unwrap_or_else(PoisonError::into_inner);
        Self::build(versions, Turn::Alone(turn))
    }

    /// A lab; `None` where there can be none.
    pub(crate) fn new(versions: Versions) -> Option<Self> {
        let turn = TURNS.read().unwrap_or_else(PoisonError::into_inner);
        Self::build(versions, Turn::Shared(turn))
    }

    fn build(versions: Versions, turn: Turn) -> Option<Self> {
        if !can_run(&[Need::root(), Need::tun(), Need::program("ip", "iproute2")]) {
            return None;
        }
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let lab = Self {
            prefix: format!("ek-{}-{number}", std::process::id()),
            directory: tempfile::tempdir().unwrap(),
            _turn: turn,
        };
        for host in [Host::A, Host::R, Host::B] {
            run("ip", &["netns", "add", &lab.namespace(host)]);
            lab.ip(host, "link set lo up");
        }
        for host in [Host::A, Host::R, Host::B] {
            // Looking for duplicates of an address takes a second in which it is not used.
            lab.set(host, "ipv6/conf/default/accept_dad", "0");
        }
        for (device, host) in [("va", Host::A), ("vb", Host::B)] {
            lab.join(device, host);
        }
        if versions == Versions::Both {
            lab.ip(Host::A, "addr add 10.0.1.1/24 dev eth0");
            lab.ip(Host::R, "addr add 10.0.1.254/24 dev va");
            lab.ip(Host::R, "addr add 10.0.9.1/24 dev vb");
            lab.ip(Host::B, "addr add 10.0.9.2/24 dev eth0");
            lab.ip(Host::B, "addr add 10.0.2.1/32 dev lo");
            lab.ip(Host::A, "route add default via 10.0.1.254");
            lab.ip(Host::B, "route add default via 10.0.9.1");
            lab.set(Host::R, "ipv4/ip_forward", "1");
        }
        lab.ip(Host::A, "addr add fd00:1::1/64 dev eth0 nodad");
        lab.ip(Host::R, "addr add fd00:1::254/64 dev va nodad");
        lab.ip(Host::R, "addr add fd00:9::1/64 dev vb nodad");
        lab.ip(Host::B, "addr add fd00:9::2/64 dev eth0 nodad");
        lab.ip(Host::B, "addr add fd00:2::1/128 dev lo");
        lab.ip(Host::A, "-6 route add default via fd00:1::254");
        lab.ip(Host::B, "-6 route add default via fd00:9::1");
        lab.set(Host::R, "ipv6/conf/all/forwarding", "1");
        // Whatever the machine's own setting is.
        for device in ["all", "va", "vb"] {
            lab.set(Host::R, &format!("ipv4/conf/{device}/rp_filter"), "0");
        }
        Some(lab)
    }

    /// Joins a host to R's device of this name.
    fn join(&self, device: &str, host: Host) {
        let peer = self.namespace(host);
        self.ip(
            Host::R,
            &format!("link add {device} type veth peer name eth0 netns {peer}"),
        );
        // In an ARP message its second octet is where IPv4 has the protocol that tests look for.
        self.ip(
            Host::R,
            &format!("link set {device} address 02:fd:00:00:00:01 up"),
        );
        self.ip(host, "link set eth0 address 02:fd:00:00:00:02 up");
    }

    /// Joins B to R again, by IPv4, after the device `vb` was removed.
    pub(crate) fn join_b(&self) {
        self.join("vb", Host::B);
        self.set(Host::R, "ipv4/conf/vb/rp_filter", "0");
        self.ip(Host::R, "addr add 10.0.9.1/24 dev vb");
        self.ip(Host::B, "addr add 10.0.9.2/24 dev eth0");
        self.ip(Host::B, "route add default via 10.0.9.1");
    }

    /// Adds host C behind B, which routes to it by its device `vc`.
    pub(crate) fn extend(&self) {
        run("ip", &["netns", "add", &self.namespace(Host::C)]);
        let peer = self.namespace(Host::C);
        self.ip(
            Host::B,
            &format!("link add vc type veth peer name eth0 netns {peer}"),
        );
        self.ip(Host::B, "link set vc up");
        self.ip(Host::C, "link set eth0 up");
        self.ip(Host::C, "link set lo up");
        self.ip(Host::B, "addr add 10.0.8.1/24 dev vc");
        self.ip(Host::C, "addr add 10.0.8.2/24 dev eth0");
        self.ip(Host::C, "addr add 10.0.3.1/32 dev lo");
        self.ip(Host::C, "route add default via 10.0.8.1");
        self.ip(Host::B, "route add 10.0.3.0/24 via 10.0.8.2 dev vc");
        self.ip(Host::R, "route add 10.0.3.0/24 via 10.0.9.2 dev vb");
        self.set(Host::B, "ipv4/ip_forward", "1");
        for device in ["all", "eth0", "vc"] {
            self.set(Host::B, &format!("ipv4/conf/{device}/rp_filter"), "0");
        }
    }

    /// Name of a host's namespace.
    pub(crate) fn namespace(&self, host: Host) -> String {
        format!("{}-{host:?}", self.prefix).to_lowercase()
    }

    /// A place for files.
    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Runs `ip` in a host; returns what it prints.
    pub(crate) fn ip(&self, host: Host, arguments: &str) -> String {
        let namespace = self.namespace(host);
        let mut all = vec!["-n", &namespace];
        all.extend(arguments.split_whitespace());
        run("ip", &all)
    }

    /// Sets a value below /proc/sys/net of a host.
    pub(crate) fn set(&self, host: Host, path: &str, value: &str) {
        let path = Path::new("/proc/sys/net").join(path);
        self.within(host, || fs::write(path, value).unwrap());
    }

    /// Does something in a host: sockets that are made in it stay there.
    pub(crate) fn within<T: Send>(&self, host: Host, work: impl FnOnce() -> T + Send) -> T {
        let namespace = Path::new("/run/netns").join(self.namespace(host));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let namespace = File::open(namespace).unwrap();
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(namespace.as_fd(), kind).unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    /// A UDP socket in a host.
    pub(crate) fn udp(&self, host: Host, address: &str) -> UdpSocket {
        let socket = self.within(host, || UdpSocket::bind(address).unwrap());
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        socket
    }

    /// A command that runs in a host.
    pub(crate) fn command(&self, host: Host, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host)]);
        command.arg(program.as_ref());
        command
    }

    /// Writes a configuration with these links, its socket in the lab's directory.
    pub(crate) fn write_config(&self, links: &str) -> PathBuf {
        let path = self.directory().join("r1.toml");
        let socket = self.socket();
        let text = format!("name = \"r1\"\nsocket = {socket:?}\n{links}");
        fs::write(&path, text).unwrap();
        path
    }

    /// The socket of the router in the lab.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory().join("r1.sock")
    }

    /// `evenkeel-router` in host R.
    pub(crate) fn evenkeel_router(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(Host::R, env!("CARGO_BIN_EXE_evenkeel-router"));
        command.args(arguments);
        command
    }

    /// Starts a router and waits until it forwards.
    pub(crate) fn start(&self, links: &str) -> Router {
        self.start_with(&[], links)
    }

    /// Starts a router with more arguments.
    pub(crate) fn start_with(&self, arguments: &[&str], links: &str) -> Router {
        let config = self.write_config(links);
        self.run(Host::R, arguments, &config, self.socket())
    }

    /// Starts a router named after its host: in R a second one.
    pub(crate) fn start_in(&self, host: Host, links: &str) -> Router {
        let name = format!("{host:?}").to_lowercase();
        let socket = self.directory().join(format!("{name}.sock"));
        let config = self.directory().join(format!("{name}.toml"));
        let text = format!("name = {name:?}\nsocket = {socket:?}\n{links}");
        fs::write(&config, text).unwrap();
        self.run(host, &[], &config, socket)
    }

    fn run(&self, host: Host, arguments: &[&str], config: &Path, socket: PathBuf) -> Router {
        let log = config.with_extension("log");
        let mut command = self.command(host, env!("CARGO_BIN_EXE_evenkeel-router"));
        let mut child = command
            .args(["run", "--config"])
            .arg(config)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut ready).unwrap();
        if !ready.starts_with("ready ") {
            let _ = child.wait();
            let log = fs::read_to_string(log).unwrap();
            panic!("the router did not start: {log}");
        }
        Router {
            child,
            ready,
            socket,
            log,
        }
    }

    /// Rules and routes with the router's protocol number, and TUN devices, in host R.
    pub(crate) fn leftovers(&self) -> String {
        let mut text = String::new();
        for listing in [
            "-4 rule",
            "-6 rule",
            "-4 route show table all",
            "-6 route show table all",
        ] {
            let listed = self.ip(Host::R, listing);
            text.extend(
                listed
                    .lines()
                    .filter(|line| line.contains("proto 107"))
                    .map(|line| format!("{line}\n")),
            );
        }
        text + &self.ip(Host::R, "link show type tun")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in [Host::A, Host::R, Host::B, Host::C] {
            if !Path::new("/run/netns").join(self.namespace(host)).exists() {
                continue;
            }
            let _ = Command::new("ip")
                .args(["netns", "del", &self.namespace(host)])
                .status();
        }
    }
}

/// A running router; killed when dropped.
#[derive(Debug)]
pub(crate) struct Router {
    child: Child,
    /// The line that it printed.
    pub(crate) ready: String,
    socket: PathBuf,
    log: PathBuf,
}

impl Router {
    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        // `ip netns exec` replaces itself by the program.
        self.child.id()
    }

    /// Sends one line to the status socket and parses the line that comes back.
    pub(crate) fn ask(&self, line: &str) -> Value {
        use std::io::Write;
        let mut stream = std::os::unix::net::UnixStream::connect(&self.socket).unwrap();
        // A router that hangs fails the test, and does not hang it.
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    /// The figures of its only link.
    pub(crate) fn link(&self) -> Value {
        self.ask(r#"{"request":"status"}"#)["links"][0].clone()
    }

    /// Sends a signal, and waits for the end; what it says on standard error comes along.
    pub(crate) fn stop(mut self, signal: Signal) -> (ExitStatus, String) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.wait()
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        (status, self.log())
    }

    /// What it has said on standard error.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number in a JSON document, by its path: `total.arrived.packets`.
pub(crate) fn number(document: &Value, path: &str) -> f64 {
    let pointer = format!("/{}", path.replace('.', "/"));
    let value = document.pointer(&pointer).and_then(Value::as_f64);
    value.unwrap_or_else(|| panic!("no number {path} in {document}"))
}

/// Runs a command that must succeed; returns what it prints.
pub(crate) fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until something holds, if need be for half a minute.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let held = (0..600).any(|_| {
        if holds() {
            return true;
        }
        pause();
        false
    });
    assert!(held, "{what}");
}

/// Waits for a moment between two looks.
pub(crate) fn pause() {
    // A thread of a scope that has ended has left a token, which parking takes at once.
    std::thread::park_timeout(Duration::ZERO);
    std::thread::park_timeout(Duration::from_millis(50));
}

/// Stops other threads' traffic, also when a check fails.
pub(crate) struct StopWhenDropped<'a>(pub(crate) &'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
