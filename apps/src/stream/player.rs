//! A simulated player: shows frames a fixed time after their capture, and counts what a viewer
//! would notice.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tracing::debug;

use super::frame::Header;
use super::lateness::Lateness;
use super::report::FrameCounts;
pub(super) use fixed::LATE_START;
use fixed::{Fate, Fixed};
pub(super) use freezes::Freezes;

mod fixed;
mod freezes;

/// While a player has more than its buffer to show, it plays a twentieth faster: live players catch
/// up so that viewers hardly notice.
const CATCH_UP: i64 = 20;

/// A player that has had this much more to show than its buffer needs, for [`STEADY`] and the length
/// of its buffer, continues with what it would show with the buffer alone: nobody wants to see a live
/// picture a second late for twenty seconds.
const JUMP: Duration = Duration::from_millis(500);

/// How long frames have to come early enough before the player jumps. Frames whose packets were lost
/// come late now and then: a shorter memory would leave no time to send them again.
const STEADY: Duration = Duration::from_secs(3);

/// The shortest and longest time that a frame is taken to stand: some are captured together, and an
/// encoder may pause.
const FRAMES: [Duration; 2] = [Duration::from_millis(1), Duration::from_secs(60)];

/// Until two frames that follow each other show how long one stands, it may be a second.
const UNKNOWN_FRAME: Duration = Duration::from_secs(1);

/// The most displayed frames that are recorded: a day at 120 a second.
const MAX_DISPLAYED: usize = 120 * 86_400;

/// How long the beginning may wait for what it needs to be decoded.
const START_PATIENCE: Duration = Duration::from_secs(1);

/// The most frames of a track that wait to be shown: a minute's buffer at 240 a second.
const MAX_WAITING: usize = 16_384;

/// Shows frames in order. Times are microseconds of the viewer's clock.
///
/// Every frame is due the *playout delay* after its capture: at first the delay of the first frame
/// plus the buffer. A later frame is shown on arrival, and the playout delay grows by its lateness:
/// the player continues from where it stood. While frames arrive earlier than the buffer requires,
/// the player runs a twentieth faster, and the playout delay shrinks; if all frames have come much
/// earlier for a while, it shrinks at once. A frame that is missing when a later one is due or shown
/// late is skipped.
///
/// Frames from before the viewer came, the *preroll*, are only decoded: they are due with the first
/// of the others, which come after them. The first is one that can be decoded: all that it may need
/// has come, unless a second was not enough for that.
///
/// With a fixed delay every frame is due that long after its capture by the best estimate of the
/// sender's clock. What comes before the next one is due, and at most 45 ms late, is shown at once;
/// what comes later is dropped, except in the first two seconds before a picture was in time: then it
/// is decoded for those that follow.
///
/// Tracks are shown together: each also waits as long as the others need, but it comes to that by a
/// twentieth of the time, so that a late picture makes no gap in the sound.
#[derive(Clone, Debug)]
pub(super) struct Player {
    buffer_us: i64,
    /// How long a frame stands, and whether frames showed it.
    frame_us: i64,
    is_paced: bool,
    /// When the first frame came that is no preroll.
    live_us: Option<i64>,
    /// `None` before the first frame to be shown.
    playout_delay_us: Option<i64>,
    /// The playout delay that the other tracks need, as far as this one follows them.
    others_us: Option<i64>,
    /// When that frame was due when it came: the preroll is due then, too.
    starts_us: Option<i64>,
    /// Since when the next field counts, and by how much the least early frame came earlier than the
    /// buffer needs.
    spare: Option<(i64, i64)>,
    /// Nothing is shown earlier: when the playout delay has last shrunk at once.
    jumped_us: i64,
    waiting: BTreeMap<u32, Waiting>,
    shown: Option<Shown>,
    /// When measured frames were displayed, and how long after their capture.
    pub(super) displayed: Vec<Displayed>,
    /// Since when those times count.
    pub(super) began_us: i64,
    /// What it did with the frames; those that were received or lost it does not count.
    pub(super) counts: FrameCounts,
    /// Frames that arrive earlier are not measured.
    pub(super) measured_from_us: i64,
    /// The counts of frames that are measured.
    pub(super) measured: FrameCounts,
    /// The freezes between shown frames.
    pub(super) past_freezes: Freezes,
    pub(super) lateness: Lateness,
    /// Whether to leave out frames that refer to a missing one.
    pub(super) skips_damaged: bool,
    /// Bytes of content that came and is not shown.
    pub(super) dropped: usize,
    /// Of a fixed delay, which is the buffer then.
    fixed: Option<Fixed>,
}

