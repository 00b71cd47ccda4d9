//! Tests of comparisons.

use super::*;

#[test]
fn a_comparison_ranks_and_shows_the_compared_flows_and_sums_up_the_others() {
    let scenario = scenario();
    // The compared flow `a` of `starved` has little, and its neighbour so much that all together
    // are the smoothest and the fastest.
    let run = |controller: &str, a: &[u64], b: &[u64]| {
        let mut observations = observations();
        observations.flows[0].delivered = a.to_vec();
        observations.flows[0].app_delivered = a.to_vec();
        observations.flows[1].start = Duration::ZERO;
        observations.flows[1].error = None;
        observations.flows[1].delivered = b.to_vec();
        observations.flows[1].app_delivered = b.to_vec();
        observations.flows[1].sent_packets = 100;
        let document = ResultDocument::new(&scenario, "sim", &observations);
        (controller.to_owned(), 1, document, observations)
    };
    let runs = [
        run("starved", &[0, 0, 10, 30, 10, 30], &[0, 0, 900, 900, 900, 900]),
        run("smooth", &[0, 0, 100, 100, 100, 100], &[0, 0, 100, 300, 100, 300]),
    ];
    let directory = tempfile::tempdir().unwrap();
    let compare = |flows: &[&str]| {
        let flows: Vec<_> = flows.iter().map(ToString::to_string).collect();
        write_comparison(directory.path(), &scenario, &flows, &runs, COMMAND).unwrap()
    };
    let compared = compare(&["a"]);
    let figures = |run: &ComparedRun| {
        let figures = &run.median;
        (figures.goodput_bps, figures.cov, figures.others_goodput_bps)
    };
    assert_eq!(compared.runs[0].controller, "smooth");
    assert_eq!(figures(&compared.runs[0]), (1600, Some(0.0), Some(3200)));
    assert_eq!(figures(&compared.runs[1]), (320, Some(0.5), Some(14_400)));
    // Lost 1 of its own 3 packets, not of 103.
    assert_eq!(compared.runs[0].median.retransmitted_ratio, Some(0.333333));
    assert_eq!(compared.flows, ["a"]);
    let text = comparison_table(&compared);
    assert!(text.contains("others") && text.contains("smoothest: smooth"), "{text}");
    let all = compare(&["a", "b"]);
    assert_eq!(figures(&all.runs[0]), (14_720, Some(0.25), None));
}

#[test]
fn the_median_over_two_seeds_is_the_mean_of_both() {
    let scenario = scenario();
    let run = |seed: u64, bytes: u64| {
        let mut observations = observations();
        observations.flows[0].app_delivered = vec![0, 0, bytes, bytes, 0, 0];
        let document = ResultDocument::new(&scenario, "sim", &observations);
        ("reno".to_owned(), seed, document, observations)
    };
    let directory = tempfile::tempdir().unwrap();
    let runs = [run(1, 100), run(2, 300)];
    let compared = write_comparison(directory.path(), &scenario, &["a".into()], &runs, COMMAND).unwrap();
    let of = |figures: &ComparedFigures| figures.goodput_bps;
    let [run] = &compared.runs[..] else {
        panic!("{compared:?}")
    };
    let spread = [run.least.as_ref(), Some(&run.median), run.greatest.as_ref()];
    assert_eq!(spread.map(|figures| of(figures.unwrap())), [800, 1600, 2400]);
}
