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
            return Err(SpecError::new(message));
        }
        set.push((row.build)(&values)?);
    }
    Ok(set)
}

#[cfg(test)]
mod tests;