#[derive(Clone, Debug)]
struct Waiting {
    /// `None`: it is preroll.
    captured_us: Option<i64>,
    arrived_us: i64,
    entry: Option<u8>,
    content: Bytes,
}

/// The frame on the screen.
#[derive(Clone, Copy, Debug)]
struct Shown {
    sequence: u32,
    /// `None`: it is preroll.
    captured_us: Option<i64>,
    at_us: i64,
    /// Pictures are whole from this frame on: nothing is missing to which they may refer. `None`
    /// until decoding can begin anew.
    whole_from: Option<u32>,
}

/// A frame that a viewer saw.
#[derive(Clone, Copy, Debug)]
pub(super) struct Displayed {
    /// Since the viewer began to wait, in milliseconds.
    pub(super) at_ms: u32,
    /// Since its capture, by the player's offset between the clocks, in microseconds.
    pub(super) delay_us: i32,
}

impl Player {
    /// Creates a player with a playout buffer of `buffer`, for one frame every `frame`.
    pub(super) fn new(buffer: Duration, frame: Duration) -> Self {
        Self {
            buffer_us: micros(buffer),
            frame_us: micros(frame),
            is_paced: false,
            live_us: None,
            playout_delay_us: None,
            others_us: None,
            starts_us: None,
            spare: None,
            jumped_us: i64::MIN,
            waiting: BTreeMap::new(),
            shown: None,
            displayed: Vec::new(),
            began_us: 0,
            counts: FrameCounts::default(),
            measured_from_us: i64::MIN,
            measured: FrameCounts::default(),
            past_freezes: Freezes::default(),
            lateness: Lateness::default(),
            skips_damaged: false,
            dropped: 0,
            fixed: None,
        }
    }

    /// Creates a player that shows one frame every `frame`, each `latency` after its capture. It
    /// begins with [`follow`](Self::follow).
    pub(super) fn fixed(latency: Duration, frame: Duration) -> Self {
        Self {
            fixed: Some(Fixed::default()),
            ..Self::new(latency, frame)
        }
    }

    /// Has a fixed delay follow the clocks: by what is known at `now_us`, frames are captured
    /// `correction_us` earlier than this player is told. A small difference is made up for by a
    /// twentieth of the time; a large one, or any before a picture was in time, at once.
    pub(super) fn follow(&mut self, correction_us: i64, now_us: i64) {
        let Some(fixed) = &mut self.fixed else {
            return;
        };
        let wanted_us = self.buffer_us.saturating_sub(correction_us);
        let present_us = self.playout_delay_us.unwrap_or(wanted_us);
        let off_us = wanted_us.saturating_sub(present_us);
        let step_us = (now_us.saturating_sub(fixed.followed_us) / CATCH_UP).max(0);
        let apart_us = off_us.saturating_abs();
        if !fixed.is_running || apart_us >= micros(JUMP) || apart_us <= step_us {
            self.playout_delay_us = Some(wanted_us);
            fixed.followed_us = now_us;
        } else {
            self.playout_delay_us = Some(present_us + off_us.signum() * step_us);
            fixed.followed_us += step_us * CATCH_UP;
        }
        if off_us < 0 {
            self.jumped_us = now_us;
        }
    }

