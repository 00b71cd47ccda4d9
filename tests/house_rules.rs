//! The import rules of docs/architecture.md, read off Cargo's own metadata and the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::modules::Modules;
use crate::systems::ungated;

/// What each crate may import of our own crates and of the ones that own I/O. Crates
/// without I/O (serde, rand, thiserror ...) are free, except in wire, which is std only.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("evenkeel-wire", &[]),
    ("evenkeel-spec", &[]),
    ("evenkeel-log", &[]),
    ("evenkeel-picture", &[]),
    ("evenkeel-sandbox", &[]),
    (
        "evenkeel-congestion",
        &["evenkeel-wire", "evenkeel-spec", "quinn-proto"],
    ),
    (
        "evenkeel-headers",
        &["evenkeel-wire", "evenkeel-congestion"],
    ),
    ("evenkeel-queue", &["evenkeel-wire", "evenkeel-spec"]),
    (
        "evenkeel",
        &[
            "evenkeel-wire",
            "evenkeel-spec",
            "evenkeel-congestion",
            "evenkeel-headers",
            "evenkeel-timer",
            "quinn",
            "quinn-proto",
            "tokio",
        ],
    ),
    (
        "evenkeel-noq",
        &[
            "evenkeel-congestion",
            "evenkeel-headers",
            "noq",
            "noq-proto",
        ],
    ),
    (
        "evenkeel-apps",
        &[
            "evenkeel",
            "evenkeel-log",
            "evenkeel-picture",
            "evenkeel-sandbox",
            "evenkeel-spec",
            "quinn",
            "tokio",
        ],
    ),
    (
        "evenkeel-testbed",
        &[
            "evenkeel",
            "evenkeel-apps",
            "evenkeel-log",
            "evenkeel-queue",
            "evenkeel-spec",
            "evenkeel-testbed-core",
            "evenkeel-experiments",
        ],
    ),
    ("evenkeel-experiments", &["evenkeel-testbed-core"]),
    (
        "evenkeel-testbed-core",
        &[
            "evenkeel",
            "evenkeel-apps",
            "evenkeel-congestion",
            "evenkeel-picture",
            "evenkeel-queue",
            "evenkeel-sim",
            "evenkeel-spec",
            "evenkeel-wire",
            "noq-proto",
            "quinn",
            "quinn-proto",
        ],
    ),
    ("evenkeel-timer", &["tokio"]),
    (
        "evenkeel-sim",
        &["evenkeel-queue", "evenkeel-spec", "evenkeel-wire", "quinn"],
    ),
    (
        "evenkeel-router",
        &[
            "evenkeel-log",
            "evenkeel-sandbox",
            "evenkeel-timer",
            "evenkeel-wire",
            "evenkeel-spec",
            "evenkeel-queue",
            "tokio",
            "tun-rs",
        ],
    ),
    ("evenkeel-tests", &[]),
];

/// Crates that own I/O or a clock, besides every crate of this workspace.
const GUARDED: &[&str] = &[
    "mio",
    "noq",
    "noq-proto",
    "quinn",
    "quinn-proto",
    "quinn-udp",
    "smol",
    "socket2",
    "tokio",
    "tun-rs",
];

/// Groups of sibling modules, `crate: parent`, with rings that are still to be removed.
const KNOWN_RINGS: &[&str] = &[];

fn metadata() -> Metadata {
    MetadataCommand::new()
        .manifest_path(root().join("Cargo.toml"))
        .exec()
        .expect("cargo metadata runs in the workspace")
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
        .into()
}

fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("a readable source directory") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() && !path.join("Cargo.toml").exists() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn crates_import_only_what_the_house_allows() {
    let metadata = metadata();
    let rules: BTreeMap<_, _> = MAY_IMPORT.iter().copied().collect();
    let ours: BTreeSet<_> = metadata
        .workspace_packages()
        .iter()
        .map(|p| p.name.to_string())
        .collect();
    assert_eq!(
        ours,
        rules.keys().map(ToString::to_string).collect(),
        "every crate of the workspace has a rule and every rule a crate"
    );
    for package in metadata.workspace_packages() {
        let allowed = rules[package.name.as_str()];
        for dependency in package
            .dependencies
            .iter()
            .filter(|d| d.kind == DependencyKind::Normal)
        {
            let name = dependency.name.as_str();
            let guarded = ours.contains(name) || GUARDED.contains(&name);
            assert!(
                !guarded || allowed.contains(&name),
                "{} imports {name}; docs/architecture.md allows it {allowed:?}",
                package.name
            );
        }
    }
}

#[test]
fn wire_depends_on_the_standard_library_alone() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let wire = packages
        .iter()
        .find(|p| p.name.as_str() == "evenkeel-wire")
        .expect("wire exists");
    let normal: Vec<_> = wire
        .dependencies
        .iter()
        .filter(|d| d.kind == DependencyKind::Normal)
        .collect();
    assert!(normal.is_empty(), "{normal:?}");
}

#[test]
fn quinn_proto_is_named_in_the_adapter_alone() {
    for file in rust_files(&root().join("transport/congestion/src")) {
        let in_adapter = file
            .components()
            .any(|c| c.as_os_str() == "adapter" || c.as_os_str() == "adapter.rs");
        let text = fs::read_to_string(&file).expect("a readable source file");
        assert!(
            in_adapter || !text.contains("quinn_proto"),
            "{} names quinn_proto; only adapter.rs and adapter/ may",
            file.display()
        );
    }
}

