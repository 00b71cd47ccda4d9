//! The TCP throughput equation (RFC 5348, section 3.1) and its inverse.

use std::time::Duration;

/// Returns the bytes per second that Reno gets with this round trip and loss event rate `p` (above
/// 0, at most 1), in packets of `packet` bytes, each of them acknowledged.
///
/// X_Bps = s / (R sqrt(2 b p / 3) + t_RTO 3 sqrt(3 b p / 8) p (1 + 32 p^2)), b = 1, t_RTO = 4 R
pub(super) fn throughput(packet: f64, rtt: Duration, p: f64) -> f64 {
    packet * packets_per_round_trip(p) / rtt.as_secs_f64()
}

/// Returns the loss event rate at which the equation gives `rate` bytes per second.
pub(super) fn loss_event_rate(packet: f64, rtt: Duration, rate: f64) -> f64 {
    let wanted = rate * rtt.as_secs_f64() / packet;
    // Bisects the exponent: the equation falls as p grows.
    let (mut low, mut high) = (LEAST_LOSS_EVENT_RATE.log2(), 0.0_f64);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        if packets_per_round_trip(middle.exp2()) > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high.exp2()
}

/// Means more than 10^9 packets per round trip: no such path exists.
const LEAST_LOSS_EVENT_RATE: f64 = 1e-18;

/// Leaves an interval of 60 / 2^40 of the exponent. RFC 5348, section 6.3.1, accepts 5 % of the
/// rate.
const BISECTIONS: u32 = 40;

/// X_Bps R / s, which does not depend on R because t_RTO = 4 R.
fn packets_per_round_trip(p: f64) -> f64 {
    let fast_retransmits = (2.0 * p / 3.0).sqrt();
    let timeouts = 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    1.0 / (fast_retransmits + timeouts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::ms;

    #[test]
    fn the_equation_gives_what_is_worked_out_by_hand() {
        // (bytes, round trip in ms, p, bytes per second)
        let table = [
            // sqrt(1/150) = 0.0816497; 12 sqrt(0.00375) 0.01 1.0032 = 0.0073720; 1 / 0.0890217.
            (1000.0, 100, 0.01, 112_332.0),
            // The round trip and the packet scale it.
            (1200.0, 100, 0.01, 134_799.0),
            (1000.0, 50, 0.01, 224_665.0),
            // sqrt(1/1500) = 0.0258199; 12 sqrt(0.000375) 0.001 1.000032 = 0.00023239.
            (1000.0, 100, 0.001, 383_842.0),
            // sqrt(1/15) = 0.2581989; 12 sqrt(0.0375) 0.1 1.32 = 0.3067442.
            (1000.0, 100, 0.1, 17_701.0),
            // sqrt(2/3) = 0.8164966; 12 sqrt(0.375) 33 = 242.4993.
            (1000.0, 100, 1.0, 41.1),
        ];
        for (packet, rtt, p, rate) in table {
            let by_equation = throughput(packet, ms(rtt), p);
            assert!(
                (by_equation / rate - 1.0).abs() < 1e-4,
                "s {packet}, R {rtt} ms, p {p}: {by_equation}"
            );
        }
    }

    #[test]
    fn rates_out_of_the_equations_range_get_its_ends() {
        assert_eq!(loss_event_rate(1000.0, ms(100), 0.0), 1.0);
        assert_eq!(loss_event_rate(1000.0, ms(100), 10.0), 1.0);
        let least = loss_event_rate(1000.0, ms(100), f64::INFINITY);
        assert!((least / LEAST_LOSS_EVENT_RATE - 1.0).abs() < 1e-6);
    }

    proptest! {
        #[test]
        fn the_inverse_undoes_the_equation(
            exponent in -30.0..0.0_f64, packet in 100.0..9000.0_f64, rtt in 1_u64..2_000,
        ) {
            let p = exponent.exp2();
            let back = loss_event_rate(packet, ms(rtt), throughput(packet, ms(rtt), p));
            prop_assert!((back / p - 1.0).abs() < 1e-6, "{p} became {back}");
        }

        #[test]
        fn more_losses_give_less(p in 1e-9..0.99_f64, more in 1.0001..10.0_f64) {
            prop_assert!(packets_per_round_trip(p) > packets_per_round_trip(p * more));
        }
    }
}
