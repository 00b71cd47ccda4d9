//! Files and pipes of `evenkeel bulk` that change, wait, or do not fit.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use evenkeel_apps::bulk::Hashing;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::program::{
    Process, Server, client, failure, json, last_words, noise, pause, records, success,
};

type Change = fn(&Path);

/// Both sides' digests are of what was read: a mixture of old and new would agree with itself.
#[test]
fn a_file_that_changes_in_the_middle_is_not_verified_in_either_direction() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let server = Server::bulk(&["--root", directory.path().to_str().unwrap()]);
    let changes: [(&str, Change, &str); 3] = [
        (
            "rewritten",
            rewrite,
            "the file changed while it was read; leave",
        ),
        ("longer", grow, "the file changed while it was read; leave"),
        ("shorter", shrink, "became shorter while it was read; leave"),
    ];
    let mut running = Vec::new();
    for (name, change, cause) in changes {
        fs::write(path(name), noise(3, 400_000)).unwrap();
        let (file, copy) = (path(name), path(&format!("{name}-copy")));
        let upload = ["--file", &file];
        let download = ["-R", "--file", name, "--output", &copy];
        let sender = "the peer gave up: reading the data to send failed";
        for (arguments, cause) in [(&upload[..], cause), (&download, sender)] {
            let options = ["-b", "2M", "--interval", "0.2", "--no-pings"];
            let command = server.client(&[&options, arguments].concat());
            let mut client = Process::start(command);
            assert_ne!(client.line(), "");
            running.push((client, cause, copy.clone()));
        }
        change(Path::new(&file));
    }
    for (client, cause, copy) in running {
        let line = last_words(&client.output(), 1);
        assert!(line.contains(cause), "{line}");
        assert!(!fs::exists(copy).unwrap(), "it was kept");
    }
}

#[test]
fn what_is_piped_in_is_sent_as_it_comes_and_whole() {
    let server = Server::bulk(&["--once"]);
    let (input, mut pipe) = std::io::pipe().unwrap();
    let options = ["--file", "-", "--json-lines", "--interval", "0.1"];
    let mut command = server.client(&options);
    command.stdin(input);
    let mut client = Process::start(command);
    let data = noise(4, 1_000_000);
    pipe.write_all(&data[..1]).unwrap();
    // The first byte waits for no more of them.
    let sent = |line: String| json(&line)["bytes"].as_u64();
    assert!((0..100).any(|_| sent(client.line()) == Some(1)));
    pipe.write_all(&data[1..]).unwrap();
    drop(pipe);
    let printed = success(client.output());
    let result = records(&printed).pop().unwrap();
    assert_eq!(result["verified"], true);
    let checksum = Hashing::Blake3.of(&data).to_string();
    assert_eq!(result["receiver"]["checksum"], checksum);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_client_that_waits_for_its_pipe_can_be_ended() {
    let server = Server::bulk(&[]);
    let (input, _pipe) = std::io::pipe().unwrap();
    let mut command = server.client(&["--file", "-", "--interval", "0.1", "--no-pings"]);
    command.stdin(input);
    let client = Process::start(command);
    pause(Duration::from_secs(1));
    client.signal("INT");
    assert!(last_words(&client.output(), 130).contains("interrupted"));
}

#[test]
fn a_download_to_standard_output_is_the_data_alone() {
    let directory = tempfile::tempdir().unwrap();
    let data = noise(5, 3_000_000);
    fs::write(directory.path().join("data"), &data).unwrap();
    let server = Server::bulk(&["--root", directory.path().to_str().unwrap()]);
    for (quiet, told) in [(&[][..], true), (&["-q"], false)] {
        let arguments = [&["-R", "--file", "data", "--output", "-"], quiet].concat();
        let mut command = server.client(&arguments);
        command.current_dir(directory.path());
        let output = command.output().unwrap();
        assert!(output.status.success());
        assert!(output.stdout == data, "{} bytes", output.stdout.len());
        let report = String::from_utf8(output.stderr).unwrap();
        assert_eq!(report.contains("verified, blake3:"), told, "{report}");
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1);
    }
}

#[test]
fn a_download_keeps_mode_and_time_but_no_bit_that_gives_rights_of_another() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let modified = SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_000_000_123_456);
    let server = Server::bulk(&["--root", directory.path().to_str().unwrap()]);
    let fetched = |mode, before: Option<u32>| {
        fs::write(path("file"), "data").unwrap();
        open(&path("file")).set_modified(modified).unwrap();
        fs::set_permissions(path("file"), Permissions::from_mode(mode)).unwrap();
        if let Some(before) = before {
            fs::write(path("copy"), "old").unwrap();
            fs::set_permissions(path("copy"), Permissions::from_mode(before)).unwrap();
        }
        let copy = path("copy");
        let arguments = ["-R", "--file", "file", "--output", copy.to_str().unwrap()];
        let mut command = Command::new("sh");
        // Group and others may not write.
        command.args(["-c", "umask 022; exec \"$@\"", "sh"]);
        let client = server.client(&arguments);
        command.arg(client.get_program()).args(client.get_args());
        success(command.output().unwrap());
        let metadata = fs::metadata(&copy).unwrap();
        assert_eq!(fs::read(&copy).unwrap(), b"data");
        fs::remove_file(copy).unwrap();
        fs::remove_file(path("file")).unwrap();
        assert_eq!(metadata.modified().unwrap(), modified);
        metadata.permissions().mode() & 0o7777
    };
    for (mode, copied) in [
        (0o640, 0o640),
        (0o755, 0o755),
        (0o444, 0o444),
        (0o666, 0o644),
        (0o6777, 0o755),
    ] {
        assert_eq!(fetched(mode, None), copied, "{mode:o}");
    }
    assert_eq!(fetched(0o755, Some(0o600)), 0o600);
}

#[test]
fn sha_256_is_what_sha256sum_prints() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "abc").unwrap();
    let server = Server::bulk(&[]);
    let table = success(client(
        &server,
        &["--file", file.to_str().unwrap(), "--sha256"],
    ));
    // The example of FIPS 180-4.
    let digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert!(
        table.contains(&format!("verified, sha256:{digest}")),
        "{table}"
    );
}

#[test]
fn a_fifo_is_refused_without_waiting_for_its_other_end() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
    let fifo = fifo.to_str().unwrap();
    let server = Server::bulk(&[]);
    for (arguments, remedy) in [
        (
            &["--file", fifo][..],
            "`--file -` sends what is piped to it",
        ),
        (&["-R", "--output", fifo], "choose another --output"),
    ] {
        let line = failure(&client(&server, arguments), 1);
        assert!(line.contains("not a regular file; "), "{line}");
        assert!(line.contains(remedy), "{line}");
    }
}

fn open(path: &Path) -> fs::File {
    OpenOptions::new().write(true).open(path).unwrap()
}

fn rewrite(path: &Path) {
    open(path).write_all_at(b"new", 0).unwrap();
}

fn grow(path: &Path) {
    open(path).write_all_at(b"new", 400_000).unwrap();
}

fn shrink(path: &Path) {
    open(path).set_len(300_000).unwrap();
}
