//! Tables for people: as aligned plain text, and on pages.

use serde::Serialize;

/// What stands where there is no value.
pub(super) const NONE: &str = "-";

/// Columns of a terminal, or a page of a document, that a table may take.
const MAX_WIDTH: usize = 100;

/// Blanks between columns.
const GAP: usize = 2;

/// A unit, and how figures are written in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    name: &'static str,
    /// What a figure is multiplied with.
    scale: f64,
    decimals: usize,
}

pub(super) const MBPS: Unit = Unit::new("Mb/s", 1e-6, 3);
pub(super) const MS: Unit = Unit::new("ms", 1.0, 1);
pub(super) const SECONDS: Unit = Unit::new("s", 1.0, 2);
pub(super) const PERCENT: Unit = Unit::new("%", 100.0, 2);
pub(super) const RATIO: Unit = Unit::new("", 1.0, 3);
pub(super) const COUNT: Unit = Unit::new("", 1.0, 0);
pub(super) const PACKETS: Unit = Unit::new("packets", 1.0, 0);

impl Unit {
    pub(super) const fn new(name: &'static str, scale: f64, decimals: usize) -> Self {
        Self {
            name,
            scale,
            decimals,
        }
    }

    /// A figure in this unit.
    pub(super) fn scaled(self, figure: f64) -> f64 {
        figure * self.scale
    }

    /// A figure in this unit, without its name.
    pub(super) fn text(self, figure: Option<f64>) -> String {
        let (scale, decimals) = (self.scale, self.decimals);
        figure.map_or_else(
            || NONE.to_owned(),
            |figure| format!("{:.decimals$}", figure * scale),
        )
    }
}

/// A column of figures of a `T`.
pub(super) struct Column<T> {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) figure: fn(&T) -> Option<f64>,
}

/// A column of this name.
pub(super) const fn column<T>(
    name: &'static str,
    unit: Unit,
    figure: fn(&T) -> Option<f64>,
) -> Column<T> {
    Column { name, unit, figure }
}

impl<T> Column<T> {
    /// The figure of `row`, written.
    pub(super) fn cell(&self, row: &T) -> String {
        self.unit.text((self.figure)(row))
    }
}

/// Rows under names and units, for people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Table {
    /// Each column's name and unit.
    columns: Vec<(&'static str, &'static str)>,
    /// As many cells as there are columns in each.
    rows: Vec<Vec<String>>,
    /// How many columns are flush left; the others are flush right.
    left: usize,
}

impl Table {
    pub(super) fn new(
        left: usize,
        columns: &[(&'static str, &'static str)],
        rows: Vec<Vec<String>>,
    ) -> Self {
        Self {
            columns: columns.to_vec(),
            rows,
            left,
        }
    }

    /// A table whose rows begin with words under the names `left`; figures follow.
    pub(super) fn of<'c, T: 'c>(
        left: &[&'static str],
        columns: impl IntoIterator<Item = &'c Column<T>>,
        rows: Vec<Vec<String>>,
    ) -> Self {
        let words = left.iter().map(|name| (*name, ""));
        let figures = columns
            .into_iter()
            .map(|column| (column.name, column.unit.name));
        Self {
            columns: words.chain(figures).collect(),
            rows,
            left: left.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned plain text: columns as wide as they need to be. Those that do not fit into
    /// [`MAX_WIDTH`] follow below, with the words of each row again.
    pub(super) fn text(&self) -> String {
        let (names, units): (Vec<String>, Vec<String>) = self
            .columns
            .iter()
            .map(|(name, unit)| (name.to_string(), unit.to_string()))
            .unzip();
        let width = |column: usize| {
            let cells = self.rows.iter().chain([&names, &units]);
            let widths = cells.map(|row| row[column].chars().count());
            widths.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let words: usize = widths[..self.left].iter().map(|width| width + GAP).sum();
        let mut parts: Vec<Vec<usize>> = Vec::new();
        let mut right = usize::MAX;
        for (column, width) in widths.iter().enumerate().skip(self.left) {
            if right.saturating_add(width + GAP) > MAX_WIDTH + GAP {
                parts.push((0..self.left).collect());
                right = words;
            }
            right += width + GAP;
            parts.last_mut().expect("one was begun").push(column);
        }
        let parts: Vec<String> = parts
            .iter()
            .map(|columns| self.part([&names, &units], &widths, columns))
            .collect();
        parts.join("\n")
    }

    /// The text of some columns.
    fn part(
        &self,
        [names, units]: [&Vec<String>; 2],
        widths: &[usize],
        columns: &[usize],
    ) -> String {
        let mut rows = vec![names];
        if columns.iter().any(|column| !units[*column].is_empty()) {
            rows.push(units);
        }
        rows.extend(&self.rows);
        let mut text = String::new();
        for row in rows {
            let cell = |column: &usize| {
                let (cell, width) = (&row[*column], widths[*column]);
                match *column {
                    left if left < self.left => format!("{cell:<width$}  "),
                    _ => format!("{cell:>width$}  "),
                }
            };
            let line: String = columns.iter().map(cell).collect();
            text += line.trim_end();
            text += "\n";
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_do_not_fit_follow_below_with_the_words_again() {
        let names = ["flow", "one", "two", "three"].map(|name| (name, ""));
        let wide = "x".repeat(45);
        let rows =
            ["a", "bcd"].map(|name| vec![name.into(), wide.clone(), wide.clone(), "3".into()]);
        let text = Table::new(1, &names, rows.to_vec()).text();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.len() <= MAX_WIDTH), "{text}");
        let begins: Vec<_> = lines.iter().map(|line| line.split(' ').next()).collect();
        let part = ["flow", "a", "bcd"].map(Some);
        assert_eq!(begins, [&part[..], &[Some("")], &part[..]].concat());
        assert!(lines[4].trim_end().ends_with("three"), "{text}");
        // One column that is wider than all is not lost.
        let rows = vec![vec!["a".into(), "x".repeat(200)]];
        assert!(Table::new(1, &names[..2], rows).text().contains("xxx"));
    }
}
