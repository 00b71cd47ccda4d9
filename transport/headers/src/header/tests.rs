//! Two ends of a connection that exchange headers, and what others try.

use evenkeel_congestion::Feedback as Followed;
use evenkeel_tests::time::{epoch, ms, us};
use evenkeel_wire::{PATH_HEADER_LEN, PathHeaderMut, WindowChange};
use proptest::prelude::*;

use super::*;

mod states;

type Header = [u8; PATH_HEADER_LEN];

/// What a connection in the middle of its work says of itself to a header.
pub(crate) const FACTS: Facts = Facts {
    rtt: Some(Duration::from_millis(40)),
    window: 12_000,
    rate: None,
    is_data: true,
    desired_rate: None,
    mtu: 1200,
    overhead: 60,
    followed: None,
    hop_limit: Some(64),
};

/// Two ends, 20 ms apart, whose clocks began at different times.
struct Pair {
    near: Headers,
    far: Headers,
    now: Instant,
    /// When the far end's clock began.
    far_epoch: Instant,
}

impl Pair {
    fn new() -> Self {
        let now = epoch();
        Self {
            far_epoch: now + ms(15),
            near: Headers::new(agreement(1, 2), now),
            far: Headers::new(agreement(2, 1), now + ms(15)),
            now: now + ms(100),
        }
    }

    /// A header from near arrives at far, is held for `held`, and its echo arrives at near.
    fn round_trip(&mut self, facts: Facts, held: Duration) -> Option<PathSample> {
        self.round_trip_changed(facts, held, |_| {}, |_| {})
    }

    /// As `round_trip`, with what happens to the header on the way and to the one that comes back.
    fn round_trip_changed(
        &mut self,
        facts: Facts,
        held: Duration,
        forward: impl FnOnce(&mut Header),
        backward: impl FnOnce(&mut Header),
    ) -> Option<PathSample> {
        let mut header = send(&mut self.near, self.now, facts);
        forward(&mut header);
        self.now += ms(20);
        let arrived = self.far.receive(self.now, &header);
        assert!(arrived.is_ok(), "it is of this connection");
        self.now += held;
        let mut header = send(&mut self.far, self.now, FACTS);
        backward(&mut header);
        self.now += ms(20);
        self.near
            .receive(self.now, &header)
            .expect("it is of this connection")
    }
}

fn agreement(sending: u8, receiving: u8) -> Agreement {
    Agreement {
        sending: [sending; 16],
        receiving: [receiving; 16],
        max_ack_delay: ms(25),
        grease: Grease::new(&[]),
    }
}

impl Headers {
    /// The bytes of a header arrive.
    fn receive(&mut self, now: Instant, header: &Header) -> Result<Option<PathSample>, NotOurs> {
        let view = PathHeaderView::parse(header).or(Err(NotOurs))?;
        self.arrived(now, &view)
    }
}

/// The next header, of a kind that is known.
fn send(headers: &mut Headers, now: Instant, facts: Facts) -> Header {
    let due = headers.due(now, facts.rtt, 1, || None);
    loop {
        let mut prepared = headers.prepare(now, facts, due);
        let mut datagram = Vec::new();
        headers.write(&mut prepared, true, &mut datagram);
        headers.sent(&prepared);
        if prepared.greased == 0 {
            return datagram.try_into().expect("a whole header");
        }
    }
}

/// As a router does it, by the same codec.
fn stamped(header: &mut Header, stamp: impl FnOnce(&mut PathHeaderMut<'_>)) {
    // An IPv4 packet around it: mutators work on packets, whose checksum they keep.
    let mut packet = vec![0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2, 0, 1, 0, 2, 0, 40, 0, 0]);
    packet.extend_from_slice(header);
    stamp(&mut PathHeaderMut::find(&mut packet).expect("a header in a packet"));
    header.copy_from_slice(&packet[28..]);
}

