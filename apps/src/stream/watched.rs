//! What a viewer sees of one track.

use bytes::Bytes;

use super::cause::Causes;
use super::frame::Header;
use super::missing::Missing;
use super::player::{Displayed, Freezes, Player};
use super::report::{BitrateReport, FrameCounts, JitterReport};

/// The longest delay recorded: a peer may claim any capture time.
pub(super) const MAX_DELAY_US: i64 = 86_400_000_000;

/// A track, its player and its figures without the warm-up.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) player: Player,
    first_shown_us: Option<i64>,
    /// The number of the present connection's first frame, and that after the highest so far.
    first_number: u32,
    next_number: u32,
    /// When whole frames arrived, and how long after their capture.
    arrivals: Vec<Displayed>,
    previous_delay_us: Option<i64>,
    jitter_sum_us: f64,
    jitter_rfc3550_us: f64,
    /// Frames between the first and the last of each connection before the present one.
    expected: u64,
    /// The lowest and the highest frame number of the present one.
    sequences: Option<(u32, u32)>,
    missing: Missing,
    /// Frames between those that were not due when the viewer stopped watching, and may yet come.
    not_due: u64,
    /// The player's freezes when the warm-up ended.
    stood: Option<Freezes>,
    bitrate: Option<Bitrates>,
}

#[derive(Clone, Copy, Debug)]
struct Bitrates {
    sum: f64,
    last: u64,
    report: BitrateReport,
}

/// The arrival of a whole frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    /// Our clock.
    pub(super) now_us: i64,
    /// The time since the viewer began to wait.
    pub(super) since_ms: u32,
    /// The time since the capture by the players' offset between the clocks; `None` of preroll.
    pub(super) delay_us: Option<i64>,
    /// It comes after the warm-up.
    pub(super) is_measured: bool,
}

impl Watched {
    pub(super) fn new(player: Player) -> Self {
        Self {
            player,
            first_shown_us: None,
            first_number: 0,
            next_number: 0,
            arrivals: Vec::new(),
            previous_delay_us: None,
            jitter_sum_us: 0.0,
            jitter_rfc3550_us: 0.0,
            expected: 0,
            sequences: None,
            missing: Missing::default(),
            not_due: 0,
            stood: None,
            bitrate: None,
        }
    }

    /// Takes a complete frame; returns what was shown until then.
    pub(super) fn frame(
        &mut self,
        arrival: &Arrival,
        header: &Header,
        content: Bytes,
    ) -> Vec<Bytes> {
        let header = &Header {
            sequence: header.sequence.saturating_add(self.first_number),
            ..*header
        };
        self.next_number = self.next_number.max(header.sequence.saturating_add(1));
        let now_us = arrival.now_us;
        let captured_us = arrival.delay_us.map(|delay_us| now_us - delay_us);
        let shown = self.player.arrived(header, captured_us, now_us, content);
        let Some(delay_us) = arrival.delay_us else {
            return shown;
        };
        // The player forgets when it began.
        self.first_shown_us = self.first_shown_us.or(self.player.first_due_us());
        if arrival.is_measured {
            self.stood.get_or_insert(self.player.past_freezes);
            self.record(arrival.since_ms, delay_us, header);
        }
        shown
    }

    /// Goes on with the frames of another connection.
    pub(super) fn rejoin(&mut self) -> Vec<Bytes> {
        // A number stays free: what was between is missing.
        self.first_number = self.next_number.saturating_add(1);
        let (first, last) = self.sequences.take().unzip();
        let before = first.zip(last).map_or(0, |(first, last)| last - first + 1);
        self.expected += u64::from(before);
        self.missing.restart();
        self.player.rejoin()
    }

    /// Stops watching at `now_us`, as [`Player::cut`] does: what is missing after the last frame
    /// shown is not lost.
    pub(super) fn cut(&mut self, now_us: i64) -> Vec<Bytes> {
        let mut shown = self.player.advance(now_us);
        if let Some(last) = self.player.last_shown() {
            self.not_due = self.missing.forget_after(last);
        }
        shown.append(&mut self.player.cut(now_us));
        shown
    }

    /// Returns the arrivals and delays of frames after the warm-up.
    pub(super) fn arrivals(&self) -> &[Displayed] {
        &self.arrivals
    }

    /// Returns what became of the frames.
    pub(super) fn counts(&self) -> FrameCounts {
        let received = self.arrivals.len() as u64;
        let present = (self.sequences).map_or(0, |(first, last)| u64::from(last - first) + 1);
        FrameCounts {
            received,
            lost: (self.expected + present).saturating_sub(received + self.not_due),
            ..self.player.measured
        }
    }

    /// Counts the late and the lost frames by what has delayed them.
    pub(super) fn causes(&self) -> Causes {
        let mut causes = self.player.lateness.causes();
        causes.add_all(self.missing.causes());
        causes
    }

    /// Returns when the first frame was shown, or will be.
    pub(super) fn first_shown_us(&self) -> Option<i64> {
        self.first_shown_us.or(self.player.first_due_us())
    }

    /// Returns the freezes after the warm-up; the longest is of all.
    pub(super) fn freezes(&self) -> Freezes {
        let (freezes, stood) = (self.player.past_freezes, self.stood.unwrap_or_default());
        Freezes {
            count: freezes.count - stood.count,
            total: freezes.total.saturating_sub(stood.total),
            longest: freezes.longest,
        }
    }

    /// Returns how evenly frames came; `None` with fewer than two.
    pub(super) fn jitter(&self) -> Option<JitterReport> {
        let differences = self.arrivals.len().saturating_sub(1);
        (differences > 0).then(|| JitterReport {
            mean: self.jitter_sum_us / differences as f64 / 1e3,
            rfc3550: self.jitter_rfc3550_us / 1e3,
        })
    }

    /// Returns the encoder's target by the frames that came; `None` without frames.
    pub(super) fn bitrate(&self) -> Option<BitrateReport> {
        self.bitrate.map(|bitrate| BitrateReport {
            mean_bps: bitrate.sum / self.arrivals.len() as f64,
            ..bitrate.report
        })
    }

    fn record(&mut self, since_ms: u32, delay_us: i64, header: &Header) {
        // A day is more than 2^31 us.
        let clamped = delay_us.clamp(i32::MIN.into(), i32::MAX.into());
        self.arrivals.push(Displayed {
            at_ms: since_ms,
            delay_us: clamped as i32,
        });
        if let Some(before) = self.previous_delay_us.replace(delay_us) {
            let difference = (delay_us - before).abs() as f64;
            self.jitter_sum_us += difference;
            self.jitter_rfc3550_us += (difference - self.jitter_rfc3550_us) / 16.0;
        }
        let sequence = header.sequence;
        let (first, last) = self.sequences.unwrap_or((sequence, sequence));
        self.sequences = Some((first.min(sequence), last.max(sequence)));
        self.missing.came(sequence, header.given_up);
        let bps = u64::from(header.bitrate_bps);
        let bitrate = self.bitrate.get_or_insert(Bitrates {
            sum: 0.0,
            last: bps,
            report: BitrateReport {
                mean_bps: 0.0,
                min_bps: bps,
                max_bps: bps,
                switches: 0,
            },
        });
        bitrate.sum += bps as f64;
        bitrate.report.min_bps = bitrate.report.min_bps.min(bps);
        bitrate.report.max_bps = bitrate.report.max_bps.max(bps);
        bitrate.report.switches += u64::from(bps != bitrate.last);
        bitrate.last = bps;
    }
}
