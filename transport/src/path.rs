//! Reports the state of a connection's path to applications.

use std::time::{Duration, Instant};

use evenkeel_congestion::{EcnReport, InitialWindow};

/// A connection's path as its congestion controller sees it. All of it begins anew when the path
/// changes.
///
/// ```
/// use evenkeel::{LimitedBy, PathState};
///
/// /// The rate for an encoder, in bits per second: a tenth below what the path carries.
/// fn encoder_rate(path: &PathState) -> Option<u64> {
///     path.rate_estimate().map(|rate| rate * 8 / 10 * 9)
/// }
///
/// /// Whether more data would leave sooner on a faster path.
/// fn is_held_by_path(path: &PathState) -> bool {
///     matches!(path.limited_by, LimitedBy::Window | LimitedBy::Pacing)
/// }
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct PathState {
    /// Bytes of UDP payload in a full-size packet.
    pub mtu: u16,
    /// The controller's own window in bytes, not the one that quinn sees.
    pub window: u64,
    /// The window in bytes at which slow start ends; `None` until set.
    pub slow_start_threshold: Option<u64>,
    /// The window in bytes that the path had before, if the connection
    /// [remembers](crate::EndpointBuilder::resuming) it. An application that limits what waits in quinn
    /// needs as much there from the beginning.
    pub resumed_window: Option<u64>,
    /// When the newest ACK was processed, by the clock of the endpoint's runtime; `None` before
    /// the first. The measurements below are as old.
    pub updated: Option<Instant>,
    /// Smoothed round trip time (RFC 9002, section 5.3); `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// The newest round trip time. Like all of them it includes the time for which the peer held
    /// its ACK back: at most 25 ms unless the peer says otherwise.
    pub latest_rtt: Option<Duration>,
    /// The least round trip time.
    pub min_rtt: Option<Duration>,
    /// Queueing delay without routers' word: by how much the least round trip time of the last
    /// round trip exceeds `min_rtt`. A longer route looks the same, and a queue that was never
    /// empty does not show.
    pub queueing_delay: Option<Duration>,
    /// Queueing delay that routers have added up in path headers, on both ways; `None` unless one
    /// has in the last four round trips. [`Context::path_sample`](crate::Context::path_sample)
    /// tells the ways apart, and whether all routers take part.
    pub reported_queueing: Option<Duration>,
    /// Bytes of UDP payload per second at which packets leave; `None` while unpaced: before the
    /// first round trip sample, and on paths too short for pacing.
    pub pacing_rate: Option<u64>,
    /// How often pacing has held packets back on this path.
    pub pacing_waits: u64,
    /// Bytes in flight after the last ACK.
    pub in_flight: u64,
    /// The application kept the connection from sending more, not the window or the pacer.
    pub app_limited: bool,
    /// What kept the connection from sending more when it last tried.
    pub limited_by: LimitedBy,
    /// The rate that the controller asks for, in bytes of UDP payload per second; `None` if it has
    /// only a window. Packets leave at this rate only with [`Pacing::Controller`](crate::Pacing).
    pub controller_rate: Option<u64>,
    /// The most that the path has delivered in any round trip, or any 20 ms if they are longer, of
    /// the last 10 s: bytes of UDP payload per second. `None` before the first round trip is over.
    pub delivered_rate: Option<u64>,
    /// What was lost or marked.
    pub losses: Losses,
    /// What the path does to ECN. Known on connections configured by
    /// [`EndpointBuilder::server_config`](crate::EndpointBuilder) or `client_config`.
    pub ecn: EcnReport,
}

/// What keeps a connection from sending more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitedBy {
    /// The application: nothing waits to be sent. quinn's own send buffer counts as application
    /// ([`quinn::TransportConfig::send_window`]), and so does the peer's limit on the number of
    /// streams, which quinn 0.11 does not show.
    #[default]
    Application,
    /// The congestion window is full.
    Window,
    /// The pacer holds packets back.
    Pacing,
    /// The peer's flow control: data waits for MAX_DATA or MAX_STREAM_DATA (RFC 9000, section 4.1).
    /// Seen on connections configured by [`EndpointBuilder::server_config`](crate::EndpointBuilder) or
    /// `client_config`; on others it shows as `Application`.
    FlowControl,
    /// The peer, which has acknowledged nothing on this path yet. Until it has proved its address,
    /// a server sends at most three times what it has received (RFC 9000, section 8.1).
    Peer,
}

