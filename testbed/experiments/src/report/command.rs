//! Commands of runs, written once for all runs that differ in values only.

use serde::{Deserialize, Serialize};

/// Commands that differ in the values of some settings and in the seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commands {
    /// The command without its seed, with `{0}`, `{1}` ... where values differ. Settings that always
    /// take the same value share one.
    pub command: String,
    /// The values for `{0}`, `{1}` ... of each point that was run.
    pub values: Vec<Vec<String>>,
    /// The seeds of each point: `--seed N` ends every command.
    pub seeds: Vec<u64>,
}

/// The words of a command: what is fixed in each, and what may differ.
type Words<'c> = Vec<(&'c str, &'c str)>;

/// Whether both run the same scenario and set the same keys.
fn are_alike(one: &Words<'_>, other: &Words<'_>) -> bool {
    let mut both = one.iter().zip(other).enumerate();
    one.len() == other.len() && both.all(|(at, (a, b))| a.0 == b.0 && (at > 2 || a.1 == b.1))
}

fn words(command: &str) -> Words<'_> {
    let mut words = Vec::new();
    let mut rest = command;
    while !rest.is_empty() {
        let mut quoted = false;
        let end = rest.find(|c| {
            quoted ^= c == '\'';
            c == ' ' && !quoted
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        words.push(match word.split_once('=') {
            Some((key, value)) if !word.contains('\'') => (&word[..=key.len()], value),
            _ => ("", word),
        });
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    words
}

impl Commands {
    /// All of `commands`, in groups of those that set the same values with the same seeds. Their
    /// order is kept in each group.
    pub fn group(commands: &[String]) -> Vec<Self> {
        let mut points: Vec<(&str, Vec<u64>)> = Vec::new();
        for command in commands {
            let (point, seed) = command.rsplit_once(" --seed ").unwrap_or((command, "1"));
            let seed = seed.parse().unwrap_or(1);
            match points.iter_mut().find(|(other, _)| *other == point) {
                Some((_, seeds)) => seeds.push(seed),
                None => points.push((point, vec![seed])),
            }
        }
        let mut groups: Vec<(Vec<u64>, Vec<Words<'_>>)> = Vec::new();
        for (point, seeds) in points {
            let words = words(point);
            let alike = |(others, all): &&mut (Vec<u64>, Vec<Words<'_>>)| {
                *others == seeds && are_alike(&all[0], &words)
            };
            match groups.iter_mut().find(alike) {
                Some((_, all)) => all.push(words),
                None => groups.push((seeds, vec![words])),
            }
        }
        let groups = groups.into_iter();
        groups.map(|(seeds, all)| Self::new(seeds, &all)).collect()
    }

    fn new(seeds: Vec<u64>, all: &[Words<'_>]) -> Self {
        let mut template = Vec::new();
        // The values that each place takes, one for each of `all`.
        let mut places: Vec<Vec<&str>> = Vec::new();
        for (index, (key, value)) in all[0].iter().enumerate() {
            let taken: Vec<&str> = all.iter().map(|words| words[index].1).collect();
            if taken.iter().all(|other| other == value) {
                template.push(format!("{key}{value}"));
                continue;
            }
            let place = places.iter().position(|place| *place == taken);
            let place = place.unwrap_or_else(|| {
                places.push(taken);
                places.len() - 1
            });
            template.push(format!("{key}{{{place}}}"));
        }
        let point = |index: usize| places.iter().map(|taken| taken[index].to_owned()).collect();
        Self {
            command: template.join(" "),
            values: (0..all.len()).map(point).collect(),
            seeds,
        }
    }

    /// The commands, in full.
    pub fn expand(&self) -> impl Iterator<Item = String> {
        self.values.iter().flat_map(|values| {
            let values = values.iter().enumerate();
            let command = values.fold(self.command.clone(), |command, (index, value)| {
                command.replace(&format!("{{{index}}}"), value)
            });
            self.seeds
                .iter()
                .map(move |seed| format!("{command} --seed {seed}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_written_once_and_come_back_as_they_were() {
        let commands: Vec<String> = [
            "testbed run a.toml --set n=1 --set 'x=[1, 2]' --seed 1",
            "testbed run a.toml --set n=2 --set 'x=[1, 2]' --seed 1",
            "testbed run a.toml --set n=2 --set 'x=[3]' --seed 1",
            "testbed run b.toml --seed 1",
            "testbed run b.toml --seed 2",
        ]
        .map(str::to_owned)
        .to_vec();
        let groups = Commands::group(&commands);
        assert_eq!(groups.len(), 2);
        assert_eq!(
            groups[0].command,
            "testbed run a.toml --set n={0} --set {1}"
        );
        assert_eq!(groups[0].values[1], ["2", "'x=[1, 2]'"]);
        assert_eq!(groups[1].values, [[""; 0]]);
        assert_eq!(groups[1].seeds, [1, 2]);
        let back: Vec<String> = groups.iter().flat_map(Commands::expand).collect();
        assert_eq!(back, commands);
    }

    #[test]
    fn settings_that_always_take_the_same_value_are_written_once() {
        let commands = [
            "testbed run a.toml --set x=reno --set n=4 --set y=reno --seed 1",
            "testbed run a.toml --set x=vegas --set n=8 --set y=vegas --seed 1",
        ]
        .map(str::to_owned);
        let groups = Commands::group(&commands);
        assert_eq!(
            groups[0].command,
            "testbed run a.toml --set x={0} --set n={1} --set y={0}"
        );
        assert_eq!(groups[0].values, [["reno", "4"], ["vegas", "8"]]);
        assert_eq!(groups[0].expand().collect::<Vec<_>>(), commands);
    }
}
