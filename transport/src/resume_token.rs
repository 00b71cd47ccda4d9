//! Tokens with which a later connection resumes at the rate that a path carried before.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use evenkeel_congestion::{InitialWindow, Remembered};

use crate::path::PathState;

/// What the path to a peer carried, to resume with: [`Context::resume_token`](crate::Context::resume_token) gives it, and
/// [`EndpointBuilder::resuming`](crate::EndpointBuilder::resuming) begins a later connection with it
/// (RFC 9959).
///
/// It is written and read as a line of text, such as `203.0.113.7 31250000 600000 1794000000`: the
/// address, bytes of UDP payload per second, the least round trip in microseconds, and the second in
/// Unix time at which it was true. Keep it where only the application writes. Text that claims too
/// much makes at most one round trip of loss; [`EndpointBuilder::resuming`](crate::EndpointBuilder::resuming)
/// has the bounds.
///
/// ```
/// use evenkeel::ResumeToken;
///
/// let token: ResumeToken = "203.0.113.7 31250000 600000 1794000000".parse()?;
/// assert_eq!((token.rate, token.min_rtt.as_millis()), (31_250_000, 600));
/// assert_eq!(token.to_string(), "203.0.113.7 31250000 600000 1794000000");
/// # Ok::<(), evenkeel::InvalidResumeToken>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResumeToken {
    /// The peer's address.
    pub peer: IpAddr,
    /// Bytes of UDP payload per second, 1 to 12.5 billion (100 Gb/s).
    pub rate: u64,
    /// The least round trip, up to 10 s.
    pub min_rtt: Duration,
    /// When it was so, in whole seconds.
    pub at: SystemTime,
}

/// The greatest rate, in bytes per second: 100 Gb/s.
const MOST_RATE: u64 = 12_500_000_000;

/// The longest round trip.
const MOST_RTT: Duration = Duration::from_secs(10);

/// A memory older than this is forgotten: paths and their other users change.
const LIFETIME: Duration = Duration::from_secs(3600);

impl ResumeToken {
    /// The path to `peer` carries `rate` bytes of UDP payload per second and has a least round trip
    /// of `min_rtt`, at time `at`. Values beyond those that the fields allow become the greatest.
    pub fn new(peer: IpAddr, rate: u64, min_rtt: Duration, at: SystemTime) -> Self {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            peer: peer.to_canonical(),
            rate: rate.clamp(1, MOST_RATE),
            min_rtt: min_rtt.min(MOST_RTT),
            at: UNIX_EPOCH + Duration::from_secs(since.as_secs()),
        }
    }

    /// What `path`, to `peer`, carries at `now`. `None` before the first round trip is over, or if
    /// any new connection begins with as much.
    pub(crate) fn of(path: &PathState, peer: IpAddr, now: SystemTime) -> Option<Self> {
        let memory = Self::new(peer, path.delivered_rate?, path.min_rtt?, now);
        let initial = InitialWindow::default().bytes(path.mtu);
        (memory.window() > initial).then_some(memory)
    }

    /// Whether a connection to `peer` may use it at `now`: it is of this address, and at most an hour
    /// old.
    pub fn is_for(&self, peer: IpAddr, now: SystemTime) -> bool {
        let age = now.duration_since(self.at);
        self.peer == peer.to_canonical() && age.is_ok_and(|age| age <= LIFETIME)
    }

    /// What the controller needs of it.
    pub(crate) fn for_controller(&self, streams: u16) -> Remembered {
        Remembered {
            window: self.window(),
            min_rtt: self.min_rtt,
            streams,
        }
    }

    /// Bytes of UDP payload in a round trip.
    fn window(&self) -> u64 {
        (self.rate as f64 * self.min_rtt.as_secs_f64()) as u64
    }
}

impl fmt::Display for ResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (rtt, at) = (self.min_rtt.as_micros(), at.as_secs());
        write!(f, "{} {} {rtt} {at}", self.peer, self.rate)
    }
}

/// The error for a text that is no [`ResumeToken`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidResumeToken;

impl fmt::Display for InvalidResumeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no resume token; write ADDRESS BYTES-PER-SECOND MICROSECONDS UNIX-SECONDS")
    }
}

impl Error for InvalidResumeToken {}

impl FromStr for ResumeToken {
    type Err = InvalidResumeToken;

    fn from_str(text: &str) -> Result<Self, InvalidResumeToken> {
        let words: Vec<_> = text.split_ascii_whitespace().collect();
        let [peer, rate, rtt, at] = words[..] else {
            return Err(InvalidResumeToken);
        };
        let peer = peer.parse().map_err(|_| InvalidResumeToken)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| InvalidResumeToken);
        let at = UNIX_EPOCH.checked_add(Duration::from_secs(number(at)?));
        let rtt = Duration::from_micros(number(rtt)?);
        Ok(Self::new(
            peer,
            number(rate)?,
            rtt,
            at.ok_or(InvalidResumeToken)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::ms;
    use proptest::prelude::*;

    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 7));

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(second)
    }

    #[test]
    fn a_memory_is_for_its_address_and_for_an_hour() {
        let memory = ResumeToken::new(PEER, 1_000_000, ms(100), at(10_000));
        assert!(memory.is_for(PEER, at(10_000)));
        assert!(memory.is_for("::ffff:203.0.113.7".parse().expect("one"), at(13_600)));
        assert!(!memory.is_for(PEER, at(13_601)));
        assert!(!memory.is_for(PEER, at(9_999)), "clocks that go back");
        assert!(!memory.is_for("203.0.113.8".parse().expect("one"), at(10_000)));
    }

    #[test]
    fn a_path_that_carried_an_initial_window_or_less_is_not_worth_a_memory() {
        let path = |rate| PathState {
            mtu: 1200,
            delivered_rate: rate,
            min_rtt: Some(ms(100)),
            ..PathState::default()
        };
        assert_eq!(ResumeToken::of(&path(None), PEER, at(0)), None);
        assert_eq!(ResumeToken::of(&path(Some(120_000)), PEER, at(0)), None);
        let memory = ResumeToken::of(&path(Some(1_000_000)), PEER, at(7));
        assert_eq!(
            memory.map(|memory| memory.to_string()).as_deref(),
            Some("203.0.113.7 1000000 100000 7")
        );
    }

    proptest! {
        #[test]
        fn memories_are_read_as_they_are_written(
            rate in 1..=MOST_RATE, rtt in 0..=10_000_000_u64, second in 0..=u64::from(u32::MAX),
        ) {
            let memory = ResumeToken::new(PEER, rate, Duration::from_micros(rtt), at(second));
            prop_assert_eq!(memory.to_string().parse(), Ok(memory));
        }

        #[test]
        fn whatever_the_text_a_memory_stays_within_bounds(text in "[0-9a-f.: -]{0,60}|[0-9]{1,3}(\\.[0-9]{1,3}){3}( [0-9]{1,22}){3}") {
            if let Ok(memory) = text.parse::<ResumeToken>() {
                prop_assert!((1..=MOST_RATE).contains(&memory.rate));
                prop_assert!(memory.min_rtt <= MOST_RTT);
            }
        }
    }
}
