//! Where a crate names what only some systems have, read off its sources.
//!
//! A module counts as gated if a `#[cfg(...)]` on its `mod` line, or on that of a module above it, names a
//! system or tests; an item if it has such an attribute itself. `not(...)` gates nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::modules::{is_name, module_path, tokens, use_tree};

/// Beginnings of paths that are of one system.
const OF_ONE_SYSTEM: &[&str] = &[
    "libc::",
    "nix::",
    "rustix::",
    "std::os::",
    "tokio::io::unix::",
    "tokio::net::Unix",
    "tokio::signal::unix::",
    "tokio::signal::windows::",
];

/// What begins an item: a comma does not end it.
const ITEMS: &[&str] = &[
    "async", "const", "enum", "extern", "fn", "impl", "mod", "pub", "static", "struct", "trait",
    "type", "unsafe", "use",
];

/// What these files of a `src` directory name of one system without a gate: a line for each file.
pub(crate) fn ungated(src: &Path, files: &[impl AsRef<Path>]) -> Vec<String> {
    let read = files.iter().map(|file| {
        let text = fs::read_to_string(file).expect("a readable source file");
        let within = file.as_ref().strip_prefix(src).expect("a file below src");
        (module_path(within), text)
    });
    let lines = ungated_in(read);
    lines
        .into_iter()
        .map(|line| format!("{}: {line}", src.display()))
        .collect()
}

fn ungated_in(files: impl Iterator<Item = (Vec<String>, String)>) -> Vec<String> {
    let mut gated = BTreeSet::new();
    let mut named = Vec::new();
    for (module, text) in files {
        let (tokens, modules) = without_gated(&tokens(&text));
        gated.extend(
            modules
                .into_iter()
                .map(|name| [&module[..], &[name]].concat()),
        );
        named.push((module, paths(&tokens)));
    }
    let mut lines = Vec::new();
    for (module, paths) in named {
        let is_gated = (0..=module.len()).any(|depth| gated.contains(&module[..depth]));
        let is_special = |path: &&String| OF_ONE_SYSTEM.iter().any(|of| path.starts_with(of));
        if let Some(path) = paths.iter().find(is_special).filter(|_| !is_gated) {
            lines.push(format!("{} names {path}", module.join("::")));
        }
    }
    lines
}

/// Without the items that are gated; the names of modules among them.
fn without_gated(tokens: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut rest = tokens;
    while let Some(first) = rest.first() {
        let attribute = attribute(rest);
        if !is_gate(attribute) {
            kept.push(first.clone());
            rest = &rest[1..];
            continue;
        }
        rest = &rest[attribute.len()..];
        while let more @ [_, ..] = self::attribute(rest) {
            rest = &rest[more.len()..];
        }
        let head = rest
            .iter()
            .take_while(|token| *token != ";" && *token != "{");
        modules.extend(head.skip_while(|token| *token != "mod").nth(1).cloned());
        rest = &rest[item(rest)..];
    }
    (kept, modules)
}

/// The attribute with which the tokens begin; empty if they begin otherwise.
fn attribute(tokens: &[String]) -> &[String] {
    if !(tokens.len() > 1 && tokens[0] == "#" && tokens[1] == "[") {
        return &[];
    }
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        depth += step(token);
        depth == 0 && token == "]"
    });
    &tokens[..end.map_or(0, |end| end + 1)]
}

fn is_gate(attribute: &[String]) -> bool {
    let has = |words: &[&str]| {
        attribute
            .iter()
            .any(|token| words.contains(&token.as_str()))
    };
    attribute.get(2).is_some_and(|token| token == "cfg")
        && has(&["linux", "target_os", "test", "unix", "windows"])
        && !has(&["not"])
}

/// The length of the item, statement, variant or arm with which the tokens begin.
fn item(tokens: &[String]) -> usize {
    let is_item = tokens
        .first()
        .is_some_and(|first| ITEMS.contains(&first.as_str()));
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        depth += step(token);
        match token.as_str() {
            _ if depth < 0 => return at,
            ";" | "}" if depth == 0 => return at + 1,
            "," if depth == 0 && !is_item => return at + 1,
            _ => {}
        }
    }
    tokens.len()
}

fn step(token: &str) -> i32 {
    match token {
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

/// The paths that a file names, each ended by `::`.
fn paths(tokens: &[String]) -> Vec<String> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at] == "use" && tokens.get(at + 1).is_none_or(|next| next != "<") {
            let mut leaves = Vec::new();
            at = use_tree(tokens, at + 1, &[], &mut leaves);
            paths.extend(leaves.iter().map(|(_, path)| path.join("::") + "::"));
        } else if is_name(&tokens[at]) {
            let mut path = tokens[at].clone() + "::";
            while tokens.get(at + 1).is_some_and(|next| next == "::")
                && tokens.get(at + 2).is_some_and(|next| is_name(next))
            {
                path += &tokens[at + 2];
                path += "::";
                at += 2;
            }
            // A name alone is a local one.
            if path.matches("::").count() > 1 {
                paths.push(path);
            }
        }
        at += 1;
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        ungated_in(files.iter().map(|(path, text)| {
            let path = path.split("::").filter(|part| !part.is_empty());
            (path.map(String::from).collect(), (*text).to_owned())
        }))
    }

    #[test]
    fn what_is_of_one_system_is_found_in_imports_and_in_expressions() {
        let lines = found(&[
            ("", "mod a; mod b; mod c; mod d;"),
            ("a", "use std::{fmt, os::unix::fs::MetadataExt};"),
            ("b", "fn f() { rustix::time::now() }"),
            ("c", "use tokio::net::{TcpStream, UnixStream as S};"),
            ("d", "use rustix; fn libc() { nix(); libc() } // libc::open"),
        ]);
        let expected = [
            "a names std::os::unix::fs::MetadataExt::",
            "b names rustix::time::now::",
            "c names tokio::net::UnixStream::",
            "d names rustix::",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_gate_on_an_item_a_module_or_one_above_covers_what_is_in_it() {
        let lines = found(&[
            (
                "",
                "#[cfg(target_os = \"linux\")] #[path = \"x.rs\"] pub mod a; mod b; #[cfg(unix)] mod c { use libc::open; }",
            ),
            ("a::deep", "use rustix::fs;"),
            (
                "b",
                "enum Kind { #[cfg(unix)] Fd(std::os::fd::OwnedFd), Other } #[cfg(test)] mod tests { use nix::sys; }",
            ),
        ]);
        assert_eq!(lines, Vec::<String>::new());
    }

    #[test]
    fn a_gate_ends_with_its_item_and_the_opposite_is_none() {
        let lines = found(&[
            (
                "",
                "mod a; #[cfg(not(unix))] mod b; #[cfg(feature = \"unix\")] mod c;",
            ),
            (
                "a",
                "enum Kind { #[cfg(unix)] One, Two(std::os::fd::OwnedFd) }",
            ),
            ("b", "use libc::open;"),
            ("c", "use libc::open;"),
        ]);
        assert_eq!(lines.len(), 3, "{lines:?}");
    }
}
