//! Pacing of the shipping endpoint in virtual time.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task;
use std::time::{Duration, Instant};

use super::support::{
    Departure, Host, Net, Recorder, client_tls, constant, flood, identity, server_tls, sink,
    stock_client, stock_server,
};
use evenkeel::controller::{Ack, Congestion, Controller};
use evenkeel::{AckReport, Context, Observer, Pacing, SharedFactory};
use quinn::{AckFrequencyConfig, TransportConfig, VarInt};

#[derive(Debug, Default)]
struct Samples(Mutex<Vec<AckReport>>);

impl Observer for Samples {
    fn on_acks(&self, report: &AckReport) {
        self.0
            .lock()
            .expect("no test panics in here")
            .push(report.clone());
    }
}

impl Samples {
    fn take(&self) -> Vec<AckReport> {
        std::mem::take(&mut self.0.lock().expect("no test panics in here"))
    }
}

/// A sender that floods a receiver.
struct Flood {
    net: Net,
    wire: Arc<Recorder>,
    samples: Arc<Samples>,
    connection: Arc<Mutex<Option<quinn::Connection>>>,
}

impl Flood {
    /// Every packet is acknowledged at once: RTT samples are the path's.
    fn start(
        rate_bps: u64,
        quarter_rtt_ms: f64,
        endpoint: &evenkeel::EndpointBuilder,
        controller: SharedFactory,
    ) -> Self {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(0));
        Self::with_acks(rate_bps, quarter_rtt_ms, endpoint, controller, Some(acks))
    }

    /// Without `acks`, every second packet is, and a lone one after 25 ms.
    fn with_acks(
        rate_bps: u64,
        quarter_rtt_ms: f64,
        endpoint: &evenkeel::EndpointBuilder,
        controller: SharedFactory,
        acks: Option<AckFrequencyConfig>,
    ) -> Self {
        let mut net = Net::new(rate_bps, quarter_rtt_ms);
        let identity = identity();
        let receiver = net.socket(Host::Receiver);
        let address = quinn::AsyncUdpSocket::local_addr(&*receiver).expect("it is bound");
        let server = stock_server(server_tls(&identity), fixed_mtu());
        let config = net.endpoint_config();
        let receiver = quinn::Endpoint::new_with_abstract_socket(
            config,
            Some(server),
            receiver,
            net.runtime(),
        )
        .expect("a bound socket");
        net.spawn(sink(receiver, net.runtime()));

        let samples = Arc::new(Samples::default());
        let mut transport = Arc::into_inner(fixed_mtu()).expect("one owner");
        transport.ack_frequency_config(acks);
        let transport =
            endpoint.transport(transport, evenkeel::observed(controller, samples.clone()));
        let wire = net.socket(Host::Sender);
        let config = net.endpoint_config();
        let mut sender = endpoint
            .bind_abstract(config, None, wire.clone(), net.runtime())
            .expect("a bound socket");
        sender.set_default_client_config(stock_client(client_tls(&identity), transport));
        let connection = Arc::new(Mutex::new(None));
        let slot = connection.clone();
        net.spawn(async move {
            let connecting = sender
                .connect(address, "localhost")
                .expect("a right configuration");
            let connection = connecting.await.expect("a path without loss");
            *slot.lock().expect("no test panics in here") = Some(connection.clone());
            flood(connection).await;
        });
        Self {
            net,
            wire,
            samples,
            connection,
        }
    }

    /// Runs for `time`; what left in it, and the ACKs.
    fn run(&mut self, time: Duration) -> (Vec<Departure>, Vec<AckReport>) {
        self.wire.take();
        self.samples.take();
        self.net.run_for(time);
        (self.wire.take(), self.samples.take())
    }

    fn connection(&self) -> quinn::Connection {
        let connection = self.connection.lock().expect("no test panics in here");
        connection.clone().expect("it is connected")
    }

    fn context(&self) -> Context {
        Context::of(&self.connection()).expect("an evenkeel configuration")
    }
}

/// A transport that does not search for larger packets.
fn fixed_mtu() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.mtu_discovery_config(None);
    Arc::new(config)
}

fn data(departures: &[Departure]) -> Vec<Instant> {
    departures
        .iter()
        .filter(|d| d.bytes > 1000)
        .map(|d| d.at)
        .collect()
}

