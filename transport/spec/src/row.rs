//! Tables of what can be named.

use crate::error::SpecError;
use crate::parameter::Parameter;
use crate::values::Values;
use crate::words::{choose, echo};

/// A controller, discipline or stamp that can be named; `T` builds it from [`Values`].
#[derive(Debug, Clone)]
pub struct Row<T> {
    /// The name.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What can be set, in the order in which to show it.
    pub parameters: &'static [Parameter],
    /// How to build it.
    pub build: T,
}

/// Finds the row that `spec` names, and reads what it sets: `vegas`, or with parameters
/// `vegas:alpha=2,beta=4`. `kind` says what the rows are, e.g. `controller`.
///
/// # Errors
/// [`SpecError`]: one line that names what is wrong with `spec` and what would be right.
pub fn find<'a, T>(
    kind: &'static str,
    rows: impl IntoIterator<Item = &'a Row<T>, IntoIter: Clone>,
    spec: &str,
) -> Result<(&'a Row<T>, Values), SpecError> {
    if spec.contains(';') {
        return Err(SpecError::Semicolon {
            text: echo(spec),
            remedy: echo(&spec.replace(';', ",")),
        });
    }
    let rows = rows.into_iter();
    let (name, parameters) = match spec.split_once(':') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (spec, None),
    };
    if name.contains(',') {
        return Err(SpecError::Comma {
            text: echo(spec),
            kind,
        });
    }
    let row = rows
        .clone()
        .find(|row| row.name == name)
        .ok_or_else(|| SpecError::Unknown {
            kind,
            name: echo(name),
            remedy: choose(name, rows.map(|row| row.name)),
        })?;
    let values = Values::parse(row.name, row.parameters, parameters)?;
    Ok((row, values))
}

#[cfg(test)]
mod tests {
    use super::*;

    static ROWS: [Row<u8>; 2] = [
        Row {
            name: "vegas",
            summary: "",
            parameters: &[Parameter::number("alpha", "packets", 0.5, 10.0, None)],
            build: 1,
        },
        Row {
            name: "cubic",
            summary: "",
            parameters: &[],
            build: 2,
        },
    ];

    #[test]
    fn a_spec_finds_its_row_and_sets_its_values() {
        let (row, values) = find("controller", &ROWS, "vegas:alpha=2").unwrap();
        assert_eq!((row.build, values.number("alpha")), (1, 2.0));
        assert_eq!(find("controller", &ROWS, "cubic").unwrap().0.build, 2);
    }

    #[test]
    fn an_application_can_extend_a_table() {
        let own = [Row {
            name: "mine",
            summary: "",
            parameters: &[],
            build: 3,
        }];
        let (row, _) = find("controller", ROWS.iter().chain(&own), "mine").unwrap();
        assert_eq!(row.build, 3);
    }

    #[test]
    fn a_wrong_spec_gets_one_line_that_says_what_would_be_right() {
        for (spec, message) in [
            (
                "vega",
                "unknown controller \"vega\": did you mean vegas? use one of vegas, cubic",
            ),
            ("", "unknown controller \"\": use one of vegas, cubic"),
            (
                "Vegas\n",
                "unknown controller \"Vegas\\n\": did you mean vegas? use one of vegas, cubic",
            ),
            ("cubic:", "cubic takes no parameters: write \"cubic\" alone"),
            (
                "vegas:alpha=2;beta=4",
                "\"vegas:alpha=2;beta=4\" has a semicolon; separate with commas: vegas:alpha=2,beta=4",
            ),
            (
                "vegas,alpha=2",
                "\"vegas,alpha=2\" has a comma where one controller belongs; write NAME or NAME:KEY=VALUE,...",
            ),
            (
                "vegas:alpha=2,cubic",
                "vegas: \"cubic\" is not key=value; write vegas:alpha=NUMBER,...",
            ),
        ] {
            let error = find("controller", &ROWS, spec).expect_err(spec);
            assert_eq!(error.to_string(), message, "for {spec:?}");
        }
    }
}
