//! Makes factories of noq controllers: by name, of one of ours, of one written for noq.

use std::sync::Arc;
use std::time::Instant;

use evenkeel_congestion::{Controller, Controllers, SpecError};
use noq_proto::congestion::{self, Bbr3Config, ControllerFactory, CubicConfig};

use crate::adapter::Factory;
use crate::path_factory::{PathFactory, SharedFactory};

/// Returns a factory for the controller that `spec` names: `keel`, or with parameters
/// `vegas:alpha=2,beta=4`. [`controllers`](crate::controllers) lists names and parameters. `cubic` and `bbr` name the
/// QUIC stack's own: on noq its CUBIC and its BBRv3.
///
/// # Errors
///
/// One line that says what is wrong with `spec` and what to write instead.
///
/// ```
/// let error = evenkeel_noq::controller("vega").err().expect("no such name");
/// assert!(error.to_string().starts_with("unknown controller \"vega\": did you mean vegas? "));
/// ```
pub fn controller(spec: &str) -> Result<SharedFactory, SpecError> {
    from_table(&Controllers::shipped(), spec)
}

/// Returns a factory for the controller of `table` that `spec` names, as [`controller()`] does.
///
/// # Errors
///
/// As [`controller()`]; also if the row's controller is written for quinn
/// (`evenkeel_congestion::foreign`).
pub fn from_table(table: &Controllers, spec: &str) -> Result<SharedFactory, SpecError> {
    let factory = table.factory(spec)?;
    if factory.own().is_some() {
        return Ok(Arc::new(Factory(factory)));
    }
    match spec.split(':').next().unwrap_or_default().trim() {
        "cubic" => Ok(foreign(Arc::new(CubicConfig::default()))),
        "bbr" => Ok(foreign(Arc::new(Bbr3Config::default()))),
        name => Err(SpecError::new(format!(
            "controller {name:?} is written for quinn and does not run on noq: take another, or \
             give its row a factory made with adapt"
        ))),
    }
}

/// Returns a factory of noq controllers that run what `build` returns. noq calls it for every new
/// path, with the present time and the bytes of UDP payload in a full-size packet.
pub fn adapt<B>(build: B) -> SharedFactory
where
    B: Fn(Instant, u16) -> Box<dyn Controller> + Send + Sync + 'static,
{
    Arc::new(Factory(evenkeel_congestion::adapt(build)))
}

/// Wraps a factory that is written for noq, such as noq's own. Its controllers learn nothing from
/// path headers.
pub fn foreign(factory: Arc<dyn ControllerFactory + Send + Sync>) -> SharedFactory {
    Arc::new(Foreign(factory))
}

struct Foreign(Arc<dyn ControllerFactory + Send + Sync>);

impl ControllerFactory for Foreign {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn congestion::Controller> {
        self.0.clone().build(now, current_mtu)
    }
}

impl PathFactory for Foreign {}
