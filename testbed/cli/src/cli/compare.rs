//! `compare`: one scenario with one controller after the other, and over the values of a key.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use clap::{Args, value_parser};
use evenkeel_spec::split_list;
use evenkeel_testbed::backend::sim;
use evenkeel_testbed::jobs::{JobEvent, Jobs};
use evenkeel_testbed::report::{self, Compared, SeededRun};
use evenkeel_testbed::scenario::{App, Controllers, Scenario};

use super::progress::{Progress, cores};
use super::sweep::sweep;
use super::{
    Backend, CliError, DeadFlows, ScenarioArguments, check_directory, create_directory, interrupts,
    longest_run, note, print_out, seed_and_backends, seed_override, signals, warn,
};

#[derive(Debug, Args)]
pub(super) struct CompareArguments {
    #[command(flatten)]
    scenario: ScenarioArguments,
    /// The controllers, separated by commas, with parameters as NAME:KEY=VALUE,KEY=VALUE; may be
    /// repeated
    #[arg(long, value_name = "NAME,...", default_value = "keel,cubic,bbr,vegas")]
    controllers: Vec<String>,
    /// The flows that get the controller: names of `[[flows]]`, separated by commas [default: all
    /// but those of the kernel's own TCP]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    flows: Vec<String>,
    /// Where to run it
    #[arg(long, value_enum, default_value_t = Backend::Sim)]
    on: Backend,
    /// Seed of every random choice, instead of the scenario's own
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, that one and those after it: each figure is then a mean with half the width of its
    /// 95 % confidence interval
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// Runs at a time, in virtual time [default: the machine's cores]
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Where the results go; runs that are there already are not made again [default:
    /// results/NAME-seedSEED-compare]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print comparison.json to standard output instead of the table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dead_flows: DeadFlows,
}

/// A run that is part of the comparison.
#[derive(Debug)]
struct Task {
    scenario: Scenario,
    run: SeededRun,
    command: String,
}

impl Task {
    fn label(&self, key: Option<&str>) -> String {
        let SeededRun {
            controller, seed, ..
        } = &self.run;
        match (key, &self.run.value) {
            (Some(key), Some(value)) => format!("{controller}, {key}={value}, seed {seed}"),
            _ => format!("{controller}, seed {seed}"),
        }
    }

    /// Makes the run, and writes its results.
    fn make(&self, on: Backend, advance: &mut dyn FnMut(f64)) -> Result<(), CliError> {
        let duration = self.scenario.duration.as_secs_f64();
        let progress = |at: Duration| advance(at.as_secs_f64() / duration);
        let observations = on.run(&self.scenario, &sim::Options::default(), progress)?;
        let directory = &self.run.directory;
        create_directory(directory)?;
        report::write(
            directory,
            &self.scenario,
            on.name(),
            &observations,
            &self.command,
        )?;
        Ok(())
    }
}

impl CompareArguments {
    /// The command that makes the same comparison again.
    fn command(&self, scenario: &Scenario) -> String {
        let mut more = vec!["--controllers".to_owned(), self.controllers.join(",")];
        if !self.flows.is_empty() {
            more.extend(["--flows".to_owned(), self.flows.join(",")]);
        }
        if self.seeds > 1 {
            more.extend(["--seeds".to_owned(), self.seeds.to_string()]);
        }
        more.extend(seed_and_backends(scenario.seed, &[self.on]));
        self.scenario.command("compare", more)
    }

