//! Links that go away and come back, and routes that change, in virtual time, with every controller.

use std::time::Duration;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::metrics::FlowObservation;
use evenkeel_testbed::scenario::Scenario;

/// Width of a sampling interval, in seconds.
const INTERVAL_S: f64 = 0.01;

/// Controllers of the table whose runs repeat: quinn's BBR draws from the operating system.
fn controllers() -> impl Iterator<Item = &'static str> {
    let names = evenkeel::controllers().iter().map(|row| row.name);
    names.filter(|name| *name != "bbr")
}

/// A flow over a link of 4 Mb/s with a round trip of 40 ms, `link` being more of the
/// link's keys and `flow` of the flow's.
fn run(duration_s: f64, controller: &str, link: &str, flow: &str) -> FlowObservation {
    let text = format!(
        "name = 'faults'\nduration_s = {duration_s}\n[sampling]\ninterval_ms = 10\n\
         [[links]]\nname = 'link'\nfrom = 'client'\nto = 'server'\nrate_bps = 4000000\ndelay_ms = 20\n\
         queue_packets = 30\n{link}\n\
         [[flows]]\nname = 'f'\napp = 'bulk'\nfrom = 'client'\nto = 'server'\nverify = true\n\
         controller = '{controller}'\n{flow}\n"
    );
    let scenario =
        Scenario::parse(&text, "faults.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
    let observations = sim::run(&scenario, &sim::Options::default(), |_| ());
    let mut observations = observations.unwrap_or_else(|error| panic!("{error}"));
    observations.flows.remove(0)
}

/// When after `end_s` the first packet is through, in seconds; rounded up to an interval.
fn first_after(flow: &FlowObservation, end_s: f64) -> Option<f64> {
    let end = (end_s / INTERVAL_S).round() as usize;
    let silent = flow.delivered[end..].iter().position(|bytes| *bytes > 0)?;
    Some((silent + 1) as f64 * INTERVAL_S)
}

/// A blackout of `length_s` after 5 s, with an idle timeout of 120 s.
fn blackout(controller: &str, length_s: f64, probe_interval: &str) -> (FlowObservation, f64) {
    let link = format!("blackouts = [{{ start_s = 5, length_s = {length_s} }}]");
    let flow = format!("idle_timeout_s = 120\n{probe_interval}");
    let end_s = 5.0 + length_s;
    (run(end_s + 6.0, controller, &link, &flow), end_s)
}

#[test]
fn the_first_packet_after_a_blackout_is_through_within_a_second_if_a_sender_probes() {
    for length_s in [0.1, 1.0, 10.0, 30.0] {
        let mut longest = (0.0, "");
        for controller in controllers() {
            let (flow, end_s) = blackout(controller, length_s, "probe_interval_s = 0.8");
            assert_eq!(flow.error, None, "{controller}, {length_s} s");
            let after = first_after(&flow, end_s);
            let after = after.unwrap_or_else(|| panic!("{controller}, {length_s} s: nothing"));
            assert!(after <= 1.0, "{controller}: {after} s after {length_s} s");
            if after > longest.0 {
                longest = (after, controller);
            }
        }
        println!("{length_s} s: {:.2} s at most ({})", longest.0, longest.1);
    }
}

#[test]
fn without_probes_the_doubling_of_their_timeout_makes_the_silence_up_to_twice_as_long() {
    let (flow, end_s) = blackout("vegas", 30.0, "");
    assert_eq!(flow.error, None);
    assert_eq!(first_after(&flow, end_s), None, "within six seconds");
}

#[test]
fn nothing_is_corrupt_and_no_transfer_ends_where_a_blackout_or_a_route_ends() {
    let blackout = "blackouts = [{ start_s = 1, length_s = 30 }]";
    let lasting = "idle_timeout_s = 120\nprobe_interval_s = 0.8\nbytes = 2000000";
    for (link, duration_s) in [(blackout, 60.0), (&flips(), 60.0)] {
        for controller in controllers() {
            let flow = run(duration_s, controller, link, lasting);
            assert_eq!(flow.error, None, "{controller}");
            let transfer = &flow.transfers[0];
            assert_eq!(
                (transfer.bytes, transfer.sha256_verified),
                (2_000_000, Some(true)),
                "{controller}: {transfer:?}"
            );
        }
    }
}

#[test]
fn a_transfer_over_a_path_that_reorders_arrives_with_the_same_bytes_whatever_the_controller() {
    // At 4 Mb/s some eight packets are on the way at any time: what jumps overtakes as many.
    let reordering = "reorder = 0.1\nreverse = { reorder = 0 }";
    for controller in controllers() {
        let straight = run(60.0, controller, "", "bytes = 4000000");
        let flow = run(60.0, controller, reordering, "bytes = 4000000");
        assert_eq!(flow.error, None, "{controller}");
        let transfer = &flow.transfers[0];
        assert_eq!(
            (transfer.bytes, transfer.sha256_verified),
            (4_000_000, Some(true)),
            "{controller}: {transfer:?}"
        );
        // Packets that are overtaken by three are declared lost, though none is.
        assert!(
            flow.lost_packets > straight.lost_packets,
            "{controller}: nothing overtook"
        );
        let seconds = |flow: &FlowObservation| {
            let last = flow.delivered.iter().rposition(|bytes| *bytes > 0);
            last.map_or(0.0, |last| (last + 1) as f64 * INTERVAL_S)
        };
        println!(
            "{controller}: {:.1} s instead of {:.1} s, {} lost instead of {}",
            seconds(&flow),
            seconds(&straight),
            flow.lost_packets,
            straight.lost_packets
        );
    }
}

/// A route that flips every second between a round trip of 40 ms and one of 100 ms, which the
/// forward direction adds.
fn flips() -> String {
    let changes: Vec<String> = (1..60)
        .map(|second| {
            let delay_ms = if second % 2 == 1 { 80 } else { 20 };
            format!("{{ at_s = {second}, delay_ms = {delay_ms} }}")
        })
        .collect();
    format!(
        "changes = [{}]\nreverse = {{ changes = [] }}",
        changes.join(", ")
    )
}

#[test]
fn a_route_that_flips_every_second_leaves_every_controller_a_share_of_the_link() {
    for controller in controllers() {
        let flow = run(35.0, controller, &flips(), "");
        assert_eq!(flow.error, None, "{controller}");
        let from = (5.0 / INTERVAL_S) as usize;
        let bytes: u64 = flow.delivered[from..].iter().sum();
        let share = bytes as f64 * 8.0 / 30.0 / 4e6;
        println!(
            "{controller}: {share:.3} of the link, {} lost",
            flow.lost_packets
        );
        assert!(share > 0.1, "{controller}: {share} of the link");
        // It goes on to the end.
        let last: u64 = flow.delivered[flow.delivered.len() - 200..].iter().sum();
        assert!(last > 0, "{controller} stands still");
    }
}

#[test]
fn an_acknowledgement_that_repeats_a_lost_one_is_no_round_trip() {
    // 40 ms, 31 packets of 1268 bytes in the link, and 25 ms that an ACK may wait.
    let longest_possible = Duration::from_millis(40 + 79 + 25);
    for controller in ["vegas", "ada-vegas", "reno"] {
        // Four of ten packets are lost, both ways: of data, of probes for ACKs, and of ACKs. The
        // receiver repeats its last ACK when it sends a PING, every 5 s.
        let flow = run(60.0, controller, "loss = 0.4", "");
        // The handshake has its own ACKs, whose delays nobody tells.
        let shaken_hands = Duration::from_secs(5);
        let samples = flow.rtt.iter().filter(|sample| sample.at > shaken_hands);
        let longest = samples.map(|sample| sample.rtt).max();
        let longest = longest.expect("there are samples");
        assert!(longest <= longest_possible, "{controller}: {longest:?}");
    }
}