/// Bytes per second of UDP payload.
fn rate(departures: &[Departure], time: Duration) -> f64 {
    departures.iter().map(|d| d.bytes as f64).sum::<f64>() / time.as_secs_f64()
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// The most packets that left within less than 50 us.
fn longest_burst(times: &[Instant]) -> usize {
    let close = Duration::from_micros(50);
    (0..times.len())
        .map(|first| {
            times[first..]
                .iter()
                .take_while(|t| **t - times[first] < close)
                .count()
        })
        .max()
        .unwrap_or(0)
}

#[test]
fn packets_leave_one_by_one_at_the_controllers_rate_and_the_round_trip_is_the_wires() {
    for (rate_bps, bytes_per_second) in [(1_600_000, 200_000), (10_000_000, 1_250_000)] {
        let controller = constant(bytes_per_second, 1_000_000);
        // A path with ten times the rate: no queue.
        let mut flood = Flood::start(
            10 * rate_bps,
            10.0,
            &evenkeel::EndpointBuilder::new(),
            controller,
        );
        flood.run(seconds(1));
        let (departures, acks) = flood.run(seconds(20));
        let burst = longest_burst(&data(&departures));
        assert!(burst <= 2, "{rate_bps} bit/s: {burst} packets at once");
        let rate = rate(&departures, seconds(20)) / bytes_per_second as f64;
        assert!((0.99..=1.01).contains(&rate), "{rate} of the rate");
        // 40 ms and the time to transmit a packet and its ACK on six links.
        let transmission = Duration::from_secs(1228 * 8) / (10 * rate_bps as u32);
        for ack in acks {
            let rtt = ack.rtt.expect("nothing was lost");
            let beyond = rtt - Duration::from_millis(40);
            assert!(beyond < transmission * 2, "{rate_bps} bit/s: {rtt:?}");
        }
    }
}

#[test]
fn a_window_alone_is_spread_over_its_round_trip() {
    for rate_bps in [1_600_000, 10_000_000] {
        for controller in ["vegas", "reno", "cubic"] {
            let factory = evenkeel::controller(controller).expect("a name of the table");
            let mut flood =
                Flood::start(rate_bps, 10.0, &evenkeel::EndpointBuilder::new(), factory);
            flood.run(seconds(10));
            let (departures, _) = flood.run(seconds(20));
            let burst = longest_burst(&data(&departures));
            assert!(
                burst <= 2,
                "{controller} at {rate_bps} bit/s: {burst} packets at once"
            );
            let factory = evenkeel::controller(controller).expect("a name of the table");
            let unpaced = evenkeel::EndpointBuilder::new().pacing(Pacing::Unpaced);
            let mut flood = Flood::start(rate_bps, 10.0, &unpaced, factory);
            flood.run(seconds(10));
            let (unpaced, _) = flood.run(seconds(20));
            let share = rate(&departures, seconds(20)) / rate(&unpaced, seconds(20));
            assert!(
                share >= 0.98,
                "{controller} at {rate_bps} bit/s: {share} of unpaced"
            );
        }
    }
}

#[test]
fn without_pacing_a_window_leaves_in_one_burst_and_with_quinns_in_shorter_ones() {
    // The tests above could fail: this is what they would see.
    for (pacing, bursts) in [(Pacing::Quinn, 10..=20), (Pacing::Unpaced, 59..=60)] {
        let endpoint = evenkeel::EndpointBuilder::new().pacing(pacing);
        let controller = constant(200_000, 60 * 1200);
        let mut flood = Flood::start(100_000_000, 10.0, &endpoint, controller);
        let (departures, _) = flood.run(seconds(5));
        let burst = longest_burst(&data(&departures));
        assert!(bursts.contains(&burst), "{pacing}: {burst} at once");
        assert_eq!(flood.context().state().pacing_rate, None);
    }
}

#[test]
fn without_pacing_no_more_is_in_flight_than_the_window() {
    // 40 ms and no ACK comes sooner: what leaves within that time is in flight together. A queue
    // of 50 packets and half the rate of the window: there are losses.
    for packets in [3, 10, 40, 100] {
        let unpaced = evenkeel::EndpointBuilder::new().pacing(Pacing::Unpaced);
        let controller = constant(200_000, packets * 1200);
        let mut flood = Flood::start(10_000_000, 10.0, &unpaced, controller);
        let (departures, _) = flood.run(seconds(10));
        let times = data(&departures);
        assert!(times.len() > 500, "{} packets", times.len());
        for (first, time) in times.iter().enumerate() {
            let round_trip = Duration::from_millis(40);
            let together = times[first..]
                .iter()
                .take_while(|other| **other - *time < round_trip)
                .count() as u64;
            // Two probes are not held to the window (RFC 9002, section 7.5).
            assert!(together <= packets + 2, "{packets}: {together}");
        }
    }
}

#[test]
fn a_rate_below_one_packet_per_round_trip_is_kept() {
    // 40 ms, a packet each second; the window is below a packet, too.
    let mut flood = Flood::start(
        10_000_000,
        10.0,
        &evenkeel::EndpointBuilder::new(),
        constant(1200, 300),
    );
    flood.run(seconds(10));
    let (departures, _) = flood.run(seconds(100));
    let times = data(&departures);
    assert!((99..=101).contains(&times.len()), "{} packets", times.len());
    for pair in times.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(gap > Duration::from_millis(900), "{gap:?}");
    }
}

