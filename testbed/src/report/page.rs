//! Pages of results, from the templates in `templates/`.

use minijinja::value::Value;
use minijinja::{AutoEscape, Environment, Error, ErrorKind};
use serde::Serialize;

use super::picture::{self, escaped};
use super::table::Table;
use crate::scenario::Scenario;

const BASE: &str = include_str!("templates/base.html");
const RESULTS: &str = include_str!("templates/results.html");

/// One page on one run or several.
#[derive(Debug, Serialize)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) about: About,
    pub(super) intro: String,
    /// Each with its heading.
    pub(super) tables: Vec<(&'static str, Table)>,
    pub(super) notes: Vec<String>,
    pub(super) plots: Vec<Plot>,
}

/// What a page's figures are of.
#[derive(Debug, Default, Serialize)]
pub(super) struct About {
    /// Of the scenario.
    description: Option<String>,
    /// What makes the figures again.
    command: String,
    /// The scenario in TOML.
    scenario: String,
}

/// Pictures under one heading.
#[derive(Debug, Serialize)]
pub(super) struct Plot {
    pub(super) title: String,
    /// Each with its caption; SVG.
    pub(super) pictures: Vec<(String, String)>,
}

impl About {
    /// Figures of a scenario, which `command` makes again; empty: nobody knows.
    pub(super) fn new(scenario: &Scenario, command: &str) -> Self {
        Self {
            description: scenario.description.clone(),
            command: command.to_owned(),
            scenario: scenario.to_toml(),
        }
    }
}

impl Page {
    pub(super) fn html(&self) -> String {
        let page = environment(&[("results.html", RESULTS)]);
        render(&page, "results.html", self)
    }
}

/// Templates that may extend `base.html`: it has the style, and the blocks `nav` and `main`.
///
/// # Panics
/// If a template is not well formed.
pub fn environment(templates: &[(&'static str, &'static str)]) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.set_formatter(|out, state, value| {
        let escapes = state.auto_escape() != AutoEscape::None && !value.is_safe();
        let written = match value {
            value if value.is_none() => Ok(()),
            value if escapes => out.write_str(&escaped(&value.to_string())),
            value => out.write_str(&value.to_string()),
        };
        written.map_err(|_| Error::from(ErrorKind::WriteFailure))
    });
    environment.add_global(
        "style",
        Value::from_safe_string(format!("{}{}", picture::STYLE, picture::PAGE_STYLE)),
    );
    environment.add_global("version", env!("CARGO_PKG_VERSION"));
    for (name, template) in [("base.html", BASE)].iter().chain(templates) {
        environment
            .add_template(name, template)
            .expect("templates are part of the program");
    }
    environment
}

/// The page that a template makes of `context`.
///
/// # Panics
/// If the template asks for something that `context` does not have.
pub fn render(environment: &Environment<'_>, template: &str, context: impl Serialize) -> String {
    let template = environment
        .get_template(template)
        .expect("a known template");
    template
        .render(context)
        .unwrap_or_else(|error| panic!("a template does not fit its data: {error:#}"))
}
