//! With which ECN codepoint packets leave, what controllers hear of marks, and what becomes of paths
//! that change them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::controller::{Ack, Congestion, Controller};
use evenkeel::{EcnFault, EcnMode, EcnReport, SharedFactory};
use quinn::udp::EcnCodepoint;

use super::pair::{Kind, Pair, reno, seconds};
use super::support::Net;

/// A scalable controller with a window for ever, and what it was told.
#[derive(Debug, Clone, Default)]
struct Scalable(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    marked: u64,
    events: u64,
    ecn: Vec<Option<EcnMode>>,
}

impl Scalable {
    fn told<T>(&self, read: impl FnOnce(&mut Told) -> T) -> T {
        read(&mut self.0.lock().expect("no test panics in here"))
    }

    fn factory(&self) -> SharedFactory {
        let controller = self.clone();
        evenkeel::controller::adapt(move |_, _| Box::new(controller.clone()))
    }
}

impl Controller for Scalable {
    fn on_ack(&mut self, ack: &Ack) {
        self.told(|told| told.marked += ack.marked);
    }
    fn on_congestion(&mut self, _: &Congestion) {
        self.told(|told| told.events += 1);
    }
    fn on_persistent_congestion(&mut self) {}
    fn on_mtu(&mut self, _: u16) {}
    fn on_ecn(&mut self, ecn: Option<EcnMode>) {
        self.told(|told| told.ecn.push(ecn));
    }
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

const ECT0: Option<EcnCodepoint> = Some(EcnCodepoint::Ect0);
const ECT1: Option<EcnCodepoint> = Some(EcnCodepoint::Ect1);
const CE: Option<EcnCodepoint> = Some(EcnCodepoint::Ce);

/// A client of `kind` that floods quinn's own server. The path does `change` to the codepoint of
/// each datagram, which gets its number.
fn pair(
    kind: Kind,
    controller: SharedFactory,
    mut change: impl FnMut(u64, Option<EcnCodepoint>) -> Option<EcnCodepoint> + Send + 'static,
) -> Pair {
    let pair = Pair::on(Net::new(10_000_000, 10.0), kind, Kind::Stock, controller);
    let mut number = 0;
    pair.client_socket.recode(move |ecn| {
        number += 1;
        change(number, ecn)
    });
    pair
}

fn report(pair: &Pair) -> EcnReport {
    let context = evenkeel::Context::of(&pair.connection());
    context.expect("an evenkeel configuration").state().ecn
}

/// The codepoints of what has left since this was last asked.
fn left(pair: &Pair) -> Vec<Option<EcnCodepoint>> {
    let departures = pair.client_socket.take();
    departures.iter().map(|departure| departure.ecn).collect()
}

#[test]
fn all_packets_of_a_scalable_controller_leave_as_ect1_and_each_mark_counts_once() {
    let controller = Scalable::default();
    let marked = Arc::new(Mutex::new(0));
    let count = marked.clone();
    // A datagram of the handshake holds several packets, each of which would count.
    let mut pair = pair(Kind::L4s, controller.factory(), move |number, ecn| {
        if !(20..2000).contains(&number) || number % 7 > 0 {
            return ecn;
        }
        *count.lock().expect("no test panics in here") += 1;
        CE
    });
    pair.run(seconds(8));
    let departed = left(&pair);
    assert!(departed.len() > 2000 && departed.iter().all(|ecn| *ecn == ECT1));
    let marked = *marked.lock().expect("no test panics in here");
    controller.told(|told| {
        assert_eq!(told.marked, marked);
        assert_eq!(told.ecn, [Some(EcnMode::Scalable)]);
        assert_eq!(told.events, 0, "the marks of an ACK say it all");
    });
    let events = pair.connection().stats().path.congestion_events;
    assert!(events > 0, "quinn takes the counts for ECT(0)");
    let report = report(&pair);
    assert_eq!(
        (report.sends, report.fault),
        (Some(EcnMode::Scalable), None)
    );
    assert_eq!((report.arrived.ect0, report.arrived.ce), (0, marked));
    let all = report.arrived.ect1 + marked;
    assert!(
        all > departed.len() as u64 - 40,
        "{all} of {}",
        departed.len()
    );
}

#[test]
fn bursts_of_ect1_packets_last_250_us_at_most() {
    let constant = |kind| {
        let controller = Scalable::default();
        let mut pair = Pair::on(
            Net::new(200_000_000, 1.0),
            kind,
            Kind::Stock,
            controller.factory(),
        );
        pair.run(seconds(1));
        pair.client_socket.take();
        pair.run(seconds(2));
        let mut left = pair.client_socket.take();
        left.retain(|departure| departure.bytes > 1000);
        let mut longest = 0;
        for together in left.chunk_by(|one, next| one.at == next.at) {
            longest = longest.max(together.iter().map(|departure| departure.bytes).sum());
        }
        longest
    };
    // A window of 24,000 bytes in 4 ms, and a tenth more: 6.6 MB/s, 1650 bytes in 250 us.
    assert!(constant(Kind::L4s) <= 1650);
    assert!(constant(Kind::Evenkeel(0)) > 1650, "two packets and more");
}

#[test]
fn ecn_is_classic_or_off_if_the_endpoint_says_so() {
    let controller = Scalable::default();
    let mut classic = pair(Kind::Evenkeel(0), controller.factory(), |_, ecn| ecn);
    classic.run(seconds(2));
    assert!(left(&classic).iter().all(|ecn| *ecn == ECT0));
    assert_eq!(controller.told(|told| told.ecn.clone()), []);
    let controller = Scalable::default();
    let mut off = pair(Kind::WithoutEcn, controller.factory(), |_, ecn| ecn);
    off.run(seconds(2));
    assert!(left(&off).iter().all(|ecn| ecn.is_none()));
    assert_eq!(controller.told(|told| told.ecn.clone()), [None]);
    assert_eq!((report(&off).sends, report(&off).fault), (None, None));
    let mut reno_with_l4s = pair(Kind::L4s, reno(), |_, ecn| ecn);
    reno_with_l4s.run(seconds(2));
    assert!(left(&reno_with_l4s).iter().all(|ecn| *ecn == ECT0));
}

#[test]
fn a_path_that_turns_ect1_into_ect0_is_noticed_and_gets_ect0() {
    let controller = Scalable::default();
    let change = |_, ecn| if ecn == ECT1 { ECT0 } else { ecn };
    let mut pair = pair(Kind::L4s, controller.factory(), change);
    pair.run(seconds(2));
    left(&pair);
    pair.run(seconds(2));
    let departed = left(&pair);
    assert!(departed.len() > 500 && departed.iter().all(|ecn| *ecn == ECT0));
    assert_eq!(report(&pair).fault, Some(EcnFault::Remarked));
    let told = controller.told(|told| told.ecn.clone());
    assert_eq!(told, [Some(EcnMode::Scalable), Some(EcnMode::Classic)]);
}

#[test]
fn a_path_that_clears_ecn_is_noticed_and_gets_none() {
    for (kind, from) in [(Kind::L4s, 0), (Kind::L4s, 500), (Kind::Evenkeel(0), 500)] {
        let controller = Scalable::default();
        let clear = move |number, ecn| if number > from { None } else { ecn };
        let mut pair = pair(kind, controller.factory(), clear);
        pair.run(seconds(4));
        left(&pair);
        pair.run(seconds(1));
        assert!(left(&pair).iter().all(|ecn| ecn.is_none()));
        assert_eq!(report(&pair).fault, Some(EcnFault::Unconfirmed));
        assert_eq!(controller.told(|told| told.ecn.pop()), Some(None));
    }
}

#[test]
fn a_path_that_marks_everything_is_left_without_ecn_by_every_controller() {
    let carried = |controller: &str, marks: bool| {
        let factory = evenkeel::controller(controller).expect("a name of the table");
        let change = move |_, ecn| if marks && ecn == ECT0 { CE } else { ecn };
        let mut pair = pair(Kind::Evenkeel(0), factory, change);
        // The start of a connection differs.
        pair.run(seconds(5));
        let carried = pair.progress(seconds(30));
        if marks {
            assert_eq!(
                report(&pair).fault,
                Some(EcnFault::AllMarked),
                "{controller}"
            );
            left(&pair);
            pair.run(Duration::from_millis(500));
            assert!(left(&pair).iter().all(|ecn| ecn.is_none()), "{controller}");
        }
        carried as f64
    };
    for controller in ["keel", "cubic", "reno", "vegas"] {
        let share = carried(controller, true) / carried(controller, false);
        assert!((0.98..=1.02).contains(&share), "{controller}: {share}");
    }
    // quinn's BBR takes no notice of marks, and its own random numbers make its runs differ.
    let share = carried("bbr", true) / carried("bbr", false);
    assert!(share > 0.5, "{share}");
}
