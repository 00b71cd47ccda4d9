use std::sync::Mutex;

use super::*;
use crate::controller::PathSample;
use crate::path_control::{AckReport, FeedState};
use crate::table::controller;
use crate::testing::{epoch, ms, path_sample};

/// Records its calls, with milliseconds since its beginning.
struct Recorder {
    t0: Instant,
    heard: Mutex<Vec<String>>,
}

impl Recorder {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            t0: epoch(),
            heard: Mutex::default(),
        })
    }

    fn hear(&self, now: Instant, what: &str) {
        let at = (now - self.t0).as_millis();
        self.heard
            .lock()
            .expect("no test panics in here")
            .push(format!("{at}: {what}"));
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut self.heard.lock().expect("no test panics in here"))
    }
}

impl Observer for Recorder {
    fn on_start(&self, now: Instant) {
        self.hear(now, "start");
    }

    fn on_sent(&self, now: Instant, bytes: u64) {
        self.hear(now, &format!("sent {bytes}"));
    }

    fn on_acks(&self, report: &AckReport) {
        let AckReport {
            now,
            rtt,
            acked,
            window,
            in_flight,
            app_limited,
        } = report;
        self.hear(
            *now,
            &format!("acked {acked} after {:?}, {in_flight} of {window} in flight, limited {app_limited}", rtt.unwrap_or_default()),
        );
    }

    fn on_path(&self, sample: &PathSample) {
        self.hear(sample.now, &format!("path {:?}", sample.rtt));
    }

    fn on_congestion(&self, now: Instant, lost: u64) {
        self.hear(now, &format!("lost {lost}"));
    }
}

/// Reno, observed by `recorder`.
fn tapped(recorder: &Arc<Recorder>) -> Watched<Tap> {
    Watched {
        controller: controller("reno")
            .expect("a name of the table")
            .build(recorder.t0, 1200),
        watch: Tap {
            feed: PathFeed::default(),
            reporter: AckReporter::new(recorder.clone()),
        },
    }
}

#[test]
fn an_observer_hears_of_every_path_sample_also_where_the_controller_takes_none() {
    for name in ["vegas", "cubic"] {
        let recorder = Recorder::new();
        let t0 = recorder.t0;
        let feed = PathFeed::default();
        let observed = observed(controller(name).expect("a name"), recorder.clone());
        let _controller = observed.build_fed(t0, 1200, feed.clone());
        for nth in 1..=FeedState::MOST_WAITING as u64 + 1 {
            feed.push(PathSample {
                now: t0 + ms(nth),
                rtt: ms(7),
                ..path_sample()
            });
        }
        let heard = recorder.heard();
        assert_eq!(heard.len(), FeedState::MOST_WAITING + 2, "{name}");
        assert_eq!(heard[1], "1: path 7ms", "{name}");
    }
}

#[test]
fn an_observer_hears_what_happens_and_the_controllers_own_window() {
    let recorder = Recorder::new();
    let t0 = recorder.t0;
    let mut tap = tapped(&recorder);
    tap.on_sent(t0, 2400, 1);
    tap.watch
        .reporter
        .on_packet_acked(t0 + ms(40), t0 + ms(1), 1200);
    tap.watch.reporter.on_packet_acked(t0 + ms(40), t0, 1200);
    tap.on_end_acks(t0 + ms(40), 3600, true, Some(1));
    tap.on_congestion_event(t0 + ms(50), t0 + ms(2), false, 1200);
    tap.on_congestion_event(t0 + ms(50), t0 + ms(2), false, 0);
    assert_eq!(
        recorder.heard(),
        [
            "0: sent 2400",
            "40: acked 2400 after 39ms, 3600 of 12000 in flight, limited true",
            "50: lost 1200",
            "50: lost 0",
        ]
    );
    assert_eq!((tap.window(), tap.initial_window()), (6001, 12_000));
}

#[test]
fn an_ack_that_repeats_a_lost_one_is_reported_without_a_round_trip() {
    let recorder = Recorder::new();
    let t0 = recorder.t0;
    let mut tap = tapped(&recorder);
    tap.watch.feed.set_repeated(7);
    for (nth, largest) in [(1, 7), (2, 8)] {
        tap.watch
            .reporter
            .on_packet_acked(t0 + ms(40 * nth), t0, 1200);
        tap.on_end_acks(t0 + ms(40 * nth), 0, true, Some(largest));
    }
    let heard = recorder.heard();
    assert!(
        heard[0].starts_with("40: acked 1200 after 0ns"),
        "{heard:?}"
    );
    assert!(
        heard[1].starts_with("80: acked 1200 after 80ms"),
        "{heard:?}"
    );
}

#[test]
fn what_a_retry_leaves_over_is_not_reported() {
    let recorder = Recorder::new();
    let t0 = recorder.t0;
    let mut tap = tapped(&recorder);
    tap.watch.reporter.on_packet_acked(t0 + ms(40), t0, 1200);
    tap.on_end_acks(t0 + ms(80), 0, true, None);
    tap.watch.reporter.on_packet_acked(t0 + ms(90), t0, 1200);
    tap.watch
        .reporter
        .on_packet_acked(t0 + ms(100), t0 + ms(60), 1000);
    tap.on_end_acks(t0 + ms(100), 0, true, Some(1));
    assert_eq!(
        recorder.heard(),
        ["100: acked 1000 after 40ms, 0 of 12000 in flight, limited true"]
    );
}

#[test]
fn every_row_can_be_observed_connection_by_connection() {
    for row in crate::table::controllers() {
        let recorder = Recorder::new();
        let t0 = recorder.t0;
        let plain = controller(row.name).expect("a name of the table");
        let observed = observed(plain.clone(), recorder.clone());
        let mut first = observed.clone().build(t0, 1200);
        let second = observed.build(t0 + ms(5), 1200);
        assert_eq!(recorder.heard(), ["0: start", "5: start"], "{}", row.name);
        first.on_sent(t0 + ms(6), 1200, 0);
        first.on_mtu_update(1400);
        first.on_congestion_event(t0 + ms(50), t0 + ms(6), true, 1200);
        let copy = first.clone_box();
        assert_eq!(
            recorder.heard(),
            ["6: sent 1200", "50: lost 1200"],
            "{}",
            row.name
        );
        assert_eq!(copy.window(), first.window());
        assert!(
            first.window() > 1400 && first.window() <= second.window().max(2 * 1400 + 1),
            "{}",
            row.name
        );
    }
}
