//! The table of controllers: name, parameters, how to build one.

use std::time::Duration;

use crate::a_aimd::{AAimd, Counted, Schedule, Share, VERSIONS};
use crate::abgd::{self, Abgd};
use crate::acp::AcpRule;
use crate::ada_vegas::{self, AdaVegas};
use crate::adapter::{SharedFactory, adapt, quinn_bbr, quinn_cubic};
use crate::gaimd::{self, Gaimd, Timeouts};
use crate::guided::{self, FallbackKind, Guided, Rule};
use crate::params::{Kind, Parameter, SpecError, Values, echo, list};
use crate::rcp::RcpRule;
use crate::ro_vegas::{self, RoVegas};
use crate::tfrc::{self, Tfrc};
use crate::vegas::{self, RoundRtt, Vegas};
use crate::window::InitialWindow;
use crate::xcp::XcpRule;

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

/// Two packets are the smallest window there is (RFC 9002, section 7.2); a thousand are a
/// megabyte into a path nobody has measured.
const INITIAL_WINDOW: Parameter = Parameter {
    name: "iw",
    meaning: "initial window in packets; not given, that of RFC 9002: 10, in at most 14720 bytes",
    default: None,
    kind: Kind::Count(2, 1000),
};

const TIMEOUT: Parameter = Parameter {
    name: "timeout",
    meaning: "what a probe timeout does: nothing, or each collapses the window as in ns-2's TCP",
    default: Some(0.0),
    kind: Kind::Choice(&["quic", "tcp"]),
};

const fn additive_increase(default: f64) -> Parameter {
    Parameter {
        name: "alpha",
        meaning: "packets added per round trip",
        default: Some(default),
        kind: Kind::Number(0.01, 100.0),
    }
}

const fn multiplicative_decrease(default: f64) -> Parameter {
    Parameter {
        name: "beta",
        meaning: "factor the window is reduced to on loss",
        default: Some(default),
        kind: Kind::Number(0.05, 0.99),
    }
}

