//! Rows of a table of controllers.

use evenkeel_spec::{Row, SpecError, SpecValues};

use crate::adapter::SharedFactory;

/// A controller with a name.
pub type ControllerRow = Row<ControllerBuild>;

/// Builds a row's controller from the values of its parameters.
#[derive(Debug, Clone, Copy)]
pub struct ControllerBuild {
    /// Returns whether the controller uses path headers.
    pub uses_path: fn(&SpecValues) -> bool,
    /// Returns a factory, or an error if the values contradict each other.
    pub factory: fn(&SpecValues) -> Result<SharedFactory, SpecError>,
}
