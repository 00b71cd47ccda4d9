//! A player that never was: shows frames a fixed time after they were captured, and counts what a
//! viewer would have noticed.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tracing::debug;

use super::frame::Header;

/// A picture that stands still this much longer than a frame is a freeze to viewers
/// (W3C, Identifiers for WebRTC's Statistics API, freezeCount: 150 ms above the mean, and three
/// times the mean).
const FREEZE: Duration = Duration::from_millis(150);

/// A player with more than its buffer to show plays this much faster, a twentieth, until it has no
/// more than that: live players catch up so that viewers hardly notice.
const CATCH_UP: i64 = 20;

/// Frames that wait to be shown, more than an hour's buffer needs.
const MAX_WAITING: usize = 100_000;

/// Shows frames in order. Times are microseconds of one clock, the viewer's.
///
/// Every frame is due the *playout delay* after its capture: the delay of the first frame and the
/// buffer. A frame that comes later is shown when it comes, and the playout delay grows by as much
/// as it was late: the player goes on from where it stood. While frames come earlier than the buffer
/// asks for, it plays a twentieth faster, and the playout delay shrinks. A frame that is not there
/// when a later one is due or shown late is skipped.
#[derive(Debug)]
pub struct Player {
    buffer_us: i64,
    frame_us: i64,
    /// `None` before the first frame.
    playout_delay_us: Option<i64>,
    waiting: BTreeMap<u32, Waiting>,
    shown: Option<Shown>,
    counts: PlayerCounts,
    freezes: Freezes,
}

#[derive(Debug)]
struct Waiting {
    captured_us: i64,
    arrived_us: i64,
    key: bool,
    content: Bytes,
}

/// The frame on the screen.
#[derive(Clone, Copy, Debug)]
struct Shown {
    sequence: u32,
    at_us: i64,
    /// A frame that it refers to was never shown.
    damaged: bool,
}

/// What became of frames that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerCounts {
    /// Shown when they were due.
    pub on_time: u64,
    /// Shown later, because they came later.
    pub late: u64,
    /// Not shown: they came when a later frame was on the screen already.
    pub skipped: u64,
    /// Of those shown: without a frame of their group that they may refer to.
    pub damaged: u64,
}

