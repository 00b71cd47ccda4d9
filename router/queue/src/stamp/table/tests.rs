use std::time::Instant;

use super::*;
use crate::testing::epoch;

fn refused(specs: &[&str]) -> String {
    stamp_set(specs).unwrap_err().to_string()
}

#[test]
fn every_row_is_found_by_its_name_and_names_are_unique() {
    for row in stamps() {
        let set = stamp_set([row.name]).unwrap();
        assert_eq!(set[0].name(), row.name);
        let same = stamps().iter().filter(|other| other.name == row.name);
        assert_eq!(same.count(), 1);
    }
    let all = stamps().iter().map(|row| row.name);
    assert_eq!(stamp_set(all).unwrap().len(), stamps().len());
    assert!(stamp_set::<&str>([]).unwrap().is_empty());
}

#[test]
fn every_parameter_can_be_given_at_both_ends_of_its_range() {
    for row in stamps() {
        for parameter in row.parameters {
            for value in parameter.kind.extremes() {
                let spec = format!("{}:{}={value}", row.name, parameter.name);
                let built = stamp_set([&spec]).map(|set| set[0].build(epoch()));
                assert!(built.is_ok(), "{spec}: {built:?}");
            }
        }
    }
}

#[test]
fn a_wrong_list_gets_one_line_that_says_what_would_be_right() {
    assert!(refused(&["aqt", "apc"]).starts_with(
        r#"unknown stamp "apc": did you mean acp? use one of aqt, acp, xcp, rcp, flows"#
    ));
    assert_eq!(
        refused(&["acp:gamma=0.1", "acp"]),
        "the stamp acp is given twice; a port stamps once, give it once"
    );
    assert_eq!(
        refused(&["aqt:x=1"]),
        r#"aqt takes no parameters: write "aqt" alone"#
    );
    assert_eq!(
        refused(&["flows:period_ms=1"]),
        "flows: period_ms=1 is not allowed; use a number from 10 to 60000"
    );
    assert_eq!(
        refused(&["acp:rtt_min_ms=500,rtt_max_ms=100"]),
        "acp: rtt_min_ms=500 is not below rtt_max_ms=100; make rtt_min_ms the smaller"
    );
}

#[test]
fn timers_of_stamps_begin_with_the_port_or_later() {
    let now: Instant = epoch();
    for row in stamps() {
        let stamp = stamp_set([row.name]).unwrap()[0].build(now);
        assert!(stamp.next_timer().is_none_or(|timer| timer > now));
    }
}
