use bytes::Bytes;
use futures_util::FutureExt;

use super::super::lateness::Delays;
use super::*;
use evenkeel_tests::time::epoch;

fn frame(sequence: u32, key: bool) -> Frame {
    let entry = key.then_some(0);
    Frame {
        header: Header {
            track: Track::VIDEO,
            sequence,
            captured_us: 0,
            bitrate_bps: 0,
            length: 1,
            entry,
            delays: Delays::default(),
            given_up: None,
        },
        account: Entry::default(),
        captured: Captured {
            track: Track::VIDEO,
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
    let queue = Queue::new(Track::VIDEO, Arc::default());
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
    let queue = Queue::new(Track::VIDEO, Arc::default());
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

#[test]
fn sound_overtakes_pictures_and_low_pictures_overtake_high_ones() {
    use super::super::track::Kind;
    let queues = Queues::default();
    let (sound, low, high) = (
        Track::new(Kind::Sound, 0),
        Track::VIDEO,
        Track::new(Kind::Video, 1),
    );
    let [heard, seen, more] = [sound, low, high].map(|track| queues.of(track).0);
    let may_write = |track| queues.turn(track).now_or_never().is_some();
    assert!(may_write(sound) && may_write(low) && may_write(high));
    assert!(seen.push(frame(0, true)));
    assert!(more.push(frame(0, true)));
    assert!(may_write(low) && !may_write(high));
    assert!(heard.push(frame(0, true)));
    assert!(may_write(sound) && !may_write(low));
    assert!(queues.overtaken(low).now_or_never().is_some());
    // It is being written, and then it is.
    assert_eq!(next(&heard), Some(0));
    assert!(!may_write(low));
    assert_eq!(next(&heard), None);
    assert!(may_write(low) && !may_write(high));
    assert!(queues.has_behind(low) && !queues.has_behind(high));
}

#[test]
fn further_pictures_begin_with_one_that_can_be_decoded() {
    use super::super::track::Kind;
    let queue = Queue::new(Track::new(Kind::Video, 1), Arc::default());
    assert!(!queue.push(frame(0, false)));
    assert!(queue.push(frame(1, true)));
}
