//! What the router costs beyond moving packets: forwarded packets per second of CPU time, against
//! a loop that reads one TUN device and writes it back. Same routes, one thread each, runs interleaved.
//!
//! `cargo bench -p evenkeel-router --bench bare_loop -- [RUNS] [SECONDS] [LOAD]`, as root; only loads
//! whose title has this text.

#[path = "../tests/daemon/support.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;
use std::time::{Duration, Instant};

use evenkeel_wire::PATH_HEADER_LEN;
use quinn_udp::{Transmit, UdpSocketState};
use rustix::param::clock_ticks_per_second;
use serde_json::Value;
use support::{Host, Lab, Versions, header, link};
use tun_rs::DeviceBuilder;

/// What is offered: UDP datagrams to a link, or one TCP connection.
#[derive(Debug)]
enum Load {
    Udp(Datagrams),
    Tcp,
}

#[derive(Debug)]
struct Datagrams {
    /// Bytes.
    payload: usize,
    /// Payloads that leave in one call (UDP_SEGMENT, udp(7)).
    together: usize,
    /// Whether each payload begins with a path header.
    has_header: bool,
    /// Calls per second; as many as the sender can if `None`.
    rate: Option<u32>,
}

const fn flood(payload: usize, together: usize, has_header: bool) -> Load {
    Load::Udp(Datagrams {
        payload,
        together,
        has_header,
        rate: None,
    })
}

const PACED: Load = Load::Udp(Datagrams {
    payload: 1200,
    together: 1,
    has_header: false,
    rate: Some(18_324),
});

const NO_RATE: &str = "queue_packets = 1000";
const FAST: &str = "rate_bps = 10e9\ndelay_ms = 1\nqueue_packets = 1000";
const PLAIN: &str = "rate_bps = 10e9\ndelay_ms = 1\nqueue_packets = 1000\noffload = false";
const STAMPED: &str =
    "rate_bps = 10e9\ndelay_ms = 1\nqueue_packets = 1000\nstamps = [\"aqt\", \"acp\", \"flows\"]";
const SLOW: &str = "rate_bps = 200e6\ndelay_ms = 5\nqueue_packets = 1000";

/// What is offered, and to which link.
const LOADS: [(Load, &str); 10] = [
    (flood(1200, 1, false), NO_RATE),
    (flood(1200, 1, false), FAST),
    (flood(1200, 1, true), STAMPED),
    (flood(100, 1, false), FAST),
    (flood(100, 1, false), PLAIN),
    (flood(1200, 10, false), FAST),
    (flood(1200, 40, false), FAST),
    (flood(1200, 40, true), STAMPED),
    (Load::Tcp, FAST),
    (PACED, SLOW),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [command, tun] = &arguments[..]
        && command == "loop"
    {
        return bare_loop(tun);
    }
    // `cargo test --all-targets` runs this too, without `--bench`.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return println!("not measured: run it with `cargo bench`");
    }
    let mut numbers = arguments
        .iter()
        .filter_map(|argument| argument.parse().ok());
    let runs = numbers.next().unwrap_or(10);
    let seconds = numbers.next().unwrap_or(3);
    let mut wanted = arguments.iter().filter(|argument| *argument != "--bench");
    let wanted = wanted.nth(2).cloned().unwrap_or_default();
    for (load, values) in LOADS {
        let title = format!("{load:?} to {}", values.replace('\n', ", "));
        if title.contains(&wanted) {
            println!("{title}");
            compare(&load, values, runs, Duration::from_secs(seconds));
        }
    }
}

/// The other side of the comparison.
fn bare_loop(tun: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let tun = DeviceBuilder::new().name(tun).build_async().unwrap();
        println!("ready");
        let mut buffer = vec![0; 65_535];
        loop {
            let length = tun.recv(&mut buffer).await.unwrap();
            let _ = tun.try_send(&buffer[..length]);
        }
    });
}

fn compare(load: &Load, values: &str, runs: u64, time: Duration) {
    let (mut bare, mut router) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        let Some(lab) = Lab::new(Versions::Both) else {
            return;
        };
        bare.push(measure_bare(&lab, load, time));
        drop(lab);
        let Some(lab) = Lab::new(Versions::Both) else {
            return;
        };
        let process = lab.start(&link(values));
        router.push(measure(&lab, process.pid(), load, time));
    }
    let [bare, router] = [bare, router].map(|mut runs: Vec<Figures>| {
        runs.sort_by(|a, b| a.per_cpu_second().total_cmp(&b.per_cpu_second()));
        runs
    });
    for (name, runs) in [("bare loop", &bare), ("router", &router)] {
        let median = &runs[runs.len() / 2];
        println!(
            "  {name:<10} {:>9.0} packets per CPU second (median of {}; {:.0} to {:.0}); {:.0} packets/s, {:.0} % of a CPU",
            median.per_cpu_second(),
            runs.len(),
            runs[0].per_cpu_second(),
            runs[runs.len() - 1].per_cpu_second(),
            median.packets / time.as_secs_f64(),
            median.cpu_seconds / time.as_secs_f64() * 100.0,
        );
    }
    let ratio = router[router.len() / 2].per_cpu_second() / bare[bare.len() / 2].per_cpu_second();
    println!("  ratio      {ratio:.3}");
}

