//! The rules of the pages that people read: links, the book's contents, length, words that nobody writes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::house_rules::{all_rust_files, root};

/// Of README.md and the pages in docs/ and docs/algorithms/ together; a word has a letter or a digit.
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
    for (directory, page_of_link, text) in pages {
        // A link may break its line.
        let lines: Vec<&str> = prose(text).map(|(_, line)| line).collect();
        for link in lines.join("\n").split("](").skip(1) {
            let link = link.split([')', ' ']).next().unwrap_or_default();
            if link.contains(':') {
                continue;
            }
            let (file, wanted) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page_of_link.clone(),
                file => plain(&directory.join(file)),
            };
            if !target.exists() {
                broken.push(format!(
                    "{} links to {link}: no file",
                    page_of_link.display()
                ));
            } else if !wanted.is_empty() && target.extension().is_some_and(|e| e == "html") {
                let page = fs::read_to_string(&target).expect("a readable page");
                if !page.contains(&format!("id=\"{wanted}\"")) {
                    broken.push(format!(
                        "{} links to {link}: no such id",
                        page_of_link.display()
                    ));
                }
            } else if !wanted.is_empty() {
                let known = anchors.get(target.as_path());
                if !known.is_some_and(|known| known.iter().any(|anchor| anchor == wanted)) {
                    broken.push(format!(
                        "{} links to {link}: no heading",
                        page_of_link.display()
                    ));
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
    let is_word = |word: &&str| word.contains(char::is_alphanumeric);
    let count = |text: &str| text.split_whitespace().filter(is_word).count();
    let elsewhere = ["docs/results", "docs/upstream"].map(|directory| root().join(directory));
    let mut pages: Vec<(usize, PathBuf)> = book()
        .into_iter()
        .filter(|(page, _)| {
            !elsewhere
                .iter()
                .any(|directory| page.starts_with(directory))
        })
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
    let upstream = root.join("docs/upstream");
    for (_, page, text) in pages() {
        // Documents for other projects name their files.
        if page.starts_with(&upstream) {
            continue;
        }
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

/// The words of a text in lower case with their lines; `None` where a clause ends.
fn words(text: &str) -> Vec<(usize, Option<String>)> {
    let mut words = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_start().trim_start_matches(['/', '!']);
        let mut word = String::new();
        for c in line.to_lowercase().chars().chain([' ']) {
            if c.is_alphanumeric() || c == '\'' {
                word.push(c);
                continue;
            }
            if !word.is_empty() {
                words.push((number, Some(std::mem::take(&mut word))));
            }
            if ".,;:|(){}[]\"".contains(c) {
                words.push((number, None));
            }
        }
    }
    words
}

/// Whether a phrase stands at the beginning of these words.
fn begins(words: &[(usize, Option<String>)], phrase: &[&str]) -> bool {
    let Some((first, rest)) = phrase.split_first() else {
        return true;
    };
    let is_word = |at: usize| words.get(at).is_some_and(|(_, word)| word.is_some());
    match *first {
        "*" => (1..=6)
            .take_while(|length| is_word(length - 1))
            .any(|length| begins(&words[length..], rest)),
        first => {
            words
                .first()
                .is_some_and(|(_, word)| word.as_deref() == Some(first))
                && begins(&words[1..], rest)
        }
    }
}

/// The lines of a text with banned phrases, and the phrases.
fn banned<'p>(text: &str, phrases: &[&'p str]) -> Vec<(usize, &'p str)> {
    let words = words(text);
    let split: Vec<(&str, Vec<&str>)> = phrases
        .iter()
        .map(|phrase| (*phrase, phrase.split(' ').collect()))
        .collect();
    let mut found = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        let here = split
            .iter()
            .filter(|(_, phrase)| begins(&words[at..], phrase));
        found.extend(here.map(|(phrase, _)| (*line, *phrase)));
    }
    found
}

#[test]
fn no_page_and_no_source_has_a_phrase_that_nobody_writes() {
    let root = root();
    let list = fs::read_to_string(root.join("tests/banned-phrases.txt")).expect("the list");
    let phrases: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(phrases.len() >= 5, "{phrases:?}");
    let mut files: Vec<PathBuf> = pages().into_iter().map(|(_, page, _)| page).collect();
    files.extend(all_rust_files());
    let mut found = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).expect("a readable file");
        let name = file
            .strip_prefix(&root)
            .unwrap_or(file)
            .display()
            .to_string();
        // This file has examples.
        for (line, phrase) in banned(&text, &phrases) {
            if name != "tests/pages.rs" {
                found.push(format!("{name}:{line}: {phrase}"));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_banned_phrase_is_found_over_line_ends_and_in_names_of_tests() {
    let phrases = ["so many", "what * tells"];
    let text = "/// At most so\n/// many. What a peer\n/// tells.\nfn so_many_packets() {}\n";
    let found = banned(text, &phrases);
    assert_eq!(found, [(1, "so many"), (2, "what * tells"), (4, "so many")]);
    assert_eq!(banned("What came, tells. So, many.", &phrases), []);
}

/// Files that a datagram or a signal passes at most.
const MOST_FILES: usize = 12;

#[test]
fn a_datagram_and_a_signal_pass_at_most_12_files_and_each_has_its_function() {
    let page = fs::read_to_string(root().join("docs/architecture.md")).expect("a readable page");
    let section = page
        .split("## The files that a datagram and a signal pass")
        .nth(1);
    let section = section.and_then(|rest| rest.split("\n## ").next());
    let mut counts = Vec::new();
    for line in section.expect("the section").lines() {
        let Some((number, entry)) = line.split_once(". `") else {
            continue;
        };
        let mut names = entry.split('`').step_by(2);
        let (Some(file), Some(function)) = (names.next(), names.next()) else {
            panic!("{line}: a file, then its function");
        };
        let text = fs::read_to_string(root().join(file)).unwrap_or_default();
        let is_there = ["(", "<"].map(|end| text.contains(&format!("fn {function}{end}")));
        assert!(
            is_there.contains(&true),
            "{file} has no function {function}"
        );
        match number {
            "1" => counts.push(1),
            _ => *counts.last_mut().expect("the first is 1") += 1,
        }
        assert_eq!(
            counts.last().map(ToString::to_string).as_deref(),
            Some(number)
        );
    }
    assert!(
        counts.len() == 2 && counts.iter().all(|count| *count <= MOST_FILES),
        "{counts:?}"
    );
}
