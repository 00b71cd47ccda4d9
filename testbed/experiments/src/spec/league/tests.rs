//! The league's cases as users see them.

use super::*;

const GROUP: &str = r#"
title = "Clean"
about = "One flow."
aims = { share = 0.9 }
[scenario]
duration_s = 2
topology = "dumbbell"
links = [{ name = "bottleneck", rate_bps = 1_000_000, delay_ms = 5 }]
flows = [{ name = "own", app = "bulk", controller = "measured" }]
[[cases]]
name = "slow"
models = "m"
source = "s"
good = "g"
[[cases]]
name = "beside"
models = "m"
source = "s"
good = "g"
scenario.links = [{ rate_bps = 2_000_000 }]
scenario.flows = [{}, { name = "other", app = "bulk", controller = "cubic" }]
[[cases]]
name = "itself"
models = "m"
source = "s"
good = "g"
scenario.flows = [{}, { name = "other", app = "bulk", controller = "same" }]
"#;

#[test]
fn tuning_dear_networks_and_real_neighbours_count_only_if_somebody_asks_for_them() {
    let groups = |patterns: &[&str]| {
        let patterns: Vec<_> = patterns.iter().map(ToString::to_string).collect();
        let groups = league(&patterns).expect("the files are right");
        groups
            .into_iter()
            .map(|group| group.name)
            .collect::<Vec<_>>()
    };
    for group in ASKED_FOR {
        assert!(!groups(&[]).contains(&group.to_owned()));
        assert!(!groups(&["t"]).contains(&group.to_owned()));
    }
    assert_eq!(groups(&["tuning/cubic"]), [TUNING]);
    assert_eq!(groups(&["fast/quarter"]), [FAST]);
    assert_eq!(groups(&["neighbours"]), [NEIGHBOURS]);
}

#[test]
fn real_neighbours_are_the_kernels_tcp_and_none_of_our_controllers() {
    let groups = league(&["neighbours".into()]).expect("the file is right");
    let cases = &groups[0].cases;
    assert_eq!(cases.len(), 3 * 3 * 2, "controllers, queues, one or three");
    for case in cases {
        assert!(case.opponents.is_empty(), "{}", case.id);
        let runs = case.runs(&["keel".into()], 1, &evenkeel_testbed::controllers());
        let runs = runs.unwrap_or_else(|error| panic!("{error}"));
        assert!(runs[0].scenario.needs_kernel(), "{}", case.id);
    }
}

#[test]
fn a_case_lies_over_its_group_and_measured_flows_take_the_controller() {
    let group = group("clean", GROUP).unwrap_or_else(|error| panic!("{error}"));
    let [slow, beside, itself] = &group.cases[..] else {
        panic!("three cases");
    };
    let controllers = evenkeel_testbed::controllers();
    let names = ["vegas:alpha=2,beta=4".to_owned()];
    let run = &slow.runs(&names, 2, &controllers).unwrap()[1];
    assert_eq!(run.scenario.flows[0].controller, names[0]);
    assert_eq!((run.seed, run.scenario.seed), (2, 2));
    assert_eq!(
        run.command("sim"),
        "evenkeel-testbed run cases/clean-slow.toml \
         --set flows.0.controller=vegas:alpha=2,beta=4 --seed 2"
    );
    assert_eq!(
        slow.command("netns"),
        "evenkeel-testbed run cases/clean-slow.toml --on netns \
         --set flows.0.controller=CONTROLLER --seed SEED"
    );
    let run = &itself.runs(&names, 1, &controllers).unwrap()[0];
    assert_eq!(run.scenario.flows[1].controller, names[0]);
    assert_eq!(itself.measured, ["own"]);
    assert!(itself.opponents.is_empty());
    let run = &beside.runs(&names, 1, &controllers).unwrap()[0];
    assert_eq!(beside.measured, ["own"]);
    assert_eq!(beside.opponents, ["cubic"]);
    assert_eq!(run.scenario.flows[1].controller, "cubic");
    assert_eq!(run.scenario.links[0].description.delay().as_millis(), 5);
    assert_eq!(beside.file.links, ["bottleneck"]);
}

#[test]
fn a_chaotic_case_has_three_seeds_in_a_quick_league() {
    let text = GROUP.replacen("good = \"g\"", "good = \"g\"\nchaotic = true", 1);
    let group = group("clean", &text).unwrap_or_else(|error| panic!("{error}"));
    let [slow, beside, ..] = &group.cases[..] else {
        panic!("two cases and more");
    };
    assert_eq!((slow.seeds(1, true), slow.seeds(5, false)), (3, 5));
    assert_eq!((beside.seeds(1, true), beside.has_others()), (1, true));
}

#[test]
fn every_case_of_the_program_runs_and_has_a_name_of_its_own() {
    let mut groups = league(&[]).unwrap_or_else(|error| panic!("{error}"));
    groups.extend(
        ASKED_FOR
            .iter()
            .flat_map(|name| league(&[(*name).to_owned()]).unwrap()),
    );
    let cases = groups.iter().flat_map(|group| &group.cases);
    let mut ids = std::collections::BTreeSet::new();
    for case in cases {
        let runs = case.runs(&["ro-vegas".into()], 1, &evenkeel_testbed::controllers());
        let runs = runs.unwrap_or_else(|error| panic!("{error}"));
        let links = &runs[0].scenario.links;
        for name in &case.file.links {
            assert!(
                links.iter().any(|link| link.name == *name),
                "{}: {name}",
                case.id
            );
        }
        assert!(ids.insert(&case.id), "{} is there twice", case.id);
    }
    assert!(ids.len() > 9, "{ids:?}");
    let one = league(&["start/1-MB".into()]).unwrap();
    assert_eq!(one[0].cases.len(), 1);
    let error = league(&["moon".into()]).expect_err("no such case");
    assert!(
        error.to_string().contains("no case has \"moon\""),
        "{error}"
    );
}

#[test]
fn a_thousand_random_networks_run_and_each_is_the_same_again() {
    let controllers = evenkeel_testbed::controllers();
    let group = random(1..=1000).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(group.cases.len(), 1000);
    for case in &group.cases {
        let runs = case.runs(&["keel".into()], 1, &controllers);
        runs.unwrap_or_else(|error| panic!("{error}"));
    }
    let alone = league(&["random/17".into()]).unwrap();
    assert_eq!(alone[0].cases, [group.cases[16].clone()]);
    let ids = ["random/3".to_owned(), "random/1000".to_owned()];
    assert_eq!(exactly(&ids).unwrap()[0].cases[1], group.cases[999]);
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let refused = |from: &str, to: &str, words: &str| {
        let error = group("clean", &GROUP.replace(from, to)).expect_err("no sense");
        let error = error.to_string();
        assert!(error.contains(words), "{words:?} in {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    refused("share = 0.9", "shares = 0.9", "unknown variant `shares`");
    refused("share = 0.9", "", "it needs aims");
    refused("\"measured\"", "\"reno\"", "no flow is measured");
    let group = group("clean", GROUP).unwrap();
    let unknown = ["tahoe".to_owned()];
    let runs = group.cases[0].runs(&unknown, 1, &evenkeel_testbed::controllers());
    let error = runs.expect_err("no such controller").to_string();
    assert!(error.starts_with("case clean/slow: "), "{error}");
}
