use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;

use crate::raw::{self, Injector};
use crate::support::{Host, Lab, Versions, link, number};

/// Packets that look like nothing in particular.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let payload = || proptest::collection::vec(any::<u8>(), 0..1400);
    let v4 = (any::<(u8, u8, u16, [u8; 2])>(), 0..10usize, payload()).prop_map(
        |((ttl, protocol, id, fragment), words, payload)| {
            let options = vec![1; words * 4];
            let mut packet = raw::v4(ttl, protocol, id, &options, &payload);
            // Any fragment offset and flags; they may go beyond the largest packet.
            packet[6..8].copy_from_slice(&fragment);
            raw::fix_checksum(&mut packet);
            packet
        },
    );
    let v6 = (any::<(u8, u8)>(), 0..1u32 << 20, payload())
        .prop_map(|((hops, next), label, payload)| raw::v6(hops, next, label, &payload));
    prop_oneof![v4, v6]
}

#[test]
fn of_a_flood_of_junk_every_packet_is_accounted_for() {
    let Some(lab) = Lab::new(Versions::Both) else {
        return;
    };
    let router = lab.start(&link(
        "rate_bps = 100e6\nqueue_packets = 20\nloss = 0.1\ndelay_ms = 3\njitter_ms = 1",
    ));
    let injector = Injector::new(&lab, Host::A);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let packets = any_packet();
    for _ in 0..200 {
        let burst: Vec<_> = (0..100)
            .map(|_| packets.new_tree(&mut runner).unwrap().current())
            .collect();
        for packet in burst {
            // Some are refused by the sender's own kernel.
            let _ = injector.send(&packet);
        }
    }
    let drained = (0..300).find_map(|_| {
        thread::park_timeout(Duration::from_millis(10));
        Some(router.link()).filter(|link| number(link, "inside.packets") == 0.0)
    });
    let link = drained.expect("the link runs empty");
    for unit in ["packets", "bytes"] {
        let count = |name: &str| number(&link, &format!("total.{name}.{unit}"));
        assert_eq!(
            count("arrived"),
            count("dropped") + count("lost") + count("delivered"),
            "{link}"
        );
        assert_eq!(
            count("forwarded"),
            count("lost") + count("delivered"),
            "{link}"
        );
    }
    let count = |name: &str| number(&link, &format!("total.{name}.packets"));
    assert!(
        count("arrived") > 5000.0 && count("dropped_full") > 0.0 && count("lost") > 0.0,
        "{link}"
    );
    // The kernel's own counters of the device say the same.
    let statistics: Value =
        serde_json::from_str(&lab.ip(Host::R, "-j -s link show ek-bn")).unwrap();
    let kernel = |name: &str| number(&statistics, &format!("0.stats64.{name}"));
    assert_eq!(
        kernel("tx.packets"),
        count("arrived") + count("link_scope") + count("not_ip")
    );
    assert_eq!(kernel("tx.dropped"), number(&link, "total.ring_dropped"));
    assert_eq!(kernel("rx.packets"), count("delivered") - count("refused"));
}
