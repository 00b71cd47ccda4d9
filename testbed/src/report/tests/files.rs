//! Tests of the files that a run leaves.

use super::*;

#[test]
fn writing_twice_gives_the_same_bytes_and_well_formed_plots() {
    let [first, second] = [(), ()].map(|()| tempfile::tempdir().unwrap());
    let described = builder().set("description", "A <small> network");
    let scenario = described.build().unwrap();
    for directory in [&first, &second] {
        write(directory.path(), &scenario, "sim", &observations(), COMMAND).unwrap();
    }
    for name in [
        "result.html",
        "result.json",
        "series.json",
        "flows.csv",
        "links.csv",
        "series.csv",
        "rate.svg",
        "window.svg",
        "queue.svg",
    ] {
        let bytes = std::fs::read(first.path().join(name)).unwrap();
        assert!(!bytes.is_empty(), "{name}");
        assert_eq!(
            bytes,
            std::fs::read(second.path().join(name)).unwrap(),
            "{name}"
        );
    }
    let page = std::fs::read_to_string(first.path().join("result.html")).unwrap();
    for words in [
        "A &lt;small&gt; network",
        "run 'small &amp; big.toml' --seed 1",
        "warmup_s = 1.0",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
    let error = write(
        &first.path().join("none"),
        &scenario,
        "sim",
        &observations(),
        COMMAND,
    )
    .unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("cannot write ") && error.contains("series.json"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn csv_files_hold_what_the_json_files_hold() {
    let directory = tempfile::tempdir().unwrap();
    write(
        directory.path(),
        &scenario(),
        "sim",
        &observations(),
        COMMAND,
    )
    .unwrap();
    let rows = |name: &str| {
        let text = std::fs::read_to_string(directory.path().join(name)).unwrap();
        let lines = text.lines().map(str::to_owned);
        lines.collect::<Vec<_>>()
    };
    let column = |rows: &[String], name: &str| {
        let columns: Vec<_> = rows[0].split(',').collect();
        let at = columns.iter().position(|column| *column == name).unwrap();
        let value = rows[2].split(',').nth(at).unwrap();
        value.to_owned()
    };
    let flows = rows("flows.csv");
    assert!(flows[0].starts_with("name,controller,"), "{flows:?}");
    assert_eq!(
        (flows.len(), column(&flows, "throughput_bps")),
        (3, "800".into())
    );
    assert_eq!(column(&flows, "rtt_ms.p50"), "");
    let links = rows("links.csv");
    assert!(
        links[0].contains("queue_packets.mean") && links[1].contains("1.235"),
        "{links:?}"
    );
    let series = rows("series.csv");
    assert_eq!(series[0], "time_s,kind,name,quantity,value");
    for row in [
        "0.5,flow,a,window_bytes,2400",
        "1,flow,a,rate_bps,4800",
        "2.5,link,bottleneck,queue_packets,5",
        "0,link,bottleneck,stamps.acp.users,10.0",
    ] {
        assert!(series.iter().any(|line| line == row), "{row} in {series:?}");
    }
    assert!(
        !series
            .iter()
            .any(|line| line.starts_with("0.5,link,bottleneck,stamps"))
    );
}

#[test]
fn plots_are_well_formed_and_name_what_they_show() {
    let mut crowd = observations();
    let template = crowd.flows[0].clone();
    crowd.flows = vec![template; 25];
    for observations in [observations(), crowd, Observations::default()] {
        for (name, picture) in plot::all(&scenario(), &observations) {
            let svg = picture.file();
            let document =
                roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
            let texts: Vec<&str> = document
                .descendants()
                .filter_map(|node| node.text())
                .map(str::trim)
                .collect();
            assert!(
                texts
                    .iter()
                    .any(|text| text.contains("small, vegas:alpha=<1&\"2\">, reno, seed 1")),
                "{texts:?}"
            );
            let has = |text: &str| texts.contains(&text);
            assert!(has("seconds") || name == "rtt-cdf.svg", "{texts:?}");
            match (name, observations.flows.len()) {
                ("rate.svg", 2) => {
                    assert!(
                        has("a") && has("b") && has("capacity of bottleneck"),
                        "{texts:?}"
                    );
                }
                ("rtt-cdf.svg", 2) => assert!(has("milliseconds") && has("a") && !has("b")),
                ("rate.svg", 25) => assert!(has("a: mean of 25")),
                ("queue.svg", 2) => assert!(has("bottleneck")),
                _ => {}
            }
        }
    }
}
