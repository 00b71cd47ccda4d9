//! ACP: the sender takes the rate that the links on its path compute, over about a round trip.
//!
//! M. Lestas, A. Pitsillides, P. Ioannou and G. Hadjipollas, "Adaptive Congestion Protocol",
//! section II-B. The least rate that a link desires, times the round trip of the empty path, is
//! the desired window; each acknowledgement moves the window towards it by its share of the
//! window, and upwards by a tenth of that while a link is congested. The window is real-valued
//! and falls below one packet: then packets leave less often than once in a round trip.
//! Without ACP's routers, with losses and with lies: [`crate::guided`].
//! What the paper leaves open: `docs/algorithms/acp.md`; deviations: `docs/deviations.md`.

use crate::controller::{Feedback, Grant, PathSample};
use crate::guided::{self, Facts, Guided, Rule};
use crate::row::ControllerRow;

/// Gain upwards while a link on the path is congested (Eq. 2).
const CONGESTED_GAIN: f64 = 0.1;

/// An ACK takes no more than this part of the window. Above a few packets none does; below one,
/// where each ACK is for more than the window, a rate that was too low for an instant is left
/// after twice the time between two packets, not after a hundred times.
const MOST_DECREASE: f64 = 0.5;

/// Windows of fewer packets heed less of the newest queueing time. A rate that falls as a queue
/// grows calms it if it answers within 1.57 (pi / 2) empty round trips, and swings with it if it
/// takes longer: a packet's round trip, a delayed ACK and half of the time between two packets are
/// that long at two packets or fewer.
const HEEDING_WINDOW: f64 = 4.0;

/// A sender by ACP.
pub type Acp = Guided<AcpRule>;

/// The rule of ACP's senders.
#[derive(Debug, Clone, Default)]
pub struct AcpRule {
    /// H_feedback: bytes of IP packets per second.
    rate: f64,
    /// H_congestion.
    congested: bool,
}

/// Eq. (1) in bytes: desired = H_feedback mrtt. Then Eq. (2) and (3) per byte acknowledged instead
/// of per packet: w <- w + gain (desired - w) acked / w. The share acked / w counts up to 1: an
/// ACK for more than the window leads to the desired window, not beyond.
fn next_window(window: f64, desired: f64, congested: bool, acked: f64) -> f64 {
    let excess = desired - window;
    let gain = if excess > 0.0 && congested {
        CONGESTED_GAIN
    } else {
        1.0
    };
    let share = (acked / window).min(1.0);
    (window + gain * excess * share).max(window * MOST_DECREASE)
}

impl Rule for AcpRule {
    const FOLLOWS: Feedback = Feedback::Acp;

    fn on_path(&mut self, sample: &PathSample) -> bool {
        let Some(Grant::Rate(rate)) = sample.grant else {
            return false;
        };
        self.rate = rate as f64;
        self.congested = sample.congested;
        true
    }

    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64 {
        let desired = self.rate * facts.payload * facts.rtts.base.as_secs_f64();
        // In a recovery period a window may fall, but not grow (RFC 9002, section 7.3.2).
        let acked = if desired > window {
            facts.ack.bytes_after_recovery
        } else {
            facts.ack.bytes
        };
        next_window(window, desired, self.congested, acked as f64)
    }

    fn queueing_share(packets: f64) -> f64 {
        (packets / HEEDING_WINDOW).min(1.0)
    }
}

