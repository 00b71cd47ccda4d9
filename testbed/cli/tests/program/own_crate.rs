//! A crate outside the workspace, as `docs/league.md` describes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::text;
use serde_json::Value;

/// The file of the documentation's block below a marker.
fn documented(marker: &str) -> String {
    let page = fs::read_to_string(root().join("docs/league.md")).unwrap();
    let rest = page.split_once(marker).expect("the marker").1;
    let block = rest.split_once("```toml\n").expect("a block").1;
    block.split_once("```").expect("its end").0.to_owned()
}

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

#[test]
#[ignore = "builds for minutes; .ci/full runs it"]
fn a_crate_outside_the_workspace_brings_its_controller_into_the_league() {
    let (root, place) = (root(), tempfile::tempdir().unwrap());
    let place = place.path();
    let manifest = documented("<!-- own crate -->");
    let here = format!("path = \"{}/", root.display());
    let manifest = manifest.replace("path = \"../evenkeel/", &here);
    assert_eq!(manifest.matches(&here).count(), 3, "{manifest}");
    // With the workspace's profiles its dependencies need not be built again.
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let profiles = workspace.find("[profile.dev]").expect("profiles end it");
    let manifest = format!("{manifest}\n{}", &workspace[profiles..]);
    fs::write(place.join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(place.join("src")).unwrap();
    for (from, to) in [
        ("Cargo.lock", "Cargo.lock"),
        ("testbed/cli/examples/own_controller.rs", "src/main.rs"),
    ] {
        fs::copy(root.join(from), place.join(to)).unwrap();
    }

    let programs = Path::new(env!("CARGO_BIN_EXE_evenkeel-testbed")).parent();
    let target = programs.and_then(Path::parent).expect("target/debug");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--offline", "--target-dir"])
        .arg(target);
    cargo.args([
        "--",
        "league",
        "--quick",
        "--controllers",
        "fixed:packets=40,cubic",
    ]);
    cargo.args(["--cases", "start/100-kB,start/1-MB", "--out", "out"]);
    let output = cargo.current_dir(place).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("fixed:packets=40"), "{table}");

    let league = fs::read_to_string(place.join("out/league.json")).unwrap();
    let league: Value = serde_json::from_str(&league).unwrap();
    let results = league["results"].as_array().unwrap();
    let own = results
        .iter()
        .filter(|row| row["controller"] == "fixed:packets=40");
    let scores = own.map(|row| row["score"][0].as_f64().unwrap());
    assert_eq!(scores.filter(|score| *score > 0.0).count(), 2, "{league:#}");
}
