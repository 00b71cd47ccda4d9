//! The live views on a terminal.

use std::{process::Output, time::Duration};

use evenkeel_tests::terminal::Terminal;
use rustix::termios::tcgetattr;

use crate::program::{Server, client, pause, success};

/// The number before `unit` in a view.
fn before(unit: &str, text: &str) -> f64 {
    let words = text.split(unit).next().unwrap().trim_end();
    let number = words.rsplit(' ').next().unwrap();
    number
        .parse()
        .unwrap_or_else(|_| panic!("no number before {unit:?}: {text}"))
}

#[test]
fn a_viewers_terminal_shows_rate_delay_buffer_and_stalls_and_is_left_as_it_was() {
    let server = Server::stream(&["--fixed", "--bitrate", "2M"]);
    let mut terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&server.client(&["--clock", "shared"]), &[]);

    let full = |text: &str| text.contains("buffer") && text.contains("Mb/s");
    let text = terminal.wait_for(|text| full(text) && text.contains("stalls 0 (0.0 s)"));
    assert!(before("ms  buffer", &text) < 500.0, "{text}");
    // The rate of half a second of it.
    terminal.wait_for(|text| full(text) && (1.2..2.8).contains(&before("Mb/s", text)));
    // The playout buffer is 200 ms and what the first frame took.
    terminal.wait_for(|text| full(text) && (100.0..300.0).contains(&before("ms  stalls", text)));

    // A server that does nothing for a while is a stall, and is shown as one.
    server.signal("STOP");
    terminal.wait_for(|text| text.contains("buffer 0 ms"));
    pause(Duration::from_millis(800));
    server.signal("CONT");
    let text = terminal.wait_for(|text| full(text) && !text.contains("stalls 0"));
    assert!(before(" s)", &text.replace('(', " ")) >= 0.5, "{text}");

    // In a narrower or wider window the line goes on in one place.
    for columns in [40, 120] {
        terminal.resize(columns);
        let shown = terminal.text();
        terminal.wait_for(|text| full(text) && text != shown);
        pause(Duration::from_secs(2));
        let text = terminal.wait_for(full);
        assert_eq!(text.matches("buffer").count(), 1, "{columns}: {text}");
    }

    // Control and C.
    terminal.press(3);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = terminal.leave(&modes);
    assert!(!text.contains("buffer"), "{text}");
    for word in [
        "first picture",
        "frame delay",
        "evenkeel: interrupted after ",
    ] {
        assert_eq!(text.matches(word).count(), 1, "{word}: {text}");
    }
}

#[test]
fn a_viewer_without_a_terminal_for_messages_draws_nothing() {
    let server = Server::stream(&[]);
    let terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let command = server.client(&["--time", "1.5"]);
    let Output { status, stderr, .. } = terminal
        .run(&command, &["stderr"])
        .wait_with_output()
        .unwrap();
    assert_eq!((status.code(), stderr), (Some(0), Vec::new()));
    let text = terminal.leave(&modes);
    assert!(text.trim_start().starts_with("received"), "{text}");
    // Nor does anything of it get into the files of one who redirects both.
    let text = success(client(&server, &["--time", "1.5"]));
    assert!(
        !text.contains('\x1b') && !text.contains('\r') && !text.contains("buffer"),
        "{text}"
    );
}

#[test]
fn a_report_in_a_file_leaves_the_live_view_on_the_terminal() {
    let server = Server::stream(&[]);
    let terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let child = terminal.run(&server.client(&["--time", "3"]), &["stdout"]);
    terminal.wait_for(|text| text.contains("buffer") && text.contains("stalls"));
    let Output { status, stdout, .. } = child.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(0));
    let report = String::from_utf8(stdout).unwrap();
    assert!(
        report.starts_with("received") && !report.contains('\x1b'),
        "{report}"
    );
    assert_eq!(terminal.leave(&modes).trim(), "");
}

#[test]
fn a_viewers_terminal_is_left_as_it_was_when_the_server_stops() {
    let server = Server::stream(&[]);
    let terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&server.client(&[]), &[]);
    terminal.wait_for(|text| text.contains("buffer"));
    server.signal("INT");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let text = terminal.leave(&modes);
    assert!(
        !text.contains("buffer") && text.contains("the server stops"),
        "{text}"
    );
}

#[test]
fn a_transfers_progress_is_drawn_on_a_terminal_and_gone_after_it() {
    let server = Server::bulk(&[]);
    let mut terminal = Terminal::new(100);
    let modes = tcgetattr(terminal.back()).unwrap();
    let mut child = terminal.run(&server.client(&["--time", "20"]), &[]);
    terminal.wait_for(|text| {
        ["%", "b/s", "RTT", "lost", "s left", "[="]
            .iter()
            .all(|word| text.contains(word))
    });
    terminal.press(3);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let text = terminal.leave(&modes);
    assert!(
        !text.contains("RTT") && text.contains("interrupted after"),
        "{text}"
    );
}
