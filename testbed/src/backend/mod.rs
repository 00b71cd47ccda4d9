//! A scenario on something that can run it.

pub mod docker;
pub mod kernel;
pub mod netns;
pub mod sim;
pub mod uml;

use crate::metrics::FlowObservation;
use crate::scenario::FlowSpec;

/// A flow of which nothing has been seen yet.
fn unseen(spec: &FlowSpec) -> FlowObservation {
    FlowObservation {
        name: spec.name.clone(),
        group: spec.group.clone(),
        controller: spec.controller.clone(),
        start: spec.start,
        stop: spec.stop,
        pacing: spec.pacing,
        path_headers: spec.path_headers,
        ..FlowObservation::default()
    }
}
