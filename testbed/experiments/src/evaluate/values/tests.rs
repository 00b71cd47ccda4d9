use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::spec::metric::MetricFile;

fn values(path: &str) -> Result<Vec<f64>, String> {
    let document = json!({
        "links": [
            { "name": "one", "queue": { "mean": 1.0 } },
            { "name": "one.reverse", "queue": { "mean": 2.0 } },
        ],
        "flows": [{ "name": "user-0", "cov": 3.0 }, { "name": "user-1", "cov": 4.0 }, { "name": "other", "cov": 5.0 }],
        "totals": { "cov": 6.0 },
    });
    let found = Path::new(path)?.find(&document)?;
    Ok(found
        .iter()
        .filter_map(|(_, value)| value.as_f64())
        .collect())
}

#[test]
fn a_path_names_a_flow_a_link_or_the_whole() {
    assert_eq!(values("links.one.queue.mean"), Ok(vec![1.0]));
    assert_eq!(values("links.one.reverse.queue.mean"), Ok(vec![2.0]));
    assert_eq!(values("flows.user-*.cov"), Ok(vec![3.0, 4.0]));
    assert_eq!(values("flows.*.cov"), Ok(vec![3.0, 4.0, 5.0]));
    assert_eq!(values("flows.*er*.cov"), Ok(vec![3.0, 4.0, 5.0]));
    assert_eq!(values("flows.u*r-*1.cov"), Ok(vec![4.0]));
    assert_eq!(values("totals.cov"), Ok(vec![6.0]));
}

#[test]
fn a_path_that_leads_nowhere_is_an_error() {
    for path in [
        "links.two.queue.mean",
        "flows.user-*.dov",
        "totals.x",
        "nothing.x",
        "cov",
        "a..b",
    ] {
        assert!(values(path).is_err(), "{path}");
    }
}

fn reduced(reduce: &str, level: Option<f64>, values: &[Option<f64>]) -> Option<f64> {
    let mut file = MetricFile {
        from_s: Some(1.0),
        to_s: Some(4.0),
        reduce: Some(serde_json::from_value(json!(reduce)).unwrap()),
        ..MetricFile::default()
    };
    if level.is_some() {
        file.level = Some("0".into());
    }
    if reduce == "settles" {
        file.band = Some(0.1);
    }
    let series = ReducedSeries::new("flows.f.rate_bps", &file).unwrap();
    let samples = Samples {
        name: "f".into(),
        bin_s: 0.5,
        values: values.to_vec(),
    };
    series.value(&samples, level)
}

#[test]
fn a_series_is_reduced_within_its_window() {
    // Bins of 0.5 s from 0; those from 1 s to 4 s count: 2, none, 4, 4, 6, 4.
    let values =
        [9.0, 9.0, 2.0, f64::NAN, 4.0, 4.0, 6.0, 4.0, 99.0].map(|v| (!v.is_nan()).then_some(v));
    assert_eq!(reduced("sum", None, &values), Some(20.0));
    assert_eq!(reduced("mean", None, &values), Some(4.0));
    assert_eq!(reduced("min", None, &values), Some(2.0));
    assert_eq!(reduced("max", None, &values), Some(6.0));
    assert_eq!(reduced("last", None, &values), Some(4.0));
    // Squares of the distances from 4: 4, 0, 0, 4, 0, over five values.
    assert_eq!(reduced("sd", None, &values), Some(1.6f64.sqrt()));
    assert_eq!(reduced("cov", None, &values), Some(1.6f64.sqrt() / 4.0));
    assert_eq!(reduced("mean", None, &[None; 9]), None);
}

#[test]
fn times_count_from_the_window_s_beginning() {
    let values = [9.0, 9.0, 2.0, 3.0, 4.0, 4.0, 6.0, 4.0, 99.0].map(Some);
    // 4 is reached in the bin that begins at 2 s, and 3 s is the last that is not about 4.
    assert_eq!(reduced("rises", Some(4.0), &values), Some(1.0));
    assert_eq!(reduced("rises", Some(7.0), &values), None);
    assert_eq!(reduced("falls", Some(2.0), &values), Some(0.0));
    assert_eq!(reduced("settles", Some(4.0), &values), Some(2.5));
    assert_eq!(reduced("settles", Some(9.0), &values), None);
    assert_eq!(reduced("settles", Some(4.0), &[Some(4.0); 9]), Some(0.0));
}

#[test]
fn bins_average_neighbours_and_flows_are_taken_together() {
    let record = Record {
        experiment: "p/e".into(),
        group: "main".into(),
        axes: BTreeMap::new(),
        seed: 1,
        build: crate::run::store::Build {
            version: "0".into(),
            executable: "0".into(),
            commit: None,
        },
        command: String::new(),
        result: Value::Null,
        series: json!({
            "interval_s": 0.25,
            "flows": [
                { "name": "a", "window_bytes": [2, 4, null, null] },
                { "name": "b", "window_bytes": [1, 1, 5, 7] },
            ],
        }),
    };
    let read = |across, idle_as_zero| {
        let mut selection = Selection::new("flows.*.window_bytes", across, Some(0.5)).unwrap();
        selection.idle_as_zero = idle_as_zero;
        let all = selection.read(&record).unwrap();
        all.into_iter().map(|one| one.values).collect::<Vec<_>>()
    };
    assert_eq!(
        read(None, false),
        [[Some(3.0), None], [Some(1.0), Some(6.0)]]
    );
    assert_eq!(read(Some(Across::Sum), false), [[Some(4.0), Some(6.0)]]);
    // (3 + 1)^2 / (2 x (9 + 1)), and one user alone, or one of two that is idle.
    assert_eq!(read(Some(Across::Jain), false), [[Some(0.8), Some(1.0)]]);
    assert_eq!(read(Some(Across::Jain), true), [[Some(0.8), Some(0.5)]]);
    assert_eq!(
        read(Some(Across::WorstCase), false),
        [[Some(1.0 / 3.0), Some(1.0)]]
    );
}
