//! Finds out why frames come late: what held each of them longest.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// What a sender knows of a frame's delay when it hands the frame to the connection. Times are in
/// hundredths of a second; 255 is 2.55 s or more, unless they are modulo something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// What it takes to send this frame, and what was captured before it, at the rate that the path
    /// was known to carry when they were captured: the encoder made more.
    pub encoder_cs: u8,
    /// What the frame has waited beyond that for the congestion window or the pacer.
    pub window_cs: u8,
    /// What it has waited for the viewer's flow control.
    pub flow_control_cs: u8,
    /// What packets queue in the network, both ways, according to the last round trip.
    pub queue_cs: u8,
    /// How often the connection has found losses, modulo 256.
    pub losses: u8,
    /// How long window or pacer have held the connection, modulo 2.56 s.
    pub held_clock_cs: u8,
    /// How long flow control has, modulo 2.56 s.
    pub blocked_clock_cs: u8,
}

/// Counts late frames by the greatest part of their delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Causes {
    /// The encoder made more than the path was known to carry.
    pub encoder: u64,
    /// The sender's congestion window or pacer held frames back.
    pub window: u64,
    /// The viewer's flow control held them back: it read too slowly.
    pub flow_control: u64,
    /// Packets queued in the network, or the path's delay varied.
    pub queue: u64,
    /// Packets were lost and sent again.
    pub loss: u64,
}

/// The most late frames that wait for an explanation: half a minute of them.
const MAX_UNEXPLAINED: usize = 1024;

/// Explains late frames. Times are microseconds of the viewer's clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Lateness {
    /// The least delay of any frame.
    least_us: Option<i64>,
    /// Late frames after which nothing was captured yet that has arrived.
    unexplained: VecDeque<Late>,
    explained: Causes,
}

#[derive(Clone, Copy, Debug)]
struct Late {
    arrived_us: i64,
    /// Its delay beyond the least one.
    excess_us: i64,
    delays: Delays,
}

impl Lateness {
    /// Takes a frame that arrives, late or not. What its sender says of the path explains late
    /// frames that had arrived when this one was captured.
    pub(super) fn arrived(&mut self, captured_us: i64, arrived_us: i64, delays: Delays) {
        let delay_us = arrived_us.saturating_sub(captured_us);
        self.least_us = Some(self.least_us.map_or(delay_us, |least| least.min(delay_us)));
        while let Some(late) = self.unexplained.front()
            && (late.arrived_us <= captured_us || self.unexplained.len() > MAX_UNEXPLAINED)
        {
            late.count(delays, &mut self.explained);
            self.unexplained.pop_front();
        }
    }

    /// Takes a frame that was late; it has [`arrived`](Self::arrived).
    pub(super) fn late(&mut self, captured_us: i64, arrived_us: i64, delays: Delays) {
        let delay_us = arrived_us.saturating_sub(captured_us);
        self.unexplained.push_back(Late {
            arrived_us,
            excess_us: delay_us.saturating_sub(self.least_us.unwrap_or(delay_us)),
            delays,
        });
    }

    pub(super) fn causes(&self) -> Causes {
        let mut causes = self.explained;
        for late in &self.unexplained {
            late.count(late.delays, &mut causes);
        }
        causes
    }
}

