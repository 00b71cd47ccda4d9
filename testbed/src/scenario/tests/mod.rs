//! Tests of whole scenario files: what they become, and how they are refused.

mod any_text;
mod expansion;
mod refusal;
mod troubles;

use std::path::Path;

use super::*;

/// A dumbbell with one flow; each line has the number that the tests below name.
const DUMBBELL: &str = r#"name = "d"
duration_s = 100
warmup_s = 20
topology = "dumbbell"
[[links]]
name = "bottleneck"
rate_bps = 1_964_800
delay_ms = 18
queue_packets = 50
[access]
delay_ms = 1
[[flows]]
name = "bulk"
app = "bulk"
controller = "vegas"
"#;

const GRAPH: &str = r#"name = "g"
duration_s = 10
[[links]]
name = "ab"
from = "a"
to = "b"
[[links]]
name = "bc"
from = "b"
to = "c"
[[links]]
name = "bc2"
from = "b"
to = "c"
[[links]]
name = "far"
from = "x"
to = "y"
[[flows]]
name = "f"
app = "bulk"
controller = "reno"
from = "a"
to = "c"
"#;

fn parse(text: &str, overrides: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<_> = overrides.iter().map(ToString::to_string).collect();
    Scenario::parse(text, "d.toml", &overrides).map_err(|error| error.to_string())
}

fn expanded(text: &str, overrides: &[&str]) -> Scenario {
    parse(text, overrides).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str, overrides: &[&str]) -> String {
    parse(text, overrides).expect_err("the scenario makes no sense")
}

/// Asserts that `text` with `line` appended is refused at that line with `message`.
fn assert_refused(text: &str, line: &str, message: &str) {
    let text = format!("{text}{line}\n");
    let number = text.lines().count();
    assert_eq!(refused(&text, &[]), format!("d.toml:{number}: {message}"));
}

#[test]
fn every_example_is_a_scenario() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let scenario = Scenario::load(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
            let stem = path.file_stem().unwrap().to_str().unwrap();
            assert_eq!(scenario.name, stem, "a scenario is called like its file");
            let text = std::fs::read_to_string(&path).unwrap();
            let command = format!("evenkeel-testbed run testbed/scenarios/{stem}.toml");
            assert!(
                text.contains(&command),
                "{stem}.toml has a line that runs it"
            );
            let again = Scenario::parse(&scenario.to_toml(), path.to_str().unwrap(), &[]);
            assert_eq!(again.unwrap(), scenario);
            count += 1;
        }
    }
    assert!(count >= 10, "only {count} examples");
}
