//! Recorded networks: a folder of mahimahi's packet-delivery traces, played as a group of cases.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_testbed::report::page::{environment, render};
use evenkeel_testbed::scenario::TraceFile;
use minijinja::context;
use minijinja::value::Value;
use serde::{Deserialize, Serialize};

use super::random::queueing_aim_ms;

/// The name of their group, and of the folder of traces beside the scenarios of a league's results.
pub(crate) const TRACES: &str = "traces";

/// How long a network is played, and the beginning that does not count.
const DURATION: Duration = Duration::from_secs(60);
const WARMUP: Duration = Duration::from_secs(10);

/// How the files of a pair end: the way there and the way back.
const PAIRS: [(&str, &str); 2] = [(".down", ".up"), ("-down.pps", "-up.pps")];

/// Largest trace, as in scenarios.
const MAX_BYTES: u64 = 256 << 20;

/// The longest name of a network: a scenario's has 64 characters, of which the group takes seven.
const MAX_NAME: usize = 57;

/// The file of their group, of what was found.
const TEMPLATE: &str = include_str!("../../league/traces.toml.jinja");

/// What a trace does not say of its network.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bottleneck {
    /// Delay of either way, in milliseconds.
    pub delay_ms: f64,
    /// Room of the queue of either way.
    pub room: Room,
}

/// Room of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Room {
    /// In packets.
    Packets(u64),
    /// In bytes.
    Bytes(u64),
}

/// The file of the other way of a network with this one; empty if there can be none.
fn other_way(name: &str) -> String {
    let ends = PAIRS
        .iter()
        .flat_map(|(there, back)| [(there, back), (back, there)]);
    let mut others =
        ends.filter_map(|(own, other)| Some(name.strip_suffix(own)?.to_owned() + other));
    others.next().unwrap_or_default()
}

/// The recorded networks of a folder, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recordings {
    networks: BTreeMap<String, Recording>,
}

/// A recorded network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Recording {
    /// Where it was found.
    folder: PathBuf,
    there: Trace,
    /// If it is not the same as there.
    back: Option<Trace>,
}

/// A trace's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Its name, without directories.
    pub(crate) name: String,
    pub(crate) contents: Arc<str>,
}

impl Recordings {
    /// All traces in `folder`, and a line for each file that is none. `NAME.down` and `NAME.up`, or
    /// `NAME-down.pps` and `NAME-up.pps`, are the ways there and back of one network; any other file is
    /// a network of the same both ways. Hidden files and folders are left out.
    ///
    /// # Errors
    /// In one line, if the folder cannot be read or has no trace.
    pub(crate) fn read(folder: &Path) -> Result<(Self, Vec<String>), String> {
        let told = |path: &Path, error: &dyn Display| format!("{}: {error}", path.display());
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut entries = entries.map_err(|error| {
            format!(
                "{}; name a folder of packet-delivery traces",
                told(folder, &error)
            )
        })?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let (mut traces, mut broken) = (BTreeMap::new(), Vec::new());
        let mut unusable = BTreeSet::new();
        for path in entries.iter().map(fs::DirEntry::path) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() || name.starts_with('.') {
                continue;
            }
            match Trace::read(&path, &name) {
                Ok(trace) => drop(traces.insert(name.into_owned(), trace)),
                Err(why) => {
                    broken.push(told(&path, &why));
                    unusable.insert(name.into_owned());
                }
            }
        }
        let mut networks = BTreeMap::new();
        // The way there comes before the way back, which it takes along.
        while let Some((name, there)) = traces.pop_first() {
            let pair = PAIRS.iter().find_map(|(end, back)| {
                let stem = name.strip_suffix(end)?;
                Some((stem, traces.remove(&format!("{stem}{back}"))?))
            });
            let (name, back) = match pair {
                Some((stem, back)) => (stem.to_owned(), Some(back)),
                None if unusable.contains(&other_way(&name)) => {
                    let message = "its other way is no trace";
                    broken.push(told(&folder.join(&name), &message));
                    continue;
                }
                None => (name, None),
            };
            let network = Recording {
                folder: folder.to_owned(),
                there,
                back,
            };
            if networks.insert(name.clone(), network).is_some() {
                let message = format!("two networks are named {name}; rename a file");
                return Err(told(folder, &message));
            }
        }
        if networks.is_empty() {
            let why = broken
                .first()
                .map_or(String::new(), |line| format!(" ({line})"));
            let message = "no file in it is a packet-delivery trace";
            let message = format!("{message}{why}; put mahimahi's traces there");
            return Err(told(folder, &message));
        }
        Ok((Self { networks }, broken))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Recording> {
        self.networks.get(name)
    }

