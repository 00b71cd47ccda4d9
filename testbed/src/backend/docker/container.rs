//! Programs inside a container that runs.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::client::docker;

/// A node's container.
#[derive(Debug, Clone)]
pub(in crate::backend) struct Container {
    name: String,
    /// How many programs were started in it.
    started: Arc<AtomicU64>,
}

impl Container {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            started: Arc::default(),
        }
    }

    /// A command that runs `program` inside, with the standard streams of the command's process.
    pub(in crate::backend) fn command(&self, program: &Path) -> (Command, Inner) {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let file = format!("/run/evenkeel-{number}.pid");
        let mut command = docker();
        // Whoever calls is to reach the router's socket, which root makes in the container.
        let script = format!("umask 0; echo $$ >{file}; exec \"$@\"");
        command
            .args(["exec", "-i", &self.name, "sh", "-c", &script, "sh"])
            .arg(program);
        let container = self.name.clone();
        (command, Inner { container, file })
    }
}

/// A program inside, whatever has become of Docker's client.
#[derive(Debug)]
pub(in crate::backend) struct Inner {
    container: String,
    /// Where its number is, in the container.
    file: String,
}

impl Inner {
    /// Sends it a signal, by the name that `kill` has for it. A program that is only on its way is
    /// waited for, for two seconds; one that is gone is no matter.
    pub(in crate::backend) fn signal(&self, name: &str) {
        let file = &self.file;
        let script = format!(
            "for i in 1 2 3 4 5 6 7 8 9 10; do \
             [ -s {file} ] && exec kill -s {name} $(cat {file}); sleep 0.2; done"
        );
        let _ = docker()
            .args(["exec", &self.container, "sh", "-c", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}
