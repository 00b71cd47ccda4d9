//! Tests of comparisons.

use super::*;

/// A run that has left its results in a directory of its own below `directory`.
pub(super) fn left(
    directory: &Path,
    controller: &str,
    seed: u64,
    observations: &Observations,
) -> SeededRun {
    let at = directory.join(format!("{controller}-{seed}"));
    fs::create_dir_all(&at).unwrap();
    let scenario = builder().seed(seed as i64).build().unwrap();
    write(&at, &scenario, "sim", observations, COMMAND).unwrap();
    SeededRun {
        controller: controller.to_owned(),
        value: None,
        seed,
        directory: at,
    }
}

/// A comparison of these flows.
pub(super) fn compared(directory: &Path, flows: &[&str], runs: &[SeededRun]) -> ComparisonDocument {
    let flows: Vec<_> = flows.iter().map(ToString::to_string).collect();
    let what = Compared {
        scenario: &scenario(),
        flows: &flows,
        swept: None,
        command: COMMAND,
    };
    write_comparison(directory, what, runs).unwrap()
}

/// [`observations`] of flows that both run from the beginning, with these bytes in each interval.
fn of_bytes(a: &[u64], b: &[u64]) -> Observations {
    let mut observations = observations();
    for (flow, bytes) in observations.flows.iter_mut().zip([a, b]) {
        (flow.start, flow.error) = (Duration::ZERO, None);
        (flow.delivered, flow.app_delivered) = (bytes.to_vec(), bytes.to_vec());
    }
    observations.flows[1].sent_packets = 100;
    observations
}

#[test]
fn a_controller_that_delivers_nothing_is_not_the_smoothest() {
    let directory = tempfile::tempdir().unwrap();
    let observations = of_bytes(&[0; 6], &[100; 6]);
    let silent = left(directory.path(), "silent", 1, &observations);
    let text = comparison_table(&compared(directory.path(), &["a"], &[silent]));
    assert!(text.contains("smoothest: none\n"), "{text}");
}

#[test]
fn a_comparison_ranks_and_shows_the_compared_flows_and_sums_up_the_others() {
    let directory = tempfile::tempdir().unwrap();
    // The compared flow `a` of `starved` has little, and its neighbour so much that all together
    // are the smoothest and the fastest.
    let starved = of_bytes(&[0, 0, 10, 30, 10, 30], &[0, 0, 900, 900, 900, 900]);
    let smooth = of_bytes(&[0, 0, 100, 100, 100, 100], &[0, 0, 100, 300, 100, 300]);
    let runs = [("starved", starved), ("smooth", smooth)];
    let runs = runs.map(|(name, observations)| left(directory.path(), name, 1, &observations));
    let compared = |flows: &[&str]| compared(directory.path(), flows, &runs);
    let figures = |run: &ComparedRun| {
        let figures = &run.median;
        (figures.goodput_bps, figures.cov, figures.others_goodput_bps)
    };
    let of_a = compared(&["a"]);
    assert_eq!(of_a.runs[0].controller, "smooth");
    assert_eq!(figures(&of_a.runs[0]), (1600, Some(0.0), Some(3200)));
    assert_eq!(figures(&of_a.runs[1]), (320, Some(0.5), Some(14_400)));
    // Lost 1 of its own 3 packets, not of 103.
    assert_eq!(of_a.runs[0].median.retransmitted_ratio, Some(0.333333));
    assert_eq!(of_a.flows, ["a"]);
    let text = comparison_table(&of_a);
    assert!(
        text.contains("others") && text.contains("smoothest: smooth"),
        "{text}"
    );
    let rows = fs::read_to_string(directory.path().join("comparison.csv")).unwrap();
    assert!(
        rows.starts_with("controller,seed,cov,goodput_bps,others_goodput_bps"),
        "{rows}"
    );
    assert!(rows.contains("\r\nsmooth,1,0.0,1600,3200,"), "{rows}");
    assert_eq!(
        figures(&compared(&["a", "b"]).runs[0]),
        (14_720, Some(0.25), None)
    );
}

#[test]
fn the_smoothest_is_the_one_whose_mean_the_table_shows_as_the_least() {
    let directory = tempfile::tempdir().unwrap();
    // Even with two seeds of three, and uneven with the third; a little uneven with all.
    let moody = [100, 100, 900].map(|bytes| of_bytes(&[0, 0, 100, bytes, 100, bytes], &[0; 6]));
    let steady = [120; 3].map(|bytes| of_bytes(&[0, 0, 100, bytes, 100, bytes], &[0; 6]));
    let runs = [("moody", moody), ("steady", steady)].map(|(name, of_seeds)| {
        let of_seeds = of_seeds.iter().zip(1..);
        of_seeds
            .map(|(run, seed)| left(directory.path(), name, seed, run))
            .collect::<Vec<_>>()
    });
    let document = compared(directory.path(), &["a"], &runs.concat());
    assert_eq!(document.runs[0].controller, "steady");
    let text = comparison_table(&document);
    assert!(text.contains("smoothest: steady"), "{text}");
}

