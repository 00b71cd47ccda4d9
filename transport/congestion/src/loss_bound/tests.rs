//! Tests of `loss_bound.rs`.

use super::*;
use crate::testing::{ack, epoch, loss};

const MTU: u16 = 1000;

/// An ACK of `bytes` bytes, with `in_flight` bytes in flight before it.
fn used(bytes: u64, in_flight: u64) -> Ack {
    Ack {
        in_flight,
        ..ack(epoch(), 40, bytes)
    }
}

#[test]
fn before_a_loss_it_grows_by_what_is_acknowledged_while_half_is_in_use() {
    // (bytes acknowledged, bytes in flight, bound after)
    let table = [
        (2000, 10_000, 12_000),
        (2000, 6000, 14_000), // exactly half
        (2000, 6999, 14_000), // a byte less than half
        (2000, 7000, 16_000),
        (16_000, 16_000, 32_000), // a whole window: it doubles
    ];
    let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
    for (bytes, in_flight, after) in table {
        bound.on_ack(&used(bytes, in_flight));
        assert_eq!(bound.window(), after, "{bytes} of {in_flight}");
    }
    assert_eq!(bound.threshold(), None);
}

#[test]
fn the_application_may_be_what_limits() {
    let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
    let limited = Ack {
        app_limited: true,
        ..used(2000, 9000)
    };
    bound.on_ack(&limited);
    assert_eq!(bound.window(), 12_000);
}

#[test]
fn a_loss_leaves_half_of_the_window_that_was_in_force() {
    // (window in force, bound after), with a bound of 10 packets before
    for (window, after) in [
        (10_000, 5000),
        (6000, 3000),
        (20_000, 5000),
        (3000, 2000),
        (700, 2000),
    ] {
        let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
        bound.on_congestion(&loss(), window);
        assert_eq!(
            (bound.window(), bound.threshold()),
            (after, Some(after)),
            "{window}"
        );
    }
}

#[test]
fn after_a_loss_it_recovers_by_a_packet_per_window() {
    let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
    bound.on_congestion(&loss(), 10_000);
    bound.on_ack(&used(4999, 5000));
    assert_eq!(bound.window(), 5000);
    bound.on_ack(&used(1, 5000));
    assert_eq!(bound.window(), 6000);
    bound.on_persistent_congestion();
    assert_eq!(bound.window(), 2000);
    bound.on_ack(&used(2000, 2000));
    assert_eq!(bound.window(), 4000, "slow start up to the threshold");
    bound.on_ack(&used(4000, 4000));
    assert_eq!(bound.window(), 5000);
}

#[test]
fn what_other_means_have_reached_is_allowed() {
    let mut bound = LossBound::new(InitialWindow::Rfc9002, MTU);
    bound.raise_to(9000);
    assert_eq!(bound.window(), 10_000);
    bound.raise_to(90_000);
    assert_eq!(bound.window(), 90_000);
    bound.on_mtu(1400);
    assert_eq!(bound.window(), 90_000);
}
