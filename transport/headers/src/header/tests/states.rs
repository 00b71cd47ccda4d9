//! When headers are sent: `docs/path-header.md`, section 4.1.

use super::*;

/// What a probe may take: two round trips of 40 ms and an ACK's delay of 25 ms.
const ANSWER: u64 = 105;

impl Pair {
    /// Whether near's next datagram is to carry a header, when far's last one came at `arrived`.
    fn due(&mut self, arrived: Option<Instant>) -> bool {
        self.near.due(self.now, FACTS.rtt, 1, || arrived)
    }

    /// Near's next datagram, with a header or without, by its own choice; far's last datagram
    /// came at `arrived`.
    fn send_next(&mut self, arrived: Option<Instant>) -> Option<Header> {
        if self.due(arrived) {
            return Some(send(&mut self.near, self.now, FACTS));
        }
        self.near.sent_bare(1);
        None
    }

    /// The milliseconds from now on at which headers are sent, when a datagram leaves in each
    /// and arrives in each that `arrives` tells.
    fn probes(&mut self, milliseconds: u64, arrives: impl Fn(u64) -> bool) -> Vec<u64> {
        let start = self.now;
        let mut sent = Vec::new();
        let mut arrived = None;
        for millisecond in 0..milliseconds {
            self.now = start + ms(millisecond);
            if arrives(millisecond) {
                arrived = Some(self.now);
            }
            if self.send_next(arrived).is_some() {
                sent.push(millisecond);
            }
        }
        sent
    }
}

#[test]
fn probes_without_an_echo_double_their_distance_and_end_after_six() {
    let mut pair = Pair::new();
    let sent = pair.probes(10_000, |_| true);
    assert_eq!(sent, [0, ANSWER, 2 * ANSWER, 370, 690, 1330]);
    assert_eq!(pair.near.state(), HeaderState::Plain);
    pair.near.new_path();
    assert_eq!(pair.near.state(), HeaderState::Probing);
}

#[test]
fn a_peer_that_says_nothing_leaves_no_probe_unanswered() {
    let mut pair = Pair::new();
    // A datagram that arrives before the answer could is none.
    assert_eq!(pair.probes(10_000, |at| at < ANSWER), [0]);
    assert_eq!(pair.near.state(), HeaderState::Probing);
    // After a silence of 10 s a header counts as one lost, and the next tries again.
    assert_eq!(pair.probes(ANSWER, |_| true), [0]);
}

#[test]
fn while_nothing_arrives_probes_are_repeated_and_count_for_nothing() {
    let mut pair = Pair::new();
    assert_eq!(
        pair.probes(5 * ANSWER, |_| false),
        [0, ANSWER, 2 * ANSWER, 3 * ANSWER, 4 * ANSWER]
    );
    assert_eq!(pair.near.state(), HeaderState::Probing);
}

#[test]
fn silence_of_the_peer_turns_headers_into_probes() {
    let mut pair = Pair::new();
    for _ in 0..20 {
        pair.round_trip(FACTS, ms(0)).expect("a sample");
    }
    let start = pair.now;
    let mut headed = Vec::new();
    for millisecond in 0..250 {
        pair.now = start + ms(millisecond);
        // Datagrams without a header get their answers.
        if pair
            .send_next((millisecond > 110).then_some(pair.now))
            .is_some()
        {
            headed.push(millisecond);
        }
    }
    assert_eq!(pair.near.state(), HeaderState::Probing);
    // 40 ms with a variation that has died down, 25 ms of the peer's: then a response is overdue,
    // and what would have been the next is the first probe.
    let probe = headed.iter().zip(0..).take_while(|(a, b)| *a == b).count() as u64 - 1;
    assert!((66..=70).contains(&probe), "{probe}");
    assert_eq!(headed[probe as usize + 1..], [probe + ANSWER]);
}

#[test]
fn a_late_echo_ends_the_doubt() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    let header = pair.send_next(None).expect("the path is confirmed");
    pair.now += ms(150);
    assert!(pair.send_next(None).is_some(), "a probe");
    assert_eq!(pair.send_next(None), None);
    assert_eq!(pair.near.state(), HeaderState::Probing);
    pair.far
        .receive(pair.now, &header)
        .expect("it is of this connection");
    let back = send(&mut pair.far, pair.now, FACTS);
    pair.now += ms(20);
    let sample = pair.near.receive(pair.now, &back);
    assert!(sample.expect("it is of this connection").is_some());
    assert_eq!(pair.near.state(), HeaderState::Confirmed);
    assert!(pair.send_next(None).is_some() && pair.send_next(None).is_some());
}

#[test]
fn one_lost_header_among_others_raises_no_doubt() {
    let mut pair = Pair::new();
    for _ in 0..500 {
        pair.round_trip(FACTS, ms(0)).expect("a sample");
        // Another that is lost.
        assert!(pair.send_next(Some(pair.now)).is_some());
        assert_eq!(pair.near.state(), HeaderState::Confirmed);
    }
}

#[test]
fn after_a_time_without_traffic_the_next_datagram_is_a_probe_at_once() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    // Never echoed: there was nothing more to say.
    assert!(pair.send_next(None).is_some());
    pair.now += ms(161);
    assert!(pair.send_next(None).is_some());
    assert_eq!(pair.near.state(), HeaderState::Probing);
    assert_eq!(pair.send_next(None), None, "one in a round trip");
}

