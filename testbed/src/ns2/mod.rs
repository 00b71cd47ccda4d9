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

use evenkeel_congestion::SpecParameter;
use evenkeel_congestion::abgd::{self, Abgd};
use evenkeel_congestion::ada_vegas::RELAPSE;
use evenkeel_congestion::gaimd::{self, Gaimd};
use evenkeel_congestion::ro_vegas::{Config as RoVegasConfig, PARAMETERS, RoVegas};
use evenkeel_congestion::vegas::{Config, GAMMA, parameters};
use evenkeel_congestion::{ControllerBuild, ControllerRow, InitialWindow, adapt};

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
    ControllerRow {
        name: "ns2-reno",
        summary: "reno with ns-2's timeouts",
        parameters: &[TIMEOUT, INITIAL_WINDOW],
        build: ControllerBuild {
            uses_path: |_| false,
            factory: |values| {
                let config = gaimd::Config {
                    initial_window: InitialWindow::read(values, "iw"),
                    ..gaimd::Config::RENO
                };
                Ok(with_timeouts(values, move |mtu| Gaimd::new(config, mtu)))
            },
        },
    },
    ControllerRow {
        name: "ns2-gaimd",
        summary: "gaimd with ns-2's timeouts",
        parameters: &aimd_parameters(gaimd::Config::RENO),
        build: AIMD,
    },
    ControllerRow {
        name: "ns2-smooth-aimd",
        summary: "smooth-aimd with ns-2's timeouts",
        parameters: &aimd_parameters(gaimd::Config::SMOOTH),
        build: AIMD,
    },
    ControllerRow {
        name: "ns2-abgd",
        summary: "abgd with ns-2's timeouts",
        parameters: &{
            let [alpha, beta, delta, upper, lower] = abgd::PARAMETERS;
            [alpha, beta, delta, upper, lower, TIMEOUT, INITIAL_WINDOW]
        },
        build: ControllerBuild {
            uses_path: |_| false,
            factory: |values| {
                let config = abgd::Config::read(values)?;
                Ok(with_timeouts(values, move |mtu| Abgd::new(config, mtu)))
            },
        },
    },
    ControllerRow {
        name: "ns2-vegas",
        summary: "vegas with ns-2's rules",
        parameters: &vegas_parameters(Config::VEGAS_1),
        build: VEGAS,
    },
    ControllerRow {
        name: "ns2-vegas8",
        summary: "vegas8 with ns-2's rules",
        parameters: &vegas_parameters(Config::VEGAS_8),
        build: VEGAS,
    },
    ControllerRow {
        name: "ns2-ada-vegas",
        summary: "ada-vegas with ns-2's rules",
        parameters: &[
            RELAPSE,
            GAMMA,
            RTT,
            DIFF,
            DECREASE,
            ABC,
            TIMEOUT,
            INITIAL_WINDOW,
        ],
        build: ControllerBuild {
            uses_path: |_| false,
            factory: |values| {
                let config = vegas::Config::read_ada(values);
                let build = move |mtu| vegas::Vegas::new(config, mtu);
                Ok(with_timeouts(values, build))
            },
        },
    },
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

const AIMD: ControllerBuild = ControllerBuild {
    uses_path: |_| false,
    factory: |values| {
        let config = gaimd::Config::read(values);
        Ok(with_timeouts(values, move |mtu| Gaimd::new(config, mtu)))
    },
};

const VEGAS: ControllerBuild = ControllerBuild {
    uses_path: |_| false,
    factory: |values| {
        let config = vegas::Config::read(values)?;
        let build = move |mtu| vegas::Vegas::new(config, mtu);
        Ok(with_timeouts(values, build))
    },
};

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
