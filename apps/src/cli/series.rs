//! What moved, period by period: the records of `--json-lines`, and lines for people.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use evenkeel::{AckReport, Context, Observer, PathSample};
use quinn::{Connection, Runtime, TokioRuntime, VarInt};
use tokio::time::MissedTickBehavior;

use super::{
    Failure,
    output::{Form, Interval, Record, SenderInterval, ServerInterval},
};
use crate::{
    bulk::{Direction, Progress, packets_sent},
    path::{HeaderReport, SampleRecord, SampleSummary, Samples},
    time::milliseconds,
};

/// What moved over a client's connection, interval by interval without gaps.
pub(super) struct ClientSeries {
    pub(super) connection: Connection,
    pub(super) form: Form,
    /// What lines for people begin with.
    pub(super) name: Option<String>,
    /// Of the connections in its direction, from 1.
    pub(super) number: u16,
    pub(super) direction: Direction,
    pub(super) progress: Arc<Progress>,
    /// What the controllers hear.
    pub(super) listener: Arc<Listener>,
    pub(super) periods: Periods,
    pub(super) before: ClientCounts,
}

/// A client's counters at the end of an interval.
#[derive(Clone, Copy, Default)]
pub(super) struct ClientCounts {
    bytes: u64,
    packets: PacketCounts,
}

/// A connection's packets at the end of an interval.
#[derive(Clone, Copy, Default)]
pub(super) struct PacketCounts {
    sent: u64,
    lost: u64,
}

/// What moved through a server, in the intervals in which anything did.
pub(super) struct ServerSeries {
    progress: Arc<Progress>,
    reception: Arc<Reception>,
    periods: Periods,
    before: ServerCounts,
}

/// A server's counters at the end of an interval.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct ServerCounts {
    bytes_sent: u64,
    bytes_received: u64,
    udp: UdpCounts,
}

/// Consecutive intervals, of one length as far as the machine keeps up.
pub(super) struct Periods {
    origin: Instant,
    tick: tokio::time::Interval,
    /// When the current interval began, since the origin.
    start: Duration,
}

/// An interval that is over, since the origin.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) start: Duration,
    pub(super) end: Duration,
}

/// Hears what the controllers hear, and keeps the samples that are wanted until they are taken.
pub(super) struct Listener {
    wants_rtts: bool,
    wants_path: bool,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    rtts: Vec<Duration>,
    path: Vec<PathSample>,
    /// What path headers have told since the beginning.
    told: Samples,
    /// The transfer has ended; what comes now is not of it.
    over: bool,
}

/// What all connections of a server have received.
#[derive(Default)]
pub(super) struct Reception(Mutex<Connections>);

#[derive(Default)]
struct Connections {
    /// By their stable identifiers.
    live: BTreeMap<usize, Connection>,
    ended: UdpCounts,
}

/// UDP datagrams and the bytes of their payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UdpCounts {
    datagrams: u64,
    bytes: u64,
}

impl ClientSeries {
    /// Prints a record at the end of every interval.
    ///
    /// # Errors
    /// If one cannot be printed.
    pub(super) async fn print(&mut self) -> Result<Infallible, Failure> {
        loop {
            let span = self.periods.next().await;
            self.print_record(span)?;
        }
    }

    /// Prints the interval that has begun as if it ended now.
    ///
    /// # Errors
    /// If it cannot be printed.
    pub(super) fn print_rest(&mut self) -> Result<(), Failure> {
        let span = self.periods.cut();
        self.print_record(span)
    }

    fn print_record(&mut self, span: Span) -> Result<(), Failure> {
        // Before the connection is asked: it calls the observer with its own lock held.
        let (rtts, path_samples) = self.listener.take();
        let before = self.before;
        self.before.bytes = match self.direction {
            Direction::Up => self.progress.sent(),
            Direction::Down => self.progress.received(),
        };
        let bytes = self.before.bytes - before.bytes;
        let seconds = (span.end - span.start).as_secs_f64();
        let interval = Interval {
            direction: self.direction,
            connection: self.number,
            start_s: span.start.as_secs_f64(),
            end_s: span.end.as_secs_f64(),
            bytes,
            throughput_bps: if seconds > 0.0 {
                bytes as f64 * 8.0 / seconds
            } else {
                0.0
            },
            sender: self.before.packets.figures(&self.connection),
            rtt_samples_ms: self
                .listener
                .wants_rtts
                .then(|| rtts.into_iter().map(milliseconds).collect()),
            path_samples: self.listener.wants_path.then(|| {
                let record = |sample| SampleRecord::new(sample, self.periods.origin);
                path_samples.iter().map(record).collect()
            }),
        };
        let name = self.name.as_deref();
        let line = |interval: &Interval| match name {
            Some(name) => format!("{name:<10}{}", interval.line()),
            None => interval.line(),
        };
        self.form.print_interval(interval, line, Record::Interval)
    }
}

