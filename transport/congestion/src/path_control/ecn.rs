//! Knows with which ECN codepoint packets leave, and what the path makes of it.

use std::fmt;
use std::str::FromStr;

use evenkeel_spec::SpecError;

use crate::controller::EcnMode;

/// How an endpoint uses ECN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum EcnUse {
    /// `classic`: packets leave as ECT(0), and a mark counts as a loss (RFC 3168, RFC 9002).
    #[default]
    Classic,
    /// `l4s`: packets leave as ECT(1) if the controller [asks for it](EcnMode::Scalable) and the path
    /// leaves that codepoint alone (RFC 9331); otherwise as with `classic`.
    L4s,
    /// `off`: packets leave as not ECN-capable. Routers drop instead of marking.
    Off,
}

impl EcnUse {
    /// All variants.
    pub const ALL: [Self; 3] = [Self::Classic, Self::L4s, Self::Off];

    /// Returns its name in command lines, scenarios and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::L4s => "l4s",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for EcnUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for EcnUse {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let found = Self::ALL.into_iter().find(|usage| usage.name() == text);
        let names = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| {
            SpecError::new(format!(
                "no use of ECN is called {text:?}; use one of {names}"
            ))
        })
    }
}

/// Why packets do not leave with the ECN codepoint that the endpoint and its controller want.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EcnFault {
    /// The peer's counts do not confirm ECN: the path clears it, or the peer does not report it
    /// (RFC 9000, section 13.4.2). Packets leave as not ECN-capable.
    Unconfirmed,
    /// The path turns ECT(1) into ECT(0), which hides scalable senders from their queues. Packets
    /// leave as ECT(0).
    Remarked,
    /// Every packet that left as ECT(1) was marked, for eight round trips and without a queue that
    /// they show: an L4S queue has no room for windows as small as this one. Packets leave as ECT(0).
    Saturated,
    /// The path marks every packet, for eight round trips and without a queue. Packets leave as
    /// not ECN-capable.
    AllMarked,
}

impl EcnFault {
    /// Returns its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unconfirmed => "unconfirmed",
            Self::Remarked => "remarked",
            Self::Saturated => "saturated",
            Self::AllMarked => "all-marked",
        }
    }
}

/// How many packets have arrived with each ECN codepoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// With ECT(0).
    pub ect0: u64,
    /// With ECT(1).
    pub ect1: u64,
    /// With CE, congestion experienced.
    pub ce: u64,
}

impl EcnCounts {
    /// Returns the larger of each two counts: ACK frames overtake each other.
    fn max(self, other: Self) -> Self {
        Self {
            ect0: self.ect0.max(other.ect0),
            ect1: self.ect1.max(other.ect1),
            ce: self.ce.max(other.ce),
        }
    }

    /// Returns what was counted since `before`.
    fn since(self, before: Self) -> Self {
        Self {
            ect0: self.ect0.saturating_sub(before.ect0),
            ect1: self.ect1.saturating_sub(before.ect1),
            ce: self.ce.saturating_sub(before.ce),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            ect0: self.ect0.saturating_add(other.ect0),
            ect1: self.ect1.saturating_add(other.ect1),
            ce: self.ce.saturating_add(other.ce),
        }
    }
}

/// What a path does to ECN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EcnReport {
    /// The codepoint with which packets leave: `None` for not ECN-capable.
    pub sends: Option<EcnMode>,
    /// Why packets do not leave with the codepoint that the endpoint and its controller want.
    pub fault: Option<EcnFault>,
    /// How many packets have reached the peer with each codepoint, as it reports. Packets that were
    /// under way when the path changed may count.
    pub arrived: EcnCounts,
    /// How many packets of the peer have arrived here with each codepoint, over all paths, as this
    /// end has reported them in its ACKs.
    pub received: EcnCounts,
}

/// A packet number space whose packets are counted: RFC 9000, section 12.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedSpace {
    /// Of Initial packets.
    Initial,
    /// Of Handshake packets.
    Handshake,
    /// Of 0-RTT and 1-RTT packets.
    Data,
}

