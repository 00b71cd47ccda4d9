use proptest::collection::vec;
use proptest::prelude::*;
use rand_pcg::Pcg64;

use super::*;
use crate::impairment::Node;
use crate::testing::{epoch, ms, packet};

#[test]
fn a_packet_comes_out_after_the_delay_and_not_before() {
    let start = epoch();
    let mut delay = Node::new(Delay::<Pcg64>::new(ms(5)));
    delay.push(start, packet(100, 1));
    assert_eq!(delay.next_timeout(), Some(start + ms(5)));
    assert_eq!(delay.pop(start + ms(4)), None);
    assert_eq!(
        delay.pop(start + ms(9)),
        Some((start + ms(5), packet(100, 1)))
    );
    assert_eq!(delay.counters().check("delay"), Ok(()));
}

#[test]
fn a_shorter_delay_does_not_overtake() {
    let start = epoch();
    let mut delay = Node::new(Delay::<Pcg64>::new(ms(10)));
    delay.push(start, packet(100, 1));
    delay.impairment.set_delay(ms(1));
    delay.push(start + ms(2), packet(100, 2));
    delay.push(start + ms(12), packet(100, 3));
    let out = [(); 3].map(|()| {
        delay
            .pop(start + ms(20))
            .map(|(at, packet)| (at - start, packet.payload))
    });
    assert_eq!(
        out,
        [Some((ms(10), 1)), Some((ms(10), 2)), Some((ms(13), 3))]
    );
}

/// What comes out when of packets that go in after the given gaps.
fn out(delay: Duration, probability: f64, seed: u128, gaps: &[Duration]) -> Vec<(Duration, u64)> {
    let start = epoch();
    let mut node = Node::new(Delay::new(delay));
    node.impairment
        .reorder(probability, Pcg64::new(seed, 0))
        .unwrap();
    let mut now = start;
    for (number, gap) in (0..).zip(gaps) {
        now += *gap;
        node.push(now, packet(100, number));
        assert_eq!(node.counters().check("delay"), Ok(()));
    }
    let mut out = Vec::new();
    while let Some(at) = node.next_timeout() {
        let (came_out, packet) = node.pop(now + delay).expect("all are due");
        assert_eq!(came_out, at);
        out.push((at - start, packet.payload));
    }
    assert_eq!(node.counters().forwarded.packets, gaps.len() as u64);
    assert_eq!(node.counters().check("delay"), Ok(()));
    out
}

#[test]
fn a_packet_that_jumps_overtakes_all_that_are_inside() {
    // The generator of this seed lets the third of four jump, and no other.
    let gaps = [ms(0), ms(1), ms(1), ms(1)];
    let one_jump = (0..).map(|seed| out(ms(10), 0.25, seed, &gaps));
    let first = one_jump
        .into_iter()
        .find(|out| out[0] == (ms(2), 2) && out[1].0 >= ms(10))
        .expect("one seed in ten does");
    assert_eq!(first, [(ms(2), 2), (ms(10), 0), (ms(11), 1), (ms(13), 3)]);
}

#[test]
fn one_in_four_jumps_if_so_asked() {
    let gaps = vec![ms(1); 10_000];
    let out = out(ms(10), 0.25, 1, &gaps);
    let sent = |number: u64| ms(1 + number);
    let jumped = out.iter().filter(|(at, number)| *at == sent(*number));
    // Binomial(10000, 0.25): mean 2500, standard deviation 43; four of them either way.
    let jumped = jumped.count();
    assert!((2327..=2673).contains(&jumped), "{jumped}");
}

#[test]
fn with_zero_none_jumps_and_with_one_all_do() {
    let gaps = [ms(1); 100];
    let numbers = |share| -> Vec<_> {
        out(ms(10), share, 1, &gaps)
            .into_iter()
            .map(|p| p.1)
            .collect()
    };
    assert!(numbers(0.0).is_sorted() && numbers(1.0).is_sorted());
    assert_eq!(out(ms(10), 0.0, 1, &gaps)[0], (ms(11), 0));
    assert_eq!(out(ms(10), 1.0, 1, &gaps)[0], (ms(1), 0));
}

#[test]
fn what_is_no_probability_is_refused() {
    let mut delay = Delay::new(ms(1));
    for value in [-0.1, 1.1, f64::NAN] {
        assert!(delay.reorder(value, Pcg64::new(1, 0)).is_err());
    }
    assert!(!delay.hastens());
}

proptest! {
    #[test]
    fn of_packets_that_may_jump_none_is_lost_or_doubled_and_a_seed_gives_one_order(
        gaps in vec((0..5000u64).prop_map(Duration::from_micros), 1..200),
        probability in 0.0..=1.0f64,
        seed in any::<u64>(),
    ) {
        let first = out(ms(10), probability, seed.into(), &gaps);
        prop_assert!(first.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        prop_assert_eq!(&first, &out(ms(10), probability, seed.into(), &gaps));
        let mut sent = Duration::ZERO;
        let sent: Vec<_> = gaps.iter().map(|gap| { sent += *gap; sent }).collect();
        let mut numbers: Vec<_> = first.iter().map(|(_, number)| *number).collect();
        // Each with its delay or without, and both kinds in the order in which they were sent.
        let (jumped, delayed): (Vec<_>, Vec<_>) =
            first.iter().partition(|(at, number)| *at == sent[*number as usize]);
        for (at, number) in &delayed {
            prop_assert_eq!(*at, sent[*number as usize] + ms(10));
        }
        for kind in [jumped, delayed] {
            prop_assert!(kind.windows(2).all(|pair| pair[0].1 < pair[1].1));
        }
        numbers.sort_unstable();
        prop_assert!(numbers.into_iter().eq(0..gaps.len() as u64));
    }
}
