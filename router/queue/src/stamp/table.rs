//! The table of stamps: the only place that knows them by name.

use super::{StampConfig, acp, aqt, flows, rcp, xcp};
use crate::discipline::parameters::{DisciplineError, Parameter, Values, echo, list};

/// A stamp that scenarios and router configurations can name.
#[derive(Debug)]
pub struct StampRow {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What can be set, in the order in which to show it.
    pub parameters: &'static [Parameter],
    configure: Configure,
}

type Configure = fn(&Values) -> Result<Box<dyn StampConfig>, DisciplineError>;

/// Why a list names no set of stamps. Each message is one line with the cause and the remedy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StampError {
    /// No stamp has this name.
    #[error("unknown stamp \"{name}\"; choose from: {known}")]
    Unknown {
        /// The name given.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A stamp is given more than once.
    #[error("the stamp {name} is given twice; a port stamps once, give it once")]
    Twice {
        /// The stamp's name.
        name: &'static str,
    },
    /// Its parameters are not what it takes.
    #[error(transparent)]
    Parameters(#[from] DisciplineError),
}

/// All stamps, in the order in which to show them.
pub fn stamps() -> &'static [StampRow] {
    TABLE
}

/// The stamps that `specs` name, each as `aqt` or, with parameters, `acp:gamma=0.1`. [`stamps`] lists names and
/// parameters.
///
/// # Errors
/// [`StampError`]: one line that names what is wrong, and what would be right.
///
/// ```
/// use evenkeel_queue::stamp_set;
///
/// let set = stamp_set(["aqt", "acp:gamma=0.2", "flows"])?;
/// assert_eq!(set.len(), 3);
/// let error = stamp_set(["aqt", "aqt"]).unwrap_err();
/// assert_eq!(error.to_string(), "the stamp aqt is given twice; a port stamps once, give it once");
/// # Ok::<(), evenkeel_queue::StampError>(())
/// ```
pub fn stamp_set<S: AsRef<str>>(
    specs: impl IntoIterator<Item = S>,
) -> Result<Vec<Box<dyn StampConfig>>, StampError> {
    let mut set: Vec<Box<dyn StampConfig>> = Vec::new();
    for spec in specs {
        let config = stamp(spec.as_ref())?;
        if set.iter().any(|other| other.name() == config.name()) {
            return Err(StampError::Twice {
                name: config.name(),
            });
        }
        set.push(config);
    }
    Ok(set)
}

fn stamp(spec: &str) -> Result<Box<dyn StampConfig>, StampError> {
    let (name, parameters) = match spec.split_once(':') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (spec, None),
    };
    let row = TABLE
        .iter()
        .find(|row| row.name == name)
        .ok_or_else(|| StampError::Unknown {
            name: echo(name),
            known: list(TABLE.iter().map(|row| row.name)),
        })?;
    let values = Values::parse(row.name, row.parameters, parameters)?;
    Ok((row.configure)(&values)?)
}

const TABLE: &[StampRow] = &[
    StampRow {
        name: aqt::Aqt::NAME,
        summary: "adds the time that a packet has queued here (RoVegas), and records its hop limit",
        parameters: &[],
        configure: |_| Ok(Box::new(aqt::Aqt)),
    },
    StampRow {
        name: acp::Params::NAME,
        summary: "offers every flow the rate of ACP's link algorithm; marks when the link is nearly full",
        parameters: acp::PARAMETERS,
        configure: |values| Ok(Box::new(acp::Params::read(values)?)),
    },
    StampRow {
        name: xcp::Params::NAME,
        summary: "gives every packet the window change of XCP's efficiency and fairness controllers",
        parameters: xcp::PARAMETERS,
        configure: |values| Ok(Box::new(xcp::Params::read(values)?)),
    },
    StampRow {
        name: rcp::Params::NAME,
        summary: "offers every flow the rate of RCP's link algorithm",
        parameters: rcp::PARAMETERS,
        configure: |values| Ok(Box::new(rcp::Params::read(values)?)),
    },
    StampRow {
        name: flows::Params::NAME,
        summary: "tells how many flows share the link",
        parameters: flows::PARAMETERS,
        configure: |values| Ok(Box::new(flows::Params::read(values))),
    },
];

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
                let crate::ParameterKind::Number { least, most, .. } = parameter.kind else {
                    continue;
                };
                for value in [least, most] {
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
            r#"unknown stamp "apc"; choose from: aqt, acp, xcp, rcp, flows"#
        );
        assert_eq!(
            refused(&["acp:gamma=0.1", "acp"]),
            "the stamp acp is given twice; a port stamps once, give it once"
        );
        assert_eq!(
            refused(&["aqt:x=1"]),
            r#"aqt takes no parameters; write "aqt" alone"#
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
