//! Watches the order in which quinn does things, for `src/quinn_order.rs`: quinn alone, without
//! evenkeel. A quinn that breaks what evenkeel relies on fails the test that names it.

use std::any::Any;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use quinn::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::crypto::{self, Session};
use quinn::udp::{EcnCodepoint, RecvMeta, Transmit};
use quinn::{
    AsyncTimer, AsyncUdpSocket, ClientConfig, ConnectError, Connection, EndpointConfig, Runtime,
    TokioRuntime, TransportConfig, UdpPoller,
};
use quinn_proto::RttEstimator;
use quinn_proto::transport_parameters::TransportParameters;

use crate::support::{Identity, LOOPBACK, stock_server};

/// What quinn calls, or is called for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Session,
    Controller,
    Poller,
    /// A future is spawned right after a poller: the connection's driver.
    Driver,
    PollBegins,
    PollEnds,
    Clock,
    Window,
    BatchSize,
    Sent(u64),
    /// Bytes, and whether they leave with ECN.
    Socket(u64, bool),
    Acked,
    AcksEnd,
    Congestion,
    /// The test goes on to its next step.
    Step,
}

/// Bytes of UDP payload in a full-size packet: quinn searches for no larger one here.
const MTU: u64 = 1200;

/// What a recorded client does besides recording.
#[derive(Debug, Default)]
struct Recorder {
    calls: Mutex<Vec<(ThreadId, Call)>>,
    /// Bytes; quinn does not pace windows beyond `u32::MAX`.
    window: AtomicU64,
    /// One datagram in this many is lost; 0 for none.
    loses: u64,
    sends_ect1: bool,
    datagrams: AtomicU64,
}

impl Recorder {
    fn note(&self, call: Call) {
        let mut calls = self.calls.lock().expect("no thread panics with it");
        calls.push((thread::current().id(), call));
    }

    fn set_window(&self, bytes: u64) {
        self.window.store(bytes, Ordering::Relaxed);
    }

    /// The last call on this thread.
    fn last_here(&self) -> Option<Call> {
        let calls = self.calls.lock().expect("no thread panics with it");
        let here = thread::current().id();
        let last = calls.iter().rev().find(|(thread, _)| *thread == here);
        last.map(|(_, call)| *call)
    }

    /// Whether quinn has asked for the window, and ended that poll, since the last step.
    fn has_asked(&self) -> bool {
        let calls = self.calls();
        let mut after = calls.iter().rev().take_while(|call| **call != Call::Step);
        let ended = after.position(|call| *call == Call::PollEnds);
        ended.is_some() && after.any(|call| *call == Call::Window)
    }

    fn calls(&self) -> Vec<Call> {
        let calls = self.calls.lock().expect("no thread panics with it");
        calls.iter().map(|(_, call)| *call).collect()
    }
}

/// Runs a client of quinn whose calls are recorded, and `work` on its connection and the server's.
fn recorded<F: Future<Output = ()>>(
    recorder: Recorder,
    work: impl FnOnce(Arc<Recorder>, quinn::Endpoint, Connection, Connection) -> F,
) -> Arc<Recorder> {
    let recorder = Arc::new(recorder);
    recorder.set_window(u64::MAX);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let identity = Identity::new();
        let server = stock_server(&identity);
        let crypto = QuicClientConfig::try_from(identity.client()).expect("TLS 1.3");
        let mut config = ClientConfig::new(Arc::new(Client(Arc::new(crypto), recorder.clone())));
        let mut transport = TransportConfig::default();
        transport
            .initial_mtu(MTU as u16)
            .mtu_discovery_config(None)
            .congestion_controller_factory(Arc::new(Factory(recorder.clone())));
        config.transport_config(Arc::new(transport));
        let socket = std::net::UdpSocket::bind(LOOPBACK).expect("a free port");
        let runtime = Arc::new(Recorded(TokioRuntime, recorder.clone()));
        let mut client = quinn::Endpoint::new(EndpointConfig::default(), None, socket, runtime)
            .expect("a socket");
        client.set_default_client_config(config);
        let address = server.local_addr().expect("it is bound");
        let connecting = client.connect(address, "localhost").expect("a valid name");
        let accepting = async { server.accept().await.expect("it is open").await };
        let (near, far) = tokio::try_join!(connecting, accepting).expect("a connection");
        work(recorder.clone(), client, near, far).await;
    });
    recorder
}

