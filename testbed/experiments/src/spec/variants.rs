//! Controllers with one part switched off or one constant scaled: what each is worth.

use std::collections::BTreeSet;

use evenkeel_testbed::SWITCHES;
use evenkeel_testbed::scenario::Controllers;

use super::axes::listed;

/// Stands for all parts, or all constants.
const ALL: &str = "all";

/// A controller that differs from another in one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// The whole controller, as a scenario names it.
    pub base: String,
    /// This one, likewise.
    pub controller: String,
    /// What differs, for people.
    pub label: String,
}

/// The variants of `bases` without each part of `without`, and with each constant and factor of
/// `vary`, which are like `beta=x0.8,x1.25`. `all` stands for all parts, or constants. Each
/// variant comes once. The bases are from `controllers`.
///
/// # Errors
/// In one line that names the option, if a controller has no such part or constant, or a factor is
/// none or out of range.
pub(crate) fn variants(
    bases: &[String],
    without: &[String],
    vary: &[String],
    controllers: &Controllers,
) -> Result<Vec<Variant>, String> {
    let mut variants = Vec::<Variant>::new();
    for base in bases {
        for name in without {
            let wrong = |error: String| format!("--without {name}: {error}");
            for part in chosen(base, SWITCHES[0], name, controllers).map_err(wrong)? {
                let label = format!("without {part}");
                variants.push(Variant::new(base, SWITCHES[0], part, "true", label));
            }
        }
        for text in vary {
            let wrong = |error: String| format!("--vary {text}: {error}");
            let (name, factors) = factors(text).map_err(wrong)?;
            for constant in chosen(base, SWITCHES[1], name, controllers).map_err(wrong)? {
                for factor in &factors {
                    let label = format!("{constant} x{factor}");
                    let variant = Variant::new(base, SWITCHES[1], constant, factor, label);
                    let made = controllers.factory(&variant.controller);
                    made.map_err(|error| wrong(error.to_string()))?;
                    variants.push(variant);
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    variants.retain(|variant| seen.insert(variant.controller.clone()));
    Ok(variants)
}

/// What can be switched off and scaled, for people.
pub fn switches(controllers: &Controllers) -> String {
    let mut text = String::new();
    for row in controllers.rows() {
        for (kind, usage) in SWITCHES
            .iter()
            .zip(["--without NAME,...", "--vary NAME=x0.8,x1.25"])
        {
            let parameters = row.parameters.iter();
            let mut switches = parameters
                .filter_map(|one| Some((one.name.strip_prefix(kind)?, one.meaning)))
                .peekable();
            if switches.peek().is_some() {
                text += &format!("{}, {usage}:\n", row.name);
            }
            for (name, meaning) in switches {
                text += &format!("  {name:<18} {meaning}\n");
            }
        }
    }
    text
}

impl Variant {
    fn new(base: &str, kind: &str, switch: &str, value: &str, label: String) -> Self {
        let joint = if base.contains(':') { ',' } else { ':' };
        Self {
            base: base.to_owned(),
            controller: format!("{base}{joint}{kind}{switch}={value}"),
            label,
        }
    }
}

/// The switches of this kind that a controller has of this name.
fn chosen(
    base: &str,
    kind: &str,
    name: &str,
    controllers: &Controllers,
) -> Result<Vec<&'static str>, String> {
    let plain = base.split(':').next().unwrap_or(base);
    let row = controllers.rows().iter().find(|row| row.name == plain);
    let parameters = row.map_or(&[][..], |row| row.parameters).iter();
    let known: Vec<&str> = parameters
        .filter_map(|parameter| parameter.name.strip_prefix(kind))
        .collect();
    let found = known.iter().copied();
    let found: Vec<_> = found.filter(|one| name == ALL || name == *one).collect();
    match (known.is_empty(), found.is_empty()) {
        (true, _) => Err(format!("{plain} has no switches; keel has")),
        (_, true) => Err(format!(
            "{plain} has no switch {name:?}: use {ALL}, or one of {}",
            listed(known.iter())
        )),
        _ => Ok(found),
    }
}

/// The name and the factors of `beta=x0.8,x1.25`.
fn factors(text: &str) -> Result<(&str, Vec<String>), String> {
    let wrong = || "write it like beta=x0.8,x1.25".to_owned();
    let (name, factors) = text.split_once('=').ok_or_else(wrong)?;
    let factors = factors.split(',').map(|factor| {
        let factor = factor.strip_prefix('x')?;
        factor.parse().ok().map(|factor: f64| factor.to_string())
    });
    Ok((name, factors.collect::<Option<_>>().ok_or_else(wrong)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(base: &str, without: &[&str], vary: &[&str]) -> Result<Vec<Variant>, String> {
        let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
        let controllers = evenkeel_testbed::controllers();
        variants(&texts(&[base]), &texts(without), &texts(vary), &controllers)
    }

    #[test]
    fn each_part_is_switched_off_alone_and_each_constant_scaled_alone() {
        let names = |variants: Vec<Variant>| {
            let names = variants.into_iter().map(|one| (one.controller, one.label));
            names.collect::<Vec<_>>()
        };
        let pair = |controller: &str, label: &str| (controller.to_owned(), label.to_owned());
        let found = of("keel", &["hold", "jitter"], &["beta=x0.8,x1.25"]).unwrap();
        assert_eq!(
            names(found),
            [
                pair("keel:without.hold=true", "without hold"),
                pair("keel:without.jitter=true", "without jitter"),
                pair("keel:scale.beta=0.8", "beta x0.8"),
                pair("keel:scale.beta=1.25", "beta x1.25"),
            ]
        );
        let found = of("keel:iw=20", &["hold"], &[]).unwrap();
        assert_eq!(found[0].controller, "keel:iw=20,without.hold=true");
        let twice = of("keel", &[ALL, "hold"], &["beta=x0.8,x0.80"]).unwrap();
        let named = |name| twice.iter().filter(|one| one.controller == name).count();
        assert_eq!(named("keel:without.hold=true"), 1);
        assert_eq!(named("keel:scale.beta=0.8"), 1);
        let controllers = evenkeel_testbed::controllers();
        let all = of("keel", &[ALL], &["all=x1"]).unwrap();
        assert!(all.len() >= 10, "{all:?}");
        for one in &all {
            let factory = controllers.factory(&one.controller);
            assert!(factory.is_ok(), "{one:?}: {:?}", factory.err());
            let (_, name) = one.controller.split_once('.').unwrap();
            let name = name.split('=').next().unwrap();
            assert!(
                switches(&controllers).contains(&format!("  {name} ")),
                "{name}"
            );
        }
    }

    #[test]
    fn what_a_controller_has_no_switch_for_is_refused_in_one_line() {
        let refused = |base, without: &[&str], vary: &[&str], words: &str| {
            let error = of(base, without, vary).expect_err("no such switch");
            assert!(error.contains(words), "{words:?} in {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        };
        refused(
            "keel",
            &["holt"],
            &[],
            "--without holt: keel has no switch \"holt\": use all, or one of slow_start, ",
        );
        refused("vegas", &[ALL], &[], "vegas has no switches");
        for wrong in ["beta=0.8", "beta"] {
            let line = format!("--vary {wrong}: write it like beta=x0.8,x1.25");
            refused("keel", &[], &[wrong], &line);
        }
        let line = "--vary beta=x1,x1000: keel: scale.beta=1000";
        refused("keel", &[], &["beta=x1,x1000"], line);
    }
}
