//! Controllers that take over rules of ns-2's TCP, to explain the papers' figures.
//!
//! The papers ran ns-2. Its TCP collapses the window at retransmission timeouts, begins with a
//! window of 2 or 3 packets, and computes Vegas's Diff in its own way. QUIC does none of this
//! (RFC 9002), and the controllers that ship do not either. Each controller here is one of those
//! with parameters that take over ns-2's rules one by one; without them it decides as the original.
//! They register like an application's own controllers.

mod ro_vegas;
mod timeouts;
mod vegas;

use evenkeel_congestion::abgd::{self, Abgd};
use evenkeel_congestion::ada_vegas::RELAPSE;
use evenkeel_congestion::gaimd::{self, Gaimd};
use evenkeel_congestion::ro_vegas::{Config as RoVegasConfig, PARAMETERS, RoVegas};
use evenkeel_congestion::vegas::{Config, GAMMA, parameters};
use evenkeel_congestion::{ControllerBuild, ControllerRow, InitialWindow, adapt};
use evenkeel_congestion::{SharedFactory, SpecError, SpecParameter, SpecValues};

use ro_vegas::MeanRoVegas;
use timeouts::{TIMEOUT, with_timeouts};
use vegas::{ABC, DECREASE, DIFF, RTT, RoundRtt};

/// ns-2's TCP begins with 2 packets where the receiver delays ACKs. Where each packet has an ACK,
/// its Vegas begins with 3.
const INITIAL_WINDOW: SpecParameter = SpecParameter::count(
    "iw",
    "initial window in packets; 2 or 3 in ns-2; not given, that of RFC 9002",
    2,
    1000,
    None,
);

/// The rows of this module.
pub(crate) const ROWS: [ControllerRow; 8] = [
    row(
        "ns2-reno",
        "reno with ns-2's timeouts",
        &[TIMEOUT, INITIAL_WINDOW],
        |values| {
            let config = gaimd::Config {
                initial_window: InitialWindow::read(values, "iw"),
                ..gaimd::Config::RENO
            };
            Ok(with_timeouts(values, move |mtu| Gaimd::new(config, mtu)))
        },
    ),
    row(
        "ns2-gaimd",
        "gaimd with ns-2's timeouts",
        const { &aimd_parameters(gaimd::Config::RENO) },
        aimd,
    ),
    row(
        "ns2-smooth-aimd",
        "smooth-aimd with ns-2's timeouts",
        const { &aimd_parameters(gaimd::Config::SMOOTH) },
        aimd,
    ),
    row(
        "ns2-abgd",
        "abgd with ns-2's timeouts",
        const {
            let [alpha, beta, delta, upper, lower] = abgd::PARAMETERS;
            &[alpha, beta, delta, upper, lower, TIMEOUT, INITIAL_WINDOW]
        },
        |values| {
            let config = abgd::Config::read(values)?;
            Ok(with_timeouts(values, move |mtu| Abgd::new(config, mtu)))
        },
    ),
    row(
        "ns2-vegas",
        "vegas with ns-2's rules",
        const { &vegas_parameters(Config::VEGAS_1) },
        |values| Ok(vegas(values, vegas::Config::read(values)?)),
    ),
    row(
        "ns2-vegas8",
        "vegas8 with ns-2's rules",
        const { &vegas_parameters(Config::VEGAS_8) },
        |values| Ok(vegas(values, vegas::Config::read(values)?)),
    ),
    row(
        "ns2-ada-vegas",
        "ada-vegas with ns-2's rules",
        &[
            RELAPSE,
            GAMMA,
            RTT,
            DIFF,
            DECREASE,
            ABC,
            TIMEOUT,
            INITIAL_WINDOW,
        ],
        |values| Ok(vegas(values, vegas::Config::read_ada(values))),
    ),
    ControllerRow {
        name: "ns2-ro-vegas",
        summary: "ro-vegas by the mean of a round's samples, or by the least",
        parameters: &{
            let [alpha, beta, increment, gamma, probes] = PARAMETERS;
            [alpha, beta, increment, gamma, probes, RTT, INITIAL_WINDOW]
        },
        build: ControllerBuild {
            uses_path: |_| true,
            factory: |values| {
                let config = RoVegasConfig::read(values)?;
                Ok(
                    match values.choice("rtt", &[RoundRtt::Least, RoundRtt::Mean]) {
                        RoundRtt::Least => adapt(move |_, mtu| Box::new(RoVegas::new(config, mtu))),
                        RoundRtt::Mean => {
                            adapt(move |_, mtu| Box::new(MeanRoVegas::new(config, mtu)))
                        }
                    },
                )
            },
        },
    },
];

/// The row of a controller without path headers.
const fn row(
    name: &'static str,
    summary: &'static str,
    parameters: &'static [SpecParameter],
    factory: fn(&SpecValues) -> Result<SharedFactory, SpecError>,
) -> ControllerRow {
    ControllerRow {
        name,
        summary,
        parameters,
        build: ControllerBuild {
            uses_path: |_| false,
            factory,
        },
    }
}

fn aimd(values: &SpecValues) -> Result<SharedFactory, SpecError> {
    let config = gaimd::Config::read(values);
    Ok(with_timeouts(values, move |mtu| Gaimd::new(config, mtu)))
}

fn vegas(values: &SpecValues, config: vegas::Config) -> SharedFactory {
    with_timeouts(values, move |mtu| vegas::Vegas::new(config, mtu))
}

const fn aimd_parameters(default: gaimd::Config) -> [SpecParameter; 4] {
    let [alpha, beta] = gaimd::parameters(default);
    [alpha, beta, TIMEOUT, INITIAL_WINDOW]
}

const fn vegas_parameters(default: Config) -> [SpecParameter; 10] {
    let [alpha, beta, increment, gamma] = parameters(default);
    [
        alpha,
        beta,
        increment,
        gamma,
        RTT,
        DIFF,
        DECREASE,
        ABC,
        TIMEOUT,
        INITIAL_WINDOW,
    ]
}

#[cfg(test)]
mod tests;
