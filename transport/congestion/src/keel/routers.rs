//! What routers on the path say of queueing times, and how long keel believes it.

use std::time::{Duration, Instant};

use super::crowd::Seen;
use super::delay::{Delay, Queueing};
use crate::controller::{Ack, PathSample};

/// Packets from one path header to the next while routers stamp them, and until one does.
const STAMPED_INTERVAL: u32 = 2;
const UNSTAMPED_INTERVAL: u32 = 64;

/// What routers say holds for so many round trips, or so long if that is longer.
const HOLD_RTTS: u32 = 4;
const LEAST_HOLD: Duration = Duration::from_millis(100);

/// Routers of which one was wrong are not believed for so long.
const DISTRUST: Duration = Duration::from_secs(60);

/// The routers of one path.
#[derive(Debug, Clone, Default)]
pub(super) struct Routers {
    /// When they were last heard.
    heard: Option<Instant>,
    /// The last round trip that they described; `None` once it was taken in.
    sample: Option<(Duration, Queueing)>,
    /// Flows at the most crowded link, as they last counted them.
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

    /// The round trip that an ACK measured. While routers tell queueing times, only those of headers
    /// count: both values must belong to the same packets.
    pub(super) fn sample(
        &mut self,
        ack: &Ack,
        smoothed: Duration,
    ) -> Option<(Duration, Option<Queueing>)> {
        let holds = LEAST_HOLD.max(smoothed * HOLD_RTTS);
        let is_fresh = |at: &Instant| ack.now.saturating_duration_since(*at) <= holds;
        self.heard = self.heard.filter(is_fresh);
        if self.are_heard() {
            let (rtt, queueing) = self.sample.take()?;
            Some((rtt, Some(queueing)))
        } else {
            ack.rtt.map(|rtt| (rtt, None))
        }
    }

    /// Whether they told queueing times lately.
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
        let told = delay.take_longest_told();
        let is_delayed = delay.smoothed() > seen.base + seen.target * 2;
        if self.are_heard() && told * 2 < seen.target && is_delayed {
            self.distrust(seen.now, delay);
        }
    }

    /// Their word has proved wrong.
    pub(super) fn distrust(&mut self, now: Instant, delay: &mut Delay) {
        self.heard = None;
        self.distrusted = Some(now + DISTRUST);
        delay.distrust(now);
    }

    /// One packet in so many needs a header.
    pub(super) fn header_interval(&self) -> u32 {
        if self.are_heard() {
            STAMPED_INTERVAL
        } else {
            UNSTAMPED_INTERVAL
        }
    }
}