    /// Keeps those of `names` alone.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        self.networks.retain(|name, _| keeps(name));
    }

    /// Adds the networks of others. If both have one of a name and they differ, the name is the error.
    pub(crate) fn join(&mut self, other: Self) -> Result<(), String> {
        for (name, network) in other.networks {
            let known = self
                .networks
                .entry(name.clone())
                .or_insert_with(|| network.clone());
            if !known.files().eq(network.files()) {
                return Err(name);
            }
        }
        Ok(())
    }

    /// All files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Trace> {
        self.networks.values().flat_map(Recording::files)
    }

    /// The file of their group, behind `bottleneck`.
    ///
    /// # Errors
    /// If one is no trace, which [`Recordings::read`] rules out.
    pub(crate) fn file(&self, bottleneck: &Bottleneck) -> Result<String, String> {
        let networks = self.networks.iter();
        let networks = networks.map(|(name, network)| network.case(name, bottleneck));
        let mut environment = environment(&[("traces.toml", TEMPLATE)]);
        environment.add_filter("n", |number: f64| number.to_string());
        let page = context! {
            networks => networks.collect::<Result<Vec<_>, _>>()?,
            folder => TRACES,
            duration_s => DURATION.as_secs(),
            warmup_s => WARMUP.as_secs(),
            delay_ms => bottleneck.delay_ms,
            queue => match bottleneck.room {
                Room::Packets(packets) => format!("queue_packets = {packets}"),
                Room::Bytes(bytes) => format!("queue_bytes = {bytes}"),
            },
            room => match bottleneck.room {
                Room::Packets(packets) => format!("{packets} packets"),
                Room::Bytes(bytes) => format!("{bytes} bytes"),
            },
        };
        Ok(render(&environment, "traces.toml", page))
    }
}

impl Recording {
    /// One or two.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Trace> {
        std::iter::once(&self.there).chain(&self.back)
    }

    /// The directory of a scenario for which it is in the folder [`TRACES`].
    pub(crate) fn beside(&self) -> &Path {
        self.folder.parent().unwrap_or(Path::new(""))
    }

    /// Makes a trace that was read again share its memory with this one.
    pub(crate) fn share(&self, trace: &mut TraceFile) {
        let known = self.files().find(|one| one.contents == trace.contents);
        if let Some(known) = known {
            trace.contents = known.contents.clone();
        }
    }

    /// What its `[[cases]]` is made of.
    fn case(&self, name: &str, bottleneck: &Bottleneck) -> Result<Value, String> {
        let there = &self.there;
        let offered_bps = there.offered_bps()?;
        Ok(context! {
            name,
            there => there.name,
            back => self.back.as_ref().map(|back| &back.name),
            offered_bps,
            mbps => format!("{:.1}", offered_bps / 1e6),
            queueing_ms => queueing_aim_ms(offered_bps, 2.0 * bottleneck.delay_ms),
        })
    }
}

