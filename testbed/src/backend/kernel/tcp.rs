//! A flow over the kernel's own TCP: which controllers it has, and the two programs on hosts that
//! send and receive, with records as those of `evenkeel bulk`.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::libc;
use nix::sys::socket::getsockopt;
use nix::{getsockopt_impl, sockopt_impl};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use serde::Serialize;

use super::super::clock::wall_clock;
use super::error::KernelError;
use super::records::{SenderInterval, TcpReceived};
use crate::scenario::{App, FlowSpec, Scenario};

sockopt_impl!(TcpInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, Info);

/// What the kernel reports of a connection: the first 200 bytes of `tcp_info` (linux/tcp.h), which
/// Linux has since 4.18. Later kernels tell more to those who ask for it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
#[expect(unreachable_pub, reason = "nix's macro makes public what reads it")]
pub struct Info {
    _state: [u8; 5],
    options: u8,
    _flags: [u8; 2],
    _timeouts: [u32; 2],
    /// Bytes of data in a full segment, there and back.
    send_segment: u32,
    receive_segment: u32,
    _in_flight: [u32; 11],
    /// The smoothed round trip in microseconds.
    rtt: u32,
    _rtt_variation: u32,
    /// Both in segments.
    slow_start_threshold: u32,
    window: u32,
    _receiver: [u32; 4],
    retransmitted: u32,
    /// Bytes per second.
    pacing_rate: u64,
    _acknowledged: [u64; 2],
    /// Bytes, those behind a missing segment left out.
    received_in_order: u64,
    _segments: [u32; 4],
    /// Segments with data.
    data_segments_in: u32,
    data_segments_out: u32,
    _limited: [u64; 4],
    delivered: u32,
    _marked: u32,
}

/// What the kernel's TCP has and what it may use without being asked.
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";

/// How often the sender looks at its round-trip time, at most.
const LOOK: Duration = Duration::from_millis(10);

/// What is written or read at once, in bytes.
const PIECE: usize = 128 * 1024;

/// Bytes of a TCP header, and of its timestamps (RFC 7323, section 3.2, padded).
const HEADER_BYTES: u64 = 20;
const TIMESTAMPS_BYTES: u64 = 12;

/// The flag of a connection's options that says that segments have timestamps (linux/tcp.h).
const OPTION_TIMESTAMPS: u8 = 1;

/// A threshold of slow start that is none (TCP_INFINITE_SSTHRESH of the kernel).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Fails if a flow of `scenario` names a controller that this kernel's TCP does not have. The
/// kernel may load a module to find out.
pub(in crate::backend) fn check_controllers(scenario: &Scenario) -> Result<(), KernelError> {
    let flows = scenario.flows.iter();
    for spec in flows.filter(|spec| matches!(spec.app, App::Tcp { .. })) {
        let has = |list: &str| list.split_whitespace().any(|name| name == spec.controller);
        if has(&available()) {
            continue;
        }
        // Naming it makes the kernel load its module, if there is one and this user may.
        let family = AddressFamily::INET;
        if let Ok(socket) = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None) {
            let _ = sockopt::set_tcp_congestion(socket, &spec.controller);
        }
        let list = available();
        if !has(&list) {
            let (flow, controller) = (spec.name.clone(), spec.controller.clone());
            return Err(KernelError::KernelController(flow, controller, list));
        }
    }
    Ok(())
}

fn available() -> String {
    let list = fs::read_to_string(AVAILABLE).unwrap_or_default();
    list.trim().to_owned()
}

/// The arguments of the receiver's program, which listens at `address`.
pub(super) fn sink(scenario: &Scenario, address: &str) -> Vec<String> {
    let interval = scenario.sampling_interval.as_millis();
    vec!["tcp-sink".into(), address.into(), interval.to_string()]
}