    /// Has the track wait as long as others, which need `others_us`; `elapsed_us` have passed since
    /// the last call. What was not shown yet waits at once.
    pub(super) fn keep_with(&mut self, others_us: i64, elapsed_us: i64) {
        let Some(own_us) = self.playout_delay_us.filter(|_| self.fixed.is_none()) else {
            return;
        };
        let present_us = self.others_us.unwrap_or(own_us).max(own_us);
        let wanted_us = others_us.max(own_us);
        let off_us = wanted_us.saturating_sub(present_us);
        let step_us = match self.shown {
            Some(_) => elapsed_us / CATCH_UP,
            None => i64::MAX,
        };
        let moved_us = off_us.clamp(step_us.saturating_neg(), step_us);
        self.others_us = Some(present_us.saturating_add(moved_us));
        if self.shown.is_none() {
            self.starts_us = self.starts_us.map(|at| at.saturating_add(moved_us));
        }
    }

    /// Returns the playout delay that the track needs by itself; `None` before its first frame, or
    /// where it is fixed.
    pub(super) fn needed_us(&self) -> Option<i64> {
        self.playout_delay_us.filter(|_| self.fixed.is_none())
    }

    /// Takes a frame that is complete at `arrived_us` and was captured at `captured_us`; `None`
    /// makes it preroll. Returns what was shown until then, in order.
    pub(super) fn arrived(
        &mut self,
        header: &Header,
        captured_us: Option<i64>,
        arrived_us: i64,
        content: Bytes,
    ) -> Vec<Bytes> {
        let shown = self.advance(arrived_us);
        if let Some(captured_us) = captured_us {
            (self.lateness).arrived(captured_us, arrived_us, header.delays);
            self.settle(captured_us, arrived_us);
        }
        if self
            .shown
            .is_some_and(|shown| header.sequence <= shown.sequence)
        {
            debug!(
                sequence = header.sequence,
                "frame skipped: a later one was shown"
            );
            let is_fixed = self.fixed.is_some();
            self.count(arrived_us, |counts| match captured_us {
                Some(_) if is_fixed => counts.dropped += 1,
                Some(_) => counts.skipped += 1,
                None => counts.preroll += 1,
            });
            self.explain(captured_us, arrived_us);
            self.dropped += content.len();
            return shown;
        }
        let replaced = self.waiting.insert(
            header.sequence,
            Waiting {
                captured_us,
                arrived_us,
                entry: header.entry,
                content,
            },
        );
        self.dropped += replaced.map_or(0, |frame| frame.content.len());
        if let Some(captured_us) = captured_us
            && self.starts_us.is_none()
        {
            self.begin(header.sequence, captured_us, arrived_us);
        }
        if self.waiting.len() > MAX_WAITING {
            let last = self.waiting.pop_last();
            self.dropped += last.map_or(0, |(_, frame)| frame.content.len());
        }
        shown
    }

    /// Shows the frames due until `now_us`; returns them in order.
    pub(super) fn advance(&mut self, now_us: i64) -> Vec<Bytes> {
        let mut shown = Vec::new();
        while let Some(content) = self.show(now_us) {
            shown.push(content);
        }
        shown
    }

    /// Ends the stream: shows all remaining frames when they are due.
    pub(super) fn finish(&mut self) -> Vec<Bytes> {
        // What never began was due when it came.
        self.starts_us.get_or_insert(i64::MIN);
        self.playout_delay_us.get_or_insert(self.buffer_us);
        self.advance(i64::MAX)
    }

    /// Goes on with another stream of higher numbers: shows what waits, and begins anew.
    pub(super) fn rejoin(&mut self) -> Vec<Bytes> {
        let shown = self.advance(i64::MAX);
        let waiting = std::mem::take(&mut self.waiting);
        self.dropped += waiting.values().map(|f| f.content.len()).sum::<usize>();
        (self.live_us, self.playout_delay_us, self.starts_us) = (None, None, None);
        (self.others_us, self.spare) = (None, None);
        if let Some(fixed) = &mut self.fixed {
            fixed.is_running = false;
        }
        shown
    }

