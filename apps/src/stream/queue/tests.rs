use bytes::Bytes;
use futures_util::FutureExt;

use super::super::lateness::Delays;
use super::*;
use evenkeel_tests::time::epoch;

fn frame(sequence: u32, key: bool) -> Frame {
    let entry = key.then_some(0);
    Frame {
        header: Header {
            sequence,
            captured_us: 0,
            bitrate_bps: 0,
            length: 1,
            entry,
            delays: Delays::default(),
        },
        account: Entry::default(),
        captured: Captured {
            at: epoch(),
            entry,
            content: Bytes::from_static(b"x"),
        },
    }
}

fn next(queue: &Queue) -> Option<u32> {
    queue
        .next()
        .now_or_never()?
        .map(|frame| frame.header.sequence)
}

#[test]
fn a_group_that_is_given_up_is_over_until_a_key_frame() {
    let queue = Queue::default();
    (0..4).for_each(|n| assert!(queue.push(frame(n, n == 0))));
    assert_eq!(next(&queue), Some(0));
    assert!(queue.waiting() > 0);
    assert_eq!(queue.give_up_group(), 3);
    assert!(queue.wants_entry());
    assert!(!queue.push(frame(4, false)));
    assert!(queue.push(frame(5, true)));
    assert!(!queue.wants_entry());
    assert_eq!(next(&queue), Some(5));
}

#[test]
fn giving_up_stops_at_the_next_group() {
    let queue = Queue::default();
    (0..6).for_each(|n| assert!(queue.push(frame(n, n % 3 == 0))));
    assert_eq!(next(&queue), Some(0));
    assert_eq!(queue.give_up_group(), 2);
    assert!(!queue.wants_entry());
    assert_eq!(
        (next(&queue), next(&queue), next(&queue)),
        (Some(3), Some(4), Some(5))
    );
    assert_eq!(next(&queue), None);
    assert_eq!(queue.waiting(), 0);
    queue.end();
    assert!(queue.next().now_or_never().unwrap().is_none());
}
