mod link;
mod room;
mod spec;
mod start;

use proptest::prelude::*;

use super::*;
use crate::testing::{ack, epoch, ms};
use link::{Link, Tell};

const MTU: u16 = 1200;

/// 20 Mb/s in bytes per second, and a queue that holds 40 ms of it.
const RATE: f64 = 2_500_000.0;
const ROOM: f64 = 83.0;

#[test]
fn a_clean_link_is_full_with_a_queue_of_some_packets() {
    for (rate, rtt, room) in [
        (250_000.0, ms(30), 50.0),
        (RATE, ms(40), ROOM),
        (12_500_000.0, ms(100), 1000.0),
        (125_000_000.0, ms(1), 200.0),
    ] {
        let mut link = Link::new(rate, rtt, room);
        link.run(rtt * 100);
        let target = link.keel.target();
        let share = link.run(rtt * 200);
        assert!(share > 0.97, "{rate} {rtt:?}: {share}");
        let packet = Duration::from_secs_f64(f64::from(MTU) / rate);
        assert!(
            // The last step of growth is at most a quarter of the window.
            link.longest_queue <= target + rtt / 3 + packet * 4,
            "{rate} {rtt:?}: {:?} of {target:?}",
            link.longest_queue
        );
        assert_eq!(link.overflows, 0, "{rate} {rtt:?}");
    }
}

#[test]
fn random_losses_do_not_slow_it_down() {
    for (every, least) in [(1000, 0.97), (100, 0.96), (30, 0.9)] {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.loses_every = Some(every);
        link.run(ms(5000));
        let share = link.run(ms(20_000));
        assert!(share > least, "one of {every} is lost: {share}");
    }
}

#[test]
fn a_link_that_slows_down_is_left_by_the_queue_within_a_second() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.rate = RATE / 5.0;
    link.run(ms(1000));
    let share = link.run(ms(2000));
    assert!(share > 0.95, "{share}");
    assert!(link.longest_queue < ms(25), "{:?}", link.longest_queue);
}

#[test]
fn a_link_that_speeds_up_is_full_within_two_seconds() {
    let mut link = Link::new(RATE / 5.0, ms(40), ROOM);
    link.run(ms(5000));
    link.rate = RATE;
    link.run(ms(2000));
    let share = link.run(ms(2000));
    assert!(share > 0.95, "{share}");
}

#[test]
fn a_longer_route_is_not_taken_for_a_queue() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.rtt = ms(120);
    link.run(ms(3000));
    let share = link.run(ms(3000));
    assert!(share > 0.95, "{share}");
    assert_eq!(link.keel.delay.base() / 10_000_000, ms(120) / 10_000_000);
}

#[test]
fn beside_reno_it_holds_its_share_and_when_that_is_gone_it_keeps_a_short_queue() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.join(80);
    let holds = (0..100).any(|_| {
        link.run(ms(100));
        matches!(link.keel.mode, Mode::Hold(_))
    });
    assert!(holds, "within ten seconds");
    let share = link.run(ms(60_000));
    assert!((0.4..0.75).contains(&share), "{share}");
    link.neighbour.clear();
    link.run(ms(15_000));
    assert!(
        matches!(link.keel.mode, Mode::Track(None)),
        "{:?}",
        link.keel.mode
    );
    let share = link.run(ms(5000));
    assert!(share > 0.97 && link.longest_queue < ms(15), "{share}");
}

#[test]
fn a_small_queue_hardly_overflows() {
    let mut link = Link::new(RATE, ms(40), 8.0);
    link.run(ms(5000));
    let overflows = link.overflows;
    let share = link.run(ms(20_000));
    assert!(share > 0.95, "{share}");
    let lost = (link.overflows - overflows) as f64 / (RATE * 20.0 / f64::from(MTU));
    assert!(lost < 0.001, "{lost}");
}

#[test]
fn a_window_of_few_packets_answers_each_loss() {
    // 0.5 Mb/s and 40 ms hold two packets, and one may queue.
    let mut link = Link::new(60_000.0, ms(40), 1.0);
    link.run(ms(5000));
    let (overflows, sent) = (link.overflows, link.sent);
    let share = link.run(ms(60_000));
    assert!(share > 0.85, "{share}");
    let lost = (link.overflows - overflows) as f64 / (link.sent - sent) as f64;
    assert!(lost < 0.1, "{lost}");
}

