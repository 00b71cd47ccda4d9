//! Where the processes of a node run: a namespace of this machine, or a container.

use std::path::Path;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};

use crate::backend::docker::{Container, Inner};
use crate::backend::netns::inside;

/// A node's place.
#[derive(Debug, Clone)]
pub(in crate::backend) enum Place {
    /// The namespace of this name.
    Namespace(String),
    /// A container.
    Container(Container),
}

/// How to reach a program that was started in a place.
#[derive(Debug)]
pub(super) enum Handle {
    /// It is the child itself.
    Child,
    /// The child is Docker's client, which passes no signals on.
    Inner(Inner),
}

impl Place {
    /// A command that runs `program` here.
    pub(super) fn command(&self, program: &Path) -> (Command, Handle) {
        match self {
            Self::Namespace(name) => (inside(name, program), Handle::Child),
            Self::Container(container) => {
                let (command, inner) = container.command(program);
                (command, Handle::Inner(inner))
            }
        }
    }
}

impl Handle {
    /// Asks the program behind `child` to stop, as Ctrl-C does.
    pub(super) fn interrupt(&self, child: &Child) {
        match self {
            Self::Child => {
                let _ = kill_process(Pid::from_child(child), Signal::INT);
            }
            Self::Inner(inner) => inner.signal("INT"),
        }
    }
}
