//! What media applications ask a connection, on the shipping endpoint in virtual time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::{
    CapacityProbeEnd, CapacityReport, Context, FlowWindows, LimitedBy, PathState, SharedFactory,
};
use evenkeel_testbed::scenario::LinkBuilder;
use evenkeel_testbed::sim::SimRuntime;
use quinn::{Runtime, TransportConfig, VarInt};

use super::pair::{reno, seconds};
use super::support::{
    Host, Net, Recorder, client_tls, constant, drain, flood, identity, server_tls,
};

/// A sender that is connected with a receiver; both take path headers.
struct Line {
    net: Net,
    wire: Arc<Recorder>,
    runtime: Arc<SimRuntime>,
    sender: quinn::Connection,
    receiver: quinn::Connection,
    received: Arc<AtomicU64>,
    /// Bytes of a frame.
    frame: Arc<AtomicU64>,
}

const FRAME_TIME: Duration = Duration::from_millis(20);

impl Line {
    /// Connects on `net`; `receive` is the receiver's transport.
    fn new(mut net: Net, controller: SharedFactory, receive: TransportConfig) -> Self {
        let identity = identity();
        let evenkeel = evenkeel::EndpointBuilder::new()
            .path_headers(1)
            .hop_limit(64);
        let server = evenkeel.transport(receive, reno());
        let server = evenkeel
            .server_config(server_tls(&identity), server)
            .expect("a right configuration");
        let (config, socket) = (net.endpoint_config(), net.socket(Host::Receiver));
        let server = evenkeel
            .bind_abstract(config, Some(server), socket, net.runtime())
            .expect("a bound socket");
        let address = server.local_addr().expect("it is bound");
        let ends = Arc::new(Mutex::new((None, None)));
        let slots = ends.clone();
        net.spawn(async move {
            let incoming = server.accept().await.expect("it is open");
            let connection = incoming.await.expect("a path");
            slots.lock().expect("no test panics in here").1 = Some(connection);
            server.wait_idle().await;
        });

        let transport = evenkeel.transport(TransportConfig::default(), controller);
        let client = evenkeel
            .client_config(client_tls(&identity), transport)
            .expect("a right configuration");
        let (config, wire) = (net.endpoint_config(), net.socket(Host::Sender));
        let mut endpoint = evenkeel
            .bind_abstract(config, None, wire.clone(), net.runtime())
            .expect("a bound socket");
        endpoint.set_default_client_config(client);
        let slots = ends.clone();
        net.spawn(async move {
            let connecting = endpoint.connect(address, "localhost");
            let connection = connecting.expect("a right configuration").await;
            slots.lock().expect("no test panics in here").0 = Some(connection.expect("a path"));
            endpoint.wait_idle().await;
        });
        net.run_for(seconds(1));
        let (sender, receiver) = std::mem::take(&mut *ends.lock().expect("nobody panics"));
        Self {
            runtime: net.runtime(),
            net,
            wire,
            sender: sender.expect("it is connected"),
            receiver: receiver.expect("it is connected"),
            received: Arc::default(),
            frame: Arc::default(),
        }
    }

    /// A line to a receiver that reads all.
    fn reading(net: Net, controller: SharedFactory) -> Self {
        let line = Self::new(net, controller, TransportConfig::default());
        line.read();
        line
    }

    fn read(&self) {
        self.net
            .spawn(drain(self.receiver.clone(), self.received.clone()));
    }

    fn flood(&self) {
        self.net.spawn(flood(self.sender.clone()));
    }

    /// Sends a frame every 20 ms, of a size that makes `bytes_per_second`; 0 sends none.
    fn encode(&self, bytes_per_second: u64) {
        let is_running = self.frame.swap(bytes_per_second / 50, Ordering::Relaxed) > 0;
        if is_running {
            return;
        }
        let (connection, runtime) = (self.sender.clone(), self.runtime.clone());
        let size = self.frame.clone();
        self.net.spawn(async move {
            let Ok(mut stream) = connection.open_uni().await else {
                return;
            };
            loop {
                let bytes = size.load(Ordering::Relaxed);
                if bytes == 0 || stream.write_all(&vec![0; bytes as usize]).await.is_err() {
                    return;
                }
                sleep(&runtime, FRAME_TIME).await;
            }
        });
    }

