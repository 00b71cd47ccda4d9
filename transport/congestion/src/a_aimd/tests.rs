//! Tests of `a_aimd.rs`.

use super::*;
use crate::testing::{ack, epoch, loss, ms, path_sample};

const MTU: u16 = 1000;

/// Reno with an initial window of this many packets.
fn packets(packets: u16) -> gaimd::Config {
    gaimd::Config {
        initial_window: InitialWindow::Packets(packets),
        ..gaimd::Config::RENO
    }
}

fn schedule(name: &str, start: Instant, elapsed: u64) -> Schedule {
    let version = VERSIONS.iter().find(|version| version.name == name);
    Schedule {
        start,
        elapsed: Duration::from_secs(elapsed),
        alphas: version.expect("a letter of the tables").alphas,
    }
}

#[test]
fn alpha_changes_every_thirty_seconds_and_the_last_one_stays() {
    let t0 = epoch();
    // (version, seconds of it before the connection, ms since then, alpha)
    let table = [
        ("A", 0, 0, 2.0),
        ("A", 0, 29_999, 2.0),
        ("A", 0, 30_000, 1.0),
        ("A", 0, 60_000, 0.5),
        ("A", 0, 89_999, 0.5),
        ("A", 0, 90_000, 0.1),
        ("A", 0, 120_000, 0.1),
        ("A", 0, 100_000_000, 0.1),
        ("A", 30, 0, 1.0),
        ("A", 45, 14_999, 1.0),
        ("A", 45, 15_000, 0.5),
        ("A", 120, 0, 0.1),
        ("N", 0, 0, 0.1),
        ("N", 60, 30_000, 0.5),
    ];
    for (name, elapsed, at, alpha) in table {
        let mut schedule = schedule(name, t0, elapsed);
        assert_eq!(
            schedule.alpha(&ack(t0 + ms(at), 100, 1000)),
            alpha,
            "{name} after {elapsed} s and {at} ms"
        );
    }
}

#[test]
fn the_second_table_is_the_first_one_in_reverse() {
    for (increasing, decreasing) in VERSIONS[..7].iter().zip(&VERSIONS[7..]) {
        let mut reversed = increasing.alphas;
        reversed.reverse();
        assert_eq!(
            decreasing.alphas, reversed,
            "{} and {}",
            increasing.name, decreasing.name
        );
        assert!(
            increasing.alphas.windows(2).all(|pair| pair[0] > pair[1]),
            "{}",
            increasing.name
        );
    }
}

#[test]
fn a_window_of_acks_adds_the_alpha_of_its_time_and_a_loss_halves() {
    let t0 = epoch();
    let mut aimd = AAimd::new(schedule("B", t0, 0), packets(40), MTU);
    aimd.on_congestion(&loss());
    // (seconds, window after): alpha 2, 1, 0.25, 0.05 packets of 1000 bytes.
    for (seconds, window) in [
        (1, 22_000),
        (29, 24_000),
        (30, 25_000),
        (60, 25_250),
        (90, 25_300),
    ] {
        let now = t0 + Duration::from_secs(seconds);
        aimd.on_ack(&ack(now, 100, aimd.window()));
        assert_eq!(aimd.window(), window, "at {seconds} s");
    }
    aimd.on_congestion(&loss());
    assert_eq!(aimd.window(), 12_650);
}

fn counted(now: Instant, flows: Option<u32>) -> PathSample {
    PathSample {
        now,
        flows,
        ..path_sample()
    }
}

#[test]
fn flows_that_routers_count_share_what_they_add() {
    let other = Share {
        target: 8.0,
        most: 1.0,
    };
    // (share, flows, alpha)
    let table = [
        (Share::FRUGAL, 0, 2.0),
        (Share::FRUGAL, 1, 2.0),
        (Share::FRUGAL, 3, 2.0),
        (Share::FRUGAL, 10, 0.6),
        (Share::FRUGAL, 20, 0.3),
        (Share::FRUGAL, 80, 0.075),
        (Share::FRUGAL, 2000, 0.01),
        (Share::FRUGAL, u32::MAX, 0.01),
        (other, 1, 1.0),
        (other, 16, 0.5),
    ];
    for (share, flows, alpha) in table {
        assert_eq!(share.alpha(flows), alpha, "{share:?}, {flows} flows");
        let mut contention = Counted::new(share);
        contention.on_path(&counted(epoch(), Some(flows)));
        assert_eq!(contention.alpha(&ack(epoch(), 100, 1000)), alpha);
    }
}

#[test]
fn without_a_router_that_counts_it_is_reno_after_four_round_trips() {
    let t0 = epoch();
    let mut aimd = AAimd::new(Counted::new(Share::FRUGAL), packets(40), MTU);
    aimd.on_congestion(&loss());
    let grown = |aimd: &mut AAimd<Counted>, at| {
        let before = aimd.window();
        aimd.on_ack(&ack(t0 + ms(at), 100, before));
        aimd.window() - before
    };
    assert_eq!(grown(&mut aimd, 0), 1000);
    aimd.on_path(&counted(t0, Some(40)));
    assert_eq!(grown(&mut aimd, 0), 150);
    aimd.on_path(&counted(t0 + ms(100), None));
    assert_eq!(grown(&mut aimd, 400), 150, "the count holds");
    assert_eq!(grown(&mut aimd, 401), 1000);
}

#[test]
fn slow_start_is_that_of_reno() {
    let t0 = epoch();
    let mut aimd = AAimd::new(schedule("C", t0, 90), gaimd::Config::RENO, MTU);
    aimd.on_ack(&ack(t0, 100, 10_000));
    assert_eq!((aimd.window(), aimd.slow_start_threshold()), (20_000, None));
}
