//! Splits lists of specs.

use crate::error::SpecError;
use crate::words::echo;

/// Splits a list of specs at its commas. A comma before `key=value` continues the parameters of
/// the spec before it; a comma before a name begins the next spec.
///
/// # Errors
/// [`SpecError`], if the list has an empty element, a semicolon, or a `key=value` without a `name:`
/// before it. [`find`](crate::find) checks whether the names exist.
///
/// ```
/// use evenkeel_spec::split_list;
///
/// assert_eq!(split_list("vegas:alpha=2,beta=4,cubic")?, ["vegas:alpha=2,beta=4", "cubic"]);
/// let error = split_list("vegas:alpha=2;beta=4,cubic").unwrap_err();
/// assert!(error.to_string().ends_with("separate with commas: vegas:alpha=2,beta=4,cubic"));
/// # Ok::<(), evenkeel_spec::SpecError>(())
/// ```
pub fn split_list(list: &str) -> Result<Vec<String>, SpecError> {
    if list.contains(';') {
        return Err(semicolon(list));
    }
    let mut specs: Vec<String> = Vec::new();
    for part in list.split(',').map(str::trim) {
        if part.is_empty() {
            let list = echo(list);
            let remedy = "remove a comma, or write a name";
            return Err(SpecError::new(format!(
                "\"{list}\" has an empty element; {remedy}"
            )));
        }
        let key = part.split('=').next().unwrap_or(part);
        if !part.contains('=') || key.contains(':') {
            specs.push(part.to_owned());
            continue;
        }
        match specs.last_mut() {
            Some(spec) if spec.contains(':') => {
                spec.push(',');
                spec.push_str(part);
            }
            name => {
                let name = name.map_or_else(|| "NAME".to_owned(), |name| echo(name));
                let part = echo(part);
                return Err(SpecError::new(format!(
                    "\"{part}\" is a parameter of no name; write {name}:{part}"
                )));
            }
        }
    }
    Ok(specs)
}

/// Makes the error for a text that separates with semicolons.
pub(crate) fn semicolon(text: &str) -> SpecError {
    let remedy = echo(&text.replace(';', ","));
    let text = echo(text);
    SpecError::new(format!(
        "\"{text}\" has a semicolon; separate with commas: {remedy}"
    ))
}

#[cfg(test)]
mod tests;
