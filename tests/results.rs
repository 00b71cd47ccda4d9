//! `docs/results` and `docs/league` belong to a release: not every change makes them again, but
//! what they say must agree with itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// Half of the last of three digits, twice: of a score and of what it is computed from.
const ROUNDING: f64 = 0.001;

/// The group of the cases in which flows of other controllers take part.
const COEXISTENCE: &str = "coexistence";

fn document(name: &str) -> (Value, String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    let read =
        |ending| fs::read_to_string(path.with_extension(ending)).expect("a readable document");
    let json = serde_json::from_str(&read("json")).expect("JSON");
    (json, read("html"))
}

fn rows<'v>(document: &'v Value, list: &str) -> &'v [Value] {
    document[list].as_array().expect("a list")
}

fn text<'v>(row: &'v Value, field: &str) -> &'v str {
    row[field].as_str().expect("a text")
}

/// Least, median and greatest over the seeds.
fn over_seeds(value: &Value) -> [f64; 3] {
    let all = value.as_array().expect("[median, least, greatest]");
    let at = |index: usize| {
        all.get(index)
            .unwrap_or(&all[0])
            .as_f64()
            .expect("a number")
    };
    [at(1), at(0), at(2)]
}

/// Checks that a median over the seeds and its ends are what `parts` allow, of which they are the
/// mean in each seed.
fn is_mean(what: &str, [least, median, greatest]: [f64; 3], parts: &[[f64; 3]]) {
    assert!(!parts.is_empty(), "{what} has no parts");
    let mean = |end: usize| parts.iter().map(|part| part[end]).sum::<f64>() / parts.len() as f64;
    assert!(
        mean(0) - ROUNDING <= least
            && least <= median
            && median <= greatest
            && greatest <= mean(2) + ROUNDING,
        "{what} is {median} ({least} to {greatest}); its parts' means are {} to {}",
        mean(0),
        mean(2)
    );
}

#[test]
fn both_documents_name_one_version_and_commit_in_both_files() {
    for name in ["results/report", "league/league"] {
        let (json, page) = document(name);
        let commit = text(&json, "commit");
        assert!(
            commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{name} is of the commit {commit}"
        );
        let said = format!(
            "evenkeel-testbed {}, commit <code>{commit}</code>.",
            text(&json, "version")
        );
        assert!(page.contains(&said), "{name}.html does not say: {said}");
    }
}

#[test]
fn the_report_counts_the_claims_and_runs_that_it_lists() {
    let (report, page) = document("results/report");
    let claims = rows(&report, "claims");
    let of = |verdict| {
        claims
            .iter()
            .filter(|row| row["verdict"] == verdict)
            .count() as u64
    };
    let runs = rows(&report, "runs").iter();
    let not_run = rows(&report, "not_run").len() as u64;
    let counted = [
        claims.len() as u64 + not_run,
        of("holds"),
        of("differs"),
        of("does_not_hold"),
        not_run,
        runs.map(|row| row["made"].as_u64().expect("a number"))
            .sum(),
    ];
    let counted = counted.map(|count| format!("<td>{count}</td>")).concat();
    assert!(
        page.contains(&format!("<b>all</b></td>{counted}")),
        "report.html counts otherwise than report.json, whose claims and runs are {counted}"
    );
    let kernel = rows(&report, "kernel");
    let notable = kernel.iter().filter(|row| row["notable"] == true).count();
    assert!(page.contains(&format!("{notable} of {} metrics differ", kernel.len())));
}

#[test]
fn the_report_has_the_runs_of_each_claim_and_names_their_versions() {
    let (report, _) = document("results/report");
    let runs = rows(&report, "runs");
    let of = |list: &str| -> BTreeSet<&str> {
        rows(&report, list)
            .iter()
            .map(|row| text(row, "experiment"))
            .collect()
    };
    let planned: Vec<&str> = rows(&report["plan"], "experiments")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(Vec::from_iter(of("runs")), planned);
    for list in ["claims", "not_run", "kernel"] {
        assert!(of(list).is_subset(&of("runs")), "{list}");
    }
    let taken_over = rows(&report, "taken_over");
    let mut versions = BTreeSet::new();
    for row in runs {
        let experiment = text(row, "experiment");
        let commands = rows(row, "commands").iter();
        let counted = commands.map(|all| rows(all, "values").len() * rows(all, "seeds").len());
        assert_eq!(row["made"], counted.sum::<usize>(), "{experiment}");
        versions.insert(text(row, "version"));
        assert!(
            row["version"] == report["version"] || taken_over.contains(&row["experiment"]),
            "{experiment} is of another version and not taken over"
        );
    }
    let builds: BTreeSet<&str> = rows(&report, "builds")
        .iter()
        .map(|row| text(row, "version"))
        .collect();
    assert_eq!(builds, versions);
}

#[test]
fn verdicts_agree_with_where_claims_fail_and_what_differs_has_a_run_without_the_cause() {
    let (report, _) = document("results/report");
    for row in rows(&report, "claims") {
        let claim = text(row, "claim");
        let (points, fails) = (rows(row, "points"), rows(row, "fails_at"));
        assert!(fails.iter().all(|point| points.contains(point)), "{claim}");
        let holds = row["verdict"] == "holds";
        assert!(points.is_empty() || holds == fails.is_empty(), "{claim}");
        if row["verdict"] == "differs" {
            let explained = row["reason"].is_string() && !rows(row, "commands").is_empty();
            assert!(
                explained && !row["value_without_cause"].is_null(),
                "{claim}"
            );
        }
    }
    for row in rows(&report, "kernel") {
        let values = ["simulated", "kernel", "difference_percent"].map(|field| row[field].as_f64());
        let [Some(simulated), Some(kernel), Some(difference)] = values else {
            continue;
        };
        let right = 100.0 * (kernel - simulated) / simulated;
        assert!((right - difference).abs() < 0.01, "{row}");
        assert_eq!(row["notable"], difference.abs() > 5.0, "{row}");
    }
}

