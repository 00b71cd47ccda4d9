//! What `evenkeel` is told of silence: when a connection is given up, and how often it is probed.

use crate::scenario::FlowSpec;

/// For either side.
pub(super) fn idle_timeout(spec: &FlowSpec) -> Vec<String> {
    seconds("--idle-timeout", spec.idle_timeout)
}

/// For the sender.
pub(super) fn probe_interval(spec: &FlowSpec) -> Vec<String> {
    seconds("--probe-interval", spec.probe_interval)
}

fn seconds(name: &str, time: Option<std::time::Duration>) -> Vec<String> {
    time.map_or_else(Vec::new, |time| {
        vec![name.to_owned(), time.as_secs_f64().to_string()]
    })
}