impl Late {
    /// Counts the frame in `causes`, where `later` are the delays of one that was captured after
    /// this one had arrived.
    fn count(&self, later: Delays, causes: &mut Causes) {
        let us = |cs: u8| 10_000 * i64::from(cs);
        let own = self.delays;
        let (encoder_us, queue_us) = (us(own.encoder_cs), us(own.queue_cs.max(later.queue_cs)));
        let (mut window_us, mut flow_control_us) = (us(own.window_cs), us(own.flow_control_cs));
        // What happened after the connection had taken the frame.
        let known_us = encoder_us + queue_us + window_us + flow_control_us;
        let rest_us = self.excess_us.saturating_sub(known_us).max(0);
        let mut loss_us = 0;
        if own.losses == later.losses {
            let since = |then: u8, now: u8| us(now.wrapping_sub(then));
            let blocked_us = since(own.blocked_clock_cs, later.blocked_clock_cs).min(rest_us);
            let held_us = since(own.held_clock_cs, later.held_clock_cs);
            flow_control_us += blocked_us;
            window_us += held_us.min(rest_us - blocked_us);
        } else {
            // The time until a loss was found and mended.
            loss_us = rest_us;
        }
        // Of equal parts the last counts.
        let parts = [
            (encoder_us, &mut causes.encoder),
            (window_us, &mut causes.window),
            (flow_control_us, &mut causes.flow_control),
            (loss_us, &mut causes.loss),
            (queue_us, &mut causes.queue),
        ];
        let greatest = parts.into_iter().max_by_key(|(part_us, _)| *part_us);
        *greatest.expect("there are five").1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Delays = Delays {
        encoder_cs: 0,
        window_cs: 0,
        flow_control_cs: 0,
        queue_cs: 1,
        losses: 255,
        held_clock_cs: 250,
        blocked_clock_cs: 0,
    };

    /// The cause of a frame that came 500 ms later than the fastest, and of whose sender the next
    /// frames' say `later`.
    fn cause(delays: Delays, later: Delays) -> Causes {
        let mut lateness = Lateness::default();
        lateness.arrived(0, 50_000, HELD);
        lateness.arrived(100_000, 650_000, delays);
        lateness.late(100_000, 650_000, delays);
        assert_eq!(count(lateness.causes()), 1);
        // It was captured before the late one had arrived, and tells nothing of its fate.
        lateness.arrived(640_000, 700_000, Delays::default());
        lateness.arrived(660_000, 710_000, later);
        lateness.causes()
    }

    fn count(causes: Causes) -> u64 {
        causes.encoder + causes.window + causes.flow_control + causes.queue + causes.loss
    }

    #[test]
    fn the_greatest_part_of_a_delay_is_its_cause() {
        let held = Delays {
            encoder_cs: 15,
            window_cs: 20,
            ..HELD
        };
        assert_eq!(cause(held, HELD).window, 1);
        let held = Delays {
            encoder_cs: 25,
            ..held
        };
        assert_eq!(cause(held, HELD).encoder, 1);
        let held = Delays {
            flow_control_cs: 30,
            ..held
        };
        assert_eq!(cause(held, HELD).flow_control, 1);
        assert_eq!(cause(HELD, HELD).queue, 1);
    }

    #[test]
    fn what_nothing_else_explains_is_a_loss_if_one_was_found() {
        let found = Delays { losses: 0, ..HELD };
        assert_eq!(cause(HELD, found).loss, 1);
        // The queue has grown meanwhile: that explains it.
        let queued = Delays {
            queue_cs: 40,
            ..found
        };
        assert_eq!(cause(HELD, queued).queue, 1);
    }

    #[test]
    fn what_held_the_connection_after_it_took_a_frame_counts_unless_a_loss_was_found() {
        // For 300 ms, and for a second, which is longer than the frame took.
        let held = Delays {
            held_clock_cs: 24,
            ..HELD
        };
        assert_eq!(cause(HELD, held).window, 1);
        let blocked = Delays {
            blocked_clock_cs: 100,
            ..held
        };
        assert_eq!(cause(HELD, blocked).flow_control, 1);
        let lost = Delays {
            losses: 1,
            ..blocked
        };
        assert_eq!(cause(HELD, lost).loss, 1);
    }

    #[test]
    fn a_peers_absurd_claims_are_counted_all_the_same() {
        let mut lateness = Lateness::default();
        let most = Delays {
            encoder_cs: 255,
            window_cs: 255,
            flow_control_cs: 255,
            queue_cs: 255,
            losses: 255,
            held_clock_cs: 255,
            blocked_clock_cs: 255,
        };
        for nth in 0..3_000 {
            lateness.arrived(i64::MIN, i64::MAX, most);
            lateness.late(i64::MIN, i64::MAX - nth, most);
        }
        assert!(lateness.unexplained.len() <= MAX_UNEXPLAINED + 1);
        assert_eq!(count(lateness.causes()), 3_000);
    }
}