impl PacketCounts {
    /// What `connection` is like now, and what it has sent since it was last asked.
    pub(super) fn figures(&mut self, connection: &Connection) -> SenderInterval {
        let stats = connection.stats();
        let state = Context::of(connection).map(|context| context.state());
        let bits = |rate: u64| rate.saturating_mul(8);
        let now = Self {
            sent: packets_sent(&stats),
            lost: stats.path.lost_packets,
        };
        let before = std::mem::replace(self, now);
        SenderInterval {
            rtt_ms: stats.path.rtt.as_secs_f64() * 1e3,
            window_bytes: state.as_ref().map_or(stats.path.cwnd, |state| state.window),
            slow_start_threshold_bytes: state.as_ref().and_then(|state| state.slow_start_threshold),
            pacing_rate_bps: state.and_then(|state| state.pacing_rate.map(bits)),
            packets_sent: now.sent.saturating_sub(before.sent),
            packets_lost: now.lost.saturating_sub(before.lost),
            path: HeaderReport::of(connection),
        }
    }
}

impl ServerSeries {
    /// Of what `progress` and `reception` count, from now on.
    pub(super) fn new(
        progress: Arc<Progress>,
        reception: Arc<Reception>,
        period: Duration,
    ) -> Self {
        Self {
            progress,
            reception,
            periods: Periods::new(TokioRuntime.now(), period),
            before: ServerCounts::default(),
        }
    }

    /// The next interval in which something moved, once it is over.
    pub(super) async fn next(&mut self) -> ServerInterval {
        loop {
            let span = self.periods.next().await;
            if let Some(interval) = self.record(span) {
                return interval;
            }
        }
    }

    /// The interval that has begun as if it ended now, if something moved in it.
    pub(super) fn rest(&mut self) -> Option<ServerInterval> {
        let span = self.periods.cut();
        self.record(span)
    }

    fn record(&mut self, span: Span) -> Option<ServerInterval> {
        let counts = ServerCounts {
            bytes_sent: self.progress.sent(),
            bytes_received: self.progress.received(),
            udp: self.reception.total(),
        };
        let before = std::mem::replace(&mut self.before, counts);
        (counts != before).then(|| ServerInterval {
            start_s: span.start.as_secs_f64(),
            end_s: span.end.as_secs_f64(),
            bytes_sent: counts.bytes_sent - before.bytes_sent,
            bytes_received: counts.bytes_received - before.bytes_received,
            udp_datagrams_received: counts.udp.datagrams - before.udp.datagrams,
            udp_bytes_received: counts.udp.bytes - before.udp.bytes,
        })
    }
}

impl Periods {
    /// Intervals of `period`, the first from `origin` on.
    pub(super) fn new(origin: Instant, period: Duration) -> Self {
        let mut tick = tokio::time::interval_at((origin + period).into(), period);
        // An interval that the machine slept through becomes part of the next record: a
        // record of no time at all would have no throughput.
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Self {
            origin,
            tick,
            start: Duration::ZERO,
        }
    }

    pub(super) async fn next(&mut self) -> Span {
        self.tick.tick().await;
        self.cut()
    }

    /// Ends the current interval.
    pub(super) fn cut(&mut self) -> Span {
        let end = TokioRuntime.now().duration_since(self.origin);
        let start = std::mem::replace(&mut self.start, end);
        Span { start, end }
    }
}

impl Listener {
    /// Keeps every round-trip time, and what every path header tells, where it says so.
    pub(super) fn new(wants_rtts: bool, wants_path: bool) -> Self {
        Self {
            wants_rtts,
            wants_path,
            heard: Mutex::default(),
        }
    }

    /// The transfer has ended: what intervals list and what is summed up is the same from now on.
    pub(super) fn stop(&self) {
        lock(&self.heard).over = true;
    }

    /// As [`stop`](Self::stop) if so many samples have been summed up; whether they have.
    pub(super) fn stop_at(&self, samples: u64) -> bool {
        let mut heard = lock(&self.heard);
        heard.over = heard.told.summary().samples == samples;
        heard.over
    }

    /// What path headers have told so far, summed up.
    pub(super) fn summary(&self) -> SampleSummary {
        lock(&self.heard).told.summary()
    }

    /// The samples since the last call.
    pub(super) fn take(&self) -> (Vec<Duration>, Vec<PathSample>) {
        let mut heard = lock(&self.heard);
        (
            std::mem::take(&mut heard.rtts),
            std::mem::take(&mut heard.path),
        )
    }
}

impl Observer for Listener {
    fn on_acks(&self, report: &AckReport) {
        let mut heard = lock(&self.heard);
        if self.wants_rtts && !heard.over {
            heard.rtts.push(report.rtt);
        }
    }