/// Somebody else's upload: a queue on the way back that grows for a second and drains for one.
fn upload(time: Duration) -> Duration {
    let phase = time.as_millis() as u64 % 2000;
    ms(phase.min(2000 - phase) * 3 / 50)
}

#[test]
fn queueing_on_the_way_back_is_left_out_if_routers_tell_it() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = upload;
    link.run(ms(5000));
    let unaided = link.run(ms(20_000));
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = upload;
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    let aided = link.run(ms(20_000));
    assert!(unaided < aided && aided > 0.95, "{unaided}, {aided}");
    // Of 50,000 packets.
    assert!(link.overflows < 50, "{}", link.overflows);
}

/// The same, with an upload that backs off: its queue is gone in a tenth of a second.
fn upload_that_backs_off(time: Duration) -> Duration {
    let phase = time.as_millis() as u64 % 2000;
    ms(phase.min((2000 - phase) * 19) * 30 / 1900)
}

#[test]
fn a_queue_on_the_way_back_that_empties_does_not_move_to_the_way_there() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = upload_that_backs_off;
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    let share = link.run(ms(20_000));
    assert!(share > 0.96, "{share}");
    assert!(link.longest_queue < ms(15), "{:?}", link.longest_queue);
}

#[test]
fn honest_routers_are_believed_although_packets_are_lost() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.tell = Some(|there, back, _| (there, back));
    link.loses_every = Some(12);
    link.run(ms(10_000));
    assert!(link.keel.routers.are_heard(), "without a queue");
    let mut link = Link::new(RATE, ms(40), 4.0);
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(10_000));
    assert!(link.keel.routers.are_heard(), "with a short one");
    link.tell = Some(|_, _, rtt| (Duration::ZERO, rtt - ms(10)));
    link.room = ROOM;
    link.run(ms(10_000));
    assert!(!link.keel.routers.are_heard(), "with one that they hide");
}

/// 0 to 20 ms, another at each time.
fn jitter(time: Duration) -> Duration {
    let scattered = (time.as_micros() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Duration::from_micros((scattered >> 32) % 20_000)
}

#[test]
fn jitter_costs_nothing_while_routers_tell_the_queue() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = jitter;
    link.tell = Some(|there, _, _| (there, Duration::ZERO));
    link.run(ms(5000));
    let share = link.run(ms(20_000));
    assert!(share > 0.95, "{share}");
    assert!(link.longest_queue < ms(20), "{:?}", link.longest_queue);
}

#[test]
fn lying_routers_slow_it_down_at_most() {
    let lies: [Tell; 10] = [
        |_, _, _| (Duration::ZERO, Duration::ZERO),
        |_, _, rtt| (rtt, Duration::ZERO),
        |_, _, rtt| (Duration::ZERO, rtt),
        |_, _, rtt| (rtt / 2, rtt / 2),
        |there, back, _| (back, there),
        |there, _, _| (there * 2, Duration::ZERO),
        |there, _, rtt| (rtt - there, Duration::ZERO),
        |there, _, rtt| (Duration::ZERO, rtt - there),
        |_, _, rtt| (Duration::ZERO, rtt * (rtt.subsec_nanos() % 11) / 11),
        |_, _, rtt| (rtt * (rtt.subsec_nanos() % 7) / 7, Duration::ZERO),
    ];
    for (which, lie) in lies.into_iter().enumerate() {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.run(ms(5000));
        link.tell = Some(lie);
        // What fits, and as much until losses show.
        let fits = RATE * 0.04 + ROOM * f64::from(MTU);
        for _ in 0..100 {
            link.run(ms(100));
            let window = link.keel.window() as f64;
            assert!(window < 2.0 * fits, "lie {which}: {window} of {fits}");
        }
        link.tell = None;
        link.run(ms(35_000));
        let share = link.run(ms(5000));
        assert!(share > 0.9, "after lie {which}: {share}");
    }
}

#[test]
fn marks_lower_the_window() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    let window = link.keel.window();
    link.keel.on_congestion(&Congestion::ecn(epoch()));
    assert!(link.keel.window().abs_diff(window * 85 / 100) <= 1);
}

