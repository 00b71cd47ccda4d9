//! Mistakes in experiments and results: one line each.

use proptest::prelude::*;

use super::*;

#[test]
fn results_that_lack_what_an_experiment_reads_are_an_error_and_no_verdict() {
    let text = EXPERIMENT.replace("totals.goodput_bps", "totals.badput_bps");
    let (directory, path) = papers(&text);
    let experiment = Experiment::load(&path).unwrap();
    let plan = plan(true, 1);
    let store = Store::new(&directory.path().join("out"));
    for run in experiment.runs(Extent::Quick, Some(1)).unwrap() {
        store.keep(&run, &plan, &record(&run, &plan, 1.0)).unwrap();
    }
    store
        .begin(&plan, directory.path(), &experiment.files())
        .unwrap();
    let error = Report::new(&[store.directory().to_owned()], "c").unwrap_err();
    assert_eq!(
        error.to_string(),
        "paper/e: metric goodput: the results have no totals.badput_bps"
    );
}

#[test]
fn a_mistake_in_an_experiment_is_one_line_that_names_it() {
    let cases = [
        (
            "title = \"t\"",
            "titel = \"t\"",
            "line 1: unknown field `titel`",
        ),
        ("figure = \"Fig. 1\"\ntitle", "figure = 1\ntitle", "line"),
        ("$(n)\"", "$(m)\"", "no number of an axis"),
        (
            "quick = { n = [1] }",
            "quick = { n = [3] }",
            "n has no value 3 here; it has 1, 2",
        ),
        (
            "[[claims]]",
            "[kernel]\nmetrics = [\"badput\"]\n[[claims]]",
            "kernel.metrics: there is no metric badput",
        ),
        (
            "[[claims]]",
            "[kernel]\nmetrics = [\"goodput\"]\n[[claims]]",
            "kernel points of [[runs]] and kernel.metrics need each other",
        ),
        (
            "protocol=smooth]\"]",
            "protocol=smoth]\"]",
            "protocol has no value smoth; it has reno, smooth",
        ),
        (
            "share.formula = \"goodput",
            "share.formula = \"share",
            "metric share needs itself",
        ),
        (
            "y = \"goodput\"",
            "y = \"badput\"",
            "there is no metric or axis badput",
        ),
        (
            "within = 2",
            "",
            "it needs a number of the paper with tolerance or within",
        ),
        (
            "paper.reno = [1, nan]",
            "paper.reno = [1]",
            "one for each of the 2 values of n",
        ),
        (
            "at = { n = 1 }\norder",
            "order",
            "no [[runs]] have the points",
        ),
        (
            "reduce = \"rises\"\nlevel = \"1\"",
            "reduce = \"mean\"\nlevel = \"1\"",
            "level goes with",
        ),
        (
            "reduce = \"rises\"\nlevel = \"1\"",
            "reduce = \"sum\"",
            "remove bin_s",
        ),
        ("name = \"slow\"\n", "", "two [[runs]] are called \"main\""),
    ];
    for (right, wrong, message) in cases {
        assert!(EXPERIMENT.contains(right), "{right}");
        let error = refused(&EXPERIMENT.replacen(right, wrong, 1));
        assert!(error.contains(message), "{message:?} in {error}");
    }
}

#[test]
fn an_unknown_pattern_is_answered_with_the_experiments_there_are() {
    let (directory, _path) = papers(EXPERIMENT);
    let error = find(directory.path(), Some("nothing"))
        .unwrap_err()
        .to_string();
    assert!(error.ends_with("there are paper/e"), "{error}");
    let error = find(&directory.path().join("absent"), None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("--papers"), "{error}");
}

/// Pieces of experiment files, so that random documents come near to real ones.
fn piece() -> impl Strategy<Value = String> {
    let mut words: Vec<String> = EXPERIMENT
        .split_inclusive([' ', '\n', '"', '=', '.', ',', '[', ']', '{', '}'])
        .map(str::to_owned)
        .collect();
    words.sort();
    words.dedup();
    prop::sample::select(words)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_is_an_experiment_or_an_error_of_one_line(
        pieces in prop::collection::vec(piece(), 0..8),
        line in 0..EXPERIMENT.lines().count(),
        replace in any::<bool>(),
    ) {
        // A file with a line put in, or replaced.
        let mut lines: Vec<String> = EXPERIMENT.lines().map(str::to_owned).collect();
        let odd = pieces.concat();
        if replace {
            lines[line] = odd;
        } else {
            lines.insert(line, odd);
        }
        let parsed = Experiment::parse(&lines.join("\n"), Path::new("papers/paper/e.toml"));
        if let Err(error) = parsed {
            let message = error.to_string();
            prop_assert_eq!(message.lines().count(), 1, "{}", message);
        }
    }
}
