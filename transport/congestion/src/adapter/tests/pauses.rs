//! Lets a path's sender stand still.

use std::ops::Range;

use super::*;
use crate::controller::Cause;

/// A sender of a packet each 10 ms on a path of 40 ms. All times are in ms.
struct Sender {
    adapter: Adapter,
    told: Arc<Mutex<Vec<Told>>>,
    in_flight: u64,
}

impl Sender {
    /// It has sent and heard of it for a second: 4 packets are in flight, the last sent at 990.
    fn warm() -> Self {
        Self::warm_beside(25)
    }

    /// Likewise, and the peer delays ACKs by up to `max_ack_delay`.
    fn warm_beside(max_ack_delay: u64) -> Self {
        let (adapter, told) = recorded(epoch(), 12_000);
        let feed = &adapter.path.feed;
        feed.set_max_ack_delay(ms(max_ack_delay));
        let mut sender = Self {
            adapter,
            told,
            in_flight: 0,
        };
        for at in (0..1000).step_by(10) {
            sender.send(at);
            if at >= 40 {
                sender.ack(at, at - 40);
            }
        }
        heard(&sender.told);
        sender
    }

    fn send(&mut self, at: u64) {
        self.in_flight += PACKET;
        self.adapter.on_sent(epoch() + ms(at), PACKET, 0);
    }

    fn ack(&mut self, at: u64, sent: u64) {
        self.ack_frame(at, &[sent]);
    }

    fn ack_frame(&mut self, at: u64, sent: &[u64]) {
        let now = epoch() + ms(at);
        for sent in sent {
            self.adapter
                .path
                .on_packet_acked(now, epoch() + ms(*sent), PACKET);
            self.in_flight -= PACKET;
        }
        self.adapter.on_end_acks(now, self.in_flight, false, None);
    }

    fn lose(&mut self, at: u64, sent: u64, is_persistent: bool) {
        let (now, sent) = (epoch() + ms(at), epoch() + ms(sent));
        self.adapter
            .on_congestion_event(now, sent, is_persistent, PACKET);
    }

    /// It sends a packet each 10 ms and hears of them.
    fn go_on(&mut self, times: Range<u64>) {
        for at in times.clone().step_by(10) {
            if at >= times.start + 40 {
                self.ack(at, at - 40);
            }
            self.send(at);
        }
    }

    fn acks(&self) -> Vec<Ack> {
        let heard = heard(&self.told).into_iter();
        let acks = heard.filter_map(|told| match told {
            Told::Ack(ack) => Some(ack),
            _ => None,
        });
        acks.collect()
    }
}

/// Bytes per second of a sample.
fn rate(ack: &Ack) -> Option<u64> {
    let delivery = ack.delivery?;
    let time = delivery.send_interval.max(delivery.ack_interval);
    Some((delivery.total - delivery.before) * 1000 / time.as_millis() as u64)
}

#[test]
fn what_waited_while_nothing_ran_measures_nothing_and_the_controllers_time_stands_still() {
    for end in [3000, 13_000] {
        let mut sender = Sender::warm();
        for sent in [960, 970, 980, 990] {
            sender.ack(end, sent);
        }
        let waited = sender.acks();
        assert_eq!(waited.len(), 4);
        for ack in waited {
            assert_eq!((ack.rtt, ack.delivery), (None, None));
            assert_eq!((ack.now, ack.bytes), (epoch() + ms(990), PACKET));
            assert!(ack.sent <= ack.now);
        }
        sender.go_on(end..end + 500);
        let heard = heard(&sender.told);
        let rounds = heard.iter().filter_map(|told| match told {
            Told::Round(round) => Some((round.rtt_min, round.rtt_end)),
            _ => None,
        });
        assert!(rounds.clone().count() > 5);
        assert!(rounds.into_iter().all(|rtts| rtts == (ms(40), ms(40))));
        let acks = heard.iter().filter_map(|told| match told {
            Told::Ack(ack) => Some(ack),
            _ => None,
        });
        for (ack, at) in acks.zip((1030..).step_by(10)) {
            assert_eq!((ack.now, ack.rtt), (epoch() + ms(at), Some(ms(40))));
            assert_eq!(ack.sent, epoch() + ms(at - 40));
            // No more than the path's 120,000, and no 12 s in it.
            let rate = rate(ack).expect("a sample");
            assert!((30_000..=120_000).contains(&rate), "{rate} at {at}");
        }
    }
}

#[test]
fn a_probe_that_leaves_before_the_acks_are_read_hides_no_pause() {
    let mut sender = Sender::warm();
    sender.send(13_000);
    sender.ack_frame(13_000, &[960, 970, 980, 990]);
    sender.ack(13_040, 13_000);
    let acks = sender.acks();
    let seen = |ack: &Ack| (ack.now, ack.rtt);
    assert_eq!(
        acks.iter().map(seen).collect::<Vec<_>>(),
        [
            (epoch() + ms(990), None),
            (epoch() + ms(1030), Some(ms(40)))
        ]
    );
}

