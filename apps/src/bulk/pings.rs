//! Measures the delay that an interactive application would see on the connection of a transfer:
//! small datagrams (RFC 9221), which the server returns at once, before the data and beside it.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn::{Connection, Runtime, TransportConfig};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::lock::lock;
use crate::time::{milliseconds, sleep_until, timeout};

/// Pings before the data.
const IDLE_PINGS: u64 = 20;

/// The longest time from one of these to the next; the next one leaves earlier if none is missing.
const IDLE_INTERVAL: Duration = Duration::from_millis(10);

/// How long to wait for the last of these.
const IDLE_PATIENCE: Duration = Duration::from_secs(1);

/// Time from one ping beside the data to the next: 200 in the default 10 s, for 11 kb/s.
const LOADED_INTERVAL: Duration = Duration::from_millis(50);

/// Pings on their way at the same time: 50 s of them.
const MOST_ON_THE_WAY: usize = 1000;

/// Bytes of a ping: its number, from 0.
const LENGTH: usize = 8;

/// Memory for datagrams that wait, in each direction: more than one ping waits only on a path that
/// carries next to nothing.
const BUFFER: usize = 4096;

/// The pings of one connection.
#[derive(Debug, Default)]
pub struct Pings(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The number of the next ping.
    next: u64,
    /// The number of the first ping beside the data; `None` before it.
    first_loaded: Option<u64>,
    /// Number and time of the pings on their way, in order.
    on_the_way: VecDeque<(u64, Instant)>,
    /// Round-trip times of pings before the data, and those beside it: when they left, and how long
    /// they took.
    idle: Vec<Duration>,
    loaded: Vec<(Instant, Duration)>,
    lost: u64,
}

/// What pings have measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PingReport {
    /// Round-trip times before the data, in milliseconds; `None` if no ping came back.
    pub idle_ms: Option<Quantiles>,
    /// Round-trip times beside the data, after the warm-up; `None` if no ping came back.
    pub loaded_ms: Option<Quantiles>,
    /// Pings that did not come back, or later than one that left after them.
    pub lost: u64,
}

/// The distribution of a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// How often it was measured.
    pub samples: usize,
    /// The least value that at least half of the samples do not exceed.
    pub p50: f64,
    /// The same for 95 of 100.
    pub p95: f64,
    /// The same for 99 of 100.
    pub p99: f64,
}

/// Lets connections with these settings carry pings, if both sides have them.
pub fn with_pings(mut config: TransportConfig) -> TransportConfig {
    config
        .datagram_receive_buffer_size(Some(BUFFER))
        .datagram_send_buffer_size(BUFFER);
    config
}

impl Pings {
    /// Sends pings over `connection` while it carries nothing else. Ends with the last that comes
    /// back, or a second later; at once if the server does not take pings.
    pub async fn idle(&self, connection: &Connection, runtime: &dyn Runtime) {
        for _ in 0..IDLE_PINGS {
            if !self.send(connection, runtime.now()) {
                return;
            }
            self.collect(connection, runtime, IDLE_INTERVAL).await;
        }
        self.collect(connection, runtime, IDLE_PATIENCE).await;
    }

    /// Sends pings over `connection` beside a transfer, until cancelled. Those that leave in the
    /// `warm_up` are not reported.
    pub async fn loaded(
        &self,
        connection: &Connection,
        runtime: &dyn Runtime,
        warm_up: Duration,
    ) -> Infallible {
        {
            let mut state = lock(&self.0);
            state.first_loaded = Some(state.next);
        }
        let measured = runtime.now() + warm_up;
        let mut due = runtime.now();
        loop {
            let now = runtime.now();
            if now >= due {
                due = now + LOADED_INTERVAL;
                if now >= measured && !self.send(connection, now) {
                    return std::future::pending().await;
                }
            }
            tokio::select! {
                biased;
                () = sleep_until(runtime, due) => {}
                is_back = self.receive(connection, runtime) => if !is_back {
                    return std::future::pending().await;
                },
            }
        }
    }

    /// Returns what was measured; `None` without any ping.
    pub fn report(&self) -> Option<PingReport> {
        let state = lock(&self.0);
        let loaded: Vec<_> = state.loaded.iter().map(|(_, time)| *time).collect();
        (state.next > 0).then(|| PingReport {
            idle_ms: Quantiles::of(&state.idle),
            loaded_ms: Quantiles::of(&loaded),
            lost: state.lost,
        })
    }

    /// Returns all round-trip times before the data, those beside it with the instant at which each
    /// ping left, and how many did not come back.
    pub fn samples(&self) -> (Vec<Duration>, Vec<(Instant, Duration)>, u64) {
        let state = lock(&self.0);
        (state.idle.clone(), state.loaded.clone(), state.lost)
    }

