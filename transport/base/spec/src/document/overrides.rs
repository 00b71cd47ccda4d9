//! `--set path.to.key=value`: replaces or adds a value of the document.

use super::tree::{Entry, Fault, Node, Origin, Value, parse_value};

/// Applies one override, such as `flows.0.controller=reno`. Reading the document later checks the
/// key and the value.
///
/// # Errors
/// If the override has no value, or its path leads nowhere.
pub fn set(root: &mut Node, text: &str) -> Result<(), Fault> {
    let origin = Origin::Override(text.into());
    let Some((path, value)) = text.split_once('=') else {
        let message = "there is no value; write PATH.TO.KEY=VALUE, e.g. links.0.rate_bps=2000000";
        return Err(Fault::new(&origin, message));
    };
    let path: Vec<&str> = path.trim().split('.').map(str::trim).collect();
    let mut value = parse_value(value.trim(), &origin)?;
    value.origin = origin.clone();
    let mut at = root;
    for (depth, key) in path.iter().enumerate() {
        at = step(at, key, &path[..depth], &origin)?;
    }
    *at = value;
    Ok(())
}

/// Returns the value below `at` that `key` names; adds an empty table for a new key.
fn step<'n>(
    at: &'n mut Node,
    key: &str,
    above: &[&str],
    origin: &Origin,
) -> Result<&'n mut Node, Fault> {
    let index = at.entries().iter().position(|entry| entry.key == key);
    let refused = |why: String| Err(Fault::new(origin, why));
    let above = above.join(".");
    match (&mut at.value, index) {
        (Value::Table(entries) | Value::Array(entries), Some(index)) => {
            Ok(&mut entries[index].node)
        }
        (Value::Table(entries), None) => {
            entries.push(Entry {
                key: key.to_owned(),
                key_origin: origin.clone(),
                node: Node {
                    value: Value::default(),
                    origin: origin.clone(),
                },
            });
            Ok(&mut entries.last_mut().expect("one was added").node)
        }
        (Value::Array(elements), None) => {
            let remedy = match elements.len() {
                0 => format!("{above} is empty"),
                1 => format!("{above} has one element, {above}.0"),
                count => {
                    let last = count - 1;
                    format!("{above} has the elements {above}.0 to {above}.{last}")
                }
            };
            refused(format!("there is no {above}.{key}: {remedy}"))
        }
        (value, _) => {
            let kind = value.kind();
            refused(format!(
                "{above} is {kind}, there is nothing below it; set {above} itself"
            ))
        }
    }
}

#[cfg(test)]
mod tests;