    fn context(&self) -> Context {
        Context::of(&self.sender).expect("an evenkeel configuration")
    }

    fn run(&mut self, time: Duration) -> PathState {
        self.net.run_for(time);
        self.context().state()
    }

    /// What a task returns after `time`.
    fn outcome<T: Send + 'static>(
        &mut self,
        time: Duration,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let outcome = Arc::new(Mutex::new(None));
        let slot = outcome.clone();
        self.net.spawn(async move {
            let outcome = task.await;
            *slot.lock().expect("no test panics in here") = Some(outcome);
        });
        self.net.run_for(time);
        outcome.lock().expect("no test panics in here").take()
    }
}

async fn sleep(runtime: &SimRuntime, time: Duration) {
    let mut timer = runtime.new_timer(runtime.now() + time);
    poll_fn(|cx| timer.as_mut().poll(cx)).await;
}

fn ten_megabits() -> Net {
    Net::new(10_000_000, 10.0)
}

fn vegas() -> SharedFactory {
    evenkeel::controller("vegas").expect("a name of the table")
}

/// Bytes of UDP payload per second that 10 Mb/s carry, nearly: headers take a thirtieth.
const CAPACITY: f64 = 1_200_000.0;

#[test]
fn the_estimate_is_what_was_delivered_and_not_what_a_window_once_held() {
    let mut line = Line::reading(ten_megabits(), reno());
    line.flood();
    let state = line.run(seconds(10));
    let estimate = state.rate_estimate().expect("10 s of round trips") as f64;
    assert!((0.8..1.1).contains(&(estimate / CAPACITY)), "{estimate}");
    assert!(state.is_rate_tried());

    // A window of a full queue, though the application sends a fifth of what the path carries.
    let mut line = Line::reading(ten_megabits(), constant(u64::MAX, 110_000));
    line.encode(250_000);
    let state = line.run(seconds(5));
    let rtt = state.smoothed_rtt.expect("5 s of round trips");
    assert!(110_000.0 / rtt.as_secs_f64() > 2.0 * CAPACITY, "{rtt:?}");
    let estimate = state.rate_estimate().expect("5 s of round trips");
    assert!((450_000..=700_000).contains(&estimate), "{estimate}");
    assert!(!state.is_rate_tried(), "the path has carried half of it");

    // What it carried counts for 10 s.
    line.encode(800_000);
    line.run(seconds(2));
    line.encode(250_000);
    let state = line.run(seconds(7));
    assert!(state.rate_estimate() > Some(1_400_000));
    let state = line.run(seconds(5));
    assert!(state.rate_estimate() < Some(750_000));
    let age = line.runtime.now() - state.updated.expect("14 s of ACKs");
    assert!(age < Duration::from_millis(100), "{age:?}");
}

#[test]
fn round_trips_and_queueing_are_told_with_and_without_the_routers_word() {
    let stamping = |link: LinkBuilder| link.stamps(&["aqt"]);
    let mut line = Line::reading(Net::with(10_000_000, 10.0, 1500, stamping), reno());
    line.encode(100_000);
    let state = line.run(seconds(2));
    let idle = state.queueing_delay.expect("2 s of round trips");
    assert!(idle <= Duration::from_millis(5), "{idle:?}");
    // Reno fills 50 packets: 60 ms.
    line.flood();
    let mut most = (Duration::ZERO, Duration::ZERO);
    for _ in 0..100 {
        let state = line.run(Duration::from_millis(50));
        let [min, latest] = [state.min_rtt, state.latest_rtt].map(|rtt| rtt.expect("ACKs came"));
        assert!((40..=46).contains(&min.as_millis()), "{min:?}");
        assert!(latest >= min);
        most.0 = most.0.max(state.queueing_delay.expect("ACKs came"));
        most.1 = most
            .1
            .max(state.reported_queueing.expect("a router stamps"));
    }
    for queueing in [most.0, most.1] {
        assert!((45..=65).contains(&queueing.as_millis()), "{most:?}");
    }
}

