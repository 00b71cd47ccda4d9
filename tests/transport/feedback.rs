//! What senders and controllers report to the path, and what they learn of it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evenkeel::PathSample;
use evenkeel::controller::{Ack, Congestion, Controller, Feedback};
use evenkeel_wire::PathHeaderView;

use super::pair::{HEADED, Kind, Pair, seconds};
use super::support::{Net, drain, flood};

/// A controller that follows routers, and what it was given.
#[derive(Debug, Clone)]
struct Follower {
    header_interval: u32,
    inputs: Arc<Mutex<Inputs>>,
}

#[derive(Debug, Default)]
struct Inputs {
    newest_sample: Option<Instant>,
    samples: usize,
    /// How old the newest sample was at each ACK.
    ages: Vec<Duration>,
    /// Bytes.
    overhead: Option<u16>,
}

impl Follower {
    fn new(header_interval: u32) -> Self {
        Self {
            header_interval,
            inputs: Arc::default(),
        }
    }

    fn inputs<T>(&self, read: impl FnOnce(&mut Inputs) -> T) -> T {
        read(&mut self.inputs.lock().expect("no test panics in here"))
    }
}

impl Controller for Follower {
    fn on_path(&mut self, sample: &PathSample) {
        self.inputs(|inputs| {
            inputs.newest_sample = Some(sample.now);
            inputs.samples += 1;
        });
    }
    fn on_ack(&mut self, ack: &Ack) {
        self.inputs(|inputs| {
            if let Some(newest) = inputs.newest_sample {
                inputs.ages.push(ack.now - newest);
            }
        });
    }
    fn on_congestion(&mut self, _: &Congestion) {}
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _: u16) {}
    fn on_overhead(&mut self, bytes: u16) {
        self.inputs(|inputs| inputs.overhead = Some(bytes));
    }
    fn window(&self) -> u64 {
        24_000
    }
    fn follows(&self) -> Option<Feedback> {
        Some(Feedback::Acp)
    }
    fn header_interval(&self) -> u32 {
        self.header_interval
    }
    fn slow_start_threshold(&self) -> Option<u64> {
        None
    }
}

/// A pair whose client runs `follower`.
fn pair_of(follower: &Follower) -> Pair {
    let follower = follower.clone();
    let factory = evenkeel::controller::adapt(move |_, _| Box::new(follower.clone()));
    let net = Net::new(10_000_000, 10.0);
    Pair::on(net, HEADED, Kind::Answering, factory)
}

#[test]
fn headers_ask_routers_for_the_rate_that_the_application_desires() {
    let mut pair = Pair::new(HEADED, HEADED);
    pair.run(seconds(5));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    pair.client_socket.interfere(move |datagram| {
        if let Ok(header) = PathHeaderView::parse(datagram) {
            let rate = header.signals().feedback.rate().bytes_per_second();
            seen.lock().expect("no test panics in here").push(rate);
        }
        vec![datagram.to_vec()]
    });
    let context = pair.contexts().0.expect("an evenkeel configuration");
    let mut asks = |desired| {
        context.limit_requested_rate(desired);
        asked.lock().expect("no test panics in here").clear();
        pair.run(seconds(1));
        let mut asked = std::mem::take(&mut *asked.lock().expect("no test panics in here"));
        assert!(asked.len() > 100, "{} headers", asked.len());
        asked.dedup();
        asked
    };
    assert_eq!(asks(None), [None]);
    // With IP, UDP and path header a packet of 1420 bytes has 1480, rates have eleven bits.
    let [Some(rate)] = asks(Some(142_000))[..] else {
        panic!("one rate for all")
    };
    assert!((147_900..=148_000).contains(&rate), "{rate}");
    assert_eq!(asks(None), [None]);
}

#[test]
fn a_controller_that_needs_fewer_headers_sends_fewer_and_knows_what_packets_add() {
    let shares = |interval| {
        let follower = Follower::new(interval);
        let mut pair = pair_of(&follower);
        pair.run(seconds(1));
        let sockets = [pair.client_socket.clone(), pair.server_socket.clone()];
        for socket in &sockets {
            socket.take();
        }
        pair.run(seconds(5));
        let shares = sockets.map(|socket| {
            let left = socket.take();
            let headed = left.iter().filter(|departure| departure.headed).count();
            headed as f64 / left.len() as f64
        });
        (shares, follower.inputs(|inputs| inputs.overhead))
    };
    let ([sent, answered], overhead) = shares(1);
    assert!(sent > 0.99 && answered > 0.95, "{sent}, {answered}");
    assert_eq!(overhead, None, "as it was taken to be");
    let ([sent, answered], overhead) = shares(16);
    // A window of 16 packets: two in a round trip are one in eight. Each has its answer, an ACK
    // for two packets.
    assert!((0.0625..=0.15).contains(&sent), "{sent}");
    assert!((0.12..=0.3).contains(&answered), "{answered}");
    assert_eq!(overhead, Some(28 + 2));
}

#[test]
fn each_ack_finds_the_newest_sample_told_whatever_datagram_brought_it() {
    // The client hardly sends: ACKs of what the server floods it with, and credit. Most echoes
    // arrive in datagrams without an ACK, and hundreds between two ACKs.
    let follower = Follower::new(1);
    let mut pair = pair_of(&follower);
    pair.run(Duration::from_millis(200));
    let accepted = pair
        .accepted
        .lock()
        .expect("no test panics in here")
        .clone();
    pair.net.spawn(flood(accepted.expect("it is connected")));
    let connection = pair.connection();
    pair.net.spawn(drain(connection, Arc::default()));
    pair.run(seconds(1));
    follower.inputs(|inputs| (inputs.samples, inputs.ages) = (0, Vec::new()));
    pair.run(seconds(5));
    follower.inputs(|inputs| {
        assert!(inputs.samples > 1_000, "{} samples", inputs.samples);
        assert!(inputs.ages.len() > 100, "{} ACKs", inputs.ages.len());
        // Packets are less than 2 ms apart.
        let oldest = inputs.ages.iter().max().expect("some");
        assert!(*oldest < Duration::from_millis(5), "{oldest:?}");
    });
}
