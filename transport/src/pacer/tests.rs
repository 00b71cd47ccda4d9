use evenkeel_tests::time::{epoch, ms, us};
use proptest::prelude::*;

use super::*;

const PACKET: u64 = 1200;

fn paced(now: Instant, rate: u64) -> Pacer {
    let mut pacer = Pacer::new(PACKET as u16);
    pacer.set_rate(now, Some(rate));
    pacer
}

#[test]
fn without_a_rate_nothing_is_held_back() {
    let t0 = epoch();
    let mut pacer = Pacer::new(1200);
    for _ in 0..100 {
        assert_eq!((pacer.check(t0), pacer.batch(t0, 10)), (Ok(()), 10));
        pacer.sent(t0, 12_000);
    }
}

#[test]
fn two_packets_leave_then_one_at_a_time() {
    // 200 kB/s: a packet takes 6 ms.
    let t0 = epoch();
    let mut pacer = paced(t0, 200_000);
    assert_eq!((pacer.check(t0), pacer.batch(t0, 10)), (Ok(()), 2));
    pacer.sent(t0, 2 * PACKET);
    let next = pacer.check(t0).expect_err("the bucket is empty");
    assert_eq!(next, t0 + ms(6) + Duration::from_nanos(1));
    assert!(pacer.check(t0 + us(5999)).is_err());
    assert_eq!((pacer.check(next), pacer.batch(next, 10)), (Ok(()), 1));
    pacer.sent(next, PACKET);
    assert!(pacer.check(next + us(5990)).is_err());
    assert_eq!(pacer.check(next + us(6000)), Ok(()));
}

#[test]
fn idle_time_is_not_saved_beyond_the_depth() {
    let t0 = epoch();
    let mut pacer = paced(t0, 200_000);
    pacer.sent(t0, 2 * PACKET);
    let later = t0 + Duration::from_secs(60);
    assert_eq!(pacer.batch(later, 10), 2);
    // 125 MB/s: a millisecond is 104 packets.
    let mut fast = paced(t0, 125_000_000);
    fast.sent(t0, 200 * PACKET);
    assert_eq!(fast.batch(later, 1000), 104);
}

#[test]
fn smooth_bursts_are_short_and_catch_up_at_twice_the_rate() {
    // 125 MB/s: 250 us are 26 packets.
    let t0 = epoch();
    let mut pacer = paced(t0, 125_000_000);
    pacer.set_smooth(true);
    assert_eq!((pacer.check(t0), pacer.batch(t0, 100)), (Ok(()), 26));
    pacer.sent(t0, 26 * PACKET);
    let next = pacer.check(t0).expect_err("the burst has just left");
    assert_eq!(next, t0 + Duration::from_nanos(124_801));
    // Woken a millisecond late: bursts of 250 us, half as far apart, until the bucket is empty.
    let (mut now, mut left) = (t0 + ms(1), 0);
    while now < t0 + ms(2) {
        match pacer.check(now) {
            Ok(()) => {
                let packets = pacer.batch(now, 100) as u64;
                assert!(packets <= 26);
                pacer.sent(now, packets * PACKET);
                left += packets;
            }
            Err(next) => now = next,
        }
    }
    // What the rate gives in 2 ms is 208 packets; the bucket held 104 of them.
    assert!((190..=208).contains(&left), "{left}");
    // Slow: one packet at a time.
    let mut slow = paced(t0, 200_000);
    slow.set_smooth(true);
    assert_eq!((slow.check(t0), slow.batch(t0, 10)), (Ok(()), 1));
    slow.sent(t0, PACKET);
    assert_eq!(slow.check(t0), Err(t0 + ms(3) + Duration::from_nanos(1)));
}

#[test]
fn at_high_rates_the_bucket_rests_half_a_millisecond() {
    let t0 = epoch();
    let mut pacer = paced(t0, 125_000_000);
    pacer.sent(t0, 125_000);
    let back = pacer.check(t0).expect_err("the bucket is empty");
    assert_eq!(back - t0, us(500) + Duration::from_nanos(1));
    // Something else woke the connection: whole batches go.
    assert!(pacer.check(t0 + us(90)).is_err());
    assert_eq!(pacer.check(t0 + us(96)), Ok(()));
    assert_eq!(pacer.batch(t0 + us(96), 10), 10);
}

#[test]
fn batches_divide_what_there_is_evenly() {
    let t0 = epoch();
    // Depth 12 packets: two batches of 6 use it up, where 10 and 10 would overdraw.
    let mut pacer = paced(t0, 14_400_000);
    assert_eq!(pacer.batch(t0, 10), 6);
    pacer.sent(t0, 2 * PACKET);
    assert_eq!(pacer.batch(t0, 10), 10);
    pacer.sent(t0, 10 * PACKET);
    assert_eq!(pacer.batch(t0, 10), 1);
}

#[test]
fn no_rate_is_so_low_that_a_connection_stops() {
    let t0 = epoch();
    let mut pacer = paced(t0, 0);
    pacer.sent(t0, 100 * PACKET);
    let next = pacer.check(t0).expect_err("the bucket is empty");
    assert!(next <= t0 + 2 * LONGEST_GAP);
}

#[test]
fn a_clock_that_steps_back_gives_nothing() {
    let t0 = epoch();
    let mut pacer = paced(t0 + ms(100), 200_000);
    pacer.sent(t0 + ms(100), 2 * PACKET);
    assert!(pacer.check(t0).is_err());
    assert!(pacer.check(t0 + ms(105)).is_err());
    assert_eq!(pacer.check(t0 + ms(107)), Ok(()));
}

#[test]
fn a_controller_can_limit_bursts() {
    // 125 MB/s: a millisecond is 104 packets.
    let t0 = epoch();
    let later = t0 + ms(10);
    let mut pacer = paced(t0, 125_000_000);
    pacer.set_burst(Some(64 * 1024));
    pacer.set_rate(t0, Some(125_000_000));
    assert_eq!(pacer.batch(later, 1000), 54);
    pacer.sent(later, 54 * PACKET);
    let next = pacer.check(later).expect_err("the bucket is empty");
    assert!(next - later <= us(520), "no longer than it takes to fill");
    assert_eq!((pacer.check(next), pacer.batch(next, 1000)), (Ok(()), 52));
    pacer.set_burst(Some(0));
    pacer.set_rate(next, Some(125_000_000));
    assert_eq!((pacer.check(next), pacer.batch(next, 10)), (Ok(()), 1));
}

proptest! {
    #[test]
    fn what_leaves_is_the_rate_and_at_most_a_bucket_and_a_batch_more(
        rate in 1_000_u64..1_000_000_000,
        lateness in prop::collection::vec(0_u64..400, 1..200),
    ) {
        let t0 = epoch();
        let mut pacer = paced(t0, rate);
        let (mut now, mut left) = (t0, 0);
        for late in lateness {
            while pacer.check(now).is_ok() {
                let bytes = pacer.batch(now, 10) as u64 * PACKET;
                pacer.sent(now, bytes);
                left += bytes;
            }
            let allowed = (now - t0).as_nanos() * u128::from(rate) / 1_000_000_000;
            let slack = (rate / 1000).max(2 * PACKET) + 10 * PACKET;
            prop_assert!(u128::from(left) <= allowed + u128::from(slack), "{left} of {allowed}");
            // Wake-ups late by less than half the depth cost no throughput.
            prop_assert!(u128::from(left) + u128::from(slack) >= allowed, "{left} of {allowed}");
            let next = pacer.check(now).expect_err("the loop ended");
            prop_assert!(next > now);
            now = next + us(late);
        }
    }
}
