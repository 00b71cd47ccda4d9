use proptest::prelude::*;

use super::*;

#[test]
fn a_prefix_without_a_length_is_one_address() {
    assert_eq!(
        "10.0.0.1".parse::<Prefix>().unwrap().to_string(),
        "10.0.0.1/32"
    );
    assert_eq!(
        "fd00::1".parse::<Prefix>().unwrap().to_string(),
        "fd00::1/128"
    );
}

#[test]
fn a_prefix_contains_the_addresses_that_begin_with_its_bits() {
    let prefix: Prefix = "10.0.2.0/23".parse().unwrap();
    for (address, inside) in [("10.0.3.255", true), ("10.0.4.0", false), ("::", false)] {
        assert_eq!(
            prefix.contains(address.parse().unwrap()),
            inside,
            "{address}"
        );
    }
    let all: Prefix = "::/0".parse().unwrap();
    assert!(all.contains("ffff::1".parse().unwrap()));
    assert!(!all.contains("1.2.3.4".parse().unwrap()));
}

#[test]
fn what_is_no_prefix_is_refused_with_the_remedy() {
    let error = |text: &str| text.parse::<Prefix>().unwrap_err().to_string();
    assert!(error("10.0.2/24").contains("write ADDRESS/LENGTH"));
    assert!(error("10.0.2.0/x").contains("write ADDRESS/LENGTH"));
    assert_eq!(
        error("10.0.0.0/33"),
        "/33 is longer than an address of IPv4, which has 32 bits"
    );
    assert_eq!(
        error("10.0.2.1/24"),
        "10.0.2.1/24 has bits behind its length; did you mean 10.0.2.0/24?"
    );
    assert!(error(&"x".repeat(10_000)).len() < 200);
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in "\\PC{0,60}|[0-9a-f:./]{0,40}") {
        let _ = text.parse::<Prefix>();
    }

    #[test]
    fn a_prefix_is_parsed_back_from_its_text(address: u128, length in 0u8..=128) {
        let prefix = Prefix::of(Ipv6Addr::from_bits(address).into(), length);
        prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
        let prefix = Prefix::of(Ipv4Addr::from_bits(address as u32).into(), length % 33);
        prop_assert_eq!(prefix.to_string().parse(), Ok(prefix));
        prop_assert!(prefix.contains(prefix.address()));
    }
}
