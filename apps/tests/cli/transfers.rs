//! Data that arrives.

use std::{fs, process::Stdio};

use evenkeel_apps::bulk::Checksum;
use serde_json::Value;

use crate::program::{Server, client, evenkeel, failure, noise, signal, success};

#[test]
fn a_20_mb_file_is_uploaded_whole() {
    let directory = tempfile::tempdir().unwrap();
    let data = noise(1, 20_000_000);
    let file = directory.path().join("data");
    fs::write(&file, &data).unwrap();
    let server = Server::start(&["--once"]);
    let output = client(
        &server,
        &[
            "--file",
            file.to_str().unwrap(),
            "--json",
            "--controller",
            "cubic",
        ],
    );
    let result: Value = serde_json::from_str(&success(output)).unwrap();
    let checksum = Checksum::of(&data).to_string();
    for side in ["sender", "receiver"] {
        assert_eq!(result[side]["bytes"], 20_000_000);
        assert_eq!(result[side]["checksum"], checksum);
    }
    assert_eq!(result["verified"], true);
    let (status, printed, errors) = server.end();
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(printed.contains(&checksum), "{printed}");
}

#[test]
fn a_20_mb_file_is_downloaded_whole_over_one_stream_or_several() {
    let directory = tempfile::tempdir().unwrap();
    let data = noise(2, 20_000_000);
    fs::create_dir(directory.path().join("sub")).unwrap();
    fs::write(directory.path().join("sub/data"), &data).unwrap();
    let copy = directory.path().join("copy");
    let root = directory.path().to_str().unwrap();
    let server = Server::start(&["--root", root, "--controller", "cubic"]);
    for streams in ["1", "5"] {
        let output = copy.to_str().unwrap();
        let output = client(
            &server,
            &[
                "-R", "--file", "sub/data", "--output", output, "-P", streams,
            ],
        );
        let table = success(output);
        assert!(table.contains("verified, SHA-256 "), "{table}");
        assert_eq!(
            table.contains(&Checksum::of(&data).to_string()),
            streams == "1"
        );
        assert!(
            fs::read(&copy).unwrap() == data,
            "the copy differs over {streams} streams"
        );
        assert!(!directory.path().join("copy.part").exists());
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn an_empty_file_is_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("empty");
    fs::write(&file, "").unwrap();
    let server = Server::start(&[]);
    let table = success(client(&server, &["--file", file.to_str().unwrap()]));
    assert!(table.contains(&Checksum::of(b"").to_string()), "{table}");
}

#[test]
fn every_controller_moves_data_both_ways() {
    for row in evenkeel::controllers() {
        let server = Server::start(&["--controller", row.name]);
        for direction in [
            &["--bytes", "300kB"][..],
            &["--bytes", "300kB", "--reverse"],
        ] {
            let mut arguments = vec!["--controller", row.name];
            arguments.extend(direction);
            let table = success(client(&server, &arguments));
            assert!(table.contains("300 kB"), "{}: {table}", row.name);
        }
    }
}

#[test]
fn files_outside_the_root_or_without_a_root_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(directory.path().join("secret"), "x").unwrap();
    std::os::unix::fs::symlink("../secret", root.join("link")).unwrap();
    let output = directory.path().join("out");
    let output = output.to_str().unwrap();
    let with_root = Server::start(&["--root", root.to_str().unwrap()]);
    let without = Server::start(&[]);
    for (server, name, word) in [
        (&with_root, "../secret", "without `..`"),
        (&with_root, "/etc/hostname", "relative"),
        (&with_root, "link", "no such file"),
        (&with_root, "missing", "no such file"),
        (&with_root, ".", "regular file"),
        (&without, "data", "--root DIR"),
    ] {
        let refused = client(server, &["-R", "--file", name, "--output", output]);
        let line = failure(&refused, 1);
        assert!(
            line.contains("refused") && line.contains(word),
            "{name}: {line}"
        );
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
    assert!(!fs::exists(output).unwrap() && !fs::exists(format!("{output}.part")).unwrap());
}

#[test]
fn a_client_sends_from_the_address_it_is_given() {
    let server = Server::start_on("[::]:0", &["--once"]);
    let port = server.address.rsplit(':').next().unwrap();
    let target = format!("localhost:{port}");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let local = free.local_addr().unwrap().to_string();
    drop(free);
    let arguments = ["bulk", "client", &target, "--pin", &server.pin];
    let mut command = evenkeel(&arguments);
    command.args(["--bytes", "10kB", "--bind", &local]);
    success(command.output().unwrap());
    let (status, printed, _) = server.end();
    assert_eq!(status, Some(0));
    assert!(
        printed.contains(&format!("\n{local}: 10.0 kB")),
        "{printed}"
    );
}

#[test]
fn without_mtu_discovery_no_payload_is_above_1200_bytes() {
    let option = ["--no-mtu-discovery"];
    for (ours, theirs, reverse) in [
        (&option[..], &[][..], false),
        (&[], &option, true),
        (&[], &[], false),
    ] {
        let server = Server::start(theirs);
        let mut arguments = vec!["--bytes", "3MB", "--json"];
        arguments.extend(ours);
        arguments.extend(reverse.then_some("--reverse"));
        let result = success(client(&server, &arguments));
        let sender = &serde_json::from_str::<Value>(&result).unwrap()["sender"];
        let sent = sender["udp_bytes_sent"].as_u64().unwrap();
        let packets = sender["packets_sent"].as_u64().unwrap();
        // Of 3 MB most packets are full: larger ones show in the mean.
        let small = !(ours.is_empty() && theirs.is_empty());
        assert_eq!(
            sent <= 1200 * packets,
            small,
            "{sent} bytes in {packets} packets"
        );
    }
}

#[test]
fn acknowledgements_are_held_back_as_the_sender_asks() {
    let option = [
        "--ack-every",
        "1000",
        "--max-ack-delay",
        "20",
        "--no-mtu-discovery",
    ];
    for (ours, theirs, reverse) in [(&option[..], &[][..], false), (&[], &option, true)] {
        let server = Server::start(theirs);
        let mut arguments = vec!["--bytes", "100kB", "--json"];
        arguments.extend(ours);
        arguments.extend(reverse.then_some("--reverse"));
        let result = success(client(&server, &arguments));
        let result: Value = serde_json::from_str(&result).unwrap();
        // Windows of 10, 20 and 40 packets of 1200 bytes (RFC 9002, section 7.2) do not hold
        // 100 kB, and each waits for its acknowledgement.
        let duration = result["sender"]["duration_s"].as_f64().unwrap();
        assert!(duration > 0.04, "{duration} s");
    }
}

#[test]
fn both_ip_versions_reach_a_server_on_all_addresses() {
    let server = Server::start_on("[::]:0", &[]);
    let port = server.address.rsplit(':').next().unwrap();
    for host in ["127.0.0.1", "[::1]", "localhost"] {
        let target = format!("{host}:{port}");
        let arguments = [
            "bulk",
            "client",
            &target,
            "--pin",
            &server.pin,
            "--bytes",
            "10kB",
        ];
        success(evenkeel(&arguments).output().unwrap());
    }
}

#[test]
fn an_interrupted_client_says_how_far_it_came_and_the_server_goes_on() {
    let server = Server::start(&[]);
    let arguments = [
        "bulk",
        "client",
        &server.address,
        "--pin",
        &server.pin,
        "--time",
        "60",
    ];
    let mut running = evenkeel(&arguments);
    let running = running
        .arg("--json-lines")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = running.spawn().unwrap();
    let mut records = std::io::BufReader::new(running.stdout.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut records, &mut first).unwrap();
    signal(&running, "INT");
    let output = running.wait_with_output().unwrap();
    let line = failure(&output, 130);
    assert!(line.contains("interrupted after"), "{line}");
    let mut last = String::new();
    std::io::Read::read_to_string(&mut records, &mut last).unwrap();
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(last["record"], "result");
    assert_eq!(last["interrupted"], true);
    assert!(last["bytes_sent"].as_u64().unwrap() > 0);
    success(client(&server, &["--bytes", "1kB"]));
}

#[test]
fn an_interrupted_or_terminated_server_ends_well() {
    for name in ["INT", "TERM"] {
        let server = Server::start(&[]);
        success(client(&server, &["--bytes", "1kB"]));
        server.signal(name);
        let (status, _, errors) = server.end();
        assert_eq!((status, errors.as_str()), (Some(0), ""));
    }
}

#[test]
fn a_server_that_stops_midway_is_a_failure_of_the_client() {
    let server = Server::start(&[]);
    let arguments = [
        "bulk",
        "client",
        &server.address,
        "--pin",
        &server.pin,
        "--time",
        "60",
    ];
    let mut running = evenkeel(&arguments);
    let running = running
        .arg("--json-lines")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut running = running.spawn().unwrap();
    let mut records = std::io::BufReader::new(running.stdout.take().unwrap());
    let mut first = String::new();
    std::io::BufRead::read_line(&mut records, &mut first).unwrap();
    server.signal("INT");
    let output = running.wait_with_output().unwrap();
    let line = failure(&output, 1);
    assert!(line.contains("the server stops"), "{line}");
}
