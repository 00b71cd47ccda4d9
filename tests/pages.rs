//! The rules of the pages that people read: links, the book's contents, length, words that nobody writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::house_rules::{all_rust_files, root};

/// All of README.md and docs/ together.
const MOST_WORDS: usize = 45_000;

/// Returns the pages that people read: directory, file and contents of each.
fn pages() -> Vec<(PathBuf, PathBuf, String)> {
    let root = root();
    let directories = [
        "",
        "docs",
        "docs/algorithms",
        "docs/results",
        "docs/upstream",
        "transport",
        "transport/noq",
    ];
    let mut pages = Vec::new();
    for directory in directories.map(|directory| root.join(directory)) {
        for entry in fs::read_dir(&directory).expect("a readable directory") {
            let page = entry.expect("a readable entry").path();
            if page.extension().is_some_and(|extension| extension == "md") {
                let text = fs::read_to_string(&page).expect("a readable page");
                pages.push((directory.clone(), page, text));
            }
        }
    }
    pages.sort();
    pages
}

/// README.md and the book's pages.
fn book() -> Vec<(PathBuf, String)> {
    let (docs, readme) = (root().join("docs"), root().join("README.md"));
    let is_in_book = |page: &PathBuf| page.starts_with(&docs) || *page == readme;
    let pages = pages().into_iter().map(|(_, page, text)| (page, text));
    pages.filter(|(page, _)| is_in_book(page)).collect()
}

/// A page's lines that are no code between fences.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// The anchor that mdBook and forges give a heading: its letters and digits, with hyphens for spaces.
fn anchor(heading: &str) -> String {
    let mut anchor = String::new();
    for c in heading.trim().chars() {
        match c {
            ' ' => anchor.push('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => anchor.extend(c.to_lowercase()),
            _ => {}
        }
    }
    anchor
}

/// The anchors of a page. A heading that stands twice gets a number.
fn anchors(text: &str) -> Vec<String> {
    let mut times = BTreeMap::new();
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let anchors = headings.map(|(_, line)| anchor(line.trim_start_matches('#')));
    let numbered = anchors.map(|anchor| {
        let before = times.entry(anchor.clone()).or_insert(0);
        *before += 1;
        match *before {
            1 => anchor,
            n => format!("{anchor}-{}", n - 1),
        }
    });
    numbered.collect()
}

/// `path` without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

/// What is wrong with the links of these pages: files and anchors that are not there.
fn broken_links(pages: &[(PathBuf, PathBuf, String)]) -> Vec<String> {
    let anchors: BTreeMap<&Path, Vec<String>> = pages
        .iter()
        .map(|(_, page, text)| (page.as_path(), anchors(text)))
        .collect();
    let mut broken = Vec::new();
    for (directory, page, text) in pages {
        // A link may break its line.
        let lines: Vec<&str> = prose(text).map(|(_, line)| line).collect();
        for link in lines.join("\n").split("](").skip(1) {
            let link = link.split([')', ' ']).next().unwrap_or_default();
            if link.contains(':') {
                continue;
            }
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => plain(&directory.join(file)),
            };
            if !target.exists() {
                broken.push(format!("{} links to {link}: no file", page.display()));
            } else if !wanted.is_empty() {
                let known = anchors.get(target.as_path());
                if !known.is_some_and(|known| known.iter().any(|anchor| anchor == wanted)) {
                    broken.push(format!("{} links to {link}: no heading", page.display()));
                }
            }
        }
    }
    broken
}

#[test]
fn links_between_pages_lead_to_files_and_headings() {
    let broken = broken_links(&pages());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_link_to_a_heading_that_is_not_there_is_found() {
    let page = |text: &str| vec![(root(), root().join("README.md"), text.to_owned())];
    let good = "# A page\n## Two `words`, more\n[a](#two-words-more) [b](README.md#a-page)\n";
    assert_eq!(broken_links(&page(good)), Vec::<String>::new());
    for bad in ["[a](#two)", "[a](nowhere.md)", "[a](README.md#a\n)"] {
        assert_eq!(broken_links(&page(bad)).len(), 1, "{bad}");
    }
}

#[test]
fn the_book_has_every_page() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("the book's contents");
    for (page, _) in book() {
        let Ok(name) = page.strip_prefix(&docs) else {
            continue;
        };
        let name = name.display().to_string();
        assert!(
            name == "SUMMARY.md" || summary.contains(&format!("]({name})")),
            "docs/SUMMARY.md lacks {name}"
        );
    }
}

#[test]
fn the_readme_and_the_book_have_at_most_45_000_words() {
    let count = |text: &str| text.split_whitespace().count();
    let mut pages: Vec<(usize, PathBuf)> = book()
        .into_iter()
        .map(|(page, text)| (count(&text), page))
        .collect();
    pages.sort();
    let words: usize = pages.iter().map(|(words, _)| words).sum();
    let longest = pages.iter().rev().take(5);
    let longest: Vec<String> = longest
        .map(|(words, page)| format!("{words} {}", page.display()))
        .collect();
    assert!(
        words <= MOST_WORDS,
        "{words} words, {MOST_WORDS} allowed; the longest: {}",
        longest.join(", ")
    );
}

#[test]
fn the_readme_and_the_changelog_have_at_most_120_lines() {
    for page in ["README.md", "CHANGELOG.md"] {
        let text = fs::read_to_string(root().join(page)).expect("a readable page");
        let lines = text.lines().count();
        assert!(lines <= 120, "{page} has {lines} lines");
    }
}

#[test]
fn source_files_that_pages_name_with_their_directory_are_there() {
    let files = all_rust_files();
    let root = root();
    // Outside the workspace a file is named from the root. CONTRIBUTING.md has a NAME to replace.
    let is_there = |name: &str| {
        let ours = files.iter().any(|file| file.ends_with(name));
        ours || root.join(name).exists() || name.contains("NAME")
    };
    let mut found = 0;
    for (_, page, text) in pages() {
        for prose in text.split("```").step_by(2) {
            let named = prose.split('`').skip(1).step_by(2);
            for name in named.filter(|name| name.contains('/') && name.ends_with(".rs")) {
                assert!(
                    is_there(name),
                    "{} names {name}, which is not there",
                    page.display()
                );
                found += 1;
            }
        }
    }
    assert!(found >= 20, "{found} source files named");
}
