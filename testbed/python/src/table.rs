//! Controllers in Python as rows of a table.
//!
//! A row holds functions without state, so what a run's names stand for is kept by its thread: a
//! run in virtual time stays on the thread that began it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use evenkeel::controller::{ControllerBuild, ControllerRow, SpecParameter, SpecValues, adapt};
use evenkeel::{Controllers, SharedFactory, SpecError};
use evenkeel_spec::ParameterKind;
use evenkeel_spec::document::{NAME_LENGTH, shortened};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::ScenarioError;
use crate::controller::PyController;

/// Greatest whole number and number that a parameter of a controller takes.
const MOST_COUNT: u64 = 1_000_000_000_000;
const MOST_NUMBER: f64 = 1e15;

/// A controller as `evenkeel._controller` describes its class.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Described {
    class: Py<PyAny>,
    summary: String,
    /// Names and defaults of the parameters.
    parameters: Vec<(String, Default)>,
    /// The methods that it has of its own.
    methods: HashSet<String>,
}

/// The default of a parameter, which says what values it takes. A flag is a whole number in Python,
/// so it comes first.
#[derive(FromPyObject, Debug, Clone, Copy, PartialEq)]
pub(crate) enum Default {
    Flag(#[pyo3(from_py_with = strict_bool)] bool),
    Count(u64),
    Number(f64),
}

fn strict_bool(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(value.cast::<pyo3::types::PyBool>()?.is_true())
}

/// A class of controllers.
pub(crate) struct Class {
    pub(crate) name: &'static str,
    pub(crate) class: Py<PyAny>,
    pub(crate) methods: HashSet<String>,
    parameters: &'static [SpecParameter],
    defaults: Vec<Default>,
}

/// What the run of a thread is about.
#[derive(Default)]
struct Context {
    classes: HashMap<&'static str, Arc<Class>>,
    runs: bool,
    /// A controller's call of another run began this.
    is_inner: bool,
    epoch: Option<Instant>,
    failure: Option<PyErr>,
}

thread_local! {
    static CONTEXT: RefCell<Context> = RefCell::default();
}

/// The controllers that this thread knows, as long as it lives.
pub(crate) struct Known {
    pub(crate) controllers: Controllers,
    before: Context,
}

impl Known {
    /// The testbed's controllers and those of `described`, by name.
    pub(crate) fn new(described: HashMap<String, Described>) -> PyResult<Self> {
        let mut controllers = evenkeel_testbed::controllers();
        let mut classes = HashMap::new();
        let mut described: Vec<_> = described.into_iter().collect();
        described.sort_by(|(a, _), (b, _)| a.cmp(b));
        for (name, one) in described {
            check_name(&name, &controllers)?;
            let (name, parameters) = (interned(&name), parameters(&one.parameters));
            controllers = controllers.with(ControllerRow {
                name,
                summary: interned(&one.summary),
                parameters,
                build: ControllerBuild { uses_path, factory },
            });
            let class = Class {
                name,
                class: one.class,
                methods: one.methods,
                parameters,
                defaults: one.parameters.iter().map(|(_, default)| *default).collect(),
            };
            classes.insert(name, Arc::new(class));
        }
        let context = Context {
            classes,
            is_inner: CONTEXT.with_borrow(|outer| outer.runs || outer.is_inner),
            ..Context::default()
        };
        Ok(Self {
            controllers,
            before: CONTEXT.replace(context),
        })
    }
}

impl Known {
    /// Whether a spec such as `mine:packets=20` names a controller in Python.
    pub(crate) fn is_own(&self, spec: &str) -> bool {
        let name = spec.split(':').next().unwrap_or(spec);
        CONTEXT.with_borrow(|context| context.classes.contains_key(name))
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        CONTEXT.set(std::mem::take(&mut self.before));
    }
}

/// A run is about to begin on this thread, which has the clock of one run alone.
pub(crate) fn enter() -> PyResult<()> {
    CONTEXT.with_borrow_mut(|context| context.runs = true);
    if CONTEXT.with_borrow(|context| context.is_inner) {
        let why = "a controller began a run within its own; begin it on another thread";
        return Err(PyRuntimeError::new_err(why));
    }
    Ok(())
}

/// The run counts its time from `epoch`.
pub(crate) fn begin(epoch: Instant) {
    CONTEXT.with_borrow_mut(|context| context.epoch = Some(epoch));
}

/// From when this thread's run counts its time.
pub(crate) fn epoch(now: Instant) -> Instant {
    CONTEXT.with_borrow(|context| context.epoch.unwrap_or(now))
}

/// A controller of this thread's run has raised an error; the first one stands.
pub(crate) fn fail(error: PyErr) {
    CONTEXT.with_borrow_mut(|context| {
        context.failure.get_or_insert(error);
    });
}

/// Whether one has.
pub(crate) fn has_failed() -> bool {
    CONTEXT.with_borrow(|context| context.failure.is_some())
}

/// The error that a controller of this thread's run has raised.
pub(crate) fn take_failure() -> Option<PyErr> {
    CONTEXT.with_borrow_mut(|context| context.failure.take())
}

/// Names and summaries of the testbed's controllers and those of `described`.
#[pyfunction]
pub(crate) fn controllers(
    py: Python<'_>,
    described: HashMap<String, Described>,
) -> PyResult<Py<PyDict>> {
    let known = Known::new(described)?;
    let all = PyDict::new(py);
    for row in known.controllers.rows() {
        all.set_item(row.name, row.summary)?;
    }
    Ok(all.unbind())
}

fn check_name(name: &str, taken: &Controllers) -> PyResult<()> {
    // Results have directories of these names.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let why = if !begins_well || name.len() > NAME_LENGTH || !name.chars().all(is_plain) {
        "write letters, digits and -_., at most 64, and begin with a letter or digit"
    } else if taken.rows().iter().any(|row| row.name == name) {
        "the testbed has a controller of this name; choose another"
    } else {
        return Ok(());
    };
    Err(ScenarioError::new_err(format!(
        "controller {:?}: {why}",
        shortened(name)
    )))
}

