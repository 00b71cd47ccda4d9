use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::impairment::Node;
use crate::testing::{epoch, ms, packet};

/// When which of the packets that are sent at these milliseconds comes out. `follow` calls at every
/// timeout, else only the pushes and a late call move the node.
fn out(
    aggregation: Aggregation,
    sent: &[Duration],
    follow: bool,
) -> Result<Vec<(Duration, u64)>, TestCaseError> {
    let start = epoch();
    let mut node = Node::new(aggregation);
    let mut out = Vec::new();
    for (number, sent) in (0..).zip(sent) {
        let now = start + *sent;
        while let Some(at) = node.next_timeout().filter(|at| follow && *at <= now) {
            let (came_out, packet) = node.pop(at).expect("it is due");
            prop_assert_eq!(came_out, at);
            out.push((at - start, packet.payload));
        }
        node.push(now, packet(100, number));
        prop_assert_eq!(node.counters().check("aggregation"), Ok(()));
    }
    while let Some(at) = node.next_timeout() {
        let (came_out, packet) = node.pop(start + ms(1_000_000)).expect("it is due");
        prop_assert_eq!(came_out, at);
        out.push((at - start, packet.payload));
    }
    Ok(out)
}

fn milliseconds(times: &[u64]) -> Vec<Duration> {
    times.iter().map(|time| ms(*time)).collect()
}

#[test]
fn packets_are_released_together_a_time_after_the_first() {
    let sent = milliseconds(&[0, 1, 4, 5, 9, 20]);
    let aggregation = Aggregation::new(ms(5), None);
    let released = [(5, 0), (5, 1), (5, 2), (10, 3), (10, 4), (25, 5)];
    assert_eq!(
        out(aggregation, &sent, true).unwrap(),
        released.map(|(at, number)| (ms(at), number))
    );
}

#[test]
fn enough_packets_are_released_at_once() {
    let sent = milliseconds(&[0, 1, 2, 3, 4, 20, 30]);
    let aggregation = Aggregation::new(ms(5), NonZeroU32::new(3));
    let released = [(2, 0), (2, 1), (2, 2), (8, 3), (8, 4), (25, 5), (35, 6)];
    assert_eq!(
        out(aggregation, &sent, true).unwrap(),
        released.map(|(at, number)| (ms(at), number))
    );
    let one = Aggregation::new(ms(5), NonZeroU32::new(1));
    let at_once = out(one, &sent, true).unwrap();
    assert!(at_once.iter().map(|(at, _)| *at).eq(sent));
}

#[test]
fn of_regular_packets_batches_have_the_size_and_delay_that_follow() {
    // One each millisecond, held for 7.5 ms: batches of eight, a mean delay of 4 ms.
    let sent: Vec<_> = (0..8000).map(ms).collect();
    let aggregation = Aggregation::new(Duration::from_micros(7500), None);
    let out = out(aggregation, &sent, true).unwrap();
    for batch in out.chunks(8) {
        assert!(batch.iter().all(|(at, _)| *at == batch[0].0));
        assert_eq!(batch[0].0, ms(batch[0].1) + Duration::from_micros(7500));
    }
    let delays: Duration = out.iter().map(|(at, number)| *at - ms(*number)).sum();
    assert_eq!(delays / 8000, ms(4));
}

proptest! {
    #[test]
    fn no_packet_is_held_longer_than_the_time_in_more_than_the_number_lost_or_overtaken(
        gaps in vec(prop_oneof![Just(0), 0..4000u64], 1..100),
        time in 0..10_000u64,
        most in 0..6u32,
    ) {
        let time = Duration::from_micros(time);
        let mut now = Duration::ZERO;
        let sent: Vec<_> = gaps
            .into_iter()
            .map(|gap| {
                now += Duration::from_micros(gap);
                now
            })
            .collect();
        let aggregation = || Aggregation::new(time, NonZeroU32::new(most));
        let followed = out(aggregation(), &sent, true)?;
        prop_assert_eq!(&followed, &out(aggregation(), &sent, false)?);
        prop_assert!(followed.iter().map(|(_, number)| *number).eq(0..sent.len() as u64));
        let mut last = Duration::ZERO;
        for ((at, _), sent) in followed.iter().zip(&sent) {
            prop_assert!(*at >= *sent && *at <= *sent + time && *at >= last);
            last = *at;
        }
        // What is held at any instant is below the number.
        for (index, (_, number)) in followed.iter().enumerate() {
            let now = sent[*number as usize];
            let held = followed[..=index].iter().filter(|(at, _)| *at > now).count();
            prop_assert!(most == 0 || held < most as usize);
        }
    }
}
