//! A scenario in virtual time: the shipping endpoint, controllers, queues and applications
//! on the network of [`crate::sim`].

mod endpoints;
mod flow;
mod links;
mod record;
mod stream;
mod transfer;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_apps::trace::{TraceError, Traces};

use crate::metrics::Observations;
use crate::scenario::{LinkIndex, Scenario};
use crate::sim::{BuildError, simulation, start_cross_traffic};

/// What a run records besides its observations.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Links to capture, by name, and the pcap file of each.
    pub captures: Vec<(String, PathBuf)>,
    /// The directory for one qlog file per flow, if wanted.
    pub qlog: Option<PathBuf>,
}

impl Options {
    /// Whether anything is recorded.
    pub fn records(&self) -> bool {
        self.qlog.is_some() || !self.captures.is_empty()
    }
}

/// Why a scenario could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SimError {
    /// A link cannot be built as the scenario says.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A flow names a controller that does not exist, or a wrong parameter of one.
    #[error("flow {flow}: {source}")]
    Controller {
        /// The flow's name.
        flow: String,
        /// What is wrong.
        source: evenkeel::SpecError,
    },
    /// A capture was asked for a link that the scenario does not have.
    #[error("no link {name:?} to capture; the scenario has {known}")]
    UnknownLink {
        /// What was asked for.
        name: String,
        /// The links there are.
        known: String,
    },
    /// A file cannot be read or written.
    #[error("{action} {path}: {source}", path = .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Too many endpoints on one node of the scenario.
    #[error("flow {flow}: no UDP port is free on its node; spread the flows over more hosts")]
    Ports {
        /// The flow's name.
        flow: String,
    },
}

impl SimError {
    /// Whether the scenario or the command is wrong, as opposed to a file that failed.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::File { .. })
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
    let mut simulation = simulation(scenario)?;
    for (name, path) in &options.captures {
        let link = find_link(scenario, name)?;
        simulation
            .capture(link, path)
            .map_err(|source| file_error("cannot create", path, source))?;
    }
    let traces = options.qlog.as_deref().map(Traces::new);
    let mut flows = scenario
        .flows
        .iter()
        .enumerate()
        .map(|(index, spec)| flow::Flow::start(&simulation, scenario, index, spec, traces.as_ref()))
        .collect::<Result<Vec<_>, _>>()?;
    for (index, spec) in scenario.cross.iter().enumerate() {
        let started = start_cross_traffic(&simulation, scenario.seed, index, spec);
        started.map_err(|_| SimError::Ports {
            flow: spec.name.clone(),
        })?;
    }
    let mut links = links::LinkSampler::all(scenario);

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
        progress(stop);
        if stop == scenario.duration {
            break;
        }
        sample_at += scenario.sampling_interval;
    }
    simulation
        .finish_captures()
        .map_err(|source| SimError::File {
            action: "cannot write a capture to",
            path: options
                .captures
                .first()
                .map(|c| c.1.clone())
                .unwrap_or_default(),
            source,
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
    Ok(Observations {
        flows,
        links,
        packets_sent,
    })
}

fn find_link(scenario: &Scenario, name: &str) -> Result<LinkIndex, SimError> {
    let index = scenario.links.iter().position(|link| link.name == name);
    index.map(LinkIndex).ok_or_else(|| SimError::UnknownLink {
        name: name.into(),
        known: scenario
            .links
            .iter()
            .map(|link| link.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

impl From<TraceError> for SimError {
    fn from(error: TraceError) -> Self {
        file_error("cannot write", &error.path, error.source)
    }
}

fn file_error(action: &'static str, path: &std::path::Path, source: io::Error) -> SimError {
    SimError::File {
        action,
        path: path.into(),
        source,
    }
}
