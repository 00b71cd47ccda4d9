//! Tables of the names that a spec may use.

use crate::error::SpecError;
use crate::list::semicolon;
use crate::parameter::SpecParameter;
use crate::values::SpecValues;
use crate::words::{choose, echo};

/// A controller, discipline or stamp with a name; `T` builds it from [`SpecValues`].
#[derive(Debug, Clone)]
pub struct Row<T> {
    /// The name.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its parameters in display order.
    pub parameters: &'static [SpecParameter],
    /// Builds it.
    pub build: T,
}

/// Finds the row that `spec` names, and reads its values: `vegas`, or with parameters
/// `vegas:alpha=2,beta=4`. `kind` says what the rows are, e.g. `controller`.
///
/// # Errors
/// [`SpecError`]: one line that says what is wrong with `spec` and what to write instead.
pub fn find<'a, T>(
    kind: &'static str,
    rows: impl IntoIterator<Item = &'a Row<T>, IntoIter: Clone>,
    spec: &str,
) -> Result<(&'a Row<T>, SpecValues), SpecError> {
    if spec.contains(';') {
        return Err(semicolon(spec));
    }
    let rows = rows.into_iter();
    let (name, parameters) = match spec.split_once(':') {
        Some((name, parameters)) => (name, Some(parameters)),
        None => (spec, None),
    };
    if name.contains(',') {
        let spec = echo(spec);
        let remedy = "write NAME or NAME:KEY=VALUE,...";
        return Err(SpecError::new(format!(
            "\"{spec}\" has a comma where one {kind} belongs; {remedy}"
        )));
    }
    let row = rows.clone().find(|row| row.name == name).ok_or_else(|| {
        let remedy = choose(name, rows.map(|row| row.name));
        let name = echo(name);
        SpecError::new(format!("unknown {kind} \"{name}\": {remedy}"))
    })?;
    let values = SpecValues::parse(row.name, row.parameters, parameters)?;
    Ok((row, values))
}

#[cfg(test)]
mod tests;