#[test]
fn one_packet_in_five_round_trips_leaves_for_ever_and_no_probe_timeout_fires() {
    // 40 ms and 200 ms; an ACK comes 25 ms late, because no second packet is there to call it.
    let mut flood = Flood::with_acks(
        10_000_000,
        10.0,
        &evenkeel::EndpointBuilder::new(),
        constant(6000, 300),
        None,
    );
    flood.run(seconds(10));
    let sent = |flood: &Flood| {
        let stats = flood.connection().stats();
        let frames = (stats.frame_tx.ping, stats.frame_tx.immediate_ack);
        (
            stats.path.lost_packets,
            stats.path.congestion_events,
            frames,
        )
    };
    let before = sent(&flood);
    let (departures, acks) = flood.run(seconds(1000));
    let times = data(&departures);
    assert!((4999..=5001).contains(&times.len()), "{}", times.len());
    for pair in times.windows(2) {
        let gap = pair[1] - pair[0];
        assert!((199..=201).contains(&gap.as_millis()), "{gap:?}");
    }
    // Probes would be packets of their own, small ones if there is no data to repeat.
    assert_eq!(sent(&flood), before);
    let others = departures.len() - times.len();
    assert!(others < 20, "{others} beside the data");
    let late = acks
        .iter()
        .filter(|ack| ack.rtt > Some(Duration::from_millis(65)));
    assert!(late.count() > 4900, "the peer waits for a second packet");
}

/// A controller whose rate rises with an ACK.
#[derive(Debug, Clone, Default)]
struct Rising {
    acks: u32,
    risen: Arc<Mutex<Option<Instant>>>,
}

impl Rising {
    /// Some belong to the handshake.
    const SLOW_ACKS: u32 = 8;
}

impl Controller for Rising {
    fn on_ack(&mut self, ack: &Ack) {
        self.acks += 1;
        if self.acks == Self::SLOW_ACKS {
            *self.risen.lock().expect("no test panics in here") = Some(ack.now);
        }
    }
    fn on_congestion(&mut self, _: &Congestion) {}
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _: u16) {}
    fn window(&self) -> u64 {
        300
    }
    fn pacing_rate(&self) -> Option<u64> {
        // A packet in 10 s, then in 20 ms.
        let slow = self.acks < Self::SLOW_ACKS;
        Some(if slow { 120 } else { 60_000 })
    }
    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

#[test]
fn a_rate_that_rises_ends_a_long_wait_at_once() {
    let risen = Arc::<Mutex<Option<Instant>>>::default();
    let slot = risen.clone();
    let rising = evenkeel::controller::adapt(move |_, _| {
        Box::new(Rising {
            acks: 0,
            risen: slot.clone(),
        })
    });
    let mut flood = Flood::with_acks(
        10_000_000,
        10.0,
        &evenkeel::EndpointBuilder::new(),
        rising,
        None,
    );
    let (departures, _) = flood.run(seconds(100));
    let times = data(&departures);
    let risen = risen.lock().expect("no test panics in here");
    let risen = risen.expect("eight ACKs in 100 s");
    let before = times.partition_point(|at| *at < risen);
    let (last, next) = (times[before - 1], times[before]);
    // The packet before left 65 ms before its ACK, which ends the wait of 10 s for the next.
    let waited = last - times[before - 2];
    assert!(waited > seconds(9), "{waited:?}");
    assert!((65..=67).contains(&(risen - last).as_millis()));
    assert!(
        next - risen <= Duration::from_millis(20),
        "{:?}",
        next - risen
    );
}

#[test]
fn below_two_milliseconds_a_derived_rate_stands_aside() {
    let reno = || evenkeel::controller("reno").expect("a name of the table");
    let mut short = Flood::start(
        1_000_000_000,
        0.25,
        &evenkeel::EndpointBuilder::new(),
        constant(u64::MAX, 30_000),
    );
    short.net.run_for(Duration::from_millis(500));
    assert!(
        short.context().state().pacing_rate.is_some(),
        "a controller's own rate is kept"
    );
    let mut short = Flood::start(
        1_000_000_000,
        0.25,
        &evenkeel::EndpointBuilder::new(),
        reno(),
    );
    short.net.run_for(Duration::from_millis(5));
    assert_eq!(short.context().state().pacing_rate, None);
    let mut long = Flood::start(
        1_000_000_000,
        2.0,
        &evenkeel::EndpointBuilder::new(),
        reno(),
    );
    long.net.run_for(Duration::from_millis(50));
    assert!(long.context().state().pacing_rate.is_some());
}

