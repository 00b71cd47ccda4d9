//! Least rights for programs of evenkeel that strangers' packets reach.
//!
//! Internal to evenkeel's programs: no promise, the API may change with every version.
//!
//! A program opens what needs rights, says in [`Rights`] what it will still do, and gives up the
//! rest for good: capabilities, files (Landlock), system calls (seccomp). What the kernel does not
//! have is left out, and [`Confinement`] says so. docs/security.md describes what is left.

mod calls;
mod files;

use std::{fmt, fs, io};

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use serde::{Deserialize, Serialize};

pub use files::{Access, FileError, Held};
pub use rustix::thread::CapabilitySet as Capabilities;

/// What a program does from now on. The default is nothing but computing, and reading and writing
/// what is open.
#[derive(Debug, Clone, Default)]
pub struct Rights {
    /// Capabilities that it keeps if it has them.
    pub capabilities: Option<Capabilities>,
    /// What it opens: files, and directories with everything below them.
    pub files: Vec<(std::path::PathBuf, Access)>,
    /// Whether it opens sockets of IP and of the kernel's routing.
    pub networks: bool,
}

/// What is in force.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// The capabilities that are left, by name.
    pub capabilities: Vec<String>,
    /// Whether no program that this one starts can have more rights.
    pub no_new_privs: bool,
    /// Whether system calls are filtered.
    pub seccomp: bool,
    /// The version of Landlock's interface that restricts files; `null` if nothing does.
    pub landlock: Option<u32>,
    /// What this kernel lacks, in words.
    pub lacks: Vec<String>,
}

/// Why rights were not given up. Displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// A path cannot be allowed.
    #[error(transparent)]
    File(#[from] FileError),
    /// Capabilities and files belong to each thread.
    #[error(
        "rights cannot be given up beside other threads; start the server first, or --no-sandbox"
    )]
    Threads,
    /// The kernel refused.
    #[error("cannot give up {what}: {source}; --no-sandbox goes without")]
    Kernel {
        /// What should be given up.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl Rights {
    /// Gives up everything else, for good. What is returned beside the state keeps files allowed;
    /// hold it as long as the program opens any.
    ///
    /// # Errors
    /// [`SandboxError`], as where other threads run; some rights may be gone then, and the program
    /// should end.
    pub fn confine(&self) -> Result<(Confinement, Held), SandboxError> {
        let threads = fs::read_dir("/proc/self/task").map(Iterator::count);
        if threads.is_ok_and(|count| count > 1) {
            return Err(SandboxError::Threads);
        }
        let mut confinement = Confinement::default();
        let held = files::restrict(&self.files, &mut confinement)?;
        let kept = keep(self.capabilities.unwrap_or(CapabilitySet::empty()))?;
        let names = kept.iter_names();
        confinement.capabilities = names.map(|(name, _)| format!("CAP_{name}")).collect();
        set_no_new_privs(true).map_err(kernel("the right to new privileges"))?;
        confinement.no_new_privs = true;
        calls::restrict(self.networks, &mut confinement)?;
        Ok((confinement, held))
    }
}

impl fmt::Display for Confinement {
    /// In one line, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.capabilities.clone();
        if parts.is_empty() {
            parts.push("no capabilities".to_owned());
        }
        parts.extend(self.no_new_privs.then(|| "no_new_privs".to_owned()));
        parts.extend(self.seccomp.then(|| "seccomp".to_owned()));
        parts.extend(self.landlock.map(|version| format!("Landlock {version}")));
        parts.extend_from_slice(&self.lacks);
        f.write_str(&parts.join(", "))
    }
}

/// Keeps these capabilities of those that the program has, and returns them.
fn keep(wanted: CapabilitySet) -> Result<CapabilitySet, SandboxError> {
    let failed = || kernel("capabilities");
    let kept = capabilities(None).map_err(failed())?.permitted & wanted;
    // It needs CAP_SETPCAP. Without it programs can gain nothing either: no_new_privs.
    for other in CapabilitySet::all() - wanted {
        let _ = remove_capability_from_bounding_set(other);
    }
    clear_ambient_capability_set().map_err(failed())?;
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).map_err(failed())?;
    Ok(kept)
}

/// Returns the error of a kernel that does not take a right away.
fn kernel<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SandboxError {
    move |source| SandboxError::Kernel {
        what,
        source: source.into(),
    }
}
