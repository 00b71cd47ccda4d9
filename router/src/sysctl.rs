//! Reads and writes kernel network settings of the process's network namespace (/proc/sys/net).

use std::path::{Path, PathBuf};
use std::{fs, io};

use tracing::debug;

/// A setting, by its path below /proc/sys/net.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sysctl(PathBuf);

impl Sysctl {
    /// Names a setting of IPv4 or IPv6, such as `ipv4/ip_forward`.
    pub(crate) fn of(path: &str) -> Self {
        Self(Path::new("/proc/sys/net").join(path))
    }

    /// Names a setting of one interface, or of `all`: `version` is `ipv4` or `ipv6`.
    pub(crate) fn of_interface(version: &str, interface: &str, name: &str) -> Self {
        Self::of(&format!("{version}/conf/{interface}/{name}"))
    }

    /// Returns its name as sysctl(8) writes it, with slashes: interface names may contain dots.
    pub(crate) fn name(&self) -> String {
        let below = self.0.strip_prefix("/proc/sys").unwrap_or(&self.0);
        below.display().to_string()
    }

    pub(crate) fn read(&self) -> io::Result<i64> {
        let text = fs::read_to_string(&self.0)?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// Writes only a different value: in containers /proc/sys is read-only, as their engine set it.
    pub(crate) fn set(&self, value: i64) -> io::Result<()> {
        if self.read().is_ok_and(|now| now == value) {
            return Ok(());
        }
        debug!(name = %self.name(), value, "setting");
        fs::write(&self.0, value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_reads_as_a_number_and_has_its_name() {
        let loopback = Sysctl::of_interface("ipv4", "lo", "rp_filter");
        assert_eq!(loopback.name(), "net/ipv4/conf/lo/rp_filter");
        assert!((0..=2).contains(&loopback.read().unwrap()));
        assert!(Sysctl::of("ipv4/none").read().is_err());
    }

    #[test]
    fn only_a_setting_that_differs_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("forwarding");
        fs::write(&path, "1\n").unwrap();
        let setting = Sysctl(path.clone());
        setting.set(1).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n");
        setting.set(0).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "0");
    }
}
