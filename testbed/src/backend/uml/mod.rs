//! A scenario inside user-mode Linux: this program again, as root of a kernel that has netem and
//! namespaces, whatever the machine's own kernel and user are.
//!
//! Three processes of this program take part. The one that was called writes a `Job` and
//! follows the output. The [`guard`] starts the kernel and ends it when its caller is gone, however
//! it went. [`init`] is process 1 inside: it makes the kernel usable and calls the program again.

mod guard;
mod init;
mod job;
mod packages;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use guard::guard;
pub use init::init;

use tracing::debug;

use super::clock::{pause, wall_clock};
use job::{ENDED, ERRORS, FAILED, Job, KERNEL_LOG, OUTPUT, STATUS, UP};

/// Set for what runs inside.
const INSIDE: &str = "EVENKEEL_UML";

/// How long the kernel may take to boot; it takes one to three seconds on an idle machine.
const BOOT: Duration = Duration::from_secs(120);

/// How often output is passed on.
const LOOK: Duration = Duration::from_millis(20);

/// Directories that are the inner kernel's own: the machine's files there cannot be seen.
const OWN: [&str; 5] = ["/proc", "/sys", "/dev", "/run", "/var/run"];

/// Why a command could not be run in user-mode Linux.
#[derive(Debug, thiserror::Error)]
pub enum UmlError {
    /// The programs of these packages are missing.
    #[error(
        "user-mode Linux needs Debian's package{} {}; apt-get install {}",
        if .0.len() == 1 { "" } else { "s" },
        .0.join(", "),
        .0.join(" ")
    )]
    Missing(Vec<&'static str>),
    /// This path is below this directory, which the inner kernel has of its own.
    #[error("{path} cannot be seen inside user-mode Linux, which has its own {1}; use another directory", path = .0.display())]
    Hidden(PathBuf, &'static str),
    /// A file of the run cannot be read or written.
    #[error("cannot use {path}: {1}", path = .0.display())]
    File(PathBuf, #[source] io::Error),
    /// A process cannot be started or asked.
    #[error("cannot start user-mode Linux: {0}")]
    Start(#[source] io::Error),
    /// The kernel ended or cannot be used, for this reason in one line.
    #[error("user-mode Linux failed: {0}")]
    Failed(String),
    /// This took more than the time it had.
    #[error("{0} took more than {limit} s and was ended", limit = .1.as_secs())]
    Late(&'static str, Duration),
    /// The user interrupted it.
    #[error("interrupted; nothing was left behind")]
    Interrupted,
}

/// Whether this process runs inside user-mode Linux that this program has started.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

impl UmlError {
    /// Whether the command is wrong.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Hidden(..))
    }
}

/// Whether this machine has what it takes, and `files` will be seen inside; touches nothing.
///
/// # Errors
/// [`UmlError::Missing`] names the packages, [`UmlError::Hidden`] the path.
pub fn check(files: &[&Path]) -> Result<(), UmlError> {
    for path in files {
        check_visible(path)?;
    }
    packages::find().map(|_| ())
}

/// Runs this program with `arguments` inside user-mode Linux, in the caller's directory and
/// environment. Standard output and error are passed on as they come; standard input is empty.
/// `files` are paths that it has to see. It is ended after `limit`, if there is one, or when
/// `interrupted` is set. Its exit status, as a shell reports it (128 + the number of a signal).
///
/// # Errors
/// See [`UmlError`]. Whatever happens, nothing is left behind.
pub fn run(
    arguments: &[OsString],
    files: &[&Path],
    limit: Option<Duration>,
    interrupted: &AtomicBool,
) -> Result<u8, UmlError> {
    check(files)?;
    let kernel = packages::find()?;
    let program = std::env::current_exe().map_err(UmlError::Start)?;
    let directory = std::env::current_dir().map_err(UmlError::Start)?;
    check_visible(&program)?;
    check_visible(&directory)?;
    let mut temporary = std::env::temp_dir();
    if check_visible(&temporary).is_err() {
        temporary = "/tmp".into();
    }
    let work = tempfile::Builder::new()
        .prefix("evenkeel-uml.")
        .tempdir_in(&temporary)
        .map_err(|error| UmlError::File(temporary, error))?;
    let mut environment: Vec<_> = std::env::vars_os().collect();
    environment.push((INSIDE.into(), "1".into()));
    let job = Job {
        kernel,
        program: program.clone(),
        arguments: arguments.to_vec(),
        directory,
        environment,
        merged: is_one_file("/proc/self/fd/1", "/proc/self/fd/2"),
    };
    job.write(work.path())?;
    debug!(?arguments, work = %work.path().display(), "starts user-mode Linux");
    let mut machine = Machine::start(&program, work.path())?;
    let result = machine.follow(work.path(), limit, interrupted);
    drop(machine);
    debug!(?result, "user-mode Linux has ended");
    result
}

fn check_visible(path: &Path) -> Result<(), UmlError> {
    let absolute = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    let absolute = absolute.unwrap_or_else(|_| path.to_owned());
    match OWN.iter().find(|own| absolute.starts_with(own)) {
        Some(own) => Err(UmlError::Hidden(path.to_owned(), own)),
        None => Ok(()),
    }
}

/// Whether two paths lead to the same file, as with `2>&1`.
fn is_one_file(one: &str, two: &str) -> bool {
    let id = |path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    id(one).is_some() && id(one) == id(two)
}

/// The guard, and through it the kernel; dropped, both are gone.
struct Machine(Child);

impl Machine {
    fn start(program: &Path, work: &Path) -> Result<Self, UmlError> {
        Command::new(program)
            .arg("uml-guard")
            .arg(work)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A terminal's Ctrl-C is for the caller, which then ends the guard in its own way.
            .process_group(0)
            .spawn()
            .map(Self)
            .map_err(UmlError::Start)
    }

    /// Passes output on until the command has ended.
    fn follow(
        &mut self,
        work: &Path,
        limit: Option<Duration>,
        interrupted: &AtomicBool,
    ) -> Result<u8, UmlError> {
        let began = wall_clock();
        let mut output = open(work, OUTPUT)?;
        let mut errors = open(work, ERRORS)?;
        let mut up_at = None;
        loop {
            // Looked at before the output is read: nothing is written after it.
            let status = fs::read_to_string(work.join(STATUS)).ok();
            let failed = fs::read_to_string(work.join(FAILED)).ok();
            let ended = work.join(ENDED).exists() || self.0.try_wait().is_ok_and(|s| s.is_some());
            pass_on(&mut output, &mut io::stdout())?;
            pass_on(&mut errors, &mut io::stderr())?;
            if let Some(status) = status.and_then(|text| text.trim().parse().ok()) {
                return Ok(status);
            }
            if let Some(reason) = failed {
                return Err(UmlError::Failed(reason.trim().into()));
            }
            if ended {
                return Err(UmlError::Failed(last_words(work)));
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(UmlError::Interrupted);
            }
            let now = wall_clock();
            if up_at.is_none() && work.join(UP).exists() {
                up_at = Some(now);
            }
            match (up_at, limit) {
                (None, _) if now - began > BOOT => {
                    return Err(UmlError::Late("the start of user-mode Linux", BOOT));
                }
                (Some(up_at), Some(limit)) if now - up_at > limit => {
                    return Err(UmlError::Late("the run inside user-mode Linux", limit));
                }
                _ => pause(LOOK),
            }
        }
    }
}

impl Drop for Machine {
    /// The end of its standard input tells the guard to end the kernel and itself.
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The last line of the kernel's log: why it ended, more often than not.
fn last_words(work: &Path) -> String {
    let log = fs::read(work.join(KERNEL_LOG)).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let last = log.lines().rfind(|line| !line.trim().is_empty());
    let last = last.unwrap_or("without a word").trim();
    format!("it ended by itself: {last}")
}

/// Opens an output of the command, to which the inner kernel appends.
fn open(work: &Path, name: &str) -> Result<File, UmlError> {
    let path = work.join(name);
    File::open(&path).map_err(|error| UmlError::File(path, error))
}

/// Copies what is new in a file.
fn pass_on(file: &mut File, to: &mut impl Write) -> Result<(), UmlError> {
    let mut new = Vec::new();
    let read = file.read_to_end(&mut new);
    read.map_err(|error| UmlError::File("the output".into(), error))?;
    // A reader that has closed its pipe has seen enough.
    let _ = to.write_all(&new).and_then(|()| to.flush());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_packages_are_named_in_one_line_with_the_command_that_installs_them() {
        let both = UmlError::Missing(vec!["user-mode-linux", "kmod"]);
        assert_eq!(
            both.to_string(),
            "user-mode Linux needs Debian's packages user-mode-linux, kmod; apt-get install user-mode-linux kmod"
        );
    }

    #[test]
    fn a_path_that_the_inner_kernel_hides_is_refused_by_name() {
        let error = check_visible(Path::new("/run/results")).expect_err("hidden");
        assert!(error.to_string().contains("its own /run"), "{error}");
        assert!(check_visible(Path::new("/running/results")).is_ok());
    }
}