struct Figures {
    packets: f64,
    cpu_seconds: f64,
}

impl Figures {
    fn per_cpu_second(&self) -> f64 {
        self.packets / self.cpu_seconds
    }
}

/// Makes by hand what the router makes, and lets the loop run there.
fn measure_bare(lab: &Lab, load: &Load, time: Duration) -> Figures {
    let this = std::env::current_exe().unwrap();
    let mut process = lab
        .command(Host::R, this)
        .args(["loop", "ek-bn"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(process.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    for (name, value) in [
        ("rp_filter", "0"),
        ("accept_local", "1"),
        ("forwarding", "1"),
    ] {
        lab.set(Host::R, &format!("ipv4/conf/ek-bn/{name}"), value);
    }
    lab.ip(Host::R, "link set ek-bn txqueuelen 4096");
    lab.ip(
        Host::R,
        "route add 10.0.2.0/24 via 10.0.9.2 dev vb table 1001",
    );
    lab.ip(Host::R, "rule add iif ek-bn table 1001 priority 1000");
    lab.ip(Host::R, "route add 10.0.2.0/24 dev ek-bn");
    let figures = measure(lab, process.id(), load, time);
    process.kill().unwrap();
    process.wait().unwrap();
    figures
}

/// Offers the load and counts what arrives: bytes, because the receiver's device counts a superpacket
/// as one packet.
fn measure(lab: &Lab, pid: u32, load: &Load, time: Duration) -> Figures {
    let mut blast: Box<dyn FnMut(Duration)> = match load {
        Load::Udp(datagrams) => {
            let receiver = lab.udp(Host::B, "10.0.2.1:9");
            let sender = lab.udp(Host::A, "10.0.1.1:0");
            let to = receiver.local_addr().unwrap();
            // Open until the process ends: nobody says that the port is closed.
            std::mem::forget(receiver);
            let state = UdpSocketState::new((&sender).into()).unwrap();
            Box::new(move |time| datagrams.send(&sender, &state, to, time))
        }
        Load::Tcp => {
            let listener = lab.within(Host::B, || TcpListener::bind("10.0.2.1:9").unwrap());
            let mut sender = lab.within(Host::A, || TcpStream::connect("10.0.2.1:9").unwrap());
            let mut receiver = listener.accept().unwrap().0;
            // It ends with the connection.
            std::thread::spawn(move || std::io::copy(&mut receiver, &mut std::io::sink()));
            Box::new(move |time| repeat(time, None, || drop(sender.write(&[0; 65_536]))))
        }
    };
    blast(Duration::from_millis(300));
    let before = (received(lab), cpu_seconds(pid));
    blast(time);
    let after = (received(lab), cpu_seconds(pid));
    Figures {
        packets: (after.0 - before.0) / load.frame_len(),
        cpu_seconds: after.1 - before.1,
    }
}

impl Load {
    /// Bytes of a packet on the receiver's Ethernet.
    fn frame_len(&self) -> f64 {
        match self {
            Self::Udp(datagrams) => (14 + 28 + datagrams.payload) as f64,
            Self::Tcp => 1514.0,
        }
    }
}

impl Datagrams {
    fn send(&self, sender: &UdpSocket, state: &UdpSocketState, to: SocketAddr, time: Duration) {
        let mut payload = vec![0; self.payload];
        if self.has_header {
            payload[..PATH_HEADER_LEN].copy_from_slice(&header());
        }
        let transmit = Transmit {
            destination: to,
            ecn: None,
            contents: &payload.repeat(self.together),
            segment_size: (self.together > 1).then_some(self.payload),
            src_ip: None,
        };
        // Whatever is not sent now is none of the router's business.
        repeat(time, self.rate, || {
            drop(state.try_send(sender.into(), &transmit));
        });
    }
}

/// Works for this time, so often a second if there is a rate.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark of a daemon in real time"
)]
fn repeat(time: Duration, rate: Option<u32>, mut work: impl FnMut()) {
    let began = Instant::now();
    for done in 1.. {
        work();
        if let Some(rate) = rate {
            let next = began + Duration::from_secs(1) * done / rate;
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
        if began.elapsed() >= time {
            return;
        }
    }
}

/// Bytes that have come to host B.
fn received(lab: &Lab) -> f64 {
    let statistics = lab.ip(Host::B, "-j -s link show eth0");
    let statistics: Value = serde_json::from_str(&statistics).unwrap();
    support::number(&statistics, "0.stats64.rx.bytes")
}

/// User and system time of a process (proc(5), /proc/PID/stat, fields 14 and 15).
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may hold blanks; the state, field 3, follows it.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() / clock_ticks_per_second() as f64
}