fn uses_path(values: &SpecValues) -> bool {
    class(values.row()).methods.contains("on_path")
}

fn factory(values: &SpecValues) -> Result<SharedFactory, SpecError> {
    let class = class(values.row());
    let given = class.parameters.iter().zip(&class.defaults);
    let given = given.filter_map(|(parameter, default)| {
        let name = parameter.name;
        let value = match parameter.kind {
            ParameterKind::Flag { .. } => Default::Flag(values.flag(name)),
            ParameterKind::Count { .. } => Default::Count(values.count(name)),
            _ => Default::Number(values.number(name)),
        };
        // Python knows its defaults better: a whole number below 0 is no float.
        (value != *default).then_some((name, value))
    });
    let given: Vec<_> = given.collect();
    Ok(adapt(move |now, mtu| {
        Box::new(PyController::new(class.clone(), &given, now, mtu))
    }))
}

fn class(name: &str) -> Arc<Class> {
    let class = CONTEXT.with_borrow(|context| context.classes.get(name).cloned());
    class.expect("a run stays on the thread that knows its controllers")
}

fn parameters(described: &[(String, Default)]) -> &'static [SpecParameter] {
    let parameter = |(name, default): &(String, Default)| {
        let (name, meaning) = (interned(name), "as the class says");
        match *default {
            Default::Flag(default) => SpecParameter::flag(name, meaning, default),
            Default::Count(default) => {
                SpecParameter::count(name, meaning, 0, MOST_COUNT, Some(default))
            }
            Default::Number(default) => {
                SpecParameter::number(name, meaning, -MOST_NUMBER, MOST_NUMBER, Some(default))
            }
        }
    };
    /// Rows are for ever, so that each list is made once.
    static LISTS: Mutex<Vec<&'static [SpecParameter]>> = Mutex::new(Vec::new());
    let list: Vec<_> = described.iter().map(parameter).collect();
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lists.iter().find(|known| ***known == list[..]) {
        return known;
    }
    let list: &'static [SpecParameter] = list.leak();
    lists.push(list);
    list
}

/// The text for ever: each is kept once.
fn interned(text: &str) -> &'static str {
    static TEXTS: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    let texts = texts.get_or_insert_default();
    if let Some(known) = texts.get(text) {
        return known;
    }
    let text: &'static str = text.to_owned().leak();
    texts.insert(text);
    text
}