#[test]
fn the_round_trip_of_a_header_is_that_of_the_wire_however_long_it_was_held() {
    let mut pair = Pair::new();
    for held in [ms(0), ms(3), ms(25), ms(800), ms(8_000)] {
        let sample = pair.round_trip(FACTS, held).expect("a sample");
        let error = sample.rtt.abs_diff(ms(40));
        // Times held are rounded to 1/8192.
        assert!(error <= us(1) + held / 8192, "{error:?} after {held:?}");
        assert_eq!(
            (sample.forward_queueing, sample.grant, sample.complete),
            (None, None, false)
        );
    }
    assert_eq!(pair.near.state(), HeaderState::Confirmed);
}

#[test]
fn an_echo_is_not_sent_of_what_has_become_too_old() {
    let mut pair = Pair::new();
    assert_eq!(pair.round_trip(FACTS, ms(9_000)), None);
    assert_eq!(pair.near.state(), HeaderState::Probing);
    assert_eq!(pair.near.counters().unusable_echoes, 0);
}

#[test]
fn queueing_of_both_ways_belongs_to_one_round_trip() {
    let mut pair = Pair::new();
    let queue = |time| {
        move |header: &mut Header| {
            stamped(header, |h| {
                h.add_queueing_time(time);
                h.record_ttl(64);
            });
        }
    };
    let sample = pair
        .round_trip_changed(FACTS, ms(1), queue(ms(3)), queue(ms(5)))
        .expect("a sample");
    assert_eq!(sample.forward_queueing, Some(ms(3)));
    assert_eq!(sample.backward_queueing, Some(ms(5)));
    assert!(sample.complete);
    assert_eq!(pair.near.counters().clamped, 0);
}

#[test]
fn more_queueing_than_time_is_clamped_and_counted() {
    let mut pair = Pair::new();
    let lie = |header: &mut Header| {
        stamped(header, |h| {
            h.add_queueing_time(Duration::MAX);
        });
    };
    let sample = pair
        .round_trip_changed(FACTS, ms(1), lie, lie)
        .expect("a sample");
    assert_eq!(sample.forward_queueing, Some(sample.rtt));
    assert_eq!(sample.backward_queueing, Some(ms(0)));
    assert_eq!(pair.near.counters().clamped, 1);
}

#[test]
fn a_granted_rate_is_for_the_algorithm_that_asked_for_it() {
    let follows = |followed| Facts { followed, ..FACTS };
    let offer = |rate: u64| {
        move |header: &mut Header| {
            stamped(header, |h| {
                h.limit_rate(evenkeel_wire::CompactRate::from_bytes_per_second(rate));
            });
        }
    };
    let mut pair = Pair::new();
    let acp = follows(Some(Followed::Acp));
    let sample = pair
        .round_trip_changed(acp, ms(1), offer(4000), |_| {})
        .expect("a sample");
    assert_eq!(sample.grant, Some(Grant::Rate(4000)));
    // A rate of zero would stop the flow: the least there is, and counted.
    let sample = pair
        .round_trip_changed(acp, ms(1), offer(0), |_| {})
        .expect("a sample");
    assert_eq!(
        (sample.grant, pair.near.counters().clamped),
        (Some(Grant::Rate(1)), 1)
    );
    // Nobody asked.
    let sample = pair
        .round_trip_changed(FACTS, ms(1), offer(4000), |_| {})
        .expect("a sample");
    assert_eq!(sample.grant, None);
    // Without a router there is no grant, whatever the sender asked for.
    let wish = Facts {
        desired_rate: Some(9000),
        ..acp
    };
    assert_eq!(pair.round_trip(wish, ms(1)).expect("a sample").grant, None);
}

