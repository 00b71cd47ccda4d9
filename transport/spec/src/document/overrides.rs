//! `--set path.to.key=value`: replaces or adds a value of the document.

use super::tree::{Entry, Fault, Node, Origin, Table, Value, parse_value};

/// Applies one override, such as `flows.0.controller=reno`. Whether the key is known and the
/// value makes sense shows when the document is read.
///
/// # Errors
/// If the override has no value, or there is nothing at its path.
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

/// The value below `at` that `key` names; a key that is not there yet becomes an empty table.
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
mod tests {
    use super::super::tree::parse;
    use super::*;

    fn after(document: &str, text: &str) -> Result<Node, String> {
        let mut root = parse(document).unwrap();
        set(&mut root, text).map_err(|fault| fault.message)?;
        Ok(root)
    }

    fn value(node: &Node, path: &[&str]) -> Value {
        let mut node = node;
        for key in path {
            node = match &node.value {
                Value::Table(table) => table.get(key).unwrap(),
                Value::Array(array) => &array[key.parse::<usize>().unwrap()],
                other => panic!("nothing below {other:?}"),
            };
        }
        node.value.clone()
    }

    #[test]
    fn an_override_replaces_a_value_in_an_array_of_tables() {
        let root = after("[[a]]\nx = 1\n[[a]]\nx = 2\n", "a.1.x=5").unwrap();
        assert_eq!(value(&root, &["a", "0", "x"]), Value::Integer(1));
        assert_eq!(value(&root, &["a", "1", "x"]), Value::Integer(5));
    }

    #[test]
    fn an_override_adds_a_key_and_the_tables_on_its_way() {
        let root = after("[[a]]\n", "a.0.reverse.rate = 7").unwrap();
        assert_eq!(
            value(&root, &["a", "0", "reverse", "rate"]),
            Value::Integer(7)
        );
    }

    #[test]
    fn a_value_may_hold_equal_signs() {
        let root = after("", "c=gaimd:alpha=1,beta=0.5").unwrap();
        assert_eq!(
            value(&root, &["c"]),
            Value::String("gaimd:alpha=1,beta=0.5".into())
        );
    }

    #[test]
    fn an_index_out_of_range_is_refused_with_the_elements_there_are() {
        let text = "[[a]]\n[[a]]\n";
        assert_eq!(
            after(text, "a.2.x=1").unwrap_err(),
            "there is no a.2: a has the elements a.0 to a.1"
        );
        assert_eq!(
            after(text, "a.x=1").unwrap_err(),
            "there is no a.x: a has the elements a.0 to a.1"
        );
        assert_eq!(
            after("a = []", "a.0=1").unwrap_err(),
            "there is no a.0: a is empty"
        );
    }

    #[test]
    fn nothing_is_set_below_a_plain_value() {
        let message = after("a = 1", "a.b=1").unwrap_err();
        assert_eq!(
            message,
            "a is an integer, there is nothing below it; set a itself"
        );
    }

    #[test]
    fn an_override_without_a_value_is_refused() {
        assert!(after("", "seed").unwrap_err().contains("there is no value"));
    }
}
