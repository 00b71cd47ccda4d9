//! What routers on the path say of queueing times, and how long keel believes it.

use std::time::{Duration, Instant};

use super::delay::{Delay, Queueing};
use super::search::Seen;
use crate::controller::{Ack, PathSample};
use crate::freshness::feedback_lifetime;

/// Packets from one path header to the next while routers stamp them, and until one does: then the
/// two in a round trip that endpoints send anyway are enough.
const STAMPED_INTERVAL: u32 = 2;
const UNSTAMPED_INTERVAL: u32 = 1 << 20;

/// Routers of which one was wrong are not believed for this long.
pub(super) const DISTRUST: Duration = Duration::from_secs(60);

/// The routers of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Routers {
    /// When they were last heard.
    heard: Option<Instant>,
    /// The last round trip that they described; `None` once it was taken in.
    sample: Option<(Duration, Queueing)>,
    /// Flows at the most above_target link, as they last counted them.
    flows: Option<u32>,
    /// Until then they are not believed.
    distrusted: Option<Instant>,
}

impl Routers {
    /// A path header came back.
    pub(super) fn on_path(&mut self, sample: &PathSample) {
        let (there, back) = (sample.forward_queueing, sample.backward_queueing);
        let is_stamped = there.is_some() || back.is_some();
        if is_stamped && self.distrusted.is_none_or(|until| until <= sample.now) {
            self.heard = Some(sample.now);
            self.flows = sample.flows;
            let queueing = Queueing {
                there: there.unwrap_or_default(),
                back: back.unwrap_or_default(),
                is_complete: sample.complete,
            };
            self.sample = Some((sample.rtt, queueing));
        }
    }

    /// The round trip that an ACK measured. While routers tell queueing times, only those of
    /// headers count: both values must belong to the same packets.
    pub(super) fn sample(
        &mut self,
        ack: &Ack,
        smoothed: Duration,
    ) -> Option<(Duration, Option<Queueing>)> {
        let holds = feedback_lifetime(smoothed);
        let is_fresh = |at: &Instant| ack.now.saturating_duration_since(*at) <= holds;
        self.heard = self.heard.filter(is_fresh);
        if self.are_heard() {
            let (rtt, queueing) = self.sample.take()?;
            Some((rtt, Some(queueing)))
        } else {
            ack.rtt.map(|rtt| (rtt, None))
        }
    }

    /// Whether they reported queueing times lately.
    pub(super) fn are_heard(&self) -> bool {
        self.heard.is_some()
    }

    /// Whether they count no other flow.
    pub(super) fn see_nobody_else(&self) -> bool {
        self.are_heard() && self.flows == Some(1)
    }

    /// More was lost than is tolerated: if round trips are long, and routers tell of no queue, they
    /// hide the one that overflowed.
    pub(super) fn on_excess_losses(&mut self, seen: &Seen, delay: &mut Delay) {
        let reported = delay.take_longest_reported();
        let is_delayed = delay.smoothed() > seen.base + seen.target * 2;
        if self.are_heard() && reported * 2 < seen.target && is_delayed {
            self.distrust(seen.now, delay);
        }
    }

    /// Their word has proved wrong.
    pub(super) fn distrust(&mut self, now: Instant, delay: &mut Delay) {
        self.heard = None;
        self.distrusted = Some(now + DISTRUST);
        delay.distrust(now);
    }

    /// Packets from one header that keel needs to the next.
    pub(super) fn header_interval(&self) -> u32 {
        if self.are_heard() {
            STAMPED_INTERVAL
        } else {
            UNSTAMPED_INTERVAL
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    fn reported(at: u64, there: Option<u64>, back: Option<u64>, flows: Option<u32>) -> PathSample {
        PathSample {
            forward_queueing: there.map(ms),
            backward_queueing: back.map(ms),
            flows,
            ..PathSample::new(epoch() + ms(at), ms(50))
        }
    }

    fn ack(at: u64) -> Ack {
        Ack::new(epoch() + ms(at), epoch() + ms(at - 50), 1200)
    }

    /// What a flow sees with an empty round trip of 40 ms.
    fn seen(at: u64, target: u64) -> Seen {
        Seen {
            now: epoch() + ms(at),
            base: ms(40),
            target: ms(target),
            ..Seen::standing(ms(50))
        }
    }

    #[test]
    fn queueing_of_either_way_counts_and_asks_for_more_headers() {
        for (there, back, is_heard) in [
            (Some(10), None, true),
            (None, Some(5), true),
            (None, None, false),
        ] {
            let mut routers = Routers::default();
            routers.on_path(&reported(100, there, back, None));
            assert_eq!(routers.are_heard(), is_heard, "{there:?} {back:?}");
            let interval = routers.header_interval();
            assert_eq!(interval, if is_heard { 2 } else { 1 << 20 });
        }
    }

    #[test]
    fn while_routers_are_heard_only_round_trips_of_headers_count() {
        let mut routers = Routers::default();
        let without = routers.sample(&ack(60), ms(50));
        assert!(matches!(without, Some((rtt, None)) if rtt == ms(50)));
        routers.on_path(&reported(100, Some(10), None, None));
        let (rtt, queueing) = routers.sample(&ack(100), ms(50)).expect("a sample");
        assert_eq!(rtt, ms(50));
        assert_eq!(queueing.expect("reported").there, ms(10));
        assert!(routers.sample(&ack(300), ms(50)).is_none(), "no new header");
        // Four round trips of 50 ms later they are forgotten.
        assert!(routers.sample(&ack(301), ms(50)).is_some());
        assert!(!routers.are_heard());
    }

    #[test]
    fn only_routers_that_count_one_flow_see_nobody_else() {
        for (flows, alone) in [(Some(1), true), (Some(2), false), (None, false)] {
            let mut routers = Routers::default();
            routers.on_path(&reported(100, Some(0), None, flows));
            assert_eq!(routers.see_nobody_else(), alone, "{flows:?}");
            // What they said long ago counts no more.
            routers.sample(&ack(1000), ms(50));
            assert!(!routers.see_nobody_else());
        }
    }

    #[test]
    fn routers_that_hide_the_queue_that_overflows_are_not_believed_for_a_minute() {
        // Smoothed round trips of 50 ms above an empty one of 40.
        let after_losses = |queue, target| {
            let (mut routers, mut delay) = (Routers::default(), Delay::default());
            routers.on_path(&reported(100, Some(queue), None, None));
            let (rtt, queueing) = routers.sample(&ack(100), ms(50)).expect("a sample");
            delay.on_rtt(epoch() + ms(100), rtt, queueing);
            routers.on_excess_losses(&seen(100, target), &mut delay);
            (routers, delay)
        };
        assert!(after_losses(2, 4).0.are_heard(), "half of the target");
        assert!(after_losses(0, 5).0.are_heard(), "no long round trips");
        let (mut routers, delay) = after_losses(1, 4);
        assert!(!routers.are_heard() && delay.reported() == Duration::ZERO);
        routers.on_path(&reported(60_099, Some(0), None, None));
        assert!(!routers.are_heard());
        routers.on_path(&reported(60_100, Some(0), None, None));
        assert!(routers.are_heard());
    }
}
