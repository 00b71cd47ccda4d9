use super::super::{Arrived, RttSample};
use super::*;

const TIMING: Timing = Timing {
    interval: Duration::from_millis(250),
    warmup: Duration::from_secs(1),
    duration: Duration::from_secs(3),
};

fn flow(start_ms: u64, stop_ms: u64, delivered: &[u64]) -> FlowObservation {
    FlowObservation {
        start: Duration::from_millis(start_ms),
        stop: Duration::from_millis(stop_ms),
        delivered: delivered.to_vec(),
        ..FlowObservation::default()
    }
}

#[test]
fn throughput_leaves_the_warm_up_out() {
    let delivered = [900, 900, 900, 900, 100, 200, 300, 400, 100, 200, 300, 400];
    // 2000 bytes in 2 s.
    let flow = flow(0, 3000, &delivered);
    assert_eq!(throughput_bps(&flow, &TIMING), Some(8000.0));
}

#[test]
fn a_flow_is_averaged_over_its_own_time() {
    let delivered = [0, 0, 0, 0, 0, 0, 0, 500, 500, 0, 0, 0];
    // 1000 bytes between 1.75 s and 2.25 s.
    let flow = flow(1750, 2250, &delivered);
    assert_eq!(throughput_bps(&flow, &TIMING), Some(16_000.0));
    assert_eq!(goodput_bps(&flow, &TIMING), Some(0.0));
}

#[test]
fn a_start_within_an_interval_counts_what_came_in_it() {
    let delivered = [0, 0, 0, 0, 0, 300, 700, 0, 0, 0, 0, 0];
    // 1000 bytes between 1.4 s and 1.9 s.
    let flow = flow(1400, 1900, &delivered);
    assert_eq!(throughput_bps(&flow, &TIMING), Some(16_000.0));
}

#[test]
fn what_comes_after_a_flow_has_stopped_does_not_count() {
    // 100 bytes in each interval until 1.6 s, and 900 on their way that come after it.
    let delivered = [100, 100, 100, 100, 100, 100, 940, 0, 0, 0, 0, 0];
    let mut flow = flow(0, 1600, &delivered);
    flow.until_stop = Some(Arrived {
        ip_bytes: 40,
        app_bytes: 0,
    });
    // 240 bytes in 0.6 s.
    assert_eq!(throughput_bps(&flow, &TIMING), Some(3200.0));
    // One that stopped between two intervals counts those before.
    flow.stop = Duration::from_millis(1500);
    assert_eq!(throughput_bps(&flow, &TIMING), Some(3200.0));
}

#[test]
fn a_flow_that_ended_in_the_warm_up_has_no_throughput() {
    let flow = flow(0, 1000, &[900; 12]);
    assert_eq!(active_time(&flow, &TIMING), None);
    assert_eq!(throughput_bps(&flow, &TIMING), None);
    assert_eq!(cov(&flow, &TIMING), None);
}

#[test]
fn cov_is_the_deviation_of_half_second_samples_over_their_mean() {
    // Samples after the warm-up: 300, 300, 100, 100 bytes: mean 200, deviation 100.
    let delivered = [0, 0, 0, 0, 100, 200, 150, 150, 50, 50, 100, 0];
    assert_eq!(cov(&flow(0, 3000, &delivered), &TIMING), Some(0.5));
    // Even rates vary nowhere.
    assert_eq!(cov(&flow(0, 3000, &[7; 12]), &TIMING), Some(0.0));
}

#[test]
fn cov_needs_two_whole_samples_and_some_data() {
    // Active from 1.25 s to 2.25 s: only the sample from 1.5 s to 2 s is whole.
    assert_eq!(cov(&flow(1250, 2250, &[7; 12]), &TIMING), None);
    assert_eq!(cov(&flow(0, 3000, &[0; 12]), &TIMING), None);
}

#[test]
fn a_series_that_is_shorter_than_the_run_counts_as_silence() {
    let flow = flow(0, 3000, &[0, 0, 0, 0, 1000]);
    assert_eq!(throughput_bps(&flow, &TIMING), Some(4000.0));
}

#[test]
fn the_retransmitted_ratio_is_lost_over_sent() {
    let mut flow = flow(0, 3000, &[]);
    assert_eq!(retransmitted_ratio(&flow), None);
    (flow.sent_packets, flow.lost_packets) = (200, 3);
    assert_eq!(retransmitted_ratio(&flow), Some(0.015));
}

#[test]
fn percentiles_are_by_nearest_rank_after_the_warm_up() {
    let mut flow = flow(0, 3000, &[]);
    assert_eq!(rtt_percentiles(&flow, &TIMING), None);
    let sample = |at_ms, rtt_ms| RttSample {
        at: Duration::from_millis(at_ms),
        rtt: Duration::from_millis(rtt_ms),
    };
    flow.rtt.push(sample(999, 1));
    flow.rtt
        .extend((1..=20).rev().map(|n| sample(1000 + n, 10 * n)));
    let ms = Duration::from_millis;
    let percentiles = rtt_percentiles(&flow, &TIMING).unwrap();
    // Of 20 samples: the 1st, 10th, 19th, and 19.8th, that is the 20th.
    let expected = RttPercentiles {
        min: ms(10),
        p50: ms(100),
        p95: ms(190),
        p99: ms(200),
    };
    assert_eq!(percentiles, expected);
}
