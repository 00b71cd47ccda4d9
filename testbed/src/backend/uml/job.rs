//! What is to be run inside, and the files by which both sides speak.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::UmlError;
use super::packages::Kernel;

/// The command's standard output so far.
pub(super) const OUTPUT: &str = "output";
/// Its standard error, unless both are one.
pub(super) const ERRORS: &str = "errors";
/// Exists when the command is about to start.
pub(super) const UP: &str = "up";
/// The command's exit status, in decimal, once it has ended.
pub(super) const STATUS: &str = "status";
/// Why the kernel cannot be used, if it cannot.
pub(super) const FAILED: &str = "failed";
/// Exists when the kernel has ended.
pub(super) const ENDED: &str = "ended";
/// What the kernel says.
pub(super) const KERNEL_LOG: &str = "kernel.log";
/// The program that is process 1.
pub(super) const INIT: &str = "init";

const JOB: &str = "job.json";

/// What is to be run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) kernel: Kernel,
    /// This program.
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) directory: PathBuf,
    pub(super) environment: Vec<(OsString, OsString)>,
    /// Whether standard error goes where standard output goes.
    pub(super) merged: bool,
}

impl Job {
    /// Puts the job, process 1 and empty outputs into `work`.
    pub(super) fn write(&self, work: &Path) -> Result<(), UmlError> {
        let text = serde_json::to_vec(self).expect("a job is JSON");
        // The kernel's command line has no way to write a path with spaces.
        let (program, directory) = (quoted(&self.program), quoted(work));
        let init = format!("#!/bin/sh\nexec {program} uml-init {directory}\n");
        let write = |name: &str, contents: &[u8]| {
            let path = work.join(name);
            fs::write(&path, contents).map_err(|error| UmlError::File(path, error))
        };
        write(JOB, &text)?;
        write(INIT, init.as_bytes())?;
        write(OUTPUT, b"")?;
        write(ERRORS, b"")?;
        let init = work.join(INIT);
        fs::set_permissions(&init, fs::Permissions::from_mode(0o700))
            .map_err(|error| UmlError::File(init, error))
    }

    /// The job in `work`.
    pub(super) fn read(work: &Path) -> io::Result<Self> {
        serde_json::from_reader(File::open(work.join(JOB))?).map_err(io::Error::other)
    }
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_is_one_word_of_a_shell() {
        let path = Path::new("/a b/it's $HOME");
        let output = std::process::Command::new("/bin/sh")
            .args(["-c", &format!("printf %s {}", quoted(path))])
            .output()
            .expect("a shell");
        assert_eq!(output.stdout, b"/a b/it's $HOME");
    }
}
