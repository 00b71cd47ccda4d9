//! The league's table for a terminal: a column for each controller.

use super::document::{COEXISTENCE, LeagueDocument, TOTAL};

impl LeagueDocument {
    /// How many networks a controller failed; `-` while runs are missing.
    pub(super) fn failures(&self, controller: &str) -> String {
        let row = self.regret(controller);
        row.mean
            .map_or("-".into(), |_| row.failed.len().to_string())
    }

    /// Scores of groups, what they come to, and which networks were failed.
    pub(super) fn table(&self) -> String {
        let names = self.controllers.iter().map(|one| match one.repeats {
            true => one.name.clone(),
            false => format!("{}*", one.name),
        });
        let names: Vec<String> = names.collect();
        let width = |name: &str| name.chars().count().max(5) + 1;
        let mut text = format!("{:<16}", "");
        for name in &names {
            text += &format!("{name:>0$}", width(name));
        }
        let mut line = |label: &str, shown: &dyn Fn(&str) -> String| {
            text += &format!("\n{label:<16}");
            for (one, name) in self.controllers.iter().zip(&names) {
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
        text += "\n";
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
}
