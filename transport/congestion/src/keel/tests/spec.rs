//! Replays what keel heard to `keel.py`, which was written from `docs/algorithms/keel.md` by
//! somebody who had not seen this code.

use std::io::Write;
use std::process::{Command, Stdio};

use evenkeel_tests::skip::{Need, can_run};

use super::*;

/// A path, its rate in bytes per second, round trip in milliseconds and queue in packets, the
/// packets of which one is lost, and what changes after five seconds.
type Path = (&'static str, f64, u64, f64, Option<u64>, fn(&mut Link));

const PATHS: [Path; 26] = [
    ("clean", RATE, 40, ROOM, None, |_| {}),
    ("slow", 60_000.0, 40, ROOM, None, |_| {}),
    ("short", 12_500_000.0, 5, 100.0, None, |_| {}),
    ("long", RATE, 300, 500.0, None, |_| {}),
    ("deep queue", RATE, 40, 2000.0, None, |_| {}),
    ("queue of 8 packets", RATE, 40, 8.0, None, |_| {}),
    ("queue of 1 packet", RATE, 40, 1.0, None, |_| {}),
    ("1 % loss", RATE, 40, ROOM, Some(100), |_| {}),
    ("10 % loss", RATE, 100, ROOM, Some(10), |_| {}),
    ("33 % loss", RATE, 40, ROOM, Some(3), |_| {}),
    ("few packets, loss", 120_000.0, 40, 5.0, Some(20), |_| {}),
    ("slows down", RATE, 40, ROOM, None, |link| link.rate /= 5.0),
    ("speeds up", RATE, 40, ROOM, None, |link| link.rate *= 5.0),
    ("longer route", RATE, 40, ROOM, None, |link| link.rtt *= 3),
    ("longer, slower", RATE, 40, ROOM, None, |link| {
        link.rate /= 4.0;
        link.rtt *= 2;
    }),
    ("shorter route", RATE, 120, ROOM, None, |link| link.rtt /= 4),
    ("Reno joins", RATE, 40, ROOM, None, |link| link.join(80)),
    ("Reno goes", RATE, 40, ROOM, None, |link| {
        link.neighbour.clear();
    }),
    ("L4S", RATE, 40, ROOM, None, |_| {}),
    ("L4S, loss", RATE, 20, ROOM, Some(100), |_| {}),
    ("L4S, faster", RATE, 80, ROOM, None, |link| link.rate *= 3.0),
    ("L4S, way back", RATE, 40, ROOM, None, |link| {
        link.back = |time| ms((time.as_millis() as u64 % 4400 / 100).min(36));
    }),
    ("marks of CoDel", RATE, 40, ROOM, None, |link| {
        link.marks = Some(|queue, number| queue > ms(5) && number.is_multiple_of(40));
        link.join(80);
    }),
    ("jitter", RATE, 40, ROOM, None, |link| {
        link.back = |time| ms(time.as_millis() as u64 * 7919 % 13);
    }),
    ("1.5 % loss, way back", RATE, 40, ROOM, Some(66), |link| {
        link.back = saw;
    }),
    ("stalls", RATE, 10, ROOM, None, |link| {
        link.back = |time| ms(60_u64.saturating_sub(time.as_millis() as u64 % 150));
    }),
];

#[test]
fn an_independent_implementation_of_the_specification_has_the_same_windows() {
    if !can_run(&[Need::program("python3", "python3")]) {
        return;
    }
    for (name, rate, rtt, room, loses_every, change) in PATHS {
        let mut link = Link::new(rate, ms(rtt), room);
        link.loses_every = loses_every;
        if name.starts_with("L4S") {
            link.marks = Some(|queue, _| queue > ms(1));
        }
        if name == "Reno goes" {
            link.join(80);
        }
        link.run(ms(5000));
        change(&mut link);
        link.run(ms(10_000));
        let windows = replay(&link.record);
        assert_eq!(windows.len(), link.record.len(), "{name}");
        for (at, (theirs, (event, ours))) in windows.iter().zip(&link.record).enumerate() {
            let differs = theirs.abs_diff(*ours) as f64 / *ours as f64;
            assert!(
                differs <= 0.01,
                "{name}, event {at} of {}: {ours} bytes, by the specification {theirs}; {event}",
                windows.len()
            );
        }
    }
}

/// The windows of `keel.py` after each of these events, in bytes.
fn replay(record: &[(String, u64)]) -> Vec<u64> {
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/src/keel/tests/keel.py");
    let mut python = Command::new("python3")
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut input = python.stdin.take().expect("it is piped");
    let mut lines = format!("{{\"mtu\":{MTU},\"now\":0.0}}\n");
    for (line, _) in record {
        lines.push_str(line);
        lines.push('\n');
    }
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().expect("python3 ends");
    writer.join().expect("no panic").expect("it reads all");
    let windows = String::from_utf8(output.stdout).expect("text");
    // The first is the initial window.
    let windows = windows.lines().skip(1);
    windows
        .map(|line| line.parse().expect("a window"))
        .collect()
}
