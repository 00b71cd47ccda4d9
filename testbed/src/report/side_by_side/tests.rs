use super::*;

fn result(flows: &str) -> String {
    format!(
        "{{\"scenario\": \"one\", \"seed\": 7, \"flows\": [{flows}], \"links\": [{{\"name\": \"l\", \
         \"emulator\": \"netem\", \"utilization\": 0.5, \"queue_packets\": {{\"mean\": 2.25, \"sd\": 1.0, \"p95\": 4, \"max\": 5}}, \"dropped\": 3}}]}}"
    )
}

fn flow(throughput: &str, error: &str) -> String {
    format!(
        "{{\"name\": \"f<\", \"throughput_bps\": {throughput}, \"rtt_ms\": {{\"min\": 39.0, \"p50\": 40.0, \"p95\": 50.0, \"p99\": 51.0}}, \
         \"lost_packets\": 2, \"error\": {error}}}"
    )
}

fn written(results: &[(&str, String)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (backend, result) in results {
        let place = directory.path().join(backend);
        fs::create_dir(&place).expect("it is new");
        fs::write(place.join("result.json"), result).expect("it can be written");
    }
    directory
}

#[test]
fn each_backend_differs_from_the_first_by_a_share_of_its_throughput() {
    let directory = written(&[
        ("sim", result(&flow("4000000", "null"))),
        ("netns", result(&flow("3900000", "null"))),
        ("uml", result(&flow("null", "\"timed out\""))),
    ]);
    let read = SideBySide::read(directory.path(), &["sim", "netns", "uml"]).expect("all are there");
    let differences: Vec<_> = read
        .backends
        .iter()
        .map(|one| one.flows[0].difference)
        .collect();
    assert_eq!(differences, [Some(0.0), Some(-0.025), None]);
    assert_eq!(read.backends[1].difference, Some(-0.025));
    let table = read.table();
    assert!(
        table.contains("-2.5") && table.contains("failed: timed out"),
        "{table}"
    );
    fs::write(directory.path().join("sim/rate.svg"), "<svg>rates</svg>").expect("writable");
    let link = crate::scenario::LinkBuilder::between("l", "a", "b");
    let flow = crate::scenario::FlowBuilder::bulk("f", "reno").between("a", "b");
    let scenario = Scenario::builder("one", std::time::Duration::from_secs(1));
    let scenario = scenario.link(link).flow(flow).build().expect("it is one");
    let write = read.write(directory.path(), &scenario, "evenkeel-testbed run <one>");
    write.expect("writable");
    let page = fs::read_to_string(directory.path().join("backends.html")).expect("it was written");
    assert!(
        page.contains("f&lt;")
            && page.contains("run &lt;one&gt;")
            && page.contains("<svg>rates</svg>"),
        "{page}"
    );
    let json = fs::read_to_string(directory.path().join("backends.json")).expect("it was written");
    assert!(json.contains("\"reference\": \"sim\""), "{json}");
}

#[test]
fn a_result_that_is_missing_or_none_is_named() {
    let directory = written(&[("sim", "{}".into())]);
    for backend in ["sim", "netns"] {
        let error = SideBySide::read(directory.path(), &[backend]).expect_err("no result");
        let error = error.to_string();
        assert!(error.contains(&format!("{backend}/result.json")), "{error}");
    }
}
