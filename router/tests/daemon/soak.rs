//! A router that is busy, changed, disturbed and watched all the while.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::process::Signal;
use serde_json::Value;

use crate::metrics::exchange;
use crate::support::{Host, Lab, Router, StopWhenDropped, Versions, eventually, header, number};

/// How long it lasts; `.ci/full soak` asks for an hour.
const SECONDS: &str = "EVENKEEL_SOAK_SECONDS";
const DEFAULT_SECONDS: u64 = 30;

/// Where the metrics are, in host R.
const METRICS: &str = "127.0.0.1:9310";

/// A sender's turns.
const TURN: Duration = Duration::from_millis(1);

/// How many packets may wait at each link. No more than the 4096 of a device's ring come at once, and
/// the links are faster than what is offered.
const QUEUE_PACKETS: [u64; 2] = [10_000, 200];

/// How many buffers a link keeps for later packets (`SPARE_BUFFERS`).
const SPARE_BUFFERS: u64 = 1024;

/// What a waiting packet takes: a buffer of up to 1428 bytes, and 96 bytes of a queue whose capacity
/// doubles as it grows.
const PACKET_BYTES: u64 = 1440 + 2 * 96;

/// How far memory may grow after the first quarter: by what full queues and their spare buffers take,
/// because how full they were in that quarter depends on what else the machine does. A leak of a few
/// bytes per packet is more: some 30,000 packets come in a second.
const MOST_GROWTH_KIB: u64 =
    (QUEUE_PACKETS[0] + QUEUE_PACKETS[1] + 2 * SPARE_BUFFERS) * PACKET_BYTES / 1024;

/// The links. The first is made anew with each other `there`; the second keeps its figures, and its
/// exit device comes and goes.
fn links(there: &str, aside: &str) -> String {
    let [queue_there, queue_aside] = QUEUE_PACKETS;
    format!(
        r#"metrics = "{METRICS}"
        [[links]]
        name = "there"
        tun = "ek-there"
        queue_packets = {queue_there}
        {there}
        routes = [
            {{ to = "10.0.2.0/24", via = "10.0.9.2", dev = "vb" }},
            {{ to = "fd00:2::/64", via = "fd00:9::2", dev = "vb" }},
        ]
        [[links]]
        name = "aside"
        tun = "ek-aside"
        rate_bps = 100e6
        queue_packets = {queue_aside}
        discipline = "guided"
        stamps = ["aqt", "acp", "xcp", "rcp", "flows"]
        routes = [{{ to = "10.0.4.0/24", via = "10.0.11.2", dev = "vd" }}{aside}]
        "#
    )
}

/// Configurations that follow each other.
fn variants() -> [String; 4] {
    let more = r#", { to = "10.0.5.0/24", via = "10.0.11.2", dev = "vd" }"#;
    [
        links(
            "rate_bps = 600e6\nstamps = [\"aqt\", \"acp\", \"flows\"]",
            "",
        ),
        links("rate_bps = 600e6\ndelay_ms = 3", ""),
        links("rate_bps = 500e6\ndelay_ms = 1\nstamps = [\"rcp\"]", more),
        links(
            "rate_bps = 600e6\nstamps = [\"aqt\", \"acp\", \"flows\"]",
            more,
        ),
    ]
}

/// Packets of one flow of UDP.
#[derive(Debug, Default)]
struct Flow {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Flow {
    /// Sends `payload` at a rate in bits per second until it is told to stop.
    #[expect(clippy::disallowed_methods, reason = "sends in real time")]
    fn send(&self, socket: &UdpSocket, to: &str, payload: &[u8], bps: f64, stop: &AtomicBool) {
        socket.connect(to).unwrap();
        let each = Duration::from_secs_f64(payload.len() as f64 * 8.0 / bps);
        let mut due = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            // A machine that is busy with other things makes up for a moment, no longer.
            due = due.max(now.checked_sub(TURN * 20).unwrap_or(now));
            while due <= now {
                due += each;
                self.sent
                    .fetch_add(u64::from(socket.send(payload).is_ok()), Ordering::Relaxed);
            }
            thread::park_timeout(TURN);
        }
    }

