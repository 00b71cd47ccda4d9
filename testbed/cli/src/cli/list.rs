//! `list`: what scenarios may name, and the files to run.

use std::fmt::{Display, Write};
use std::fs;
use std::path::{Path, PathBuf};

use evenkeel::Controllers;
use evenkeel_testbed::SWITCHES;

/// Where the examples and the papers' experiments are in the repository.
const SCENARIOS: &str = "testbed/scenarios";
const PAPERS: &str = "testbed/experiments/papers";

/// Everything, as text for people.
pub(super) fn list(controllers: &Controllers) -> String {
    let mut text = String::from("Controllers (parameters as NAME:KEY=VALUE,KEY=VALUE):\n");
    for row in controllers.rows() {
        let is_default = row.name == evenkeel::DEFAULT_CONTROLLER;
        let note = if is_default {
            " (the default of bulk and stream)"
        } else {
            ""
        };
        let summary = format!("{}{note}", row.summary);
        let is_switch = |name: &str| SWITCHES.iter().any(|kind| name.starts_with(kind));
        let parameters = row.parameters.iter();
        let parameters: Vec<_> = parameters.filter(|one| !is_switch(one.name)).collect();
        describe(&mut text, row.name, &summary, &parameters);
    }
    text += "Queue disciplines (parameters likewise):\n";
    for row in evenkeel_queue::disciplines() {
        describe(&mut text, row.name, row.summary, row.parameters);
    }
    text += "Stamps of path headers (parameters likewise):\n";
    for row in evenkeel_queue::stamps() {
        describe(&mut text, row.name, row.summary, row.parameters);
    }
    text += "Scenarios (evenkeel-testbed run FILE):\n";
    files(&mut text, SCENARIOS, |file| file.display().to_string());
    text += "Experiments (evenkeel-testbed reproduce NAME):\n";
    for paper in entries(Path::new(PAPERS)) {
        let name = |file: &Path| {
            let name = file.with_extension("");
            name.strip_prefix(PAPERS)
                .unwrap_or(&name)
                .display()
                .to_string()
        };
        files(&mut text, paper, name);
    }
    text
}

fn describe(text: &mut String, name: &str, summary: &str, parameters: &[impl Display]) {
    line(text, 15, name, summary);
    for parameter in parameters {
        line(text, 15, "", &format!("  {parameter}"));
    }
}

/// The TOML files of a directory, each with its subject.
fn files(text: &mut String, directory: impl AsRef<Path>, name: impl Fn(&Path) -> String) {
    let directory = directory.as_ref();
    let is_toml = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "toml")
    };
    let mut found = entries(directory).into_iter().filter(is_toml).peekable();
    if found.peek().is_none() {
        let _ = writeln!(
            text,
            "  none in {}; run this in the repository",
            directory.display()
        );
    }
    for file in found {
        let contents = fs::read_to_string(&file).unwrap_or_default();
        line(text, 46, &name(&file), &subject(&contents));
    }
}

/// What a file's first comment says first.
fn subject(contents: &str) -> String {
    let comment = contents.lines().map_while(|line| line.strip_prefix("# "));
    let text = comment.collect::<Vec<_>>().join(" ");
    let end = [": ", "; ", ". "]
        .iter()
        .filter_map(|stop| text.find(stop))
        .min();
    text[..end.unwrap_or(text.len())]
        .trim_end_matches('.')
        .to_owned()
}

fn line(text: &mut String, width: usize, name: &str, about: &str) {
    let _ = writeln!(text, "  {name:<width$} {about}");
}

/// What a directory holds, in order of names; nothing if it cannot be read.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = found.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
