//! Tests that skip themselves where an outside program, a right or a device is missing.
//!
//! [`can_run`] says so in one line for each test and notes it in a file of this run of cargo. The test
//! target `what_was_skipped` reads the file and sums up in one line.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::{env, iter, thread};

/// With this variable set, a test that would skip itself fails.
pub const NOTHING_SKIPPED: &str = "EVENKEEL_NOTHING_SKIPPED";

/// Something outside the workspace that a test needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    what: String,
    how: String,
    met: bool,
}

impl Need {
    /// A need of any kind: what it is, how to get it, and whether it is met.
    #[must_use]
    pub fn new(what: &str, how: &str, met: bool) -> Self {
        let (what, how) = (what.into(), how.into());
        Self { what, how, met }
    }

    /// A program in the `PATH`, and the Debian package that has it.
    #[must_use]
    pub fn program(name: &str, package: &str) -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let met = env::split_paths(&path).any(|directory| directory.join(name).is_file());
        Self::new(name, &format!("apt-get install {package}"), met)
    }

    /// Root that may make network namespaces: `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`.
    #[must_use]
    pub fn root() -> Self {
        const NET_ADMIN: u64 = 1 << 12;
        const SYS_ADMIN: u64 = 1 << 21;
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name| {
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            Some(value.trim().to_owned())
        };
        let capabilities = field("CapEff:").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
        let both = NET_ADMIN | SYS_ADMIN;
        let met = field("Uid:").is_some_and(|ids| ids.starts_with("0\t"))
            && capabilities.is_some_and(|set| set & both == both);
        Self::new("root", "run as root, in a container --privileged", met)
    }

    /// The device that TUN interfaces are made with.
    #[must_use]
    pub fn tun() -> Self {
        let met = Path::new("/dev/net/tun").exists();
        Self::new("/dev/net/tun", "modprobe tun", met)
    }
}

/// Whether all needs of the calling test are met; if not, says so on standard error and notes it.
///
/// # Panics
/// If a need is not met and [`NOTHING_SKIPPED`] is set.
#[track_caller]
#[must_use]
pub fn can_run(needs: &[Need]) -> bool {
    let missing: Vec<_> = needs.iter().filter(|need| !need.met).collect();
    if missing.is_empty() {
        return true;
    }
    let join = |part: fn(&Need) -> &str| {
        let parts: Vec<_> = missing.iter().map(|need| part(need)).collect();
        parts.join(", ")
    };
    let skipped = Skipped {
        target: target(),
        test: test(),
        what: join(|need| &need.what),
        how: join(|need| &need.how),
    };
    let line = format!(
        "{} {}: there is no {} ({})",
        skipped.target, skipped.test, skipped.what, skipped.how
    );
    assert!(
        env::var_os(NOTHING_SKIPPED).is_none(),
        "{NOTHING_SKIPPED} is set, and would be skipped: {line}"
    );
    // eprintln would be captured by the test harness.
    let _ = writeln!(io::stderr(), "skipped: {line}");
    if let Err(error) = skipped.note(&record()) {
        let _ = writeln!(io::stderr(), "{}: {error}", record().display());
    }
    false
}

/// What the tests of this run of cargo skipped so far, in one line.
#[must_use]
pub fn summary() -> String {
    let record = record();
    let text = fs::read_to_string(&record).unwrap_or_default();
    let skipped: BTreeSet<_> = text.lines().filter_map(Skipped::parse).collect();
    summarise(&skipped, &record)
}

/// A test that was skipped: a line of the record, its fields separated by tabs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Skipped {
    target: String,
    test: String,
    what: String,
    how: String,
}

impl Skipped {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t').map(String::from);
        Some(Self {
            target: fields.next()?,
            test: fields.next()?,
            what: fields.next()?,
            how: fields.next()?,
        })
    }

    fn note(&self, record: &Path) -> io::Result<()> {
        fs::create_dir_all(record.parent().unwrap_or(record))?;
        let mut file = OpenOptions::new().create(true).append(true).open(record)?;
        let fields = [&self.target, &self.test, &self.what, &self.how];
        let line = fields.map(String::as_str).join("\t");
        // One write a line, so that lines of several processes do not mix.
        file.write_all(format!("{line}\n").as_bytes())
    }
}

