//! Tables for people: as aligned plain text, and on pages.

use serde::Serialize;

/// What stands where there is no value.
pub(super) const NONE: &str = "-";

/// Columns of a terminal, or a page of a document, that a table may take.
const MAX_WIDTH: usize = 100;

/// Blanks between columns.
const GAP: usize = 2;

/// Characters that a word keeps, however wide the figures are.
const LEAST_WORDS: usize = 12;

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
    /// [`MAX_WIDTH`] follow below, with the words of each row again. Words that leave no room for a
    /// figure are shortened.
    pub(super) fn text(&self) -> String {
        self.with_short_words().aligned()
    }

    /// The table with words that leave room for the widest column of figures.
    fn with_short_words(&self) -> Self {
        let mut short = self.clone();
        let figures = (self.left..self.columns.len()).map(|column| self.width(column));
        let room = MAX_WIDTH.saturating_sub(figures.max().unwrap_or(0));
        let mut widths: Vec<usize> = (0..self.left).map(|column| self.width(column)).collect();
        while widths.iter().map(|width| width + GAP).sum::<usize>() > room
            && let Some(widest) = widths.iter_mut().max()
            && *widest > LEAST_WORDS
        {
            *widest -= 1;
        }
        for row in &mut short.rows {
            for (cell, width) in row.iter_mut().zip(&widths) {
                *cell = shortened(cell, *width);
            }
        }
        short
    }

    /// Characters of the widest cell of a column.
    fn width(&self, column: usize) -> usize {
        let (name, unit) = self.columns[column];
        let cells = self.rows.iter().map(|row| row[column].as_str());
        let widths = cells.chain([name, unit]).map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    }

    fn aligned(&self) -> String {
        let (names, units): (Vec<String>, Vec<String>) = self
            .columns
            .iter()
            .map(|(name, unit)| (name.to_string(), unit.to_string()))
            .unzip();
        let columns = 0..self.columns.len();
        let widths: Vec<usize> = columns.map(|column| self.width(column)).collect();
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

/// A word in at most `width` characters: numbers at ends of names tell flows apart.
fn shortened(word: &str, width: usize) -> String {
    let all = word.chars().count();
    if all <= width {
        return word.to_owned();
    }
    let tail = width / 3;
    let head = word.chars().take(width - tail - 1);
    head.chain(['…'])
        .chain(word.chars().skip(all - tail))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_leave_room_for_figures_and_keep_their_ends() {
        let names = ["flow", "controller", "one", "two"].map(|name| (name, ""));
        let row = |end: &str| {
            let flow = format!("{}{end}", "f".repeat(64 - end.len()));
            vec![flow, "reno:x=1".repeat(9), "1.0".into(), "2".repeat(20)]
        };
        let text = Table::new(2, &names, vec![row("-1"), row("-2")]).text();
        let widths = text.lines().map(|line| line.chars().count());
        assert!(widths.max() <= Some(MAX_WIDTH), "{text}");
        for end in ["f-1  ", "f-2  "] {
            assert!(text.contains(end), "{text}");
        }
        // Words that fit stay as they are.
        let words = vec!["f".repeat(64), "reno".into(), "1.0".into(), "2".into()];
        let text = Table::new(2, &names, vec![words.clone()]).text();
        assert!(text.contains(&words[0]), "{text}");
    }

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
