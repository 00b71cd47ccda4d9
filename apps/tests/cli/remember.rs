//! `--remember FILE`.

use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use quinn::{Runtime, TokioRuntime};

use crate::program::{Server, evenkeel, failure, pause, run, success};

/// How long the path takes, each way.
const DELAY: Duration = Duration::from_millis(15);

/// Stands between a client and `server`, and delays what goes either way. Returns its address. Over
/// loopback alone a round trip carries hardly more than an initial window.
fn slow_path(server: &str) -> SocketAddr {
    let [outside, inside] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = outside.local_addr().unwrap();
    inside.connect(server).unwrap();
    let (there, back) = (outside.try_clone().unwrap(), inside.try_clone().unwrap());
    let (come, client) = mpsc::channel();
    let mut come = Some(come);
    forward(
        move |packet| {
            let (length, from) = there.recv_from(packet)?;
            if let Some(come) = come.take() {
                come.send(from).unwrap();
            }
            Ok(length)
        },
        move |packet| inside.send(packet),
    );
    let mut to = None;
    forward(
        move |packet| back.recv(packet),
        move |packet| outside.send_to(packet, *to.get_or_insert_with(|| client.recv().unwrap())),
    );
    address
}

/// Hands on, [`DELAY`] later, for as long as the test runs.
fn forward(
    mut receive: impl FnMut(&mut [u8]) -> io::Result<usize> + Send + 'static,
    mut send: impl FnMut(&[u8]) -> io::Result<usize> + Send + 'static,
) {
    let (come, due) = mpsc::channel();
    thread::spawn(move || {
        let mut packet = [0; 2048];
        // When the server has gone, the call after that fails.
        while let Ok(length) = receive(&mut packet) {
            let arrived = (TokioRuntime.now() + DELAY, packet[..length].to_vec());
            if come.send(arrived).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || {
        for (at, packet) in due {
            pause(at.saturating_duration_since(TokioRuntime.now()));
            if send(&packet).is_err() {
                return;
            }
        }
    });
}

/// A client behind such a path, that says what it does.
fn distant(server: &Server, arguments: &[&str]) -> Output {
    let address = slow_path(&server.address).to_string();
    let mut all = vec!["-v", "bulk", "client", &address, "--pin", &server.pin];
    all.extend(["--bytes", "3MB", "--no-pings"]);
    all.extend(arguments);
    evenkeel(&all).output().unwrap()
}

/// Whether the program says that it began with a memory.
fn remembered(errors: &str) -> bool {
    errors.contains("the path is remembered")
}

#[test]
fn the_side_that_sends_notes_what_the_path_carried_and_begins_with_it_the_next_time() {
    let directory = tempfile::tempdir().unwrap();
    for way in ["up", "down"] {
        let path = directory.path().join(way);
        let file = path.to_str().unwrap();
        let remember = ["--remember", file];
        let (client, server): (&[&str], &[&str]) = match way {
            "up" => (&remember, &[]),
            _ => (&["--reverse"], &remember),
        };
        for is_known in [false, true] {
            let arguments = [
                &["-v", "bulk", "server", "--listen", "127.0.0.1:0", "--once"],
                server,
            ];
            let running = Server::start(evenkeel(&arguments.concat()));
            let output = distant(&running, client);
            let client_errors = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{client_errors}");
            let (status, _, server_errors) = running.end();
            assert_eq!(status, Some(0), "{server_errors}");
            let errors = if way == "up" {
                client_errors
            } else {
                server_errors
            };
            assert_eq!(remembered(&errors), is_known, "{way}: {errors}");
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.starts_with("127.0.0.1 "), "{text}");
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}

#[test]
fn a_file_that_holds_no_memories_or_that_others_may_write_to_is_an_error_of_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("paths");
    let file = path.to_str().unwrap();
    let of = |side: &str| {
        let arguments = match side {
            "client" => ["bulk", "client", "127.0.0.1:9", "--insecure"],
            _ => ["bulk", "server", "--listen", "127.0.0.1:0"],
        };
        failure(&run(&[&arguments[..], &["--remember", file]].concat()), 1)
    };
    for side in ["client", "server"] {
        for (content, mode, words) in [
            (&b"127.0.0.1 1 1\n"[..], 0o600, "line 1 of "),
            (
                b"127.0.0.1 1000 1000 1\n\x00\xff\x1b[2J\n",
                0o600,
                "line 2 of ",
            ),
            (&[b'1'; 70_000], 0o600, "longer than 64 KiB"),
            (b"", 0o620, "chmod 600"),
        ] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let line = of(side);
            assert!(line.contains(words) && line.contains(file), "{line}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(of(side).contains("--remember"));
        fs::remove_dir(&path).unwrap();
    }
    // Of none that was never written nothing is known: it is made.
    let server = Server::bulk(&[]);
    let output = server
        .client(&["--bytes", "1kB", "--remember", file])
        .output();
    success(output.unwrap());
    assert!(path.exists());
}
