//! Links as a scenario describes them, made of evenkeel-queue.

use std::path::PathBuf;
use std::time::Instant;

use evenkeel_queue::{
    Change, DeliveryTrace, Limit, Link, LinkConfig, LinkError, Rate, Service, SpecError,
    TraceError, discipline, stamp_set,
};
use rand_pcg::Pcg64;

use super::datagram::Datagram;
use crate::scenario::{LinkChange, LinkSpec, ServiceSpec};

/// Why a link cannot be built as the scenario says.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The queue discipline does not exist, or not with these parameters or this limit.
    #[error("link {name}: {source}")]
    Discipline {
        /// The link's name.
        name: String,
        /// What is wrong, and what would be right.
        source: SpecError,
    },
    /// A stamp does not exist, or not with these parameters.
    #[error("link {name}: {source}")]
    Stamps {
        /// The link's name.
        name: String,
        /// What is wrong, and what would be right.
        source: SpecError,
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
    let limit = Limit {
        packets: spec.queue.packets.map(u64::from),
        bytes: spec.queue.bytes,
    };
    let discipline =
        discipline(&spec.discipline, limit).map_err(|source| BuildError::Discipline {
            name: spec.name.clone(),
            source,
        })?;
    let stamps = stamp_set(&spec.stamps).map_err(|source| BuildError::Stamps {
        name: spec.name.clone(),
        source,
    })?;
    let config = LinkConfig {
        service: service(spec)?,
        limit,
        discipline,
        stamps,
        flow_hash_key: None,
        delay: spec.delay,
        jitter: spec.jitter,
        reorder: spec.reorder,
        loss: spec.loss,
        blackouts: spec.blackouts.iter().map(|b| (b.start, b.length)).collect(),
        changes: spec
            .changes
            .iter()
            .flat_map(|change| changes(spec, change))
            .collect(),
        ..LinkConfig::default()
    };
    Link::new(epoch, config, Box::new(rng)).map_err(|source| BuildError::Link {
        name: spec.name.clone(),
        source,
    })
}

fn service(spec: &LinkSpec) -> Result<Service, BuildError> {
    Ok(match &spec.service {
        ServiceSpec::Unlimited => Service::Unlimited,
        ServiceSpec::Rate(bits_per_second) => Service::Rate(rate(*bits_per_second)),
        ServiceSpec::Trace(trace) => {
            let parsed =
                DeliveryTrace::parse(&trace.contents).map_err(|source| BuildError::Trace {
                    name: spec.name.clone(),
                    path: trace.path.clone(),
                    source,
                })?;
            Service::Trace(parsed)
        }
    })
}

fn changes(spec: &LinkSpec, change: &LinkChange) -> Vec<(std::time::Duration, Change)> {
    let limit = change.queue_packets.map(|packets| Limit {
        packets: Some(packets.into()),
        bytes: spec.queue.bytes,
    });
    [
        change.rate_bps.map(|bps| Change::Rate(rate(bps))),
        change.delay.map(Change::Delay),
        change.loss.map(Change::Loss),
        limit.map(Change::Limit),
    ]
    .into_iter()
    .flatten()
    .map(|what| (change.at, what))
    .collect()
}

fn rate(bits_per_second: u64) -> Rate {
    Rate::new(bits_per_second).expect("the scenario refuses a rate of zero")
}
