//! The table of disciplines: the only place that knows them by name.

use std::fmt;

use super::{Discipline, DropTail};

/// A discipline that scenarios and router configurations can name.
#[derive(Debug)]
pub struct DisciplineRow {
    /// What it is called.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    build: fn() -> Box<dyn Discipline>,
}

/// All disciplines.
pub fn disciplines() -> &'static [DisciplineRow] {
    TABLE
}

/// Builds a discipline by name.
///
/// # Errors
/// [`UnknownDiscipline`] lists the names there are.
pub fn discipline(name: &str) -> Result<Box<dyn Discipline>, UnknownDiscipline> {
    TABLE
        .iter()
        .find(|row| row.name == name)
        .map(|row| (row.build)())
        .ok_or_else(|| UnknownDiscipline {
            name: name.to_owned(),
        })
}

/// No discipline has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownDiscipline {
    /// What was asked for.
    pub name: String,
}

impl fmt::Display for UnknownDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = TABLE.iter().map(|row| row.name).collect();
        write!(
            f,
            "unknown discipline {:?}; choose one of: {}",
            self.name,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownDiscipline {}

const TABLE: &[DisciplineRow] = &[DisciplineRow {
    name: "drop-tail",
    summary: "first come, first served; drops arrivals when the queue is full",
    build: || Box::new(DropTail),
}];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_built_by_its_name_and_names_are_unique() {
        for row in disciplines() {
            assert!(discipline(row.name).is_ok());
            assert_eq!(
                disciplines()
                    .iter()
                    .filter(|other| other.name == row.name)
                    .count(),
                1
            );
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_list() {
        let error = discipline("tail-drop").unwrap_err().to_string();
        assert_eq!(
            error,
            r#"unknown discipline "tail-drop"; choose one of: drop-tail"#
        );
    }
}
