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
            let delay_us = self.playout_delay_us.unwrap_or(0);
            self.playout_delay_us = Some(delay_us.saturating_add(lateness_us));
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
mod tests;