/// Sends this many bytes, and waits until all are acknowledged.
async fn transfer(near: &Connection, far: &Connection, bytes: usize) {
    let sending = async {
        let mut stream = near.open_uni().await.expect("a stream");
        stream.write_all(&vec![7; bytes]).await.expect("it is open");
        stream.finish().expect("it is open");
        stream.stopped().await.expect("it is open");
    };
    let receiving = async {
        let mut stream = far.accept_uni().await.expect("a stream");
        stream.read_to_end(bytes).await.expect("it arrives");
    };
    tokio::join!(sending, receiving);
}

/// Waits until the client has no more to send, and all that it has sent is acknowledged.
#[expect(clippy::disallowed_methods, reason = "it waits for a real socket")]
async fn settle(near: &Connection, far: &Connection) {
    // The server retires the handshake's connection ID, and gets another in its place.
    while near.stats().frame_tx.new_connection_id < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    transfer(near, far, 10_000).await;
    // What a timeout has made quinn send again is acknowledged later.
    let mut before = None;
    while before != Some(near.stats().udp_rx.datagrams) {
        before = Some(near.stats().udp_rx.datagrams);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn transferred(recorder: Recorder) -> Arc<Recorder> {
    recorded(recorder, async |_, _, near, far| {
        transfer(&near, &far, 1_000_000).await;
    })
}

#[test]
fn quinn_begins_a_connection_in_one_order() {
    let recorder = transferred(Recorder::default());
    let calls = recorder.calls.lock().expect("no thread panics with it");
    let begins = [Call::Session, Call::Controller, Call::Poller, Call::Driver];
    let (threads, order): (Vec<_>, Vec<_>) = calls
        .iter()
        .filter(|(_, call)| begins.contains(call))
        .copied()
        .unzip();
    assert_eq!(order, begins);
    assert!(
        threads.iter().all(|thread| *thread == threads[0]),
        "{threads:?}"
    );
}

#[test]
fn quinn_sends_only_while_its_driver_is_polled() {
    let recorder = transferred(Recorder::default());
    let calls = recorder.calls.lock().expect("no thread panics with it");
    let mut polled = None;
    for (thread, call) in &*calls {
        match call {
            Call::PollBegins => polled = Some(thread),
            Call::PollEnds => polled = None,
            Call::Sent(_) | Call::Socket(..) => assert_eq!(polled, Some(thread), "{call:?}"),
            _ => {}
        }
    }
}

#[test]
fn quinn_reads_the_clock_before_it_builds_packets() {
    let mut has_read = true;
    for call in transferred(Recorder::default()).calls() {
        match call {
            Call::PollBegins => has_read = false,
            Call::Clock => has_read = true,
            Call::BatchSize | Call::Sent(_) => assert!(has_read, "{call:?}"),
            _ => {}
        }
    }
}

#[test]
fn quinn_asks_for_the_window_twice_for_each_packet() {
    let (mut asked, mut batches) = (0, 0);
    for call in transferred(Recorder::default()).calls() {
        match call {
            Call::BatchSize => asked = 0,
            Call::Window => asked += 1,
            Call::Sent(bytes) => {
                // A datagram of the handshake has several packets.
                if bytes > MTU {
                    // quinn asks for no probe of a timeout: two at most. It asks, and ends the batch,
                    // before a packet that retransmits less than the batch's others hold.
                    let expected = 2 * bytes.div_ceil(MTU);
                    assert!(asked % 2 == 0 && (expected - 4..=expected + 2).contains(&asked));
                    batches += u64::from(asked == expected);
                }
                asked = 0;
            }
            _ => {}
        }
    }
    assert!(batches > 10, "{batches} batches");
}

#[test]
fn quinn_reports_a_batch_before_the_socket_gets_it() {
    let (mut has_asked, mut reported) = (false, None);
    for call in transferred(Recorder::default()).calls() {
        match call {
            Call::PollBegins => has_asked = false,
            Call::BatchSize => has_asked = true,
            Call::Sent(bytes) => {
                assert!(has_asked && reported.is_none());
                reported = Some(bytes);
            }
            Call::Socket(bytes, _) => assert_eq!(reported.take(), Some(bytes)),
            _ => {}
        }
    }
}

#[test]
fn quinn_batches_ten_and_ends_a_poll_after_twenty() {
    let (mut in_poll, mut most_in_poll, mut most_in_batch) = (0, 0, 0);
    for call in transferred(Recorder::default()).calls() {
        match call {
            Call::PollBegins => in_poll = 0,
            Call::Sent(bytes) => {
                assert!(in_poll < 20, "the poll has not ended");
                let datagrams = bytes.div_ceil(MTU);
                in_poll += datagrams;
                most_in_poll = most_in_poll.max(in_poll);
                most_in_batch = most_in_batch.max(datagrams);
            }
            _ => {}
        }
    }
    assert_eq!(most_in_batch, 10);
    assert!(most_in_poll >= 20, "{most_in_poll}");
}

/// The datagrams that left after the last step.
fn left(recorder: &Recorder) -> Vec<u64> {
    let calls = recorder.calls();
    let after = calls.iter().rev().take_while(|call| **call != Call::Step);
    let bytes = after.filter_map(|call| match call {
        Call::Socket(bytes, _) => Some(*bytes),
        _ => None,
    });
    bytes.collect()
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it waits for a real socket")]
fn quinn_builds_only_acks_behind_a_closed_window() {
    recorded(Recorder::default(), async |recorder, _, near, far| {
        settle(&near, &far).await;
        // A packet must leave room for a byte more.
        recorder.set_window(MTU);
        recorder.note(Call::Step);
        // At the stream's end quinn would have MAX_STREAMS to send.
        let mut open = far.open_uni().await.expect("a stream");
        open.write_all(&[7; 10_000]).await.expect("it is open");
        let mut stream = near.accept_uni().await.expect("a stream");
        let arrived = stream.read_exact(&mut [0; 10_000]).await;
        arrived.expect("it arrives");
        while left(&recorder).is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let acks = left(&recorder);
        let are_acks = |left: &[u64]| left.iter().all(|bytes| *bytes < 100);
        assert!(are_acks(&acks), "{acks:?}");
        recorder.note(Call::Step);
        let mut stream = near.open_uni().await.expect("a stream");
        stream.write_all(&[7; 10_000]).await.expect("it is open");
        while !recorder.has_asked() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let acks = left(&recorder);
        assert!(are_acks(&acks), "{acks:?}");
        recorder.set_window(MTU + 1);
        stream.finish().expect("it is open");
        let mut stream = far.accept_uni().await.expect("a stream");
        let arrived = stream.read_to_end(10_000).await.expect("it arrives");
        assert_eq!(arrived.len(), 10_000);
    });
}

#[test]
fn quinn_holds_a_close_back_behind_a_full_window() {
    recorded(Recorder::default(), async |recorder, client, near, far| {
        settle(&near, &far).await;
        recorder.set_window(1);
        let mut stream = near.open_uni().await.expect("a stream");
        stream.write_all(&[7; 10_000]).await.expect("it is open");
        near.close(0_u32.into(), b"done");
        client.wait_idle().await;
        assert!(far.close_reason().is_none());
    });
}

#[test]
fn quinn_takes_ect1_counts_for_a_broken_path() {
    let ect1 = Recorder {
        sends_ect1: true,
        ..Recorder::default()
    };
    let calls = transferred(ect1).calls();
    let with_ecn: Vec<bool> = calls
        .iter()
        .filter_map(|call| match call {
            Call::Socket(_, with_ecn) => Some(*with_ecn),
            _ => None,
        })
        .collect();
    assert_eq!(
        (with_ecn.first(), with_ecn.last()),
        (Some(&true), Some(&false))
    );
}

#[test]
fn quinn_reports_acks_then_their_end_then_losses() {
    let losing = Recorder {
        loses: 50,
        ..Recorder::default()
    };
    let (mut is_open, mut congestion) = (false, 0);
    for call in transferred(losing).calls() {
        match call {
            Call::Acked => is_open = true,
            Call::AcksEnd => is_open = false,
            Call::Congestion => {
                assert!(!is_open, "the ACK frame has not ended");
                congestion += 1;
            }
            _ => {}
        }
    }
    assert!(congestion > 0);
}

/// Notes when a session begins.
struct Client(Arc<QuicClientConfig>, Arc<Recorder>);

impl crypto::ClientConfig for Client {
    fn start_session(
        self: Arc<Self>,
        version: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn Session>, ConnectError> {
        self.1.note(Call::Session);
        crypto::ClientConfig::start_session(self.0.clone(), version, server_name, params)
    }
}

struct Factory(Arc<Recorder>);

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, _now: Instant, _mtu: u16) -> Box<dyn Controller> {
        self.0.note(Call::Controller);
        Box::new(Governor(self.0.clone()))
    }
}

#[derive(Clone)]
struct Governor(Arc<Recorder>);

impl Controller for Governor {
    fn on_sent(&mut self, _now: Instant, bytes: u64, _last: u64) {
        self.0.note(Call::Sent(bytes));
    }

    fn on_ack(&mut self, _: Instant, _: Instant, _: u64, _: bool, _: &RttEstimator) {
        self.0.note(Call::Acked);
    }

    fn on_end_acks(&mut self, _: Instant, _: u64, _: bool, _: Option<u64>) {
        self.0.note(Call::AcksEnd);
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: u64) {
        self.0.note(Call::Congestion);
    }

    fn on_mtu_update(&mut self, _mtu: u16) {}

    fn window(&self) -> u64 {
        self.0.note(Call::Window);
        self.0.window.load(Ordering::Relaxed)
    }

    fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics::default()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        12_000
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[derive(Debug)]
struct Recorded(TokioRuntime, Arc<Recorder>);

impl Runtime for Recorded {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        self.0.new_timer(at)
    }

    fn spawn(&self, future: Pin<Box<dyn Future<Output = ()> + Send>>) {
        if self.1.last_here() != Some(Call::Poller) {
            self.0.spawn(future);
            return;
        }
        self.1.note(Call::Driver);
        self.0.spawn(Box::pin(Driver(future, self.1.clone())));
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        let inner = self.0.wrap_udp_socket(socket)?;
        Ok(Arc::new(Socket(inner, self.1.clone())))
    }

    fn now(&self) -> Instant {
        self.1.note(Call::Clock);
        self.0.now()
    }
}

struct Driver(Pin<Box<dyn Future<Output = ()> + Send>>, Arc<Recorder>);

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.1.note(Call::PollBegins);
        let polled = self.0.as_mut().poll(cx);
        self.1.note(Call::PollEnds);
        polled
    }
}

