//! What backends on a kernel have in common.
//!
//! A scenario becomes a `Plan` of hosts, addresses, routes and commands. A `Platform` makes
//! the hosts: `netns` of namespaces, `docker` of containers. The rest is the same on both: programs
//! of this workspace run on the hosts, and what they print becomes [`Observations`].

mod arguments;
mod client;
mod cross;
mod error;
mod flow;
mod identity;
mod links;
mod netem;
mod network;
mod pauses;
mod plan;
mod platform;
mod process;
mod records;
mod reports;
mod router_file;
mod routers;
mod tcp;

use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

pub use cross::{udp_sink, udp_source};
pub use error::KernelError;
pub use tcp::{tcp_sink, tcp_source};

use super::clock::{pause, wall_clock};
use crate::metrics::Observations;
use crate::scenario::{App, Scenario};
use crate::sim;
use arguments::ships;
use cross::CrossTraffic;
use flow::Flow;
use links::Links;
use network::Network;
use process::Running;
use routers::Routers;

pub(super) use error::{IMAGE, PROGRAMS, check_interrupt};
pub(super) use identity::{is_alive, label_prefix, own_identity};
pub(super) use netem::trial;
pub(super) use plan::{Host, Plan, needing_netem, wants_netem};
pub(super) use platform::Platform;
pub(super) use process::output_of;
pub(super) use router_file::absolute;
pub(super) use tcp::check_controllers;

/// How often a waiting run looks for interrupts.
const LOOK: Duration = Duration::from_millis(20);

/// Whether hosts of a kernel could run `scenario`; touches nothing.
pub(super) fn check(scenario: &Scenario) -> Result<(), KernelError> {
    // What virtual time cannot build, the routers would refuse one by one.
    sim::simulation(scenario)?;
    for link in needing_netem(scenario) {
        if let Some(key) = netem::unsupported_key(link) {
            return Err(KernelError::BeyondNetem(link.name.clone(), key));
        }
    }
    // The machine that runs it says which controllers its TCP has.
    let flows = scenario.flows.iter();
    for spec in flows.filter(|spec| !matches!(spec.app, App::Tcp { .. })) {
        let flow = spec.name.clone();
        // The hosts run our programs, without a controller that a user added.
        if let Err(error) = crate::controllers().factory(&spec.controller) {
            let is_known = scenario.controllers.factory(&spec.controller).is_ok();
            let place = spec.controller_place.clone();
            return Err(match is_known {
                true => KernelError::OwnController(place, flow, spec.controller.clone()),
                false => KernelError::Controller(place, flow, error),
            });
        }
        if !spec.rebinds.is_empty() {
            return Err(KernelError::NoRebind(flow));
        }
        if spec.remembered.is_some() {
            return Err(KernelError::NoMemory(flow));
        }
        if matches!(&spec.app, App::OnOff { reconnect, .. } if !reconnect) {
            return Err(KernelError::Unsupported(flow));
        }
    }
    Ok(())
}

