//! Servers under a flood of first packets from addresses that are not the sender's.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use evenkeel_tests::one_of_three_tries;
use quinn::{Runtime, TokioRuntime};

use crate::initials::initials;
use crate::program::{Server, client, pause, success};

/// First packets in a second.
const RATE: u64 = 10_000;

/// How long the flood lasts.
const TIME: Duration = Duration::from_secs(10);

/// Addresses from which it comes.
const SOURCES: u8 = 250;

/// Floods two servers. Run it alone:
///
/// ```text
/// cargo test -p evenkeel-apps --test cli -- --ignored --nocapture flood
/// ```
#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_client_is_served_within_a_second_of_a_flood_of_10_000_spoofed_first_packets_a_second() {
    one_of_three_tries(|| {
        let bulk = Server::bulk(&[]);
        under_flood(&bulk, evenkeel_apps::bulk::ALPN, &["--bytes", "1kB"]);
        let stream = Server::stream(&[]);
        under_flood(&stream, evenkeel_apps::stream::ALPN, &["--time", "0.1"]);
    });
}

/// Times clients of `server` while it is flooded.
fn under_flood(server: &Server, alpn: &[u8], arguments: &[&str]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let packets = runtime.block_on(initials(alpn, 2000));
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            flood(&packets, server.address.parse().unwrap(), &sent);
            over.store(true, Ordering::Relaxed);
        });
        pause(Duration::from_secs(1));
        let mut times = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let start = TokioRuntime.now();
            success(client(server, arguments));
            times.push(TokioRuntime.now() - start);
        }
        times.sort_unstable();
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        let sent = sent.load(Ordering::Relaxed);
        println!(
            "{}: {sent} first packets in {TIME:?}, {} clients, {median:.1?} in the median, {worst:.1?} \
             at most",
            server.command[0],
            times.len(),
        );
        assert!(sent > RATE * TIME.as_secs() / 2, "only {sent} were sent");
        assert!(worst < Duration::from_secs(1), "{times:?}");
    });
}

/// Sends first packets at [`RATE`] for [`TIME`], each from the next of many addresses and ports.
fn flood(packets: &[Vec<u8>], to: SocketAddr, sent: &AtomicU64) {
    let sources: Vec<UdpSocket> = (0..SOURCES)
        .map(|nth| UdpSocket::bind((Ipv4Addr::new(127, 2, nth, 1), 0)).unwrap())
        .collect();
    let start = TokioRuntime.now();
    let mut pairs = packets.iter().cycle().zip(sources.iter().cycle());
    loop {
        let elapsed = TokioRuntime.now() - start;
        if elapsed >= TIME {
            break;
        }
        let due = (elapsed.as_secs_f64() * RATE as f64) as u64;
        for (packet, source) in pairs
            .by_ref()
            .take((due - sent.load(Ordering::Relaxed)) as usize)
        {
            // A full buffer loses packets, as networks do.
            let _ = source.send_to(packet, to);
            sent.fetch_add(1, Ordering::Relaxed);
        }
        pause(Duration::from_millis(1));
    }
}
