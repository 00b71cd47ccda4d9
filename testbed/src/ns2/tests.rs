//! Every row, whatever happens.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::controllers;

#[test]
fn every_row_builds_with_its_defaults_and_with_every_extreme() {
    let controllers = controllers();
    for row in &ROWS {
        controllers
            .factory(row.name)
            .unwrap_or_else(|error| panic!("{error}"));
        let uses_path = row.name == "ns2-ro-vegas";
        assert_eq!(controllers.uses_path_headers(row.name), Ok(uses_path));
        let mut names = BTreeSet::new();
        for parameter in row.parameters {
            assert!(
                names.insert(parameter.name),
                "{}: {}",
                row.name,
                parameter.name
            );
            for value in parameter.kind.extremes() {
                let spec = format!("{}:{}={value}", row.name, parameter.name);
                // Some extremes contradict another parameter's default.
                if let Err(error) = controllers.factory(&spec) {
                    assert!(error.to_string().contains("make"), "{error}");
                }
            }
        }
    }
}

#[test]
fn the_controllers_that_ship_have_none_of_these_parameters() {
    for row in evenkeel::controllers() {
        for parameter in row.parameters {
            let own = ["timeout", "rtt", "diff", "decrease", "abc"];
            assert!(!own.contains(&parameter.name), "{}", row.name);
        }
    }
}

proptest! {
    #[test]
    fn any_text_builds_a_controller_or_gets_one_line(
        spec in "ns2-(reno|gaimd|smooth-aimd|abgd|vegas8?|(?:ada|ro)-vegas):(alpha|beta|rtt|diff|decrease|abc|iw|timeout)=[-0-9.a-z]{0,6}",
    ) {
        if let Err(error) = controllers().factory(&spec) {
            let message = error.to_string();
            prop_assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
        }
    }
}
