//! `league`, as a user meets it.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::text;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Two short cases, so that a test is one too.
const CASES: &str = "start/100-kB,start/1-MB";

fn league(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = crate::support::testbed(&["league"]);
    command.current_dir(directory).args(arguments);
    command.output().expect("the program starts")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn a_league_leaves_a_table_a_page_its_figures_and_scenarios_that_run() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let players = [
        "--controllers",
        "cubic,vegas:alpha=2,beta=4",
        "--cases",
        CASES,
    ];
    let output = league(
        place,
        &[&players[..], &["--quick", "--out", "out"]].concat(),
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("vegas:alpha=2,beta=4"), "{table}");
    assert!(table.contains("\nstart "), "{table}");
    let json = read(place.join("out/league.json"));
    let document: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["seeds"], 1);
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    for row in results {
        let score = row["score"][0].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&score), "{row}");
        assert!(
            row["figures"]["completion_s"][0].as_f64() > Some(0.1),
            "{row}"
        );
        assert!(row.get("failed").is_none(), "{row}");
        assert!(row["regret"].as_f64() >= Some(0.0), "{row}");
    }
    for one in &results[..2] {
        let of_case = results.iter().filter(|row| row["case"] == one["case"]);
        let regrets = of_case.map(|row| row["regret"].as_f64().unwrap());
        assert_eq!(regrets.fold(1.0, f64::min), 0.0, "{one}");
    }
    let regrets = document["regrets"].as_array().unwrap();
    assert!(regrets[0]["greatest"].is_number(), "{regrets:?}");
    let page = read(place.join("out/league.html"));
    let page = page.strip_prefix("<!doctype html>\n").expect("a doctype");
    roxmltree::Document::parse(page).expect("well-formed");

    // One of its runs alone.
    let command = document["cases"][0]["command"].as_str().unwrap();
    let command = command.replace("CONTROLLER", "reno").replace("SEED", "3");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let output = crate::support::testbed(&words)
        .current_dir(place.join("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));

    // A second call runs nothing again and writes the same bytes.
    let output = league(
        place,
        &[&players[..], &["--quick", "--out", "out"]].concat(),
    );
    assert!(text(&output.stderr).contains("4 of 4 runs were made before"));
    assert_eq!(read(place.join("out/league.json")), json);

    // A damaged run is made again.
    let of_build = fs::read_dir(place.join("out/runs"))
        .unwrap()
        .next()
        .unwrap();
    let of_build = fs::read_dir(of_build.unwrap().path()).unwrap();
    fs::write(of_build.map(Result::unwrap).next().unwrap().path(), "{").unwrap();
    let output = league(
        place,
        &[&players[..], &["--quick", "--out", "out"]].concat(),
    );
    assert!(text(&output.stderr).contains("3 of 4 runs were made before"));
    assert_eq!(read(place.join("out/league.json")), json);
}

#[test]
fn a_table_of_controllers_with_long_names_has_at_most_100_columns() {
    let directory = tempfile::tempdir().unwrap();
    let names = "cubic,gaimd:alpha=0.31,beta=0.875,abgd:alpha=2,delta=3,upper=0.6,reno,\
                 vegas:alpha=2,beta=4,vegas:alpha=1,beta=3,vegas";
    let arguments = ["--quick", "--cases", "start/100-kB", "--controllers", names];
    let output = league(directory.path(), &arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.lines().all(|line| line.len() <= 100), "{table}");
    let totals = table.lines().filter(|line| line.starts_with("total "));
    let figures: usize = totals.map(|line| line.split_whitespace().count() - 1).sum();
    assert_eq!(figures, 7, "{table}");
}

#[test]
fn networks_drawn_at_random_leave_percentiles_and_the_worst_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    // 1.1 Mb/s: a test is short.
    let random = ["--random", "125-125", "--controllers", "cubic,vegas"];
    let output = league(place, &[&random[..], &["--quick", "--out", "out"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json = read(place.join("out/league.json"));
    let document: Value = serde_json::from_str(&json).unwrap();
    let distributions = document["distributions"].as_array().unwrap();
    // Share, queueing and loss of two controllers.
    assert_eq!(distributions.len(), 6);
    for row in distributions {
        assert_eq!(row["worst"][0], "random/125", "{row}");
        assert_eq!(row["percentiles"].as_array().unwrap().len(), 13);
    }
    let page = read(place.join("out/league.html"));
    let page = page.strip_prefix("<!doctype html>\n").expect("a doctype");
    assert!(page.contains("queueing p95, ms"), "a table of queueing");
    roxmltree::Document::parse(page).expect("well-formed");
    let output = league(place, &["--random", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("write how many"),
        "{output:?}"
    );
}

#[test]
fn recorded_networks_are_played_from_a_folder_of_traces() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let traces = place.join("recorded");
    fs::create_dir(&traces).unwrap();
    // 1.2 Mb/s there and 0.6 back; 1.2 Mb/s in pairs of packets.
    for (name, contents) in [
        ("lte.down", "10\n"),
        ("lte.up", "20\n"),
        ("pairs", "20\n20\n"),
        ("README", "Two networks.\n"),
    ] {
        fs::write(traces.join(name), contents).unwrap();
    }
    let players = ["--controllers", "cubic", "--quick"];
    let network = [
        "--traces",
        "recorded",
        "--delay-ms",
        "30",
        "--queue-bytes",
        "15000",
    ];
    let all = [&network[..], &players, &["--out", "out"]].concat();
    let output = league(place, &all);
    let told = text(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(
        told.contains("left out: recorded/README: line 1: expected whole milliseconds"),
        "{told}"
    );
    let json = read(place.join("out/league.json"));
    let document: Value = serde_json::from_str(&json).unwrap();
    let cases = document["cases"].as_array().unwrap();
    let names: Vec<_> = cases
        .iter()
        .map(|case| case["case"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["traces/lte", "traces/pairs"]);
    // Ten packets of 1228 bytes at 1.2 Mb/s are more than half of 60 ms.
    assert_eq!(cases[0]["aims"]["queueing_p95_ms"], 81.9);
    for row in document["results"].as_array().unwrap() {
        let share = row["figures"]["share"][0].as_f64().unwrap();
        assert!((0.85..1.0).contains(&share), "{row}");
    }

    // One of its runs alone finds the traces, and another league merges them.
    let command = cases[0]["command"].as_str().unwrap();
    let command = command.replace("CONTROLLER", "reno").replace("SEED", "2");
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let output = crate::support::testbed(&words)
        .current_dir(place.join("out"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let output = league(place, &["--merge", "out", "--out", "merged"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for file in [
        "league.json",
        "cases/traces-lte.toml",
        "cases/traces/lte.up",
    ] {
        let [merged, whole] = ["merged", "out"].map(|out| read(place.join(out).join(file)));
        assert!(merged == whole, "{file}");
    }

    // Another trace of the same name is another run.
    fs::write(traces.join("pairs"), "10\n10\n").unwrap();
    let output = league(place, &all);
    assert!(
        text(&output.stderr).contains("1 of 2 runs were made before"),
        "{output:?}"
    );
}

#[test]
fn an_interrupt_before_the_first_run_tells_how_to_go_on() {
    let directory = tempfile::tempdir().unwrap();
    let traces = directory.path().join("recorded");
    fs::create_dir(&traces).unwrap();
    fs::write(traces.join("good"), "10\n").unwrap();
    // More lines than a pipe holds: the program waits until somebody has read them.
    for number in 0..1000 {
        let name = format!("{number:0>200}");
        fs::write(traces.join(name), "no trace\n").unwrap();
    }
    let arguments = ["league", "--traces", "recorded", "--out", "out"];
    let mut command = crate::support::testbed(&arguments);
    let mut child = crate::support::spawn(command.current_dir(directory.path()));
    let mut first = [0];
    let stderr = child.stderr.as_mut().expect("it is piped");
    stderr.read_exact(&mut first).expect("a line comes");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{told}");
    let last = "interrupted: 0 more runs are kept; the same command goes on";
    assert!(told.contains(last), "{told}");
}

#[test]
fn a_part_that_is_switched_off_and_a_constant_times_one_are_compared_with_the_whole() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    // 1.1 Mb/s: a test is short.
    let network = ["--random", "125-125", "--quick", "--out", "out"];
    let variants = ["--without", "make_room,jitter", "--vary", "all=x1"];
    let output = league(place, &[&network[..], &variants].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for row in [
        "keel ",
        "  without make_room ",
        "  without jitter ",
        "  beta x1 ",
    ] {
        assert!(table.contains(&format!("\n{row}")), "{row:?} in {table}");
    }
    let document: Value = serde_json::from_str(&read(place.join("out/league.json"))).unwrap();
    let results = document["results"].as_array().unwrap();
    let of = |controller: &str| {
        let is_its = |row: &&Value| row["controller"].as_str().unwrap().starts_with(controller);
        let rows = results.iter().filter(is_its);
        rows.map(|row| &row["figures"]).collect::<Vec<_>>()
    };
    let scaled = of("keel:scale.");
    assert!(scaled.len() >= 5, "{results:?}");
    let whole = of("keel")[0];
    assert!(
        scaled.iter().all(|figures| *figures == whole),
        "{results:?}"
    );
    assert_ne!(
        of("keel:without.jitter=true"),
        [whole],
        "a part does something"
    );

    // Its parts, joined.
    let output = league(
        place,
        &[&["--merge", "out", "--out", "merged"][..], &variants].concat(),
    );
    assert_eq!(text(&output.stdout), table);
    let output = league(place, &["--merge", "out", "--without", "hold"]);
    assert_eq!(output.status.code(), Some(2));
    let error = "keel:without.hold=true has not played in what --merge joins\n";
    assert!(text(&output.stderr).ends_with(error));

    // Without a name it lists what there is.
    let output = league(place, &["--without"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("keel, --without NAME,...:\n  slow_start "));
    let output = league(place, &["--without", "holt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("keel has no switch \"holt\""));
}

#[test]
fn the_shards_of_slurm_and_kubernetes_merge_into_the_bytes_of_one_run() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/league/cluster");
    let program = Path::new(env!("CARGO_BIN_EXE_evenkeel-testbed"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_owned()).chain(std::env::split_paths(&path)),
    );
    let path = path.unwrap();
    let players = ["--quick", "--controllers", "cubic,vegas", "--cases", CASES];
    let shell = |environment: &[(&str, &str)], arguments: &[&str]| {
        let mut command = Command::new("/bin/sh");
        command
            .current_dir(place)
            .env("PATH", &path)
            .args(arguments);
        let output = command.envs(environment.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    };

    let script = cluster.join("slurm.sh");
    for part in ["1", "2", "3"] {
        let environment = [
            ("SLURM_ARRAY_TASK_ID", part),
            ("SLURM_ARRAY_TASK_COUNT", "3"),
            ("SLURM_CPUS_PER_TASK", "1"),
        ];
        shell(
            &environment,
            &[&[script.to_str().unwrap()], &players[..]].concat(),
        );
    }
    // The command line of the pods, with fewer cases.
    let manifest = read(cluster.join("kubernetes.yaml"));
    let lines = manifest.lines().map(str::trim);
    let lines = lines.filter(|line| line.starts_with("part=") || line.starts_with("evenkeel-"));
    let pod = lines.collect::<Vec<_>>().join("\n");
    assert!(pod.contains("league --shard"), "{pod}");
    let pod = pod.replace(" league ", &format!(" league {} ", players.join(" ")));
    for index in ["0", "1"] {
        let environment = [("JOB_COMPLETION_INDEX", index), ("PARTS", "2")];
        shell(&environment, &["-euc", &pod]);
    }

    let whole = league(place, &[&players[..], &["--out", "whole"]].concat());
    assert!(whole.status.success(), "{}", text(&whole.stderr));
    let merged = |parts: &[&str]| {
        let output = league(place, &[&["--merge"], parts, &["--out", "merged"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        for file in ["league.json", "league.html"] {
            let [merged, whole] = ["merged", "whole"].map(|out| read(place.join(out).join(file)));
            assert!(merged == whole, "{file} of {parts:?}");
        }
    };
    let slurm = ["1", "2", "3"].map(|part| format!("results/league/part-{part}"));
    merged(&slurm.each_ref().map(String::as_str));
    merged(&["part-1", "part-2"]);
    // What a part has not run is not counted as a network that nobody failed, or as a rival's 0.
    let output = league(place, &["--merge", "part-1", "--out", "half"]);
    let told = text(&output.stderr);
    assert!(told.contains("warning: 2 of 4 runs are missing"), "{told}");
    let page = read(place.join("half/league.html"));
    assert!(page.contains("2 of 4 runs, the others are missing"));
    let document: Value = serde_json::from_str(&read(place.join("half/league.json"))).unwrap();
    let regrets = document["regrets"].as_array().unwrap().iter();
    assert!(regrets.clone().any(|row| row["mean"].is_null()));
    let table = text(&output.stdout);
    let failed = table
        .lines()
        .find(|line| line.starts_with("failed networks"));
    let figures = failed.expect("a row").split_whitespace().skip(2);
    assert!(figures.clone().any(|figure| figure == "-"), "{table}");
}

#[test]
fn what_cannot_be_played_is_refused_with_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str], words: &str| {
        let output = league(directory.path(), arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(words), "{words:?} in {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    // An empty name is not all of them.
    refused(&["--cases", "clean/,", "--quick"], "no case has \"\"");
    refused(&["--without", "hold,", "--quick"], "no switch \"\"");
    refused(
        &["--merge", "parts", "--controllers", "cubic"],
        "--merge joins what has played",
    );
    refused(
        &["--cases", "moon"],
        "no case has \"moon\" in its name; the groups are clean",
    );
    refused(
        &["--controllers", "tahoe", "--cases", "start"],
        "--controllers: unknown controller \"tahoe\"",
    );
    refused(
        &["--vary", "beta=x1000", "--cases", "start"],
        "--vary beta=x1000: ",
    );
    refused(
        &["--without", "holt", "--cases", "start"],
        "--without holt: ",
    );
}