#[test]
fn a_sender_asks_for_what_its_application_can_use_and_not_for_more() {
    let asks = |facts: Facts| {
        let header = send(&mut Pair::new().near, epoch() + ms(100), facts);
        let view = PathHeaderView::parse(&header).expect("a header of ours");
        view.signals().feedback
    };
    let follows = |followed, desired_rate| Facts {
        followed: Some(followed),
        desired_rate,
        ..FACTS
    };
    for followed in [Followed::Acp, Followed::Rcp] {
        assert_eq!(
            asks(follows(followed, None)).rate().bytes_per_second(),
            None
        );
        // A packet of 1200 bytes each second takes 1260 of the link.
        let rate = asks(follows(followed, Some(1200))).rate();
        assert_eq!(rate.bytes_per_second(), Some(1260));
    }
    let greatest = asks(follows(Followed::Acp, Some(u64::MAX))).rate();
    assert!(greatest.bytes_per_second() > Some(1 << 41));
    // XCP: 600 kB/s in 40 ms are 24 kB, twice the window of 10 packets; 150 kB/s half of it.
    for (rate, change) in [
        (None, WindowChange::MAX.in_256ths()),
        (Some(600_000), 1200 * 256),
        (Some(150_000), -600 * 256),
        (Some(u64::MAX), WindowChange::MAX.in_256ths()),
    ] {
        let asked = asks(follows(Followed::Xcp, rate)).window_change();
        assert_eq!(asked.in_256ths(), change, "{rate:?}");
    }
}

#[test]
fn routers_hear_how_long_a_sender_takes_to_answer_and_nothing_of_acks() {
    let told = |facts: Facts| {
        let header = send(&mut Pair::new().near, epoch() + ms(100), facts);
        let view = PathHeaderView::parse(&header).expect("a header of ours");
        view.rtt().duration()
    };
    let follows = |followed, rate| Facts {
        followed: Some(followed),
        rate,
        ..FACTS
    };
    for followed in [Followed::Acp, Followed::Rcp] {
        assert_eq!(told(follows(followed, None)), ms(40));
        // A packet of 1200 bytes in each round trip of 40 ms; twice as many; one in 100 ms.
        for (rate, time) in [(30_000, 40), (60_000, 40), (12_000, 100)] {
            assert_eq!(told(follows(followed, Some(rate))), ms(time), "{rate}");
        }
    }
    assert_eq!(told(follows(Followed::Xcp, Some(12_000))), ms(40));
    let acp = follows(Followed::Acp, Some(12_000));
    let silent = [
        Facts {
            is_data: false,
            ..acp
        },
        Facts { rtt: None, ..acp },
        Facts {
            followed: None,
            ..acp
        },
    ];
    for facts in silent {
        assert_eq!(told(facts), ms(0), "{facts:?}");
    }
}

#[test]
fn a_change_of_algorithm_makes_grants_on_their_way_void() {
    let acp = Facts {
        followed: Some(Followed::Acp),
        ..FACTS
    };
    let mut pair = Pair::new();
    let mut first = send(&mut pair.near, pair.now, acp);
    stamped(&mut first, |h| {
        h.limit_rate(evenkeel_wire::CompactRate::from_bytes_per_second(4000));
    });
    pair.now += ms(1);
    send(
        &mut pair.near,
        pair.now,
        Facts {
            followed: Some(Followed::Rcp),
            ..FACTS
        },
    );
    pair.far
        .receive(pair.now + ms(20), &first)
        .expect("it is of this connection");
    let back = send(&mut pair.far, pair.now + ms(21), FACTS);
    let sample = pair
        .near
        .receive(pair.now + ms(41), &back)
        .expect("it is of this connection");
    assert_eq!(sample.expect("its round trip counts").grant, None);
}

