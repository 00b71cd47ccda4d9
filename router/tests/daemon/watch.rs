use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use evenkeel_tests::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::tcgetattr;

use crate::raw::{self, Injector};
use crate::support::{Host, Lab, Versions, link};

const HEAD: &str =
    "LINK            IN Mb/s OUT Mb/s     RATE  QUEUE  WAIT ms  DROP/s MARK/s  FLOWS";

/// `status --watch` of the lab's router.
fn watch(lab: &Lab, environment: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.args(environment);
    command.arg(env!("CARGO_BIN_EXE_evenkeel-router"));
    command
        .args(["status", "--watch", "--socket"])
        .arg(lab.socket());
    command
}

#[test]
fn a_terminal_shows_a_table_that_changes_in_place_and_is_left_as_it_was() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 1000\nqueue_packets = 5"));
    let mut terminal = Terminal::new(80);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&watch(&lab, &[]), &[]);
    let text = terminal.wait_for(|text| text.contains("bottleneck"));
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("router r1 (pid "), "{text}");
    assert_eq!(lines[1], HEAD);
    assert!(terminal.formatted().contains("\x1b[1m"));

    // At 1 kb/s they wait for minutes, and three of nine find no place.
    let injector = Injector::new(&lab, Host::A);
    for number in 0..9 {
        let packet = raw::v4(64, 253, number, &[], &[0; 980]);
        injector.send(&packet).unwrap();
    }
    let waiting = |text: &str| text.contains("  5    40000 ");
    let text = terminal.wait_for(waiting);
    assert_eq!(text.matches("bottleneck").count(), 1, "{text}");
    lab.ip(Host::R, "link set vb down");
    terminal.wait_for(|text| text.contains("DEGRADED for ") && waiting(text));

    // Control and C.
    terminal.press(3);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(terminal.leave(&modes), "");

    // A router that ends is said where the table was.
    let terminal = Terminal::new(80);
    let mut child = terminal.run(&watch(&lab, &["NO_COLOR=1"]), &[]);
    terminal.wait_for(|text| text.contains("DEGRADED"));
    assert!(!terminal.formatted().contains("\x1b[1m"));
    router.stop(Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let text = terminal.leave(&modes);
    assert!(text.contains("evenkeel-router: no answer from "), "{text}");
    assert!(!text.contains("LINK"), "{text}");
}

#[test]
fn a_pipe_gets_one_table_after_the_other_until_a_signal_or_its_end() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let _router = lab.start(&link("rate_bps = 1e6"));
    for is_told in [true, false] {
        let mut child = watch(&lab, &[]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for _ in 0..2 {
            let table: Vec<_> = lines.by_ref().take(4).map(Result::unwrap).collect();
            assert!(table[0].starts_with("router r1 (pid "), "{table:?}");
            assert_eq!(table[1], HEAD);
            assert!(table[2].starts_with("bottleneck  "), "{table:?}");
            assert_eq!(table[3], "");
        }
        if is_told {
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        } else {
            drop(lines);
        }
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