/// keel over a link whose router marks packets that leave as ECT(1).
fn l4s_link(rate: f64, rtt: u64, marks: fn(Duration, u64) -> bool) -> Link {
    let mut link = Link::new(rate, ms(rtt), ROOM);
    link.marks = Some(marks);
    link
}

#[test]
fn over_an_l4s_router_a_link_is_full_with_a_millisecond_of_queue() {
    for (rate, rtt) in [(RATE, 10), (RATE, 40), (RATE, 80)] {
        let mut link = l4s_link(rate, rtt, |queue, _| queue > ms(1));
        link.run(ms(10_000));
        let share = link.run(ms(20_000));
        assert!(share > 0.97, "{rate} {rtt}: {share}");
        assert!(link.longest_queue < ms(4), "{:?}", link.longest_queue);
        assert_eq!(link.keel.ecn(), EcnMode::Scalable);
    }
}

#[test]
fn a_long_l4s_path_is_full_soon_after_its_first_marks() {
    // The first packets leave at once, and are no queue yet.
    let mut link = l4s_link(RATE, 300, |queue, _| queue > ms(5));
    link.room = 1000.0;
    link.run(ms(10_000));
    let share = link.run(ms(5000));
    assert!(share > 0.95, "{share}");
}

#[test]
fn without_marks_windows_are_those_of_classic_ecn() {
    for rtt in [10, 40, 200] {
        let windows = |marks| {
            let mut link = Link::new(RATE, ms(rtt), ROOM);
            link.marks = marks;
            link.loses_every = Some(500);
            link.run(ms(10_000));
            let windows = link.record.iter().map(|(_, window)| *window);
            windows.collect::<Vec<_>>()
        };
        assert_eq!(windows(None), windows(Some(|_, _| false)), "{rtt} ms");
    }
}

#[test]
fn behind_a_router_that_marks_now_and_then_it_leaves_as_ect0_for_a_minute() {
    let mut link = l4s_link(RATE, 40, |queue, number| {
        queue > ms(5) && number.is_multiple_of(40)
    });
    link.join(60);
    let found = (0..20).find(|_| {
        link.run(ms(100));
        link.keel.ecn() == EcnMode::Classic
    });
    assert!(found.is_some(), "within 2 s");
    link.marks = Some(|_, _| false);
    link.neighbour.clear();
    link.run(ms(59_000));
    assert_eq!(link.keel.ecn(), EcnMode::Classic);
    link.run(ms(1100));
    assert_eq!(link.keel.ecn(), EcnMode::Scalable);
}

#[test]
fn behind_an_l4s_router_a_queue_of_the_way_back_costs_neither_l4s_nor_the_rate() {
    let mut link = l4s_link(RATE, 40, |queue, _| queue > ms(1));
    link.run(ms(5000));
    // It grows by 40 ms in 4 s, and drains in a tenth of that.
    link.back = |time| {
        let phase = time.as_millis() as u64 % 4400;
        ms((phase / 100).min((4400 - phase) / 10))
    };
    let share = link.run(ms(20_000));
    assert_eq!(link.keel.ecn(), EcnMode::Scalable);
    assert!(share > 0.8, "{share}");
}

#[test]
fn persistent_congestion_begins_anew_with_two_packets() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.keel.on_persistent_congestion();
    assert_eq!(link.keel.window(), 2400);
    link.run(ms(1000));
    let share = link.run(ms(1000));
    assert!(share > 0.95, "{share}");
}

#[test]
fn persistent_congestion_leaves_nothing_for_the_way_back() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = |_| ms(30);
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    link.keel.on_persistent_congestion();
    assert_eq!(link.keel.window(), 2400);
}

#[test]
fn an_application_with_little_to_send_keeps_its_window() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    let window = link.keel.window();
    for round in 0..1000 {
        let now = link.now + ms(100 * round);
        link.keel.on_ack(&Ack {
            in_flight: 1200,
            app_limited: true,
            ..ack(now, 40, 1200)
        });
    }
    assert_eq!(link.keel.window(), window);
}

