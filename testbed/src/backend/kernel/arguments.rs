//! A flow as command lines of `evenkeel`, or of `evenkeel-testbed` with a controller of its own.

use std::time::Duration;

use evenkeel_apps::bulk::LossDetection;
use evenkeel_apps::path::HeaderUse;
use evenkeel_apps::stream::Delivery;

use super::router_file::absolute;
use crate::scenario::{App, FlowSpec, Payload, Scenario, StreamSpec};

/// The command of `evenkeel-testbed` that is `evenkeel` with the testbed's controllers.
const APPS: &str = "apps";

/// Whether `evenkeel` carries out the flow: its controller ships, and is not the kernel's.
pub(super) fn ships(spec: &FlowSpec) -> bool {
    !matches!(spec.app, App::Tcp { .. }) && evenkeel::controller(&spec.controller).is_ok()
}

/// The arguments of a command, in the order in which they were added.
struct Arguments(Vec<String>);

impl Arguments {
    /// Begins with the `words` that choose an application and a side of it.
    fn new(spec: &FlowSpec, words: [&str; 2]) -> Self {
        let first = (!ships(spec)).then_some(APPS);
        Self(first.into_iter().chain(words).map(String::from).collect())
    }

    fn add(&mut self, name: &str, value: impl ToString) {
        self.0.extend([name.to_owned(), value.to_string()]);
    }

    fn flag(&mut self, name: &str, is_set: bool) {
        self.0.extend(is_set.then(|| name.to_owned()));
    }

    /// The options of the side that sends, with a record of what it measures every `interval`.
    fn add_sender(&mut self, spec: &FlowSpec, interval: Duration) {
        self.add_common(spec, interval);
        self.add("--ack-every", spec.acks.every);
        self.add("--max-ack-delay", spec.acks.max_delay.as_secs_f64() * 1e3);
        self.add("--path-headers", HeaderUse::of_every(spec.path_headers));
        let (losses, default) = (spec.losses, LossDetection::default());
        if losses != default {
            self.add("--packet-threshold", losses.packet_threshold);
            self.add("--time-threshold", losses.time_threshold);
        }
        self.add("--ecn", spec.ecn);
        if let Some(interval) = spec.probe_interval {
            self.add("--probe-interval", interval.as_secs_f64());
        }
        self.flag("--rtt-samples", true);
        self.flag("--path-samples", spec.path_headers > 0);
    }

    /// The options of the side that receives, with a record every `interval`.
    fn add_receiver(&mut self, spec: &FlowSpec, interval: Duration) {
        self.add_common(spec, interval);
        let headers = HeaderUse::of_every(spec.path_headers).answer();
        self.add("--path-headers", headers);
    }

    fn add_common(&mut self, spec: &FlowSpec, interval: Duration) {
        self.flag("--json-lines", true);
        self.add("--interval", interval.as_secs_f64());
        self.add("--controller", &spec.controller);
        self.add("--pacing", spec.pacing);
        if let Some(timeout) = spec.idle_timeout {
            self.add("--idle-timeout", timeout.as_secs_f64());
        }
        self.flag("--no-mtu-discovery", !spec.mtu_discovery);
    }
}

/// A server that receives bulk data at `address`.
pub(super) fn bulk_server(scenario: &Scenario, spec: &FlowSpec, address: &str) -> Vec<String> {
    let mut arguments = Arguments::new(spec, ["bulk", "server"]);
    arguments.add("--listen", address);
    arguments.add_receiver(spec, scenario.sampling_interval);
    arguments.0
}

/// A client that sends `payload` to the server at `address`.
pub(super) fn bulk_client(
    scenario: &Scenario,
    spec: &FlowSpec,
    address: &str,
    pin: &str,
    payload: &Payload,
) -> Vec<String> {
    let mut arguments = Arguments::new(spec, ["bulk", "client"]);
    arguments.0.push(address.to_owned());
    arguments.add("--pin", pin);
    arguments.add("--bind", spec.from.address(spec.ip_version));
    arguments.add("--streams", spec.streams);
    match payload {
        // Longer than the run, which ends it, if an application takes that: a day is the longest.
        Payload::Endless => {
            let time_s = scenario.duration.as_secs_f64() + 60.0;
            arguments.add("--time", time_s.min(86_400.0));
        }
        Payload::Bytes(bytes) => arguments.add("--bytes", bytes),
        Payload::File(path) => arguments.add("--file", absolute(path).display()),
    }
    arguments.add_sender(spec, scenario.sampling_interval);
    let verify = if spec.verify {
        "--sha256"
    } else {
        "--no-verify"
    };
    arguments.flag(verify, true);
    // As in virtual time.
    arguments.flag("--no-pings", true);
    arguments.0
}

/// A server that streams to a viewer from `address`.
pub(super) fn stream_server(
    scenario: &Scenario,
    spec: &FlowSpec,
    stream: &StreamSpec,
    address: &str,
) -> Vec<String> {
    let (encoder, send, adapt) = (&stream.encoder, &stream.send, &stream.send.adapt);
    let mut arguments = Arguments::new(spec, ["stream", "server"]);
    arguments.add("--listen", address);
    let name = |delivery| match delivery {
        Delivery::Frames => "frames",
        Delivery::Groups => "groups",
        Delivery::Datagrams => "datagrams",
    };
    arguments.add("--delivery", name(send.delivery));
    arguments.add("--sound-delivery", name(send.sound_delivery));
    arguments.add("--cancel-after", send.cancel_after.as_secs_f64());
    for track in stream.tracks.iter() {
        arguments.add("--track", &track.spec);
    }
    if stream.tracks.is_empty() {
        arguments.add("--bitrate", adapt.ceiling_bps);
    }
    if !adapt.fixed {
        arguments.add("--start-rate", adapt.start_bps);
        arguments.add("--floor", adapt.floor_bps);
        arguments.add("--headroom", adapt.headroom);
        arguments.add("--deadband", adapt.deadband);
        arguments.add("--rise", adapt.rise_per_s);
    }
    arguments.add("--frame-rate", encoder.frame_rate);
    arguments.add("--group", encoder.group);
    arguments.add("--key-ratio", encoder.key_ratio);
    arguments.add("--noise", encoder.noise);
    arguments.add("--seed", encoder.seed);
    arguments.flag("--fixed", adapt.fixed && stream.tracks.is_empty());
    arguments.add_sender(spec, scenario.sampling_interval);
    arguments.0
}

/// A viewer of the stream at `address`.
pub(super) fn stream_client(
    scenario: &Scenario,
    spec: &FlowSpec,
    stream: &StreamSpec,
    address: &str,
    pin: &str,
) -> Vec<String> {
    let mut arguments = Arguments::new(spec, ["stream", "client"]);
    arguments.0.push(address.to_owned());
    arguments.add("--pin", pin);
    arguments.add("--bind", spec.to.address(spec.ip_version));
    arguments.add("--clock", "shared");
    match stream.latency {
        Some(latency) => arguments.add("--latency", latency.as_secs_f64()),
        None => arguments.add("--buffer", stream.buffer.as_millis()),
    }
    let omit = scenario.warmup.saturating_sub(spec.start);
    arguments.add("--omit", omit.as_secs_f64());
    arguments.add_receiver(spec, scenario.sampling_interval);
    arguments.0
}
