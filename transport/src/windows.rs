//! Lets flow-control windows follow bandwidth x delay.

use std::time::{Duration, Instant};

use quinn::{Connection, ConnectionStats, TransportConfig, VarInt};

use crate::context::Context;
use crate::path::PathState;

/// Flow-control windows that grow with what a connection delivers, up to a bound.
///
/// quinn's own are fixed. One stream may have 1.25 MB in flight, which is 50 Mb/s over a round trip
/// of 200 ms, and larger ones for all connections let every peer fill as much memory.
///
/// ```
/// # async fn example(tls: quinn::rustls::ClientConfig) -> Result<(), Box<dyn std::error::Error>> {
/// let windows = evenkeel::FlowWindows::up_to(64 << 20);
/// let mut transport = quinn::TransportConfig::default();
/// windows.prepare(&mut transport);
/// let evenkeel = evenkeel::EndpointBuilder::new();
/// let transport = evenkeel.transport(transport, evenkeel::controller("keel")?);
/// let config = evenkeel.client_config(tls, transport)?;
/// let mut endpoint = evenkeel.bind("[::]:0".parse()?, None)?;
/// endpoint.set_default_client_config(config);
/// let connection = endpoint.connect("[::1]:4433".parse()?, "localhost")?.await?;
/// tokio::spawn(windows.follow(connection.clone()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowWindows {
    /// Bytes.
    most: u32,
}

/// The window with which a connection begins: quinn's own of a stream, 100 Mb/s over 100 ms.
const FIRST: u32 = 1_250_000;

/// The receive window has room for this many times what arrives in a round trip. Slow start brings
/// twice as much in the next, and credit takes a round trip to arrive.
const GAIN: u64 = 4;

/// Windows grow at most so often: that many changes of credit fit into a window.
const CREDITS_PER_WINDOW: u64 = 8;

/// Beyond two congestion windows, what may wait in the send buffer: more than the initial window of
/// RFC 9002, section 7.2.
const SEND_SLACK: u64 = 32 * 1024;

impl FlowWindows {
    /// Windows of at most `bytes`: what a peer can make this side hold for a connection, and what
    /// this side holds of its own data until it is acknowledged.
    pub fn up_to(bytes: u32) -> Self {
        Self { most: bytes }
    }

    /// Sets the first windows of connections with this configuration. quinn 0.11 cannot change the
    /// window of a stream later: streams get the bound at once, and the connection's window, which
    /// limits all of them together, begins small. So one stream that is not read can keep the
    /// others waiting.
    pub fn prepare(&self, config: &mut TransportConfig) {
        let bound = VarInt::from_u32(self.most);
        config.stream_receive_window(bound);
        config.receive_window(VarInt::from_u32(FIRST.min(self.most)));
        config.send_window(u64::from(FIRST.min(self.most)));
    }

    /// Lets the windows of `connection` follow what it delivers, until it ends. The connection
    /// needs a [`Context`]; without one this returns at once.
    ///
    /// The receive window grows to four times what arrived in a round trip, while the application
    /// reads. The send window is two congestion windows, so that data which is too late does not
    /// wait in quinn. This future holds the connection open like any clone of it: close the
    /// connection when you are done.
    pub async fn follow(self, connection: Connection) {
        let Some(context) = Context::of(&connection) else {
            return;
        };
        let mut windows = Windows::new(self.most);
        let mut changes = context.changes();
        while let Some(state) = changes.next().await {
            let (receive, send) = windows.update(&state, &connection.stats());
            if let Some(bytes) = receive {
                connection.set_receive_window(VarInt::from_u32(bytes));
            }
            if let Some(bytes) = send {
                connection.set_send_window(bytes);
            }
        }
    }
}

/// The windows of a connection.
#[derive(Debug)]
struct Windows {
    most: u32,
    receive: u32,
    send: u64,
    last: Option<Received>,
}

/// What a connection had received.
#[derive(Debug, Clone, Copy)]
struct Received {
    at: Instant,
    bytes: u64,
    /// MAX_DATA frames that it had sent.
    credits: u64,
}

impl Windows {
    fn new(most: u32) -> Self {
        Self {
            most,
            receive: FIRST.min(most),
            send: 0,
            last: None,
        }
    }

