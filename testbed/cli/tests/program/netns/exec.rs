//! Programs of others between a scenario's links.

use std::fs;
use std::process::Output;

use evenkeel_tests::one_of_three_tries;

use super::start;
use crate::support::{
    alone, has_namespaces_and, number, program, result_of, scenario, testbed, text,
};

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn exec_runs_a_program_on_a_host_and_passes_its_status_on() {
    if !has_namespaces_and(&[("ping", "iputils-ping")]) {
        return;
    }
    let _alone = alone();
    let lossy = scenario("lossy.toml");
    let exec = |command: &[&str]| -> Output {
        let mut arguments = vec![
            "exec",
            lossy.as_str(),
            "--set",
            "links.0.loss=0",
            "--host",
            "client",
            "--",
        ];
        arguments.extend(command);
        testbed(&arguments).output().expect("the program starts")
    };
    assert_eq!(exec(&["sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(exec(&["sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    let other = exec(&[
        "sh",
        "-c",
        "ip netns exec $EVENKEEL_NETNS_server ip -brief address show lo",
    ]);
    assert!(
        text(&other.stdout).contains("10.0.0.2/32"),
        "{}",
        text(&other.stdout)
    );
    one_of_three_tries(|| {
        let ping = exec(&["ping", "-c", "5", "-i", "0.2", "server"]);
        let summary = text(&ping.stdout);
        assert!(ping.status.success(), "{summary}{}", text(&ping.stderr));
        // 10 ms there and back, and what machines take.
        let least = crate::support::least_round_trip_ms(&summary);
        assert!((20.0..21.0).contains(&least), "{least} ms");
    });
    let unknown = testbed(&["exec", &lossy, "--host", "nobody", "--", "true"])
        .output()
        .expect("it starts");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(
        text(&unknown.stderr).contains("client, server"),
        "{}",
        text(&unknown.stderr)
    );
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn a_router_lets_the_share_that_was_asked_for_overtake_and_a_transfer_arrives_intact() {
    if !has_namespaces_and(&[("ping", "iputils-ping")]) {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("reordering.toml");
        fs::write(&path, crate::support::REORDERING).expect("it can be written");
        let path = path.to_str().expect("a path in UTF-8");
        let settings = ["links.0.emulator=evenkeel"];
        let mut exec = testbed(&["exec", path, "--set", settings[0], "--host", "client", "--"]);
        let pings = exec.args(crate::support::PINGS).output();
        crate::support::assert_reordered(&text(&pings.expect("the program starts").stdout));
        let (child, _out) = start(path, &settings);
        crate::support::assert_transferred(&result_of(child), "evenkeel");
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn udp_and_tcp_are_shaped_to_the_configured_rate_of_ip_packets() {
    if !has_namespaces_and(&[("iperf3", "iperf3")]) {
        return;
    }
    let _alone = alone();
    for rate in [1e6, 10e6, 100e6] {
        // iperf3 counts payload: 1200 of 1228 bytes of an IP packet.
        assert_shaped("UDP", rate, || {
            let udp = iperf3(rate, &format!("-u -b {} -l 1200 -t 5 -O 1", rate * 1.5));
            number(&udp["end"]["sum_received"]["bits_per_second"]) * 1228.0 / 1200.0
        });
        assert_shaped("TCP", rate, || {
            let tcp = iperf3(rate, "-t 6 -O 2");
            number(&tcp["end"]["sum_received"]["bits_per_second"]) * TCP_PACKET
        });
    }
}

/// Bytes of an IP packet per byte of TCP payload: 1448 and 52 of headers with timestamps.
const TCP_PACKET: f64 = 1500.0 / 1448.0;

/// Never more than 1 % above the rate; not less than 1 % below it in one of three tries, because a
/// machine that is busy otherwise cannot send at any rate.
fn assert_shaped(what: &str, rate: f64, measure: impl Fn() -> f64) {
    let mut seen = Vec::new();
    for _ in 0..3 {
        let ratio = measure() / rate;
        assert!(ratio <= 1.01, "{what} at {rate}: {ratio} of it");
        if ratio >= 0.99 {
            return;
        }
        seen.push(ratio);
    }
    panic!("{what} at {rate}: {seen:?} of it");
}

/// iperf3 from client to server over a link of `rate` bits per second and 5 ms.
fn iperf3(rate: f64, options: &str) -> serde_json::Value {
    let script = format!(
        "ip netns exec $EVENKEEL_NETNS_server iperf3 -s -1 -D && sleep 0.5 && iperf3 -c server -J {options}"
    );
    serde_json::from_str(&on_client(rate, &[], &script)).expect("iperf3's JSON")
}

/// Runs a shell script on the client of a link of `rate` bits per second and 5 ms, with `more`
/// settings.
fn on_client(rate: f64, more: &[&str], script: &str) -> String {
    let rate = format!("links.0.rate_bps={rate}");
    let settings = [
        "links.0.loss=0",
        "links.0.delay_ms=5",
        "links.0.queue_packets=100",
        &rate,
    ];
    let settings = settings.into_iter().chain(more.iter().copied());
    let lossy = scenario("lossy.toml");
    let mut arguments = vec!["exec", lossy.as_str(), "--host", "client"];
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    arguments.extend(["--", "sh", "-c", script]);
    let output = testbed(&arguments).output().expect("the program starts");
    assert!(
        output.status.success(),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn the_wire_rates_of_a_tcp_and_a_quic_flow_add_up_to_the_links() {
    if !has_namespaces_and(&[("iperf3", "iperf3")]) {
        return;
    }
    let _alone = alone();
    one_of_three_tries(|| {
        let evenkeel = program("evenkeel");
        let evenkeel = evenkeel.display();
        // Both start within half a second and last 12 s; seconds 3 to 10 of each are compared.
        let script = format!(
            "ip netns exec $EVENKEEL_NETNS_server iperf3 -s -1 -J > $DIR/tcp & \
             ip netns exec $EVENKEEL_NETNS_server {evenkeel} bulk server --listen 10.0.0.2:5000 --once --json-lines > $DIR/quic & \
             sleep 1; iperf3 -c server -t 12 > /dev/null & \
             {evenkeel} bulk client 10.0.0.2:5000 --insecure --controller reno --time 12 --no-mtu-discovery > /dev/null; \
             wait; cat $DIR/tcp; echo; echo ======; cat $DIR/quic"
        );
        let script = format!("DIR=$(mktemp -d); {script}; rm -r $DIR");
        let output = on_client(20e6, &[], &script);
        let (tcp, quic) = output.split_once("======").expect("both parts");
        let tcp: serde_json::Value = serde_json::from_str(tcp).expect("iperf3's JSON");
        let tcp_bytes: f64 = tcp["intervals"].as_array().expect("intervals")[3..10]
            .iter()
            .map(|interval| number(&interval["sum"]["bytes"]) * TCP_PACKET)
            .sum();
        let intervals: Vec<serde_json::Value> = quic
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|record: &serde_json::Value| record["record"] == "server_interval")
            .collect();
        let quic_bytes: f64 = intervals[3..10]
            .iter()
            .map(|record| {
                number(&record["udp_bytes_received"])
                    + 28.0 * number(&record["udp_datagrams_received"])
            })
            .sum();
        let rate = (tcp_bytes + quic_bytes) * 8.0 / 7.0;
        // The two sevens of seconds are up to half a second apart: 3 % is what a change of the
        // shares within it can make of the sum, at most.
        assert!(
            (0.97..=1.03).contains(&(rate / 20e6)),
            "TCP {tcp_bytes} and QUIC {quic_bytes} bytes: {rate} bit/s"
        );
        assert!(
            tcp_bytes > 0.02 * quic_bytes && quic_bytes > 0.02 * tcp_bytes,
            "both send"
        );
    });
}

#[test]
#[ignore = "compares real time; .ci/full runs it"]
fn tshark_counts_the_codepoints_that_a_transfer_with_l4s_reports() {
    if !has_namespaces_and(&[("tshark", "tshark")]) {
        return;
    }
    let _alone = alone();
    let evenkeel = program("evenkeel");
    let evenkeel = evenkeel.display();
    let script = format!(
        "cd $(mktemp -d); on_server='ip netns exec '$EVENKEEL_NETNS_server
         $on_server {evenkeel} bulk server --listen 10.0.0.2:5000 --once > server &
         $on_server tshark -q -n -i link0 -f 'udp and src 10.0.0.1' -w capture 2> tshark & shark=$!
         until grep -q Capturing tshark; do sleep 0.1; done; sleep 0.5
         {evenkeel} bulk client 10.0.0.2:5000 --insecure --ecn l4s --time 4 --json
         sleep 1; kill -INT $shark; wait $shark; echo =; tshark -n -r capture -T fields -e ip.dsfield.ecn
         rm -r $PWD"
    );
    for (ecn, fault) in [("keep", None), ("remark", Some("remarked"))] {
        let ecn = format!("links.0.ecn={ecn}");
        let settings = [
            "links.0.discipline=dualpi2",
            "links.0.reverse.ecn=keep",
            &ecn,
        ];
        let output = on_client(20e6, &settings, &script);
        let (report, captured) = output.split_once("\n=\n").expect("both parts");
        let report: serde_json::Value = serde_json::from_str(report).expect("JSON");
        assert_eq!(report["ecn"]["fault"].as_str(), fault, "{report}");
        assert!(captured.lines().count() > 3000, "{report}");
        for (codepoint, name) in [("1", "ect1"), ("2", "ect0"), ("3", "ce")] {
            let seen = captured.lines().filter(|line| *line == codepoint).count() as f64;
            let reported = number(&report["ecn"]["there"][name]);
            // Some packets come as one to a capture, and the last after the report.
            let apart = (seen - reported).abs();
            assert!(apart <= 5.0 + 0.02 * reported, "{name}: {seen}, {reported}");
        }
    }
}