#[test]
fn what_limits_a_connection_is_told() {
    // 1 Mb/s of 10, with a window that never fills.
    let mut line = Line::reading(ten_megabits(), constant(125_000, 1_000_000));
    line.encode(20_000);
    assert_eq!(line.run(seconds(1)).limited_by, LimitedBy::Application);
    line.flood();
    assert_eq!(line.run(seconds(1)).limited_by, LimitedBy::Pacing);

    let mut line = Line::reading(ten_megabits(), constant(u64::MAX, 24_000));
    line.flood();
    assert_eq!(line.run(seconds(1)).limited_by, LimitedBy::Window);

    // A peer that takes 20 kB and reads nothing; a window that would hold them.
    let mut receive = TransportConfig::default();
    receive.receive_window(VarInt::from_u32(20_000));
    let mut line = Line::new(ten_megabits(), constant(u64::MAX, 100_000), receive);
    assert_eq!(line.run(seconds(1)).limited_by, LimitedBy::Application);
    line.flood();
    assert_eq!(line.run(seconds(1)).limited_by, LimitedBy::FlowControl);
    line.read();
    line.receiver
        .set_receive_window(VarInt::from_u32(1_000_000));
    assert_eq!(line.run(seconds(1)).limited_by, LimitedBy::Window);
}

#[test]
fn losses_are_told_by_cause() {
    let mut line = Line::reading(ten_megabits(), reno());
    line.flood();
    let losses = line.run(seconds(10)).losses;
    let stats = line.sender.stats().path;
    assert!(losses.detections > 0);
    assert_eq!(losses.bytes, stats.lost_bytes);
    assert_eq!((losses.marks, losses.persistent), (0, 0));
    // Nothing arrives for 5 s.
    line.wire.interfere(|_| Vec::new());
    line.run(seconds(5));
    line.wire.interfere(|datagram| vec![datagram.to_vec()]);
    let losses = line.run(seconds(10)).losses;
    assert!(losses.persistent > 0, "{losses:?}");

    let marking = |link: LinkBuilder| {
        let link = link.queue_packets(1000);
        link.set("discipline", "codel:ecn=true")
    };
    let mut line = Line::reading(Net::with(10_000_000, 10.0, 1500, marking), reno());
    line.flood();
    let losses = line.run(seconds(10)).losses;
    assert!(losses.marks > 0, "{losses:?}");
    assert_eq!(losses.detections, 0, "{losses:?}");
}

#[test]
fn changes_wake_once_a_round_trip_at_most_and_not_while_nothing_changes() {
    let mut line = Line::reading(ten_megabits(), vegas());
    let (wakes, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, end) = (wakes.clone(), over.clone());
    let mut changes = line.context().changes();
    line.net.spawn(async move {
        while let Some(state) = changes.next().await {
            assert!(state.updated.is_some());
            count.fetch_add(1, Ordering::Relaxed);
        }
        end.store(1, Ordering::Relaxed);
    });
    line.encode(500_000);
    line.run(seconds(10));
    // 10 s of round trips of 40 ms or a little more.
    let told = wakes.load(Ordering::Relaxed);
    assert!((140..=251).contains(&told), "{told}");
    line.encode(0);
    line.run(seconds(1));
    let told = wakes.load(Ordering::Relaxed);
    line.run(seconds(5));
    assert_eq!(wakes.load(Ordering::Relaxed), told, "nothing changes");
    assert_eq!(over.load(Ordering::Relaxed), 0);
    line.sender.close(VarInt::from_u32(0), b"");
    line.run(seconds(5));
    assert_eq!(over.load(Ordering::Relaxed), 1);
    let mut late = line.context().changes();
    let none = line.outcome(seconds(1), async move { late.next().await.is_none() });
    assert_eq!(none, Some(true));
}

/// Keeps a stream of low priority full until the probe reports; the peer need not read it.
async fn probe_with_padding(connection: quinn::Connection, rate: u64) -> Option<CapacityReport> {
    let context = Context::of(&connection)?;
    let mut stream = connection.open_uni().await.ok()?;
    stream.set_priority(-1).ok()?;
    let report = {
        let mut padding = pin!(async {
            while stream.write_all(&[0; 4096]).await.is_ok() {}
            std::future::pending::<()>().await;
        });
        let mut probe = pin!(context.probe_capacity(rate, Duration::from_millis(300)));
        poll_fn(|cx| {
            let _ = padding.as_mut().poll(cx);
            probe.as_mut().poll(cx)
        })
        .await
    };
    stream.reset(VarInt::from_u32(0)).ok()?;
    report
}

