//! `evenkeel stream publish` and `evenkeel stream play`: files and pipes without flags.

use std::fs;
use std::io::{PipeWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_apps::stream::AccessUnits;
use evenkeel_tests::terminal::Terminal;
use tempfile::TempDir;

use crate::program::{Server, evenkeel, failure, pause, run, success};

/// 100 pictures, 25 in a group: `stream.rs` says how it was made.
const CLIP: &[u8] = include_bytes!("clip.h264");

/// A directory with the clip.
fn clip() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clip.h264");
    fs::write(&path, CLIP).unwrap();
    (directory, path)
}

/// A publisher that gives up nothing while a busy machine keeps it waiting.
fn publish(arguments: &[&str]) -> Command {
    let all = ["stream", "publish", "--listen", "127.0.0.1:0"];
    let mut command = evenkeel(&all);
    command.args(["--cancel-after", "60"]).args(arguments);
    command
}

/// A publisher of what is written to the pipe.
fn publish_pipe(arguments: &[&str]) -> (Server, PipeWriter) {
    let (input, encoder) = std::io::pipe().unwrap();
    let mut command = publish(arguments);
    command.stdin(input);
    (Server::start(command), encoder)
}

fn publish_file(path: &Path, arguments: &[&str]) -> Server {
    let mut command = publish(&["--frame-rate", "50"]);
    command.arg(path).args(arguments);
    Server::start(command)
}

/// The errors of a program that succeeded.
fn told(output: &Output) -> String {
    let errors = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(output.status.success(), "{errors}");
    errors
}

#[test]
fn a_published_file_is_played_into_a_pipe_or_a_file_by_the_printed_command() {
    let (directory, path) = clip();
    let server = publish_file(&path, &[]);
    let command: Vec<&str> = server.command.iter().map(String::as_str).collect();
    assert_eq!(command[..2], ["stream", "play"]);
    let output = run(&command);
    // The report is not in the way of the video.
    assert!(told(&output).contains("frame delay"));
    assert!(output.stdout == CLIP);

    let played = directory.path().join("played.h264");
    let output = evenkeel(&command).arg(&played).output().unwrap();
    assert_eq!(told(&output), "");
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("frame delay")
    );
    assert!(fs::read(&played).unwrap() == CLIP);
}

/// Pipes the clip in, again and again, until a viewer has come, then once, and then what `end` does;
/// the viewer sees all of the last round.
fn watched(server: &Server, mut encoder: PipeWriter, end: impl FnOnce(PipeWriter)) {
    let mut parser = AccessUnits::default();
    let mut pictures = parser.push(CLIP).unwrap();
    pictures.extend(parser.finish());
    // A busy machine is no reason to leave pictures out.
    let mut viewer = server.client(&["--latency", "10s"]);
    let viewer = viewer.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut viewer = viewer.spawn().unwrap();
    let (mut video, shows) = (viewer.stdout.take().unwrap(), Arc::<AtomicBool>::default());
    let showing = shows.clone();
    let playing = thread::spawn(move || {
        let mut bytes = vec![0];
        video.read_exact(&mut bytes).unwrap();
        showing.store(true, Ordering::Relaxed);
        video.read_to_end(&mut bytes).unwrap();
        bytes
    });
    // Whenever the viewer comes, it gets all of the last round.
    loop {
        let is_last = shows.load(Ordering::Relaxed) || playing.is_finished();
        for picture in &pictures {
            encoder.write_all(&picture.bytes).unwrap();
            pause(Duration::from_millis(5));
        }
        if is_last {
            break;
        }
    }
    end(encoder);
    told(&viewer.wait_with_output().unwrap());
    assert!(playing.join().unwrap().ends_with(CLIP));
}

#[test]
fn what_an_encoder_pipes_in_is_published_with_and_without_a_dash() {
    for arguments in [&[][..], &["-"]] {
        let (server, encoder) = publish_pipe(arguments);
        watched(&server, encoder, drop);
        assert_eq!(server.end().0, Some(0));
    }
}

#[test]
fn a_viewer_sees_all_that_came_before_a_picture_that_is_too_large() {
    let (server, encoder) = publish_pipe(&[]);
    let slice = [&[0, 0, 0, 1, 0x41][..], &vec![0xff; 9 << 20]].concat();
    // The server may stop reading before the end.
    watched(&server, encoder, |mut encoder| {
        drop(encoder.write_all(&slice));
    });
    let (status, _, errors) = server.end();
    assert_eq!(status, Some(1));
    assert!(errors.contains("make smaller pictures"), "{errors}");
}

#[test]
fn a_player_that_is_closed_ends_the_viewer_without_complaint() {
    let (_directory, path) = clip();
    let server = publish_file(&path, &["--repeat"]);
    let mut viewer = server.client(&[]);
    let viewer = viewer.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut viewer = viewer.spawn().unwrap();
    let mut player = viewer.stdout.take().unwrap();
    player.read_exact(&mut [0; 100]).unwrap();
    drop(player);
    let report = told(&viewer.wait_with_output().unwrap());
    assert!(report.starts_with("received "), "{report}");
    server.signal("INT");
    let (status, _, errors) = server.end();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
}