/// Times when the picture stood still.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freezes {
    /// How many.
    pub count: u64,
    /// How long all together.
    pub total: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Player {
    /// With a playout buffer of `buffer`, of frames that follow each other by `frame`.
    pub fn new(buffer: Duration, frame: Duration) -> Self {
        Self {
            buffer_us: micros(buffer),
            frame_us: micros(frame),
            playout_delay_us: None,
            waiting: BTreeMap::new(),
            shown: None,
            counts: PlayerCounts::default(),
            freezes: Freezes::default(),
        }
    }

    /// A frame is complete at `arrived_us`; it was captured at `captured_us`. Returns what was
    /// shown until then, in order.
    pub fn arrived(
        &mut self,
        header: &Header,
        captured_us: i64,
        arrived_us: i64,
        content: Bytes,
    ) -> Vec<Bytes> {
        let shown = self.advance(arrived_us);
        if self
            .shown
            .is_some_and(|shown| header.sequence <= shown.sequence)
        {
            debug!(
                sequence = header.sequence,
                "frame skipped: a later one was shown"
            );
            self.counts.skipped += 1;
            return shown;
        }
        let buffer_us = self.buffer_us;
        self.playout_delay_us.get_or_insert(
            arrived_us
                .saturating_sub(captured_us)
                .saturating_add(buffer_us),
        );
        self.waiting.insert(
            header.sequence,
            Waiting {
                captured_us,
                arrived_us,
                key: header.key,
                content,
            },
        );
        if self.waiting.len() > MAX_WAITING {
            self.waiting.pop_last();
        }
        shown
    }

    /// Shows what is due until `now_us`; returns it in order.
    pub fn advance(&mut self, now_us: i64) -> Vec<Bytes> {
        let mut shown = Vec::new();
        while let Some(content) = self.show(now_us) {
            shown.push(content);
        }
        shown
    }

    /// The stream is over: shows all that is left, when it is due.
    pub fn finish(&mut self) -> Vec<Bytes> {
        self.advance(i64::MAX)
    }

    /// Nobody watches from `now_us` on: a freeze that lasts ends here, and what is left is shown
    /// when it is due.
    pub fn cut(&mut self, now_us: i64) -> Vec<Bytes> {
        let mut shown = self.advance(now_us);
        self.freezes = self.freezes(now_us);
        if let Some(screen) = &mut self.shown {
            screen.at_us = screen.at_us.max(now_us);
        }
        shown.append(&mut self.finish());
        shown
    }

    /// What became of the frames so far.
    pub fn counts(&self) -> PlayerCounts {
        self.counts
    }

    /// How often the picture has stood still until `now_us`, when the stream still runs.
    pub fn freezes(&self, now_us: i64) -> Freezes {
        let mut freezes = self.freezes;
        if let Some(shown) = self.shown {
            freezes.add(now_us.saturating_sub(shown.at_us), self.frame_us);
        }
        freezes
    }

    /// How often it has stood still between frames that were shown.
    pub fn past_freezes(&self) -> Freezes {
        self.freezes
    }

    /// How long after its capture a frame is due at present; `None` before the first.
    pub fn playout_delay(&self) -> Option<Duration> {
        self.playout_delay_us.map(duration)
    }

    /// When the first frame was or will be shown; `None` before it came.
    pub fn first_due_us(&self) -> Option<i64> {
        let first = self
            .waiting
            .first_key_value()
            .filter(|_| self.shown.is_none());
        first.map(|(_, frame)| self.due(frame.captured_us))
    }

    /// How much is there to be shown at `now_us`: the time until the newest frame is due.
    pub fn buffered(&self, now_us: i64) -> Duration {
        let newest = self.waiting.last_key_value();
        newest.map_or(Duration::ZERO, |(_, frame)| {
            duration(self.due(frame.captured_us).saturating_sub(now_us))
        })
    }

    fn due(&self, captured_us: i64) -> i64 {
        captured_us.saturating_add(self.playout_delay_us.unwrap_or(0))
    }

    /// Shows the next frame if it is due.
    fn show(&mut self, now_us: i64) -> Option<Bytes> {
        let (_, frame) = self.waiting.first_key_value()?;
        let due_us = self.due(frame.captured_us);
        if due_us > now_us {
            return None;
        }
        let (sequence, frame) = self.waiting.pop_first().expect("it was just there");
        let lateness_us = frame.arrived_us.saturating_sub(due_us);
        let at_us = due_us.max(frame.arrived_us);
        if lateness_us > 0 {
            debug!(sequence, lateness_us, "frame late");
            self.counts.late += 1;
            self.playout_delay_us = Some(
                self.playout_delay_us
                    .unwrap_or(0)
                    .saturating_add(lateness_us),
            );
        } else {
            self.counts.on_time += 1;
            let spare_us = (-lateness_us - self.buffer_us).max(0);
            let faster_us = spare_us.min(self.frame_us / CATCH_UP);
            self.playout_delay_us = self.playout_delay_us.map(|delay| delay - faster_us);
        }
        let damaged = !frame.key
            && self
                .shown
                .is_none_or(|shown| shown.damaged || sequence != shown.sequence + 1);
        self.counts.damaged += u64::from(damaged);
        if let Some(shown) = self.shown {
            self.freezes
                .add(at_us.saturating_sub(shown.at_us), self.frame_us);
        }
        self.shown = Some(Shown {
            sequence,
            at_us,
            damaged,
        });
        Some(frame.content)
    }
}

