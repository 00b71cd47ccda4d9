//! Writes path headers as senders do, and reads them as receivers do.

use std::fmt;
use std::time::Duration;

use super::compact::{
    CompactBytes, CompactCount, CompactTime, Feedback, HeaderTimestamp, QueueingTime,
};
use super::layout::{
    self, ECHO_LIFETIME, ECHOED_PHASE, HOP_LIMIT_MASK, NOTHING_ECHOED, PATH_HEADER_LEN,
    PATH_HEADER_MAGIC, PHASE, Skipped, field, flag,
};
use crate::field::{array, word};

/// The algorithm whose signals a header carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathHeaderKind {
    /// AQT (RoVegas) and a rate by ACP's link algorithm.
    Acp,
    /// AQT and a rate by RCP's link algorithm (Dukkipati et al., IWQoS 2005).
    Rcp,
    /// AQT and a window change by XCP's link algorithm (Katabi, Handley, Rohrs, SIGCOMM 2002).
    Xcp {
        /// H_cwnd: the sender's congestion window.
        window: CompactBytes,
    },
}

impl PathHeaderKind {
    fn number(self) -> u8 {
        match self {
            Self::Acp => 1,
            Self::Rcp => 2,
            Self::Xcp { .. } => 3,
        }
    }
}

/// A path header of this version and a known kind, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathHeaderView<'a> {
    pub(super) bytes: &'a [u8; PATH_HEADER_LEN],
}

impl<'a> PathHeaderView<'a> {
    /// Reads the header at the start of a UDP payload.
    ///
    /// # Errors
    /// [`Skipped`] if there is none, or its version or kind is unknown.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Skipped> {
        layout::check(payload)?;
        Ok(Self {
            bytes: payload
                .first_chunk()
                .expect("a known kind has this length, and the payload is not shorter"),
        })
    }

    /// Returns the algorithm whose signals the header carries.
    pub fn kind(&self) -> PathHeaderKind {
        match layout::kind_number(self.bytes) {
            1 => PathHeaderKind::Acp,
            2 => PathHeaderKind::Rcp,
            // `parse` lets no other number through.
            _ => PathHeaderKind::Xcp {
                window: CompactBytes(word(self.bytes, field::WINDOW)),
            },
        }
    }

    /// Returns H_rtt, the sender's smoothed round-trip time; zero if unknown, or if routers should
    /// not count the sender because it follows no feedback.
    pub fn rtt(&self) -> CompactTime {
        CompactTime::from_bytes(array(self.bytes, field::RTT)).unwrap_or(CompactTime::MAX)
    }

    /// Returns what the routers have written so far.
    pub fn signals(&self) -> Signals {
        let flags = self.bytes[field::FLAGS];
        Signals {
            queueing_time: QueueingTime::from_bytes(array(self.bytes, field::QUEUEING_TIME)),
            feedback: Feedback(array(self.bytes, field::FEEDBACK)),
            contention: self.contention(field::CONTENTION),
            flags: SignalFlags::from_bits(flags),
            hop_limit: self.bytes[field::PHASES_HOP_LIMIT] & HOP_LIMIT_MASK,
        }
    }

    /// Returns the parity of the sender's key generation, which changes with the sender's path.
    pub fn phase(&self) -> bool {
        self.bytes[field::PHASES_HOP_LIMIT] & PHASE != 0
    }

    /// Returns when the sender sent this, by its clock.
    pub fn timestamp(&self) -> HeaderTimestamp {
        HeaderTimestamp::from_bytes(array(self.bytes, field::TIMESTAMP))
    }

    /// Returns what the sender echoes of a header that it received; `None` if it echoes nothing.
    pub fn echo(&self) -> Option<Echo> {
        let flags = self.bytes[field::FLAGS] << flag::ECHO_SHIFT;
        Some(Echo {
            // The one code that is no time means that there is no echo.
            held: CompactTime::from_bytes(array(self.bytes, field::HELD))?,
            timestamp: HeaderTimestamp::from_bytes(array(self.bytes, field::ECHOED_TIMESTAMP)),
            phase: self.bytes[field::PHASES_HOP_LIMIT] & ECHOED_PHASE != 0,
            queueing_time: CompactTime::from_bytes(array(self.bytes, field::ECHOED_QUEUEING_TIME))
                .unwrap_or(CompactTime::MAX),
            feedback: Feedback(array(self.bytes, field::ECHOED_FEEDBACK)),
            contention: self.contention(field::ECHOED_CONTENTION),
            flags: SignalFlags::from_bits(flags),
        })
    }

    /// Returns the check over [`PathHeaderRepr::covered_by_tag`].
    pub fn tag(&self) -> [u8; 4] {
        array(self.bytes, field::TAG)
    }

    /// Returns the bytes before the tag, with zeros for what routers write: the same at both ends
    /// unless somebody has changed a protected field.
    pub fn covered_by_tag(&self) -> [u8; 28] {
        let mut covered = array(self.bytes, field::COVERED);
        covered[field::FLAGS] &= !(u8::MAX << flag::ECHO_SHIFT);
        covered[field::QUEUEING_TIME].fill(0);
        covered[field::PHASES_HOP_LIMIT] &= PHASE | ECHOED_PHASE;
        covered[field::FEEDBACK].fill(0);
        if self.has_contention() {
            covered[field::CONTENTION] = 0;
        }
        covered
    }

    pub(super) fn has_contention(&self) -> bool {
        !matches!(self.kind(), PathHeaderKind::Xcp { .. })
    }

    fn contention(&self, at: usize) -> CompactCount {
        if self.has_contention() {
            CompactCount(self.bytes[at])
        } else {
            CompactCount::NONE
        }
    }
}

