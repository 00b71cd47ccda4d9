//! Tests of `table.rs`.

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
            initial_window: InitialWindow::Packets(7),
            ..vegas::Config::VEGAS_1
        })
    );
    for name in ["reno", "gaimd", "vegas", "ada-vegas", "abgd", "a-aimd"] {
        assert_eq!(timeouts(&values(name, None)), Timeouts::Quic, "{name}");
        let tcp = timeouts(&values(name, Some("timeout=tcp")));
        assert_eq!(tcp, Timeouts::Tcp, "{name}");
        let reno = timeouts(&values(name, Some("timeout=reno")));
        assert_eq!(reno, Timeouts::Reno, "{name}");
    }
    let repaired_late = ada_vegas_config(&values("ada-vegas", Some("timeout=reno")));
    assert_eq!(repaired_late.timeouts, Timeouts::Reno);
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
    let gentle = ada_vegas_config(&values("ada-vegas", Some("keep=0.75")));
    assert_eq!(gentle.keep, 0.75);
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
            "vegas has no parameter \"alpa\": use one of alpha, beta, inc, gamma, rtt, keep, timeout, iw, diff, abc",
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
