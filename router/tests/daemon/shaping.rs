use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_tests::one_of_three_tries;
use rustix::net::sockopt;
use serde_json::Value;

use crate::support::{Host, Lab, Versions, link, number};

/// UDP payload of a packet of 1500 bytes.
const PAYLOAD: [u8; 1472] = [0; 1472];

/// Sends a third more than `rate_bps` until told to stop.
#[expect(
    clippy::disallowed_methods,
    reason = "offers packets to a daemon in real time"
)]
fn flood(socket: &UdpSocket, rate_bps: f64, stop: &AtomicBool) {
    let began = Instant::now();
    let spacing = 1500.0 * 8.0 / (rate_bps * 1.33);
    for sent in 0.. {
        // What the sender's own queue refuses is none of the router's business.
        let _ = socket.send(&PAYLOAD);
        let next = began + Duration::from_secs_f64(spacing * f64::from(sent));
        // Even the shortest wait takes tens of microseconds: only if there is time for it.
        if let Some(ahead) = next.checked_duration_since(Instant::now()) {
            thread::park_timeout(ahead);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// Rate of the IP packets that come to a socket in `time`, in bits per second.
#[expect(clippy::disallowed_methods, reason = "measures a daemon in real time")]
fn receive(socket: &UdpSocket, time: Duration) -> f64 {
    let mut buffer = [0; 2000];
    let (began, mut bytes) = (Instant::now(), 0);
    loop {
        bytes += socket.recv(&mut buffer).unwrap() + 28;
        let elapsed = began.elapsed();
        if elapsed >= time {
            return bytes as f64 * 8.0 / elapsed.as_secs_f64();
        }
    }
}

/// Measures until the link was never idle: a machine that is busy with other things may be too slow
/// to offer that much, which says nothing about the router.
fn shapes(rate_bps: f64, time: Duration) {
    one_of_three_tries(|| {
        let Some(lab) = Lab::alone(Versions::Both) else {
            return;
        };
        let values = format!("rate_bps = {rate_bps}\nqueue_packets = 500\ndelay_ms = 1");
        let router = lab.start(&link(&values));
        let receiver = lab.udp(Host::B, "10.0.2.1:9");
        sockopt::set_socket_recv_buffer_size_force(&receiver, 8 << 20).unwrap();
        let sender = lab.udp(Host::A, "10.0.1.1:0");
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        let stop = AtomicBool::new(false);
        let measured = thread::scope(|scope| {
            scope.spawn(|| flood(&sender, rate_bps, &stop));
            receive(&receiver, Duration::from_millis(500));
            let measured = (0..5).find_map(|_| {
                router.ask(r#"{"request":"restart-measurement"}"#);
                let measured = receive(&receiver, time);
                let link = router.link();
                println!("{measured:.0} bit/s, link in use {}", link["utilization"]);
                (number(&link, "utilization") > 0.999).then_some(measured)
            });
            stop.store(true, Ordering::Relaxed);
            measured
        });
        let measured =
            measured.expect("in five attempts the machine offers more than the link takes");
        let error = measured / rate_bps - 1.0;
        println!("{:+.3} %", error * 100.0);
        assert!(error.abs() < 0.01, "{measured} bit/s instead of {rate_bps}");
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn udp_is_shaped_to_1_mbit_per_second() {
    shapes(1e6, Duration::from_secs(4));
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn udp_is_shaped_to_10_mbit_per_second() {
    shapes(10e6, Duration::from_secs(2));
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn udp_is_shaped_to_50_mbit_per_second() {
    shapes(50e6, Duration::from_secs(2));
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn udp_is_shaped_to_200_mbit_per_second() {
    shapes(200e6, Duration::from_secs(2));
}

/// IP bytes that have come to host B.
fn received_bytes(lab: &Lab) -> f64 {
    let statistics: Value = serde_json::from_str(&lab.ip(Host::B, "-j -s link show eth0")).unwrap();
    let rx = |name: &str| number(&statistics, &format!("0.stats64.rx.{name}"));
    // Ethernet's header has 14 bytes.
    rx("bytes") - 14.0 * rx("packets")
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
#[expect(clippy::disallowed_methods, reason = "measures a daemon in real time")]
fn a_tcp_connection_fills_the_link_and_gets_no_more() {
    one_of_three_tries(|| {
        let Some(lab) = Lab::alone(Versions::Both) else {
            return;
        };
        let rate_bps = 20e6;
        let router = lab.start(&link("rate_bps = 20e6\nqueue_packets = 100\ndelay_ms = 5"));
        let listener = lab.within(Host::B, || TcpListener::bind("10.0.2.1:9").unwrap());
        let address = listener.local_addr().unwrap();
        let mut sender = lab.within(Host::A, || TcpStream::connect(address).unwrap());
        let (mut receiver, _) = listener.accept().unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    sender.write_all(&[0; 10_000]).unwrap();
                }
                sender.shutdown(std::net::Shutdown::Both).unwrap();
            });
            scope.spawn(|| while receiver.read(&mut [0; 65_536]).unwrap() > 0 {});
            thread::park_timeout(Duration::from_millis(1500));
            router.ask(r#"{"request":"restart-measurement"}"#);
            let before = (Instant::now(), received_bytes(&lab));
            thread::park_timeout(Duration::from_secs(3));
            let after = (Instant::now(), received_bytes(&lab));
            let figures = router.link();
            stop.store(true, Ordering::Relaxed);
            let measured = (after.1 - before.1) * 8.0 / (after.0 - before.0).as_secs_f64();
            assert!((measured / rate_bps - 1.0).abs() < 0.01, "{measured} bit/s");
            assert!(number(&figures, "utilization") > 0.99, "{figures}");
        });
    });
}
