//! A controller in Python behind the trait of those in Rust.
//!
//! A method is called if its class has one of its own. After each call the attributes `window`,
//! `pacing_rate` and `slow_start_threshold` are read, so that nothing in between asks Python. An
//! exception is kept for the run, which ends at the next sampling interval; the controller does not
//! hear of anything any more.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use evenkeel::controller::{Ack, Congestion, Controller, Round};
use evenkeel::{EcnMode, PathSample};
use pyo3::exceptions::{PyAttributeError, PyOverflowError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::facts;
use crate::table::{Class, Default, epoch, fail, has_failed};

/// Greatest window and rate, in bytes and bytes per second: what a float still counts one by one.
const MOST: f64 = 9e15;

/// An object of a class of controllers, and what it last said.
pub(crate) struct PyController {
    class: Arc<Class>,
    /// `None` after it could not be made.
    object: Option<Py<PyAny>>,
    calls: Calls,
    epoch: Instant,
    window: u64,
    pacing_rate: Option<u64>,
    slow_start_threshold: Option<u64>,
    ecn: EcnMode,
}

/// Which methods the class has of its own, of those that are called often.
#[derive(Debug, Clone, Copy)]
struct Calls {
    ack: bool,
    round: bool,
    lost: bool,
    path: bool,
    congestion: bool,
}

impl PyController {
    /// The controller of a new path, with full-size packets of `mtu` bytes.
    pub(crate) fn new(
        class: Arc<Class>,
        parameters: &[(&'static str, Default)],
        now: Instant,
        mtu: u16,
    ) -> Self {
        let has = |method: &str| class.methods.contains(method);
        let mut controller = Self {
            calls: Calls {
                ack: has("on_ack"),
                round: has("on_round"),
                lost: has("on_lost"),
                path: has("on_path"),
                congestion: has("on_congestion"),
            },
            class: class.clone(),
            object: None,
            epoch: epoch(now),
            window: 10 * u64::from(mtu),
            pacing_rate: None,
            slow_start_threshold: None,
            ecn: EcnMode::Classic,
        };
        if has_failed() {
            return controller;
        }
        let made = Python::attach(|py| {
            let given = PyDict::new(py);
            for (name, value) in parameters {
                match *value {
                    Default::Flag(flag) => given.set_item(name, flag)?,
                    Default::Count(count) => given.set_item(name, count)?,
                    Default::Number(number) => given.set_item(name, number)?,
                }
            }
            let object = class.class.bind(py).call((mtu,), Some(&given))?;
            controller.ecn = ecn(&object)?;
            controller.hear(&object)?;
            controller.object = Some(object.unbind());
            Ok(())
        });
        made.unwrap_or_else(fail);
        controller
    }

    /// Calls a method by `call`, and reads what the controller says then.
    fn tell(&mut self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) {
        let Some(object) = self.object.take() else {
            return;
        };
        if !has_failed() {
            let called = Python::attach(|py| {
                let object = object.bind(py);
                call(object)?;
                self.hear(object)
            });
            called.unwrap_or_else(fail);
        }
        self.object = Some(object);
    }

    /// Reads what the controller says.
    fn hear(&mut self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let window = object.getattr(intern!(py, "window"));
        let window = window.map_err(|error| self.without_window(py, error))?;
        self.window = match amount(&window)? {
            Some(window) => window,
            None => return Err(self.wrong("window", &window)),
        };
        let optional = |name: &Bound<'_, PyString>, text| {
            let value = object.getattr(name)?;
            match amount(&value)? {
                None if value.is_none() => Ok(None),
                None => Err(self.wrong(text, &value)),
                some => Ok(some),
            }
        };
        let pacing_rate = optional(intern!(py, "pacing_rate"), "pacing_rate")?;
        let threshold = optional(intern!(py, "slow_start_threshold"), "slow_start_threshold")?;
        // Others take a rate of 0 for none.
        self.pacing_rate = pacing_rate.map(|rate| rate.max(1));
        self.slow_start_threshold = threshold;
        Ok(())
    }

    /// What a controller without a window has probably forgotten.
    fn without_window(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<PyAttributeError>(py) {
            return error;
        }
        let message = format!(
            "{}: it has no window; call super().__init__(mtu) in its __init__, or set self.window",
            self.class.name
        );
        let explained = PyAttributeError::new_err(message);
        explained.set_cause(py, Some(error));
        explained
    }

    /// What a controller that cannot be copied has probably kept.
    fn without_copy(&self, py: Python<'_>, error: PyErr) -> PyErr {
        if !error.is_instance_of::<PyTypeError>(py) {
            return error;
        }
        let (name, value) = (self.class.name, error.value(py));
        let message = format!(
            "{name}: it cannot be copied: {value}; leave out files, locks and generators, or define \
             __deepcopy__"
        );
        let explained = PyTypeError::new_err(message);
        explained.set_cause(py, Some(error));
        explained
    }

    fn wrong(&self, name: &str, value: &Bound<'_, PyAny>) -> PyErr {
        let unit = match name {
            "pacing_rate" => "bytes per second, or None",
            "slow_start_threshold" => "bytes, or None",
            _ => "bytes",
        };
        let shown = value.repr().map(|text| text.to_string());
        let shown = shown.unwrap_or_else(|_| "no number".into());
        let controller = self.class.name;
        PyValueError::new_err(format!(
            "{controller}: {name} is {shown}; give it a number of {unit}, 0 to 9e15"
        ))
    }
}

/// A number from 0 to [`MOST`], rounded down.
fn amount(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    if let Ok(whole) = value.extract::<u64>() {
        return Ok((whole <= MOST as u64).then_some(whole));
    }
    match value.extract::<f64>() {
        Ok(number) if (0.0..=MOST).contains(&number) => Ok(Some(number as u64)),
        Err(error) if !is_no_number(value.py(), &error) => Err(error),
        _ => Ok(None),
    }
}

/// Whether Python says that a value is no number, or too great for a float.
fn is_no_number(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyOverflowError>(py)
}

fn ecn(object: &Bound<'_, PyAny>) -> PyResult<EcnMode> {
    let ecn = object.getattr(intern!(object.py(), "ecn"))?;
    match ecn.extract::<String>().as_deref() {
        Ok("classic") => Ok(EcnMode::Classic),
        Ok("scalable") => Ok(EcnMode::Scalable),
        _ => Err(PyValueError::new_err(format!(
            "ecn is {ecn}; write \"classic\" or \"scalable\""
        ))),
    }
}

/// A copy with the same state (`copy.deepcopy`): for a path on which only the port has changed, and
/// for the time before a path's marks turn out to say nothing.
impl Clone for PyController {
    fn clone(&self) -> Self {
        let object = self.object.as_ref().filter(|_| !has_failed());
        let object = object.and_then(|object| {
            let copied = Python::attach(|py| {
                let copy = py.import("copy")?.getattr("deepcopy")?;
                let copied = copy.call1((object,));
                Ok(copied
                    .map_err(|error| self.without_copy(py, error))?
                    .unbind())
            });
            copied.map_err(fail).ok()
        });
        Self {
            class: self.class.clone(),
            object,
            ..*self
        }
    }
}

impl fmt::Debug for PyController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, window, .. } = self;
        write!(f, "{} in Python, window {window}", class.name)
    }
}