    /// Stops watching at `now_us`: ends a freeze that lasts, and shows the remaining frames when
    /// they are due. None of these counts as damaged: what they refer to may yet come.
    pub(super) fn cut(&mut self, now_us: i64) -> Vec<Bytes> {
        let mut shown = self.advance(now_us);
        self.past_freezes = self.freezes(now_us);
        if let Some(screen) = &mut self.shown {
            screen.at_us = screen.at_us.max(now_us);
        }
        let damaged = (self.counts.damaged, self.measured.damaged);
        shown.append(&mut self.finish());
        (self.counts.damaged, self.measured.damaged) = damaged;
        shown
    }

    /// Returns the number of the newest frame that was shown.
    pub(super) fn last_shown(&self) -> Option<u32> {
        self.shown.map(|shown| shown.sequence)
    }

    /// Returns the freezes until `now_us`, including one that lasts; for a running stream.
    pub(super) fn freezes(&self, now_us: i64) -> Freezes {
        let mut freezes = self.past_freezes;
        let has_begun = |fixed: &Fixed| fixed.first_picture_us.is_some();
        if let Some(shown) = self.shown
            && self.fixed.as_ref().is_none_or(has_begun)
        {
            let least_us = if self.is_paced {
                0
            } else {
                micros(UNKNOWN_FRAME)
            };
            let frame_us = self.frame_us.max(least_us);
            freezes.add(now_us.saturating_sub(shown.at_us), frame_us);
        }
        freezes
    }

    /// Returns how long after its capture a frame is due at present; `None` before the first.
    pub(super) fn playout_delay(&self) -> Option<Duration> {
        self.present_us().map(duration)
    }

    fn present_us(&self) -> Option<i64> {
        let own_us = self.playout_delay_us?;
        Some(self.others_us.map_or(own_us, |others| others.max(own_us)))
    }

    /// Returns when the first frame is due, while none has been shown; `None` otherwise. With a
    /// fixed delay: when the first picture was shown.
    pub(super) fn first_due_us(&self) -> Option<i64> {
        if let Some(fixed) = &self.fixed {
            return fixed.first_picture_us;
        }
        self.next_due_us().filter(|_| self.shown.is_none())
    }

    /// Returns when the next frame that waits is due; `None` without one, or before it is known.
    pub(super) fn next_due_us(&self) -> Option<i64> {
        let (_, frame) = self.waiting.first_key_value()?;
        self.due(frame)
    }

    /// Returns how much there is to show at `now_us`: the time until the newest frame is due.
    pub(super) fn buffered(&self, now_us: i64) -> Duration {
        let newest = self.waiting.last_key_value();
        let due_us = newest.and_then(|(_, frame)| self.due(frame));
        duration(due_us.map_or(0, |due_us| due_us.saturating_sub(now_us)))
    }

    /// Begins to play with a frame that has just arrived, if it can be decoded.
    fn begin(&mut self, sequence: u32, captured_us: i64, arrived_us: i64) {
        let live_us = *self.live_us.get_or_insert(arrived_us);
        if self.fixed.is_some() {
            let delay_us = self.playout_delay_us.unwrap_or(self.buffer_us);
            self.starts_us = Some(captured_us.saturating_add(delay_us).max(arrived_us));
            return;
        }
        let mut back = self
            .waiting
            .range(..=sequence)
            .rev()
            .zip((0..=sequence).rev());
        let gap_or_entry =
            back.find(|((at, frame), expected)| at != &expected || frame.entry.is_some());
        let is_decodable = gap_or_entry.is_some_and(|((at, _), expected)| *at == expected);
        if !is_decodable && arrived_us.saturating_sub(live_us) < micros(START_PATIENCE) {
            return;
        }
        let delay_us = arrived_us.saturating_sub(captured_us);
        self.playout_delay_us = Some(delay_us.saturating_add(self.buffer_us));
        self.starts_us = Some(arrived_us.saturating_add(self.buffer_us));
    }