/// ECN on a connection's present path.
#[derive(Debug, Clone, Default)]
pub struct EcnState {
    usage: EcnUse,
    wish: EcnMode,
    fault: Option<EcnFault>,
    /// The peer's newest counts for each packet number space.
    reported: [EcnCounts; 3],
    /// This end's newest counts for each packet number space.
    received: [EcnCounts; 3],
    /// What the path before had counted.
    before: EcnCounts,
    /// Marks of which the controller has not heard.
    marked: u64,
    /// Packets that have left as ECT(0).
    sent_classic: u64,
}

/// A datagram of a handshake holds several packets, each of which the peer counts. If it counts up to
/// this many ECT(0) packets more than ECT(0) datagrams left, the path has not re-marked them.
const COALESCED: u64 = 16;

impl EcnState {
    /// Sets how the endpoint uses ECN: before the path's controller is built.
    pub fn set_use(&mut self, usage: EcnUse) {
        self.usage = usage;
    }

    /// A path begins: what the one before did to ECN is over.
    pub fn new_path(&mut self) {
        self.fault = None;
        self.marked = 0;
        self.before = self.total();
        self.sent_classic = self.sent_classic.max(self.before.ect0);
    }

    /// Returns the codepoint with which packets leave: `None` for not ECN-capable.
    pub fn sends(&self) -> Option<EcnMode> {
        match (self.usage, self.fault) {
            (EcnUse::Off, _) | (_, Some(EcnFault::Unconfirmed | EcnFault::AllMarked)) => None,
            (EcnUse::L4s, None) => Some(self.wish),
            (EcnUse::L4s | EcnUse::Classic, _) => Some(EcnMode::Classic),
        }
    }

    /// Returns the codepoint with which these `datagrams` leave. `by_stack` says whether the QUIC stack sends them
    /// as ECT(0): it stops when it finds that the path clears ECN, and sends probes of other paths
    /// without; `is_data` tells data from those.
    pub fn leaving(&mut self, datagrams: usize, by_stack: bool, is_data: bool) -> Option<EcnMode> {
        match (by_stack, self.fault) {
            (true, Some(EcnFault::Unconfirmed)) => self.fault = None,
            (false, None | Some(EcnFault::Remarked | EcnFault::Saturated))
                if is_data && self.usage != EcnUse::Off =>
            {
                self.fault = Some(EcnFault::Unconfirmed);
            }
            _ => {}
        }
        let leaves = self.sends().filter(|_| by_stack);
        if leaves == Some(EcnMode::Classic) {
            self.sent_classic = self.sent_classic.saturating_add(datagrams as u64);
        }
        leaves
    }

    /// The peer reports these counts in an ACK frame, which the QUIC stack processes next.
    pub fn on_counts(&mut self, space: CountedSpace, counts: EcnCounts) {
        let reported = &mut self.reported[space as usize];
        let newest = reported.max(counts);
        self.marked = self.marked.saturating_add(newest.since(*reported).ce);
        *reported = newest;
        let allowed = match self.sent_classic {
            0 => 0,
            sent => sent.saturating_add(COALESCED),
        };
        if self.sends() == Some(EcnMode::Scalable) && self.total().ect0 > allowed {
            self.fault = Some(EcnFault::Remarked);
        }
    }

    /// This end reports these counts in an ACK frame that it sends.
    pub fn on_received(&mut self, space: CountedSpace, counts: EcnCounts) {
        let received = &mut self.received[space as usize];
        *received = received.max(counts);
    }

    /// Returns what an application sees of it.
    pub fn report(&self) -> EcnReport {
        EcnReport {
            sends: self.sends(),
            fault: self.fault,
            arrived: self.total().since(self.before),
            received: sum(&self.received),
        }
    }

    /// The controller wants this; returns as what packets leave.
    pub(super) fn wish(&mut self, wish: EcnMode) -> Option<EcnMode> {
        self.wish = wish;
        self.sends()
    }

    /// Marks have this fault.
    pub(super) fn set_fault(&mut self, fault: EcnFault) {
        self.fault = Some(fault);
    }

    /// Returns how many packets were newly reported as marked.
    pub(super) fn take_marked(&mut self) -> u64 {
        std::mem::take(&mut self.marked)
    }

    fn total(&self) -> EcnCounts {
        sum(&self.reported)
    }
}

