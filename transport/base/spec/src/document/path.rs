//! Finds the path to what is in a line: `links.0.rate_bps`.

use super::tree::{Entry, Node, Origin, Value};

impl Node {
    /// Returns which value of a document is in a line. Of an array with several elements there it
    /// is the array; of a line without a value, none: the path is empty.
    pub fn path(&self, origin: &Origin) -> String {
        let mut path = Vec::new();
        self.find(origin, &mut path);
        path.join(".")
    }

    /// Looks for the line below this value; returns whether `path` leads there.
    fn find<'a>(&'a self, origin: &Origin, path: &mut Vec<&'a str>) -> bool {
        let is_here = |entry: &&Entry| [&entry.key_origin, &entry.node.origin].contains(&origin);
        let here: Vec<_> = self.entries().iter().filter(is_here).collect();
        match here[..] {
            [] => self.entries().iter().any(|entry| {
                path.push(&entry.key);
                let is_below = entry.node.find(origin, path);
                if !is_below {
                    path.pop();
                }
                is_below
            }),
            [entry] => {
                path.push(&entry.key);
                if matches!(entry.node.value, Value::Array(_)) {
                    entry.node.find(origin, path);
                }
                true
            }
            _ => true,
        }
    }
}
