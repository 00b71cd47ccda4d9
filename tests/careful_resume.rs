//! Connections that begin with what their path carried before (RFC 9959), in virtual time.

use std::time::Duration;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::metrics::FlowObservation;
use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, Scenario, Value};

/// Plays a transfer of 100 MB over `streams` streams and a path with a round trip of 600 ms that
/// carries `rate_bps` and queues `queue_packets`; the sender remembers 250 Mb/s.
fn remembering(
    controller: &str,
    streams: u32,
    rate_bps: u64,
    queue_packets: u32,
) -> FlowObservation {
    let remembered = [("rate_bps", 250_000_000), ("rtt_ms", 600)]
        .map(|(key, value)| (key.to_owned(), Value::from(value)));
    let link = LinkBuilder::between("link", "client", "server")
        .rate_bps(rate_bps)
        .delay(Duration::from_millis(300))
        .queue_packets(queue_packets);
    let flow = FlowBuilder::bulk("f", controller)
        .between("client", "server")
        .set("streams", streams)
        .set("bytes", 100_000_000)
        .set("remembered", Value::Table(remembered.into_iter().collect()));
    let scenario = Scenario::builder("careful-resume", Duration::from_secs(75))
        .link(link)
        .flow(flow)
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    let observations = sim::run(&scenario, &sim::Options::default(), |_| ());
    let observations = observations.unwrap_or_else(|error| panic!("{error}"));
    let flow = { observations }.flows.remove(0);
    assert_eq!(flow.error, None, "{controller}");
    flow
}

/// How long the transfer took, in seconds.
fn seconds(flow: &FlowObservation) -> f64 {
    let end = flow.transfers[0].end;
    end.map_or(f64::INFINITY, |end| end.as_secs_f64())
}

#[test]
fn a_remembered_path_carries_a_hundred_megabytes_within_7_4_seconds() {
    for controller in ["reno", "keel"] {
        let flow = remembering(controller, 16, 250_000_000, 15_000);
        let took = seconds(&flow);
        assert!(took < 7.4, "{controller}: {took} s");
        assert_eq!(flow.lost_packets, 0, "{controller}");
    }
}

#[test]
fn a_path_that_carries_a_tenth_of_what_is_remembered_is_filled_after_a_round_trip_of_losses() {
    for controller in ["reno", "keel"] {
        // The first window has 7630 packets, over one stream 1600.
        for (streams, queue_packets, most_lost, most_seconds) in [
            (16, 1500, 5500, 45.0),
            (16, 100, 7500, 65.0),
            (1, 1500, 100, 45.0),
            (1, 100, 1600, 60.0),
        ] {
            let flow = remembering(controller, streams, 25_000_000, queue_packets);
            let (took, lost) = (seconds(&flow), flow.lost_packets);
            let case = format!("{controller}, {streams} streams, {queue_packets} packets of queue");
            assert!(lost <= most_lost, "{case}: {lost} packets lost");
            assert!(took < most_seconds, "{case}: {took} s");
        }
    }
}