impl fmt::Display for PathHeaderView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        let feedback = |f: &mut fmt::Formatter<'_>, feedback: Feedback| match kind {
            PathHeaderKind::Xcp { .. } => write!(f, "{}", feedback.window_change()),
            _ => write!(f, "{}", feedback.rate()),
        };
        let signals = self.signals();
        match kind {
            PathHeaderKind::Acp => f.write_str("path header acp")?,
            PathHeaderKind::Rcp => f.write_str("path header rcp")?,
            PathHeaderKind::Xcp { window } => {
                write!(f, "path header xcp, window {} B", window.bytes())?;
            }
        }
        write!(f, ", rtt {:?}", self.rtt().duration())?;
        write!(f, ", aqt {:?}", signals.queueing_time.duration())?;
        f.write_str(", feedback ")?;
        feedback(f, signals.feedback)?;
        write!(f, ", flows {}", signals.contention.flows())?;
        write!(f, ", flags [{}]", signals.flags)?;
        write!(f, ", hop limit {}", signals.hop_limit)?;
        write!(f, ", time {}", self.timestamp().micros())?;
        if let Some(echo) = self.echo() {
            write!(f, ", echo time {}", echo.timestamp.micros())?;
            write!(f, " held {:?}", echo.held.duration())?;
            write!(f, " aqt {:?}", echo.queueing_time.duration())?;
            f.write_str(" feedback ")?;
            feedback(f, echo.feedback)?;
            write!(f, " flows {}", echo.contention.flows())?;
            write!(f, " flags [{}]", echo.flags)?;
        }
        write!(f, ", tag {:08x}", u32::from_be_bytes(self.tag()))
    }
}

/// What precedes the QUIC packet in a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathHeaderPrefix<'a> {
    /// A header to read.
    Known(PathHeaderView<'a>),
    /// A header of another version or kind: remove it unread.
    Unknown,
}

/// Splits a UDP payload into its path header and the QUIC packet after it. `None` without a whole
/// header: then the payload is the packet. Splits off at most one header.
pub fn split_path_header(payload: &[u8]) -> Option<(PathHeaderPrefix<'_>, &[u8])> {
    let prefix = match PathHeaderView::parse(payload) {
        Ok(view) => PathHeaderPrefix::Known(view),
        Err(Skipped::Version | Skipped::Kind) => PathHeaderPrefix::Unknown,
        Err(Skipped::Foreign | Skipped::Truncated | Skipped::Untouchable) => return None,
    };
    let len = layout::stated_len(*payload.get(field::VERSION_KIND_LENGTH)?);
    Some((prefix, payload.get(len..)?))
}

/// What routers write into a header on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signals {
    /// AQT: the sum of the queueing times at the routers that have stamped.
    pub queueing_time: QueueingTime,
    /// H_feedback: the least of what the sender wants and what routers offer.
    pub feedback: Feedback,
    /// Distinct flows at the most crowded link that counted them; none in an XCP header.
    pub contention: CompactCount,
    /// The one-bit signals.
    pub flags: SignalFlags,
    /// The low six bits of the TTL or hop limit with which the packet left the sender or the last
    /// stamping router, 0 to 63.
    pub hop_limit: u8,
}

