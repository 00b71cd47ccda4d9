//! RCP: the sender takes the rate that the links on its path assign, at once.
//!
//! N. Dukkipati, M. Kobayashi, R. Zhang-Shen and N. McKeown, "Processor Sharing Flows in the
//! Internet" (IWQoS 2005), section 3: every link has one rate for all flows, packets collect the
//! least of them, and the sender's window is that rate times its round trip time. For comparison
//! with ACP, which moves towards it gradually. [`crate::guided`] handles losses, lies and paths
//! without RCP's routers. Page: `docs/algorithms/rcp.md`; deviations: `docs/deviations.md`.

use std::time::Duration;

use crate::controller::{Feedback, Grant, PathSample};
use crate::guided::{self, Facts, Guided, Rtts, Rule};
use crate::row::ControllerRow;

/// A sender that follows RCP.
pub type Rcp = Guided<RcpRule>;

/// How RCP's senders set their window.
#[derive(Debug, Clone, Default)]
pub struct RcpRule {
    /// R: bytes of IP packets per second.
    rate: f64,
}

impl Rule for RcpRule {
    const FOLLOWS: Feedback = Feedback::Rcp;

    // Every ACK sets the window anew.
    const KEEPS_RATE: bool = false;

    fn on_path(&mut self, sample: &PathSample) -> bool {
        let Some(Grant::Rate(rate)) = sample.grant else {
            return false;
        };
        self.rate = rate as f64;
        true
    }

    /// cwnd = R RTT.
    fn next(&mut self, window: f64, facts: &Facts<'_>) -> f64 {
        let granted = self.rate * facts.payload * facts.rtts.smoothed.as_secs_f64();
        if facts.ack.bytes_after_recovery == 0 {
            // In a recovery period a window does not grow (RFC 9002, section 7.3.2).
            window.min(granted)
        } else {
            granted
        }
    }

    /// Makes packets leave at R.
    fn period(rtts: &Rtts) -> Duration {
        rtts.smoothed
    }
}

pub(crate) const ROW: ControllerRow = guided::row::<RcpRule>(
    "rcp",
    "RCP: takes the rate that the links on its path share out; vegas where none does",
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Ack;
    use crate::testing::{ack, epoch, ms, path_sample};

    #[test]
    fn the_window_is_what_the_rate_carries_in_a_round_trip_at_once() {
        let mut rule = RcpRule::default();
        assert!(rule.on_path(&PathSample {
            grant: Some(Grant::Rate(212_000)),
            congested: true,
            ..path_sample()
        }));
        for grant in [None, Some(Grant::WindowChange(1))] {
            assert!(!rule.on_path(&PathSample {
                grant,
                ..path_sample()
            }));
        }
        let ack = ack(epoch(), 150, 2000);
        let recovering = Ack {
            bytes_after_recovery: 0,
            ..ack.clone()
        };
        // 212000 bytes of IP packets per second, 150 ms: 31800, of which 30000 are payload.
        for (window, ack, after) in [
            (1000.0, &ack, 30_000.0),
            (90_000.0, &ack, 30_000.0),
            (1000.0, &recovering, 1000.0),
            (90_000.0, &recovering, 30_000.0),
        ] {
            let facts = Facts {
                ack,
                rtts: Rtts {
                    base: ms(100),
                    latest: ms(120),
                    smoothed: ms(150),
                },
                mtu: 1000,
                payload: 1000.0 / 1060.0,
            };
            let by_rule = rule.next(window, &facts);
            assert!((by_rule - after).abs() < 1e-9, "{window}: {by_rule}");
            assert_eq!(RcpRule::period(&facts.rtts), ms(150));
        }
    }
}
