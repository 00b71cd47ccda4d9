//! A flow's settings as options of `evenkeel`, whatever its application.

use std::time::Duration;

use evenkeel_apps::path::HeaderUse;

use crate::scenario::FlowSpec;

/// Of the side that sends, which records what it measures every `interval`.
pub(super) fn of_sender(spec: &FlowSpec, interval: Duration) -> Vec<String> {
    let mut options = of_either(spec, interval);
    let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
    add("--ack-every", spec.acks.every.to_string());
    let max_delay_ms = spec.acks.max_delay.as_secs_f64() * 1e3;
    add("--max-ack-delay", max_delay_ms.to_string());
    let headers = HeaderUse::of_every(spec.path_headers);
    add("--path-headers", headers.to_string());
    if let Some(interval) = spec.probe_interval {
        add("--probe-interval", interval.as_secs_f64().to_string());
    }
    options.push("--rtt-samples".into());
    if spec.path_headers > 0 {
        options.push("--path-samples".into());
    }
    options
}

/// Of the side that receives, with a record every `interval`.
pub(super) fn of_receiver(spec: &FlowSpec, interval: Duration) -> Vec<String> {
    let mut options = of_either(spec, interval);
    let headers = HeaderUse::of_every(spec.path_headers).answer();
    options.extend(["--path-headers".into(), headers.to_string()]);
    options
}

fn of_either(spec: &FlowSpec, interval: Duration) -> Vec<String> {
    let mut options = vec!["--json-lines".into()];
    let mut add = |name: &str, value: String| options.extend([name.to_owned(), value]);
    add("--interval", interval.as_secs_f64().to_string());
    add("--controller", spec.controller.clone());
    add("--pacing", spec.pacing.to_string());
    if let Some(timeout) = spec.idle_timeout {
        add("--idle-timeout", timeout.as_secs_f64().to_string());
    }
    if !spec.mtu_discovery {
        options.push("--no-mtu-discovery".into());
    }
    options
}