#[test]
fn headers_of_a_batch_are_a_microsecond_apart_and_each_can_be_echoed() {
    let mut pair = Pair::new();
    // Not due, so that none of them is of another kind.
    let mut prepared = pair.near.prepare(pair.now, FACTS, false);
    let mut headers = Vec::new();
    for _ in 0..100 {
        pair.near.write(&mut prepared, false, &mut headers);
    }
    pair.near.sent(&prepared);
    let (batch, []) = headers.as_chunks() else {
        panic!("100 headers")
    };
    for (sent, header) in batch.iter().enumerate() {
        pair.now += us(1);
        pair.far
            .receive(pair.now + ms(20), header)
            .expect("it is of this connection");
        if sent % 7 == 0 || sent == 99 {
            let back = send(&mut pair.far, pair.now + ms(20), FACTS);
            let sample = pair
                .near
                .receive(pair.now + ms(40), &back)
                .expect("it is of this connection");
            let rtt = sample.expect("a sample").rtt;
            assert!(rtt.abs_diff(ms(40)) <= us(2), "header {sent}: {rtt:?}");
        }
    }
}

#[test]
fn an_older_header_replayed_is_no_signal() {
    let mut pair = Pair::new();
    let old = send(&mut pair.near, pair.now, FACTS);
    pair.far
        .receive(pair.now + ms(20), &old)
        .expect("it is of this connection");
    for later in [ms(21), ms(1000), ms(8_000)] {
        assert_eq!(pair.far.receive(pair.now + later, &old), Ok(None));
    }
    assert_eq!(
        (pair.far.counters().old, pair.far.counters().accepted),
        (3, 1)
    );
    // After half a period and more its time reads as another, and its tag is wrong.
    for periods in [1, 2, 100] {
        let later = us((1 << 24) * periods);
        assert_eq!(
            pair.far.receive(pair.now + ms(20) + later, &old),
            Err(NotOurs)
        );
    }
}

#[test]
fn a_new_path_has_new_keys_and_echoes_of_the_old_one_do_not_count() {
    let mut pair = Pair::new();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
    let before = send(&mut pair.near, pair.now, FACTS);
    pair.far
        .receive(pair.now + ms(20), &before)
        .expect("it is of this connection");
    let late = send(&mut pair.far, pair.now + ms(21), FACTS);
    pair.near.new_path();
    assert_eq!(pair.near.receive(pair.now + ms(41), &late), Ok(None));
    assert_eq!(pair.near.counters().unusable_echoes, 1);
    pair.now += ms(50);
    for path in 0..5 {
        let sample = pair.round_trip(FACTS, ms(0)).expect("a sample");
        assert!(sample.rtt.abs_diff(ms(40)) <= us(1), "path {path}");
        assert_eq!(pair.far.receive(pair.now, &before), Err(NotOurs));
        pair.near.new_path();
    }
    // Changes of which nothing arrived: two are found, with either parity.
    pair.near.new_path();
    pair.round_trip(FACTS, ms(0)).expect("a sample");
}

#[test]
fn the_first_header_of_a_new_path_repeats_nothing_of_the_old_one() {
    for has_echoed in [false, true] {
        let mut pair = Pair::new();
        pair.round_trip(FACTS, ms(0)).expect("a sample");
        let old = send(&mut pair.far, pair.now, FACTS);
        pair.now += ms(20);
        pair.near.receive(pair.now, &old).expect("it is ours");
        if has_echoed {
            let echoes = send(&mut pair.near, pair.now, FACTS);
            assert_eq!(old[16..19], echoes[19..22]);
        }
        pair.near.new_path();
        let new = send(&mut pair.near, pair.now + ms(1), FACTS);
        assert_ne!(old[16..19], new[19..22]);
        let view = PathHeaderView::parse(&new).expect("it is a header");
        assert_eq!(view.echo(), None);
        // What was accepted on the old path is a replay on the new one.
        let accepted = pair.near.counters().accepted;
        assert_eq!(pair.near.receive(pair.now + ms(2), &old), Ok(None));
        assert_eq!(pair.near.counters().accepted, accepted);
        pair.now += ms(10);
        pair.round_trip(FACTS, ms(0)).expect("a sample");
        let first = send(&mut pair.near, pair.now, FACTS);
        let view = PathHeaderView::parse(&first).expect("it is a header");
        assert!(view.echo().is_some());
    }
}

