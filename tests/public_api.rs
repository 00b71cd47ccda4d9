//! Prints the API that we promise, an item a line, from rustdoc's JSON, and counts its types. For
//! `.ci/api`, which names the files without their ending `.json`: those of promised crates, `--`,
//! those of the internal crates from which they export. Exits with 2 where another version of Rust
//! wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use public_api::Builder;
use serde_json::Value;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let names: Vec<String> = env::args().skip(1).collect();
    let split = names.iter().position(|name| name == "--");
    let (promised, internal) = names.split_at(split.unwrap_or(names.len()));
    let mut lines = Vec::new();
    let mut exported = BTreeMap::new();
    for name in promised {
        let Some(api) = Api::read(name)? else {
            return Ok(ExitCode::from(2));
        };
        lines.extend(api.lines);
        exported.extend(api.exports);
    }
    let mut internals = Vec::new();
    for name in internal.iter().skip(1) {
        internals.extend(Api::read(name)?);
    }
    // What an internal crate exports may be another one's, and an alias has a target.
    loop {
        let before = exported.len();
        for api in &internals {
            let further = api
                .exports
                .iter()
                .filter(|(name, _)| exported.values().any(|of| of == *name));
            let further: Vec<_> = further
                .map(|(_, source)| (source.clone(), source.clone()))
                .collect();
            let targets = api.lines.iter().filter(|line| belongs(line, &exported));
            let targets: Vec<_> = targets
                .flat_map(|line| targets_of(line, &internals))
                .collect();
            exported.extend(further.into_iter().chain(targets));
        }
        if exported.len() == before {
            break;
        }
    }
    for api in &internals {
        lines.extend(
            api.lines
                .iter()
                .filter(|line| belongs(line, &exported))
                .cloned(),
        );
    }
    print(&lines);
    let types: BTreeSet<&str> = lines.iter().filter_map(|line| type_of(line)).collect();
    eprintln!(
        "{} public types are promised, {MOST_TYPES} allowed",
        types.len()
    );
    Ok(ExitCode::from(u8::from(types.len() > MOST_TYPES)))
}

/// The version of rustdoc's JSON that public-api reads.
const FORMAT: u64 = 57;

/// Structs, enums, traits and aliases that we promise at most: they fit on a page.
const MOST_TYPES: usize = 70;

/// The public API of a crate.
struct Api {
    lines: Vec<String>,
    /// The items of other crates that it exports, by the path that it gives them.
    exports: BTreeMap<String, String>,
}

impl Api {
    /// `None` if another version of Rust wrote the file.
    fn read(name: &str) -> Result<Option<Self>, Box<dyn Error>> {
        let file = Path::new(name).with_extension("json");
        let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let written: Value = serde_json::from_str(&text)?;
        let format = written["format_version"].as_u64();
        if format != Some(FORMAT) {
            eprintln!(
                "skipped: rustdoc's JSON has the format {format:?}; public-api reads {FORMAT}, \
                 Rust 1.95's"
            );
            return Ok(None);
        }
        // Blanket and automatic implementations follow from the types; derived ones are worth a look.
        let api = Builder::from_rustdoc_json(&file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .build()?;
        let krate = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        let items = written["index"]
            .as_object()
            .into_iter()
            .flat_map(|index| index.values());
        let uses = items.filter_map(|item| item["inner"].get("use"));
        let path = |of: &Value| {
            Some((
                of["name"].as_str()?.to_owned(),
                of["source"].as_str()?.to_owned(),
            ))
        };
        Ok(Some(Self {
            lines: api.items().map(ToString::to_string).collect(),
            exports: uses
                .filter_map(path)
                .map(|(name, source)| (format!("{krate}::{name}"), source))
                .collect(),
        }))
    }
}

/// Prints the lines without what follows from another: the methods of traits' implementations.
fn print(lines: &[String]) {
    let mut implements = None;
    for line in lines {
        if line.starts_with("impl") {
            implements = line
                .contains(" for ")
                .then(|| format!("{}::", subject(line)));
        }
        let is_method = implements
            .as_ref()
            .is_some_and(|of| subject(line).starts_with(of));
        if !(is_method && line.starts_with("pub fn") || line.contains("StructuralPartialEq")) {
            println!("{line}");
        }
    }
}

/// The path that a line is about, with what stands behind it.
fn subject(line: &str) -> &str {
    if line.starts_with("impl") {
        let (_, of) = line
            .split_once(" for ")
            .or_else(|| line.split_once(' '))
            .unwrap_or(("", line));
        return of;
    }
    let mut rest = line;
    while let Some((word, behind)) = rest.split_once(' ') {
        if word.contains("::") {
            break;
        }
        rest = behind;
    }
    rest
}

/// The path without generics and what stands behind it.
fn path(subject: &str) -> &str {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = subject.find(|c| !is_path(c)).unwrap_or(subject.len());
    subject[..end].trim_end_matches(':')
}

/// Whether a line is about one of these items or a part of one.
fn belongs(line: &str, exported: &BTreeMap<String, String>) -> bool {
    let path = path(subject(line));
    exported.values().any(|of| {
        let behind = path.strip_prefix(of.as_str());
        behind.is_some_and(|behind| behind.is_empty() || behind.starts_with("::"))
    })
}

/// The types for which the line's alias, if it is one, is another name.
fn targets_of(line: &str, internals: &[Api]) -> Vec<(String, String)> {
    let Some((_, target)) = line
        .split_once(" = ")
        .filter(|_| line.starts_with("pub type"))
    else {
        return Vec::new();
    };
    let words = target.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    let ends = |path: &str| {
        let krate = path.split("::").next().unwrap_or_default().to_owned();
        let name = path.rsplit("::").next().unwrap_or_default().to_owned();
        (krate, name)
    };
    let wanted: BTreeSet<_> = words.map(ends).collect();
    let types = internals
        .iter()
        .flat_map(|api| &api.lines)
        .filter_map(|line| type_of(line));
    types
        .filter(|path| wanted.contains(&ends(path)))
        .map(|path| (path.to_owned(), path.to_owned()))
        .collect()
}

/// The path of the type that a line defines, if it defines one.
fn type_of(line: &str) -> Option<&str> {
    let kinds = ["struct", "enum", "trait", "type", "union"];
    let words = line.split(' ').skip_while(|word| *word != "pub").nth(1)?;
    let path = path(subject(line));
    let parent = path.rsplit("::").nth(1)?;
    let is_part = parent.starts_with(|first: char| first.is_uppercase());
    (kinds.contains(&words) && !is_part).then_some(path)
}