#[test]
fn the_state_shows_window_rate_and_round_trip() {
    let mut flood = Flood::start(
        10_000_000,
        10.0,
        &evenkeel::EndpointBuilder::new(),
        constant(125_000, 50_000),
    );
    flood.run(seconds(5));
    let state = flood.context().state();
    assert_eq!(
        (state.window, state.mtu, state.pacing_rate),
        (50_000, 1200, Some(125_000))
    );
    assert_eq!(state.rate_estimate(), Some(125_000));
    let rtt = state.smoothed_rtt.expect("5 s of samples");
    assert!((40..=45).contains(&rtt.as_millis()), "{rtt:?}");
    assert!(!state.app_limited && state.in_flight > 0);
}

#[test]
fn another_controller_takes_over_on_a_live_connection() {
    let mut flood = Flood::start(
        10_000_000,
        10.0,
        &evenkeel::EndpointBuilder::new(),
        constant(125_000, 50_000),
    );
    flood.run(seconds(2));
    let (before, _) = flood.run(seconds(5));
    flood.context().switch_controller(constant(500_000, 50_000));
    flood.run(seconds(1));
    let (after, _) = flood.run(seconds(5));
    let ratio = rate(&after, seconds(5)) / rate(&before, seconds(5));
    assert!((3.9..=4.1).contains(&ratio), "{ratio}");
    flood
        .context()
        .switch_controller(evenkeel::controller("vegas").expect("a name of the table"));
    flood.run(seconds(20));
    let (vegas, _) = flood.run(seconds(5));
    assert!(rate(&vegas, seconds(5)) > 1_150_000.0);
}

#[test]
fn a_controller_that_is_restarted_begins_as_on_a_new_path() {
    let named = |name| evenkeel::controller(name).expect("a name of the table");
    for (from, to) in [("reno", "vegas"), ("cubic", "keel"), ("keel", "cubic")] {
        let mut flood = Flood::start(
            10_000_000,
            10.0,
            &evenkeel::EndpointBuilder::new(),
            named(from),
        );
        flood.run(seconds(10));
        let before = flood.context().state();
        let mut begun = pin!(flood.context().restart_controller(named(to)));
        let mut is_in_force = || {
            let poll = begun
                .as_mut()
                .poll(&mut task::Context::from_waker(task::Waker::noop()));
            poll == task::Poll::Ready(Some(()))
        };
        assert!(!is_in_force(), "{from} to {to}");
        flood.run(Duration::from_millis(4));
        assert!(is_in_force(), "{from} to {to}");
        let after = flood.context().state();
        let share = after.window as f64 / before.in_flight as f64;
        assert!(share < 0.6, "{from} to {to}: {share}");
        let threshold = after.slow_start_threshold;
        assert!(threshold.is_none_or(|t| t > after.window), "{from} to {to}");
        flood.run(seconds(10));
        let (later, _) = flood.run(seconds(5));
        assert!(rate(&later, seconds(5)) > 1_150_000.0, "{from} to {to}");
    }
}

#[test]
fn another_controller_begins_with_what_is_in_flight_and_without_a_burst() {
    let named = |name| evenkeel::controller(name).expect("a name of the table");
    for (from, to) in [
        ("vegas", "reno"),
        ("reno", "vegas"),
        ("cubic", "keel"),
        ("keel", "abgd"),
    ] {
        let mut flood = Flood::start(
            10_000_000,
            10.0,
            &evenkeel::EndpointBuilder::new(),
            named(from),
        );
        flood.run(seconds(10));
        let before = flood.context().state();
        flood.context().switch_controller(named(to));
        let (mut left, _) = flood.run(Duration::from_millis(4));
        let after = flood.context().state();
        let share = after.window as f64 / before.in_flight as f64;
        assert!((0.8..1.25).contains(&share), "{from} to {to}: {share}");
        let round_trip = before.smoothed_rtt.expect("10 s of round trips");
        left.extend(flood.run(round_trip - Duration::from_millis(4)).0);
        let left = data(&left);
        let share = left.len() as f64 * 1200.0 / before.in_flight as f64;
        assert!((0.8..1.25).contains(&share), "{from} to {to}: {share}");
        // A packet takes 1 ms; the bucket holds two.
        for four in left.windows(4) {
            let time = four[3] - four[0];
            assert!(
                time > Duration::from_micros(900),
                "{from} to {to}: {time:?}"
            );
        }
    }
}