proptest! {
    #[test]
    fn what_others_invent_is_not_accepted(mut header: Header, like_ours: bool, after in 0_u64..100_000) {
        let mut pair = Pair::new();
        let ours = send(&mut pair.near, pair.now, FACTS);
        if like_ours {
            // Right but for the tag.
            header[..28].copy_from_slice(&ours[..28]);
        }
        prop_assume!(header[28..] != ours[28..]);
        prop_assert_eq!(pair.far.receive(pair.now + ms(after), &header), Err(NotOurs));
        prop_assert_eq!(pair.far.counters().accepted, 0);
    }

    #[test]
    fn flips_where_no_router_may_write_are_found(bit in 0_usize..256) {
        let mut pair = Pair::new();
        pair.round_trip(FACTS, ms(0)).expect("a sample");
        let mut header = send(&mut pair.near, pair.now, FACTS);
        header[bit / 8] ^= 0x80 >> (bit % 8);
        // Section 2: flags S G C R, AQT, hop limit, feedback, contention.
        let routers = matches!(bit, 40..44 | 48..72 | 74..104);
        prop_assert_eq!(pair.far.receive(pair.now + ms(20), &header).is_ok(), routers);
    }

    #[test]
    fn no_lie_of_routers_makes_a_sample_absurd(
        there: [u8; 9], back: [u8; 9], follows in prop::sample::select(&[None, Some(Followed::Acp), Some(Followed::Xcp)][..]),
    ) {
        let lie = |lie: [u8; 9]| move |header: &mut Header| {
            header[5] = header[5] & 0x0f | lie[0] & 0xf0;
            header[6..9].copy_from_slice(&lie[1..4]);
            header[9] = header[9] & 0xc0 | lie[4] & 0x3f;
            header[10..12].copy_from_slice(&lie[5..7]);
            if header[4] >> 3 & 7 != 3 {
                header[12] = lie[7];
            }
        };
        let mut pair = Pair::new();
        let facts = Facts { followed: follows, ..FACTS };
        let sample = pair.round_trip_changed(facts, ms(2), lie(there), lie(back)).expect("a sample");
        prop_assert!(sample.rtt.abs_diff(ms(40)) <= us(2));
        let queueing = sample.forward_queueing.unwrap_or_default() + sample.backward_queueing.unwrap_or_default();
        prop_assert!(queueing <= sample.rtt);
        match sample.grant {
            Some(Grant::Rate(rate)) => prop_assert!(rate > 0 && follows == Some(Followed::Acp)),
            Some(Grant::WindowChange(_)) => prop_assert_eq!(follows, Some(Followed::Xcp)),
            None => {}
        }
    }

    #[test]
    fn any_echo_of_the_peer_is_a_sane_sample_or_none(echo: [u8; 10], flags: u8, wait in 0_u64..20_000) {
        // The peer has the keys: its own headers with arbitrary echoes.
        let mut pair = Pair::new();
        pair.round_trip(FACTS, ms(0)).expect("a sample");
        pair.now += ms(wait);
        let mut header = send(&mut pair.far, pair.now, FACTS);
        header[19..28].copy_from_slice(&echo[..9]);
        header[5] = flags & 0x0f;
        header[9] = header[9] & 0xbf | flags & 0x40;
        let view = PathHeaderView::parse(&header).expect("a header of ours");
        let time = u64::try_from((pair.now - pair.far_epoch).as_micros()).expect("a short test");
        let tag = tag::Keys::new(&[2; 16], 0).tag(time, &view.covered_by_tag());
        header[28..].copy_from_slice(&tag);
        if let Ok(Some(sample)) = pair.near.receive(pair.now, &header) {
            prop_assert!(sample.rtt < Duration::from_secs(9));
        }
    }
}