#[test]
fn sustained_losses_halve_the_window_within_a_second() {
    for every in [2, 3, 4] {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.run(ms(5000));
        let window = link.keel.window();
        link.loses_every = Some(every);
        link.run(ms(1000));
        assert!(link.keel.window() * 2 <= window, "one of {every} is lost");
    }
}

#[test]
fn it_resumes_at_a_window_and_has_no_threshold_before_start_ended() {
    let mut keel = Keel::new(epoch(), InitialWindow::Rfc9002, MTU);
    assert_eq!(keel.slow_start_threshold(), None);
    keel.resume(100_000);
    assert_eq!(keel.window(), 100_000);
    assert_eq!(keel.slow_start_threshold(), Some(100_000));
    keel.on_persistent_congestion();
    keel.on_mtu(1452);
    assert_eq!(keel.window(), 2904, "two packets");
}

#[test]
fn it_asks_for_more_headers_while_routers_stamp_them() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(1000));
    let before = link.keel.header_interval();
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(1000));
    assert_eq!((before, link.keel.header_interval()), (1 << 20, 2));
}

proptest! {
    #[test]
    fn windows_stay_in_bounds_and_the_same_history_gives_the_same_window(
        rate in 20_000.0..2_000_000.0_f64,
        rtt in 1_u64..500,
        room in 2.0..500.0_f64,
        every in prop::option::of(2_u64..200),
        changes in prop::collection::vec((0.2..5.0_f64, 1_u64..500), 0..5),
    ) {
        let run = || {
            let mut link = Link::new(rate, ms(rtt), room);
            link.loses_every = every;
            let (mut windows, mut excesses) = (Vec::new(), Vec::new());
            for (factor, rtt) in std::iter::once((1.0, rtt)).chain(changes.iter().copied()) {
                link.rate = rate * factor;
                link.rtt = ms(rtt);
                link.most_delivered = 0;
                link.run(ms(400));
                windows.push(link.keel.window());
                let full = Duration::from_secs_f64(room * f64::from(MTU) / link.rate);
                link.run((link.rtt + full) * 4 + ms(1000));
                link.run(link.rtt * 4 + ms(1000));
                excesses.push(link.excess);
            }
            (windows, excesses)
        };
        let (windows, excesses) = run();
        // On a path that has not changed yet. A change may leave more for some rounds.
        prop_assert_eq!(excesses[0], 0, "{:?}", windows);
        // All that the fastest path holds, with its queue, ten times over.
        let most = 10.0 * (5.0 * rate * 0.5 + (room + 20.0) * f64::from(MTU));
        for window in &windows {
            prop_assert!((2400..=most as u64).contains(window), "{window} of {most}");
        }
        prop_assert_eq!((windows, excesses), run());
    }
}

/// Lets a millisecond pass until `is` of the mode.
fn run_until(link: &mut Link, is: fn(&Mode) -> bool) {
    for _ in 0..100_000 {
        link.run(ms(1));
        if is(&link.keel.mode) {
            return;
        }
    }
    panic!("{:?}", link.keel.mode);
}

#[test]
fn drain_leaves_four_packets_where_the_empty_path_holds_fewer() {
    let mut link = Link::new(60_000.0, ms(40), ROOM);
    run_until(&mut link, |mode| matches!(mode, Mode::Track(None)));
    assert_eq!(link.keel.window(), 4800);
}

#[test]
fn a_faster_link_is_filled_by_1_2_4_8_packets_and_on_to_a_quarter() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.run(ms(5000));
    link.rate = 20.0 * RATE;
    let mut windows = vec![link.keel.window() as f64];
    while windows.len() < 11 {
        link.run(ms(1));
        let window = link.keel.window() as f64;
        if window != windows[windows.len() - 1] {
            windows.push(window);
        }
    }
    let steps: Vec<f64> = windows.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps[..4], [1200.0, 2400.0, 4800.0, 9600.0]);
    for at in 4..10 {
        let step = (1200.0 * 2f64.powi(at as i32)).min(windows[at] / 4.0);
        assert!((steps[at] - step).abs() <= 1.0, "{steps:?}");
    }
}