impl Freezes {
    /// A picture stood for `stood_us`, where `frame_us` is the time of one.
    fn add(&mut self, stood_us: i64, frame_us: i64) {
        let freeze_us = (3 * frame_us).max(frame_us + micros(FREEZE));
        if stood_us <= freeze_us {
            return;
        }
        let time = duration(stood_us.saturating_sub(frame_us));
        self.count += 1;
        self.total += time;
        self.longest = self.longest.max(time);
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// The time, or none if it is negative.
fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAME: Duration = Duration::from_millis(40);

    fn player() -> Player {
        Player::new(Duration::from_millis(100), FRAME)
    }

    /// Frame `sequence` is captured at `40 * sequence` ms and arrives at `at_ms`.
    fn arrive(player: &mut Player, sequence: u32, at_ms: i64) -> usize {
        let header = Header {
            sequence,
            captured_us: 0,
            bitrate_bps: 0,
            length: 1,
            key: sequence.is_multiple_of(10),
        };
        let captured_us = 40_000 * i64::from(sequence);
        player
            .arrived(&header, captured_us, at_ms * 1000, Bytes::from_static(b"x"))
            .len()
    }

    #[test]
    fn frames_that_come_within_the_buffer_are_on_time() {
        let mut player = player();
        // 20 ms of delay, then up to 100 ms more.
        for (sequence, delay) in (0..).zip([20, 60, 120, 20, 100, 119]) {
            arrive(&mut player, sequence, 40 * i64::from(sequence) + delay);
        }
        player.finish();
        assert_eq!(
            player.counts(),
            PlayerCounts {
                on_time: 6,
                ..Default::default()
            }
        );
        assert_eq!(player.past_freezes(), Freezes::default());
        assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
    }

    #[test]
    fn a_late_frame_stops_the_picture_and_the_player_goes_on_from_there() {
        let mut player = player();
        arrive(&mut player, 0, 20);
        // Due at 160 ms; comes 240 ms later, and the next ones with it.
        arrive(&mut player, 1, 400);
        arrive(&mut player, 2, 400);
        arrive(&mut player, 3, 450);
        player.finish();
        let counts = player.counts();
        assert_eq!((counts.on_time, counts.late), (3, 1));
        // Frame 0 stood from 120 to 400 ms, of which 40 ms are its own.
        let freeze = Duration::from_millis(240);
        let freezes = Freezes {
            count: 1,
            total: freeze,
            longest: freeze,
        };
        assert_eq!(player.past_freezes(), freezes);
        assert_eq!(player.playout_delay(), Some(Duration::from_millis(360)));
    }

    #[test]
    fn a_player_that_fell_behind_catches_up_when_frames_come_early_again() {
        let mut player = player();
        arrive(&mut player, 0, 20);
        arrive(&mut player, 1, 400);
        assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
        for sequence in 2..400 {
            arrive(
                &mut player,
                sequence,
                (40 * i64::from(sequence) + 20).max(400),
            );
        }
        player.finish();
        // 240 ms are made up for at 2 ms a frame, down to the delay and the buffer.
        assert_eq!(player.playout_delay(), Some(Duration::from_millis(120)));
        assert_eq!((player.counts().on_time, player.counts().late), (399, 1));
        assert_eq!(player.past_freezes().count, 1);
    }

    #[test]
    fn a_lost_frame_is_skipped_when_the_next_is_due_and_damages_its_group() {
        let mut player = player();
        for sequence in (0..15).filter(|sequence| *sequence != 3) {
            arrive(&mut player, sequence, 40 * i64::from(sequence) + 20);
        }
        // It comes after frame 4 was shown, at 280 ms.
        arrive(&mut player, 3, 40 * 14 + 30);
        player.finish();
        let counts = player.counts();
        assert_eq!((counts.on_time, counts.late, counts.skipped), (14, 0, 1));
        // Frames 4 to 9; 10 is a key frame.
        assert_eq!(counts.damaged, 6);
        assert_eq!(player.past_freezes().count, 0);
    }

    #[test]
    fn a_stream_that_breaks_off_is_a_freeze_that_lasts() {
        let mut player = player();
        arrive(&mut player, 0, 20);
        player.advance(120_000);
        assert_eq!(player.freezes(200_000).count, 0);
        let freezes = player.freezes(1_160_000);
        assert_eq!((freezes.count, freezes.total), (1, Duration::from_secs(1)));
    }

    #[test]
    fn what_is_shown_comes_out_in_order_when_it_is_due() {
        let mut player = player();
        assert_eq!(arrive(&mut player, 0, 20), 0);
        assert_eq!(player.first_due_us(), Some(120_000));
        assert_eq!(arrive(&mut player, 1, 60), 0);
        assert_eq!(player.buffered(60_000), Duration::from_millis(100));
        assert_eq!(arrive(&mut player, 2, 130), 1);
        assert_eq!(player.finish().len(), 2);
    }

    proptest! {
        #[test]
        fn every_frame_that_arrives_is_shown_or_skipped_once(
            arrivals in proptest::collection::btree_map(0_u32..60, 0_i64..3_000, 1..60)
        ) {
            let mut order: Vec<(i64, u32)> = arrivals
                .iter()
                .map(|(sequence, delay)| (40 * i64::from(*sequence) + delay, *sequence))
                .collect();
            order.sort_unstable();
            let mut player = player();
            let mut shown = 0;
            for (at, sequence) in &order {
                shown += arrive(&mut player, *sequence, *at);
            }
            shown += player.finish().len();
            let counts = player.counts();
            prop_assert_eq!(counts.on_time + counts.late, shown as u64);
            prop_assert_eq!(counts.on_time + counts.late + counts.skipped, order.len() as u64);
            prop_assert!(player.past_freezes().longest <= player.past_freezes().total);
        }
    }
}
