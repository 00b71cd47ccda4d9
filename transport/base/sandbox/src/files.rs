//! Restricts files by Landlock.

use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetError, Scope, make_bitflags,
};

use super::{Confinement, SandboxError, kernel};

/// The interface whose rights are restricted, of Linux 6.12; older kernels have some of them.
const INTERFACE: ABI = ABI::V6;

/// What may be done with a file, or below a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reading.
    Read,
    /// Reading and writing what exists: files and devices.
    Change,
    /// Reading, and making and writing files.
    Fill,
    /// Making and removing sockets.
    Sockets,
}

/// A path that cannot be allowed.
#[derive(Debug, thiserror::Error)]
#[error("cannot open {}: {source}; does it exist?", .path.display())]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

/// What stays open so that files stay allowed: the kernel makes the files of /proc anew when it is
/// short of memory, and knows allowed ones by their identity.
#[derive(Debug, Default)]
pub struct Held(#[expect(dead_code, reason = "it is held, not read")] Vec<PathFd>);

impl Access {
    fn rights(self, is_directory: bool) -> BitFlags<AccessFs> {
        let read = make_bitflags!(AccessFs::{ReadFile | ReadDir});
        let rights = match self {
            Self::Read => read,
            Self::Change => read | make_bitflags!(AccessFs::{WriteFile | Truncate | IoctlDev}),
            Self::Fill => read | make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg}),
            Self::Sockets => make_bitflags!(AccessFs::{MakeSock | RemoveFile}),
        };
        if is_directory {
            rights
        } else {
            rights & AccessFs::from_file(INTERFACE)
        }
    }
}

/// Restricts files to these, TCP to what others connect, and signals to this program.
pub(super) fn restrict(
    files: &[(PathBuf, Access)],
    confinement: &mut Confinement,
) -> Result<Held, SandboxError> {
    let mut held = Vec::new();
    for (path, _) in files {
        let failed = |source| FileError {
            path: path.clone(),
            source,
        };
        let opened = PathFd::new(path).map_err(|error| failed(io::Error::other(error)));
        let is_directory = path.metadata().map_err(failed)?.is_dir();
        held.push((opened?, is_directory));
    }
    let restricted = || {
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(INTERFACE))?
            .handle_access(AccessNet::ConnectTcp)?
            .scope(Scope::from_all(INTERFACE))?
            .create()?;
        for ((_, access), (file, is_directory)) in files.iter().zip(&held) {
            rules = rules.add_rule(PathBeneath::new(file, access.rights(*is_directory)))?;
        }
        Ok::<_, RulesetError>(rules.restrict_self()?.landlock)
    };
    let failed = |error| kernel("files")(io::Error::other(error));
    match restricted().map_err(failed)? {
        LandlockStatus::Available { effective_abi, .. } => {
            confinement.landlock = Some(effective_abi as u32);
        }
        LandlockStatus::NotEnabled => {
            let lack = "Landlock is switched off (boot with lsm=landlock,...)";
            confinement.lacks.push(lack.to_owned());
        }
        LandlockStatus::NotImplemented => {
            let lack = "no Landlock (Linux 5.13 has it)";
            confinement.lacks.push(lack.to_owned());
        }
    }
    Ok(Held(held.into_iter().map(|(file, _)| file).collect()))
}
