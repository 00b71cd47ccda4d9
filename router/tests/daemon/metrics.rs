use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::raw::forwards;
use crate::support::{Host, Lab, Versions, eventually, link};

const ADDRESS: &str = "127.0.0.1:9310";

/// A configuration with metrics at this address.
fn with_metrics(address: &str, values: &str) -> String {
    format!("metrics = {address:?}\n{}", link(values))
}

/// Connects to the metrics in host R.
fn connect(lab: &Lab) -> TcpStream {
    let stream = lab.within(Host::R, || TcpStream::connect(ADDRESS).unwrap());
    let patience = Some(Duration::from_secs(30));
    stream.set_read_timeout(patience).unwrap();
    stream
}

/// Sends a request and reads until the other side closes.
pub(crate) fn exchange(mut stream: impl Read + Write, request: &str) -> String {
    // A peer that has heard enough closes.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

const SCRAPE: &str = "GET /metrics HTTP/1.1\r\nHost: r1\r\n\r\n";

fn scraped(lab: &Lab) -> String {
    exchange(connect(lab), SCRAPE)
}

#[test]
fn figures_are_at_the_port_that_the_configuration_gives() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&with_metrics(
        ADDRESS,
        "rate_bps = 10e6\nstamps = [\"flows\"]",
    ));
    (0..3).for_each(|_| forwards(&lab));
    let figures = |name: &str, value: &str| {
        let line =
            format!("evenkeel_router_link_{name}{{router=\"r1\",link=\"bottleneck\"}} {value}");
        eventually(&line, || scraped(&lab).lines().any(|other| other == line));
    };
    figures("delivered_packets_total", "3");
    figures("sojourn_seconds_count", "3");
    figures("foreign_packets_total", "3");
    figures("degraded", "0.0");
    let answer = scraped(&lab);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let media_type = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert!(head.contains(media_type), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: r1\r\n\r\n", "404"),
        (
            "POST /metrics HTTP/1.1\r\nHost: r1\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        ("HEAD /metrics HTTP/1.1\r\nHost: r1\r\n\r\n", "200"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = exchange(connect(&lab), request);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {answer}"
        );
    }
    // What a link lacks is there with its reason.
    lab.ip(Host::R, "link set vb down");
    eventually("degraded", || {
        let text = scraped(&lab);
        let mut lines = text.lines();
        let reason = lines.find(|line| line.contains("link_degraded_reason_info{"));
        text.contains("link_degraded{router=\"r1\",link=\"bottleneck\"} 1.0")
            && reason.is_some_and(|line| line.contains("device \\\"vb\\\" is down; switch it on"))
    });
    let (status, _) = router.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
}

#[test]
fn figures_are_at_the_socket_that_the_configuration_gives_and_it_goes_with_the_router() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&with_metrics("./r1.metrics", "rate_bps = 10e6"));
    let path = lab.directory().join("r1.metrics");
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let answer = exchange(UnixStream::connect(&path).unwrap(), SCRAPE);
    assert!(answer.ends_with("# EOF\n"), "{answer}");
    router.stop(Signal::TERM);
    assert!(!path.exists());
}

#[test]
fn clients_that_are_silent_endless_or_many_end_neither_metrics_nor_forwarding() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&with_metrics(ADDRESS, "rate_bps = 10e6"));
    let endless = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(1 << 20));
    let answer = exchange(connect(&lab), &endless);
    assert!(answer.len() < 1000, "{answer}");
    let many = "X: x\r\n".repeat(1000);
    let many = format!("GET /metrics HTTP/1.1\r\n{many}\r\n");
    assert!(!exchange(connect(&lab), &many).contains("# EOF"));
    let silent: Vec<_> = (0..40).map(|_| connect(&lab)).collect();
    let mut half = connect(&lab);
    half.write_all(b"GET /metrics HTT").unwrap();
    forwards(&lab);
    assert!(scraped(&lab).ends_with("# EOF\n"));
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| (0..20).for_each(|_| drop(connect(&lab))));
        }
        (0..10).for_each(|_| forwards(&lab));
    });
    assert!(scraped(&lab).ends_with("# EOF\n"));
    drop((silent, half));
    let (status, stderr) = router.stop(Signal::TERM);
    assert_eq!((status.code(), &stderr[..]), (Some(0), ""));
}

#[test]
fn a_port_that_is_taken_is_refused_and_a_running_router_keeps_its_own() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&with_metrics(ADDRESS, "rate_bps = 1e6"));
    let config = lab.directory().join("other.toml");
    let other = link("rate_bps = 1e6").replace("ek-bn", "ek-other");
    let socket = lab.directory().join("other.sock");
    let text = format!("name = \"other\"\nsocket = {socket:?}\nmetrics = {ADDRESS:?}\n{other}");
    fs::write(&config, text).unwrap();
    let mut command = lab.evenkeel_router(&["run", "--config"]);
    let output = command.arg(&config).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot make the socket 127.0.0.1:9310"),
        "{stderr}"
    );
    assert!(stderr.contains("metrics = "), "{stderr}");

    lab.write_config(&with_metrics("127.0.0.1:9311", "rate_bps = 1e6"));
    let answer = router.ask(r#"{"request":"reload"}"#);
    let error = answer["error"].as_str().unwrap();
    assert!(error.contains("metrics"), "{error}");
    assert!(scraped(&lab).ends_with("# EOF\n"));
}