/// Calls the method of this name with one fact.
macro_rules! tell {
    ($controller:expr, $method:literal, $fact:expr) => {
        $controller.tell(|object| {
            object.call_method1(intern!(object.py(), $method), ($fact,))?;
            Ok(())
        })
    };
}

impl Controller for PyController {
    fn on_path(&mut self, sample: &PathSample) {
        if self.calls.path {
            let fact = facts::PathSample::new(sample, self.epoch);
            tell!(self, "on_path", fact);
        }
    }

    fn on_ack(&mut self, ack: &Ack) {
        if self.calls.ack {
            let fact = facts::Ack::new(ack, self.epoch);
            tell!(self, "on_ack", fact);
        }
    }

    fn on_round(&mut self, round: &Round) {
        if self.calls.round {
            let fact = facts::Round::new(round, self.epoch);
            tell!(self, "on_round", fact);
        }
    }

    fn on_lost(&mut self, now: Instant, bytes: u64) {
        if self.calls.lost {
            let fact = facts::Loss::new(now, bytes, self.epoch);
            tell!(self, "on_lost", fact);
        }
    }

    fn on_congestion(&mut self, event: &Congestion) {
        if self.calls.congestion {
            let fact = facts::Congestion::new(event, self.epoch);
            tell!(self, "on_congestion", fact);
        }
    }

    fn on_persistent_congestion(&mut self) {
        self.tell(|object| {
            let name = intern!(object.py(), "on_persistent_congestion");
            object.call_method0(name)?;
            Ok(())
        });
    }

    fn on_mtu(&mut self, mtu: u16) {
        tell!(self, "on_mtu", mtu);
    }

    fn resume(&mut self, window: u64) {
        tell!(self, "resume", window);
    }

    fn window(&self) -> u64 {
        self.window
    }

    fn pacing_rate(&self) -> Option<u64> {
        self.pacing_rate
    }

    fn ecn(&self) -> EcnMode {
        self.ecn
    }

    fn slow_start_threshold(&self) -> Option<u64> {
        self.slow_start_threshold
    }
}
