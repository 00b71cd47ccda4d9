//! Finds paths that mark every packet though nothing queues there.
//!
//! A mark is a router's word for a queue. Routers that mark everything have been seen (quicwg's
//! base-drafts, pull request 3455), and a sender that heeds them keeps a window of two packets.
//! A sender that heeds every mark empties any queue of its own within a few round trips. If then
//! all packets are still marked and the round trip is the path's least, marks say nothing: the
//! sender goes on without ECN, with the controller as it was before the first of these marks. Should
//! the path be congested after all, its routers now drop (RFC 3168, section 5), and the controller
//! hears of that.
//!
//! An L4S router marks all that waits for a millisecond, which round trips do not show, and windows
//! of two packets cannot always avoid. So packets that left as ECT(1) first leave as ECT(0), and the
//! marks of those decide.

use std::time::{Duration, Instant};

use super::acked::AckedPackets;

/// Round trips in which every packet must be marked and none have queued.
const ROUNDS: u32 = 8;

/// A round trip shows no queue if its least time exceeds the path's least by at most this and an
/// eighth: timers of hosts, and packets of other flows.
const LEAST_QUEUE: Duration = Duration::from_millis(2);

/// What eight such round trips show.
#[derive(Debug, PartialEq)]
pub(crate) enum Found<C> {
    /// Of packets that left as ECT(1): an L4S queue has no room for windows so small, or marks are
    /// false.
    Saturated,
    /// Marks are false; the controller to go on with.
    False(C),
}

/// Watches the marks of a path; keeps a controller `C` as it was before they began.
#[derive(Debug)]
pub(crate) struct Marks<C> {
    least_rtt: Option<Duration>,
    run: Option<Run<C>>,
    /// Marks on this path say nothing.
    are_false: bool,
}

/// Time in which every packet was marked.
#[derive(Debug)]
struct Run<C> {
    /// The controller before it.
    before: C,
    /// Rounds without a queue, one after another.
    rounds: u32,
    /// When the present round began; a packet sent from then on ends it.
    began: Instant,
    /// The least sample of the round.
    rtt: Option<Duration>,
}

impl<C> Marks<C> {
    pub(crate) fn new() -> Self {
        Self {
            least_rtt: None,
            run: None,
            are_false: false,
        }
    }

    /// Returns true if marks on this path say nothing.
    pub(crate) fn are_false(&self) -> bool {
        self.are_false
    }

    /// An ACK frame acknowledged packets and reports `marked` of them as marked. `rtt` is its round trip,
    /// if it shows one; `is_scalable` says whether packets leave as ECT(1); `controller` copies the
    /// controller as it is. Returns what this ACK shows.
    pub(crate) fn on_ack(
        &mut self,
        acked: &AckedPackets,
        marked: u64,
        rtt: Option<Duration>,
        is_scalable: bool,
        controller: impl FnOnce() -> C,
    ) -> Option<Found<C>> {
        self.least_rtt = self.least_rtt.into_iter().chain(rtt).min();
        if self.are_false || marked < acked.packets {
            self.run = None;
            return None;
        }
        let run = self.run.get_or_insert_with(|| Run {
            before: controller(),
            rounds: 0,
            began: acked.now,
            rtt: None,
        });
        run.rtt = run.rtt.into_iter().chain(rtt).min();
        if acked.sent < run.began {
            return None;
        }
        if let Some((rtt, least)) = run.rtt.take().zip(self.least_rtt) {
            let is_empty = rtt <= least + least / 8 + LEAST_QUEUE;
            run.rounds = if is_empty { run.rounds + 1 } else { 0 };
        }
        run.began = acked.now;
        if run.rounds < ROUNDS {
            return None;
        }
        if is_scalable {
            run.rounds = 0;
            return Some(Found::Saturated);
        }
        self.are_false = true;
        self.run.take().map(|run| Found::False(run.before))
    }
}

impl<C> Clone for Marks<C> {
    /// A copy is for another path: it begins with marks of its own, but knows whether they say
    /// anything, because only the port has changed.
    fn clone(&self) -> Self {
        Self {
            least_rtt: self.least_rtt,
            run: None,
            are_false: self.are_false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{epoch, ms};

    /// Plays rounds of one ACK each, by their milliseconds and how many of their two packets were
    /// marked; the controller is the number of the round before which it was copied. Returns the
    /// round that found marks to be false, with the controller.
    fn play(rounds: impl IntoIterator<Item = (u64, u64)>) -> Option<(usize, usize)> {
        let (mut marks, mut now) = (Marks::new(), epoch());
        for (round, (rtt, marked)) in rounds.into_iter().enumerate() {
            let sent = now;
            now += ms(rtt);
            let mut acked = AckedPackets::new(now, sent, 1200);
            acked.packets = 2;
            match marks.on_ack(&acked, marked, Some(ms(rtt)), false, || round) {
                Some(Found::False(before)) => {
                    assert!(marks.are_false());
                    return Some((round, before));
                }
                found => assert!(found.is_none() && !marks.are_false()),
            }
        }
        None
    }

    #[test]
    fn eight_rounds_of_nothing_but_marks_without_a_queue_show_that_they_are_false() {
        // The first ACK begins the first round.
        assert_eq!(play([(40, 2); 20]), Some((8, 0)));
        let later = [(40, 0); 5].into_iter().chain([(40, 2); 20]);
        assert_eq!(play(later), Some((13, 5)));
        let with_others = [(47, 3); 20];
        assert_eq!(play(with_others), Some((8, 0)));
    }

    #[test]
    fn packets_of_l4s_that_are_all_marked_leave_as_classic_ones_before_marks_are_false() {
        let (mut marks, mut now) = (Marks::new(), epoch());
        let mut found = Vec::new();
        for round in 0..20 {
            let sent = now;
            now += ms(40);
            let mut acked = AckedPackets::new(now, sent, 1200);
            acked.packets = 2;
            let is_scalable = found.is_empty();
            let seen = marks.on_ack(&acked, 2, Some(ms(40)), is_scalable, || round);
            found.extend(seen.map(|seen| (round, seen)));
        }
        // The controller is that before all of them.
        assert_eq!(found, [(8, Found::Saturated), (16, Found::False(0))]);
    }

    #[test]
    fn one_packet_without_a_mark_shows_that_they_are_true() {
        let mostly = (0..100).map(|round| (40, if round % 8 == 7 { 1 } else { 2 }));
        assert_eq!(play(mostly), None);
        assert_eq!(play([(40, 0); 100]), None);
    }

    #[test]
    fn rounds_with_a_queue_do_not_count_but_the_controller_before_them_does() {
        assert_eq!(play([(40, 0)].into_iter().chain([(48, 2); 100])), None);
        let draining = [(40, 0), (90, 2), (60, 2)];
        let empty = [(41, 2); 20];
        // The ACK at 60 ends the first round, the eighth empty one comes eight later.
        assert_eq!(play(draining.into_iter().chain(empty)), Some((10, 1)));
    }
}