    /// Counts what arrives, until half a second after the stop.
    fn receive(&self, socket: &UdpSocket, stop: &AtomicBool) {
        socket
            .set_read_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        let mut buffer = [0; 2048];
        loop {
            let arrived = socket.recv(&mut buffer).is_ok();
            self.received
                .fetch_add(u64::from(arrived), Ordering::Relaxed);
            if !arrived && stop.load(Ordering::Relaxed) {
                return;
            }
        }
    }
}

/// The lab, with a second way from R to B: `vd`, and 10.0.4.1 behind 10.0.11.2.
fn lab() -> Option<Lab> {
    let lab = Lab::alone(Versions::Both)?;
    let peer = lab.namespace(Host::B);
    lab.ip(
        Host::R,
        &format!("link add vd type veth peer name eth1 netns {peer}"),
    );
    lab.ip(Host::R, "link set vd up");
    lab.ip(Host::R, "addr add 10.0.11.1/24 dev vd");
    lab.set(Host::R, "ipv4/conf/vd/rp_filter", "0");
    lab.ip(Host::B, "link set eth1 up");
    lab.ip(Host::B, "addr add 10.0.11.2/24 dev eth1");
    lab.ip(Host::B, "addr add 10.0.4.1/32 dev lo");
    for device in ["all", "eth0", "eth1"] {
        lab.set(Host::B, &format!("ipv4/conf/{device}/rp_filter"), "0");
    }
    // The kernel counts a superpacket as one.
    lab.ip(Host::A, "link set eth0 gso_max_segs 1");
    Some(lab)
}

fn receiver(lab: &Lab, address: &str) -> UdpSocket {
    let socket = lab.udp(Host::B, address);
    set_socket_recv_buffer_size_force(&socket, 16 << 20).unwrap();
    socket
}

/// What the kernel has dropped on the way of the first link: in the device's ring, between two
/// devices, and at the receivers' sockets.
fn dropped_by_the_kernel(lab: &Lab) -> u64 {
    let snmp = |file: &str, name: &str| {
        let text = lab.within(Host::B, || {
            fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap()
        });
        snmp_value(&text, name)
    };
    device(lab, "ek-there", "tx_dropped")
        + softnet_dropped()
        + snmp("snmp", "RcvbufErrors")
        + snmp("snmp6", "Udp6RcvbufErrors")
}

/// A value of /proc/net/snmp (a line of names, a line of values) or snmp6 (a name and its value).
fn snmp_value(text: &str, name: &str) -> u64 {
    let lines: Vec<Vec<_>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let value = lines.windows(2).find_map(|pair| match pair[0].as_slice() {
        [own, value] if *own == name => Some(*value),
        names if names.first() == Some(&"Udp:") && names.get(1) == Some(&"InDatagrams") => {
            let column = names.iter().position(|other| *other == name)?;
            Some(pair[1][column])
        }
        _ => None,
    });
    value
        .unwrap_or_else(|| panic!("no {name} in {text}"))
        .parse()
        .unwrap()
}

/// A counter of a device of R.
fn device(lab: &Lab, name: &str, counter: &str) -> u64 {
    let listed: Value =
        serde_json::from_str(&lab.ip(Host::R, &format!("-j -s link show {name}"))).unwrap();
    let (direction, counter) = counter.split_once('_').unwrap();
    number(&listed, &format!("0.stats64.{direction}.{counter}")) as u64
}

/// Packets of the whole machine that found a processor's backlog full.
fn softnet_dropped() -> u64 {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap();
    let column =
        |line: &str| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
    text.lines().map(column).sum()
}

/// Resident memory in KiB, and open file descriptors.
fn holds(router: &Router) -> (u64, usize) {
    let directory = format!("/proc/{}", router.pid());
    let text = fs::read_to_string(format!("{directory}/status")).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let resident = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    (
        resident,
        fs::read_dir(format!("{directory}/fd")).unwrap().count(),
    )
}

