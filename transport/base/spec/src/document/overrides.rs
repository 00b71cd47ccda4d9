//! `--set path.to.key=value`: replaces or adds a value of the document.

use super::tree::{Entry, Fault, Node, Origin, Table, Value, parse_value};

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
    let above = above.join(".");
    match &mut at.value {
        Value::Table(table) => Ok(child(table, key, origin)),
        Value::Array(elements) => {
            let count = elements.len();
            let element = key
                .parse()
                .ok()
                .and_then(|index: usize| elements.get_mut(index));
            element.ok_or_else(|| {
                let remedy = match count {
                    0 => format!("{above} is empty"),
                    1 => format!("{above} has one element, {above}.0"),
                    _ => format!(
                        "{above} has the elements {above}.0 to {above}.{}",
                        count - 1
                    ),
                };
                Fault::new(origin, format!("there is no {above}.{key}: {remedy}"))
            })
        }
        value => {
            let message = format!(
                "{above} is {}, there is nothing below it; set {above} itself",
                value.kind()
            );
            Err(Fault::new(origin, message))
        }
    }
}

fn child<'n>(table: &'n mut Table, key: &str, origin: &Origin) -> &'n mut Node {
    let index = table.entries.iter().position(|entry| entry.key == key);
    let index = index.unwrap_or_else(|| {
        table.entries.push(Entry {
            key: key.to_owned(),
            key_origin: origin.clone(),
            node: Node {
                value: Value::Table(Table::default()),
                origin: origin.clone(),
            },
        });
        table.entries.len() - 1
    });
    let entry = &mut table.entries[index];
    &mut entry.node
}

#[cfg(test)]
mod tests;
