//! Links that go away and come back, and routes that change, in virtual time, with every controller.

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel_testbed::backend::sim;
use evenkeel_testbed::metrics::{FlowObservation, LinkObservation, Observations};
use evenkeel_testbed::scenario::{FlowBuilder, LinkBuilder, Scenario, Value};
use evenkeel_tests::capture;

/// Width of a sampling interval, in seconds.
const INTERVAL_S: f64 = 0.01;

/// Controllers of the table whose runs repeat: quinn's BBR draws from the operating system.
fn controllers() -> impl Iterator<Item = &'static str> {
    let names = evenkeel::controllers().iter().map(|row| row.name);
    names.filter(|name| *name != "bbr")
}

/// A link of 4 Mb/s with a round trip of 40 ms.
fn link() -> LinkBuilder {
    LinkBuilder::between("link", "client", "server")
        .rate_bps(4_000_000)
        .delay(Duration::from_millis(20))
        .queue_packets(30)
}

/// A transfer over it.
fn flow(controller: &str) -> FlowBuilder {
    FlowBuilder::bulk("f", controller)
        .between("client", "server")
        .set("verify", true)
}

fn run(duration_s: f64, link: LinkBuilder, flow: FlowBuilder) -> FlowObservation {
    observed(duration_s, link, flow).flows.remove(0)
}

fn observed(duration_s: f64, link: LinkBuilder, flow: FlowBuilder) -> Observations {
    captured(duration_s, link, flow, &sim::Options::default())
}

fn captured(
    duration_s: f64,
    link: LinkBuilder,
    flow: FlowBuilder,
    options: &sim::Options,
) -> Observations {
    let sampling = [("interval_ms".to_owned(), Value::from(10))];
    let scenario = Scenario::builder("faults", Duration::from_secs_f64(duration_s))
        .set("sampling", Value::Table(sampling.into_iter().collect()))
        .link(link)
        .flow(flow)
        .build()
        .unwrap_or_else(|error| panic!("{error}"));
    let observations = sim::run(&scenario, options, |_| ());
    observations.unwrap_or_else(|error| panic!("{error}"))
}

/// When after `end_s` the first packet is through, in seconds; rounded up to an interval.
fn first_after(flow: &FlowObservation, end_s: f64) -> Option<f64> {
    let end = (end_s / INTERVAL_S).round() as usize;
    let silent = flow.delivered[end..].iter().position(|bytes| *bytes > 0)?;
    Some((silent + 1) as f64 * INTERVAL_S)
}

/// A blackout of `length_s` after 5 s, with an idle timeout of 120 s.
fn blackout(flow: FlowBuilder, length_s: f64) -> (FlowObservation, f64) {
    let link = link().blackout(Duration::from_secs(5), Duration::from_secs_f64(length_s));
    let end_s = 5.0 + length_s;
    (
        run(end_s + 6.0, link, flow.set("idle_timeout_s", 120)),
        end_s,
    )
}

