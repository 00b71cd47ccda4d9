use proptest::prelude::*;

use super::*;
use evenkeel_tests::time::{epoch, ms};

fn v4(nth: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + nth).into()
}

fn v6(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// How many of these attempts in a row are accepted.
fn accepted(
    admission: &mut Admission,
    attempts: impl IntoIterator<Item = IpAddr>,
    proved: bool,
) -> usize {
    let verdicts = attempts
        .into_iter()
        .map(|address| admission.attempt(address, proved, epoch()));
    verdicts.take_while(|v| *v == Verdict::Accept).count()
}

#[test]
fn attempts_that_never_finish_take_no_connection_and_never_lock_anybody_out() {
    let mut admission = Admission::new(4, true);
    assert_eq!(accepted(&mut admission, (0..1000).map(v4), false), UNPROVED);
    assert_eq!(admission.attempt(v4(9), false, epoch()), Verdict::Retry);
    // A client that returns the token gets in, even from an address that was abused.
    assert_eq!(admission.attempt(v4(9), true, epoch()), Verdict::Accept);
    assert!(admission.connected(v4(9)));
    // As soon as one is over, the next needs no token.
    admission.leave(v4(0), Place::Handshake { proved: false });
    assert_eq!(admission.attempt(v4(10), false, epoch()), Verdict::Accept);
}

#[test]
fn one_host_or_network_cannot_take_all_handshakes() {
    let mut admission = Admission::new(10_000, true);
    let one = std::iter::repeat_n(v4(0), 1000);
    assert_eq!(accepted(&mut admission, one, true), PROVED.host);
    assert_eq!(admission.attempt(v4(0), true, epoch()), Verdict::Ignore);
    let network = (1..10_000).map(|nth| v4(nth % 255 + 1));
    let more = accepted(&mut admission, network, true);
    assert_eq!(more, PROVED.network - PROVED.host);
    assert_eq!(admission.attempt(v4(256), true, epoch()), Verdict::Accept);
}

#[test]
fn one_host_cannot_begin_handshakes_faster_than_a_hundred_a_second() {
    let mut admission = Admission::new(10_000, true);
    let mut verdicts = |at: u64| {
        let (mut begun, mut last) = (0, Verdict::Accept);
        while last == Verdict::Accept && begun < 10_000 {
            // It ends before the next begins.
            last = admission.attempt(v4(1), true, epoch() + ms(at));
            if last == Verdict::Accept {
                admission.leave(v4(1), Place::Handshake { proved: true });
                begun += 1;
            }
        }
        (begun, last)
    };
    assert_eq!(verdicts(0), (512, Verdict::Ignore));
    assert_eq!(verdicts(1000), (100, Verdict::Ignore));
    assert_eq!(verdicts(1005), (1, Verdict::Ignore));
    // It has to prove its address first, and others wait for nothing.
    let now = epoch() + ms(1005);
    assert_eq!(admission.attempt(v4(1), false, now), Verdict::Retry);
    assert_eq!(admission.attempt(v4(2), false, now), Verdict::Accept);
}

#[test]
fn without_a_guard_one_host_may_begin_as_many_handshakes_as_it_likes() {
    for proved in [false, true] {
        let mut admission = Admission::new(usize::MAX, false);
        let one = std::iter::repeat_n(v4(0), 10_000);
        assert_eq!(accepted(&mut admission, one, proved), 10_000);
    }
}

#[test]
fn hosts_that_are_idle_again_are_forgotten() {
    let mut begun = Begun::default();
    for nth in 0..100_000 {
        begun.add(v4(nth), epoch() + ms(nth.into()));
    }
    assert!(begun.hosts.len() <= MANY_HOSTS + 1, "{}", begun.hosts.len());
}

#[test]
fn a_host_may_have_half_of_the_connections_and_a_network_three_quarters() {
    let mut admission = Admission::new(100, true);
    let taken = |admission: &mut Admission, nth: fn(u32) -> u32| {
        let room = (0..1000).map(|n| admission.connected(v4(nth(n))));
        room.filter(|room| *room).count()
    };
    assert_eq!(taken(&mut admission, |_| 7), 50);
    assert_eq!(admission.attempt(v4(7), true, epoch()), Verdict::Refuse);
    assert_eq!(taken(&mut admission, |n| n % 255), 25);
    assert_eq!(taken(&mut admission, |n| 256 + n), 25);
    assert_eq!(admission.attempt(v4(9999), false, epoch()), Verdict::Refuse);
    admission.leave(v4(7), Place::Connection);
    assert_eq!(admission.attempt(v4(9999), false, epoch()), Verdict::Accept);
}

#[test]
fn a_small_server_may_be_filled_by_one_host() {
    let mut admission = Admission::new(2, true);
    assert!(admission.connected(v4(1)) && admission.connected(v4(1)));
    assert!(!admission.connected(v4(2)));
}

#[test]
fn a_host_of_ipv6_is_its_64_bits_and_its_network_48() {
    let group = |text: &str| groups(v6(text));
    assert_eq!(group("2001:db8:1:2::3"), group("2001:db8:1:2:ffff::9"));
    assert_ne!(group("2001:db8:1:2::3")[0], group("2001:db8:1:3::3")[0]);
    assert_eq!(group("2001:db8:1:2::3")[1], group("2001:db8:1:3::3")[1]);
    assert_ne!(group("2001:db8:1:2::3")[1], group("2001:db8:2:2::3")[1]);
    // A socket for both versions shows IPv4 in this form.
    assert_eq!(group("::ffff:10.0.0.7"), groups(v4(7)));
    assert_eq!(groups(v4(7))[1], groups(v4(200))[1]);
}

proptest! {
    #[test]
    fn what_was_counted_is_forgotten_when_it_is_over(
        attempts in proptest::collection::vec((0..2000_u32, any::<bool>()), 0..300)
    ) {
        let mut admission = Admission::new(20, true);
        let mut running = Vec::new();
        for (nth, proved) in attempts {
            if admission.attempt(v4(nth), proved, epoch()) == Verdict::Accept {
                running.push((v4(nth), proved, admission.connected(v4(nth))));
            }
        }
        for (address, proved, connected) in running {
            admission.leave(address, Place::Handshake { proved });
            if connected {
                admission.leave(address, Place::Connection);
            }
        }
        prop_assert_eq!(admission.unproved, 0);
        for tally in [&admission.proved, &admission.connected] {
            prop_assert!(tally.all == 0 && tally.groups.is_empty());
        }
    }
}