#[test]
fn an_echo_that_is_repeated_confirms_nothing() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    // From now on all headers are lost there, and the far end repeats itself.
    for _ in 0..100 {
        pair.now += ms(10);
        let header = send(&mut pair.far, pair.now, FACTS);
        assert_eq!(pair.near.receive(pair.now, &header), Ok(None));
        pair.send_next(None);
    }
    assert_eq!(pair.near.state(), HeaderState::Probing);
    assert_eq!(
        (
            pair.near.counters().echoes,
            pair.near.counters().unusable_echoes
        ),
        (1, 0)
    );
}

#[test]
fn one_datagram_in_n_carries_a_header_on_a_confirmed_path_and_two_in_a_round_trip() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    let due =
        |pair: &mut Pair, after: u64| pair.near.due(pair.now + ms(after), FACTS.rtt, 4, || None);
    send(&mut pair.near, pair.now, FACTS);
    for left in [3, 2, 1] {
        assert!(!due(&mut pair, 0));
        assert_eq!(pair.near.batch(false, 4, 64), left);
        pair.near.sent_bare(1);
    }
    assert!(due(&mut pair, 0));
    send(&mut pair.near, pair.now, FACTS);
    assert!(!due(&mut pair, 19));
    assert!(due(&mut pair, 21));
}

#[test]
fn headers_that_are_rare_shorten_no_batch() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    assert_eq!(pair.near.batch(true, 4, 64), 1);
    for every in [1, 64, ANSWERS] {
        for due in [true, false] {
            assert_eq!(pair.near.batch(due, every, 64), 64, "{every}, {due}");
        }
    }
}

#[test]
fn on_a_short_path_headers_need_not_leave_more_often_than_once_in_a_millisecond() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    pair.near.new_path();
    let rtt = Some(us(100));
    for _ in 0..40 {
        let mut header = [0; PATH_HEADER_LEN];
        if pair.near.due(pair.now, rtt, 1, || None) {
            header = send(&mut pair.near, pair.now, FACTS);
        }
        pair.now += us(50);
        let _ = pair.far.receive(pair.now, &header);
        let answer = send(&mut pair.far, pair.now, FACTS);
        pair.now += us(50);
        let _ = pair.near.receive(pair.now, &answer);
    }
    send(&mut pair.near, pair.now, FACTS);
    let due = |pair: &mut Pair, after| pair.near.due(pair.now + us(after), rtt, 64, || None);
    assert_eq!(pair.near.state(), HeaderState::Confirmed);
    assert!(!due(&mut pair, 900));
    assert!(due(&mut pair, 1100));
}

#[test]
fn only_an_end_that_sends_none_of_its_own_answers_each_header() {
    // Two ends that both did would never stop.
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    send(&mut pair.near, pair.now, FACTS);
    let due = |pair: &mut Pair, every| pair.near.due(pair.now, FACTS.rtt, every, || None);
    assert!(!due(&mut pair, 100) && !due(&mut pair, ANSWERS));
    pair.now += ms(1);
    let header = send(&mut pair.far, pair.now, FACTS);
    pair.near
        .receive(pair.now, &header)
        .expect("it is of this connection");
    assert!(!due(&mut pair, 100) && due(&mut pair, ANSWERS));
    send(&mut pair.near, pair.now, FACTS);
    assert!(!due(&mut pair, ANSWERS));
}

#[test]
fn an_answer_that_the_peer_holds_back_for_a_while_raises_no_doubt() {
    let mut pair = Pair::new();
    for _ in 0..50 {
        // It sends a header each 60 ms.
        pair.round_trip(FACTS, ms(60)).expect("a sample");
        assert_eq!(pair.near.state(), HeaderState::Confirmed);
        for _ in 0..5 {
            assert!(pair.send_next(Some(pair.now)).is_some());
            pair.now += ms(4);
        }
    }
}

#[test]
fn headers_of_kind_0_replace_none_that_are_needed() {
    let mut pair = Pair::new();
    let mut greased = 0;
    let write = |headers: &mut Headers, now, due| {
        let mut prepared = headers.prepare(now, FACTS, due);
        let mut datagram = Vec::new();
        headers.write(&mut prepared, true, &mut datagram);
        headers.sent(&prepared);
        PathHeaderView::parse(&datagram).is_err()
    };
    // Not the ones that try a path, nor those that only make a datagram larger.
    for _ in 0..2_000 {
        assert!(!write(&mut pair.near, pair.now, true));
    }
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    for _ in 0..2_000 {
        assert!(!write(&mut pair.near, pair.now, false));
        greased += u32::from(write(&mut pair.near, pair.now, true));
    }
    assert!((1..=20).contains(&greased), "{greased}");
    assert_eq!(u64::from(greased), pair.near.counters().greased);
    // Not those that bring an echo.
    for _ in 0..2_000 {
        let back = send(&mut pair.far, pair.now, FACTS);
        pair.near
            .receive(pair.now, &back)
            .expect("it is of this connection");
        assert!(!write(&mut pair.near, pair.now, true));
    }
}
