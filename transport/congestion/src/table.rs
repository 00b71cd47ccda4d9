//! The table of controllers: name, parameters, how to build one.

mod parameters;

use std::time::Duration;

use crate::a_aimd::{AAimd, Counted, Schedule, Share, VERSIONS};
use crate::abgd::{self, Abgd};
use crate::acp::AcpRule;
use crate::ada_vegas::{self, AdaVegas};
use crate::adapter::{SharedFactory, adapt, quinn_bbr, quinn_cubic};
use crate::gaimd::{self, Gaimd, Timeouts};
use crate::guided::{self, FallbackKind, Guided, Rule};
use crate::params::{Parameter, SpecError, Values, echo, list};
use crate::rcp::RcpRule;
use crate::ro_vegas::{self, RoVegas};
use crate::tfrc::{self, Tfrc};
use crate::vegas::{self, DiffOf, RoundRtt, Vegas};
use crate::window::InitialWindow;
use crate::xcp::XcpRule;
use parameters::{
    A_AIMD_PARAMETERS, ABC, BOUND, DIFF, GUIDED_PARAMETERS, INITIAL_WINDOW, KEEP,
    RO_VEGAS_PARAMETERS, RTT, SCHEDULE, TFRC_PARAMETERS, TIMEOUT, abgd_parameters,
    ada_vegas_parameters, gaimd_parameters, vegas_parameters,
};

/// A controller that can be asked for by name.
#[derive(Debug)]
pub struct ControllerRow {
    /// The name.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// What can be set, in the order in which to show it.
    pub parameters: &'static [Parameter],
    /// It makes use of path headers. What a spec asks for, [`uses_path_headers`] tells.
    pub uses_path: bool,
    build: fn(&Values) -> Result<SharedFactory, SpecError>,
}

/// A factory for the controller that `spec` names: `vegas`, or with parameters
/// `gaimd:alpha=0.31,beta=0.875`. [`controllers`] lists names and parameters.
///
/// # Errors
///
/// One line that names what is wrong with `spec` and what would be right.
///
/// ```
/// let factory = evenkeel_congestion::controller("vegas:alpha=2,beta=4")?;
/// let error = evenkeel_congestion::controller("vega").err().expect("no such name");
/// assert!(error.to_string().starts_with("unknown controller \"vega\": use one of reno, "));
/// # drop(factory);
/// # Ok::<(), evenkeel_congestion::SpecError>(())
/// ```
pub fn controller(spec: &str) -> Result<SharedFactory, SpecError> {
    let (row, values) = parse(spec)?;
    (row.build)(&values)
}

/// Whether the controller that `spec` names makes use of path headers.
///
/// # Errors
///
/// As [`controller`].
pub fn uses_path_headers(spec: &str) -> Result<bool, SpecError> {
    let (row, values) = parse(spec)?;
    (row.build)(&values)?;
    // A schedule takes the place of what routers count.
    Ok(row.uses_path && !values.is_given(SCHEDULE))
}

/// The row that `spec` names, and the values of its parameters.
fn parse(spec: &str) -> Result<(&'static ControllerRow, Values), SpecError> {
    let (name, parameters) = match spec.split_once(':') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (spec, None),
    };
    let row =
        ROWS.iter()
            .find(|row| row.name == name)
            .ok_or_else(|| SpecError::UnknownController {
                name: echo(name),
                known: list(ROWS.iter().map(|row| row.name)),
            })?;
    let values = Values::parse(row.name, row.parameters, parameters)?;
    Ok((row, values))
}

/// All controllers, in the order in which to show them.
pub fn controllers() -> &'static [ControllerRow] {
    ROWS
}