fn summarise(skipped: &BTreeSet<Skipped>, record: &Path) -> String {
    if skipped.is_empty() {
        return "no test was skipped".into();
    }
    let mut by_need: BTreeMap<_, BTreeMap<_, usize>> = BTreeMap::new();
    for one in skipped {
        let targets = by_need.entry((&one.what, &one.how)).or_default();
        *targets.entry(&one.target).or_default() += 1;
    }
    let parts = by_need.iter().map(|((what, how), targets)| {
        let counts: Vec<_> = targets.iter().map(|(t, n)| format!("{n} of {t}")).collect();
        format!("{} without {what} ({how})", counts.join(", "))
    });
    let parts: Vec<_> = parts.collect();
    format!(
        "{} tests were skipped: {}; their names: {}",
        skipped.len(),
        parts.join("; "),
        record.display()
    )
}

/// The name of the test program, without the hash that cargo appends.
fn target() -> String {
    let program = env::current_exe().unwrap_or_default();
    let name = program.file_stem().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-')
        .map_or(&*name, |(name, _)| name)
        .into()
}

/// The name of the running test: of its thread, or the place of the call if it has no thread of its own.
#[track_caller]
fn test() -> String {
    match thread::current().name() {
        Some(name) if name != "main" => name.into(),
        _ => Location::caller().to_string(),
    }
}

/// The file that all test programs of this run of cargo write: `target/debug/skipped-tests/RUN`.
///
/// A run is known by the process number of cargo and the time of its start.
fn record() -> PathBuf {
    #[cfg(unix)]
    let cargo = std::os::unix::process::parent_id();
    #[cfg(not(unix))]
    let cargo = 0;
    let stat = fs::read_to_string(format!("/proc/{cargo}/stat")).unwrap_or_default();
    // The second field is the program's name in parentheses, and the 22nd the time of the start.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let start = after_name.split(' ').nth(19).unwrap_or("0");
    let program = env::current_exe().unwrap_or_default();
    let mut directories = iter::successors(program.parent(), |directory| directory.parent());
    let profile = directories.nth(1).unwrap_or(Path::new("target"));
    profile
        .join("skipped-tests")
        .join(format!("{cargo}-{start}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(target: &str, test: &str, what: &str) -> Skipped {
        let [target, test, what] = [target, test, what].map(String::from);
        let how = format!("get {what}");
        Skipped {
            target,
            test,
            what,
            how,
        }
    }

    #[test]
    fn the_summary_is_one_line_with_each_need_and_how_to_get_it() {
        let record = Path::new("target/debug/skipped-tests/7-9");
        assert_eq!(summarise(&BTreeSet::new(), record), "no test was skipped");
        let all = BTreeSet::from([
            skipped("daemon", "a", "root"),
            skipped("daemon", "b", "root"),
            skipped("netns", "a", "root"),
            skipped("cli", "c", "ffmpeg"),
        ]);
        assert_eq!(
            summarise(&all, record),
            "4 tests were skipped: 1 of cli without ffmpeg (get ffmpeg); \
             2 of daemon, 1 of netns without root (get root); \
             their names: target/debug/skipped-tests/7-9"
        );
    }

    #[test]
    fn a_skipped_test_is_read_back_from_the_record() {
        let directory = env::temp_dir().join(format!("evenkeel-skip-{}", std::process::id()));
        let record = directory.join("run");
        let all = [skipped("cli", "c", "ffmpeg"), skipped("cli", "d", "ffmpeg")];
        for one in &all {
            one.note(&record).unwrap();
        }
        let text = fs::read_to_string(&record).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let read: Vec<_> = text
            .lines()
            .map(|line| Skipped::parse(line).unwrap())
            .collect();
        assert_eq!(read, all);
    }

    #[test]
    fn a_program_is_found_in_the_path_alone() {
        assert!(Need::program("cargo", "cargo").met || Need::program("sh", "dash").met);
        assert!(!Need::program("no-such-program", "none").met);
    }
}