/// Runs `scenario` in real time on `platform`. `progress` receives how far it has come, once per
/// sampling interval; `interrupted` ends the run.
pub(super) fn run(
    platform: Arc<dyn Platform>,
    scenario: &Scenario,
    interrupted: &AtomicBool,
    mut progress: impl FnMut(Duration),
) -> Result<Observations, KernelError> {
    let evenkeel = platform.program("evenkeel")?;
    let testbed = platform.program("evenkeel-testbed")?;
    let router = platform.program("evenkeel-router")?;
    let network = Network::create(platform, scenario, interrupted)?;
    let mut flows = (0..scenario.flows.len())
        .map(|index| {
            let program = match ships(&scenario.flows[index]) {
                true => &evenkeel,
                false => &testbed,
            };
            Flow::start(&network, index, program)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut cross = (0..scenario.cross.len())
        .map(|index| CrossTraffic::start(&network, index, &testbed))
        .collect::<Result<Vec<_>, _>>()?;
    // The clocks by which links change start with the routers: so these come last.
    let mut links = Links::start(&network, &router)?;

    let epoch = wall_clock();
    flows.iter_mut().for_each(|flow| flow.begin(epoch));
    cross.iter_mut().for_each(CrossTraffic::begin);
    let wait_until = |flows: &mut [Flow], at: Duration| {
        wait_until(epoch + at, interrupted, || {
            let waits = flows.iter_mut().map(|flow| flow.pause_server(LOOK));
            waits.min().unwrap_or(LOOK)
        })
    };
    let mut is_warm = false;
    let mut sample_at = scenario.sampling_interval;
    loop {
        let stop = sample_at.min(scenario.duration);
        if !is_warm && scenario.warmup <= stop {
            wait_until(&mut flows, scenario.warmup)?;
            links.restart_measurement()?;
            is_warm = true;
        }
        wait_until(&mut flows, stop)?;
        links.sample()?;
        flows.iter_mut().try_for_each(|flow| flow.sample(epoch))?;
        cross.iter_mut().try_for_each(CrossTraffic::check)?;
        progress(stop);
        if stop == scenario.duration {
            break;
        }
        sample_at += scenario.sampling_interval;
    }
    let links = links.finish()?;
    let flows: Vec<_> = flows.into_iter().map(|flow| flow.finish(epoch)).collect();
    // Only the senders say what they sent; what receivers sent back is not counted here.
    let packets_sent = flows.iter().map(|flow| flow.sent_packets).sum();
    Ok(Observations {
        flows,
        links,
        packets_sent,
    })
}

/// Runs `command` on a host of `scenario` (the first one if none is named), with all links and
/// routers but without the scenario's traffic. Returns its exit status.
pub(super) fn exec(
    platform: Arc<dyn Platform>,
    scenario: &Scenario,
    host: Option<&str>,
    command: &[String],
    interrupted: &AtomicBool,
) -> Result<ExitStatus, KernelError> {
    let node = host.map_or(Ok(0), |name| find_host(scenario, name))?;
    let router = platform.program("evenkeel-router")?;
    let network = Network::create(platform, scenario, interrupted)?;
    let mut routers = Routers::start(&network, &router)?;
    let host = &network.plan.hosts[node];
    let (program, arguments) = command.split_first().expect("there is a program");
    let program = Path::new(program);
    let mut running = Running::start(&network.platform, host, program, |command| {
        command.args(arguments);
        network.platform.prepare(&network.plan, host, command)
    })?;
    loop {
        if let Some(status) = running.ended() {
            return Ok(status);
        }
        wait_until(wall_clock() + LOOK, interrupted, || LOOK)?;
        routers.check()?;
    }
}

fn find_host(scenario: &Scenario, name: &str) -> Result<usize, KernelError> {
    let names = || scenario.nodes.iter().map(|node| node.name.as_str());
    let position = names().position(|known| known == name);
    position.ok_or_else(|| {
        let known = names().collect::<Vec<_>>().join(", ");
        KernelError::UnknownHost(name.into(), known)
    })
}

/// Waits, and calls `look` now and then, which says how long to wait until the next call.
fn wait_until(
    at: Instant,
    interrupted: &AtomicBool,
    mut look: impl FnMut() -> Duration,
) -> Result<(), KernelError> {
    loop {
        check_interrupt(interrupted)?;
        let left = at.saturating_duration_since(wall_clock());
        if left.is_zero() {
            return Ok(());
        }
        pause(left.min(look()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_virtual_time_alone_has_is_a_mistake_of_the_command() {
        let text = "name = \"a\"\nduration_s = 5\ntopology = \"dumbbell\"\n\
            [[links]]\nname = \"l\"\n\
            [[flows]]\nname = \"f\"\napp = \"bulk\"\ncontroller = \"reno\"\n";
        for (set, key) in [
            ("flows.0.rebinds_s=[3]", "rebinds_s"),
            ("flows.0.remembered={rate_bps=2e6, rtt_ms=20}", "remembered"),
        ] {
            let scenario = Scenario::parse(text, "a.toml", &[set.into()]).unwrap();
            let error = check(&scenario).unwrap_err();
            assert!(error.is_usage(), "{error}");
            let line = error.to_string();
            assert!(
                line.contains(key) && line.contains("use --on sim"),
                "{line}"
            );
        }
    }
}
