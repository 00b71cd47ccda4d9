//! The parameters of the rows: names, meanings, defaults, ranges.

use crate::a_aimd::{Share, VERSIONS};
use crate::params::{Kind, Parameter};
use crate::{abgd, ada_vegas, gaimd, guided, ro_vegas, vegas};

/// Two packets are the smallest window there is (RFC 9002, section 7.2); a thousand are a
/// megabyte into a path nobody has measured.
pub(super) const INITIAL_WINDOW: Parameter = Parameter {
    name: "iw",
    meaning: "initial window in packets; not given, that of RFC 9002: 10, in at most 14720 bytes",
    default: None,
    kind: Kind::Count(2, 1000),
};

pub(super) const TIMEOUT: Parameter = Parameter {
    name: "timeout",
    meaning: "what a probe timeout does: nothing; or each collapses the window as in ns-2's TCP; and so do three losses in a window, as without SACK",
    default: Some(0.0),
    kind: Kind::Choice(&["quic", "tcp", "reno"]),
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

pub(super) const fn gaimd_parameters(default: gaimd::Config) -> [Parameter; 4] {
    [
        additive_increase(default.alpha),
        multiplicative_decrease(default.beta),
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

pub(super) const fn abgd_parameters(default: abgd::Config) -> [Parameter; 7] {
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
pub(super) const SCHEDULE: &str = "schedule";

pub(super) const A_AIMD_PARAMETERS: [Parameter; 6] = [
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
    TIMEOUT,
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

pub(super) const RTT: Parameter = Parameter {
    name: "rtt",
    meaning: "which of a round's samples counts: the least, or the mean as in ns-2",
    default: Some(0.0),
    kind: Kind::Choice(&["least", "mean"]),
};

pub(super) const DIFF: Parameter = Parameter {
    name: "diff",
    meaning: "what Diff counts: the window, or what was in flight and what was sent in the round, as in ns-2",
    default: Some(0.0),
    kind: Kind::Choice(&["window", "sent"]),
};

pub(super) const ABC: Parameter = Parameter {
    name: "abc",
    meaning: "the most packets that an ACK adds in slow start, L of RFC 3465; not given, all that it acknowledged",
    default: None,
    kind: Kind::Count(1, 1000),
};

pub(super) const KEEP: Parameter = Parameter {
    name: "keep",
    meaning: "factor the window is reduced to on loss; 0.75 in ns-2",
    default: Some(vegas::Config::VEGAS_1.keep),
    kind: Kind::Number(0.05, 0.99),
};

pub(super) const fn vegas_parameters(default: vegas::Config) -> [Parameter; 10] {
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
        DIFF,
        ABC,
    ]
}

pub(super) const RO_VEGAS_PARAMETERS: [Parameter; 7] = {
    let [
        alpha,
        beta,
        increment,
        gamma,
        rtt,
        _keep,
        _timeout,
        initial_window,
        _diff,
        _abc,
    ] = vegas_parameters(ro_vegas::Config::PAPER.vegas);
    let probes = Parameter {
        name: "probes",
        meaning: "path headers asked for per round trip, more when the way back queues; not given, on every packet",
        default: None,
        kind: Kind::Count(1, 1000),
    };
    [alpha, beta, increment, gamma, rtt, probes, initial_window]
};

pub(super) const BOUND: Parameter = Parameter {
    name: "bound",
    meaning: "packets that a first grant may put in flight at once; not given, the initial window of RFC 9002; more only where no router lies",
    default: None,
    kind: Kind::Count(10, 60_000),
};

pub(super) const GUIDED_PARAMETERS: [Parameter; 3] = [
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

pub(super) const fn ada_vegas_parameters() -> [Parameter; 6] {
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
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

pub(super) const TFRC_PARAMETERS: [Parameter; 3] = [
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
