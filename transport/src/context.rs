//! What an application asks of a connection, and changes while it runs.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use evenkeel_congestion::{PathSample, SharedFactory};
use evenkeel_headers::{HeaderCounters, HeaderState, Owner};
use tokio::sync::oneshot;

use crate::capacity::{CapacityReport, Probe};
use crate::changes::PathChanges;
use crate::connection::{Beginning, Connection};
use crate::path::PathState;
use crate::quinn_order::paced::Paced;
use crate::resume_token::ResumeToken;

/// Closes a connection as [`quinn::Connection::close`] does, and informs the peer even while the
/// congestion window is full.
///
/// quinn-proto 0.11.19 counts CONNECTION_CLOSE against the window if data waits, and the window of
/// a closed connection never opens again: the peer would wait until its idle timeout (quinn's issue
/// 2785; RFC 9002, section 7, exempts packets that are not ack-eliciting). Without a [`Context`],
/// this only calls quinn's `close`.
pub fn close(connection: &quinn::Connection, code: quinn::VarInt, reason: &[u8]) {
    connection.close(code, reason);
    if let Some(context) = Context::of(connection) {
        // No more data leaves, so the window can be as large as it likes.
        context.connection.state().is_closed = true;
        // Closing a closed connection only wakes it.
        connection.close(code, reason);
    }
}

/// What evenkeel knows about a connection and can change while it runs. Clones, and later contexts
/// of the same connection, share it. A context does not keep the connection open.
///
/// ```
/// use evenkeel::Context;
///
/// # fn example(connection: &quinn::Connection) -> Result<(), evenkeel::SpecError> {
/// let context = Context::of(connection).expect("its transport came from evenkeel");
/// let queueing = context.state().queueing_delay;
/// if queueing.is_some_and(|delay| delay.as_millis() > 100) {
///     context.switch_controller(evenkeel::controller("vegas")?);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Context {
    connection: Arc<Connection>,
}

impl Context {
    /// Returns the context of a connection; `None` if its configuration did not come from
    /// [`EndpointBuilder::transport`](crate::EndpointBuilder::transport).
    pub fn of(connection: &quinn::Connection) -> Option<Self> {
        let controller = connection.congestion_state().into_any();
        let paced = controller.downcast::<Paced>().ok()?;
        Some(Self {
            connection: paced.connection.clone(),
        })
    }

    /// Returns the present path as the controller sees it.
    pub fn state(&self) -> PathState {
        self.connection.path_state()
    }

    /// Returns what the present path, to `peer`, carries at `now`, for a later connection to that
    /// address ([`resuming`](crate::EndpointBuilder::resuming)). `None` if too little was measured. Ask while the
    /// connection sends or soon after: what it delivered counts for 10 s.
    pub fn resume_token(&self, peer: IpAddr, now: SystemTime) -> Option<ResumeToken> {
        ResumeToken::of(&self.state(), peer, now)
    }

    /// Returns the coming changes of [`state`](Self::state), for those who would poll it otherwise.
    /// They come when ACKs or losses change it, at most once a round trip or 10 ms.
    pub fn changes(&self) -> PathChanges {
        PathChanges::new(self.connection.clone())
    }

    /// Finds out whether the path carries `bytes_per_second` of UDP payload: for `time`, at most
    /// 10 s, the connection paces at this rate, or at twice its
    /// [estimate](PathState::rate_estimate) if that is less, and may have as much in flight.
    ///
    /// The application must have as much to send meanwhile: quinn 0.11 pads nothing and sends no
    /// PINGs on request. Send media ahead of its time, datagrams that the peer drops
    /// ([`quinn::Connection::send_datagram`]), or a stream of low priority that you reset
    /// afterwards. Two round trips or more tell something; 0.2 s on most paths.
    ///
    /// The probe begins with the next ACK, and ends early when one of its packets is lost or
    /// marked, or when the round trip shows a queue of more than 25 ms plus a quarter of the least
    /// round trip, at least 10 ms. The controller hears of all that. If the path carries the rate,
    /// the controller goes on with what was delivered
    /// ([`Controller::resume`](crate::controller::Controller::resume); quinn's own and `tfrc` do not), and the
    /// estimate follows.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use evenkeel::{CapacityProbeEnd, Context};
    ///
    /// /// Whether the path carries `rate`, while the application sends as much.
    /// async fn carries(context: &Context, rate: u64) -> bool {
    ///     let report = context.probe_capacity(rate, Duration::from_millis(200)).await;
    ///     report.is_some_and(|report| report.end == CapacityProbeEnd::Carried)
    /// }
    /// ```
    ///
    /// The future waits for the report. It is `None` if another probe takes its place, the path
    /// changes, or the connection ends. Dropping the future does not end the probe.
    pub fn probe_capacity(
        &self,
        bytes_per_second: u64,
        time: Duration,
    ) -> impl Future<Output = Option<CapacityReport>> + Send + use<> {
        let (reply, report) = oneshot::channel();
        let probe = Probe::new(bytes_per_second, time, reply);
        let mut state = self.connection.state();
        let dropped = if state.notifier.is_over() {
            Some(probe)
        } else {
            state.capacity.replace(probe)
        };
        drop(state);
        drop(dropped);
        async move { report.await.ok() }
    }

    /// Returns whether path headers are sent, and their counters; `None` if the peer does not
    /// understand them or the handshake is not complete.
    pub fn path_headers(&self) -> Option<(HeaderState, HeaderCounters)> {
        self.connection.reported()
    }

    /// Returns what the newest path header said about the path.
    pub fn path_sample(&self) -> Option<PathSample> {
        self.connection.path_sample()
    }

    /// Limits the rate that this endpoint asks routers for, in bytes of UDP payload per second: the
    /// most that the application can use. `None`, the default, sets no limit.
    pub fn limit_requested_rate(&self, bytes_per_second: Option<u64>) {
        self.connection.state().kept.desired_rate = bytes_per_second;
    }

    /// Switches to another controller with the next ACK, on this path and later ones. It continues
    /// in congestion avoidance with a window of what is in flight, or of RFC 9002's initial window
    /// if that is more, so that nothing leaves in a burst
    /// ([`Controller::resume`](crate::controller::Controller::resume)). `tfrc` and quinn's own controllers
    /// begin as on a new path.
    pub fn switch_controller(&self, controller: SharedFactory) {
        let mut state = self.connection.state();
        let before = state.choose(controller, Beginning::Resumed);
        drop(state);
        drop(before);
    }

    /// Switches to another controller with the next ACK, on this path and later ones. It begins as on
    /// a new path, in slow start with its initial window: for a transfer that is to be compared with
    /// those of other connections. The future waits for it: have the peer acknowledge something.
    /// It is `None` if another choice takes its place or the connection ends. Dropping the future
    /// changes nothing.
    pub fn restart_controller(
        &self,
        controller: SharedFactory,
    ) -> impl Future<Output = Option<()>> + Send + use<> {
        let (begun, beginning) = oneshot::channel();
        let mut state = self.connection.state();
        let dropped = match state.notifier.is_over() {
            true => Some(Beginning::Anew(begun)),
            false => state.choose(controller, Beginning::Anew(begun)),
        };
        drop(state);
        drop(dropped);
        async move { beginning.await.ok() }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.state()).finish()
    }
}