#[test]
fn the_first_packet_after_a_blackout_is_through_within_a_second_if_a_sender_probes() {
    for length_s in [0.1, 1.0, 10.0, 30.0] {
        let mut longest = (0.0, "");
        for controller in controllers() {
            let (flow, end_s) = blackout(flow(controller).set("probe_interval_s", 0.8), length_s);
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
    let (flow, end_s) = blackout(flow("vegas"), 30.0);
    assert_eq!(flow.error, None);
    assert_eq!(first_after(&flow, end_s), None, "within six seconds");
}

#[test]
fn nothing_is_corrupt_and_no_transfer_ends_where_a_blackout_or_a_route_ends() {
    let blackout = link().blackout(Duration::from_secs(1), Duration::from_secs(30));
    for link in [blackout, flips()] {
        for controller in controllers() {
            let lasting = flow(controller)
                .bytes(2_000_000)
                .set("idle_timeout_s", 120)
                .set("probe_interval_s", 0.8);
            let flow = run(60.0, link.clone(), lasting);
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
    let reordering = link().set("reorder", 0.1).set_reverse("reorder", 0);
    for controller in controllers() {
        let flow = flow(controller).bytes(4_000_000);
        let flow = flow.set("packet_threshold", 3).set("time_threshold", 1.125);
        let straight = run(60.0, link(), flow.clone());
        let flow = run(60.0, reordering.clone(), flow);
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
fn flips() -> LinkBuilder {
    let nothing = Value::Array(Vec::new());
    (1..35).fold(link().set_reverse("changes", nothing), |link, second| {
        let delay_ms = if second % 2 == 1 { 80 } else { 20 };
        link.change(Duration::from_secs(second), "delay_ms", delay_ms)
    })
}

#[test]
fn a_route_that_flips_every_second_leaves_every_controller_a_share_of_the_link() {
    for controller in controllers() {
        let flow = run(35.0, flips(), flow(controller));
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

/// What ends a transfer, if anything does, in the first seconds on a path of `mbps` and `rtt_ms`
/// with a queue of `queue` packets.
fn died(controller: &str, seconds: f64, mbps: u64, rtt_ms: u64, queue: u32) -> Option<String> {
    let link = LinkBuilder::between("link", "client", "server")
        .rate_bps(mbps * 1_000_000)
        .delay(Duration::from_millis(rtt_ms / 2))
        .queue_packets(queue);
    let flow = FlowBuilder::bulk("f", controller).between("client", "server");
    run(seconds, link, flow).error
}

/// At 200 Mb/s and 20 ms, with a queue of four bandwidth-delay products.
fn deep_buffer(controller: &str) -> Option<String> {
    died(controller, 1.5, 200, 20, 1700)
}

#[test]
fn no_controller_of_ours_overflows_a_deep_buffer_so_that_the_receiver_has_too_many_gaps() {
    let fallback = ["acp:fallback=reno", "gaimd:alpha=2"];
    for controller in controllers().chain(fallback) {
        if controller != "cubic" {
            assert_eq!(deep_buffer(controller), None, "{controller}");
        }
    }
}

#[test]
fn a_gigabit_does_not_end_a_connection_whose_window_has_grown_by_thousands_of_packets() {
    // The queue holds a quarter of what the path does, or as much.
    for (controller, queue) in [
        ("keel", 1000),
        ("keel", 4000),
        ("reno", 1000),
        ("abgd", 1000),
        ("tfrc", 4000),
    ] {
        assert_eq!(died(controller, 1.1, 1000, 40, queue), None, "{controller}");
    }
}

/// quinn-proto's limit, and quinn's CUBIC: docs/upstream/quinn-stream-gaps.md. When this fails,
/// that is mended.
#[test]
fn a_slow_start_that_only_a_loss_ends_leaves_the_receiver_of_a_deep_buffer_with_too_many_gaps() {
    for controller in ["cubic", "reno:hystart=false"] {
        let error = deep_buffer(controller).unwrap_or_else(|| panic!("{controller} goes on"));
        assert!(error.contains("too many gaps"), "{controller}: {error}");
    }
}

#[test]
fn an_acknowledgement_that_repeats_a_lost_one_is_no_round_trip() {
    // 40 ms, 31 packets of 1268 bytes in the link, and 25 ms that an ACK may wait.
    let longest_possible = Duration::from_millis(40 + 79 + 25);
    for controller in ["vegas", "ada-vegas", "reno"] {
        // Four of ten packets are lost, both ways: of data, of probes for ACKs, and of ACKs. The
        // receiver repeats its last ACK when it sends a PING, every 5 s.
        let flow = run(60.0, link().loss(0.4), flow(controller));
        // The handshake has its own ACKs, whose delays nobody tells.
        let shaken_hands = Duration::from_secs(5);
        let samples = flow.rtt.iter().filter(|sample| sample.at > shaken_hands);
        let longest = samples.map(|sample| sample.rtt).max();
        let longest = longest.expect("there are samples");
        assert!(longest <= longest_possible, "{controller}: {longest:?}");
    }
}

/// Two directions of a link after a verified transfer of 1 MB over it: what each did.
fn transfer(controller: &str, link: LinkBuilder, flow: FlowBuilder) -> [LinkObservation; 2] {
    let observations = observed(20.0, link, flow.set("bytes", 1_000_000));
    let flow = &observations.flows[0];
    let completed = flow.transfers[0].end.is_some() && flow.error.is_none();
    assert!(completed, "{controller}: {:?}", flow.error);
    assert_eq!(
        flow.transfers[0].sha256_verified,
        Some(true),
        "{controller}"
    );
    observations.links.try_into().unwrap()
}

#[test]
fn bits_that_flip_cost_packets_and_never_a_wrong_byte() {
    for controller in ["cubic", "keel", "acp"] {
        let link = link().set("corrupt", 0.02).stamps(&["acp"]);
        let [there, back] = transfer(controller, link, flow(controller));
        assert!(there.wire.corrupted > Some(10), "{:?}", there.wire);
        assert!(back.wire.corrupted > Some(0), "{:?}", back.wire);
        assert_eq!(there.lost, 0);
    }
}

#[test]
fn marks_on_the_wire_slow_a_flow_down_and_count_apart_from_those_of_the_queue() {
    let run = |link: LinkBuilder| {
        let observations = observed(10.0, link, flow("reno"));
        let sent = observations.flows[0].delivered.iter().sum::<u64>();
        (sent, observations.links[0].clone())
    };
    let (plain, _) = run(link());
    let (marked, there) = run(link().set("mark", 0.02));
    assert!(marked < plain / 2, "{marked} of {plain} bytes");
    assert_eq!((there.marked, there.lost), (0, 0));
    assert!(there.wire.marked_on_wire > Some(20));
    // QUIC notices that its codepoints do not come through, and does without.
    let (bleached, there) = run(link().set("ecn", "bleach"));
    assert!(bleached > plain * 9 / 10, "{bleached} of {plain} bytes");
    assert!(there.wire.ecn_changed > Some(0) && there.wire.marked_on_wire.is_none());
}

#[test]
fn a_path_that_turns_the_codepoint_of_l4s_into_that_of_ecn_costs_no_rate() {
    let run = |ecn: &str, link: LinkBuilder| {
        let observations = observed(20.0, link, flow("keel").set("ecn", ecn));
        let sent = observations.flows[0].delivered.iter().sum::<u64>();
        (sent, observations.links[0].wire)
    };
    let queue = || link().set("discipline", "dualpi2");
    let (without, _) = run("off", queue());
    let (kept, wire) = run("l4s", queue());
    assert!(kept > without * 98 / 100, "{kept} of {without} bytes");
    assert_eq!(wire.ecn_changed, None);
    let (remarked, wire) = run("l4s", queue().set("ecn", "remark"));
    assert!(
        remarked > without * 98 / 100,
        "{remarked} of {without} bytes"
    );
    // The sender notices, and sends ECT(0) itself.
    assert!((1..100).contains(&wire.ecn_changed.unwrap()), "{wire:?}");
}

#[test]
fn a_window_of_two_packets_loses_none_in_a_queue_for_l4s_that_marks_them_all() {
    let link = link().set("discipline", "dualpi2").queue_packets(1000);
    let link = link.rate_bps(3_000_000).delay(Duration::from_millis(1));
    let observations = observed(10.0, link, flow("keel").set("ecn", "l4s"));
    let queue = &observations.links[0];
    assert!(queue.marked > 100 && queue.dropped == 0, "{queue:?}");
}

#[test]
fn a_flow_outlives_a_route_whose_mtu_shrinks_below_what_it_has_found() {
    let link = link().change(Duration::from_secs(3), "mtu", 1300);
    let observations = observed(10.0, link, flow("cubic").set("mtu_discovery", true));
    let flow = &observations.flows[0];
    assert_eq!(flow.error, None);
    // 1500 bytes before, 1228 after.
    let there = &observations.links[0];
    assert!(there.wire.too_big > Some(10), "{:?}", there.wire);
    let last = flow.delivered.iter().rev().take(200).sum::<u64>();
    assert!(last > 800_000, "{last} bytes in the last 2 s");
}

/// Times of a scenario: `{ start_s, length_s }`.
fn pauses(times: &[(f64, f64)]) -> Value {
    let pause = |(start_s, length_s): &(f64, f64)| {
        let keys = [("start_s", start_s), ("length_s", length_s)];
        let keys = keys.map(|(key, value)| (key.to_owned(), Value::from(*value)));
        Value::Table(keys.into_iter().collect())
    };
    Value::Array(times.iter().map(pause).collect())
}

#[test]
fn a_sender_that_stands_still_sends_nothing_and_goes_on_at_once() {
    for controller in ["cubic", "keel", "vegas", "tfrc", "acp"] {
        let flow = flow(controller).set("pauses", pauses(&[(3.0, 0.5), (4.0, 1.0)]));
        let seen = run(6.0, link(), flow);
        assert_eq!(seen.error, None, "{controller}");
        let delivered = |from: usize, to: usize| seen.delivered[from..to].iter().sum::<u64>();
        // The queue holds 74 ms, and the way is 20 ms long.
        let silences = delivered(312, 350) + delivered(412, 500);
        assert_eq!(silences, 0, "{controller}");
        for end_s in [3.5, 5.0] {
            let after = first_after(&seen, end_s);
            assert!(
                after <= Some(0.1),
                "{controller}: {after:?} after {end_s} s"
            );
        }
        assert!(delivered(550, 600) > 100_000, "{controller}");
    }
}

#[test]
fn a_sender_that_stood_still_goes_on_at_its_rate_and_takes_no_wait_for_a_round_trip() {
    for (controller, delay) in [
        ("keel", Duration::from_micros(50)),
        ("keel", Duration::from_millis(20)),
        ("vegas", Duration::from_micros(50)),
        ("vegas", Duration::from_millis(20)),
        ("reno", Duration::from_micros(50)),
        ("reno", Duration::from_millis(20)),
    ] {
        let flow = flow(controller).set("pauses", pauses(&[(4.0, 2.0), (9.0, 12.0)]));
        let flow = flow.set("verify", false).set("idle_timeout_s", 60);
        let seen = run(23.0, link().delay(delay), flow);
        let case = format!("{controller} on a way of {delay:?}");
        assert_eq!(seen.error, None, "{case}");
        let second = |from: usize| seen.delivered[from..from + 100].iter().sum::<u64>();
        for (begin, end) in [(400, 600), (900, 2100)] {
            let (before, after) = (second(begin - 100), second(end));
            assert!(
                after * 10 >= before * 8,
                "{case}: {before} bytes in the second before {begin}, {after} in that after {end}"
            );
        }
        // The path, a full queue of 90 ms, and a delayed ACK.
        let longest = seen.rtt.iter().map(|sample| sample.rtt).max();
        assert!(
            longest < Some(Duration::from_millis(170)),
            "{case}: {longest:?}"
        );
    }
}

#[test]
fn a_streams_server_that_stands_still_delays_its_frames() {
    let stream = |times: &[(f64, f64)]| {
        let none = Value::Table([].into_iter().collect());
        let flow = flow("keel").set("verify", false).set("app", "stream");
        let flow = flow.set("stream", none).set("pauses", pauses(times));
        let seen = run(6.0, link(), flow);
        assert_eq!(seen.error, None);
        seen
    };
    let (plain, paused) = (stream(&[]), stream(&[(3.0, 1.0)]));
    let delivered = |seen: &FlowObservation| seen.delivered[312..400].iter().sum::<u64>();
    assert!(delivered(&plain) > 100_000);
    assert_eq!(delivered(&paused), 0);
    assert!(paused.delivered[450..].iter().sum::<u64>() > 100_000);
}

/// The UDP ports from which packets leave a link, in the order in which they first do.
fn source_ports(link_name: &str, flow: FlowBuilder) -> (Observations, Vec<u16>) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link.pcap");
    let options = sim::Options {
        captures: vec![(link_name.to_owned(), path.clone())],
        ..sim::Options::default()
    };
    let observations = captured(5.0, link(), flow, &options);
    let capture = std::fs::read(path).unwrap();
    let mut known = BTreeSet::new();
    let ports = capture::packets(&capture).into_iter();
    let ports = ports.map(|(_, packet)| u16::from_be_bytes([packet[20], packet[21]]));
    let ports = ports.filter(|port| known.insert(*port)).collect();
    (observations, ports)
}

#[test]
fn a_client_moves_to_new_ports_and_its_connection_goes_on() {
    let moves = || Value::Array([1.5, 3.0].map(Value::from).to_vec());
    for controller in ["cubic", "keel", "ro-vegas"] {
        let moving = flow(controller).set("rebinds_s", moves());
        let (observations, ports) = source_ports("link", moving);
        let seen = &observations.flows[0];
        assert_eq!(
            (seen.error.as_ref(), ports.len()),
            (None, 3),
            "{controller}"
        );
        let last = seen.delivered[400..].iter().sum::<u64>();
        assert!(
            last > 400_000,
            "{controller}: {last} bytes in the last second"
        );
    }
    // The viewer of a stream is the client: it moves, and its server does not.
    let none = Value::Table([].into_iter().collect());
    let stream = flow("keel").set("verify", false).set("app", "stream");
    let stream = stream.set("stream", none).set("rebinds_s", moves());
    let (observations, viewer) = source_ports("link.reverse", stream.clone());
    let seen = &observations.flows[0];
    assert_eq!((seen.error.as_ref(), viewer.len()), (None, 3));
    for second in 1..5 {
        let delivered = seen.delivered[100 * second..100 * (second + 1)].iter();
        assert!(delivered.sum::<u64>() > 50_000, "second {second}");
    }
    let (_, server) = source_ports("link", stream);
    assert_eq!(server.len(), 1);
}

#[test]
fn thresholds_of_rfc_9002_take_reordered_packets_for_lost_and_the_default_ones_at_most_one() {
    let lost = |flow: FlowBuilder| {
        let link = link().set("reorder", 0.05);
        let observations = observed(5.0, link, flow);
        let dropped = observations.links[0].dropped;
        (observations.flows[0].lost_packets, dropped)
    };
    let with = |packets: u32, round_trips: f64| {
        let flow = flow("vegas").set("packet_threshold", packets);
        lost(flow.set("time_threshold", round_trips))
    };
    let (lost_early, dropped) = with(3, 1.125);
    assert!(lost_early > dropped + 10, "{lost_early}, {dropped} dropped");
    let (lost_late, dropped) = lost(flow("vegas"));
    assert!(lost_late <= dropped + 1, "{lost_late}, {dropped} dropped");
    let (lost_late, dropped) = with(1000, 4.0);
    assert!(lost_late <= dropped, "{lost_late}, {dropped} dropped");
}
