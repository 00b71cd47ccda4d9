//! What backends on a kernel have in common, wherever hosts and links are made.

mod clock;
mod cross;
mod error;
mod flows;
mod netem;
mod options;
mod place;
mod plan;
mod process;
mod received;
mod records;
mod routers;
mod sender;
mod site;
mod stream;

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use cross::{udp_sink, udp_source};
pub use error::KernelError;

use crate::metrics::{FlowObservation, Observations};
use crate::scenario::{App, Emulator, FlowSpec, LinkSpec, Scenario};
use crate::sim::Simulation;
use cross::CrossTraffic;
use flows::Flow;
use routers::Routers;
use stream::Stream;

pub(super) use clock::{pause, wall_clock};
pub(super) use error::PROGRAMS;
pub(super) use netem::{build, is_available};
pub(super) use place::Place;
pub(super) use plan::{Pair, Plan, absolute, wants_netem};
pub(super) use site::Site;

/// Whether `scenario` can be nodes of a kernel, with programs from anywhere.
pub(super) fn check_plan(scenario: &Scenario) -> Result<(), KernelError> {
    // What virtual time cannot build, the routers would refuse one by one.
    Simulation::new(scenario)?;
    for link in with_netem(scenario) {
        if let Some(key) = plan::beyond_netem(link) {
            return Err(KernelError::BeyondNetem {
                link: link.name.clone(),
                key,
            });
        }
    }
    for spec in &scenario.flows {
        evenkeel::controller(&spec.controller).map_err(|source| KernelError::Controller {
            flow: spec.name.clone(),
            source,
        })?;
    }
    Ok(())
}

/// Runs `scenario` on nodes and links of `site`'s.
pub(super) fn run_on(
    site: &dyn Site,
    scenario: &Scenario,
    interrupted: &Arc<AtomicBool>,
    mut progress: impl FnMut(Duration),
) -> Result<Observations, KernelError> {
    let evenkeel = site.program("evenkeel", "evenkeel-apps")?;
    let testbed = site.program("evenkeel-testbed", "evenkeel-testbed")?;
    let plan = site.build(scenario, interrupted)?;
    let mut flows = Vec::new();
    for (index, spec) in scenario.flows.iter().enumerate() {
        flows.push(AnyFlow::start(scenario, &plan, index, spec, &evenkeel)?);
    }
    let mut cross = Vec::new();
    for (index, spec) in scenario.cross.iter().enumerate() {
        cross.push(CrossTraffic::start(scenario, &plan, index, spec, &testbed)?);
    }
    // Their clocks, by which links change, start with them: so they come last.
    let router = site.program("evenkeel-router", "evenkeel-router")?;
    let mut netem = netem::Followed::start(scenario, &plan)?;
    let mut routers = Routers::start(scenario, &plan, site, &router)?;

    let epoch = wall_clock();
    flows.iter_mut().for_each(|flow| flow.begin(epoch));
    cross.iter_mut().for_each(CrossTraffic::begin);
    let wait_until = |at: Duration| wait_until(epoch + at, interrupted);
    let mut warm = false;
    let mut sample_at = scenario.sampling_interval;
    loop {
        let stop = sample_at.min(scenario.duration);
        if !warm && scenario.warmup <= stop {
            wait_until(scenario.warmup)?;
            routers.restart_measurement()?;
            netem.restart_measurement()?;
            warm = true;
        }
        wait_until(stop)?;
        routers.sample()?;
        netem.sample()?;
        routers.check()?;
        for flow in &mut flows {
            flow.sample(epoch)?;
        }
        cross.iter_mut().try_for_each(CrossTraffic::check)?;
        progress(stop);
        if stop == scenario.duration {
            break;
        }
        sample_at += scenario.sampling_interval;
    }
    let mut links = routers.finish()?;
    netem.finish(&mut links)?;
    let finish = |flow: AnyFlow| flow.finish(epoch, scenario.sampling_interval);
    let flows: Vec<_> = flows.into_iter().map(finish).collect();
    // Only the senders say what they sent; what receivers sent back is not counted here.
    let packets_sent = flows.iter().map(|flow| flow.sent_packets).sum();
    Ok(Observations {
        flows,
        links,
        packets_sent,
    })
}

