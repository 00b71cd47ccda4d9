//! The league's table for a terminal: a column for each controller.

use super::document::{COEXISTENCE, ControllerRow, LeagueDocument, TOTAL};

/// Columns of a table's labels, and of a table.
const LABEL: usize = 16;
const COLUMNS: usize = 100;

/// A controller's name, with a star if its runs do not repeat.
fn starred(one: &ControllerRow) -> String {
    let star = if one.repeats { "" } else { "*" };
    format!("{}{star}", one.name)
}

/// Columns of a controller with this name.
fn width(name: &str) -> usize {
    name.chars().count().max(5) + 1
}

impl LeagueDocument {
    /// How many networks a controller failed; `-` while runs of it are missing.
    pub(super) fn failures(&self, controller: &str) -> String {
        let mut own = self.results.iter();
        match own.any(|row| row.controller == controller && !row.missing.is_empty()) {
            true => "-".into(),
            false => self.regret(controller).failed.len().to_string(),
        }
    }

    /// Scores of groups, what they come to, and which networks were failed.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        let mut left = &self.controllers[..];
        while !left.is_empty() {
            let widths = left.iter().scan(LABEL, |sum, one| {
                *sum += width(&starred(one));
                Some(*sum)
            });
            let fit = widths.take_while(|sum| *sum <= COLUMNS).count().max(1);
            let (shown, rest) = left.split_at(fit);
            text += &self.scores(shown);
            text += if rest.is_empty() { "" } else { "\n" };
            left = rest;
        }
        if self.controllers.iter().any(|one| !one.repeats) {
            text += "* does not repeat: another run with the same seed differs\n";
        }
        for row in &self.regrets {
            if let Some(case) = row.case.as_ref().filter(|_| row.greatest > Some(0.0)) {
                text += &format!("{}: greatest regret in {case}\n", row.controller);
            }
        }
        for row in self.regrets.iter().filter(|row| !row.failed.is_empty()) {
            text += &format!("{}: failed {}\n", row.controller, row.failed.join(", "));
        }
        text
    }

    /// The rows of these controllers.
    fn scores(&self, controllers: &[ControllerRow]) -> String {
        let names: Vec<String> = controllers.iter().map(starred).collect();
        let mut text = format!("{:<LABEL$}", "");
        for name in &names {
            text += &format!("{name:>0$}", width(name));
        }
        let mut line = |label: &str, shown: &dyn Fn(&str) -> String| {
            text += &format!("\n{label:<LABEL$}");
            for (one, name) in controllers.iter().zip(&names) {
                text += &format!("{:>1$}", shown(&one.name), width(name));
            }
        };
        let two = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
        let groups = self.groups.iter().map(|group| group.name.as_str());
        let has_others = self.table.iter().any(|cell| cell.group == COEXISTENCE);
        let beside = has_others.then_some(COEXISTENCE);
        for group in groups.chain([TOTAL]).chain(beside) {
            line(group, &|name| {
                two(self.score(name, group).map(|score| score.median))
            });
        }
        line("greatest regret", &|name| two(self.regret(name).greatest));
        line("mean regret", &|name| two(self.regret(name).mean));
        line("failed networks", &|name| self.failures(name));
        text + "\n"
    }
}