    /// Shortens the playout delay at once if frames have come much earlier than they had to.
    fn settle(&mut self, captured_us: i64, arrived_us: i64) {
        let Some(playout_us) = self.playout_delay_us.filter(|_| self.fixed.is_none()) else {
            return;
        };
        let needed_us = (arrived_us.saturating_sub(captured_us)).saturating_add(self.buffer_us);
        let spare_us = playout_us.saturating_sub(needed_us);
        if spare_us < micros(JUMP) {
            self.spare = None;
            return;
        }
        let (since_us, least_us) = *self.spare.get_or_insert((arrived_us, spare_us));
        let least_us = least_us.min(spare_us);
        self.spare = Some((since_us, least_us));
        // What waits has come within that time.
        let steady_us = micros(STEADY).saturating_add(self.buffer_us);
        if arrived_us.saturating_sub(since_us) >= steady_us {
            debug!(least_us, "player jumps ahead");
            self.playout_delay_us = Some(playout_us - least_us);
            (self.spare, self.jumped_us) = (None, arrived_us);
        }
    }

    /// Records that a frame was displayed.
    fn display(&mut self, frame: &Waiting, at_us: i64) {
        if let Some(captured_us) = frame.captured_us
            && frame.arrived_us >= self.measured_from_us
            && self.displayed.len() < MAX_DISPLAYED
        {
            let delay_us = at_us.saturating_sub(captured_us);
            let since_us = at_us.saturating_sub(self.began_us).max(0);
            self.displayed.push(Displayed {
                at_ms: u32::try_from(since_us / 1000).unwrap_or(u32::MAX),
                // A day is more than 2^31 us.
                delay_us: delay_us.clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            });
        }
    }

    /// Learns from frames that follow each other how long one stands.
    fn pace(&mut self, sequence: u32, frame: &Waiting) {
        let before = (self.shown).filter(|shown| sequence == shown.sequence + 1);
        let before_us = before.and_then(|shown| shown.captured_us);
        let Some((before_us, at_us)) = before_us.zip(frame.captured_us) else {
            return;
        };
        let [least_us, most_us] = FRAMES.map(micros);
        let between_us = at_us.saturating_sub(before_us).clamp(least_us, most_us);
        self.frame_us = match std::mem::replace(&mut self.is_paced, true) {
            true => (7 * self.frame_us + between_us.min(2 * self.frame_us)) / 8,
            false => between_us,
        };
    }

    /// Counts something about a frame that arrived at `arrived_us`.
    fn count(&mut self, arrived_us: i64, count: impl Fn(&mut FrameCounts)) {
        count(&mut self.counts);
        if arrived_us >= self.measured_from_us {
            count(&mut self.measured);
        }
    }

    /// Has the lateness of a frame explained, if it is measured and no preroll.
    fn explain(&mut self, captured_us: Option<i64>, arrived_us: i64) {
        if let Some(captured_us) = captured_us
            && arrived_us >= self.measured_from_us
        {
            self.lateness.late(captured_us, arrived_us);
        }
    }

    /// Returns when a frame is due; `None` for preroll before any other frame.
    fn due(&self, frame: &Waiting) -> Option<i64> {
        let Some(captured_us) = frame.captured_us else {
            return self.starts_us;
        };
        Some(captured_us.saturating_add(self.present_us()?))
    }

