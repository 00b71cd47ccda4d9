//! What a table of controllers lists.

use evenkeel_spec::{Row, SpecError, Values};

use crate::adapter::SharedFactory;

/// A controller that can be asked for by name.
pub type ControllerRow = Row<ControllerBuild>;

/// How a row builds its controller from the values of its parameters.
#[derive(Debug, Clone, Copy)]
pub struct ControllerBuild {
    /// Whether the controller uses path headers.
    pub uses_path: fn(&Values) -> bool,
    /// A factory for it, or an error if values do not go together.
    pub factory: fn(&Values) -> Result<SharedFactory, SpecError>,
}
