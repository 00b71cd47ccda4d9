//! The table of stamps: the only place that knows them by name.

use evenkeel_spec::{SpecError, find};

use super::{StampConfig, StampRow, acp, aqt, flows, rcp, xcp};

static TABLE: &[StampRow] = &[aqt::ROW, acp::ROW, xcp::ROW, rcp::ROW, flows::ROW];

/// All stamps, in the order in which to show them.
pub fn stamps() -> &'static [StampRow] {
    TABLE
}

/// The stamps that `specs` name, each as `aqt` or, with parameters, `acp:gamma=0.1`. [`stamps`]
/// lists names and parameters.
///
/// # Errors
/// One line that names what is wrong, and what would be right.
///
/// ```
/// use evenkeel_queue::stamp_set;
///
/// let set = stamp_set(["aqt", "acp:gamma=0.2", "flows"])?;
/// assert_eq!(set.len(), 3);
/// let error = stamp_set(["aqt", "aqt"]).unwrap_err();
/// assert_eq!(error.to_string(), "the stamp aqt is given twice; a port stamps once, give it once");
/// # Ok::<(), evenkeel_queue::SpecError>(())
/// ```
pub fn stamp_set<S: AsRef<str>>(
    specs: impl IntoIterator<Item = S>,
) -> Result<Vec<Box<dyn StampConfig>>, SpecError> {
    let mut set: Vec<Box<dyn StampConfig>> = Vec::new();
    for spec in specs {
        let (row, values) = find("stamp", TABLE, spec.as_ref())?;
        if set.iter().any(|other| other.name() == row.name) {
            let name = row.name;
            let message =
                format!("the stamp {name} is given twice; a port stamps once, give it once");
            return Err(SpecError::Refused(message.into()));
        }
        set.push((row.build)(&values)?);
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            refused(&["aqt", "apc"]),
            r#"unknown stamp "apc": did you mean acp? use one of aqt, acp, xcp, rcp, flows"#
        );
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
}
