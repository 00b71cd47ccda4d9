use proptest::prelude::*;

use super::*;

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
    let rule = RuleEntry {
        family: Family::V6,
        to: None,
        selects: true,
        from: Some("ek-bn".to_owned()),
        table: 1001,
        priority: 1000,
        is_ours: true,
    };
    assert_eq!(RuleEntry::read(Family::V6, &rule.message()), rule);
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
