//! Uploads that hold back, both directions at once, and servers that limit their clients.

use crate::program::{Server, client, failure, success};

fn results(text: &str) -> Vec<serde_json::Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn an_upload_at_a_rate_sends_no_faster() {
    let server = Server::start(&[]);
    // 250 kB a second, in all or in the ON half of it; 2500 bytes at a time.
    for (arguments, most) in [
        (&["-b", "2M"][..], 252_500),
        (&["-b", "2M", "--on", "0.25", "--off", "0.25"], 127_500),
        (&["-b", "2M", "-P", "3"], 257_500),
    ] {
        let all = [&["--time", "1", "--json"], arguments].concat();
        let text = success(client(&server, &all));
        let bytes = results(&text)[0]["receiver"]["bytes"].as_u64().unwrap();
        // A machine that is busy sends less, but not nothing.
        assert!((2500..=most).contains(&bytes), "{arguments:?}: {bytes}");
    }
}

#[test]
fn both_directions_at_once_are_two_verified_transfers() {
    let server = Server::start(&[]);
    let text = success(client(&server, &["--bidir", "--bytes", "1MB", "--json"]));
    let mut results = results(&text);
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
    let text = success(client(&server, &["--bidir", "--bytes", "10kB"]));
    assert!(
        text.contains("upload:") && text.contains("download:"),
        "{text}"
    );
}

#[test]
fn a_server_bounds_the_time_of_a_transfer() {
    let server = Server::start(&["--max-time", "0.5"]);
    let line = failure(&client(&server, &["--time", "5"]), 1);
    assert!(line.contains("it sends for at most 0.5 s"), "{line}");
    success(client(&server, &["--bytes", "10kB"]));
}