#[test]
fn the_leagues_scores_follow_from_the_figures_of_its_cases() {
    let (league, _) = document("league/league");
    let names = |list: &str, field| -> Vec<&str> {
        rows(&league, list)
            .iter()
            .map(|row| text(row, field))
            .collect()
    };
    let (controllers, groups) = (names("controllers", "name"), names("groups", "name"));
    let mut scores = BTreeMap::new();
    for row in rows(&league, "results") {
        let key = (text(row, "controller"), text(row, "case"));
        let before = scores.insert(key, over_seeds(&row["score"]));
        assert!(before.is_none(), "{key:?} is there twice");
    }
    let mut table = BTreeMap::new();
    for row in rows(&league, "table") {
        table.insert(
            (text(row, "controller"), text(row, "group")),
            over_seeds(&row["score"]),
        );
    }
    assert_eq!(
        scores.len(),
        controllers.len() * names("cases", "case").len()
    );
    // Leagues until 0.2.0 had no coexistence.
    let beside = table.keys().filter(|(_, group)| *group == COEXISTENCE);
    let more = 1 + usize::from(beside.count() > 0);
    assert_eq!(table.len(), controllers.len() * (groups.len() + more));
    for controller in controllers {
        let mut of_groups = Vec::new();
        for group in &groups {
            let within = format!("{group}/");
            let of = |case: &&&str| case.starts_with(&within);
            let cases = names("cases", "case");
            let cases: Vec<_> = cases
                .iter()
                .filter(of)
                .map(|case| scores[&(controller, *case)])
                .collect();
            let score = table[&(controller, *group)];
            is_mean(&format!("{controller} in {group}"), score, &cases);
            of_groups.push(score);
        }
        is_mean(
            &format!("{controller} in total"),
            table[&(controller, "total")],
            &of_groups,
        );
    }
    for row in rows(&league, "results") {
        let case = rows(&league, "cases")
            .iter()
            .find(|case| case["case"] == row["case"]);
        let aims = case.expect("the case of a result")["aims"]
            .as_object()
            .expect("aims");
        // Of the greatest and the least figures of all seeds; a figure that is missing counts as 0.
        let score = over_seeds(&row["score"]);
        let mut ends = [1.0_f64; 2];
        for (figure, target) in aims {
            let target = target.as_f64().expect("a number");
            let more = ["share", "others", "jain"].contains(&figure.as_str());
            let [least, _, greatest] = match row["figures"].get(figure) {
                Some(figure) => over_seeds(figure),
                None => [if more { 0.0 } else { f64::INFINITY }; 3],
            };
            let mark = |value: f64| (if more { value / target } else { target / value }).min(1.0);
            let [one, other] = [mark(least), mark(greatest)];
            ends[0] *= one.min(other);
            ends[1] *= one.max(other);
        }
        // Leagues until 0.2.0 say who died, later ones who failed.
        let failed = ["dead", "failed"]
            .iter()
            .any(|field| row.get(field).is_some());
        let [worst, best] = ends.map(|product| product.powf(1.0 / aims.len() as f64));
        assert!(
            (failed || worst - 3.0 * ROUNDING <= score[0]) && score[2] <= best + 3.0 * ROUNDING,
            "{} with {}: a score of {score:?}, of figures that give {worst} to {best}",
            row["case"],
            row["controller"]
        );
    }
}

#[test]
fn the_leagues_page_shows_the_scores_of_its_json() {
    let (league, page) = document("league/league");
    let table = page.split("id=\"table\"").nth(1).expect("a table");
    let table = table.split("</table>").next().expect("its end");
    let mut groups = vec!["total"];
    let mut cells = rows(&league, "table").iter();
    groups.extend(cells.find_map(|row| (row["group"] == COEXISTENCE).then_some(COEXISTENCE)));
    groups.extend(rows(&league, "groups").iter().map(|row| text(row, "name")));
    for controller in rows(&league, "controllers") {
        let name = text(controller, "name");
        let mut shown = table
            .split("<tr>")
            .filter(|row| row.contains(&format!(">{name}</code>")));
        let cells: Vec<&str> = shown.next().expect("a row").split("<td").skip(1).collect();
        let is_score = |cell: &&str| cell.contains("--s:");
        let cells: Vec<&str> = cells.into_iter().filter(is_score).collect();
        assert_eq!(cells.len(), groups.len(), "{name}");
        for (cell, group) in cells.iter().zip(&groups) {
            let is_here = |row: &&Value| row["controller"] == name && row["group"] == *group;
            let row = rows(&league, "table")
                .iter()
                .find(is_here)
                .expect("a score");
            let shown = cell.rsplit("--s:").next().and_then(|cell| cell.get(..4));
            let shown: f64 = shown.and_then(|shown| shown.parse().ok()).expect("a score");
            let [_, median, _] = over_seeds(&row["score"]);
            assert!(
                (shown - median).abs() < 0.0051,
                "{name} in {group}: {shown}, {median}"
            );
        }
    }
}