/// A flow of a run, whatever its application.
enum AnyFlow {
    Bulk(Box<Flow>),
    Stream(Box<Stream>),
}

impl AnyFlow {
    fn start(
        scenario: &Scenario,
        plan: &Plan,
        index: usize,
        spec: &FlowSpec,
        program: &Path,
    ) -> Result<Self, KernelError> {
        Ok(match &spec.app {
            App::Stream(stream) => Self::Stream(Box::new(Stream::start(
                scenario, plan, index, spec, stream, program,
            )?)),
            _ => Self::Bulk(Box::new(Flow::start(scenario, plan, index, spec, program)?)),
        })
    }

    fn begin(&mut self, epoch: Instant) {
        match self {
            Self::Bulk(flow) => flow.begin(epoch),
            Self::Stream(stream) => stream.begin(epoch),
        }
    }

    fn sample(&mut self, epoch: Instant) -> Result<(), KernelError> {
        match self {
            Self::Bulk(flow) => flow.sample(),
            Self::Stream(stream) => stream.sample(epoch),
        }
    }

    fn finish(self, epoch: Instant, interval: Duration) -> FlowObservation {
        match self {
            Self::Bulk(flow) => flow.finish(epoch, interval),
            Self::Stream(stream) => stream.finish(epoch, interval),
        }
    }
}

/// Runs `command` on a host of `site`'s; `prepare` is told the network and the host's node, and has
/// the command before it starts.
pub(super) fn exec_on(
    site: &dyn Site,
    scenario: &Scenario,
    host: Option<&str>,
    command: &[String],
    interrupted: &Arc<AtomicBool>,
    prepare: impl FnOnce(&Plan, usize, &mut Command) -> Result<(), KernelError>,
) -> Result<ExitStatus, KernelError> {
    let node = match host {
        None => 0,
        Some(name) => find_host(scenario, name)?,
    };
    let router = site.program("evenkeel-router", "evenkeel-router")?;
    let plan = site.build(scenario, interrupted)?;
    let mut routers = Routers::start(scenario, &plan, site, &router)?;
    let (program, arguments) = command.split_first().expect("there is a program");
    let place = &plan.namespaces[node].place;
    let (mut command, handle) = place.command(Path::new(program));
    command.args(arguments);
    prepare(&plan, node, &mut command)?;
    let failed = |source| KernelError::Start {
        what: program.clone(),
        source,
    };
    let mut child = command.spawn().map_err(failed)?;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(status);
        }
        let pause = wait_until(wall_clock() + Duration::from_millis(20), interrupted);
        if let Err(error) = pause.and_then(|()| routers.check()) {
            handle.interrupt(&child);
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
    }
}

/// The links that have to be netem's.
pub(super) fn with_netem(scenario: &Scenario) -> impl Iterator<Item = &LinkSpec> {
    let links = scenario.links.iter();
    links.filter(|link| link.emulator == Emulator::Netem)
}

fn find_host(scenario: &Scenario, name: &str) -> Result<usize, KernelError> {
    let position = scenario.nodes.iter().position(|node| node.name == name);
    position.ok_or_else(|| KernelError::UnknownHost {
        name: name.into(),
        known: scenario
            .nodes
            .iter()
            .map(|node| node.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

fn wait_until(at: Instant, interrupted: &AtomicBool) -> Result<(), KernelError> {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Err(KernelError::Interrupted);
        }
        let left = at.saturating_duration_since(wall_clock());
        if left.is_zero() {
            return Ok(());
        }
        pause(left.min(Duration::from_millis(20)));
    }
}