/// Sends a pattern over TCP for as long as it lasts; returns how many bytes have arrived right.
fn transfer<'scope>(
    lab: &'scope Lab,
    scope: &'scope Scope<'scope, '_>,
    stop: &'scope AtomicBool,
) -> thread::ScopedJoinHandle<'scope, u64> {
    const PERIOD: usize = 251;
    let pattern: Vec<u8> = (0..PERIOD * 256).map(|at| (at % PERIOD) as u8).collect();
    let listener = lab.within(Host::B, || TcpListener::bind("10.0.4.1:5000").unwrap());
    scope.spawn(move || {
        let mut sender = lab.within(Host::A, || TcpStream::connect("10.0.4.1:5000").unwrap());
        let (mut receiver, _) = listener.accept().unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        thread::scope(|scope| {
            let sent = scope.spawn(move || {
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    sender.write_all(&pattern).unwrap();
                    sent += pattern.len() as u64;
                }
                sent
            });
            let mut received = 0;
            let mut buffer = vec![0; 1 << 16];
            loop {
                let count = receiver.read(&mut buffer).unwrap();
                if count == 0 {
                    assert_eq!(received, sent.join().unwrap());
                    return received;
                }
                for byte in &buffer[..count] {
                    assert_eq!(u64::from(*byte), received % PERIOD as u64);
                    received += 1;
                }
            }
        })
    })
}

/// Asks for the figures in each way there is, beside clients that ask nothing.
fn watch(lab: &Lab, router: &Router, stop: &AtomicBool) {
    let mut table = lab.evenkeel_router(&["status", "--watch", "--socket"]);
    let table = table
        .arg(lab.socket())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut table = table.spawn().unwrap();
    let mut idle = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for request in ["status", "sample", "nonsense"] {
            router.ask(&format!("{{\"request\":\"{request}\"}}"));
        }
        let scrape = lab.within(Host::R, || TcpStream::connect(METRICS).unwrap());
        let scraped = exchange(scrape, "GET /metrics HTTP/1.1\r\nHost: r1\r\n\r\n");
        assert!(scraped.contains("delivered_packets_total"), "{scraped}");
        idle.push(UnixStream::connect(lab.socket()).unwrap());
        if idle.len() > 16 {
            idle.clear();
        }
        thread::park_timeout(Duration::from_millis(200));
    }
    let _ = table.kill();
    let _ = table.wait();
}

/// Gives the router one configuration after another, while the exit device is there: the router
/// takes no configuration whose devices are down.
fn reload(lab: &Lab, router: &Router, exit: &Mutex<()>, every: Duration, stop: &AtomicBool) {
    for variant in variants().iter().cycle().skip(1) {
        waits(every, stop);
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let _up = exit.lock().unwrap();
        lab.write_config(variant);
        let answer = router.ask(r#"{"request":"reload"}"#);
        assert_eq!(answer["error"], Value::Null, "{answer}");
    }
}

/// Takes the second link's exit device away for a moment, again and again.
fn flap(lab: &Lab, exit: &Mutex<()>, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        waits(Duration::from_secs(7), stop);
        let _down = exit.lock().unwrap();
        lab.ip(Host::R, "link set vd down");
        waits(Duration::from_millis(300), stop);
        lab.ip(Host::R, "link set vd up");
    }
}

