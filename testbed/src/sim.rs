//! A scenario's network and cross traffic in virtual time.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use evenkeel_queue::{DeliveryTrace, Link, LinkError, TraceError};
use rand_pcg::Pcg64;

pub use evenkeel_sim::{
    Datagram, HOP_LIMIT, NetworkCounters, PacketLog, Process, SimRuntime, SimSocket, Simulation,
    lock, unencrypted,
};

use crate::random::{Purpose, generator};
use crate::scenario::{CrossSpec, LinkSpec, Scenario, TraceFile};
use crate::traffic::{SendTimes, payload};

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

/// Builds the scenario's nodes and links; nothing runs on them yet.
///
/// # Errors
/// If a link cannot be built: the error names it.
pub fn simulation(scenario: &Scenario) -> Result<Simulation, BuildError> {
    let epoch = evenkeel_sim::origin();
    let mut links = Vec::with_capacity(scenario.links.len());
    for (index, spec) in scenario.links.iter().enumerate() {
        let rng = generator(scenario.seed, Purpose::Link, index);
        links.push((link(epoch, spec, rng)?, spec.to));
    }
    let mtu = usize::from(scenario.mtu);
    Ok(Simulation::new(epoch, mtu, links, scenario.next_hops()))
}

/// Starts a source of UDP cross traffic; `index` chooses its randomness.
///
/// # Errors
/// If no port is free on its nodes.
pub fn start_cross_traffic(
    simulation: &Simulation,
    seed: u64,
    index: usize,
    spec: &CrossSpec,
) -> io::Result<()> {
    let sink = simulation.bind_ip(spec.to, spec.ip_version, 0)?;
    sink.count_only();
    let socket = simulation.bind_ip(spec.from, spec.ip_version, 0)?;
    let times = SendTimes::new(spec, generator(seed, Purpose::Cross, index));
    let length = (spec.packet_bytes as usize).saturating_sub(spec.ip_version.header_bytes());
    let payload = payload(length, spec.acp_rtt);
    simulation.send_at(socket, sink.address(), times, payload);
    Ok(())
}

fn link(epoch: Instant, spec: &LinkSpec, rng: Pcg64) -> Result<Link<Datagram>, BuildError> {
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

#[cfg(test)]
mod tests;
