//! Finds the path to what is in a line: `links.0.rate_bps`.

use super::tree::{Node, Origin, Value};

impl Node {
    /// Returns which value of a document is in a line. Of an array with several elements there it
    /// is the array; of a line without a value, none: the path is empty.
    pub fn path(&self, origin: &Origin) -> String {
        let mut path = Vec::new();
        self.find(origin, &mut path);
        path.join(".")
    }

    /// Looks for the line below this value; returns whether `path` leads there.
    fn find(&self, origin: &Origin, path: &mut Vec<String>) -> bool {
        let children = self.children();
        let here = children
            .iter()
            .filter(|child| [child.key_origin, &child.node.origin].contains(&origin));
        match &here.collect::<Vec<_>>()[..] {
            [] => children.into_iter().any(|child| {
                path.push(child.key);
                let is_below = child.node.find(origin, path);
                if !is_below {
                    path.pop();
                }
                is_below
            }),
            [child] => {
                path.push(child.key.clone());
                if matches!(child.node.value, Value::Array(_)) {
                    child.node.find(origin, path);
                }
                true
            }
            _ => true,
        }
    }

    fn children(&self) -> Vec<Child<'_>> {
        match &self.value {
            Value::Table(table) => {
                let children = table.entries.iter().map(|entry| Child {
                    key: entry.key.clone(),
                    key_origin: &entry.key_origin,
                    node: &entry.node,
                });
                children.collect()
            }
            Value::Array(elements) => {
                let children = elements.iter().enumerate().map(|(index, node)| Child {
                    key: index.to_string(),
                    key_origin: &node.origin,
                    node,
                });
                children.collect()
            }
            _ => Vec::new(),
        }
    }
}

/// An entry of a table, or an element of an array.
struct Child<'a> {
    key: String,
    key_origin: &'a Origin,
    node: &'a Node,
}