/// Waits, unless it is told to stop.
#[expect(clippy::disallowed_methods, reason = "soaks in real time")]
fn waits(time: Duration, stop: &AtomicBool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it, and an hour of it as .ci/full soak"]
#[expect(clippy::print_stderr, reason = "long work shows progress")]
fn a_busy_router_loses_no_packet_uncounted_and_grows_neither_memory_nor_descriptors() {
    let Some(lab) = lab() else {
        return;
    };
    let seconds = env::var(SECONDS).map_or(DEFAULT_SECONDS, |text| text.parse().unwrap());
    let router = lab.start(&variants()[0]);
    let dropped_before = dropped_by_the_kernel(&lab);
    let [plain, headered, v6, aside] = std::array::from_fn(|_| Flow::default());
    let headers = [&header()[..], &[7; 1000]].concat();
    // What goes where, and with how many bits per second.
    let flows: [(&Flow, &str, &[u8], f64); 4] = [
        (&plain, "10.0.2.1:7001", &[7; 1400], 200e6),
        (&headered, "10.0.2.1:7002", &headers, 150e6),
        (&v6, "[fd00:2::1]:7003", &[7; 1200], 50e6),
        (&aside, "10.0.4.1:7004", &headers, 40e6),
    ];
    let stop = AtomicBool::new(false);
    let exit = Mutex::new(());
    let mut samples = Vec::new();
    let transferred = thread::scope(|scope| {
        let (stop, exit) = (&stop, &exit);
        let _stop = StopWhenDropped(stop);
        let (lab, router) = (&lab, &router);
        for (flow, to, payload, bps) in flows {
            let own = if to.starts_with('[') {
                "[fd00:1::1]:0"
            } else {
                "10.0.1.1:0"
            };
            let (sender, receiver) = (lab.udp(Host::A, own), receiver(lab, to));
            scope.spawn(move || flow.send(&sender, to, payload, bps, stop));
            scope.spawn(move || flow.receive(&receiver, stop));
        }
        let transfer = transfer(lab, scope, stop);
        let every = Duration::from_secs((seconds / 10).clamp(1, 60));
        // One that fails ends the rest, too.
        scope.spawn(move || {
            let _stop = StopWhenDropped(stop);
            reload(lab, router, exit, every, stop);
        });
        scope.spawn(move || {
            let _stop = StopWhenDropped(stop);
            flap(lab, exit, stop);
        });
        scope.spawn(move || {
            let _stop = StopWhenDropped(stop);
            watch(lab, router, stop);
        });
        for second in 1..=seconds {
            waits(Duration::from_secs(1), stop);
            assert!(
                !stop.load(Ordering::Relaxed),
                "one of its threads has failed"
            );
            samples.push(holds(router));
            if second % 60 == 0 {
                let (resident, descriptors) = holds(router);
                eprintln!("{second} of {seconds} s: {resident} KiB, {descriptors} descriptors");
            }
        }
        stop.store(true, Ordering::Relaxed);
        transfer.join().unwrap()
    });
    let status = || router.ask(r#"{"request":"status"}"#);
    let inside = |link: usize| number(&status(), &format!("links.{link}.inside.packets"));
    eventually("all have left", || inside(0) + inside(1) == 0.0);

    for (flow, to, ..) in flows {
        let (sent, received) = (
            flow.sent.load(Ordering::Relaxed),
            flow.received.load(Ordering::Relaxed),
        );
        eprintln!("{to}: {sent} sent, {received} received");
    }
    let sum = |counter: fn(&Flow) -> &AtomicU64| -> u64 {
        [&plain, &headered, &v6]
            .map(|flow| counter(flow).load(Ordering::Relaxed))
            .iter()
            .sum()
    };
    let (sent, received) = (sum(|flow| &flow.sent), sum(|flow| &flow.received));
    let dropped = dropped_by_the_kernel(&lab) - dropped_before;
    eprintln!("link there: {sent} sent, {received} received, {dropped} dropped by the kernel");
    eprintln!("TCP: {transferred} bytes");
    assert!(sent > 0 && transferred > 0);
    assert_eq!(
        sent,
        received + dropped,
        "some are lost that nobody has counted"
    );

    let link = status()["links"][1].clone();
    let total = |name: &str| number(&link, &format!("total.{name}")) as u64;
    let came_out = total("dropped.packets") + total("lost.packets") + total("delivered.packets");
    assert_eq!(total("arrived.packets"), came_out);
    let read = total("arrived.packets") + total("link_scope.packets") + total("not_ip.packets");
    assert_eq!(device(&lab, "ek-aside", "tx_packets"), read);
    assert_eq!(
        device(&lab, "ek-aside", "tx_dropped"),
        total("ring_dropped")
    );

    let (early, late) = samples.split_at(samples.len() / 4);
    let most = |part: &[(u64, usize)]| {
        let residents = part.iter().map(|(resident, _)| *resident);
        let descriptors = part.iter().map(|(_, descriptors)| *descriptors);
        (residents.max().unwrap(), descriptors.max().unwrap())
    };
    let (before, after) = (most(early), most(late));
    eprintln!("at most {before:?} KiB and descriptors in the first quarter, {after:?} later");
    assert!(
        after.0 <= before.0 + MOST_GROWTH_KIB,
        "{before:?} KiB became {after:?}, and full queues take {MOST_GROWTH_KIB} KiB"
    );
    let (_, idle) = holds(&router);
    assert!(idle <= before.1, "{idle} descriptors are open");
    let (status, log) = router.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0), "{log}");
}
