//! A scenario in virtual time: the shipping endpoint, controllers, queues and applications
//! on the network of [`crate::sim`].

mod endpoints;
mod flow;
mod links;
mod record;
mod stream;
mod transfer;

use std::convert::Infallible;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use evenkeel_apps::trace::{TraceError, Traces};

use crate::metrics::Observations;
use crate::scenario::{LinkIndex, Place, Scenario};
use crate::sim::{BuildError, simulation, start_cross_traffic};

/// What a run records besides its observations.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Links to capture, by name, and the pcap file of each.
    pub captures: Vec<(String, PathBuf)>,
    /// The directory for one qlog file per flow, if wanted.
    pub qlog: Option<PathBuf>,
    /// Whether observations have each packet of each flow: about 30 bytes of memory for each.
    pub packets: bool,
}

impl Options {
    /// Whether files are written.
    pub fn records(&self) -> bool {
        self.qlog.is_some() || !self.captures.is_empty()
    }
}

/// What flows record.
#[derive(Debug, Clone, Copy)]
struct Recording<'a> {
    traces: Option<&'a Traces>,
    /// A capture shows packets as they are on a wire. Nothing else does, and a checksum is quicker.
    encrypts: bool,
    /// Whether each packet is kept.
    packets: bool,
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A link cannot be built as the scenario says.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Here this flow names a controller that does not exist, or a wrong parameter of one.
    #[error("{0}: flow {1}: {2}")]
    Controller(Place, String, #[source] evenkeel::SpecError),
    /// This flow is a kernel's own TCP.
    #[error(
        "flow {0}: app = \"tcp\" is the kernel's own TCP, which virtual time does not have; use --on netns"
    )]
    KernelTcp(String),
    /// A capture was asked for this link, which the scenario does not have; it has those listed.
    #[error("no link {0:?} to capture; the scenario has {1}")]
    UnknownLink(String, String),
    /// This was tried with this file in vain.
    #[error("{0} {path}: {2}", path = .1.display())]
    File(&'static str, PathBuf, #[source] io::Error),
    /// Too many endpoints on this flow's node.
    #[error("flow {0}: no UDP port is free on its node; spread the flows over more hosts")]
    Ports(String),
}

impl SimError {
    /// Whether the scenario or the command is wrong, as opposed to a file that failed.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::File(..))
    }
}

/// Whether `scenario` can be run: its links, controllers and captures. Touches no file.
///
/// # Errors
/// See [`SimError`].
pub fn check(scenario: &Scenario, options: &Options) -> Result<(), SimError> {
    simulation(scenario)?;
    for spec in &scenario.flows {
        endpoints::controller(scenario, spec)?;
    }
    for (name, _) in &options.captures {
        find_link(scenario, name)?;
    }
    Ok(())
}

/// Runs `scenario` to its end. `progress` is told how far virtual time has come, once per
/// sampling interval.
///
/// # Errors
/// See [`SimError`]. A flow whose connection fails is not an error of the run: its
/// observation says so.
///
/// # Panics
/// If a link lost count of its packets, or virtual time went wrong: our own bugs.
pub fn run(
    scenario: &Scenario,
    options: &Options,
    mut progress: impl FnMut(Duration),
) -> Result<Observations, SimError> {
    let to_the_end = |_, at: Duration| {
        if !at.is_zero() {
            progress(at);
        }
        ControlFlow::<Infallible>::Continue(())
    };
    match run_until_broken(scenario, options, to_the_end)? {
        ControlFlow::Continue(observations) => Ok(observations),
        ControlFlow::Break(never) => match never {},
    }
}

/// As [`run`], but ends at once, without observations, when `progress` breaks. It gets the instant
/// from which the run's virtual time counts, which controllers see as well, and how far it has come;
/// for the first time before anything happens.
///
/// # Errors
/// As [`run`].
///
/// # Panics
/// As [`run`].
pub fn run_until_broken<B>(
    scenario: &Scenario,
    options: &Options,
    mut progress: impl FnMut(Instant, Duration) -> ControlFlow<B>,
) -> Result<ControlFlow<B, Observations>, SimError> {
    let mut simulation = simulation(scenario)?;
    for (name, path) in &options.captures {
        let link = find_link(scenario, name)?;
        simulation
            .capture(link, path)
            .map_err(|error| SimError::File("cannot create", path.clone(), error))?;
    }
    let traces = options.qlog.as_deref().map(Traces::new);
    let mut flows = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, spec)| {
            let recording = Recording {
                traces: traces.as_ref(),
                encrypts: !options.captures.is_empty(),
                packets: options.packets,
            };
            flow::Flow::start(&simulation, scenario, index, spec, recording)
        })
        .collect::<Result<Vec<_>, _>>()?;
    for (index, spec) in scenario.cross.iter().enumerate() {
        let started = start_cross_traffic(&simulation, scenario.seed, index, spec);
        started.map_err(|_| SimError::Ports(spec.name.clone()))?;
    }
    let mut links = links::LinkSampler::all(scenario);
    let epoch = simulation.runtime().epoch();
    if let ControlFlow::Break(why) = progress(epoch, Duration::ZERO) {
        return Ok(ControlFlow::Break(why));
    }

    // The end of the warm-up need not fall on a sample, so it is a stop of its own.
    let mut sample_at = scenario.sampling_interval;
    let mut warm = false;
    loop {
        let warmup = (!warm).then_some(scenario.warmup);
        let stop = sample_at.min(scenario.duration);
        if let Some(warmup) = warmup.filter(|warmup| *warmup <= stop) {
            simulation.run_until(warmup);
            links
                .iter_mut()
                .for_each(|link| link.warmed_up(&simulation));
            flows.iter_mut().for_each(flow::Flow::warmed_up);
            warm = true;
        }
        simulation.run_until(stop);
        flows.iter_mut().for_each(|flow| flow.sample(stop));
        links.iter_mut().for_each(|link| link.sample(&simulation));
        if let ControlFlow::Break(why) = progress(epoch, stop) {
            return Ok(ControlFlow::Break(why));
        }
        if stop == scenario.duration {
            break;
        }
        sample_at += scenario.sampling_interval;
    }
    let first = options.captures.first().map(|(_, path)| path.clone());
    simulation.finish_captures().map_err(|error| {
        SimError::File(
            "cannot write a capture to",
            first.unwrap_or_default(),
            error,
        )
    })?;
    simulation.assert_conservation();
    let links = links
        .into_iter()
        .map(|link| link.finish(&simulation))
        .collect();
    let packets_sent = simulation.counters().sent;
    // Ends the transfers that still run, so that the flows know how far these came.
    drop(simulation);
    let flows = flows
        .into_iter()
        .zip(&scenario.flows)
        .map(|(flow, spec)| flow.finish(spec, scenario.duration))
        .collect();
    traces.as_ref().map_or(Ok(()), Traces::finish)?;
    Ok(ControlFlow::Continue(Observations {
        flows,
        links,
        packets_sent,
    }))
}

fn find_link(scenario: &Scenario, name: &str) -> Result<LinkIndex, SimError> {
    let names = || scenario.links.iter().map(|link| link.name.as_str());
    let index = names().position(|known| known == name);
    index.map(LinkIndex).ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        SimError::UnknownLink(name.into(), known)
    })
}

impl From<TraceError> for SimError {
    fn from(error: TraceError) -> Self {
        Self::File("cannot write", error.path, error.source)
    }
}

#[cfg(test)]
mod tests;
