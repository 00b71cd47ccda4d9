//! Finds times in which the process did not run, and takes them out of a controller's time.
//!
//! A process that is stopped, frozen or blocked reads ACKs late: they waited in its own socket, and
//! the wait is no part of the path. The stack gets no notice of a pause; it has to infer one from silence. While a packet is
//! in flight, a probe leaves after the probe timeout at the latest, and after twice the time before
//! if that one gets no ACK either (RFC 9002, section 6.2). A far longer silence while a packet is
//! in flight means that the process did not run. A blackout of the link is no such silence:
//! probes leave in it.

use std::time::{Duration, Instant};

use crate::controller::Delivery;

/// The least timer (RFC 9002, section 6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);

/// A silence is a pause if it is longer than twice the longest time that the stack's timers allow, plus
/// 100 ms for late wake-ups.
const CERTAINTY: u32 = 2;
const LATENESS: Duration = Duration::from_millis(100);

/// The probe timeouts that persistent congestion spans at least: kPersistentCongestionThreshold
/// (RFC 9002, section 7.6.1).
const PERSISTENT: u32 = 3;

/// The silences of one path.
#[derive(Debug, Clone)]
pub(crate) struct Pauses {
    /// When the stack last called.
    last: Instant,
    /// Smoothed round trip and its variation (RFC 9002, section 5.3), ACKs that waited included, as
    /// the stack's timers go by them.
    rtt: Option<(Duration, Duration)>,
    /// The longest for which the peer delays ACKs.
    max_ack_delay: Duration,
    /// The longest silence since the last ACK: the next probe comes after twice the time.
    longest: Duration,
    /// A silence that is a pause if a packet was in flight.
    suspect: Option<Pause>,
    latest: Option<Pause>,
    /// All pauses before the latest.
    before: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    /// The last call before it, and the first one after it.
    begin: Instant,
    end: Instant,
    /// ACKs have been processed since.
    is_acked: bool,
}

impl Pause {
    fn length(&self) -> Duration {
        self.end.saturating_duration_since(self.begin)
    }
}

impl Pauses {
    /// A path begins at `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last: now,
            rtt: None,
            max_ack_delay: Duration::ZERO,
            longest: Duration::ZERO,
            suspect: None,
            latest: None,
            before: Duration::ZERO,
        }
    }

    /// Something left at `now`.
    pub(crate) fn on_sent(&mut self, now: Instant) {
        let silence = now.saturating_duration_since(self.last);
        // Most silences need no look at the timers.
        let timeout = (silence > LATENESS).then(|| self.probe_timeout()).flatten();
        let is_suspect = timeout.is_some_and(|timeout| {
            let longest = timeout.max(self.longest.saturating_mul(2));
            silence > longest.saturating_mul(CERTAINTY).saturating_add(LATENESS)
        });
        if is_suspect {
            self.suspect = Some(Pause {
                begin: self.last,
                end: now,
                is_acked: false,
            });
        } else {
            self.longest = self.longest.max(silence);
        }
        self.last = self.last.max(now);
    }

    /// The stack reports at `now` that a packet sent at `sent` was acknowledged or lost: it was in
    /// flight from then on.
    pub(crate) fn on_packet(&mut self, now: Instant, sent: Instant) {
        // Not every packet is reported when it leaves.
        self.last = self.last.max(sent);
        self.on_sent(now);
        if let Some(pause) = self.suspect.take_if(|pause| sent <= pause.begin) {
            self.before += self.latest.map_or(Duration::ZERO, |pause| pause.length());
            self.latest = Some(pause);
        }
    }

    /// An ACK frame of a peer that delays ACKs by up to `max_ack_delay` is processed at `now`. Its
    /// newest packet was sent at `sent`. Returns whether the latest pause lies between.
    pub(crate) fn on_ack(&mut self, now: Instant, sent: Instant, max_ack_delay: Duration) -> bool {
        (self.longest, self.max_ack_delay) = (Duration::ZERO, max_ack_delay);
        let sample = now.saturating_duration_since(sent);
        self.rtt = Some(match self.rtt {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => (
                smoothed * 7 / 8 + sample / 8,
                variation * 3 / 4 + smoothed.abs_diff(sample) / 4,
            ),
        });
        self.latest.as_mut().is_some_and(|pause| {
            pause.is_acked = true;
            sent <= pause.begin && pause.begin < now
        })
    }

    /// Whether what a path header measured at `now` includes the latest pause. The peer may have held
    /// the header, which `rtt` does not include.
    pub(super) fn span_header(&self, rtt: Duration, now: Instant) -> bool {
        self.latest.is_some_and(|pause| {
            let since = now.saturating_duration_since(pause.end);
            pause.begin < now && since < rtt
        })
    }

    /// Whether a timer found the loss of a packet sent at `sent`, because its ACK waits.
    pub(super) fn explain_loss(&self, sent: Instant) -> bool {
        self.latest
            .is_some_and(|pause| sent <= pause.begin && !pause.is_acked)
    }

    /// Whether the time for which all packets up to one sent at `sent` were lost may be the latest
    /// pause's.
    pub(super) fn explain_persistent(&self, sent: Instant) -> bool {
        let timeout = self.probe_timeout().unwrap_or_default();
        self.latest.is_some_and(|pause| {
            let since = sent.saturating_duration_since(pause.end);
            sent > pause.begin && since <= timeout * PERSISTENT
        })
    }

    /// Returns the controller's time at `at`: pauses take none.
    pub(super) fn without_pauses(&self, at: Instant) -> Instant {
        let Some(pause) = self.latest else {
            return at;
        };
        let (at, paused) = match at < pause.end {
            true => (at.min(pause.begin), self.before),
            false => (at, self.before + pause.length()),
        };
        at.checked_sub(paused).unwrap_or(at)
    }

    /// Takes the latest pause out of the times of a delivery: that of a packet sent at `sent` and
    /// acknowledged at `now`.
    pub(super) fn shorten(&self, mut delivery: Delivery, sent: Instant, now: Instant) -> Delivery {
        let Some(pause) = self.latest else {
            return delivery;
        };
        for (interval, end) in [
            (&mut delivery.send_interval, sent),
            (&mut delivery.ack_interval, now),
        ] {
            let since = end.saturating_duration_since(pause.end);
            if end >= pause.end && *interval >= since + pause.length() {
                *interval -= pause.length();
            }
        }
        delivery
    }

    /// The time after which a probe leaves; `None` before the first round trip.
    fn probe_timeout(&self) -> Option<Duration> {
        let (smoothed, variation) = self.rtt?;
        Some(smoothed + (variation * 4).max(GRANULARITY) + self.max_ack_delay)
    }
}
