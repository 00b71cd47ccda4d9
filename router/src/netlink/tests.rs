use proptest::prelude::*;

use super::*;
use crate::config::{Mark, Selector};

#[test]
fn a_route_reads_back_from_its_message() {
    let entry = RouteEntry {
        metric: 7,
        source: Some("10.0.9.1".parse().unwrap()),
        ..RouteEntry::ours(
            1001,
            "10.0.2.0/24".parse().unwrap(),
            Way::Out {
                device: 3,
                via: Some("10.0.9.2".parse().unwrap()),
            },
        )
    };
    assert_eq!(RouteEntry::read(Family::V4, &entry.message()), Some(entry));
    let nowhere = RouteEntry::ours(70_000, "::/0".parse().unwrap(), Way::Unreachable);
    assert_eq!(
        RouteEntry::read(Family::V6, &nowhere.message()),
        Some(nowhere)
    );
}

#[test]
fn a_rule_reads_back_from_its_message() {
    let selector = Selector {
        mark: "0x10/0xf0".parse().ok(),
        from: "fd00:1::/64".parse().ok(),
        iif: Some("eth1".to_owned()),
    };
    let rule = RuleEntry {
        to: "fd00:2::/64".parse().ok(),
        suppressed: Some(0),
        ..RuleEntry::ours(Family::V6, selector, 70_000, 1002)
    };
    assert_eq!(RuleEntry::read(Family::V6, &rule.message()), rule);
}

#[test]
fn rules_of_other_marks_sources_or_devices_are_in_nobodys_way() {
    let selector = |mark: &str, from: &str, iif: &str| Selector {
        mark: mark.parse().ok(),
        from: from.parse().ok(),
        iif: (!iif.is_empty()).then(|| iif.to_owned()),
    };
    let of = |selector| RuleEntry::ours(Family::V4, selector, 100, 500);
    let rule = of(selector("0x1/0xf", "10.1.0.0/16", "va"));
    let to: Prefix = "10.0.2.0/24".parse().unwrap();
    assert!(rule.may_meet(to, &Selector::default()));
    assert!(rule.may_meet(to, &selector("0x11", "10.1.2.0/24", "va")));
    for other in [("2", "", ""), ("", "10.2.0.0/16", ""), ("", "", "vb")] {
        assert!(
            !rule.may_meet(to, &selector(other.0, other.1, other.2)),
            "{other:?}"
        );
    }
    let elsewhere = RuleEntry {
        to: "10.0.3.0/24".parse().ok(),
        ..rule.clone()
    };
    assert!(!elsewhere.may_meet(to, &Selector::default()));
    let of_the_hosts_own = RuleEntry {
        is_for_own: true,
        ..rule
    };
    assert!(of_the_hosts_own.may_meet(to, &Selector::default()));
    assert!(!of_the_hosts_own.may_meet(to, &selector("", "", "va")));
}

#[test]
fn an_inverted_rule_is_for_the_packets_that_it_does_not_describe() {
    let of = |rule: &str, mark: &str| RuleEntry {
        is_inverted: true,
        to: rule.parse().ok(),
        ..RuleEntry::ours(
            Family::V4,
            Selector {
                mark: mark.parse().ok(),
                ..Selector::default()
            },
            100,
            500,
        )
    };
    let to: Prefix = "10.0.2.0/24".parse().unwrap();
    let unmarked = Selector {
        mark: Mark::new(0, u32::MAX),
        ..Selector::default()
    };
    assert!(of("", "51820").may_meet(to, &unmarked));
    assert!(of("", "51820").may_meet(to, &Selector::default()));
    assert!(!of("", "0/1").may_meet(to, &unmarked));
    assert!(of("10.0.2.1", "").may_meet(to, &unmarked));
    assert!(!of("10.0.0.0/16", "").may_meet(to, &unmarked));
    assert!(!of("", "").may_meet(to, &unmarked));
}

#[test]
fn the_loopback_interface_is_found_and_a_missing_one_is_none() {
    let mut netlink = Netlink::open().unwrap();
    assert!(netlink.interface("lo").unwrap().unwrap().index > 0);
    assert_eq!(netlink.interface("ek-none").unwrap(), None);
    assert!(!netlink.rules(Family::V4).unwrap().is_empty());
}

proptest! {
    #[test]
    fn no_datagram_makes_the_splitter_panic_or_hang(bytes: Vec<u8>) {
        let mut rest = &bytes[..];
        while let Some((_, following)) = split_message(rest) {
            prop_assert!(following.len() < rest.len());
            rest = following;
        }
    }
}