static ROWS: &[ControllerRow] = &[
    ControllerRow {
        name: "reno",
        summary: "NewReno of RFC 9002",
        parameters: &[TIMEOUT, INITIAL_WINDOW],
        uses_path: false,
        build: |values| {
            gaimd(gaimd::Config {
                timeouts: timeouts(values),
                initial_window: initial_window(values),
                ..gaimd::Config::RENO
            })
        },
    },
    ControllerRow {
        name: "gaimd",
        summary: "general AIMD, TCP(alpha, beta)",
        parameters: &gaimd_parameters(gaimd::Config::RENO),
        uses_path: false,
        build: |values| gaimd(gaimd_config(values)),
    },
    ControllerRow {
        name: "smooth-aimd",
        summary: "general AIMD in small steps, as fast as reno",
        parameters: &gaimd_parameters(gaimd::Config::SMOOTH),
        uses_path: false,
        build: |values| gaimd(gaimd_config(values)),
    },
    ControllerRow {
        name: "vegas",
        summary: "TCP Vegas: keeps 1 to 3 packets queued",
        parameters: &vegas_parameters(vegas::Config::VEGAS_1),
        uses_path: false,
        build: vegas,
    },
    ControllerRow {
        name: "vegas8",
        summary: "Vegas_8 of the AdaVegas paper: grows by 8, keeps 4 to 8 packets queued",
        parameters: &vegas_parameters(vegas::Config::VEGAS_8),
        uses_path: false,
        build: vegas,
    },
    ControllerRow {
        name: "ada-vegas",
        summary: "AdaVegas: grows by 1 to 8, the faster the longer nothing speaks against it",
        parameters: &ada_vegas_parameters(),
        uses_path: false,
        build: ada_vegas,
    },
    ControllerRow {
        name: "ro-vegas",
        summary: "RoVegas: vegas that routers tell how long packets queue, there and back",
        parameters: &RO_VEGAS_PARAMETERS,
        uses_path: true,
        build: ro_vegas,
    },
    ControllerRow {
        name: "acp",
        summary: "ACP: takes the rate that the links on its path compute; vegas where none does",
        parameters: &GUIDED_PARAMETERS,
        uses_path: true,
        build: guided::<AcpRule>,
    },
    ControllerRow {
        name: "xcp",
        summary: "XCP: changes its window as the links on its path say; vegas where none does",
        parameters: &GUIDED_PARAMETERS,
        uses_path: true,
        build: guided::<XcpRule>,
    },
    ControllerRow {
        name: "rcp",
        summary: "RCP: takes the rate that the links on its path share out; vegas where none does",
        parameters: &GUIDED_PARAMETERS,
        uses_path: true,
        build: guided::<RcpRule>,
    },
    ControllerRow {
        name: "abgd",
        summary: "TCP(alpha, beta, gamma, delta): reno that all flows reduce together, before losses",
        parameters: &abgd_parameters(abgd::Config::PAPER),
        uses_path: false,
        build: abgd,
    },
    ControllerRow {
        name: "a-aimd",
        summary: "adaptive additive increase: reno whose alpha follows the contention",
        parameters: &A_AIMD_PARAMETERS,
        uses_path: true,
        build: a_aimd,
    },
    ControllerRow {
        name: "tfrc",
        summary: "TFRC: the rate that TCP would get with the losses measured",
        parameters: &TFRC_PARAMETERS,
        uses_path: false,
        build: tfrc,
    },
    ControllerRow {
        name: "cubic",
        summary: "quinn's own CUBIC",
        parameters: &[],
        uses_path: false,
        build: |_| Ok(quinn_cubic()),
    },
    ControllerRow {
        name: "bbr",
        summary: "quinn's own BBR; random by itself, so that no seed repeats a run",
        parameters: &[],
        uses_path: false,
        build: |_| Ok(quinn_bbr()),
    },
];

fn initial_window(values: &Values) -> InitialWindow {
    packets_or_rfc9002(values, INITIAL_WINDOW.name)
}

fn packets_or_rfc9002(values: &Values, parameter: &'static str) -> InitialWindow {
    match values.optional(parameter) {
        Some(packets) => InitialWindow::Packets(packets as u16),
        None => InitialWindow::Rfc9002,
    }
}

fn timeouts(values: &Values) -> Timeouts {
    match values.number(TIMEOUT.name) as u8 {
        0 => Timeouts::Quic,
        1 => Timeouts::Tcp,
        _ => Timeouts::Reno,
    }
}

fn gaimd_config(values: &Values) -> gaimd::Config {
    gaimd::Config {
        alpha: values.number("alpha"),
        beta: values.number("beta"),
        timeouts: timeouts(values),
        initial_window: initial_window(values),
    }
}

fn gaimd(config: gaimd::Config) -> Result<SharedFactory, SpecError> {
    Ok(adapt(move |_, mtu| Box::new(Gaimd::new(config, mtu))))
}

fn round_rtt(values: &Values) -> RoundRtt {
    match values.number(RTT.name) as u8 {
        0 => RoundRtt::Least,
        _ => RoundRtt::Mean,
    }
}