/// The arguments of the sender's program, which sends `bytes` to `address`, or until it is stopped.
pub(super) fn source(
    scenario: &Scenario,
    spec: &FlowSpec,
    address: &str,
    bytes: Option<u64>,
) -> Vec<String> {
    let interval = scenario.sampling_interval.as_millis();
    let mut arguments = vec![
        "tcp-source".into(),
        spec.from.address(spec.ip_version).to_string(),
        address.into(),
        spec.controller.clone(),
        interval.to_string(),
    ];
    arguments.extend(bytes.map(|bytes| bytes.to_string()));
    arguments
}

/// A line of output.
#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Said {
    Listening { pin: &'static str },
    Interval(SenderInterval),
    TcpReceived(TcpReceived),
    TcpDone { bytes: u64 },
}

impl Said {
    fn print(&self) -> io::Result<()> {
        let line = serde_json::to_string(self)?;
        let mut output = io::stdout().lock();
        writeln!(output, "{line}")?;
        output.flush()
    }
}

/// The receiver's process: takes one connection after the other at `at`, reads what comes, and
/// says every `interval` what that was.
///
/// # Errors
/// If it cannot listen, or nobody reads what it says.
pub fn tcp_sink(at: SocketAddr, interval: Duration) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    // Nothing is encrypted: there is no certificate to pin.
    Said::Listening { pin: "" }.print()?;
    loop {
        let (mut stream, _) = listener.accept()?;
        let receiving = Receiving::new(stream.try_clone()?);
        let bytes = AtomicU64::new(0);
        let (end, ended) = channel();
        std::thread::scope(|scope| {
            let reporter = scope.spawn(|| receiving.report(interval, &bytes, ended));
            let mut buffer = vec![0; PIECE];
            // A sender that is killed resets the connection: that too is its end.
            while let Ok(read @ 1..) = stream.read(&mut buffer) {
                bytes.fetch_add(read as u64, Ordering::Relaxed);
            }
            drop(end);
            reporter.join().expect("a reporter does not panic")
        })?;
        // The stream is closed here, behind the last record, and tells the sender that all came.
    }
}

/// The sender's process: sends `bytes` zeros, or without end, from `from` to the sink at `to` with
/// the kernel's `controller`, and says every `interval` how that went.
///
/// # Errors
/// If the kernel refuses the controller, the connection fails, or nobody reads what it says.
pub fn tcp_source(
    from: IpAddr,
    to: SocketAddr,
    controller: &str,
    bytes: Option<u64>,
    interval: Duration,
) -> io::Result<()> {
    let stream = connected(from, to, controller)?;
    let sending = Sending::new(stream.try_clone()?, controller);
    let (end, ended) = channel();
    let sent = std::thread::scope(|scope| {
        let reporter = scope.spawn(|| sending.report(interval, ended));
        let sent = send(&stream, bytes.unwrap_or(u64::MAX));
        drop(end);
        reporter.join().expect("a reporter does not panic")?;
        sent
    })?;
    Said::TcpDone { bytes: sent }.print()
}

fn connected(from: IpAddr, to: SocketAddr, controller: &str) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_tcp_congestion(&socket, controller).map_err(|error| {
        io::Error::other(format!(
            "the kernel's TCP refuses the controller {controller}: {error}"
        ))
    })?;
    bind(&socket, &SocketAddr::new(from, 0))?;
    connect(&socket, &to)?;
    Ok(socket.into())
}

/// Sends `bytes` zeros, and waits until the receiver has read them all.
fn send(mut stream: &TcpStream, bytes: u64) -> io::Result<u64> {
    let piece = vec![0; PIECE];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(PIECE as u64) as usize;
        stream.write_all(&piece[..length])?;
        left -= length as u64;
    }
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut stream, &mut io::sink())?;
    Ok(bytes)
}

/// Waits until `at`; returns whether the connection ends before that.
fn ends_before(at: Instant, ended: &Receiver<Infallible>) -> bool {
    let left = at.saturating_duration_since(wall_clock());
    ended.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
}

/// When an interval's record is due, the next after `now`.
fn next_tick(mut tick: Instant, now: Instant, interval: Duration) -> Instant {
    while tick <= now {
        tick += interval;
    }
    tick
}