impl Signals {
    /// Returns a sender's signals. `desired` is the most that it could use, `hop_limit` its
    /// TTL on leaving this host; without it, no router can tell that every hop has stamped.
    pub fn initial(desired: impl Into<Feedback>, hop_limit: Option<u8>) -> Self {
        Self {
            queueing_time: QueueingTime::ZERO,
            feedback: desired.into(),
            contention: CompactCount::NONE,
            flags: SignalFlags {
                gap: hop_limit.is_none(),
                ..SignalFlags::default()
            },
            hop_limit: hop_limit.unwrap_or(0) & HOP_LIMIT_MASK,
        }
    }
}

/// The one-bit signals; routers only ever set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalFlags {
    /// A router has stamped the queueing time, even if zero.
    pub stamped: bool,
    /// A hop on the way has not stamped, or may not have: a hint, not a proof.
    pub gap: bool,
    /// H_congestion: a link on the way is about to be congested.
    pub congested: bool,
    /// A router has merged its feedback, whether or not it lowered it.
    pub offered: bool,
}

impl SignalFlags {
    /// Reads the high nibble.
    pub(super) fn from_bits(bits: u8) -> Self {
        Self {
            stamped: bits & flag::STAMPED != 0,
            gap: bits & flag::GAP != 0,
            congested: bits & flag::CONGESTED != 0,
            offered: bits & flag::OFFERED != 0,
        }
    }

    /// Returns the high nibble.
    pub(super) fn bits(self) -> u8 {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(self.stamped, flag::STAMPED)
            | bit(self.gap, flag::GAP)
            | bit(self.congested, flag::CONGESTED)
            | bit(self.offered, flag::OFFERED)
    }
}

impl fmt::Display for SignalFlags {
    /// Writes a letter for each flag that is set, as tcpdump does for TCP.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (set, letter) in [
            (self.stamped, "S"),
            (self.gap, "G"),
            (self.congested, "C"),
            (self.offered, "R"),
        ] {
            f.write_str(if set { letter } else { "." })?;
        }
        Ok(())
    }
}

/// What a receiver sends back of the newest header that it has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The echoed header's timestamp.
    pub timestamp: HeaderTimestamp,
    /// The echoed header's phase.
    pub phase: bool,
    /// The time from its arrival until the echo was sent.
    pub held: CompactTime,
    /// Its AQT.
    pub queueing_time: CompactTime,
    /// Its feedback, to be read by its own kind: the header that carries the echo may have another.
    pub feedback: Feedback,
    /// Its contention; none in an XCP header.
    pub contention: CompactCount,
    /// Its flags.
    pub flags: SignalFlags,
}

impl Echo {
    /// Returns the echo of a header at the moment of its arrival.
    pub fn of(header: &PathHeaderView<'_>) -> Self {
        let signals = header.signals();
        Self {
            timestamp: header.timestamp(),
            phase: header.phase(),
            held: CompactTime::ZERO,
            queueing_time: CompactTime::from_duration(signals.queueing_time.duration()),
            feedback: signals.feedback,
            contention: signals.contention,
            flags: signals.flags,
        }
    }

    /// Returns the same echo, sent `held` later; `None` if by then the header is too old to tell
    /// from a later one ([`ECHO_LIFETIME`]).
    pub fn held_for(self, held: Duration) -> Option<Self> {
        (held <= ECHO_LIFETIME).then(|| Self {
            held: CompactTime::from_duration(held),
            ..self
        })
    }

    /// Returns the round-trip time of the echoed header, without the time it was held. `now` comes
    /// from the clock that made its timestamp. `None` if the time held exceeds the time passed, or
    /// the rest is half the clock's period or more: such an echo is implausible.
    pub fn round_trip(&self, now: HeaderTimestamp) -> Option<Duration> {
        let passed = now.since(self.timestamp);
        let round_trip = passed.checked_sub(self.held.duration())?;
        (round_trip < ECHO_LIFETIME).then_some(round_trip)
    }
}

/// A path header that evenkeel sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathHeaderRepr {
    /// The algorithm whose signals it asks for.
    pub kind: PathHeaderKind,
    /// H_rtt: the smoothed round-trip time; zero if unknown, or if routers should not count it.
    pub rtt: CompactTime,
    /// The signals as the first router finds them: [`Signals::initial`].
    pub signals: Signals,
    /// Parity of the sender's key generation.
    pub phase: bool,
    /// The time of sending.
    pub timestamp: HeaderTimestamp,
    /// The echo of the peer's newest header, if there is one.
    pub echo: Option<Echo>,
    /// The keyed check over [`PathHeaderRepr::covered_by_tag`].
    pub tag: [u8; 4],
}

