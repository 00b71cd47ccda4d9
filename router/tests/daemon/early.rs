//! No packet leaves a link before its delay is over, however the daemon is kept waiting, nor much
//! later.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_tests::one_of_three_tries;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Host, Lab, StopWhenDropped, Versions};

/// What the link delays packets by.
const DELAY: Duration = Duration::from_millis(20);

/// Probes of each timing mode.
const PROBES: usize = 1000;

fn link(timing: &str) -> String {
    format!(
        "[[links]]\nname = \"l\"\ntun = \"ek-bn\"\nrate_bps = 50e6\ndelay_ms = 20\n\
         timing = {timing:?}\n\
         routes = [{{ to = \"10.0.2.0/24\", via = \"10.0.9.2\", dev = \"vb\" }}]\n"
    )
}

#[expect(clippy::disallowed_methods, reason = "a test in real time")]
fn now() -> Instant {
    Instant::now()
}

/// Sends 40 Mb/s in packets of 1200 bytes until it is stopped.
fn flood(socket: &UdpSocket, stop: &AtomicBool) {
    let began = now();
    let mut sent = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        while Duration::from_micros(240) * sent < now() - began {
            let _ = socket.send_to(&[0; 1172], "10.0.2.1:9");
            sent += 1;
        }
        thread::park_timeout(Duration::from_micros(200));
    }
}

/// Returns how long those probes took from A to B that arrived.
fn probe(lab: &Lab, count: usize) -> Vec<Duration> {
    let (from, to) = (
        lab.udp(Host::A, "10.0.1.1:0"),
        lab.udp(Host::B, "10.0.2.1:7"),
    );
    thread::scope(|scope| {
        let arrivals = scope.spawn(|| {
            let mut arrived = vec![None; count];
            let mut buffer = [0; 8];
            while arrived[count - 1].is_none()
                && let Ok(length) = to.recv(&mut buffer)
            {
                let at = now();
                let number = std::str::from_utf8(&buffer[..length]).unwrap();
                arrived[number.parse::<usize>().unwrap()] = Some(at);
            }
            arrived
        });
        let mut sent = Vec::new();
        for number in 0..count {
            // The clock is read first: what follows can only make the trip look longer.
            sent.push(now());
            from.send_to(number.to_string().as_bytes(), "10.0.2.1:7")
                .unwrap();
            thread::park_timeout(Duration::from_millis(3));
        }
        let arrived = arrivals.join().unwrap();
        let trips = sent.into_iter().zip(arrived);
        trips.filter_map(|(sent, at)| Some(at? - sent)).collect()
    })
}

#[test]
fn no_packet_is_early_however_long_the_daemon_is_kept_waiting() {
    let Some(lab) = Lab::alone(Versions::Both) else {
        return;
    };
    for timing in ["efficient", "exact"] {
        let router = lab.start(&link(timing));
        let pid = Pid::from_raw(router.pid().try_into().unwrap()).unwrap();
        let socket = lab.udp(Host::A, "10.0.1.1:0");
        let stop = AtomicBool::new(false);
        let mut trips = thread::scope(|scope| {
            let _stop = StopWhenDropped(&stop);
            scope.spawn(|| flood(&socket, &stop));
            // As a busy machine does, but for certain.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    thread::park_timeout(Duration::from_millis(30));
                    kill_process(pid, Signal::STOP).unwrap();
                    thread::park_timeout(Duration::from_millis(12));
                    kill_process(pid, Signal::CONT).unwrap();
                }
            });
            probe(&lab, PROBES)
        });
        trips.sort_unstable();
        assert!(
            trips.len() > PROBES / 2,
            "{timing}: {} arrived",
            trips.len()
        );
        let early = trips.iter().filter(|trip| **trip < DELAY).count();
        assert_eq!(early, 0, "{timing}: the first took {:?}", trips[0]);
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn ninety_nine_of_a_hundred_packets_of_a_busy_link_are_at_most_300_us_late() {
    let Some(lab) = Lab::alone(Versions::Both) else {
        return;
    };
    one_of_three_tries(|| {
        let router = lab.start(&link("efficient"));
        let socket = lab.udp(Host::A, "10.0.1.1:0");
        let stop = AtomicBool::new(false);
        let mut trips = thread::scope(|scope| {
            let _stop = StopWhenDropped(&stop);
            scope.spawn(|| flood(&socket, &stop));
            probe(&lab, PROBES)
        });
        drop(router);
        trips.sort_unstable();
        // Behind at most one packet of the flood, whose transmission takes 192 us.
        let allowed = DELAY + Duration::from_micros(192 + 300);
        let trip = trips[trips.len() * 99 / 100];
        assert!(trip <= allowed, "{trip:?}");
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn of_five_thousand_probes_in_each_mode_none_is_early() {
    const MANY: usize = 5000;
    let Some(lab) = Lab::alone(Versions::Both) else {
        return;
    };
    for timing in ["efficient", "exact"] {
        for is_busy in [false, true] {
            let _router = lab.start(&link(timing));
            let socket = lab.udp(Host::A, "10.0.1.1:0");
            let stop = AtomicBool::new(false);
            let mut trips = thread::scope(|scope| {
                let _stop = StopWhenDropped(&stop);
                if is_busy {
                    scope.spawn(|| flood(&socket, &stop));
                }
                probe(&lab, MANY)
            });
            trips.sort_unstable();
            let (least, p99) = (trips[0], trips[trips.len() * 99 / 100]);
            println!(
                "{timing}, {} Mb/s beside: {} arrived, least {least:?}, p99 {p99:?}",
                if is_busy { 40 } else { 0 },
                trips.len()
            );
            assert!(trips.len() > MANY * 9 / 10, "{}", trips.len());
            assert!(least >= DELAY, "{timing}: {least:?}");
        }
    }
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn no_packet_waits_while_a_program_adds_a_hundred_thousand_routes() {
    let Some(lab) = Lab::alone(Versions::Both) else {
        return;
    };
    let [add, delete] = ["add", "del"].map(|what| {
        let path = lab.directory().join(what);
        let routes = (0..100_000).map(|number: u32| {
            let [_, a, b, c] = number.to_be_bytes();
            format!("route {what} 44.{a}.{b}.{c}/32 dev vb\n")
        });
        std::fs::write(&path, routes.collect::<String>()).unwrap();
        path.to_str().unwrap().to_owned()
    });
    one_of_three_tries(|| {
        let router = lab.start(&link("efficient"));
        let trips = thread::scope(|scope| {
            scope.spawn(|| {
                lab.ip(Host::R, &format!("-batch {add}"));
                // Ours is put back, for which the router looks at all.
                lab.ip(Host::R, "route del 10.0.2.0/24 dev ek-bn");
                lab.ip(Host::R, &format!("-batch {delete}"));
            });
            probe(&lab, PROBES)
        });
        drop(router);
        let longest = trips.into_iter().max().unwrap();
        assert!(longest < DELAY + Duration::from_millis(50), "{longest:?}");
    });
}