#[test]
fn two_seeds_have_the_mean_of_both_as_median_and_students_interval_around_it() {
    let directory = tempfile::tempdir().unwrap();
    let runs = [(1, 100), (2, 300)].map(|(seed, bytes)| {
        let observations = of_bytes(&[0, 0, bytes, bytes, 0, 0], &[0; 6]);
        left(directory.path(), "reno", seed, &observations)
    });
    let document = compared(directory.path(), &["a"], &runs);
    let [run] = &document.runs[..] else {
        panic!("{document:?}")
    };
    let seeds = run.seeds.as_ref().unwrap();
    let all = [
        &seeds.least,
        &run.median,
        &seeds.mean,
        &seeds.greatest,
        &seeds.ci95,
    ];
    // s = 800 sqrt(2), so that the interval is 12.706 x 800 wide to either side.
    let goodputs = all.map(|figures| figures.goodput_bps);
    assert_eq!(goodputs, [800, 1600, 1600, 2400, 10_165]);
    let text = comparison_table(&document);
    assert!(
        text.contains("seeds 1 to 2") && text.contains("0.002 +-0.010"),
        "{text}"
    );
}

#[test]
fn a_swept_key_has_rows_by_value_and_plots_over_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut runs = Vec::new();
    for (value, bytes) in [("0", 300), ("0.02", 100)] {
        for controller in ["reno", "vegas"] {
            let observations = of_bytes(&[0, 0, bytes, bytes, 0, 0], &[0; 6]);
            let place = directory.path().join(value);
            let mut run = left(&place, controller, 1, &observations);
            run.value = Some(value.to_owned());
            runs.push(run);
        }
    }
    let what = Compared {
        scenario: &scenario(),
        flows: &["a".to_owned()],
        swept: Some("links.0.loss"),
        command: COMMAND,
    };
    let document = write_comparison(directory.path(), what, &runs).unwrap();
    let rows = document.runs.iter();
    let rows: Vec<_> = rows
        .map(|run| (run.value.as_deref(), run.median.goodput_bps))
        .collect();
    let expected = [("0", 2400), ("0", 2400), ("0.02", 800), ("0.02", 800)];
    assert_eq!(rows, expected.map(|(value, bps)| (Some(value), bps)));
    let text = comparison_table(&document);
    assert!(
        text.contains("values of links.0.loss") && text.contains("reno at 0.02"),
        "{text}"
    );
    let svg = fs::read_to_string(directory.path().join("sweep-goodput.svg")).unwrap();
    let svg = roxmltree::Document::parse(&svg).unwrap();
    let texts: Vec<_> = svg.descendants().filter_map(|node| node.text()).collect();
    for words in ["links.0.loss", "reno", "vegas", "Mb/s"] {
        assert!(texts.contains(&words), "{words} in {texts:?}");
    }
    let csv = fs::read_to_string(directory.path().join("comparison.csv")).unwrap();
    assert!(csv.starts_with("controller,links.0.loss,seed,"), "{csv}");
}

#[test]
fn a_run_is_kept_if_it_is_of_the_very_scenario_backend_and_version() {
    let directory = tempfile::tempdir().unwrap();
    let run = left(directory.path(), "reno", 4, &observations());
    let with_seed = |seed| builder().seed(seed).build().unwrap();
    assert!(is_kept(&run.directory, &with_seed(4), "sim"));
    assert!(!is_kept(&run.directory, &with_seed(5), "sim"));
    assert!(!is_kept(&run.directory, &with_seed(4), "netns"));
    assert!(!is_kept(directory.path(), &with_seed(4), "sim"));
    let series = run.directory.join("series.json");
    let whole = fs::read_to_string(&series).unwrap();
    for damaged in ["", "{}", "{\"flows\": []}"] {
        fs::write(&series, damaged).unwrap();
        assert!(!is_kept(&run.directory, &with_seed(4), "sim"), "{damaged}");
    }
    fs::write(&series, whole).unwrap();
    assert!(is_kept(&run.directory, &with_seed(4), "sim"));
    fs::remove_file(run.directory.join("series.csv")).unwrap();
    assert!(!is_kept(&run.directory, &with_seed(4), "sim"));
}