#[test]
fn the_pure_crates_read_no_clock() {
    for directory in [
        "transport/base/wire/src",
        "transport/base/spec/src",
        "transport/congestion/src",
        "transport/headers/src",
        "router/queue/src",
    ] {
        for file in rust_files(&root().join(directory)) {
            let text = fs::read_to_string(&file).expect("a readable source file");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for clock in [
                "Instant::now()",
                "SystemTime::now()",
                "thread::sleep",
                "disallowed_methods",
            ] {
                assert!(!code.contains(clock), "{} has {clock}", file.display());
            }
        }
    }
}

/// Names and directories of our crates.
fn crates() -> Vec<(String, PathBuf)> {
    let directory = |manifest: &Path| manifest.parent().map(Path::to_path_buf);
    metadata()
        .workspace_packages()
        .iter()
        .filter_map(|p| {
            Some((
                p.name.to_string(),
                directory(p.manifest_path.as_std_path())?,
            ))
        })
        .collect()
}

/// Every Rust file of ours: sources, tests, benches, examples.
pub(crate) fn all_rust_files() -> Vec<PathBuf> {
    crates()
        .iter()
        .flat_map(|(_, directory)| rust_files(directory))
        .collect()
}

#[test]
fn no_source_file_exceeds_600_lines_and_no_main_70() {
    let too_long: Vec<_> = all_rust_files()
        .into_iter()
        .filter_map(|file| {
            let text = fs::read_to_string(&file).expect("a readable source file");
            let lines = text.lines().count();
            let limit = if file.ends_with("main.rs") { 70 } else { 600 };
            (lines > limit).then(|| format!("{} has {lines} lines", file.display()))
        })
        .collect();
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

#[test]
fn no_modules_import_each_other_in_a_ring() {
    let mut rings = Vec::new();
    for (name, directory) in crates() {
        let src = directory.join("src");
        if src.exists() {
            let found = Modules::read(&src, &rust_files(&src)).rings();
            let found = found.iter().map(|ring| match ring.strip_prefix(':') {
                Some(ring) => format!("{name}:{ring}"),
                None => format!("{name}: {ring}"),
            });
            rings.extend(found);
        }
    }
    rings.retain(|ring| {
        let group = ring.rsplit_once(": ").map_or("", |(group, _)| group);
        !KNOWN_RINGS
            .iter()
            .any(|known| known.trim_end_matches(':') == group)
    });
    assert!(rings.is_empty(), "{}", rings.join("\n"));
}

/// Two crates are for Linux as a whole; tests run where they can.
#[test]
fn what_only_some_systems_have_is_named_behind_a_gate() {
    const FOR_LINUX: &[&str] = &["evenkeel-router", "evenkeel-sandbox", "evenkeel-tests"];
    let mut found = Vec::new();
    for (name, directory) in crates() {
        let src = directory.join("src");
        if !FOR_LINUX.contains(&name.as_str()) {
            found.extend(ungated(&src, &rust_files(&src)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_dependency_needs_a_newer_rust_than_we_promise() {
    let metadata = metadata();
    let packages = metadata.workspace_packages();
    let promised = packages[0]
        .rust_version
        .clone()
        .expect("the workspace states its MSRV");
    for package in &metadata.packages {
        if let Some(needed) = &package.rust_version {
            assert!(
                *needed <= promised,
                "{} {} needs Rust {needed}, above the promised {promised}",
                package.name,
                package.version
            );
        }
    }
}

#[test]
fn nothing_refers_to_the_workplace_around_the_project() {
    // This file would find itself.
    for file in all_rust_files()
        .iter()
        .filter(|file| !file.ends_with("house_rules.rs"))
    {
        let text = fs::read_to_string(file).expect("a readable source file");
        assert!(
            !text.contains("../shared"),
            "{} refers to ../shared",
            file.display()
        );
    }
}

#[test]
fn tests_that_compare_real_time_wait_for_the_full_run() {
    for directory in [
        "apps",
        "router",
        "testbed/cli",
        "transport",
        "transport/noq",
    ] {
        for file in rust_files(&root().join(directory).join("tests")) {
            let text = fs::read_to_string(&file).expect("a readable test file");
            for test in text.split("#[test]").skip(1) {
                let body = test.split("\n}\n").next().unwrap_or(test);
                assert!(
                    !body.contains("one_of_three_tries(") || body.contains("#[ignore = "),
                    "{}: needs #[ignore = \"compares real time; .ci/full runs it\"]:{body}",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn packages_and_images_have_the_version_of_the_crates() {
    let root = root();
    let now = env!("CARGO_PKG_VERSION");
    let mut found = 0;
    for file in [
        ".ci/packages",
        "Dockerfile",
        "docs/backends.md",
        "docs/bulk.md",
        "docs/router.md",
        "testbed/compose/docker-compose.yml",
        "testbed/experiments/league/cluster/kubernetes.yaml",
    ] {
        let text = fs::read_to_string(root.join(file)).expect("a readable file");
        for name in text.split("evenkeel").skip(1) {
            let name = name.strip_prefix("-router").unwrap_or(name);
            let Some(version) = name.strip_prefix(['-', '_', ':']) else {
                continue;
            };
            if version.starts_with(|first: char| first.is_ascii_digit()) {
                // .ci/packages upgrades from a package 0.0.1.
                assert!(
                    version.starts_with(now) || version.starts_with("0.0.1-1"),
                    "{file} has {}, the crates have {now}",
                    version.split_whitespace().next().unwrap_or_default()
                );
                found += 1;
            }
        }
    }
    assert!(found >= 10, "{found} names with versions");
    let changelog = fs::read_to_string(root.join("CHANGELOG.md")).expect("a readable file");
    assert!(
        changelog.contains(&format!("## {now} - 20")),
        "CHANGELOG.md has no section {now} with a date"
    );
}