    fn on_path(&self, sample: &PathSample) {
        let mut heard = lock(&self.heard);
        if heard.over {
            return;
        }
        heard.told.add(&SampleRecord::new(sample, sample.now));
        if self.wants_path {
            heard.path.push(sample.clone());
        }
    }
}

impl Reception {
    /// Counts what `connection` receives, until it has [`ended`](Self::ended).
    pub(super) fn accepted(&self, connection: &Connection) {
        lock(&self.0)
            .live
            .insert(connection.stable_id(), connection.clone());
    }

    /// Keeps what `connection` has received, and the connection no longer.
    pub(super) fn ended(&self, connection: &Connection) {
        let mut connections = lock(&self.0);
        if connections.live.remove(&connection.stable_id()).is_some() {
            connections.ended = connections.ended.plus(connection);
        }
    }

    /// Closes all that are left, for this reason.
    pub(super) fn close(&self, reason: &[u8]) {
        for connection in lock(&self.0).live.values() {
            evenkeel::close(connection, VarInt::from_u32(0), reason);
        }
    }

    fn total(&self) -> UdpCounts {
        let connections = lock(&self.0);
        connections
            .live
            .values()
            .fold(connections.ended, UdpCounts::plus)
    }
}

impl UdpCounts {
    fn plus(self, connection: &Connection) -> Self {
        let received = connection.stats().udp_rx;
        Self {
            datagrams: self.datagrams + received.datagrams,
            bytes: self.bytes + received.bytes,
        }
    }
}

/// Counters are whole at every moment: a panic elsewhere is no reason not to read them.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
    use quinn::{ClientConfig, Endpoint, ServerConfig};

    use super::*;
    use crate::testing::{epoch, ms, path_sample};
    use crate::tls::{Identity, Trust};

    fn acks(rtt_ms: u64) -> AckReport {
        AckReport {
            now: epoch(),
            rtt: ms(rtt_ms),
            acked: 1200,
            window: 12_000,
            in_flight: 0,
            app_limited: false,
        }
    }

    #[test]
    fn samples_are_kept_if_they_are_wanted_and_taken_once() {
        let path = |acks: AckReport| path_sample(acks.now, acks.rtt);
        for wanted in [true, false] {
            let listener = Listener::new(wanted, !wanted);
            for rtt_ms in [3, 5] {
                listener.on_acks(&acks(rtt_ms));
                listener.on_path(&path(acks(rtt_ms)));
            }
            let (rtts, samples) = listener.take();
            let kept = if wanted { (2, 0) } else { (0, 2) };
            assert_eq!((rtts.len(), samples.len()), kept);
            let again = listener.take();
            assert!(again.0.is_empty() && again.1.is_empty());
            assert!(!listener.stop_at(1) && listener.stop_at(2));
            listener.stop();
            listener.on_acks(&acks(7));
            listener.on_path(&path(acks(7)));
            let late = listener.take();
            assert!(late.0.is_empty() && late.1.is_empty());
            assert_eq!(listener.summary().samples, 2);
        }
    }

    #[tokio::test]
    async fn a_connection_that_has_ended_is_counted_but_not_held() {
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let tls = Identity::self_signed().unwrap().server(b"test").unwrap();
        let crypto = Arc::new(QuicServerConfig::try_from(tls).unwrap());
        let server = Endpoint::server(ServerConfig::with_crypto(crypto), any).unwrap();
        let (tls, _) = Trust::Anybody.client(b"test").unwrap();
        let crypto = Arc::new(QuicClientConfig::try_from(tls).unwrap());
        let mut client = Endpoint::client(any).unwrap();
        client.set_default_client_config(ClientConfig::new(crypto));
        let connecting = client.connect(server.local_addr().unwrap(), "localhost");
        let incoming = async { server.accept().await.unwrap().await.unwrap() };
        let (ours, theirs) = tokio::join!(connecting.unwrap(), incoming);

        let reception = Reception::default();
        reception.accepted(&theirs);
        let first = reception.total();
        assert!(first.datagrams > 0 && first.bytes > first.datagrams);
        ours.unwrap().close(0u32.into(), b"");
        theirs.closed().await;
        let last = reception.total();
        assert!(last.datagrams > first.datagrams);
        for _ in 0..2 {
            reception.ended(&theirs);
            assert_eq!(reception.total(), last);
            assert!(lock(&reception.0).live.is_empty());
        }
    }

    #[test]
    fn a_server_that_received_only_datagrams_has_moved_something() {
        let reception = Arc::new(Reception::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _inside = runtime.enter();
        let mut series =
            ServerSeries::new(Arc::default(), reception.clone(), Duration::from_secs(1));
        assert!(series.rest().is_none());
        lock(&reception.0).ended = UdpCounts {
            datagrams: 2,
            bytes: 77,
        };
        let interval = series.rest().unwrap();
        assert_eq!(
            (interval.udp_datagrams_received, interval.udp_bytes_received),
            (2, 77)
        );
        assert!(series.rest().is_none());
    }
}