#[test]
fn a_probe_finds_what_a_path_carries_and_the_controller_goes_on_from_there() {
    let mut line = Line::reading(ten_megabits(), vegas());
    line.encode(100_000);
    let before = line.run(seconds(5));
    let estimate = before.rate_estimate().expect("5 s of round trips");
    assert!(
        estimate < 300_000,
        "{estimate}: the application sends little"
    );
    let probe = probe_with_padding(line.sender.clone(), u64::MAX);
    let report = line.outcome(seconds(1), probe).flatten();
    let report = report.expect("its time is up");
    assert_eq!(report.end, CapacityProbeEnd::Carried, "{report:?}");
    // Twice the estimate of that moment.
    assert!(
        (400_000..=600_000).contains(&report.tried_rate),
        "{report:?}"
    );
    assert!(
        report.delivered_rate > report.tried_rate / 10 * 9,
        "{report:?}"
    );
    let after = line.context().state();
    assert!(after.rate_estimate() > Some(estimate / 2 * 3), "{after:?}");
    assert_eq!(after.losses.detections, 0);
    assert_eq!(
        after.limited_by,
        LimitedBy::Application,
        "the padding has ended"
    );
}

#[test]
fn a_probe_of_more_than_the_path_carries_ends_with_the_queue_and_without_loss() {
    // 250 kB/s, of which the application uses 100.
    let mut line = Line::reading(Net::new(2_000_000, 10.0), vegas());
    line.encode(100_000);
    line.run(seconds(5));
    let probe = probe_with_padding(line.sender.clone(), u64::MAX);
    let report = line.outcome(seconds(1), probe).flatten();
    let report = report.expect("a queue grew");
    assert_eq!(report.end, CapacityProbeEnd::Queueing, "{report:?}");
    assert!(report.delivered_rate < 260_000, "{report:?}");
    assert_eq!(line.context().state().losses.detections, 0);
}

#[test]
fn a_probe_needs_data_and_a_connection() {
    let mut line = Line::reading(ten_megabits(), vegas());
    line.encode(100_000);
    line.run(seconds(5));
    let time = Duration::from_millis(300);
    let probe = line.context().probe_capacity(u64::MAX, time);
    let report = line.outcome(seconds(1), probe).flatten();
    let end = report.map(|report| report.end);
    assert_eq!(end, Some(CapacityProbeEnd::TooLittleData), "{report:?}");
    // Another takes its place.
    let (first, second) = (
        line.context().probe_capacity(u64::MAX, time),
        line.context().probe_capacity(u64::MAX, time),
    );
    assert_eq!(line.outcome(seconds(1), first), Some(None));
    assert!(line.outcome(seconds(1), second).flatten().is_some());
    let last = line.context().probe_capacity(u64::MAX, seconds(100));
    line.sender.close(VarInt::from_u32(0), b"");
    assert_eq!(line.outcome(seconds(5), last), Some(None));
    let late = line.context().probe_capacity(u64::MAX, time);
    assert_eq!(line.outcome(seconds(1), late), Some(None));
}

#[test]
fn flow_windows_that_follow_fill_a_path_that_quinns_own_do_not() {
    // 100 Mb/s over 200 ms: 2.5 MB in flight.
    let rate = |windows: Option<FlowWindows>| {
        let mut receive = TransportConfig::default();
        if let Some(windows) = windows {
            windows.prepare(&mut receive);
        }
        let net = Net::new(100_000_000, 50.0);
        let mut line = Line::new(net, constant(11_500_000, 4_000_000), receive);
        line.read();
        if let Some(windows) = windows {
            line.net.spawn(windows.follow(line.receiver.clone()));
        }
        line.flood();
        line.run(seconds(2));
        let before = line.received.load(Ordering::Relaxed);
        line.run(seconds(1));
        line.received.load(Ordering::Relaxed) - before
    };
    // A window of 1.25 MB in a round trip.
    let (stock, bound) = (rate(None), rate(Some(FlowWindows::up_to(1_000_000))));
    assert!((5_000_000..=6_300_000).contains(&stock), "{stock}");
    assert!((4_000_000..=5_100_000).contains(&bound), "{bound}");
    let following = rate(Some(FlowWindows::up_to(64 << 20)));
    assert!(following > 10_500_000, "{following}");
}
