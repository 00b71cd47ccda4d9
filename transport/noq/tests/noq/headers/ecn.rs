//! With which ECN codepoint packets leave noq, what controllers hear of marks on each path, and what
//! becomes of paths that change them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_noq::controller::{Ack, Congestion, Controller};
use evenkeel_noq::{Context, EcnFault, EcnMode, EcnReport};
use noq::{PathId, PathStatus};
use quinn::udp::EcnCodepoint;

use super::ends::{Connection, Deaf, Kind, Pair};
use super::support::Net;

/// A scalable controller with a window for ever, and the marks that it heard of.
#[derive(Debug, Clone, Default)]
struct Scalable(Arc<AtomicU64>);

impl Controller for Scalable {
    fn on_ack(&mut self, ack: &Ack) {
        self.0.fetch_add(ack.marked, Ordering::Relaxed);
    }
    fn on_congestion(&mut self, event: &Congestion) {
        panic!("nothing is lost, and marks are no congestion of a scalable controller: {event:?}");
    }
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _: u16) {}
    fn ecn(&self) -> EcnMode {
        EcnMode::Scalable
    }
    fn window(&self) -> u64 {
        24_000
    }
    fn slow_start_threshold(&self) -> Option<u64> {
        Some(24_000)
    }
}

/// The scalable controllers of a client's paths, in the order in which the paths began.
type Governors = Arc<Mutex<Vec<Scalable>>>;

const ECT0: Option<EcnCodepoint> = Some(EcnCodepoint::Ect0);
const ECT1: Option<EcnCodepoint> = Some(EcnCodepoint::Ect1);
const CE: Option<EcnCodepoint> = Some(EcnCodepoint::Ce);

fn pair(client: Kind, server: Kind) -> (Pair, Governors) {
    let net = Net::new(10_000_000, 10.0);
    let governors = Governors::default();
    let built = governors.clone();
    let factory = evenkeel_noq::controller::adapt(move |_, _| {
        let governor = Scalable::default();
        let mut built = built.lock().expect("no test panics in here");
        built.push(governor.clone());
        Box::new(governor)
    });
    let pair = Pair::governed(net, client, server, "reno", Arc::new(Deaf), Some(factory));
    (pair, governors)
}

fn noq(pair: &Pair) -> noq::Connection {
    let [Connection::Noq(connection), _] = pair.ends() else {
        panic!("the client is on noq");
    };
    connection
}

fn ecn(pair: &Pair, path: PathId) -> EcnReport {
    let context = Context::of(&noq(pair)).expect("the first path is there");
    context.ecn(path).expect("it has sent")
}

/// The codepoints of what the client has sent since the last call.
fn left(pair: &Pair) -> Vec<Option<EcnCodepoint>> {
    let departures = pair.client_socket.take();
    departures
        .into_iter()
        .map(|departure| departure.ecn)
        .collect()
}

/// Marks every tenth datagram of the client. Returns how many so far.
fn mark_every_tenth(pair: &Pair) -> Arc<AtomicU64> {
    let marked = Arc::<AtomicU64>::default();
    let (counter, mut datagrams) = (marked.clone(), 0_u64);
    pair.client_socket.recode(move |ecn| {
        datagrams += 1;
        if datagrams % 10 != 0 || ecn.is_none() {
            return ecn;
        }
        counter.fetch_add(1, Ordering::Relaxed);
        CE
    });
    marked
}

#[test]
fn all_packets_of_a_scalable_controller_leave_noq_as_ect1_and_each_mark_counts_once() {
    for server in [Kind::PlainQuinn, Kind::PlainNoq, Kind::NoqL4s] {
        let (mut pair, governors) = pair(Kind::NoqL4s, server);
        let marked = mark_every_tenth(&pair);
        pair.run(5.0);
        let left = left(&pair);
        assert!(left.len() > 1000, "{server:?}: {}", left.len());
        assert!(left.iter().all(|ecn| *ecn == ECT1), "{server:?}");
        let ecn = ecn(&pair, PathId::ZERO);
        assert_eq!((ecn.sends, ecn.fault), (Some(EcnMode::Scalable), None));
        let marked = marked.load(Ordering::Relaxed);
        let governors = governors.lock().expect("no test panics in here");
        let heard: u64 = (governors.iter())
            .map(|one| one.0.load(Ordering::Relaxed))
            .sum();
        assert_eq!(heard, ecn.arrived.ce, "{server:?}");
        // Those under way are not yet acknowledged.
        assert!(
            marked > 100 && heard <= marked && heard + 10 > marked,
            "{heard} of {marked}"
        );
        assert_eq!(ecn.arrived.ect0, 0, "{server:?}");
        // The server's own packets are of `reno`, or of another endpoint.
        assert!(ecn.received.ect0 > 0, "{server:?}");
    }
}