pub(crate) const ROW: ControllerRow = guided::row::<AcpRule>(
    "acp",
    "ACP: takes the rate that the links on its path compute; vegas where none does",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Ack;
    use crate::guided::Rtts;
    use crate::testing::{ack, epoch, ms, path_sample};

    #[test]
    fn each_ack_moves_the_window_by_its_share_of_it() {
        // (window, desired, congested, acknowledged, window after), in bytes
        let table = [
            (10_000.0, 20_000.0, false, 1000.0, 11_000.0), // Eq. (3): + 10000 / 10
            (10_000.0, 20_000.0, true, 1000.0, 10_100.0),  // Eq. (2): a tenth of that
            (20_000.0, 10_000.0, false, 1000.0, 19_500.0),
            (20_000.0, 10_000.0, true, 1000.0, 19_500.0), // downwards at once
            (10_000.0, 10_000.0, true, 1000.0, 10_000.0),
            (10_000.0, 20_000.0, false, 10_000.0, 20_000.0), // a whole window
            (10_000.0, 20_000.0, true, 10_000.0, 11_000.0),
            (1000.0, 90_000.0, false, 1000.0, 90_000.0), // the first packet
            (300.0, 600.0, false, 1000.0, 600.0),        // more than the window: not beyond
            (600.0, 400.0, false, 1000.0, 400.0),
            (600.0, 200.0, false, 1000.0, 300.0), // at most half is taken
            (600.0, 0.0, false, 1000.0, 300.0),
            (4000.0, 0.0, false, 2000.0, 2000.0),
            (10_000.0, 0.0, false, 0.0, 10_000.0),
        ];
        for (window, desired, congested, acked, after) in table {
            let by_rule = next_window(window, desired, congested, acked);
            assert!(
                (by_rule - after).abs() < 1e-9,
                "{window}, {desired}, {congested}, {acked}: {by_rule}"
            );
        }
    }

    /// An ACK of 2000 bytes on a path of 100 ms, where 1060 bytes of IP packet carry 1000.
    fn next(rule: &mut AcpRule, window: f64, ack: &Ack) -> f64 {
        rule.next(
            window,
            &Facts {
                ack,
                rtts: Rtts {
                    base: ms(100),
                    latest: ms(120),
                    smoothed: ms(150),
                },
                mtu: 1000,
                payload: 1000.0 / 1060.0,
            },
        )
    }

    #[test]
    fn the_desired_window_is_the_payload_that_the_rate_carries_in_an_empty_round_trip() {
        // 212000 bytes of IP packets per second: 21200 in 100 ms, of which 20000 are payload.
        let mut rule = AcpRule::default();
        let granted = PathSample {
            grant: Some(Grant::Rate(212_000)),
            ..path_sample()
        };
        assert!(rule.on_path(&granted));
        let ack = ack(epoch(), 150, 2000);
        assert!((next(&mut rule, 10_000.0, &ack) - 12_000.0).abs() < 1e-9);
        assert!((next(&mut rule, 40_000.0, &ack) - 39_000.0).abs() < 1e-9);
        assert!(rule.on_path(&PathSample {
            congested: true,
            ..granted
        }));
        assert!((next(&mut rule, 10_000.0, &ack) - 10_200.0).abs() < 1e-9);
        assert!((next(&mut rule, 40_000.0, &ack) - 39_000.0).abs() < 1e-9);
    }

    #[test]
    fn in_recovery_a_window_falls_and_does_not_grow() {
        let mut rule = AcpRule {
            rate: 212_000.0,
            congested: false,
        };
        let ack = Ack {
            bytes_after_recovery: 500,
            ..ack(epoch(), 150, 2000)
        };
        assert!((next(&mut rule, 10_000.0, &ack) - 10_500.0).abs() < 1e-9);
        assert!((next(&mut rule, 40_000.0, &ack) - 39_000.0).abs() < 1e-9);
    }

    #[test]
    fn a_window_of_few_packets_heeds_little_of_a_queue_that_comes_and_goes() {
        for (packets, heeded) in [(0.0, 0.0), (1.0, 0.25), (4.0, 1.0), (1000.0, 1.0)] {
            assert_eq!(
                AcpRule::queueing_share(packets),
                heeded,
                "{packets} packets"
            );
        }
    }

    #[test]
    fn what_is_no_rate_is_not_heard() {
        let mut rule = AcpRule::default();
        for grant in [None, Some(Grant::WindowChange(1000))] {
            assert!(!rule.on_path(&PathSample {
                grant,
                ..path_sample()
            }));
        }
        assert_eq!(rule.rate, 0.0);
    }
}
