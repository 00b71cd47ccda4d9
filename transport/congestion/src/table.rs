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

const fn vegas_parameters(default: vegas::Config) -> [Parameter; 7] {
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
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

const RO_VEGAS_PARAMETERS: [Parameter; 7] = {
    let [alpha, beta, increment, gamma, rtt, _timeout, initial_window] =
        vegas_parameters(ro_vegas::Config::PAPER.vegas);
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

const fn ada_vegas_parameters() -> [Parameter; 4] {
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
        timeouts: Timeouts::Quic,
        initial_window: initial_window(values),
    })
}

fn vegas(values: &Values) -> Result<SharedFactory, SpecError> {
    let config = vegas::Config {
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
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::epoch;

    fn row(name: &str) -> &'static ControllerRow {
        controllers()
            .iter()
            .find(|row| row.name == name)
            .expect("a name of the table")
    }

    fn values(name: &str, text: Option<&str>) -> Values {
        let row = row(name);
        Values::parse(row.name, row.parameters, text).expect("right parameters")
    }

    #[test]
    fn every_row_builds_with_its_defaults_and_with_them_written_out() {
        for row in controllers() {
            controller(row.name).unwrap_or_else(|error| panic!("{error}"));
            let written: Vec<String> = row
                .parameters
                .iter()
                .filter_map(|parameter| {
                    Some(format!("{}={}", parameter.name, parameter.default_text()?))
                })
                .collect();
            if !written.is_empty() {
                controller(&format!("{}:{}", row.name, written.join(",")))
                    .unwrap_or_else(|error| panic!("{error}"));
            }
            assert!(
                !row.summary.is_empty()
                    && row
                        .parameters
                        .iter()
                        .all(|parameter| !parameter.meaning.is_empty())
            );
        }
    }

    #[test]
    fn a_spec_tells_whether_path_headers_are_of_use() {
        for row in controllers() {
            assert_eq!(
                uses_path_headers(row.name),
                Ok(row.uses_path),
                "{}",
                row.name
            );
        }
        for wrong in ["vega", "vegas:alpha=5", "a-aimd:start_s=5"] {
            assert_eq!(uses_path_headers(wrong).err(), controller(wrong).err());
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = controllers().iter().map(|row| row.name).collect();
        assert_eq!(names.len(), controllers().len());
        for row in controllers() {
            let names: BTreeSet<_> = row
                .parameters
                .iter()
                .map(|parameter| parameter.name)
                .collect();
            assert_eq!(names.len(), row.parameters.len(), "{}", row.name);
        }
    }

    #[test]
    fn defaults_are_the_papers_settings() {
        assert_eq!(
            gaimd_config(&values("gaimd", None)),
            gaimd::Config::default()
        );
        assert_eq!(
            gaimd_config(&values("smooth-aimd", None)),
            gaimd::Config::SMOOTH
        );
        assert_eq!(
            vegas_config(&values("vegas", None)),
            Ok(vegas::Config::default())
        );
        assert_eq!(
            vegas_config(&values("vegas8", None)),
            Ok(vegas::Config::VEGAS_8)
        );
        assert_eq!(
            ada_vegas_config(&values("ada-vegas", None)),
            ada_vegas::Config::default()
        );
        assert_eq!(
            abgd_config(&values("abgd", None)),
            Ok(abgd::Config::default())
        );
        assert_eq!(
            guided_config(&values("acp", None)),
            guided::Config::default()
        );
        assert_eq!(
            ro_vegas_config(&values("ro-vegas", None)),
            Ok(ro_vegas::Config::default())
        );
        assert_eq!(tfrc_config(&values("tfrc", None)), tfrc::Config::default());
    }

    #[test]
    fn parameters_reach_the_configuration() {
        assert_eq!(
            gaimd_config(&values("gaimd", Some("beta=0.875,alpha=0.31"))),
            gaimd::Config::SMOOTH
        );
        assert_eq!(
            vegas_config(&values(
                "vegas",
                Some("alpha=2,beta=4,inc=3,gamma=5,rtt=mean,iw=7")
            )),
            Ok(vegas::Config {
                alpha: 2.0,
                beta: 4.0,
                increment: 3.0,
                gamma: 5.0,
                rtt: RoundRtt::Mean,
                timeouts: Timeouts::Quic,
                initial_window: InitialWindow::Packets(7),
            })
        );
        for name in ["reno", "gaimd", "vegas", "abgd"] {
            assert_eq!(timeouts(&values(name, None)), Timeouts::Quic, "{name}");
            let tcp = timeouts(&values(name, Some("timeout=tcp")));
            assert_eq!(tcp, Timeouts::Tcp, "{name}");
        }
        assert_eq!(
            ada_vegas_config(&values("ada-vegas", Some("relapse=true,gamma=2,iw=3"))),
            ada_vegas::Config {
                relapse: true,
                gamma: 2.0,
                initial_window: InitialWindow::Packets(3),
                ..ada_vegas::Config::PAPER
            }
        );
        assert!(!ada_vegas_config(&values("ada-vegas", Some("relapse=false"))).relapse);
        assert_eq!(round_rtt(&values("vegas8", None)), RoundRtt::Least);
        let by_the_mean = ada_vegas_config(&values("ada-vegas", Some("rtt=mean")));
        assert_eq!(by_the_mean.rtt, RoundRtt::Mean);
        assert_eq!(
            ro_vegas_config(&values("ro-vegas", Some("alpha=2,rtt=mean,probes=8"))),
            Ok(ro_vegas::Config {
                vegas: vegas::Config {
                    alpha: 2.0,
                    rtt: RoundRtt::Mean,
                    ..vegas::Config::VEGAS_1
                },
                probes: Some(8),
            })
        );
        assert_eq!(
            abgd_config(&values(
                "abgd",
                Some("alpha=0.5,beta=0.7,delta=1,upper=0.6,lower=0.2,timeout=tcp,iw=3")
            )),
            Ok(abgd::Config {
                alpha: 0.5,
                beta: 0.7,
                delta: 1.0,
                upper: 0.6,
                lower: 0.2,
                timeouts: Timeouts::Tcp,
                initial_window: InitialWindow::Packets(3),
            })
        );
        assert_eq!(
            guided_config(&values("acp", Some("fallback=reno,iw=10,bound=3000"))),
            guided::Config {
                fallback: FallbackKind::Reno,
                initial_window: InitialWindow::Packets(10),
                bound: InitialWindow::Packets(3000),
            }
        );
        assert_eq!(share(&values("a-aimd", None)), Share::default());
        assert_eq!(
            share(&values("a-aimd", Some("target=10,most=1"))),
            Share {
                target: 10.0,
                most: 1.0,
            }
        );
        assert_eq!(
            tfrc_config(&values("tfrc", Some("damping=false,iw=4"))),
            tfrc::Config {
                damping: false,
                initial_window: InitialWindow::Packets(4),
                ..tfrc::Config::RFC_5348
            }
        );
        assert!(!tfrc_config(&values("tfrc", Some("discounting=false"))).discounting);
        let built = controller("reno:iw=4")
            .expect("a right spec")
            .build(epoch(), 1200);
        assert_eq!(built.initial_window(), 4800);
    }

    #[test]
    fn a_wrong_spec_gets_one_line_that_says_what_would_be_right() {
        let table = [
            (
                "vega",
                "unknown controller \"vega\": use one of reno, gaimd, smooth-aimd, vegas, vegas8, ada-vegas, ro-vegas, acp, xcp, rcp, abgd, a-aimd, tfrc, cubic, bbr",
            ),
            (
                "",
                "unknown controller \"\": use one of reno, gaimd, smooth-aimd, vegas, vegas8, ada-vegas, ro-vegas, acp, xcp, rcp, abgd, a-aimd, tfrc, cubic, bbr",
            ),
            (
                "cubic:beta=0.5",
                "cubic takes no parameters: write \"cubic\" alone",
            ),
            ("bbr:", "bbr takes no parameters: write \"bbr\" alone"),
            (
                "reno:alpha=1",
                "reno has no parameter \"alpha\": use one of timeout, iw",
            ),
            (
                "vegas:alpa=1",
                "vegas has no parameter \"alpa\": use one of alpha, beta, inc, gamma, rtt, timeout, iw",
            ),
            (
                "vegas:alpha=5",
                "vegas: alpha=5 is above beta=3; make alpha the smaller",
            ),
            (
                "ada-vegas:relapse=yes",
                "ada-vegas: relapse=yes is not allowed; use one of false, true",
            ),
            (
                "abgd:delta=0.5",
                "abgd: alpha=1 is above delta=0.5; make alpha the smaller",
            ),
            (
                "abgd:lower=0.6",
                "abgd: lower=0.6 is above upper=0.5; make lower the smaller",
            ),
            (
                "a-aimd:schedule=O",
                "a-aimd: schedule=O is not allowed; use one of A, B, C, D, E, F, G, H, I, J, K, L, M, N",
            ),
            (
                "a-aimd:start_s=30",
                "a-aimd: start_s means nothing without schedule; give both",
            ),
            (
                "a-aimd:schedule=B,most=1",
                "a-aimd: most means nothing with schedule; give one of them",
            ),
            (
                "a-aimd:target=1,schedule=B",
                "a-aimd: target means nothing with schedule; give one of them",
            ),
            (
                "gaimd:beta=1",
                "gaimd: beta=1 is not allowed; use a number from 0.05 to 0.99",
            ),
        ];
        for (spec, message) in table {
            let error = controller(spec)
                .err()
                .unwrap_or_else(|| panic!("{spec} was accepted"));
            assert_eq!(error.to_string(), message);
        }
    }

    proptest! {
        #[test]
        fn any_text_builds_a_controller_or_gets_one_line(
            spec in prop_oneof![
                any::<String>(),
                "(reno|gaimd|vegas8?|ada-vegas|ro-vegas|acp|xcp|rcp|abgd|a-aimd|tfrc|cubic|bbr|vega):?[a-z]{0,6}=?[-0-9.e]{0,8},?(alpha|beta|inc|gamma|iw|relapse|probes|fallback|target|start_s|schedule)=[-0-9.einfNa]{0,6}",
            ]
        ) {
            if let Err(error) = controller(&spec) {
                let message = error.to_string();
                prop_assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
                prop_assert!(message.len() < 700, "{} bytes", message.len());
            }
        }
    }
}