fn vegas_config(values: &Values) -> Result<vegas::Config, SpecError> {
    values.in_order("alpha", "beta")?;
    Ok(vegas::Config {
        alpha: values.number("alpha"),
        beta: values.number("beta"),
        increment: values.number("inc"),
        gamma: values.number("gamma"),
        rtt: round_rtt(values),
        initial_window: initial_window(values),
        ..vegas::Config::VEGAS_1
    })
}

fn vegas(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = vegas::Config {
        keep: values.number(KEEP.name),
        timeouts: timeouts(values),
        diff: match values.number(DIFF.name) as u8 {
            0 => DiffOf::Window,
            _ => DiffOf::Sent,
        },
        slow_start_limit: values.optional(ABC.name).map(|packets| packets as u16),
        ..vegas_config(values)?
    };
    Ok(adapt(move |_, mtu| Box::new(Vegas::new(config, mtu))))
}

fn ro_vegas_config(values: &Values) -> Result<ro_vegas::Config, SpecError> {
    Ok(ro_vegas::Config {
        vegas: vegas_config(values)?,
        probes: values.optional("probes").map(|probes| probes as u16),
    })
}

fn ro_vegas(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = ro_vegas_config(values)?;
    Ok(adapt(move |_, mtu| Box::new(RoVegas::new(config, mtu))))
}

fn guided<R: Rule + Default>(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = guided_config(values);
    Ok(adapt(move |_, mtu| {
        Box::new(Guided::new(R::default(), config, mtu))
    }))
}

fn guided_config(values: &Values) -> guided::Config {
    guided::Config {
        fallback: match values.number("fallback") as u8 {
            0 => FallbackKind::Vegas,
            _ => FallbackKind::Reno,
        },
        initial_window: initial_window(values),
        bound: packets_or_rfc9002(values, BOUND.name),
    }
}

fn ada_vegas_config(values: &Values) -> ada_vegas::Config {
    ada_vegas::Config {
        relapse: values.number("relapse") == 1.0,
        gamma: values.number("gamma"),
        rtt: round_rtt(values),
        keep: values.number(KEEP.name),
        timeouts: timeouts(values),
        initial_window: initial_window(values),
        ..ada_vegas::Config::PAPER
    }
}

fn ada_vegas(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = ada_vegas_config(values);
    Ok(adapt(move |_, mtu| Box::new(AdaVegas::new(config, mtu))))
}

fn abgd_config(values: &Values) -> Result<abgd::Config, SpecError> {
    values.in_order("alpha", "delta")?;
    values.in_order("lower", "upper")?;
    Ok(abgd::Config {
        alpha: values.number("alpha"),
        beta: values.number("beta"),
        delta: values.number("delta"),
        upper: values.number("upper"),
        lower: values.number("lower"),
        timeouts: timeouts(values),
        initial_window: initial_window(values),
    })
}

fn abgd(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = abgd_config(values)?;
    Ok(adapt(move |_, mtu| Box::new(Abgd::new(config, mtu))))
}

fn a_aimd(values: &Values) -> Result<SharedFactory, SpecError> {
    values.exclude("target", SCHEDULE)?;
    values.exclude("most", SCHEDULE)?;
    values.require("start_s", SCHEDULE)?;
    let timeouts = timeouts(values);
    let initial_window = initial_window(values);
    let Some(version) = values.optional(SCHEDULE) else {
        let share = share(values);
        return Ok(adapt(move |_, mtu| {
            Box::new(AAimd::new(
                Counted::new(share),
                timeouts,
                initial_window,
                mtu,
            ))
        }));
    };
    let alphas = VERSIONS[version as usize].alphas;
    let elapsed = Duration::from_secs_f64(values.optional("start_s").unwrap_or_default());
    Ok(adapt(move |start, mtu| {
        let schedule = Schedule {
            start,
            elapsed,
            alphas,
        };
        Box::new(AAimd::new(schedule, timeouts, initial_window, mtu))
    }))
}

fn share(values: &Values) -> Share {
    Share {
        target: values.number("target"),
        most: values.number("most"),
    }
}

fn tfrc_config(values: &Values) -> tfrc::Config {
    tfrc::Config {
        damping: values.number("damping") == 1.0,
        discounting: values.number("discounting") == 1.0,
        initial_window: initial_window(values),
    }
}

fn tfrc(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = tfrc_config(values);
    Ok(adapt(move |now, mtu| Box::new(Tfrc::new(config, now, mtu))))
}

#[cfg(test)]
mod tests;
