//! Which modules of a crate import which, read off its sources.
//!
//! A small scanner instead of a parser: it knows comments, literals, `use` trees, and paths that begin with
//! `crate`, `super` or `self`. What stands behind `#[cfg(test)]` does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A path from the crate's root.
type ModulePath = Vec<String>;

/// The modules of a crate, of which each file is one.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    /// The paths that each module names.
    named: BTreeMap<ModulePath, BTreeSet<ModulePath>>,
    /// What each module brings into scope by `use`, and where it is from.
    imported: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
    /// Modules that only tests have.
    tests: BTreeSet<ModulePath>,
}

impl Modules {
    /// Reads these files of a `src` directory. `main.rs` is a crate of its own.
    pub(crate) fn read(src: &Path, files: &[impl AsRef<Path>]) -> Self {
        let mut modules = Self::default();
        for file in files {
            let file = file.as_ref().strip_prefix(src).expect("a file below src");
            let module = module_path(file);
            if module != ["main"] {
                let text = fs::read_to_string(src.join(file)).expect("a readable source file");
                modules.add(module, &text);
            }
        }
        modules
    }

    fn add(&mut self, module: ModulePath, text: &str) {
        let mut tests = Vec::new();
        let tokens = without_tests(tokens(text), &mut tests);
        let tests = tests
            .into_iter()
            .map(|name| [&module[..], &[name]].concat());
        self.tests.extend(tests);
        let mut named = BTreeSet::new();
        let mut imported = BTreeMap::new();
        let mut at = 0;
        while at < tokens.len() {
            let previous = at.checked_sub(1).map_or("", |before| &tokens[before]);
            match tokens[at].as_str() {
                // `impl Future + use<'a>` imports nothing.
                "use" if tokens.get(at + 1).is_none_or(|next| next != "<") => {
                    let mut leaves = Vec::new();
                    at = use_tree(&tokens, at + 1, &[], &mut leaves);
                    for (name, path) in leaves {
                        let path = absolute(&module, &path);
                        named.insert(path.clone());
                        imported.insert(name, path);
                    }
                }
                // `pub(in crate::a)` imports nothing.
                "crate" | "super" | "self" if previous != "::" && previous != "in" => {
                    let mut path = vec![tokens[at].clone()];
                    while at + 2 < tokens.len()
                        && tokens[at + 1] == "::"
                        && is_name(&tokens[at + 2])
                    {
                        path.push(tokens[at + 2].clone());
                        at += 2;
                    }
                    if path.len() > 1 {
                        named.insert(absolute(&module, &path));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.named.insert(module.clone(), named);
        self.imported.insert(module, imported);
    }

    /// The module that a path leads to, through what modules on its way import from others.
    fn resolve(&self, path: &[String], hops: usize) -> Option<ModulePath> {
        let depth = (0..=path.len()).rfind(|depth| self.named.contains_key(&path[..*depth]))?;
        let (module, rest) = path.split_at(depth);
        let origin = rest
            .first()
            .and_then(|name| self.imported[module].get(name));
        match origin {
            Some(origin) if hops > 0 => {
                let path = [origin.as_slice(), &rest[1..]].concat();
                self.resolve(&path, hops - 1)
            }
            _ => Some(module.to_vec()),
        }
    }

    /// Sibling modules that import each other in a ring, themselves or by modules below them: a line a ring,
    /// as `backend: docker -> netns -> docker`.
    pub(crate) fn rings(&self) -> Vec<String> {
        let mut imports: BTreeMap<&[String], BTreeMap<&str, BTreeSet<String>>> = BTreeMap::new();
        let is_test = |module: &[String]| self.tests.iter().any(|test| module.starts_with(test));
        for (module, named) in self.named.iter().filter(|(module, _)| !is_test(module)) {
            for target in named.iter().filter_map(|path| self.resolve(path, 5)) {
                let shared = module
                    .iter()
                    .zip(&target)
                    .take_while(|(a, b)| a == b)
                    .count();
                // A parent may use its children, and they what it has.
                if shared < module.len().min(target.len()) {
                    let siblings = imports.entry(&module[..shared]).or_default();
                    let target = target[shared].clone();
                    siblings.entry(&module[shared]).or_default().insert(target);
                }
            }
        }
        let mut rings = Vec::new();
        for (parent, siblings) in &imports {
            let mut done = BTreeSet::new();
            for start in siblings.keys() {
                if let Some(ring) = ring(siblings, start, &done) {
                    rings.push(format!("{}: {}", parent.join("::"), ring.join(" -> ")));
                    done.extend(ring);
                }
            }
        }
        rings
    }
}

/// The shortest ring through `start` that avoids modules of rings that are known.
fn ring<'a>(
    imports: &'a BTreeMap<&str, BTreeSet<String>>,
    start: &'a str,
    known: &BTreeSet<&str>,
) -> Option<Vec<&'a str>> {
    let mut ways = vec![vec![start]];
    let mut seen = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let last = way.last().and_then(|last| imports.get(last));
            for next in last.into_iter().flatten().map(String::as_str) {
                let further = [way.as_slice(), &[next]].concat();
                if next == start {
                    return Some(further);
                }
                if !known.contains(next) && seen.insert(next) {
                    longer.push(further);
                }
            }
        }
        ways = longer;
    }
    None
}

/// The module of a file below `src`.
pub(crate) fn module_path(file: &Path) -> ModulePath {
    let path = file.with_extension("");
    let parts = path.iter().map(|part| part.to_string_lossy().into_owned());
    let mut module: ModulePath = parts.collect();
    if ["lib", "mod"].contains(&module.last().map_or("", String::as_str)) {
        module.pop();
    }
    module
}