    /// Where the results go.
    fn out(&self, scenario: &Scenario, seeds: &[u64]) -> PathBuf {
        let named = match seeds {
            [first, .., last] => format!("seeds{first}-{last}"),
            _ => format!("seed{}", scenario.seed),
        };
        self.out.clone().unwrap_or_else(|| {
            Path::new("results").join(format!("{}-{named}-compare", scenario.name))
        })
    }
}

/// Runs each controller with each seed, and each value of a key that has several; says which was
/// smoothest.
pub(super) fn compare(
    arguments: &CompareArguments,
    controllers: &Controllers,
) -> Result<ExitCode, CliError> {
    let (plain_sets, swept) = sweep(&arguments.scenario.overrides)?;
    let values: Vec<Option<&String>> = match &swept {
        Some(swept) => swept.values.iter().map(Some).collect(),
        None => vec![None],
    };
    let key = swept.as_ref().map(|swept| swept.key.as_str());
    let scenario_with = |value: Option<&String>| {
        let mut overrides = plain_sets.clone();
        overrides.extend(key.zip(value).map(|(key, value)| format!("{key}={value}")));
        ScenarioArguments {
            file: arguments.scenario.file.clone(),
            overrides,
        }
    };
    let first = scenario_with(values[0]).load(controllers, seed_override(arguments.seed))?;
    let seeds: Vec<u64> = (first.seed..=u64::MAX)
        .take(arguments.seeds as usize)
        .collect();
    let (groups, flows) = groups(&first, &arguments.flows)?;
    refuse_what_compare_sets(&plain_sets, key, &groups)?;
    let out = arguments.out(&first, &seeds);
    // All scenarios are checked before the first runs.
    let mut tasks = Vec::new();
    let names = named_controllers(&arguments.controllers)?;
    for name in &names {
        controllers.factory(name).map_err(CliError::Controllers)?;
    }
    let of_names = directories(&names);
    let swept = values.iter().filter_map(|value| key.zip(*value));
    let swept: Vec<String> = swept.map(|(key, value)| format!("{key}={value}")).collect();
    let of_values = directories(&swept);
    for (number, value) in values.iter().enumerate() {
        let file = scenario_with(*value);
        for (controller, own) in names.iter().zip(&of_names) {
            for seed in &seeds {
                let named = |group| format!("flows.{group}.controller={controller}");
                let sets: Vec<String> = groups.iter().map(named).collect();
                let overrides = sets.iter().cloned().chain(seed_override(Some(*seed)));
                let scenario = file.load(controllers, overrides)?;
                arguments.on.check(&scenario, &sim::Options::default())?;
                let sets = sets.into_iter().flat_map(|set| ["--set".to_owned(), set]);
                let more = sets.chain(seed_and_backends(*seed, &[arguments.on]));
                let mut directory = out.clone();
                directory.extend(of_values.get(number));
                directory.push(own);
                directory.extend((seeds.len() > 1).then(|| format!("seed{seed}")));
                tasks.push(Task {
                    command: file.command("run", more),
                    scenario,
                    run: SeededRun {
                        controller: controller.clone(),
                        value: value.cloned(),
                        seed: *seed,
                        directory,
                    },
                });
            }
        }
    }
    let limit = longest_run(tasks.iter().map(|task| task.scenario.duration).sum());
    let files: [&Path; 2] = [&arguments.scenario.file, &out];
    if let Some(code) = arguments.on.run_inside(&files, Some(limit))? {
        return Ok(code);
    }
    check_directory(&out)?;
    let runs: Vec<SeededRun> = tasks.iter().map(|task| task.run.clone()).collect();
    if make(tasks, arguments, key, &out)? {
        return Ok(signals::interrupted().into());
    }
    let command = arguments.command(&first);
    let compared = Compared {
        scenario: &first,
        flows: &flows,
        swept: key,
        command: &command,
    };
    report::warnings(&runs)?.iter().for_each(|line| warn(line));
    let comparison = report::write_comparison(&out, compared, &runs)?;
    if arguments.json {
        print_out(&report::json(&comparison))?;
    } else {
        print_out(&report::comparison_table(&comparison))?;
    }
    note(&format!("results and plots in {}", out.display()));
    Ok(arguments.dead_flows.status(&comparison.failures()))
}

/// Makes the runs that are not there yet. Returns whether that was interrupted.
fn make(
    tasks: Vec<Task>,
    arguments: &CompareArguments,
    key: Option<&str>,
    out: &Path,
) -> Result<bool, CliError> {
    let on = arguments.on;
    let all = tasks.len();
    let program = out.join("program.txt");
    let build = build()?;
    let is_same = std::fs::read_to_string(&program).is_ok_and(|made_by| made_by == build);
    if !is_same {
        // What another program left is not this one's to go on with.
        for task in &tasks {
            let _ = std::fs::remove_file(task.run.directory.join("result.json"));
        }
    }
    let is_kept =
        |task: &Task| is_same && report::is_kept(&task.run.directory, &task.scenario, on.name());
    let pending: Vec<Task> = tasks.into_iter().filter(|task| !is_kept(task)).collect();
    if pending.len() < all {
        note(&format!(
            "{} of {all} runs were made before",
            all - pending.len()
        ));
    }
    let weight = |task: &Task| task.scenario.duration.as_secs_f64();
    let mut progress = Progress::new(pending.len(), pending.iter().map(weight).sum());
    let on_kernel = on != Backend::Sim;
    let jobs = Jobs {
        count: pending.len(),
        // Runs on a kernel share the machine's real time.
        at_a_time: if on_kernel {
            1
        } else {
            arguments.jobs.map_or_else(cores, usize::from)
        },
        interrupt: interrupts()?.clone(),
        heed_it: on_kernel,
    };
    let pending = Arc::new(pending);
    let (tasks, failed) = (pending.clone(), AtomicBool::new(false));
    let work = move |index: usize, advance: &mut dyn FnMut(f64)| {
        // One that failed ends the command; no other begins meanwhile.
        if failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let made = tasks[index].make(on, advance);
        failed.fetch_or(made.is_err(), Ordering::Relaxed);
        made
    };
    let mut finished = 0;
    let interrupted = jobs.run(work, |event| {
        match event {
            JobEvent::Advanced(index, share) => {
                let task = &pending[index];
                progress.advanced(task.label(key), weight(task) * share);
            }
            JobEvent::Ended(index, made) => {
                let label = pending[index].label(key);
                made.map_err(|panic| CliError::Panic(label.clone(), panic))??;
                if finished == 0 {
                    report::save(&program, build.as_bytes())?;
                }
                finished += 1;
                progress.ended(&label, weight(&pending[index]), None);
            }
        }
        Ok::<(), CliError>(())
    })?;
    progress.finish();
    if interrupted {
        note(&format!(
            "interrupted: {finished} more runs are kept; the same command goes on"
        ));
    }
    Ok(interrupted)
}

/// What tells this program from another build of it.
fn build() -> Result<String, CliError> {
    let read = || -> io::Result<String> {
        let file = std::env::current_exe()?.metadata()?;
        let modified = file.modified()?.duration_since(UNIX_EPOCH);
        let modified = modified.unwrap_or_default().as_nanos();
        Ok(format!(
            "evenkeel-testbed {}, {} bytes, modified {modified}\n",
            env!("CARGO_PKG_VERSION"),
            file.len()
        ))
    };
    read().map_err(CliError::Executable)
}

/// A name of a directory for each text: no two are the same, even where case does not count.
fn directories(texts: &[String]) -> Vec<String> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    let mut names: Vec<String> = Vec::new();
    for text in texts {
        let plain = text.chars().map(|c| if is_plain(c) { c } else { '-' });
        let mut name: String = plain.collect();
        while names.iter().any(|other| other.eq_ignore_ascii_case(&name)) {
            name.push('+');
        }
        names.push(name);
    }
    names
}