fn sum(spaces: &[EcnCounts]) -> EcnCounts {
    let spaces = spaces.iter().copied();
    spaces.fold(EcnCounts::default(), EcnCounts::plus)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ect1: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1, ce }
    }

    fn scalable() -> EcnState {
        let mut state = EcnState::default();
        state.set_use(EcnUse::L4s);
        assert_eq!(state.wish(EcnMode::Scalable), Some(EcnMode::Scalable));
        state
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for usage in EcnUse::ALL {
            assert_eq!(usage.to_string().parse(), Ok(usage));
        }
        let error = "on".parse::<EcnUse>().expect_err("it is none of them");
        assert_eq!(
            error.to_string(),
            r#"no use of ECN is called "on"; use one of classic, l4s, off"#
        );
    }

    #[test]
    fn packets_leave_as_the_endpoint_allows_and_the_controller_wishes() {
        let sends = |usage, wish| {
            let mut state = EcnState::default();
            state.set_use(usage);
            state.wish(wish)
        };
        let (classic, scalable) = (EcnMode::Classic, EcnMode::Scalable);
        assert_eq!(sends(EcnUse::Classic, scalable), Some(classic));
        assert_eq!(sends(EcnUse::L4s, classic), Some(classic));
        assert_eq!(sends(EcnUse::L4s, scalable), Some(scalable));
        assert_eq!(sends(EcnUse::Off, scalable), None);
    }

    #[test]
    fn marks_of_all_spaces_count_once_each_also_if_frames_overtake_each_other() {
        let mut state = scalable();
        state.on_counts(CountedSpace::Initial, counts(0, 1, 1));
        state.on_counts(CountedSpace::Data, counts(0, 5, 2));
        assert_eq!(state.take_marked(), 3);
        state.on_counts(CountedSpace::Data, counts(0, 9, 6));
        state.on_counts(CountedSpace::Data, counts(0, 7, 4));
        assert_eq!((state.take_marked(), state.take_marked()), (4, 0));
        assert_eq!(state.report().arrived, counts(0, 10, 7));
        // A peer may report anything.
        for _ in 0..3 {
            state.on_counts(CountedSpace::Handshake, counts(0, u64::MAX, u64::MAX));
        }
        assert_eq!(state.report().fault, None);
    }

    #[test]
    fn a_path_that_turns_ect1_into_ect0_gets_ect0_until_the_path_changes() {
        let mut state = scalable();
        state.on_counts(CountedSpace::Initial, counts(0, 2, 0));
        assert_eq!(state.leaving(1, true, true), Some(EcnMode::Scalable));
        state.on_counts(CountedSpace::Data, counts(1, 2, 0));
        assert_eq!(state.report().fault, Some(EcnFault::Remarked));
        assert_eq!(state.leaving(1, true, true), Some(EcnMode::Classic));
        state.new_path();
        assert_eq!(state.leaving(1, true, true), Some(EcnMode::Scalable));
        assert_eq!(state.report().arrived, counts(0, 0, 0));
    }

    #[test]
    fn ect0_that_was_sent_as_such_is_no_fault() {
        let mut state = scalable();
        state.wish(EcnMode::Classic);
        assert_eq!(state.leaving(10, true, true), Some(EcnMode::Classic));
        state.wish(EcnMode::Scalable);
        state.on_counts(CountedSpace::Data, counts(26, 90, 0));
        assert_eq!(state.report().fault, None);
        state.on_counts(CountedSpace::Data, counts(27, 90, 0));
        assert_eq!(state.report().fault, Some(EcnFault::Remarked));
    }

    #[test]
    fn a_stack_that_stops_sending_ecn_says_that_the_path_clears_it() {
        let mut state = scalable();
        // A path challenge.
        assert_eq!(state.leaving(1, false, false), None);
        assert_eq!(state.report().fault, None);
        assert_eq!(state.leaving(1, false, true), None);
        assert_eq!(state.report().fault, Some(EcnFault::Unconfirmed));
        // On a path with another port it tries again.
        assert_eq!(state.leaving(1, true, true), Some(EcnMode::Scalable));
        // What the endpoint has switched off is no fault.
        state.set_use(EcnUse::Off);
        assert_eq!(state.leaving(1, false, true), None);
        assert_eq!(state.report().fault, None);
    }
}