const fn gaimd_parameters(default: gaimd::Config) -> [Parameter; 4] {
    [
        additive_increase(default.alpha),
        multiplicative_decrease(default.beta),
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

const fn abgd_parameters(default: abgd::Config) -> [Parameter; 7] {
    [
        additive_increase(default.alpha),
        multiplicative_decrease(default.beta),
        Parameter {
            name: "delta",
            meaning: "packets added per round trip while the queue is nearly empty; alpha turns it off",
            default: Some(default.delta),
            kind: Kind::Number(0.01, 100.0),
        },
        Parameter {
            name: "upper",
            meaning: "fill of the queue from which gamma reduces the window",
            default: Some(default.upper),
            kind: Kind::Number(0.01, 1.0),
        },
        Parameter {
            name: "lower",
            meaning: "fill of the queue up to which delta counts instead of alpha",
            default: Some(default.lower),
            kind: Kind::Number(0.0, 1.0),
        },
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

/// The parameter of `a-aimd` without which routers count the flows.
const SCHEDULE: &str = "schedule";

const A_AIMD_PARAMETERS: [Parameter; 5] = [
    Parameter {
        name: "target",
        meaning: "packets that all flows together add per round trip, as routers count them",
        default: Some(Share::FRUGAL.target),
        kind: Kind::Number(0.1, 1000.0),
    },
    Parameter {
        name: "most",
        meaning: "packets that this flow adds per round trip at most",
        default: Some(Share::FRUGAL.most),
        kind: Kind::Number(0.01, 100.0),
    },
    Parameter {
        name: SCHEDULE,
        meaning: "instead of routers, the paper's version: alpha of four periods of 30 s",
        default: None,
        kind: Kind::Choice(&version_names()),
    },
    Parameter {
        name: "start_s",
        meaning: "seconds of the schedule that have passed when the connection begins; not given, 0",
        default: None,
        kind: Kind::Number(0.0, 120.0),
    },
    INITIAL_WINDOW,
];

const fn version_names() -> [&'static str; VERSIONS.len()] {
    let mut names = [""; VERSIONS.len()];
    let mut version = 0;
    while version < names.len() {
        names[version] = VERSIONS[version].name;
        version += 1;
    }
    names
}

/// The words of a parameter that is on or off: the place of a word is its number.
const OFF_OR_ON: Kind = Kind::Choice(&["false", "true"]);

const GAMMA: Parameter = Parameter {
    name: "gamma",
    meaning: "slow start ends above this many packets of its own queued",
    default: Some(vegas::Config::VEGAS_1.gamma),
    kind: Kind::Number(0.0, 1000.0),
};

const RTT: Parameter = Parameter {
    name: "rtt",
    meaning: "which of a round's samples counts: the least, or the mean as in ns-2",
    default: Some(0.0),
    kind: Kind::Choice(&["least", "mean"]),
};

const KEEP: Parameter = Parameter {
    name: "keep",
    meaning: "factor the window is reduced to on loss; 0.75 in ns-2",
    default: Some(vegas::Config::VEGAS_1.keep),
    kind: Kind::Number(0.05, 0.99),
};

const fn vegas_parameters(default: vegas::Config) -> [Parameter; 8] {
    [
        Parameter {
            name: "alpha",
            meaning: "the window grows below this many packets of its own queued",
            default: Some(default.alpha),
            kind: Kind::Number(0.0, 1000.0),
        },
        Parameter {
            name: "beta",
            meaning: "the window shrinks above this many packets of its own queued",
            default: Some(default.beta),
            kind: Kind::Number(0.0, 1000.0),
        },
        Parameter {
            name: "inc",
            meaning: "packets added in a round of growth",
            default: Some(default.increment),
            kind: Kind::Number(0.01, 100.0),
        },
        GAMMA,
        RTT,
        KEEP,
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

const RO_VEGAS_PARAMETERS: [Parameter; 7] = {
    let [
        alpha,
        beta,
        increment,
        gamma,
        rtt,
        _keep,
        _timeout,
        initial_window,
    ] = vegas_parameters(ro_vegas::Config::PAPER.vegas);
    let probes = Parameter {
        name: "probes",
        meaning: "path headers asked for per round trip, more when the way back queues; not given, on every packet",
        default: None,
        kind: Kind::Count(1, 1000),
    };
    [alpha, beta, increment, gamma, rtt, probes, initial_window]
};

const BOUND: Parameter = Parameter {
    name: "bound",
    meaning: "packets that a first grant may put in flight at once; not given, the initial window of RFC 9002; more only where no router lies",
    default: None,
    kind: Kind::Count(10, 60_000),
};

const GUIDED_PARAMETERS: [Parameter; 3] = [
    Parameter {
        name: "fallback",
        meaning: "who decides while no router that grants is heard",
        default: Some(guided::Config::PAPER.fallback as u8 as f64),
        kind: Kind::Choice(&["vegas", "reno"]),
    },
    Parameter {
        name: "iw",
        meaning: "initial window in packets",
        default: Some(1.0),
        kind: Kind::Count(1, 1000),
    },
    BOUND,
];

const fn ada_vegas_parameters() -> [Parameter; 5] {
    [
        Parameter {
            name: "relapse",
            meaning: "whether a round without growth brings the table's first row back at once",
            default: Some(if ada_vegas::Config::PAPER.relapse {
                1.0
            } else {
                0.0
            }),
            kind: OFF_OR_ON,
        },
        GAMMA,
        RTT,
        KEEP,
        INITIAL_WINDOW,
    ]
}

const TFRC_PARAMETERS: [Parameter; 3] = [
    Parameter {
        name: "damping",
        meaning: "whether packets leave slower while the round trip is longer than usual",
        default: Some(1.0),
        kind: OFF_OR_ON,
    },
    Parameter {
        name: "discounting",
        meaning: "whether a long time without losses makes earlier ones count less",
        default: Some(1.0),
        kind: OFF_OR_ON,
    },
    INITIAL_WINDOW,
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
        _ => Timeouts::Tcp,
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
        keep: vegas::Config::VEGAS_1.keep,
        timeouts: Timeouts::Quic,
        initial_window: initial_window(values),
    })
}

fn vegas(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = vegas::Config {
        keep: values.number(KEEP.name),
        timeouts: timeouts(values),
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
    let initial_window = initial_window(values);
    let Some(version) = values.optional(SCHEDULE) else {
        let share = share(values);
        return Ok(adapt(move |_, mtu| {
            Box::new(AAimd::new(Counted::new(share), initial_window, mtu))
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
        Box::new(AAimd::new(schedule, initial_window, mtu))
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
