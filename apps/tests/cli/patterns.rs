//! Senders that hold back, several transfers at once, and servers that limit their clients.

use crate::program::{Server, client, failure, json, records, run, success};

#[test]
fn both_senders_keep_to_the_rate_that_was_asked_for() {
    let server = Server::bulk(&[]);
    // 250 kB a second, in all or in the ON half of it; 2500 bytes at a time.
    for (arguments, most) in [
        (&["-b", "2M"][..], 252_500),
        (&["-b", "2M", "--on", "0.25", "--off", "0.25"], 127_500),
        (&["-b", "2M", "-P", "3"], 257_500),
        (&["-R", "-b", "2M"], 252_500),
        (
            &["-R", "-b", "2M", "--on", "0.25", "--off", "0.25"],
            127_500,
        ),
    ] {
        let all = [&["--time", "1", "--json"], arguments].concat();
        let text = success(client(&server, &all));
        let bytes = json(&text)["receiver"]["bytes"].as_u64().unwrap();
        // A machine that is busy sends less, but not nothing.
        assert!((2500..=most).contains(&bytes), "{arguments:?}: {bytes}");
    }
}

#[test]
fn both_directions_at_once_are_two_verified_transfers() {
    let server = Server::bulk(&[]);
    let text = success(client(&server, &["--bidir", "--bytes", "1MB", "--json"]));
    let mut results = records(&text);
    results.sort_by_key(|result| result["direction"].to_string());
    let directions: Vec<_> = results
        .iter()
        .map(|r| r["direction"].as_str().unwrap())
        .collect();
    assert_eq!(directions, ["down", "up"]);
    for result in &results {
        assert_eq!(result["verified"], true);
        assert_eq!(result["receiver"]["bytes"], 1_000_000);
    }
}

#[test]
fn several_connections_are_a_table_for_people_and_records_for_programs() {
    let server = Server::bulk(&[]);
    let several = ["--bidir", "--connections", "3", "--bytes", "10kB"];
    let text = success(client(&server, &several));
    let names: Vec<_> = text.lines().skip(1).map(|line| line[..10].trim()).collect();
    let transfers = ["up 1", "up 2", "up 3", "down 1", "down 2", "down 3", "all"];
    // The first of each direction has pings, without load and under it.
    let pings = ["up 1", "up 1", "down 1", "down 1"];
    assert_eq!(names, [&transfers[..], &pings].concat());
    let sum = text.lines().nth(7).unwrap();
    assert!(sum.ends_with("60.0 kB"), "{text}");

    let text = success(client(&server, &[&several[..], &["--json"]].concat()));
    let mut seen: Vec<_> = records(&text)
        .iter()
        .map(|result| {
            assert_eq!(result["receiver"]["bytes"], 10_000);
            assert_eq!(result["verified"], true);
            (
                result["direction"].as_str().unwrap().to_owned(),
                result["connection"].as_u64().unwrap(),
            )
        })
        .collect();
    seen.sort();
    let each = |way: &str| (1..=3).map(|n| (way.to_owned(), n)).collect::<Vec<_>>();
    assert_eq!(seen, [each("down"), each("up")].concat());
}

#[test]
fn traces_of_several_connections_have_names_of_their_own() {
    let server = Server::bulk(&[]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let arguments = ["-C", "2", "--bytes", "10kB", "--qlog", path];
    success(client(&server, &arguments));
    let mut names: Vec<_> = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names[0].ends_with("-up-1.sqlog"), "{names:?}");
    assert!(names[1].ends_with("-up-2.sqlog"), "{names:?}");
}

#[test]
fn one_of_several_connections_that_fails_fails_the_program() {
    let server = Server::bulk(&["--connections", "1"]);
    let output = client(&server, &["-C", "2", "--time", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("up 1") || table.contains("up 2"), "{table}");
    let errors = String::from_utf8(output.stderr).unwrap();
    // Its handshake may be finished before the server has counted the first.
    assert!(errors.contains("the server is full"), "{errors}");
}

#[test]
fn a_file_cannot_be_filled_over_several_connections() {
    let arguments = ["bulk", "client", "[::1]", "-R", "--insecure"];
    let rest = ["--output", "x", "--file", "y", "-C", "2"];
    let line = failure(&run(&[&arguments[..], &rest].concat()), 2);
    assert!(line.contains("over one connection"), "{line}");
    assert!(!std::path::Path::new("x.part").exists());
}

#[test]
fn an_interval_is_a_line_for_people_who_ask_for_it() {
    let server = Server::bulk(&["--interval", "0.2"]);
    let text = success(client(&server, &["--time", "0.5", "-i", "0.2"]));
    let lines: Vec<_> = text.lines().collect();
    // Intervals that follow each other, longer ones on a busy machine, then the table.
    let table = lines.iter().position(|line| line.contains("receiver"));
    let mut end = "0.00";
    for line in &lines[..table.unwrap()] {
        let [from, "to", to, "s", ..] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert_eq!(from, end, "{text}");
        end = to;
        for word in ["b/s", "RTT", "window", "lost"] {
            assert!(line.contains(word), "{text}");
        }
    }
    assert!(end.parse::<f64>().unwrap() >= 0.5, "{text}");
    server.signal("INT");
    let (status, text, errors) = server.end();
    assert_eq!((status, &errors[..]), (Some(0), ""));
    assert!(
        text.lines().any(|line| line.contains(" s  received ")),
        "{text}"
    );
}

#[test]
fn a_server_bounds_the_time_of_a_transfer() {
    let server = Server::bulk(&["--max-time", "0.5"]);
    let line = failure(&client(&server, &["--time", "5"]), 1);
    assert!(line.contains("it sends for at most 0.5 s"), "{line}");
    success(client(&server, &["--bytes", "10kB"]));
}