#[derive(Debug)]
struct Socket(Arc<dyn AsyncUdpSocket>, Arc<Recorder>);

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        self.1.note(Call::Poller);
        self.0.clone().create_io_poller()
    }

    /// Gives the system one datagram at a time, so that it need not have segmentation offload.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let segment = transmit.segment_size.unwrap_or(transmit.contents.len());
        for (nth, contents) in transmit.contents.chunks(segment).enumerate() {
            let count = self.1.datagrams.fetch_add(1, Ordering::Relaxed) + 1;
            if self.1.loses > 0 && count.is_multiple_of(self.1.loses) {
                continue;
            }
            let ecn = match transmit.ecn {
                Some(_) if self.1.sends_ect1 => Some(EcnCodepoint::Ect1),
                ecn => ecn,
            };
            let single = Transmit {
                contents,
                segment_size: None,
                ecn,
                ..*transmit
            };
            // quinn tries again if the system has taken nothing; else the rest is lost.
            match self.0.try_send(&single) {
                Err(error) if nth == 0 => return Err(error),
                _ => {}
            }
        }
        let bytes = transmit.contents.len() as u64;
        self.1.note(Call::Socket(bytes, transmit.ecn.is_some()));
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.1.note(Call::BatchSize);
        64
    }

    fn max_receive_segments(&self) -> usize {
        self.0.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.0.may_fragment()
    }
}