/// What is known of the receiving side of a connection.
struct Receiving {
    stream: TcpStream,
    /// Bytes of an IP header without options.
    ip_header_bytes: u64,
    began: Instant,
    /// What has been reported.
    until: Duration,
    app_bytes: u64,
    ip_bytes: u64,
}

impl Receiving {
    fn new(stream: TcpStream) -> Self {
        let ip_header_bytes = match stream.local_addr() {
            Ok(SocketAddr::V6(_)) => 40,
            _ => 20,
        };
        Self {
            stream,
            ip_header_bytes,
            began: wall_clock(),
            until: Duration::ZERO,
            app_bytes: 0,
            ip_bytes: 0,
        }
    }

    fn report(
        mut self,
        interval: Duration,
        bytes: &AtomicU64,
        ended: Receiver<Infallible>,
    ) -> io::Result<()> {
        let mut tick = self.began + interval;
        loop {
            let is_last = ends_before(tick, &ended);
            let now = wall_clock();
            tick = next_tick(tick, now, interval);
            let info = getsockopt(&self.stream, TcpInfo)?;
            let until = now - self.began;
            let app_bytes = bytes.load(Ordering::Relaxed);
            let ip_bytes = ip_bytes(&info, self.ip_header_bytes).max(self.ip_bytes);
            Said::TcpReceived(TcpReceived {
                start_s: self.until.as_secs_f64(),
                end_s: until.as_secs_f64(),
                bytes: app_bytes - self.app_bytes,
                ip_bytes: ip_bytes - self.ip_bytes,
            })
            .print()?;
            (self.until, self.app_bytes, self.ip_bytes) = (until, app_bytes, ip_bytes);
            if is_last {
                return Ok(());
            }
        }
    }
}

/// Bytes of the IP packets with data that have come, headers included.
fn ip_bytes(info: &Info, ip_header_bytes: u64) -> u64 {
    let segments = u64::from(info.data_segments_in);
    let timestamps = match info.options & OPTION_TIMESTAMPS {
        0 => 0,
        _ => TIMESTAMPS_BYTES,
    };
    let headers = ip_header_bytes + HEADER_BYTES + timestamps;
    let full = u64::from(info.receive_segment);
    payload_bytes(segments, full, info.received_in_order) + segments * headers
}

/// Bytes of data in `segments` segments, a full one of which has `full` bytes. The kernel counts segments as
/// they come, but bytes only when none before them is missing: so all are taken for full, unless
/// the bytes that are `in_order` leave less than one segment unexplained.
fn payload_bytes(segments: u64, full: u64, in_order: u64) -> u64 {
    match (segments * full).saturating_sub(in_order) {
        beyond if beyond >= full => segments * full,
        _ => in_order,
    }
}

/// What is known of the sending side of a connection.
struct Sending {
    stream: TcpStream,
    /// Whether the controller has the kernel pace: `TCP_INFO` shows a rate without that, too.
    is_paced: bool,
    began: Instant,
    /// What has been reported.
    until: Duration,
    sent: u32,
    retransmitted: u32,
    /// What was delivered when the round trip was looked at last.
    delivered: u32,
    rtt_samples_ms: Vec<f64>,
}

impl Sending {
    fn new(stream: TcpStream, controller: &str) -> Self {
        Self {
            stream,
            is_paced: controller.starts_with("bbr"),
            began: wall_clock(),
            until: Duration::ZERO,
            sent: 0,
            retransmitted: 0,
            delivered: 0,
            rtt_samples_ms: Vec::new(),
        }
    }