    /// Sends a ping. Returns false if the connection takes none, now or ever.
    fn send(&self, connection: &Connection, now: Instant) -> bool {
        let mut state = lock(&self.0);
        if state.on_the_way.len() >= MOST_ON_THE_WAY {
            // The server takes pings, but returns none.
            return false;
        }
        let number = state.next;
        let ping = Bytes::copy_from_slice(&number.to_be_bytes());
        if connection.send_datagram(ping).is_err() {
            return false;
        }
        state.next += 1;
        state.on_the_way.push_back((number, now));
        true
    }

    /// Takes pings that come back, until none is missing or `time` is over.
    async fn collect(&self, connection: &Connection, runtime: &dyn Runtime, time: Duration) {
        let is_one_missing = || !lock(&self.0).on_the_way.is_empty();
        let all_back =
            async { while is_one_missing() && self.receive(connection, runtime).await {} };
        timeout(runtime, time, all_back).await;
    }

    /// Takes one datagram. Returns false if the connection is lost.
    async fn receive(&self, connection: &Connection, runtime: &dyn Runtime) -> bool {
        let Ok(datagram) = connection.read_datagram().await else {
            return false;
        };
        if let Ok(number) = <[u8; LENGTH]>::try_from(&*datagram) {
            lock(&self.0).returned(u64::from_be_bytes(number), runtime.now());
        }
        true
    }
}

impl State {
    fn returned(&mut self, number: u64, now: Instant) {
        let on_the_way = &mut self.on_the_way;
        let Some(at) = on_the_way.iter().position(|(other, _)| *other == number) else {
            // The server has invented it, or it was given up.
            return;
        };
        self.lost += at as u64;
        on_the_way.drain(..at);
        let (_, left) = on_the_way.pop_front().expect("the position was found");
        let time = now.saturating_duration_since(left);
        match self.first_loaded.is_some_and(|first| number >= first) {
            true => self.loaded.push((left, time)),
            false => self.idle.push(time),
        }
    }
}

impl Quantiles {
    /// Returns the distribution of `times`; `None` without any.
    pub fn of(times: &[Duration]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let last = sorted.len().checked_sub(1)?;
        // The nearest rank, from 1: the least that this share of all does not exceed.
        let quantile = |percent: usize| {
            let rank = (sorted.len() * percent).div_ceil(100);
            milliseconds(sorted[rank.saturating_sub(1).min(last)])
        };
        Some(Self {
            samples: sorted.len(),
            p50: quantile(50),
            p95: quantile(95),
            p99: quantile(99),
        })
    }
}

/// Returns the pings that come over `connection`, until the result is dropped.
pub(super) fn answer(
    connection: &Connection,
    runtime: &dyn Runtime,
) -> Option<oneshot::Sender<()>> {
    connection.max_datagram_size()?;
    let (guard, mut over) = oneshot::channel();
    let connection = connection.clone();
    runtime.spawn(Box::pin(async move {
        loop {
            let datagram = tokio::select! {
                biased;
                _ = &mut over => return,
                datagram = connection.read_datagram() => datagram,
            };
            match datagram {
                Ok(ping) if ping.len() == LENGTH => {
                    // If it cannot leave, the client counts it as lost.
                    let _ = connection.send_datagram(ping);
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }));
    Some(guard)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evenkeel_tests::time::{epoch, ms};

    #[test]
    fn quantiles_are_measured_times_of_the_nearest_rank() {
        let times: Vec<_> = (1..=200).rev().map(ms).collect();
        let quantiles = Quantiles::of(&times).unwrap();
        assert_eq!(
            (
                quantiles.samples,
                quantiles.p50,
                quantiles.p95,
                quantiles.p99
            ),
            (200, 100.0, 190.0, 198.0)
        );
        let one = Quantiles::of(&[ms(7)]).unwrap();
        assert_eq!((one.p50, one.p95, one.p99), (7.0, 7.0, 7.0));
        assert_eq!(Quantiles::of(&[]), None);
    }

    #[test]
    fn a_ping_that_a_later_one_overtakes_is_lost_and_an_invented_one_is_nothing() {
        let mut state = State {
            first_loaded: Some(20),
            on_the_way: (18..=20).map(|n| (n, epoch() + ms(n))).collect(),
            ..State::default()
        };
        for number in [21, 19, 18, 20, 20] {
            state.returned(number, epoch() + ms(120));
        }
        assert_eq!(
            (&state.idle, &state.loaded),
            (&vec![ms(101)], &vec![(epoch() + ms(20), ms(100))])
        );
        assert_eq!((state.lost, state.on_the_way.len()), (1, 0));
    }
}
