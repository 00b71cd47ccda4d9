use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use evenkeel_router::status::{Status, table};
use evenkeel_tests::one_of_three_tries;
use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};
use serde_json::Value;

use crate::raw::{self, Injector, Sniffer};
use crate::support::{Host, Lab, Versions, link, number};

/// Waits until `packets` have been delivered.
fn delivered(router: &crate::support::Router, packets: f64) -> Value {
    let link = (0..200).find_map(|_| {
        thread::park_timeout(Duration::from_millis(10));
        Some(router.link()).filter(|link| number(link, "total.delivered.packets") >= packets)
    });
    link.expect("the packets are delivered")
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn figures_are_those_of_the_traffic_and_a_restart_empties_the_window() {
    one_of_three_tries(|| {
        let Some(lab) = Lab::new(Versions::Both) else {
            return;
        };
        let router = lab.start(&link("rate_bps = 1e6\nqueue_packets = 5"));
        let injector = Injector::new(&lab, Host::A);
        // Ten packets of 1000 bytes at once: one goes, five wait, four are dropped. Each takes 8 ms.
        for number in 0..10 {
            injector
                .send(&raw::v4(64, 253, number, &[], &[0; 980]))
                .unwrap();
        }
        let link = delivered(&router, 6.0);
        assert_eq!(link["name"], "bottleneck");
        assert_eq!(link["tun"], "ek-bn");
        assert_eq!(number(&link, "table"), 1001.0);
        assert_eq!(number(&link, "rate_bps"), 1e6);
        assert_eq!(number(&link, "window.arrived.bytes"), 10_000.0);
        assert_eq!(number(&link, "window.dropped_full.packets"), 4.0);
        assert_eq!(number(&link, "queue_packets.max"), 5.0);
        assert_eq!(number(&link, "loss_rate"), 0.4);
        // The last one has waited for five others, less what it came after the first: the ten are sent
        // within a few milliseconds even on a busy machine.
        let max = number(&link, "sojourn_us.max");
        assert!((30_000.0..=40_000.0).contains(&max), "{max}");
        let busy = number(&link, "utilization") * number(&link, "window_s");
        assert!((busy - 0.048).abs() < 1e-6, "six times 8 ms: {busy}");

        let sample = router.ask(r#"{"request":"sample"}"#)["links"][0].clone();
        assert_eq!(number(&sample, "interval.dropped.packets"), 4.0);
        assert_eq!(number(&sample, "interval.queue_max"), 5.0);
        let restarted = router.ask(r#"{"request":"restart-measurement"}"#)["links"][0].clone();
        assert_eq!(number(&restarted, "window.arrived.packets"), 0.0);
        assert_eq!(number(&restarted, "total.arrived.packets"), 10.0);
        assert_eq!(restarted["sojourn_us"], Value::Null);
        let sample = router.ask(r#"{"request":"sample"}"#)["links"][0].clone();
        assert_eq!(number(&sample, "interval.arrived.packets"), 0.0);
        assert_eq!(number(&sample, "interval.queue_max"), 0.0);
    });
}

#[test]
fn people_get_a_table_and_scripts_the_documented_document() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let _router = lab.start(&link("rate_bps = 1e6"));
    let socket = lab.socket();
    let print = |arguments: &[&str]| {
        let mut command = lab.evenkeel_router(&["status", "--socket"]);
        let output = command.arg(&socket).args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let status: Status = serde_json::from_str(&print(&["--json"])).unwrap();
    assert_eq!((&status.router[..], status.links.len()), ("r1", 1));
    let text = print(&[]);
    assert!(
        text.contains("link bottleneck on ek-bn") && text.contains("1.000 Mb/s"),
        "{text}"
    );
    assert_eq!(text.lines().count(), table(&status).lines().count());
}

#[test]
fn hostile_bytes_are_answered_with_an_error_and_disturb_nobody() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 1e6"));
    let converse = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(lab.socket()).unwrap();
        // A peer that has heard enough closes.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answers = Vec::new();
        let _ = stream.read_to_end(&mut answers);
        answers
            .lines()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect::<Vec<Value>>()
    };
    for bytes in [
        &b"hello\n"[..],
        b"{}\n",
        b"\n",
        b"\xff\xfe\x00\n",
        b"{\"request\":\"stop\"}\n",
        b"[[[[[[\n",
    ] {
        let answers = converse(bytes);
        assert!(
            answers[0]["error"].as_str().unwrap().contains("send"),
            "{answers:?}"
        );
    }
    let flood = vec![b'['; 1 << 20];
    assert!(converse(&flood).len() <= 1, "the first kilobyte is enough");
    let deep = [vec![b'['; 1000], b"\n".to_vec()].concat();
    assert_eq!(converse(&deep).len(), 1);
    let both = converse(b"nonsense\n{\"request\":\"status\"}\n");
    assert!(both[0]["error"].is_string() && both[1]["router"] == "r1");
    drop(router);
}

/// Connects and asks; returns the line that comes back.
fn ask(lab: &Lab) -> std::io::Result<String> {
    let stream = UnixStream::connect(lab.socket())?;
    (&stream).write_all(b"{\"request\":\"status\"}\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    Ok(line)
}

#[test]
fn clients_that_say_nothing_give_way_to_others() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 1e6"));
    let mut silent: Vec<_> = (0..16)
        .map(|_| UnixStream::connect(lab.socket()).unwrap())
        .collect();
    for _ in 0..3 {
        assert!(ask(&lab).unwrap().contains("\"router\":\"r1\""));
    }
    // The first has been silent longest; the last may stay.
    let mut rest = Vec::new();
    assert_eq!(silent[0].read_to_end(&mut rest).unwrap(), 0);
    let last = silent.pop().unwrap();
    (&last).write_all(b"{\"request\":\"status\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(last).read_line(&mut line).unwrap();
    assert!(line.contains("\"router\":\"r1\""), "{line}");
    router.stop(Signal::TERM);
}

#[test]
fn a_router_without_a_file_descriptor_left_forwards_and_answers_later() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link("rate_bps = 10e6"));
    let pid = Pid::from_raw(router.pid() as i32);
    let open = std::fs::read_dir(format!("/proc/{}/fd", router.pid())).unwrap();
    let open = open.count() as u64;
    let limit = |current| {
        let limit = Rlimit {
            current: Some(current),
            maximum: Some(4096),
        };
        prlimit(pid, Resource::Nofile, limit).unwrap();
    };
    limit(open);
    // They connect, but the router cannot accept them.
    let waiting: Vec<_> = (0..3)
        .map(|_| UnixStream::connect(lab.socket()).unwrap())
        .collect();
    let sniffer = Sniffer::new(&lab, Host::B);
    let injector = Injector::new(&lab, Host::A);
    for number in 0..10 {
        thread::park_timeout(Duration::from_millis(150));
        let text = format!("packet {number}");
        injector
            .send(&raw::v4(64, 253, number, &[], text.as_bytes()))
            .unwrap();
        sniffer.find(|packet| packet.ends_with(text.as_bytes()));
    }
    limit(1024);
    assert!(ask(&lab).unwrap().contains("\"router\":\"r1\""));
    drop(waiting);
    let (status, stderr) = router.stop(Signal::TERM);
    assert_eq!(status.code(), Some(0));
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(
        stderr.contains("cannot answer on ") && stderr.contains("forwarding goes on"),
        "{stderr}"
    );
}

#[test]
fn the_figures_say_what_a_link_is_and_where_that_is_written() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let keys = "rate_bps = 2e6\ndelay_ms = 18\nqueue_packets = 50\nloss = 0.01\n";
    let router = lab.start(&link(&format!("{keys}discipline = \"codel:target_ms=10\"")));
    let config = lab.directory().join("r1.toml");
    let status = router.ask(r#"{"request":"status"}"#);
    assert_eq!(status["config"], config.display().to_string());
    assert_eq!(status["reloads"], 0);
    let shown = router.link();
    assert_eq!(number(&shown, "configured.rate_bps"), 2e6);
    assert_eq!(number(&shown, "configured.delay_ms"), 18.0);
    assert_eq!(number(&shown, "configured.queue_packets"), 50.0);
    assert_eq!(number(&shown, "configured.loss"), 0.01);
    assert_eq!(shown["configured"]["discipline"], "codel:target_ms=10");
    let route = &shown["routes"][0];
    assert_eq!(route["to"], "10.0.2.0/24");
    assert_eq!(route["via"], "10.0.9.2");
    assert_eq!(route["dev"], "vb");
    let mut command = lab.evenkeel_router(&["status", "--socket"]);
    let printed = command.arg(lab.socket()).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    for line in [
        "delay_ms = 18.0",
        "route      10.0.2.0/24 via 10.0.9.2 dev vb",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
    let before = number(&shown, "since_s");
    lab.write_config(&link("rate_bps = 3e6"));
    router.ask(r#"{"request":"reload"}"#);
    let status = router.ask(r#"{"request":"status"}"#);
    assert_eq!(status["reloads"], 1);
    assert_eq!(number(&router.link(), "configured.rate_bps"), 3e6);
    assert!(number(&router.link(), "since_s") < before + number(&status, "uptime_s"));
}
