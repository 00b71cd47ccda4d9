//! Holds the state of one connection, shared by its controller, driver and socket.
//!
//! # Locks
//!
//! Threads take locks in this order; they may skip some:
//!
//! 1. quinn's lock of the endpoint or the connection. quinn holds it while it polls a driver and
//!    calls controllers, TLS sessions and sockets, so most code of this crate runs under it.
//! 2. The buffer of a [`Socket`](crate::quinn_order::socket::Socket), only while datagrams arrive.
//! 3. [`Connection::state`]: all that this crate knows about a connection.
//! 4. The table in `Connections`.
//!
//! Code that holds 3 or 4 calls nothing that may lock one of these: no controller (it locks 3 for
//! its feed), no observer, no socket, nothing of quinn. No thread holds 3 of two connections.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use evenkeel_congestion::{SharedFactory, feedback_lifetime};
use evenkeel_headers::{Kept, Owner, Part, PathFacts, locked};
use tokio::sync::oneshot;
use tracing::debug;

use crate::capacity::{self, CapacityProbeEnd};
use crate::measure::Measure;
use crate::notify::Notifier;
use crate::pacer::Pacer;
use crate::path::{LimitedBy, PathState};

/// The connections of one configured endpoint.
pub(crate) type Connections = evenkeel_headers::Connections<Connection>;

/// One connection.
pub(crate) struct Connection {
    connections: Arc<Connections>,
    /// Numbers the connections of the endpoint, for log events.
    pub(crate) id: usize,
    /// Data waits for the peer's credit.
    blocked: AtomicBool,
    state: Mutex<State>,
}

/// What this crate knows about a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) path: PathState,
    pub(crate) measure: Measure,
    /// Tells the application of changes.
    pub(crate) notifier: Notifier,
    /// The application wants to know whether the path carries more.
    pub(crate) capacity: Option<capacity::Probe>,
    pub(crate) pacer: Pacer,
    /// The packet that ends a silence; `None` while nothing is in flight, or without a probe
    /// interval.
    pub(crate) probe: Option<Probe>,
    pub(crate) kept: Kept,
    /// The application has closed the connection: only CONNECTION_CLOSE still leaves.
    pub(crate) is_closed: bool,
    /// Builds controllers, if the application has replaced the first.
    chosen: Option<SharedFactory>,
    /// How the replacement begins; `None` once it is in force.
    beginning: Option<Beginning>,
}

/// How a controller that replaces another begins.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// In congestion avoidance, with what is in flight.
    Resumed,
    /// As on a new path; says so once it is in force.
    Anew(oneshot::Sender<()>),
}

/// A packet that leaves even if the window has no room for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Probe {
    /// The earliest time at which it may leave.
    pub(crate) at: Instant,
    /// How long nothing will have left by then.
    pub(crate) silence: Duration,
}

impl Connection {
    pub(crate) fn new(connections: Arc<Connections>) -> Arc<Self> {
        let id = connections.begin();
        debug!(connection = id, "connection begins");
        Arc::new(Self {
            connections,
            id,
            blocked: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.state)
    }

    /// Returns the present path.
    pub(crate) fn path_state(&self) -> PathState {
        let state = self.state();
        PathState {
            pacing_waits: state.pacer.waits,
            reported_queueing: state.reported_queueing(),
            ecn: state.kept.feed.ecn.report(),
            ..state.path.clone()
        }
    }

    /// Returns whether data waits for the peer's credit, as far as frames show.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    pub(crate) fn set_blocked(&self, is_blocked: bool) {
        self.blocked.store(is_blocked, Ordering::Relaxed);
    }

    /// A poll of the driver ends at `now`; what this crate does for the connection held something
    /// back as `held` says. Returns when to poll again.
    pub(crate) fn poll_ended(&self, now: Instant, held: Option<LimitedBy>) -> Option<Instant> {
        let mut state = self.state();
        state.path.limited_by = match held {
            Some(limit) => limit,
            None if self.is_blocked() => LimitedBy::FlowControl,
            None if state.path.updated.is_none() => LimitedBy::Peer,
            None => LimitedBy::Application,
        };
        let overdue = state.capacity.as_ref().and_then(|probe| probe.overdue(now));
        let report = overdue.and_then(|end| state.end_capacity(end));
        let listeners = state.notifier.take_due(now);
        let probe = state.probe.as_mut().map(|probe| {
            // quinn had nothing to send: the next probe waits as long again.
            if probe.at <= now {
                probe.at = now + probe.silence;
            }
            probe.at
        });
        let deadline = state.capacity.as_ref().and_then(capacity::Probe::deadline);
        let next = [probe, deadline, state.notifier.due()];
        drop(state);
        if let Some(report) = report {
            report.send();
        }
        if let Some(listeners) = listeners {
            listeners.send_replace(());
        }
        next.into_iter().flatten().min()
    }

    /// The driver has ended, and with it the connection.
    pub(crate) fn ended(&self) {
        let mut state = self.state();
        let last = (
            state.notifier.end(),
            state.capacity.take(),
            state.beginning.take(),
        );
        drop(state);
        drop(last);
    }

    /// Begins a path and forgets all measurements of the one before. Returns the factory of its
    /// controller, if the application has chosen one.
    pub(crate) fn new_path(&self, mtu: u16) -> Option<SharedFactory> {
        debug!(connection = self.id, mtu, "path begins");
        let mut state = self.state();
        state.pacer = Pacer::new(mtu);
        state.probe = None;
        state.path = PathState::new(mtu);
        state.measure = Measure::default();
        state.kept.feed.resume(None);
        state.kept.feed.ecn.new_path();
        state.kept.feed.remember(None);
        let beginning = state.beginning.take();
        let chosen = state.chosen.clone();
        let probe_of_the_old = state.capacity.take();
        drop(state);
        drop(probe_of_the_old);
        if let Some(Beginning::Anew(begun)) = beginning {
            // Nobody may wait for it any more.
            let _ = begun.send(());
        }
        chosen
    }