impl Trace {
    fn read(path: &Path, name: &str) -> Result<Self, String> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if !name.chars().all(allowed) || name.len() > MAX_NAME {
            return Err(format!(
                "use up to {MAX_NAME} of A-Z a-z 0-9 - _ . for its name"
            ));
        }
        if !path.is_file() {
            return Err("it is not a regular file".into());
        }
        let mut contents = String::new();
        fs::File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut contents))
            .map_err(|error| error.to_string())?;
        if contents.len() as u64 > MAX_BYTES {
            return Err(format!("it is longer than {MAX_BYTES} bytes"));
        }
        let trace = Self {
            name: name.to_owned(),
            contents: contents.into(),
        };
        if trace.offered_bps()? == 0.0 {
            let [from_s, to_s] = [WARMUP, DURATION].map(|time| time.as_secs());
            return Err(format!("it offers nothing from {from_s} to {to_s} s"));
        }
        Ok(trace)
    }

    /// In the time that counts, in bits of IP packets per second.
    fn offered_bps(&self) -> Result<f64, String> {
        let file = TraceFile {
            path: self.name.clone().into(),
            contents: self.contents.clone(),
        };
        file.offered_bps(WARMUP, DURATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTTLENECK: Bottleneck = Bottleneck {
        delay_ms: 20.0,
        room: Room::Bytes(150_000),
    };

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, contents) in files {
            fs::write(folder.path().join(name), contents).unwrap();
        }
        folder
    }

    #[test]
    fn a_pair_is_a_network_of_two_ways_and_any_other_file_one_of_the_same_both_ways() {
        let trace = "1\n2\n4\n";
        let names = [
            "home.down",
            "home.up",
            "office.down",
            "lte",
            ".hidden",
            "A-down.pps",
            "A-up.pps",
        ];
        let folder = folder(&names.map(|name| (name, trace)));
        fs::create_dir(folder.path().join("more")).unwrap();
        let (found, broken) = Recordings::read(folder.path()).unwrap();
        assert_eq!(broken, [""; 0]);
        let networks = found.networks.iter().map(|(name, network)| {
            let files = network.files().map(|trace| trace.name.as_str());
            (name.as_str(), files.collect::<Vec<_>>())
        });
        let expected = [
            ("A", vec!["A-down.pps", "A-up.pps"]),
            ("home", vec!["home.down", "home.up"]),
            ("lte", vec!["lte"]),
            ("office.down", vec!["office.down"]),
        ];
        assert_eq!(networks.collect::<Vec<_>>(), expected);
        let text = found.file(&BOTTLENECK).unwrap();
        assert!(text.contains("queue_bytes = 150000"), "{text}");
        // 3 opportunities in 4 ms.
        assert!(text.contains("capacity_bps = 9000000"), "{text}");
    }

    #[test]
    fn what_is_no_trace_is_left_out_with_a_line_that_names_the_file() {
        let files = [
            ("README", "Three traces.\n"),
            ("a b", "1\n"),
            ("late", "1\n100000\n"),
            ("lte", "1\n"),
            ("wifi.down", ""),
            ("wifi.up", "1\n"),
        ];
        let folder = folder(&files);
        let (found, broken) = Recordings::read(folder.path()).unwrap();
        assert_eq!(found.networks.len(), 1);
        for (line, words) in broken.iter().zip([
            "README: line 1: expected whole milliseconds, found \"Three traces.\"",
            "a b: use up to 57 of A-Z",
            "late: it offers nothing from 10 to 60 s",
            "wifi.down: ",
            "wifi.up: its other way is no trace",
        ]) {
            assert!(line.contains(words), "{words:?} in {line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
        assert_eq!(broken.len(), 5);
    }

    #[test]
    fn a_folder_without_traces_or_with_two_of_one_name_is_refused() {
        let refused = |files: &[(&str, &str)], words: &str| {
            let folder = folder(files);
            let error = Recordings::read(folder.path()).expect_err("no trace");
            assert!(error.contains(words), "{words:?} in {error}");
        };
        refused(&[], "no file in it is a packet-delivery trace");
        refused(
            &[("README", "x\n")],
            "no file in it is a packet-delivery trace (",
        );
        refused(
            &[("a", "1\n"), ("a.down", "1\n"), ("a.up", "1\n")],
            "two networks are named a; rename a file",
        );
    }
}