    fn report(mut self, interval: Duration, ended: Receiver<Infallible>) -> io::Result<()> {
        let mut tick = self.began + interval;
        loop {
            let is_last = ends_before(tick.min(wall_clock() + LOOK), &ended);
            let now = wall_clock();
            let info = getsockopt(&self.stream, TcpInfo)?;
            if info.delivered != self.delivered {
                self.delivered = info.delivered;
                self.rtt_samples_ms.push(f64::from(info.rtt) / 1e3);
            }
            if is_last || now >= tick {
                tick = next_tick(tick, now, interval);
                Said::Interval(self.interval(&info, now - self.began)).print()?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// The record of the interval that ends at `until`.
    fn interval(&mut self, info: &Info, until: Duration) -> SenderInterval {
        let segment = u64::from(info.send_segment);
        let threshold = info.slow_start_threshold;
        let (sent, retransmitted) = (info.data_segments_out, info.retransmitted);
        let interval = SenderInterval {
            start_s: self.until.as_secs_f64(),
            end_s: until.as_secs_f64(),
            packets_sent: u64::from(sent.wrapping_sub(self.sent)),
            packets_lost: u64::from(retransmitted.wrapping_sub(self.retransmitted)),
            window_bytes: u64::from(info.window) * segment,
            slow_start_threshold_bytes: (threshold < NO_THRESHOLD)
                .then_some(u64::from(threshold) * segment),
            pacing_rate_bps: (self.is_paced && info.pacing_rate < u64::MAX)
                .then(|| info.pacing_rate.saturating_mul(8)),
            path: None,
            rtt_samples_ms: std::mem::take(&mut self.rtt_samples_ms),
            path_samples: Vec::new(),
        };
        (self.until, self.sent, self.retransmitted) = (until, sent, retransmitted);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{FlowBuilder, LinkBuilder};

    fn beside(controller: &str) -> Scenario {
        let scenario = Scenario::builder("beside", Duration::from_secs(1))
            .link(LinkBuilder::between("l", "a", "b"))
            .flow(FlowBuilder::bulk("ours", "keel").between("a", "b"))
            .flow(FlowBuilder::tcp("theirs", controller).between("a", "b"));
        scenario.build().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn a_controller_that_the_kernel_lacks_is_refused_with_those_that_it_has() {
        check_controllers(&beside("reno")).expect("every kernel has Reno");
        let error = check_controllers(&beside("tahoe")).expect_err("no kernel has Tahoe");
        assert!(error.is_usage());
        let error = error.to_string();
        let words = "flow theirs: this kernel's TCP has no controller tahoe; use one of ";
        assert!(error.starts_with(words), "{error}");
        assert!(error.contains("reno"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }

    #[test]
    fn the_kernel_tells_of_a_connection_what_the_fields_are_named() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let sender = connected(at.ip(), at, "reno").expect("it listens");
        let (mut receiver, _) = listener.accept().expect("a connection");
        (&sender).write_all(&[0; 50_000]).expect("room for it");
        receiver.read_exact(&mut [0; 50_000]).expect("all of it");
        let received = getsockopt(&receiver, TcpInfo).expect("a connection");
        assert_eq!(received.received_in_order, 50_000);
        assert!((1..=100).contains(&received.data_segments_in));
        assert!(received.receive_segment > 500);
        let sent = getsockopt(&sender, TcpInfo).expect("a connection");
        assert_eq!(sent.slow_start_threshold, NO_THRESHOLD);
        assert!((10..1000).contains(&sent.window), "initially 10");
        assert_eq!(sent.data_segments_out, received.data_segments_in);
        assert_eq!(sent.retransmitted, 0);
        assert!(sent.send_segment > 500 && sent.rtt > 0 && sent.pacing_rate > 0);
        let interval = Sending::new(sender, "reno").interval(&sent, Duration::from_secs(1));
        assert_eq!(interval.packets_sent, u64::from(sent.data_segments_out));
        assert_eq!(
            interval.slow_start_threshold_bytes, None,
            "it is slow start"
        );
        assert_eq!(interval.pacing_rate_bps, None, "Reno is not paced");
    }

    #[test]
    fn segments_count_as_they_come_and_the_last_one_with_its_own_length() {
        // Two full ones, then one of 100 bytes.
        assert_eq!(payload_bytes(3, 1000, 2100), 2100);
        // The second of four is missing: only the first is in order.
        assert_eq!(payload_bytes(3, 1000, 1000), 3000);
        // It has come, twice.
        assert_eq!(payload_bytes(5, 1000, 4000), 5000);
        // Before the kernel knows what a full segment is.
        assert_eq!(payload_bytes(1, 536, 1448), 1448);
    }
}
