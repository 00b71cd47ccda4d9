use evenkeel_queue::Amount;
use proptest::prelude::*;

use super::*;
use crate::status::Degraded;
use crate::status::testing::status;

/// Draws two figures, one after the other, for a terminal of 80 columns without colours.
fn drawn(first: Status, second: Status) -> Vec<String> {
    let mut view = View::default();
    view.draw(first, 79, None, false);
    view.draw(second, 79, None, false)
}

#[test]
fn a_link_shows_what_happened_in_the_last_second() {
    let first = status(&["bottleneck"]);
    let mut second = first.clone();
    second.uptime_s = 12.0;
    let link = &mut second.links[0];
    link.total.arrived.bytes = 3_000_000;
    link.total.forwarded.bytes = 2_000_000;
    link.total.dropped.packets = 30;
    link.total.ring_dropped = 4;
    link.total.marked.packets = 3;
    link.queued = Amount {
        packets: 10,
        bytes: 15_000,
    };
    let flows = [("flows".to_owned(), 31.25)].into();
    link.stamps.insert("flows".to_owned(), flows);
    let expected = [
        "router r1 (pid 4711), up 12 s",
        "LINK            IN Mb/s OUT Mb/s     RATE  QUEUE  WAIT ms  DROP/s MARK/s  FLOWS",
        "bottleneck        12.00    8.000    8.000     10    15.00   17.00  1.500  31.25",
    ];
    assert_eq!(drawn(first, second), expected);
}

#[test]
fn there_are_no_rates_of_a_link_that_is_new_or_was_made_anew() {
    let mut before = status(&["a"]);
    before.links[0].total.arrived.packets = 5;
    let mut after = status(&["a", "b"]);
    after.uptime_s = 11.0;
    let lines = drawn(before, after);
    for line in &lines[2..] {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[1..], ["-", "-", "8.000", "0", "0", "-", "-", "-"]);
    }
    assert_eq!(lines.len(), 4);
}

#[test]
fn a_degraded_link_says_why_on_as_many_lines_as_that_takes() {
    let mut degraded = status(&["a"]);
    degraded.links[0].degraded = Some(Degraded {
        reason: "device \"vb\" is down; \u{1b}[2Jset it up: ip link set vb up; ".repeat(3),
        since_s: 3.2,
    });
    let lines = View::default().draw(degraded.clone(), 79, None, false);
    let text = lines[3..].join(" ");
    assert!(
        lines[3].starts_with("  DEGRADED for 3 s: device"),
        "{lines:?}"
    );
    assert_eq!(text.matches("set it up").count(), 3, "{text}");
    let coloured = View::default().draw(degraded, 79, None, true);
    assert!(coloured[1].starts_with("\x1b[1mLINK"), "{coloured:?}");
    assert!(
        coloured[3].starts_with("\x1b[31m  DEGRADED"),
        "{coloured:?}"
    );
    assert!(coloured[3].ends_with("\x1b[0m"), "{coloured:?}");
}

#[test]
fn what_does_not_fit_into_the_rows_is_counted() {
    let names: Vec<_> = (0..20).map(|number| format!("link-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let lines = View::default().draw(status(&names), 79, Some(10), false);
    assert_eq!(lines.len(), 10);
    assert_eq!(lines[9], "... 13 more lines");
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        name in "[A-Za-z0-9._-]{1,64}",
        reason in ".{0,300}",
        counts: [u32; 6],
        rate_bps in proptest::option::of(0..=10_000_000_000_000_u64),
        columns in 1usize..200,
        rows in 1usize..10,
    ) {
        let first = status(&[&name]);
        let mut second = first.clone();
        second.uptime_s += 0.01;
        let [arrived, forwarded, dropped, marked, packets, bytes] = counts.map(u64::from);
        let link = &mut second.links[0];
        link.rate_bps = rate_bps;
        link.total.arrived.bytes = arrived;
        link.total.forwarded.bytes = forwarded;
        link.total.dropped.packets = dropped / 10_000;
        link.total.marked.packets = marked / 10_000;
        link.queued = Amount { packets: packets / 10_000, bytes };
        link.degraded = Some(Degraded { reason, since_s: 1.0 });
        let mut view = View::default();
        view.draw(first, columns, Some(rows), false);
        let lines = view.draw(second, columns, Some(rows), false);
        prop_assert!(lines.len() <= rows);
        for line in lines {
            prop_assert!(line.chars().count() <= columns, "{}", line);
            prop_assert!(!line.contains(char::is_control), "{:?}", line);
        }
    }

    #[test]
    fn a_number_takes_six_letters(exponent in -3.0..11.0f64) {
        let text = number(Some(10f64.powf(exponent)));
        prop_assert!(text.len() <= 6, "{}", text);
    }
}
