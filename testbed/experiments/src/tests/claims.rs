//! Claims: when they hold, differ, or are not judged.

use serde_json::json;

use super::*;

#[test]
fn a_claim_holds_at_the_median_over_seeds() {
    // Seeds 1 to 3 have 9, 11 and 30: the median is within 10 plus or minus 2, the mean is not.
    let goodputs = [9.0, 11.0, 30.0];
    let document = judged(EXPERIMENT, false, 3, |run| {
        let n: f64 = run.point.axes["n"].parse().unwrap();
        Some(n * goodputs[run.seed as usize - 1])
    });
    let claim = &document.claims[0];
    assert_eq!(claim.verdict, Verdict::Holds);
    assert_eq!(claim.value, json!([11.0, 11.0]), "one for each n");
    assert_eq!(claim.spread, json!([[9.0, 30.0], [9.0, 30.0]]));
    assert_eq!(claim.criterion, "8 to 12");
    let order = "goodput[protocol=reno] < goodput[protocol=smooth]";
    assert_eq!(document.claims[1].criterion, order);
    assert_eq!(
        (&claim.paper_value, &claim.ns2_value),
        (&json!(10.0), &json!(11.0))
    );
}

#[test]
fn a_claim_differs_only_if_the_run_without_the_cause_bears_it_out() {
    let only_n1 = EXPERIMENT.replace(
        "each = [\"n\"]\nat = { protocol = \"reno\" }",
        "at = { protocol = \"reno\", n = 1 }",
    );
    let verdict = |slow: f64| {
        let document = judged(&only_n1, false, 1, |run| {
            Some(if run.point.group == "slow" {
                slow
            } else {
                50.0
            })
        });
        document.claims[0].clone()
    };
    let differs = verdict(10.0);
    assert_eq!(differs.verdict, Verdict::Differs);
    assert_eq!(differs.reason.as_deref(), Some("it is fast"));
    assert_eq!(differs.value_without_cause, json!(10.0));
    assert!(
        differs.commands[0]
            .command
            .contains("--set links.0.delay_ms=50"),
        "{:?}",
        differs.commands
    );

    let unexplained = verdict(50.0);
    assert_eq!(unexplained.verdict, Verdict::DoesNotHold);
    assert!(unexplained.reason.unwrap().starts_with("Not explained"));
}

#[test]
fn a_cause_must_explain_every_point_that_fails() {
    // There is no slow run with n = 2.
    let document = judged(EXPERIMENT, false, 1, |run| {
        Some(if run.point.group == "slow" {
            10.0
        } else {
            50.0
        })
    });
    assert_eq!(document.claims[0].verdict, Verdict::DoesNotHold);
}

#[test]
fn an_order_holds_if_every_value_is_less_than_the_next() {
    let order = |reno: f64, smooth: f64| {
        let document = judged(EXPERIMENT, false, 1, |run| {
            Some(if run.point.axes["protocol"] == "reno" {
                reno
            } else {
                smooth
            })
        });
        document.claims[1].clone()
    };
    assert_eq!(order(1.0, 2.0).verdict, Verdict::Holds);
    assert_eq!(order(1.0, 2.0).value, json!([1.0, 2.0]));
    assert_eq!(order(2.0, 2.0).verdict, Verdict::DoesNotHold);
    assert_eq!(order(3.0, 2.0).reason.as_deref(), Some("who knows"));
}

#[test]
fn a_claim_whose_runs_were_not_made_is_not_judged() {
    let document = judged(EXPERIMENT, false, 2, |run| {
        let absent = run.seed == 2 && run.point.axes["n"] == "2";
        (!absent).then_some(10.0)
    });
    let words: Vec<_> = document
        .not_run
        .iter()
        .map(|row| row.claim.as_str())
        .collect();
    assert_eq!(
        words,
        ["much"],
        "n = 2 lacks a seed; the other claim needs n = 1 only"
    );
    assert_eq!(document.runs[0].missing, 2);
    // The quick runs have n = 1 alone, and that is all that is asked of the claim then.
    let quick = judged(EXPERIMENT, true, 1, |_| Some(10.0));
    assert_eq!(quick.claims[0].value, json!(10.0));
    assert!(quick.not_run.is_empty());
}

#[test]
fn values_are_compared_though_one_has_more_seeds_than_the_other() {
    let seeds = "seeds = 3\nseeds_at = { protocol = [\"smooth\"] }\nquick =";
    let text = EXPERIMENT.replacen("quick =", seeds, 1);
    let (directory, path) = papers(&text);
    let experiment = Experiment::load(&path).unwrap();
    let plan = Plan {
        seeds: None,
        ..plan(false, 1)
    };
    let store = Store::new(&directory.path().join("out"));
    for run in experiment.runs(plan.extent(), plan.seeds).unwrap() {
        // Smooth has less than Reno with seed 1, and more with the others.
        let smooth = run.point.axes["protocol"] == "smooth";
        let goodput = if smooth { 5.0 * run.seed as f64 } else { 9.0 };
        store
            .keep(&run, &plan, &record(&run, &plan, goodput))
            .unwrap();
    }
    store
        .begin(&plan, directory.path(), &experiment.files())
        .unwrap();
    let report = Report::new(&[store.directory().to_owned()], "c").unwrap();
    let document = report.document();
    let more = &document.claims[1];
    assert_eq!(more.value, json!([9.0, 10.0]));
    assert_eq!(more.spread, json!([[9.0, 9.0], [5.0, 15.0]]));
    assert_eq!(more.verdict, Verdict::Holds);
    assert_eq!(document.runs[0].seeds, 3);
}