#[test]
fn a_longer_and_faster_route_is_full_although_packets_were_lost_on_the_one_before() {
    let mut link = Link::new(3_500_000.0, ms(304), 475.0);
    link.run(ms(10_000));
    (link.rate, link.rtt) = (260_000.0, ms(1));
    link.run(ms(12_000));
    (link.rate, link.rtt) = (6_240_000.0, ms(308));
    // Growth by a quarter a round trip, and losses of a queue of 0.3 bandwidth x delay.
    link.run(ms(20_000));
    let share = link.run(ms(4000));
    assert!(share > 0.8, "{share}");
}

#[test]
fn losses_of_a_slower_link_do_not_limit_growth_once_it_is_fast_again() {
    let mut link = Link::new(1_250_000.0, ms(100), 67.0);
    link.run(ms(1500));
    (link.rate, link.room) = (625_000.0, 33.0);
    link.run(ms(2000));
    (link.rate, link.room) = (1_250_000.0, 67.0);
    link.run(ms(1500));
    let share = link.run(ms(2000));
    assert!(share > 0.9, "{share}");
}

#[test]
fn excess_losses_leave_0_85_of_the_window_and_many_0_7() {
    // 4 and 31 points above the tolerated 2 %; a round that delivered more keeps more than 0.7.
    for (every, least, most) in [(16, 0.845, 0.855), (3, 0.695, 0.8)] {
        let mut link = Link::new(RATE, ms(40), ROOM);
        link.run(ms(5000));
        link.loses_every = Some(every);
        let mut before = 0.0;
        for _ in 0..5000 {
            if link.keel.curve.is_some() {
                break;
            }
            before = link.keel.window() as f64;
            link.run(ms(1));
        }
        let part = link.keel.window() as f64 / before;
        assert!(part > least && part < most, "one of {every} lost: {part}");
    }
}

#[test]
fn random_losses_do_not_keep_the_window_at_few_packets() {
    let mut link = Link::new(RATE / 2.0, ms(100), ROOM);
    link.loses_every = Some(10);
    link.keel.window = 5.0 * f64::from(MTU);
    link.keel.track();
    link.run(ms(20_000));
    let share = link.run(ms(10_000));
    assert!(share > 0.4, "{share}");
}

/// Somebody else's upload that fills a large queue, gives way and fills it again.
fn saw(time: Duration) -> Duration {
    let phase = time.as_millis() as u64 % 4000;
    ms(80 + (phase / 45).min((4000 - phase) / 5))
}

#[test]
fn losses_that_were_there_before_an_upload_do_not_take_its_rate_in_hold() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.loses_every = Some(66);
    link.run(ms(5000));
    link.back = saw;
    run_until(&mut link, |mode| matches!(mode, Mode::Hold(_)));
    let share = link.run(ms(20_000));
    assert!(share > 0.4, "{share}");
}

#[test]
fn losses_at_half_of_the_target_halve_it_for_a_while() {
    let mut link = Link::new(RATE, ms(40), 5.0);
    let mut least = 1.0_f64;
    for _ in 0..40_000 {
        link.run(ms(1));
        least = least.min(link.keel.target_part);
    }
    assert_eq!(least, LEFT);
    link.room = ROOM;
    link.run(ms(20_000));
    assert_eq!(link.keel.target_part, 1.0);
}

#[test]
fn losses_shrink_the_part_of_the_target_that_is_for_jitter_too() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = |at| ms(at.as_millis() as u64 * 7 % 5);
    link.run(ms(5000));
    (link.keel.target_part, link.keel.search) = (1.0, None);
    let before = link.keel.target();
    assert!(
        link.keel.delay.noise() > ms(3),
        "{:?}",
        link.keel.delay.noise()
    );
    link.keel.target_part = LEFT;
    assert_eq!(link.keel.target(), before.mul_f64(LEFT));
}

#[test]
fn what_queues_on_the_way_back_is_no_part_of_the_window_in_hold() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    link.back = |_| ms(30);
    link.tell = Some(|there, back, _| (there, back));
    link.run(ms(5000));
    assert!(
        link.keel.window() > link.keel.window as u64 + 40_000,
        "30 ms"
    );
    link.join(80);
    run_until(&mut link, |mode| matches!(mode, Mode::Hold(_)));
    assert_eq!(link.keel.window(), link.keel.window as u64);
    assert_eq!(link.keel.seen(link.now).least, 4800.0);
}
