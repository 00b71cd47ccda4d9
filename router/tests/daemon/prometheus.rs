use std::fs;
use std::net::{TcpStream, UdpSocket};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use evenkeel_tests::skip::{Need, can_run};
use serde_json::Value;

use crate::metrics::exchange;
use crate::support::{Host, Lab, StopWhenDropped, Versions, eventually, pause};

/// Where Prometheus listens in host R, and the router.
const PROMETHEUS: &str = "127.0.0.1:9090";
const ROUTER: &str = "127.0.0.1:9310";

/// Killed when dropped.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_prometheus(lab: &Lab) -> Program {
    let config = lab.directory().join("prometheus.yml");
    let text = format!(
        "global: {{ scrape_interval: 500ms, scrape_timeout: 500ms }}\n\
         scrape_configs:\n  - job_name: evenkeel\n    static_configs: [{{ targets: ['{ROUTER}'] }}]\n"
    );
    fs::write(&config, text).unwrap();
    let option = |name: &str, value: &str| format!("--{name}={value}");
    let data = lab.directory().join("prometheus");
    let mut command = lab.command(Host::R, "prometheus");
    command
        .arg(option("config.file", config.to_str().unwrap()))
        .arg(option("storage.tsdb.path", data.to_str().unwrap()))
        .arg(option("web.listen-address", PROMETHEUS))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Program(command.spawn().unwrap())
}

/// Asks Prometheus for the present value of an expression; `Err` while there is no sensible answer.
fn query(lab: &Lab, expression: &str) -> Result<Vec<Value>, String> {
    let escaped = expression.bytes().map(|byte| format!("%{byte:02X}"));
    let target = format!("/api/v1/query?query={}", escaped.collect::<String>());
    let stream = lab.within(Host::R, || TcpStream::connect(PROMETHEUS));
    let stream = stream.map_err(|error| error.to_string())?;
    // With HTTP/1.0 the answer comes in one piece.
    let answer = exchange(stream, &format!("GET {target} HTTP/1.0\r\n\r\n"));
    let (_, body) = answer.split_once("\r\n\r\n").ok_or(answer.clone())?;
    let document: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
    match document["data"]["result"].as_array() {
        Some(result) => Ok(result.clone()),
        None => Err(body.to_owned()),
    }
}

/// As Grafana does with all routers and links chosen.
fn without_variables(expression: &str) -> String {
    let expression = expression.replace("$__rate_interval", "10s");
    let expression = expression.replace("$router", ".*").replace("$link", ".*");
    assert!(!expression.contains("=~\"$"), "{expression}");
    expression
}

#[test]
#[ignore = "needs Prometheus; .ci/full runs it"]
fn each_query_of_the_dashboard_finds_data_in_a_prometheus_that_watches_a_router() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    if !can_run(&[Need::program("prometheus", "prometheus")]) {
        return;
    }
    lab.ip(Host::R, "link add other type veth peer name its-peer");
    lab.ip(Host::R, "link set its-peer up");
    lab.ip(Host::R, "link set other up");
    lab.set(Host::R, "ipv4/conf/other/rp_filter", "0");
    let router = lab.start(&format!(
        r#"metrics = {ROUTER:?}
        [[links]]
        name = "busy"
        tun = "ek-busy"
        rate_bps = 2e6
        queue_packets = 20
        discipline = "fq-codel"
        stamps = ["aqt", "acp", "rcp", "flows"]
        routes = [{{ to = "10.0.2.0/24", via = "10.0.9.2", dev = "vb" }}]
        [[links]]
        name = "away"
        tun = "ek-away"
        rate_bps = 1e6
        stamps = ["xcp"]
        routes = [{{ to = "10.0.7.0/24", dev = "other" }}]
        "#
    ));
    lab.ip(Host::R, "link set other down");
    let _prometheus = start_prometheus(&lab);
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/grafana/evenkeel-router.json");
    let dashboard = fs::read_to_string(dashboard).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();

    let socket: UdpSocket = lab.udp(Host::A, "10.0.1.1:0");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // More than the link carries, so that there are drops.
            while !stop.load(Ordering::Relaxed) {
                let _ = socket.send_to(&[0; 1000], "10.0.2.1:9");
                thread::park_timeout(Duration::from_millis(2));
            }
        });
        let _stop = StopWhenDropped(&stop);
        let mut count = 0;
        let finds_data = |expression: &str| {
            let mut last = String::new();
            let found = (0..600).find_map(|_| {
                match query(&lab, &without_variables(expression)) {
                    Ok(rows) if rows.iter().any(|row| row["value"][1] != "NaN") => {
                        return Some(rows);
                    }
                    other => last = format!("{other:?}"),
                }
                pause();
                None
            });
            found.unwrap_or_else(|| panic!("{expression}: {last}"))
        };
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                finds_data(target["expr"].as_str().unwrap());
                count += 1;
            }
        }
        assert!(count >= 20, "{count} queries");
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        let queries = variables
            .iter()
            .filter_map(|variable| variable["query"]["query"].as_str());
        let mut names = Vec::new();
        for text in queries {
            let inner = text.strip_prefix("label_values(").unwrap();
            let inner = inner.strip_suffix(')').unwrap();
            let (expression, label) = inner.rsplit_once(", ").unwrap();
            let rows = finds_data(expression);
            names.extend(
                rows.iter()
                    .map(|row| row["metric"][label].as_str().unwrap().to_owned()),
            );
        }
        names.sort();
        assert_eq!(names, ["away", "busy", "r1"]);

        // Prometheus has the figures of the router.
        let rows = finds_data("evenkeel_router_link_degraded_reason_info");
        assert_eq!(rows[0]["metric"]["link"], "away");
        let reason = rows[0]["metric"]["reason"].as_str().unwrap();
        assert!(reason.contains("device \"other\" is down"), "{reason}");
        eventually("the rate is seen", || {
            let rows = query(
                &lab,
                "rate(evenkeel_router_link_forwarded_bytes_total{link='busy'}[5s]) * 8",
            );
            let rate = rows.unwrap_or_default();
            let rate = rate.first().and_then(|row| row["value"][1].as_str());
            let rate: f64 = rate.and_then(|rate| rate.parse().ok()).unwrap_or(0.0);
            (0.5e6..2.2e6).contains(&rate)
        });
    });
    drop(router);
}