impl PathHeaderRepr {
    /// Copies the fields of a view.
    pub fn parse(view: &PathHeaderView<'_>) -> Self {
        Self {
            kind: view.kind(),
            rtt: view.rtt(),
            signals: view.signals(),
            phase: view.phase(),
            timestamp: view.timestamp(),
            echo: view.echo(),
            tag: view.tag(),
        }
    }

    /// Returns the header's bytes. Omits contentions in kind XCP, which has no room for them.
    ///
    /// # Panics
    /// If `signals.hop_limit` exceeds 63: the field has six bits.
    pub fn emit(&self) -> [u8; PATH_HEADER_LEN] {
        assert!(self.signals.hop_limit <= HOP_LIMIT_MASK, "six bits");
        let mut bytes = [0; PATH_HEADER_LEN];
        bytes[field::MAGIC].copy_from_slice(&PATH_HEADER_MAGIC);
        bytes[field::VERSION_KIND_LENGTH] = layout::version_kind_length(self.kind.number());
        bytes[field::FLAGS] = self.signals.flags.bits();
        bytes[field::QUEUEING_TIME].copy_from_slice(&self.signals.queueing_time.to_bytes());
        bytes[field::PHASES_HOP_LIMIT] = self.signals.hop_limit;
        if self.phase {
            bytes[field::PHASES_HOP_LIMIT] |= PHASE;
        }
        bytes[field::FEEDBACK].copy_from_slice(&self.signals.feedback.0);
        match self.kind {
            PathHeaderKind::Acp | PathHeaderKind::Rcp => {
                bytes[field::CONTENTION] = self.signals.contention.0;
                bytes[field::ECHOED_CONTENTION] = self.echo.map_or(0, |echo| echo.contention.0);
            }
            PathHeaderKind::Xcp { window } => {
                bytes[field::WINDOW].copy_from_slice(&window.0.to_be_bytes());
            }
        }
        bytes[field::RTT].copy_from_slice(&self.rtt.to_bytes());
        bytes[field::TIMESTAMP].copy_from_slice(&self.timestamp.to_bytes());
        match &self.echo {
            None => bytes[field::HELD].copy_from_slice(&NOTHING_ECHOED),
            Some(echo) => {
                bytes[field::FLAGS] |= echo.flags.bits() >> flag::ECHO_SHIFT;
                if echo.phase {
                    bytes[field::PHASES_HOP_LIMIT] |= ECHOED_PHASE;
                }
                bytes[field::ECHOED_TIMESTAMP].copy_from_slice(&echo.timestamp.to_bytes());
                bytes[field::HELD].copy_from_slice(&echo.held.to_bytes());
                bytes[field::ECHOED_QUEUEING_TIME].copy_from_slice(&echo.queueing_time.to_bytes());
                bytes[field::ECHOED_FEEDBACK].copy_from_slice(&echo.feedback.0);
            }
        }
        bytes[field::TAG].copy_from_slice(&self.tag);
        bytes
    }

    /// Returns the bytes that the tag covers: those before it, with zeros for what routers write.
    /// `tag` itself has no influence.
    ///
    /// # Panics
    /// As [`PathHeaderRepr::emit`].
    pub fn covered_by_tag(&self) -> [u8; 28] {
        PathHeaderView {
            bytes: &self.emit(),
        }
        .covered_by_tag()
    }
}

/// Headers that differ only in their timestamps, and so in their tags.
#[derive(Debug, Clone)]
pub struct PathHeaderTemplate {
    bytes: [u8; PATH_HEADER_LEN],
    covered: [u8; 28],
}

impl PathHeaderTemplate {
    /// Prepares headers like `repr`, whose timestamp and tag have no influence.
    ///
    /// # Panics
    /// As [`PathHeaderRepr::emit`].
    pub fn new(repr: &PathHeaderRepr) -> Self {
        let bytes = repr.emit();
        let covered = PathHeaderView { bytes: &bytes }.covered_by_tag();
        Self { bytes, covered }
    }

    /// Returns the header with `timestamp` and the tag that `tag` computes over covered bytes.
    pub fn seal(
        &mut self,
        timestamp: HeaderTimestamp,
        tag: impl FnOnce(&[u8; 28]) -> [u8; 4],
    ) -> &[u8; PATH_HEADER_LEN] {
        let timestamp = timestamp.to_bytes();
        self.bytes[field::TIMESTAMP].copy_from_slice(&timestamp);
        self.covered[field::TIMESTAMP].copy_from_slice(&timestamp);
        self.bytes[field::TAG].copy_from_slice(&tag(&self.covered));
        &self.bytes
    }
}
