//! The programs of Debian's packages that user-mode Linux needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::UmlError;

/// Where Debian has the kernel's modules, below its version.
const MODULES: &str = "/usr/lib/uml/modules";

/// Searched after PATH: not every user has these in it.
const SYSTEM: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// An installed user-mode Linux.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kernel {
    /// The kernel, a program.
    pub(super) program: PathBuf,
    /// The directory of its modules.
    pub(super) modules: PathBuf,
    pub(super) modprobe: PathBuf,
}

/// Looks for all that is needed.
pub(super) fn find() -> Result<Kernel, UmlError> {
    let mut missing = Vec::new();
    let kernel = program("linux.uml").and_then(|program| {
        let modules = Path::new(MODULES).join(version(&program)?);
        modules.is_dir().then_some((program, modules))
    });
    let modprobe = program("modprobe");
    if kernel.is_none() {
        missing.push("user-mode-linux");
    }
    if modprobe.is_none() {
        missing.push("kmod");
    }
    if program("ip").is_none() || program("tc").is_none() {
        missing.push("iproute2");
    }
    match (kernel, modprobe) {
        (Some((program, modules)), Some(modprobe)) if missing.is_empty() => Ok(Kernel {
            program,
            modules,
            modprobe,
        }),
        _ => Err(UmlError::Missing(missing)),
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM.iter().map(PathBuf::from));
    directories
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// The version of a kernel, as its modules' directory has it.
fn version(kernel: &Path) -> Option<String> {
    let output = Command::new(kernel)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let version = text.trim();
    (!version.is_empty() && !version.contains('/')).then(|| version.to_owned())
}