/// The controllers of one or several lists, each once.
pub(super) fn named_controllers(lists: &[String]) -> Result<Vec<String>, CliError> {
    let split = |list: &String| split_list(list).map_err(CliError::Controllers);
    let mut once = Vec::new();
    for name in lists
        .iter()
        .map(split)
        .collect::<Result<Vec<_>, _>>()?
        .concat()
    {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    Ok(once)
}

/// The numbers and the names of the `[[flows]]` tables of these names; without names of all that are
/// not the kernel's own TCP.
fn groups(scenario: &Scenario, names: &[String]) -> Result<(Vec<usize>, Vec<String>), CliError> {
    let flows = scenario.flows.chunk_by(|a, b| a.group == b.group);
    let flows: Vec<_> = flows.map(|group| &group[0]).collect();
    let groups: Vec<String> = flows.iter().map(|flow| flow.group.clone()).collect();
    if names.is_empty() {
        // The kernel's own TCP does not know our controllers.
        let is_ours = |number: &usize| !matches!(flows[*number].app, App::Tcp { .. });
        let ours = (0..flows.len()).filter(is_ours);
        return Ok(ours.map(|number| (number, groups[number].clone())).unzip());
    }
    let find = |name: &String| {
        let found = groups.iter().position(|group| group == name);
        found.ok_or_else(|| CliError::NoFlow(name.clone(), groups.join(", ")))
    };
    let numbers = names.iter().map(find).collect::<Result<_, _>>()?;
    Ok((numbers, names.to_vec()))
}

/// Refuses overrides that the comparison's own would replace, of a compared flow's controller and
/// several seeds, and several names, by which rows find their flows and the table its title.
fn refuse_what_compare_sets(
    plain_sets: &[String],
    swept: Option<&str>,
    groups: &[usize],
) -> Result<(), CliError> {
    let plain = plain_sets.iter().filter_map(|set| set.split_once('='));
    let mut keys = plain.map(|(key, _)| key).chain(swept);
    let is_compared = |key: &str| {
        let compared = |group| key == format!("flows.{group}.controller");
        groups.iter().any(compared)
    };
    if let Some(key) = keys.find(|key| is_compared(key)) {
        return Err(CliError::SetByCompare(key.into(), "--controllers"));
    }
    match swept {
        Some(key) if key == "name" || key.starts_with("flows.") && key.ends_with(".name") => {
            Err(CliError::SweptName(key.into()))
        }
        Some("seed") => Err(CliError::SetByCompare("seed".into(), "--seed and --seeds")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_override_that_the_comparison_would_replace_is_refused() {
        let refused = |plain: &[&str], swept| {
            let plain: Vec<String> = plain.iter().map(|set| (*set).to_owned()).collect();
            let refused = refuse_what_compare_sets(&plain, swept, &[0, 2]);
            refused.err().map(|error| error.to_string())
        };
        for error in [
            refused(&["flows.2.controller=reno"], None),
            refused(&[], Some("flows.0.controller")),
        ] {
            let error = error.expect("it is refused");
            assert!(error.ends_with("use --controllers"), "{error}");
        }
        let error = refused(&["duration_s=3"], Some("seed")).expect("it is refused");
        assert!(error.ends_with("use --seed and --seeds"), "{error}");
        assert_eq!(refused(&["seed=3"], Some("flows.1.controller")), None);
        for key in ["name", "flows.1.name"] {
            let error = refused(&[], Some(key)).expect("it is refused");
            assert!(error.ends_with("have the same names; give one"), "{error}");
        }
        assert_eq!(refused(&[], Some("links.0.name")), None);
    }

    #[test]
    fn values_that_differ_have_directories_that_differ() {
        let texts = ["trace=a/b", "trace=a-b", "trace=A-b"].map(String::from);
        let names = ["trace-a-b", "trace-a-b+", "trace-A-b++"];
        assert_eq!(directories(&texts), names);
    }
}
