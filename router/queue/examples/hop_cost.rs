//! What a hop costs: nanoseconds of wall time per packet through a link, as the simulator drives it.
//!
//! `cargo run --release -p evenkeel-queue --example hop_cost`

use std::time::{Duration, Instant};

use evenkeel_queue::{Carrier, Limit, Link, LinkConfig, Packet, PacketMeta, Rate, Service};
use evenkeel_wire::Ecn;
use rand::SeedableRng;
use rand_pcg::Pcg64;

const PACKETS: u64 = 5_000_000;

/// As large as the simulator's datagrams.
#[derive(Debug, Clone)]
struct Payload(#[expect(dead_code, reason = "only its size matters")] [u64; 12]);

impl Carrier for Payload {}

#[expect(clippy::disallowed_methods, reason = "a measurement of wall time")]
fn clock() -> Instant {
    Instant::now()
}

fn main() {
    let rate = Service::Rate(Rate::new(155_000_000).expect("not zero"));
    let delay = Duration::from_millis(10);
    let cases = [
        (
            "unlimited + delay",
            LinkConfig {
                delay,
                ..LinkConfig::default()
            },
            1000,
        ),
        (
            "rate + delay, idle",
            LinkConfig {
                service: rate.clone(),
                delay,
                ..LinkConfig::default()
            },
            100_000,
        ),
        (
            "rate + delay, saturated",
            LinkConfig {
                service: rate.clone(),
                limit: Limit::packets(100),
                delay,
                ..LinkConfig::default()
            },
            60_000,
        ),
        (
            "rate + delay, loss, jitter",
            LinkConfig {
                service: rate,
                limit: Limit::packets(100),
                delay,
                loss: 0.01,
                jitter: Duration::from_millis(1),
                ..LinkConfig::default()
            },
            70_000,
        ),
    ];
    for (name, config, gap) in cases {
        measure(name, config, Duration::from_nanos(gap));
    }
}

/// Pushes a packet every `gap` of virtual time and follows the link's wake-ups in between.
fn measure(name: &str, config: LinkConfig, gap: Duration) {
    let epoch = clock();
    let mut link: Link<Payload> =
        Link::new(epoch, config, Box::new(Pcg64::seed_from_u64(1))).expect("a plain link");
    let mut now = epoch;
    let (mut wakes, mut out) = (0u64, 0u64);
    for number in 0..PACKETS {
        now += gap;
        while let Some(at) = link.next_timeout().filter(|at| *at < now) {
            wakes += 1;
            while link.pop(at).is_some() {
                out += 1;
            }
        }
        link.push(
            now,
            Packet::new(PacketMeta::new(1228, Ecn::Ect0), Payload([number; 12])),
        );
        while link.pop(now).is_some() {
            out += 1;
        }
    }
    let elapsed = clock() - epoch;
    link.check_conservation()
        .expect("nothing appears or disappears");
    let dropped = link.stats(now).total().dropped.total().packets;
    println!(
        "{name:<28} {:6.1} ns per packet pushed; {out} out, {dropped} dropped, {:.2} wakes per packet",
        elapsed.as_nanos() as f64 / PACKETS as f64,
        wakes as f64 / PACKETS as f64,
    );
}