    /// Notes that the next ACK frame, with largest packet number `largest`, reports an ACK Delay of
    /// `delay`, longer than the peer's `max_ack_delay`. With ACK_FREQUENCY, a sender may have asked
    /// for up to a round trip (quinn-proto 0.11.19, `candidate_max_ack_delay`); beyond that, the
    /// frame repeats a lost one.
    pub(crate) fn ack_was_held(&self, largest: u64, delay: Duration) {
        let mut state = self.state();
        if state.path.smoothed_rtt.is_some_and(|rtt| delay > rtt) {
            debug!(
                connection = self.id,
                largest,
                ?delay,
                "a lost ACK was repeated"
            );
            state.kept.feed.set_repeated(largest);
        }
    }
}

impl Owner for Connection {
    fn connections(&self) -> &Connections {
        &self.connections
    }

    fn id(&self) -> usize {
        self.id
    }

    fn with<T>(&self, access: impl FnOnce(Part<'_>) -> T) -> T {
        access(self.state().part())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").field(&self.id).finish()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.dropped();
    }
}

impl State {
    /// Returns what concerns the headers.
    pub(crate) fn part(&mut self) -> Part<'_> {
        self.kept.part(PathFacts {
            mtu: self.path.mtu,
            window: self.path.window,
            rtt: self.path.smoothed_rtt,
            rate: self.path.controller_rate,
        })
    }

    /// Returns whether a packet may leave at `now` to end a silence.
    pub(crate) fn is_probe_due(&self, now: Instant) -> bool {
        self.probe.is_some_and(|probe| probe.at <= now)
    }

    /// Returns the queueing time that routers have reported in the last round trips.
    fn reported_queueing(&self) -> Option<Duration> {
        let sample = self.kept.feed.newest()?;
        let age = self.path.updated?.saturating_duration_since(sample.now);
        let lifetime = feedback_lifetime(self.path.smoothed_rtt?);
        let ways = [sample.forward_queueing, sample.backward_queueing];
        let sum = ways.into_iter().flatten().reduce(Duration::saturating_add);
        sum.filter(|_| age <= lifetime)
    }

    /// Ends the probe of capacity. What the path has carried is the controller's to use.
    pub(crate) fn end_capacity(&mut self, end: CapacityProbeEnd) -> Option<capacity::Answer> {
        let answer = self.capacity.take()?.finish(end);
        debug!(report = ?answer.report, "capacity was probed");
        let rtt = self.path.smoothed_rtt.unwrap_or_default();
        let window = answer.report.delivered_rate as f64 * rtt.as_secs_f64();
        if end == CapacityProbeEnd::Carried && window as u64 > self.path.window {
            self.kept.feed.resume(Some(window as u64));
        }
        Some(answer)
    }

    /// Switches the connection to what `factory` builds, from the next ACK on; returns the choice
    /// that this one replaces, to be dropped without the lock.
    #[must_use = "its drop may wake a task"]
    pub(crate) fn choose(
        &mut self,
        factory: SharedFactory,
        beginning: Beginning,
    ) -> Option<Beginning> {
        self.chosen = Some(factory);
        self.beginning.replace(beginning)
    }

    /// Returns the factory that the application has chosen since the last call, and how its
    /// controller begins.
    pub(crate) fn newly_chosen(&mut self) -> Option<(SharedFactory, Beginning)> {
        let beginning = self.beginning.take()?;
        self.chosen.clone().zip(Some(beginning))
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_congestion::PathSample;
    use evenkeel_tests::time::{epoch, ms};

    use super::*;

    #[test]
    fn what_held_the_last_packet_back_limits_the_connection() {
        let connection = Connection::new(Arc::default());
        connection.new_path(1200);
        let now = epoch();
        let limit = |held| {
            connection.poll_ended(now, held);
            connection.path_state().limited_by
        };
        assert_eq!(limit(Some(LimitedBy::Window)), LimitedBy::Window);
        assert_eq!(limit(None), LimitedBy::Peer, "nothing was acknowledged");
        connection.state().path.updated = Some(now);
        assert_eq!(limit(None), LimitedBy::Application);
        connection.set_blocked(true);
        assert_eq!(limit(None), LimitedBy::FlowControl);
        assert_eq!(limit(Some(LimitedBy::Pacing)), LimitedBy::Pacing);
    }

    #[test]
    fn queueing_that_routers_report_is_forgotten_after_four_round_trips() {
        let connection = Connection::new(Arc::default());
        let reported = |forward, backward, age| {
            let mut state = connection.state();
            state.path.smoothed_rtt = Some(ms(50));
            state.path.updated = Some(epoch() + ms(age));
            let mut sample = PathSample::new(epoch(), ms(50));
            (sample.forward_queueing, sample.backward_queueing) = (forward, backward);
            state.kept.feed.push(sample);
            state.reported_queueing()
        };
        assert_eq!(reported(Some(ms(7)), Some(ms(2)), 200), Some(ms(9)));
        assert_eq!(reported(None, Some(ms(2)), 0), Some(ms(2)));
        assert_eq!(reported(None, None, 0), None);
        assert_eq!(reported(Some(ms(7)), Some(ms(2)), 201), None);
    }
}