/// What was lost or marked on a path, by cause. quinn 0.11 does not tell if a packet that it
/// declared lost arrives after all, so spurious losses are among the others. Packets are counted in
/// [`quinn::ConnectionStats`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Losses {
    /// Bytes of UDP payload that loss detection declared lost (RFC 9002, section 6.1).
    pub bytes: u64,
    /// How often it found losses.
    pub detections: u64,
    /// How often the peer reported packets that a router had marked (ECN).
    pub marks: u64,
    /// How often all of several probe timeouts was lost (RFC 9002, section 7.6): the path was down.
    pub persistent: u64,
}

/// The path may carry up to this many times what it was seen to deliver. A controller lets its window grow
/// while at least half of it is in use (RFC 7661, section 4.2).
const UNTRIED: u64 = 2;

impl PathState {
    pub(crate) fn new(mtu: u16) -> Self {
        Self {
            mtu,
            app_limited: true,
            limited_by: LimitedBy::Peer,
            ..Self::default()
        }
    }

    /// Returns the rate that an encoder may use, in bytes of UDP payload per second. `None` before
    /// the first round trip is over.
    ///
    /// It is the least of three:
    ///
    /// - what the controller lets the path carry at present: its window per smoothed round trip,
    /// - the rate that the controller asks for, if it asks for one,
    /// - twice [`delivered_rate`](Self::delivered_rate), what the path has carried in the last
    ///   10 s, or RFC 9002's initial window per round trip if that is more.
    ///
    /// The first two are permissions. A window stays large while an application has little to send,
    /// and it holds a queue that has drained since; so the third bounds them by what was seen. The
    /// estimate is as old as [`updated`](Self::updated): after a second, or a few round trips,
    /// without an ACK, take it for unknown. [`is_rate_tried`](Self::is_rate_tried) tells whether
    /// the path has carried as much; [`probe`](crate::Context::probe_capacity) tries more.
    ///
    /// Set an encoder a tenth lower, to leave room for packet headers, retransmissions and audio.
    pub fn rate_estimate(&self) -> Option<u64> {
        let permitted = rate(self.window, self.smoothed_rtt?);
        let permitted = self
            .controller_rate
            .map_or(permitted, |own| own.min(permitted));
        let initial = rate(InitialWindow::default().bytes(self.mtu), self.smoothed_rtt?);
        let untried = self.delivered_rate?.saturating_mul(UNTRIED);
        Some(permitted.min(untried.max(initial)))
    }

    /// Returns true if the path has carried the whole [`rate_estimate`](Self::rate_estimate) within
    /// the last 10 s, up to an eighth. While an application sends less, nothing shows that the path
    /// would carry it.
    pub fn is_rate_tried(&self) -> bool {
        let estimate = self.rate_estimate().zip(self.delivered_rate);
        estimate.is_some_and(|(estimate, delivered)| delivered >= estimate - estimate / 8)
    }
}

/// Returns `bytes` per `time`, in bytes per second.
pub(crate) fn rate(bytes: u64, time: Duration) -> u64 {
    let nanoseconds = time.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::ms;

    use super::*;

    #[test]
    fn the_estimate_is_what_is_permitted_but_at_most_twice_what_was_delivered() {
        // A window of 1 MB for 100 ms permits 10 MB/s.
        let state = |own, delivered| PathState {
            mtu: 1200,
            window: 1_000_000,
            smoothed_rtt: Some(ms(100)),
            controller_rate: own,
            delivered_rate: delivered,
            ..PathState::default()
        };
        // (own, delivered, estimate, tried)
        for (own, delivered, estimate, tried) in [
            (None, None, None, false),
            (None, Some(10_000_000), Some(10_000_000), true),
            (None, Some(8_800_000), Some(10_000_000), true),
            (None, Some(6_000_000), Some(10_000_000), false),
            (None, Some(100_000), Some(200_000), false),
            // Any path may have ten packets in flight.
            (None, Some(100), Some(120_000), false),
            (Some(7_000_000), Some(6_500_000), Some(7_000_000), true),
            (Some(70_000_000), Some(u64::MAX), Some(10_000_000), true),
        ] {
            let state = state(own, delivered);
            assert_eq!(state.rate_estimate(), estimate, "{own:?}, {delivered:?}");
            assert_eq!(state.is_rate_tried(), tried, "{own:?}, {delivered:?}");
        }
        let unmeasured = PathState {
            smoothed_rtt: None,
            ..state(None, Some(1))
        };
        assert_eq!(unmeasured.rate_estimate(), None);
    }
}
