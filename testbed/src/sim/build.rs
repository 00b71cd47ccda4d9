//! Links as a scenario describes them, made of evenkeel-queue.

use std::path::PathBuf;
use std::time::Instant;

use evenkeel_queue::{DeliveryTrace, Link, LinkError, TraceError};
use rand_pcg::Pcg64;

use super::datagram::Datagram;
use crate::scenario::{LinkSpec, TraceFile};

/// Why a link cannot be built as the scenario says.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The queue discipline or a stamp does not exist, or not with these parameters or this limit.
    #[error("link {name}: {message}")]
    Queue {
        /// The link's name.
        name: String,
        /// What is wrong, and what would be right.
        message: String,
    },
    /// The packet-delivery trace is not one.
    #[error("link {name}: trace {path}: {source}", path = .path.display())]
    Trace {
        /// The link's name.
        name: String,
        /// The trace file.
        path: PathBuf,
        /// What is wrong, with its line.
        source: TraceError,
    },
    /// The link's values do not go together.
    #[error("link {name}: {source}")]
    Link {
        /// The link's name.
        name: String,
        /// What is wrong.
        source: LinkError,
    },
}

pub(super) fn link(
    epoch: Instant,
    spec: &LinkSpec,
    rng: Pcg64,
) -> Result<Link<Datagram>, BuildError> {
    let name = || spec.name.clone();
    let parse = |trace: &TraceFile| {
        DeliveryTrace::parse(&trace.contents).map_err(|source| BuildError::Trace {
            name: name(),
            path: trace.path.clone(),
            source,
        })
    };
    let trace = spec.trace.as_ref().map(parse).transpose()?;
    let config = spec.description.config(trace);
    let config = config.map_err(|fault| BuildError::Queue {
        name: name(),
        message: fault.message,
    })?;
    Link::new(epoch, config, Box::new(rng)).map_err(|source| BuildError::Link {
        name: name(),
        source,
    })
}
