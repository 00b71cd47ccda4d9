//! When recorded frames are due, by the times that the stream says.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::track::Track;

/// Times are modulo 2^33 (ITU-T H.222.0, 2.4.3.7).
const MODULUS: i64 = 1 << 33;

/// Ticks a second.
const TICKS: i64 = 90_000;

/// A time further off than 10 s from the present belongs to another clock: of another program, or
/// from before a cut.
const FAR: i64 = 10 * TICKS;

/// Follows the times of all tracks, over their wraps and cuts.
#[derive(Debug)]
pub(super) struct Timeline {
    start: Instant,
    /// The first time of any track.
    base: Option<u64>,
    /// Of each track its last time, and how many ticks after the start that is.
    tracks: BTreeMap<Track, (u64, i64)>,
    /// The ticks until the latest frame so far.
    latest: i64,
}

impl Timeline {
    /// Begins at `start` with the first frame.
    pub(super) fn new(start: Instant) -> Self {
        Self {
            start,
            base: None,
            tracks: BTreeMap::new(),
            latest: 0,
        }
    }

    /// Returns when the next frame is due, which has this time in 1/90,000 s; without one it goes
    /// with the frame before. No frame is due before an earlier one.
    pub(super) fn due(&mut self, track: Track, time: Option<u64>) -> Instant {
        if let Some(time) = time {
            let base = *self.base.get_or_insert(time);
            let (last, ticks) = self.tracks.get(&track).copied().unwrap_or((base, 0));
            let mut at = ticks.saturating_add(difference(time, last));
            if (at - self.latest).abs() > FAR {
                at = self.latest;
            }
            self.tracks.insert(track, (time, at));
            self.latest = self.latest.max(at);
        }
        let micros = u128::from(self.latest.unsigned_abs()) * 1_000_000 / TICKS as u128;
        self.start + Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }
}

/// Returns how much later `time` is than `before`: the nearer way around.
fn difference(time: u64, before: u64) -> i64 {
    let [time, before] = [time, before].map(|time| (time % MODULUS as u64) as i64);
    let ahead = (time - before).rem_euclid(MODULUS);
    match ahead > MODULUS / 2 {
        true => ahead - MODULUS,
        false => ahead,
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};
    use proptest::prelude::*;

    use super::super::track::Kind;
    use super::*;

    const SOUND: Track = Track::new(Kind::Sound, 0);

    #[test]
    fn times_go_on_over_the_wrap_and_each_track_keeps_its_distance() {
        let mut timeline = Timeline::new(epoch());
        let first = MODULUS as u64 - 45_000;
        assert_eq!(timeline.due(Track::VIDEO, Some(first)), epoch());
        assert_eq!(timeline.due(SOUND, Some(first + 9_000)), epoch() + ms(100));
        assert_eq!(
            timeline.due(Track::VIDEO, Some(45_000)),
            epoch() + ms(1_000)
        );
        // It comes late in the file, and goes at once.
        assert_eq!(timeline.due(SOUND, Some(0)), epoch() + ms(1_000));
        assert_eq!(timeline.due(Track::TABLES, None), epoch() + ms(1_000));
        assert_eq!(timeline.due(SOUND, Some(54_000)), epoch() + ms(1_100));
    }

    #[test]
    fn after_a_cut_and_in_another_program_times_begin_anew() {
        let mut timeline = Timeline::new(epoch());
        timeline.due(Track::VIDEO, Some(0));
        timeline.due(Track::VIDEO, Some(90_000));
        let other = Track::new(Kind::Video, 1);
        assert_eq!(
            timeline.due(other, Some(4_000_000_000)),
            epoch() + ms(1_000)
        );
        assert_eq!(
            timeline.due(other, Some(4_000_090_000)),
            epoch() + ms(2_000)
        );
        assert_eq!(
            timeline.due(Track::VIDEO, Some(7_000_000_000)),
            epoch() + ms(2_000)
        );
        assert_eq!(
            timeline.due(Track::VIDEO, Some(7_000_009_000)),
            epoch() + ms(2_100)
        );
    }

    proptest! {
        #[test]
        fn frames_are_due_in_order_whatever_their_times(
            times in proptest::collection::vec((any::<bool>(), any::<u64>()), 1..50)
        ) {
            let mut timeline = Timeline::new(epoch());
            let mut before = epoch();
            for (is_sound, time) in times {
                let track = if is_sound { SOUND } else { Track::VIDEO };
                let due = timeline.due(track, Some(time));
                prop_assert!(due >= before);
                prop_assert!(due <= before + Duration::from_secs(10));
                before = due;
            }
        }
    }
}
