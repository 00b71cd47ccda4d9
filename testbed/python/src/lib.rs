//! The testbed for Python: the part of the package `evenkeel` that is written in Rust. Programs
//! import `evenkeel`, which documents all of it; `_native` is not for them.

mod comparison;
mod controller;
mod facts;
mod league;
mod results;
mod run;
mod table;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(
    evenkeel,
    ScenarioError,
    PyValueError,
    "A scenario, a controller's name or a choice that makes no sense, in one line."
);

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add_class::<facts::Ack>()?;
    module.add_class::<facts::Round>()?;
    module.add_class::<facts::Loss>()?;
    module.add_class::<facts::Congestion>()?;
    module.add_class::<facts::PathSample>()?;
    module.add_class::<league::League>()?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::check, module)?)?;
    module.add_function(wrap_pyfunction!(run::to_toml, module)?)?;
    module.add_function(wrap_pyfunction!(table::controllers, module)?)?;
    module.add_function(wrap_pyfunction!(comparison::compared_flows, module)?)?;
    module.add_function(wrap_pyfunction!(comparison::write_comparison, module)?)
}