    /// Returns the receive window and the send window in bytes, each if it changes.
    fn update(&mut self, path: &PathState, stats: &ConnectionStats) -> (Option<u32>, Option<u64>) {
        let receive = self.receive(path, stats);
        let send = path.window.saturating_mul(2).saturating_add(SEND_SLACK);
        let send = send.min(u64::from(self.most));
        let is_new = std::mem::replace(&mut self.send, send) != send;
        (receive, is_new.then_some(send))
    }

    fn receive(&mut self, path: &PathState, stats: &ConnectionStats) -> Option<u32> {
        let now = Received {
            at: path.updated?,
            bytes: stats.udp_rx.bytes,
            credits: stats.frame_tx.max_data,
        };
        let Some(before) = self.last else {
            self.last = Some(now);
            return None;
        };
        let time = now.at.saturating_duration_since(before.at);
        if time < stats.path.rtt {
            return None;
        }
        self.last = Some(now);
        // quinn gives credit when an eighth of the window was read: without it, nobody reads.
        let read = (now.credits - before.credits) * u64::from(self.receive) / CREDITS_PER_WINDOW;
        let arrived = (now.bytes - before.bytes).min(read.saturating_mul(2));
        let in_round_trip = per_round_trip(arrived, time, stats.path.rtt);
        let wanted = in_round_trip.saturating_mul(GAIN).min(u64::from(self.most)) as u32;
        if wanted <= self.receive {
            return None;
        }
        self.receive = wanted;
        Some(wanted)
    }
}

/// Returns how many of `bytes` in `time`, above 0, belong to a round trip of `rtt`.
fn per_round_trip(bytes: u64, time: Duration, rtt: Duration) -> u64 {
    (bytes as f64 * rtt.div_duration_f64(time)) as u64
}

#[cfg(test)]
mod tests {
    use evenkeel_tests::time::{epoch, ms};

    use super::*;

    /// A connection on a path of 100 ms.
    struct Conn {
        windows: Windows,
        path: PathState,
        stats: ConnectionStats,
    }

    impl Conn {
        fn new(most: u32) -> Self {
            let mut conn = Self {
                windows: Windows::new(most),
                path: PathState::new(1200),
                stats: ConnectionStats::default(),
            };
            conn.path.updated = Some(epoch());
            conn.stats.path.rtt = ms(100);
            conn.windows.update(&conn.path, &conn.stats);
            conn
        }

        /// After `time` ms in which `bytes` arrived and credit was sent so often.
        fn after(&mut self, time: u64, bytes: u64, credits: u64) -> Option<u32> {
            self.path.updated = self.path.updated.map(|at| at + ms(time));
            self.stats.udp_rx.bytes += bytes;
            self.stats.frame_tx.max_data += credits;
            self.windows.update(&self.path, &self.stats).0
        }
    }

    #[test]
    fn the_receive_window_follows_what_arrives_and_is_read_up_to_the_bound() {
        let mut conn = Conn::new(8_000_000);
        assert_eq!(conn.after(100, 300_000, 2), None, "it is large enough");
        assert_eq!(conn.after(100, 1_000_000, 7), Some(4_000_000));
        assert_eq!(conn.after(50, 500_000, 1), None, "no round trip is over");
        // 1.2 MB in 200 ms.
        assert_eq!(conn.after(150, 700_000, 3), None);
        assert_eq!(conn.after(100, 1_500_000, 3), Some(6_000_000));
        assert_eq!(conn.after(100, 6_000_000, 8), Some(8_000_000));
        assert_eq!(conn.after(100, 8_000_000, 8), None, "the bound");
    }

    #[test]
    fn a_window_that_nobody_reads_does_not_grow() {
        let mut conn = Conn::new(8_000_000);
        assert_eq!(conn.after(100, 1_250_000, 0), None);
        assert_eq!(conn.after(100, 0, 0), None);
    }

    #[test]
    fn the_send_window_is_two_congestion_windows_and_some() {
        let mut conn = Conn::new(1_000_000);
        let mut send = |window| {
            conn.path.window = window;
            conn.windows.update(&conn.path, &conn.stats).1
        };
        assert_eq!(send(100_000), Some(232_768));
        assert_eq!(send(100_000), None, "nothing has changed");
        assert_eq!(send(10_000_000), Some(1_000_000));
    }
}
