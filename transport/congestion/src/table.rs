//! Tables of controllers, which find a controller by name.

use evenkeel_spec::{SpecError, find};

use crate::adapter::{SharedFactory, quinn_bbr, quinn_cubic};
use crate::row::{ControllerBuild, ControllerRow};
use crate::{a_aimd, abgd, acp, ada_vegas, gaimd, keel, rcp, ro_vegas, tfrc, vegas, xcp};

/// A table of controllers that an application can extend.
///
/// ```
/// use evenkeel_congestion::{
///     Congestion, Controller, ControllerBuild, ControllerRow, Controllers, SpecParameter, adapt,
/// };
///
/// /// Keeps a fixed number of bytes in flight.
/// #[derive(Debug, Clone)]
/// struct Fixed(u64);
///
/// impl Controller for Fixed {
///     fn on_congestion(&mut self, _event: &Congestion) {}
///     fn on_persistent_congestion(&mut self) {}
///     fn on_mtu(&mut self, _mtu: u16) {}
///     fn window(&self) -> u64 {
///         self.0
///     }
///     fn slow_start_threshold(&self) -> Option<u64> {
///         None
///     }
/// }
///
/// const FIXED: ControllerRow = ControllerRow {
///     name: "fixed",
///     summary: "a fixed window",
///     parameters: &[SpecParameter::count("bytes", "window in bytes", 2400, 1_000_000, Some(12_000))],
///     build: ControllerBuild {
///         uses_path: |_| false,
///         factory: |values| {
///             let bytes = values.count("bytes");
///             Ok(adapt(move |_now, _mtu| Box::new(Fixed(bytes))))
///         },
///     },
/// };
///
/// let controllers = Controllers::shipped().with(FIXED);
/// let factory = controllers.factory("fixed:bytes=20000")?;
/// # drop(factory);
/// # Ok::<(), evenkeel_congestion::SpecError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Controllers {
    rows: Vec<ControllerRow>,
}

/// Compares what the rows list; ignores what they build.
impl PartialEq for Controllers {
    fn eq(&self, other: &Self) -> bool {
        let listed = |row: &ControllerRow| (row.name, row.summary, row.parameters);
        self.rows
            .iter()
            .map(listed)
            .eq(other.rows.iter().map(listed))
    }
}

impl Controllers {
    /// Returns the controllers of this crate.
    pub fn shipped() -> Self {
        Self {
            rows: SHIPPED.to_vec(),
        }
    }

    /// Adds a row to this table.
    ///
    /// # Panics
    ///
    /// If the table has a row of this name.
    #[must_use]
    pub fn with(mut self, row: ControllerRow) -> Self {
        let taken = self.rows.iter().any(|known| known.name == row.name);
        assert!(!taken, "two controllers have the name {}", row.name);
        self.rows.push(row);
        self
    }

    /// Returns this table with controllers that have switches as they are in [`Controllers::shipped`],
    /// but with a parameter for each: `keel:without.hold=true` plays without a part,
    /// `keel:scale.beta=0.8` with a constant scaled.
    #[cfg(feature = "ablation")]
    #[must_use]
    pub fn with_switches(mut self) -> Self {
        for row in &mut self.rows {
            if row.name == keel::SWITCHED.name {
                *row = keel::SWITCHED;
            }
        }
        self
    }

    /// Returns the rows in display order.
    pub fn rows(&self) -> &[ControllerRow] {
        &self.rows
    }

    /// Returns a factory for the controller that `spec` names, as [`controller`] does.
    ///
    /// # Errors
    ///
    /// One line that says what is wrong with `spec` and what to write instead.
    pub fn factory(&self, spec: &str) -> Result<SharedFactory, SpecError> {
        factory(&self.rows, spec)
    }

    /// Returns whether the controller that `spec` names uses path headers.
    ///
    /// # Errors
    ///
    /// As [`Controllers::factory`].
    pub fn uses_path_headers(&self, spec: &str) -> Result<bool, SpecError> {
        uses_path(&self.rows, spec)
    }

    /// Whether a seed repeats runs of the controller that `spec` names: [`PathFactory::repeats`].
    ///
    /// # Errors
    ///
    /// As [`Controllers::factory`].
    ///
    /// [`PathFactory::repeats`]: crate::PathFactory::repeats
    pub fn repeats(&self, spec: &str) -> Result<bool, SpecError> {
        Ok(self.factory(spec)?.repeats())
    }
}

/// The controller to take without a reason for another: that of `evenkeel bulk` and `evenkeel
/// stream`.
pub const DEFAULT_CONTROLLER: &str = "keel";

/// Returns a factory for the controller that `spec` names: `vegas`, or with parameters
/// `gaimd:alpha=0.31,beta=0.875`. [`controllers`] lists names and parameters.
///
/// # Errors
///
/// One line that says what is wrong with `spec` and what to write instead.
///
/// ```
/// let factory = evenkeel_congestion::controller("vegas:alpha=2,beta=4")?;
/// let error = evenkeel_congestion::controller("vega").err().expect("no such name");
/// assert!(error.to_string().starts_with("unknown controller \"vega\": did you mean vegas? "));
/// # drop(factory);
/// # Ok::<(), evenkeel_congestion::SpecError>(())
/// ```
pub fn controller(spec: &str) -> Result<SharedFactory, SpecError> {
    factory(SHIPPED, spec)
}

/// Returns whether the controller that `spec` names uses path headers.
///
/// # Errors
///
/// As [`controller`].
pub fn uses_path_headers(spec: &str) -> Result<bool, SpecError> {
    uses_path(SHIPPED, spec)
}

/// Returns all controllers of this crate in display order.
pub fn controllers() -> &'static [ControllerRow] {
    SHIPPED
}

static SHIPPED: &[ControllerRow] = &[
    keel::ROW,
    gaimd::RENO,
    gaimd::GAIMD,
    gaimd::SMOOTH_AIMD,
    vegas::VEGAS,
    vegas::VEGAS_8,
    ada_vegas::ROW,
    ro_vegas::ROW,
    acp::ROW,
    xcp::ROW,
    rcp::ROW,
    abgd::ROW,
    a_aimd::ROW,
    tfrc::ROW,
    ControllerRow {
        name: "cubic",
        summary: "quinn's own CUBIC",
        parameters: &[],
        build: ControllerBuild {
            uses_path: |_| false,
            factory: |_| Ok(quinn_cubic()),
        },
    },
    ControllerRow {
        name: "bbr",
        summary: "quinn's own BBR; random by itself, so that no seed repeats a run",
        parameters: &[],
        build: ControllerBuild {
            uses_path: |_| false,
            factory: |_| Ok(quinn_bbr()),
        },
    },
];

fn factory(rows: &[ControllerRow], spec: &str) -> Result<SharedFactory, SpecError> {
    let (row, values) = find("controller", rows, spec)?;
    (row.build.factory)(&values)
}

fn uses_path(rows: &[ControllerRow], spec: &str) -> Result<bool, SpecError> {
    let (row, values) = find("controller", rows, spec)?;
    (row.build.factory)(&values)?;
    Ok((row.build.uses_path)(&values))
}

#[cfg(test)]
mod tests;
