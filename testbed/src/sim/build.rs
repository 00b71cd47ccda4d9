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
    /// This link's queue discipline or a stamp does not exist, or not with these parameters or this
    /// limit.
    #[error("link {0}: {1}")]
    Queue(String, String),
    /// This link's packet-delivery trace is not one.
    #[error("link {0}: trace {path}: {2}", path = .1.display())]
    Trace(String, PathBuf, #[source] TraceError),
    /// This link's values do not go together.
    #[error("link {0}: {1}")]
    Link(String, #[source] LinkError),
}

pub(super) fn link(
    epoch: Instant,
    spec: &LinkSpec,
    rng: Pcg64,
) -> Result<Link<Datagram>, BuildError> {
    let name = || spec.name.clone();
    let parse = |trace: &TraceFile| {
        DeliveryTrace::parse(&trace.contents)
            .map_err(|error| BuildError::Trace(name(), trace.path.clone(), error))
    };
    let trace = spec.trace.as_ref().map(parse).transpose()?;
    let config = spec.description.config(trace);
    let config = config.map_err(|fault| BuildError::Queue(name(), fault.message))?;
    Link::new(epoch, config, Box::new(rng)).map_err(|error| BuildError::Link(name(), error))
}
