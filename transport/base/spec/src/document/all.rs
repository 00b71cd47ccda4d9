//! Finds all that is wrong with a document, not only the first mistake.

use serde::de::DeserializeOwned;

use super::de::{Kind, lacks};
use super::tree::{Fault, MOST_FAULTS, Node, Origin, Value};

/// All that is wrong with a document: what reading it has found, and what later checks add.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    /// Keys whose values were left out because they are wrong, themselves or inside, and the
    /// origins of their tables.
    left_out: Vec<(Origin, String)>,
}

/// Reads a table as [`read`](super::read) does, and goes on behind mistakes: as if the wrong value
/// were not there, and a table without it where it cannot be left out. The value is `None` if there
/// is nothing to go on with.
///
/// ```
/// use evenkeel_spec::document::{parse, read_all};
///
/// #[derive(serde::Deserialize)]
/// struct Link {
///     rate: Option<u64>,
///     loss: Option<f64>,
///     name: Option<String>,
/// }
///
/// let root = parse("rate = 'fast'\nname = 'l'\nloss = 'much'\ncolour = 1").unwrap();
/// let (link, faults) = read_all::<Link>(&root);
/// assert_eq!(link.unwrap().name.unwrap(), "l");
/// let faults = faults.in_order();
/// let lines: Vec<_> = faults.iter().map(|fault| fault.origin.line()).collect();
/// assert_eq!(lines, [1, 3, 4]);
/// ```
pub fn read_all<T: DeserializeOwned>(root: &Node) -> (Option<T>, Faults) {
    let mut rest = root.clone();
    let mut faults = Faults::default();
    while faults.faults.len() <= MOST_FAULTS {
        let error = match T::deserialize(&rest) {
            Ok(value) => return (Some(value), faults),
            Err(error) => error,
        };
        let (kind, mut path) = (error.kind, error.path.clone());
        path.reverse();
        let is_consequence = match kind {
            Kind::Missing(key) => rest
                .at(&path)
                .is_some_and(|table| faults.is_wrong(&table.origin, key)),
            _ => false,
        };
        if !is_consequence {
            faults.faults.push(error.into_fault(&rest));
        }
        if path.is_empty() {
            break;
        }
        if kind != Kind::UnknownKey {
            faults.note(&rest, &path);
        }
        rest.remove(&path);
    }
    (None, faults)
}

impl Faults {
    /// Adds what a check has found.
    pub fn push(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Returns what has passed a check; adds what has not.
    pub fn keep<T>(&mut self, checked: Result<T, Fault>) -> Option<T> {
        checked.map_err(|fault| self.push(fault)).ok()
    }

    /// Adds that a table lacks a key, unless the key is there and wrong. `title` is the table's.
    pub fn require(&mut self, is_there: bool, table: &Origin, title: &str, key: &str) {
        if !is_there && !self.is_wrong(table, key) {
            self.push(Fault::new(table, format!("{title} {}", lacks(key))));
        }
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Returns true if the values of a table are all right: then it is known what lacks.
    pub fn is_whole(&self, table: &Origin) -> bool {
        self.left_out.iter().all(|(origin, _)| origin != table)
    }

    /// Returns true if a key of a table was left out, because its value is wrong.
    pub fn is_wrong(&self, table: &Origin, key: &str) -> bool {
        let mut left_out = self.left_out.iter();
        left_out.any(|(origin, other)| origin == table && other == key)
    }

    /// Returns the faults in the order of the file. Of very many the first ones.
    pub fn in_order(mut self) -> Vec<Fault> {
        self.faults.sort_by_key(|fault| fault.origin.line());
        if self.faults.len() > MOST_FAULTS {
            self.faults.truncate(MOST_FAULTS);
            let last = self.faults.last().expect("there are many");
            let message = "there may be more mistakes; mend these first";
            let notice = last.origin.clone();
            self.faults.push(Fault::new(&notice, message));
        }
        self.faults
    }

    /// Notes in all tables on the way that a value of theirs is left out.
    fn note(&mut self, root: &Node, path: &[String]) {
        for (depth, key) in path.iter().enumerate() {
            if let Some(table) = root.at(&path[..depth])
                && matches!(table.value, Value::Table(_))
            {
                self.left_out.push((table.origin.clone(), key.clone()));
            }
        }
    }
}
