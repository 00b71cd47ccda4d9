//! How TRACK makes room.

use super::*;

#[test]
fn now_and_then_it_makes_room_for_two_rounds() {
    let mut link = Link::new(RATE, ms(40), ROOM);
    run_until(&mut link, |mode| matches!(mode, Mode::Track(None)));
    let mut at = link.now;
    // After START 2 s, then each 10 s.
    for (from, to) in [(1900, 2100), (10_000, 10_200), (10_000, 10_200)] {
        let mut before = 0;
        while !matches!(link.keel.mode, Mode::Track(Some(_))) {
            before = link.keel.window();
            link.run(ms(1));
        }
        let time = link.now - at;
        assert!(time > ms(from) && time < ms(to), "{time:?}");
        let part = link.keel.window() as f64 / before as f64;
        assert!((0.8..0.86).contains(&part), "{part} for 40 ms of 45");
        at = link.now;
        run_until(&mut link, |mode| matches!(mode, Mode::Track(None)));
        let rounds = link.now - at;
        assert!(rounds > ms(80) && rounds < ms(100), "{rounds:?}");
        assert_eq!(link.keel.window(), before);
    }
}