#[test]
fn a_blackout_is_no_pause_because_probes_leave_in_it() {
    let mut sender = Sender::warm();
    let probes = [1060, 1200, 1480, 2040, 3160, 5400, 9880];
    for at in probes {
        sender.send(at);
    }
    sender.ack(18_840, 990);
    sender.send(18_840);
    sender.ack(18_880, 18_840);
    let acks = sender.acks();
    assert_eq!(acks[0].rtt, Some(ms(17_850)));
    assert_eq!(acks[1].now, epoch() + ms(18_880));
}

#[test]
fn silence_with_nothing_in_flight_is_no_pause() {
    let mut sender = Sender::warm();
    for sent in [960, 970, 980, 990] {
        sender.ack(sent + 40, sent);
    }
    sender.send(20_000);
    sender.ack(20_040, 20_000);
    let acks = sender.acks();
    let last = acks.last().expect("an ACK");
    assert_eq!((last.now, last.rtt), (epoch() + ms(20_040), Some(ms(40))));
}

#[test]
fn an_ack_that_the_peer_may_delay_for_so_long_shows_no_pause() {
    for (max_ack_delay, rtt) in [(25, None), (500, Some(ms(540)))] {
        let mut sender = Sender::warm_beside(max_ack_delay);
        sender.ack(1530, 990);
        let waited = sender.acks();
        assert_eq!(waited[0].rtt, rtt);
    }
}

#[test]
fn several_pauses_take_no_time_each() {
    let mut sender = Sender::warm();
    sender.ack_frame(4000, &[960, 970, 980, 990]);
    sender.go_on(4000..6000);
    // The RTT estimate has settled, and with it the probe timeout.
    sender.ack_frame(9000, &[5960, 5970, 5980, 5990]);
    sender.send(9000);
    sender.ack(9040, 9000);
    let acks = sender.acks();
    let last = acks.last().expect("an ACK");
    // 3010 and 3010 ms are out.
    assert_eq!((last.now, last.rtt), (epoch() + ms(3020), Some(ms(40))));
}

#[test]
fn losses_that_a_timer_finds_before_the_acks_are_read_are_none() {
    let congestions = |sender: &Sender| {
        let heard = heard(&sender.told).into_iter();
        heard
            .filter(|told| matches!(told, Told::Congestion(_) | Told::Persistent))
            .collect::<Vec<_>>()
    };
    let mut sender = Sender::warm();
    sender.lose(13_000, 970, false);
    assert_eq!(congestions(&sender), []);
    // What the ACKs leave out is lost, at a time that the controller knows.
    sender.ack_frame(13_000, &[960, 990]);
    sender.lose(13_000, 980, false);
    let lost = congestions(&sender);
    assert!(
        matches!(&lost[..], [Told::Congestion(congestion)]
            if congestion.now == epoch() + ms(990) && congestion.cause == Cause::Loss),
        "{lost:?}"
    );
    // From the packet at 970 to the one at 13,010 nothing may have come through, but most of that
    // time nothing was sent.
    sender.lose(13_200, 13_010, true);
    assert!(!congestions(&sender).contains(&Told::Persistent));
    sender.send(60_000);
    sender.lose(80_000, 60_000, true);
    assert!(congestions(&sender).contains(&Told::Persistent));
}

#[test]
fn headers_that_waited_measure_nothing() {
    let mut sender = Sender::warm();
    let feed = sender.adapter.path.feed.clone();
    let sample = |at: u64, rtt| PathSample::new(epoch() + ms(at), ms(rtt));
    feed.push(sample(990, 41));
    feed.push(sample(13_000, 12_030));
    sender.ack(13_000, 960);
    sender.send(13_000);
    feed.push(sample(13_040, 40));
    sender.ack(13_040, 13_000);
    let heard = heard(&sender.told).into_iter();
    let told = heard.filter_map(|told| match told {
        Told::Path(sample) => Some(sample),
        _ => None,
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [sample(990, 41), sample(1030, 40)]
    );
}

#[test]
fn an_endpoint_learns_that_an_ack_waited() {
    let mut sender = Sender::warm();
    let feed = sender.adapter.path.feed.clone();
    assert!(feed.has_sample(None));
    sender.ack(13_000, 960);
    assert!(!feed.has_sample(None));
    sender.send(13_000);
    sender.ack(13_040, 13_000);
    assert!(feed.has_sample(None));
}

#[test]
fn an_ack_that_quinn_dates_early_measures_nothing_until_another_confirms_it() {
    let mut sender = Sender::warm();
    let rtts = |sender: &Sender| -> Vec<_> { sender.acks().iter().map(|ack| ack.rtt).collect() };
    // The thread was set aside at 975 ms, before it read what came at 1000 and 1010 ms.
    sender.ack(975, 960);
    sender.ack(975, 970);
    assert!(!sender.adapter.path.feed.has_sample(None));
    let acks = sender.acks();
    let measured: Vec<_> = acks.iter().map(|ack| (ack.rtt, ack.delivery)).collect();
    assert_eq!(measured, [(None, None), (None, None)]);
    sender.go_on(1000..2100);
    sender.ack(2100, 2060);
    assert!(sender.adapter.path.feed.has_sample(None));
    assert!(rtts(&sender).iter().flatten().all(|rtt| *rtt == ms(40)));
    // The path has become shorter.
    sender.ack(2105, 2080);
    sender.ack(2115, 2090);
    assert_eq!(rtts(&sender), [None, Some(ms(25))]);
}
