//! Tests of `table.rs`.

use std::collections::BTreeSet;

use evenkeel_spec::SpecValues;
use proptest::prelude::*;

use super::*;
use crate::a_aimd::Share;
use crate::diff::Thresholds;
use crate::guided::{self, FallbackKind};
use crate::path_control::PathFeed;
use crate::slow_start::SlowStart;
use crate::testing::epoch;
use crate::window::InitialWindow;

fn values(name: &str, text: Option<&str>) -> SpecValues {
    let row = controllers().iter().find(|row| row.name == name);
    let row = row.expect("a name of the table");
    SpecValues::parse(row.name, row.parameters, text).expect("right parameters")
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
fn every_row_but_quinns_bbr_repeats_with_its_seed() {
    for row in controllers() {
        let repeats = Controllers::shipped().repeats(row.name);
        assert_eq!(repeats, Ok(row.name != "bbr"), "{}", row.name);
    }
    let wrong = Controllers::shipped().repeats("vega");
    assert_eq!(wrong.err(), controller("vega").err());
}

#[test]
fn every_row_but_tfrc_and_quinns_own_continues_with_the_window_of_the_one_before() {
    let anew = ["tfrc", "cubic", "bbr"];
    for row in controllers() {
        let feed = PathFeed::default();
        feed.resume(480_000);
        let factory = controller(row.name).expect("a name of the table");
        let metrics = factory.build_fed(epoch(), 1200, feed).metrics();
        let continues = (metrics.congestion_window, metrics.ssthresh) == (480_000, Some(480_000));
        assert_eq!(continues, !anew.contains(&row.name), "{}", row.name);
    }
}

#[test]
fn a_spec_tells_whether_path_headers_are_of_use() {
    let guided = ["keel", "ro-vegas", "acp", "xcp", "rcp", "a-aimd"];
    assert_eq!(uses_path_headers("a-aimd:schedule=A"), Ok(false));
    for row in controllers() {
        assert_eq!(
            uses_path_headers(row.name),
            Ok(guided.contains(&row.name)),
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
    let of = |name| values(name, None);
    assert_eq!(gaimd::Config::read(&of("gaimd")), gaimd::Config::default());
    assert_eq!(
        gaimd::Config::read(&of("smooth-aimd")),
        gaimd::Config::SMOOTH
    );
    assert_eq!(
        vegas::Config::read(&of("vegas")),
        Ok(vegas::Config::default())
    );
    assert_eq!(
        vegas::Config::read(&of("vegas8")),
        Ok(vegas::Config::VEGAS_8)
    );
    assert_eq!(
        ada_vegas::Config::read(&of("ada-vegas")),
        ada_vegas::Config::default()
    );
    assert_eq!(abgd::Config::read(&of("abgd")), Ok(abgd::Config::default()));
    for name in ["acp", "xcp", "rcp"] {
        assert_eq!(guided::Config::read(&of(name)), guided::Config::default());
    }
    assert_eq!(
        ro_vegas::Config::read(&of("ro-vegas")),
        Ok(ro_vegas::Config::default())
    );
    assert_eq!(Share::read(&of("a-aimd")), Share::default());
    assert_eq!(tfrc::Config::read(&of("tfrc")), tfrc::Config::default());
}

#[test]
fn parameters_reach_the_configuration() {
    let of = |name, text| values(name, Some(text));
    assert_eq!(
        gaimd::Config::read(&of("gaimd", "beta=0.875,alpha=0.31")),
        gaimd::Config::SMOOTH
    );
    let vegas = vegas::Config {
        thresholds: Thresholds {
            alpha: 2.0,
            beta: 4.0,
            gamma: 5.0,
        },
        increment: 3.0,
        initial_window: InitialWindow::Packets(17),
    };
    assert_eq!(
        vegas::Config::read(&of("vegas", "alpha=2,beta=4,inc=3,gamma=5,iw=17")),
        Ok(vegas)
    );
    assert_eq!(
        ada_vegas::Config::read(&of("ada-vegas", "relapse=true,gamma=2,iw=13")),
        ada_vegas::Config {
            relapse: true,
            gamma: 2.0,
            initial_window: InitialWindow::Packets(13),
            ..ada_vegas::Config::PAPER
        }
    );
    assert!(!ada_vegas::Config::read(&of("ada-vegas", "relapse=false")).relapse);
    assert_eq!(
        ro_vegas::Config::read(&of(
            "ro-vegas",
            "alpha=2,beta=4,inc=3,gamma=5,iw=17,probes=8"
        )),
        Ok(ro_vegas::Config {
            vegas,
            probes: Some(8),
        })
    );
    assert_eq!(
        abgd::Config::read(&of(
            "abgd",
            "alpha=0.5,beta=0.7,delta=1,upper=0.6,lower=0.2,iw=13"
        )),
        Ok(abgd::Config {
            alpha: 0.5,
            beta: 0.7,
            delta: 1.0,
            upper: 0.6,
            lower: 0.2,
            initial_window: InitialWindow::Packets(13),
            slow_start: SlowStart::Loss,
        })
    );
    assert_eq!(
        guided::Config::read(&of("acp", "fallback=reno,iw=10,bound=3000")),
        guided::Config {
            fallback: FallbackKind::Reno,
            initial_window: InitialWindow::Packets(10),
            bound: InitialWindow::Packets(3000),
        }
    );
    assert_eq!(
        Share::read(&of("a-aimd", "target=10,most=1")),
        Share {
            target: 10.0,
            most: 1.0,
        }
    );
    assert_eq!(
        tfrc::Config::read(&of("tfrc", "damping=false,iw=14")),
        tfrc::Config {
            damping: false,
            initial_window: InitialWindow::Packets(14),
            ..tfrc::Config::RFC_5348
        }
    );
    assert!(!tfrc::Config::read(&of("tfrc", "discounting=false")).discounting);
    let built = controller("reno:iw=14")
        .expect("a right spec")
        .build(epoch(), 1200);
    assert_eq!(built.initial_window(), 16_800);
}

#[test]
fn an_application_extends_the_table() {
    let own = ControllerRow {
        name: "own",
        summary: "quinn's CUBIC by another name",
        parameters: &[],
        build: ControllerBuild {
            uses_path: |_| true,
            factory: |_| Ok(quinn_cubic()),
        },
    };
    let controllers = Controllers::shipped().with(own);
    assert!(controllers.factory("own").is_ok() && controllers.factory("reno").is_ok());
    assert_eq!(controllers.uses_path_headers("own"), Ok(true));
    assert_eq!(controllers.rows().last().map(|row| row.name), Some("own"));
    assert!(controller("own").is_err(), "other tables are as before");
}

#[test]
#[should_panic(expected = "two controllers have the name reno")]
fn a_name_stands_for_one_controller() {
    drop(Controllers::shipped().with(gaimd::RENO));
}

#[test]
fn a_wrong_spec_gets_one_line_that_says_what_would_be_right() {
    let table = [
        (
            "vega",
            "unknown controller \"vega\": did you mean vegas? use one of keel, reno, gaimd, smooth-aimd, vegas, vegas8, ada-vegas, ro-vegas, acp, xcp, rcp, abgd, a-aimd, tfrc, cubic, bbr",
        ),
        (
            "",
            "unknown controller \"\": use one of keel, reno, gaimd, smooth-aimd, vegas, vegas8, ada-vegas, ro-vegas, acp, xcp, rcp, abgd, a-aimd, tfrc, cubic, bbr",
        ),
        (
            "cubic:beta=0.5",
            "cubic takes no parameters: write \"cubic\" alone",
        ),
        ("bbr:", "bbr takes no parameters: write \"bbr\" alone"),
        (
            "reno:alpha=1",
            "reno has no parameter \"alpha\": use one of iw, hystart",
        ),
        (
            "vegas:alpa=1",
            "vegas has no parameter \"alpa\": did you mean alpha? use one of alpha, beta, inc, gamma, iw",
        ),
        (
            "vegas:alpha=5",
            "vegas: alpha=5 is above beta=3; make alpha the smaller",
        ),
        (
            "ada-vegas:relapse=yes",
            "ada-vegas: relapse=yes is not allowed; use true or false",
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
            "reno:iw=9",
            "reno: iw=9 is not allowed; use a whole number from 10 to 1000",
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

#[cfg(feature = "ablation")]
#[test]
fn only_a_table_with_switches_takes_their_parameters() {
    let spec = "keel:without.hold=true";
    let shipped = Controllers::shipped();
    assert!(shipped.factory(spec).is_err());
    assert!(shipped.with_switches().factory(spec).is_ok());
}
