//! What links do to packets besides queueing them, as the daemon counts it. Nothing here depends on
//! how fast the machine is: limits are too small to be refilled, holds longer than any test.

use std::ops::RangeInclusive;
use std::thread;
use std::time::Duration;

use evenkeel_router::status::table;
use serde_json::Value;

use crate::raw::{self, Injector, Sniffer};
use crate::support::{Host, Lab, Router, Versions, link, number};

/// A router whose link has these values, and a way to send packets over it.
struct Bench {
    router: Router,
    injector: Injector,
    sniffer: Sniffer,
    _lab: Lab,
}

impl Bench {
    /// `None` where there can be none.
    fn new(values: &str) -> Option<Self> {
        let lab = Lab::new(Versions::Both)?;
        Some(Self {
            router: lab.start(&link(values)),
            injector: Injector::new(&lab, Host::A),
            sniffer: Sniffer::new(&lab, Host::B),
            _lab: lab,
        })
    }

    /// Sends packets of 1000 bytes with these numbers. (The kernel would replace 0.)
    fn send(&self, numbers: RangeInclusive<u16>) {
        for number in numbers {
            let packet = raw::v4(64, 253, number, &[], &[0; 980]);
            self.injector.send(&packet).unwrap();
        }
    }

    /// The link's figures once `arrived` packets have come and `left` have gone.
    fn figures(&self, arrived: u16, left: u16) -> Value {
        let figures = (0..300).find_map(|_| {
            thread::park_timeout(Duration::from_millis(10));
            let link = self.router.link();
            let gone = ["dropped", "lost", "delivered"].map(|name| packets(&link, name));
            let gone: f64 = gone.iter().sum();
            let is_done =
                gone >= f64::from(left) && packets(&link, "arrived") >= f64::from(arrived);
            is_done.then_some(link)
        });
        let link = figures.unwrap_or_else(|| panic!("not yet: {:#}", self.router.link()));
        let ends = ["dropped", "lost", "delivered"].map(|name| packets(&link, name));
        let ends = ends.iter().sum::<f64>() + number(&link, "inside.packets");
        assert_eq!(
            packets(&link, "arrived") + packets(&link, "duplicated"),
            ends,
            "{link:#}"
        );
        link
    }

    /// What `status` prints.
    fn table(&self) -> String {
        let status = self.router.ask(r#"{"request":"status"}"#);
        table(&serde_json::from_value(status).unwrap())
    }

    /// The numbers of the next packets that come to host B.
    fn numbers(&self, packets: usize) -> Vec<u8> {
        let next = || {
            self.sniffer
                .find(|packet| packet[0] == 0x45 && packet[9] == 253)[5]
        };
        (0..packets).map(|_| next()).collect()
    }
}

fn packets(link: &Value, counter: &str) -> f64 {
    number(link, &format!("total.{counter}.packets"))
}

#[test]
fn a_policer_lets_its_bucket_pass_and_what_it_drops_counts_as_lost() {
    // A byte in a second: nothing that a test could wait for.
    let Some(bench) = Bench::new("police_bps = 8\npolice_burst_bytes = 5000") else {
        return;
    };
    bench.send(1..=10);
    let link = bench.figures(10, 10);
    assert_eq!(
        (packets(&link, "delivered"), packets(&link, "lost")),
        (5.0, 5.0)
    );
    assert_eq!(bench.numbers(5), [1, 2, 3, 4, 5]);
}

#[test]
fn a_duplicated_packet_comes_twice_in_a_row_and_is_counted() {
    let Some(bench) = Bench::new("rate_bps = 1e6\nduplicate = 1") else {
        return;
    };
    bench.send(1..=3);
    let link = bench.figures(3, 6);
    assert_eq!(
        (packets(&link, "duplicated"), packets(&link, "delivered")),
        (3.0, 6.0)
    );
    assert_eq!(bench.numbers(6), [1, 1, 2, 2, 3, 3]);
    let table = bench.table();
    assert!(table.contains("duplicated 3 behind the queue"), "{table}");
}

#[test]
fn frames_are_held_until_their_aggregate_is_full() {
    let Some(bench) = Bench::new("aggregate_ms = 600_000\naggregate_packets = 4") else {
        return;
    };
    bench.send(1..=6);
    let link = bench.figures(6, 4);
    assert_eq!(packets(&link, "delivered"), 4.0);
    assert_eq!(number(&link, "inside.packets"), 2.0);
    bench.send(7..=8);
    let link = bench.figures(8, 8);
    assert_eq!(packets(&link, "delivered"), 8.0);
    assert_eq!(bench.numbers(8), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_suspended_link_keeps_what_its_queue_can_hold() {
    let keys = "rate_bps = 1e6\nqueue_packets = 5\nchanges = [{ at_s = 0, rate_bps = 0 }]";
    let Some(bench) = Bench::new(keys) else {
        return;
    };
    bench.send(1..=10);
    let link = bench.figures(10, 5);
    assert_eq!(number(&link, "rate_bps"), 0.0);
    assert_eq!(number(&link, "queued.packets"), 5.0);
    assert_eq!(
        (packets(&link, "dropped_full"), packets(&link, "forwarded")),
        (5.0, 0.0)
    );
}

#[test]
fn changes_take_effect_and_begin_again() {
    // At the first rate a packet would take two hours, and again in the middle of each period.
    let keys = "rate_bps = 1\nchanges_period_s = 0.2\n\
        changes = [{ at_s = 0, rate_bps = 1 }, { at_s = 0.1, rate_bps = 800_000 }]";
    let Some(bench) = Bench::new(keys) else {
        return;
    };
    // Each takes 10 ms, so all of them more than one period.
    bench.send(1..=15);
    let link = bench.figures(15, 15);
    assert_eq!(packets(&link, "delivered"), 15.0);
    assert!(number(&link, "window_s") >= 0.3, "{link:#}");
}

#[test]
fn a_change_of_the_loss_and_a_blackout_lose_packets() {
    for keys in [
        "changes = [{ at_s = 0, loss = 1 }]",
        "blackouts = [{ start_s = 0, length_s = 1000 }]",
    ] {
        let Some(bench) = Bench::new(keys) else {
            return;
        };
        bench.send(1..=3);
        let link = bench.figures(3, 3);
        assert_eq!(packets(&link, "lost"), 3.0, "{keys}");
    }
}

#[test]
fn what_delays_packets_delays_them_and_keeps_their_order() {
    for (keys, least_s) in [
        ("changes = [{ at_s = 0, delay_ms = 100 }]", 0.1),
        // With this seed the longest of the twenty draws is above that.
        ("wifi_jitter_ms = 85", 0.1),
        ("changes = [{ at_s = 0, wifi_jitter_ms = 85 }]", 0.1),
        ("jitter_ms = 100", 0.08),
        // 160,000 bits at no more than this rate.
        ("cellular = { min_bps = 5e5, max_bps = 1e6 }", 0.16),
        ("aggregate_ms = 100", 0.1),
    ] {
        let Some(bench) = Bench::new(keys) else {
            return;
        };
        bench.send(1..=20);
        let link = bench.figures(20, 20);
        assert!(number(&link, "window_s") >= least_s, "{keys}: {link:#}");
        let numbers = bench.numbers(20);
        assert!(numbers.is_sorted(), "{keys}: {numbers:?}");
        let varies = bench.table().contains("  rate       varies");
        assert_eq!(varies, keys.starts_with("cellular"), "{keys}");
    }
}