    /// Shows the next frame if it is due.
    fn show(&mut self, now_us: i64) -> Option<Bytes> {
        let (_, frame) = self.waiting.first_key_value()?;
        let due_us = self.due(frame).filter(|due_us| *due_us <= now_us)?;
        let (sequence, frame) = self.waiting.pop_first().expect("it was just there");
        let lateness_us = frame.arrived_us.saturating_sub(due_us);
        let at_us = due_us.max(frame.arrived_us).max(self.jumped_us);
        let at_us = (self.shown).map_or(at_us, |shown| at_us.max(shown.at_us));
        let is_preroll = frame.captured_us.is_none();
        let is_late = !is_preroll && lateness_us > 0;
        // What is only decoded is no picture.
        let mut is_decoded = is_preroll;
        if is_preroll {
            self.count(frame.arrived_us, |counts| counts.preroll += 1);
        } else if let Some(fixed) = &mut self.fixed {
            let since_us = frame.arrived_us.saturating_sub(self.live_us.unwrap_or(0));
            let fate = fixed.judge(lateness_us, self.frame_us, since_us);
            self.count(frame.arrived_us, |counts| match fate {
                Fate::OnTime => counts.on_time += 1,
                Fate::Shown | Fate::Decoded => counts.late += 1,
                Fate::Dropped => counts.dropped += 1,
            });
            if is_late {
                debug!(sequence, lateness_us, ?fate, "frame late");
                self.explain(frame.captured_us, frame.arrived_us);
            }
            if fate == Fate::Dropped {
                self.dropped += frame.content.len();
                return Some(Bytes::new());
            }
            is_decoded = fate == Fate::Decoded;
        } else if is_late {
            debug!(sequence, lateness_us, "frame late");
            self.count(frame.arrived_us, |counts| counts.late += 1);
            self.explain(frame.captured_us, frame.arrived_us);
            let delay_us = self.present_us().unwrap_or(0);
            self.playout_delay_us = Some(delay_us.saturating_add(lateness_us));
        } else {
            self.count(frame.arrived_us, |counts| counts.on_time += 1);
            let others_us = (self.present_us().zip(self.playout_delay_us))
                .map_or(0, |(present, own)| present - own);
            let spare_us = (-lateness_us - others_us - self.buffer_us).max(0);
            let faster_us = spare_us.min(self.frame_us / CATCH_UP);
            self.playout_delay_us = self.playout_delay_us.map(|delay| delay - faster_us);
            // The rest is still to spare.
            self.spare = self.spare.map(|(since, least)| (since, least - faster_us));
        }
        self.pace(sequence, &frame);
        let before = (self.shown)
            .filter(|shown| sequence == shown.sequence + 1)
            .and_then(|shown| shown.whole_from);
        let anew = frame
            .entry
            .map(|after| sequence.saturating_add(after.into()));
        let whole_from = before.into_iter().chain(anew).min();
        let damaged = whole_from.is_none_or(|from| sequence < from);
        let damage = u64::from(damaged && !is_decoded);
        self.count(frame.arrived_us, |counts| counts.damaged += damage);
        // A recovery is incomplete at first, and needs its frames from the first on.
        if self.skips_damaged && whole_from.is_none() {
            self.shown = Some(Shown {
                sequence,
                captured_us: frame.captured_us,
                at_us: self.shown.map_or(at_us, |shown| shown.at_us),
                whole_from,
            });
            self.dropped += frame.content.len();
            return Some(Bytes::new());
        }
        let mut stands_since = self.shown.map(|shown| shown.at_us);
        if let Some(fixed) = self.fixed.as_mut().filter(|_| !is_decoded) {
            stands_since = stands_since.filter(|_| fixed.first_picture_us.is_some());
            fixed.first_picture_us.get_or_insert(at_us);
        }
        if !is_decoded {
            self.display(&frame, at_us);
            if let Some(since_us) = stands_since {
                (self.past_freezes).add(at_us.saturating_sub(since_us), self.frame_us);
            }
        }
        let at_us = match self.shown.filter(|_| is_decoded) {
            Some(shown) => shown.at_us,
            None => at_us,
        };
        self.shown = Some(Shown {
            sequence,
            captured_us: frame.captured_us,
            at_us,
            whole_from,
        });
        Some(frame.content)
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the time, or zero if it is negative.
fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

#[cfg(test)]
mod tests;