/// A path as it is written in a module, from the crate's root; what is no module of the crate stays as it is.
fn absolute(module: &[String], path: &[String]) -> ModulePath {
    let mut base = module.to_vec();
    let mut rest = path;
    loop {
        match rest.first().map(String::as_str) {
            Some("crate") => base.clear(),
            Some("super") => drop(base.pop()),
            Some("self") => {}
            _ => break,
        }
        rest = &rest[1..];
    }
    [base.as_slice(), rest].concat()
}

/// Reads one tree of a `use`; returns where it ends. A leaf is the name in scope, and the path.
pub(crate) fn use_tree(
    tokens: &[String],
    mut at: usize,
    prefix: &[String],
    leaves: &mut Vec<(String, ModulePath)>,
) -> usize {
    let mut path = prefix.to_vec();
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = use_tree(tokens, at, &path, leaves);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "," | ";" | "}" => break,
            "::" => at += 1,
            "as" => {
                leaves.push((tokens[at + 1].clone(), path));
                return at + 2;
            }
            // `use a::{self}` names `a`.
            "self" if !path.is_empty() => at += 1,
            "*" => at += 1,
            name => {
                path.push(name.into());
                at += 1;
            }
        }
    }
    leaves.push((path.last().cloned().unwrap_or_default(), path));
    at
}

pub(crate) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Without the items behind `#[cfg(test)]`; the names of modules among them.
fn without_tests(tokens: Vec<String>, modules: &mut Vec<String>) -> Vec<String> {
    let test = ["#", "[", "cfg", "(", "test", ")", "]"].map(String::from);
    let mut kept = Vec::new();
    let mut rest = tokens.as_slice();
    while let Some(first) = rest.first() {
        if rest.starts_with(&test) {
            // `mod tests;`, or `pub(crate) mod testing;`
            let item = rest
                .iter()
                .take_while(|token| *token != ";" && *token != "{");
            let name = item.skip_while(|token| *token != "mod").nth(1);
            modules.extend(name.cloned());
            let mut depth = 0;
            let end = rest.iter().position(|token| {
                depth += match token.as_str() {
                    "{" => 1,
                    "}" => -1,
                    _ => 0,
                };
                depth == 0 && (token == "}" || token == ";")
            });
            rest = &rest[end.map_or(rest.len(), |end| end + 1)..];
        } else {
            kept.push(first.clone());
            rest = &rest[1..];
        }
    }
    kept
}

/// Names, `::`, and all else one character at a time; comments and literals are left out.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(length) = literal(rest) {
            length
        } else if is_name(rest) {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let length = end.unwrap_or(rest.len());
            tokens.push(rest[..length].into());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".into());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.into());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The length of the string or character that the text begins with, if it does.
fn literal(text: &str) -> Option<usize> {
    let prefix = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let body = &text[prefix..];
    let hashes = body.len() - body.trim_start_matches('#').len();
    if prefix > 0 && text[..prefix].contains('r') && body[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = prefix + hashes + 1;
        return Some(inside + text[inside..].find(&end)? + end.len());
    }
    let quote = body.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let mut characters = body.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            _ if character == quote => return Some(prefix + at + 1),
            // A lifetime.
            _ if quote == '\'' && at > 1 && !body.starts_with("'\\") => return None,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::default();
        for (path, text) in files {
            let path = path.split("::").filter(|part| !part.is_empty());
            modules.add(path.map(String::from).collect(), text);
        }
        modules
    }

    #[test]
    fn a_ring_of_siblings_is_named() {
        let rings = modules(&[
            ("", "mod a; mod b; mod c;"),
            ("a", "use crate::{b::{self, B}, c};"),
            ("b", "fn b<'a>(x: &'a str) { super::c::c('\"') }"),
            ("c", "use std::fmt; use super::a::A as Z;"),
        ])
        .rings();
        assert_eq!(rings, [": a -> c -> a"]);
    }

    #[test]
    fn a_ring_through_modules_below_and_names_that_a_parent_imports_is_found() {
        let rings = modules(&[
            ("", ""),
            ("p", "mod a; mod b; pub use b::B; use self::a::A;"),
            ("p::a", "mod deep;"),
            ("p::a::deep", "use super::super::B;"),
            ("p::b", "use super::A;"),
        ])
        .rings();
        assert_eq!(rings, ["p: a -> b -> a"]);
    }

    #[test]
    fn tests_comments_literals_and_parents_make_no_ring() {
        let rings = modules(&[
            ("", "mod a; mod b; use a::A; pub struct Root; #[cfg(test)] pub(crate) mod testing;"),
            ("testing", "use crate::b::B;"),
            ("a", "use crate::b::B; use super::Root; #[cfg(test)] use crate::testing; pub(in crate::b) fn f() {}"),
            ("b::tests", "use crate::a::A;"),
            (
                "b",
                "// use crate::a;\n/* crate::a::A */ const X: &str = r#\"crate::a\"#; const Y: &str = \"\\\"crate::a\";\n\
                 #[cfg(test)] use crate::a::A; #[cfg(test)] mod tests { use crate::a::A; fn f() {} }",
            ),
        ])
        .rings();
        assert_eq!(rings, Vec::<String>::new());
    }
    #[test]
    fn a_return_type_that_captures_is_no_import() {
        let rings = modules(&[
            ("", "mod a; mod b;"),
            ("a", "fn f() -> impl Fn() + use<> { g(); crate::b::h() }"),
            ("b", "use crate::a::f;"),
        ])
        .rings();
        assert_eq!(rings, [": a -> b -> a"]);
    }
}