#[test]
fn ecn_on_noq_is_classic_or_off_if_the_endpoint_says_so() {
    let (mut classic, _) = pair(Kind::NoqAnswers, Kind::PlainQuinn);
    classic.run(1.0);
    assert!(left(&classic).iter().all(|ecn| *ecn == ECT0));
    assert_eq!(ecn(&classic, PathId::ZERO).sends, Some(EcnMode::Classic));
    let (mut off, _) = pair(Kind::NoqWithoutEcn, Kind::PlainQuinn);
    off.run(1.0);
    assert!(left(&off).iter().all(Option::is_none));
    let ecn = ecn(&off, PathId::ZERO);
    assert_eq!((ecn.sends, ecn.fault), (None, None));
}

#[test]
fn a_path_that_turns_ect1_into_ect0_gets_ect0_from_noq() {
    let (mut pair, _) = pair(Kind::NoqL4s, Kind::PlainQuinn);
    pair.client_socket
        .recode(|ecn| if ecn == ECT1 { ECT0 } else { ecn });
    pair.run(1.0);
    left(&pair);
    pair.run(1.0);
    assert!(left(&pair).iter().all(|ecn| *ecn == ECT0));
    assert_eq!(ecn(&pair, PathId::ZERO).fault, Some(EcnFault::Remarked));
}

#[test]
fn a_path_that_clears_ecn_gets_none_from_noq() {
    let (mut pair, _) = pair(Kind::NoqL4s, Kind::PlainQuinn);
    pair.client_socket.recode(|_| None);
    pair.run(1.0);
    left(&pair);
    pair.run(1.0);
    assert!(left(&pair).iter().all(Option::is_none));
    assert_eq!(ecn(&pair, PathId::ZERO).fault, Some(EcnFault::Unconfirmed));
}

#[test]
fn each_path_of_a_noq_connection_counts_its_own_marks() {
    let (mut pair, governors) = pair(Kind::NoqL4sWithPaths, Kind::NoqL4sWithPaths);
    pair.run(1.0);
    let connection = noq(&pair);
    let remote = pair.server_address();
    // Not in a poll of the connection's driver: the application's task.
    let opened = connection.clone();
    let second = Arc::<Mutex<Option<PathId>>>::default();
    let found = second.clone();
    pair.net.spawn(async move {
        let path = opened.open_path(remote, PathStatus::Available).await;
        *found.lock().expect("no test panics in here") = Some(path.expect("it is let").id());
    });
    pair.run(2.0);
    let second = second.lock().expect("no test panics in here");
    let second = second.expect("the path is open");
    let before = [PathId::ZERO, second].map(|path| ecn(&pair, path).arrived);
    assert_eq!(before.map(|counts| counts.ce), [0, 0]);
    let marked = mark_every_tenth(&pair);
    pair.run(3.0);
    // Then the first one rests.
    let first = connection.path(PathId::ZERO).expect("it is open");
    first.set_status(PathStatus::Backup).expect("it is open");
    pair.run(3.0);
    let left = left(&pair);
    assert!(left.iter().all(|ecn| *ecn == ECT1 || ecn.is_none()));
    let states = [PathId::ZERO, second].map(|path| ecn(&pair, path));
    let governors = governors.lock().expect("no test panics in here");
    assert_eq!(governors.len(), 2);
    for (state, governor) in states.iter().zip(&*governors) {
        assert_eq!((state.sends, state.fault), (Some(EcnMode::Scalable), None));
        assert!(state.arrived.ce > 20, "{state:?}");
        assert_eq!(state.arrived.ce, governor.0.load(Ordering::Relaxed));
    }
    let heard: u64 = states.iter().map(|state| state.arrived.ce).sum();
    let marked = marked.load(Ordering::Relaxed);
    assert!(
        heard <= marked && heard + 10 > marked,
        "{heard} of {marked}"
    );
}

/// keel floods 20 Mb/s with a round trip of 40 ms, over `dualpi2`: the share of the link, and of the
/// packets that came marked.
fn over_dualpi2(client: Kind) -> (f64, f64) {
    let net = Net::with(20_000_000, 10.0, 1500, |link| {
        link.queue_packets(400).set("discipline", "dualpi2")
    });
    let mut pair = Pair::on(net, client, Kind::PlainQuinn, "keel", Arc::new(Deaf));
    pair.run(10.0);
    let (begun, counted) = (pair.received(), ecn(&pair, PathId::ZERO).arrived);
    let time = Duration::from_secs(20);
    pair.run(time.as_secs_f64());
    let counts = ecn(&pair, PathId::ZERO).arrived;
    let marks = (counts.ce - counted.ce) as f64;
    let unmarked = (counts.ect0 + counts.ect1 - counted.ect0 - counted.ect1) as f64;
    let bits = (pair.received() - begun) as f64 * 8.0;
    (bits / time.as_secs_f64() / 20e6, marks / (marks + unmarked))
}

#[test]
fn keel_on_noq_fills_a_link_whose_router_marks_for_l4s() {
    let (share, marked) = over_dualpi2(Kind::NoqL4s);
    println!("keel on noq over dualpi2: {share:.2} of the link, {marked:.3} marked");
    assert!(share > 0.8, "{share}");
    assert!(marked > 0.0 && marked < 0.5, "{marked}");
}