#[test]
fn a_terminal_is_neither_a_source_nor_a_screen() {
    let terminal = Terminal::new(100);
    for (arguments, word) in [
        (&["stream", "publish"][..], "there is nothing to publish"),
        (&["stream", "play", "localhost", "--insecure"], "ffplay"),
    ] {
        let (piped, silent): (&[&str], _) = match arguments[1] {
            "publish" => (&["stdout", "stderr"], "stdin"),
            _ => (&["stderr"], "stdout"),
        };
        let child = terminal.run(&evenkeel(arguments), piped);
        let line = failure(&child.wait_with_output().unwrap(), 2);
        assert!(line.contains(word), "{silent}: {line}");
    }
}

#[test]
fn what_suits_no_real_media_is_a_usage_error() {
    for (arguments, word) in [
        (&["publish", "a.h264", "b.h264"][..], "b.h264"),
        (
            &["publish", "a.h264", "--group", "30"],
            "cannot be used with",
        ),
        (&["publish", "--key-ratio", "3"], "cannot be used with"),
        (&["publish", "--bitrate", "1M"], "cannot be used with"),
        (
            &["publish", "a.h264", "--floor", "50k"],
            "cannot be used with",
        ),
        (
            &["publish", "a.h264", "--rise", "0.5"],
            "cannot be used with",
        ),
        (
            &["server", "--input", "-", "--bitrate", "1M"],
            "cannot be used with",
        ),
        (&["publish", "--repeat"], "FILE"),
        (
            &["publish", "a.h264", "--encoder-rate", "rate"],
            "a file has none",
        ),
        (&["publish", "--encoder-rate", ""], "exec:COMMAND"),
        (&["server", "--encoder-rate", "rate"], "publish"),
        (&["play", "host", "a.h264", "b.h264"], "b.h264"),
    ] {
        let line = failure(&run(&[&["stream"], arguments].concat()), 2);
        assert!(line.contains(word), "{line}");
    }
    let help = success(run(&["stream", "publish", "--help"]));
    assert!(
        help.contains("[FILE]") && !help.contains("--group") && !help.contains("--track"),
        "{help}"
    );
}

#[test]
fn a_player_names_the_file_that_it_cannot_write() {
    let (_directory, path) = clip();
    let server = publish_file(&path, &[]);
    let output = server.client(&["/nowhere/at/all"]).output().unwrap();
    let line = failure(&output, 1);
    assert!(line.contains("cannot write /nowhere/at/all"), "{line}");
    assert!(line.contains("choose another FILE"), "{line}");
}

#[test]
fn an_untrusting_player_is_told_how_to_play() {
    let (_directory, path) = clip();
    let server = publish_file(&path, &[]);
    let line = failure(&run(&["stream", "play", &server.address]), 1);
    let remedy = format!(
        "evenkeel stream play {} --pin {}",
        server.address, server.pin
    );
    assert!(line.contains(&remedy), "{line}");
}

#[test]
fn a_viewer_goes_on_with_a_server_that_was_killed_and_came_back() {
    outlasts("KILL");
}

#[test]
fn a_viewer_goes_on_with_a_server_that_was_stopped_and_came_back() {
    outlasts("TERM");
}

/// A viewer goes on although its server gets this signal, if another takes its place.
fn outlasts(signal: &str) {
    let (directory, path) = clip();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap().pem();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (cert, key) = (
        write("cert", &certificate),
        write("key", &key.serialize_pem()),
    );
    let own = ["--cert", &cert, "--key", &key];
    let first = publish_file(&path, &[&own[..], &["--repeat"]].concat());
    let viewer = first
        .client(&[])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut viewer = viewer.unwrap();
    let mut video = viewer.stdout.take().unwrap();
    video.read_exact(&mut [0; 10_000]).unwrap();
    first.signal(signal);
    let (address, pin) = (first.address.clone(), first.pin.clone());
    first.end();

    let mut command = evenkeel(&[
        "stream",
        "publish",
        "--listen",
        &address,
        "--frame-rate",
        "50",
    ]);
    command.args(["--cancel-after", "60"]).arg(&path).args(own);
    let second = Server::start(command);
    assert_eq!(second.pin, pin);
    let mut bytes = Vec::new();
    video.read_to_end(&mut bytes).unwrap();
    // The stream of the second is whole, from a key picture on.
    assert!(bytes.ends_with(CLIP));
    let told = told(&viewer.wait_with_output().unwrap());
    assert_eq!(told.matches("connected anew").count(), 1, "{told}");
}

#[test]
fn an_encoder_is_told_the_rate_that_the_path_carries() {
    let directory = tempfile::tempdir().unwrap();
    let rate = directory.path().join("rate");
    let told = || -> Option<u64> { fs::read_to_string(&rate).ok()?.trim().parse().ok() };
    let target = rate.to_str().unwrap();
    let (server, mut encoder) = publish_pipe(&["--encoder-rate", target, "--bitrate", "20M"]);
    let viewer = server
        .client(&["--time", "1"])
        .stdout(Stdio::null())
        .spawn();
    let mut viewer = viewer.unwrap();
    let mut parser = AccessUnits::default();
    let mut pictures = parser.push(CLIP).unwrap();
    pictures.extend(parser.finish());
    // It begins with --start-rate, 1 Mb/s, and rises to what loopback carries.
    while told() <= Some(1_000_000) {
        for picture in &pictures {
            encoder.write_all(&picture.bytes).unwrap();
            pause(Duration::from_millis(5));
        }
    }
    assert!(told() <= Some(20_000_000));
    viewer.kill().unwrap();
    viewer.wait().unwrap();
}
