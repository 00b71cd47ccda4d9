//! The table of disciplines: the only place that knows them by name.

use evenkeel_spec::{SpecError, find};

use super::{DisciplineConfig, DisciplineRow, codel, drop_tail, dualpi2, fq_codel, guided, red};
use crate::limit::Limit;

static TABLE: &[DisciplineRow] = &[
    drop_tail::ROW,
    red::ROW,
    codel::ROW,
    fq_codel::ROW,
    dualpi2::ROW,
    guided::ROW,
];

/// All disciplines, in the order in which to show them.
pub fn disciplines() -> &'static [DisciplineRow] {
    TABLE
}

/// The discipline that `spec` names, for a port with this `limit`: `red`, or with parameters
/// `red:min=5,max=15`. [`disciplines`] lists names and parameters.
///
/// # Errors
/// One line that names what is wrong with `spec` and what would be right.
///
/// ```
/// use evenkeel_queue::{Limit, discipline};
///
/// let red = discipline("red:max_p=0.02,ecn=true", Limit::packets(60))?;
/// let error = discipline("red:min=5", Limit::NONE).unwrap_err();
/// assert!(error.to_string().starts_with("red: max is a share of the limit in packets"));
/// # drop(red);
/// # Ok::<(), evenkeel_queue::SpecError>(())
/// ```
pub fn discipline(spec: &str, limit: Limit) -> Result<Box<dyn DisciplineConfig>, SpecError> {
    let (row, values) = find("discipline", TABLE, spec)?;
    (row.build)(&values, limit)
}

#[cfg(test)]
mod tests;
