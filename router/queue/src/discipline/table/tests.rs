use proptest::prelude::*;

use super::*;

#[test]
fn every_row_is_found_by_its_name_and_names_are_unique() {
    for row in disciplines() {
        assert!(discipline(row.name, Limit::packets(100)).is_ok());
        let same = disciplines().iter().filter(|other| other.name == row.name);
        assert_eq!(same.count(), 1);
        for parameter in row.parameters {
            let same = row.parameters.iter();
            let same = same.filter(|other| other.name == parameter.name);
            assert_eq!(same.count(), 1, "{parameter}");
        }
    }
}

#[test]
fn a_wrong_spec_gets_one_line_that_says_what_would_be_right() {
    let refused = |spec, limit| discipline(spec, limit).unwrap_err().to_string();
    let limit = Limit::packets(60);
    assert!(
        refused("tail-drop", limit)
            .starts_with(r#"unknown discipline "tail-drop": use one of drop-tail, red"#)
    );
    assert_eq!(
        refused("drop-tail:min=5", limit),
        r#"drop-tail takes no parameters: write "drop-tail" alone"#
    );
    assert_eq!(
        refused("red:max_p=0", limit),
        "red: max_p=0 is not allowed; use a number from 0.000001 to 1"
    );
    assert_eq!(
        refused("red:min=30", limit),
        "red: min=30 is not below max=30; make min the smaller"
    );
    assert_eq!(
        refused("red", Limit::bytes(90_000)),
        "red: min is a share of the limit in packets, and this queue has none; \
             give min, or a limit of one packet or more"
    );
}

proptest! {
    #[test]
    fn any_text_names_a_discipline_or_gets_one_line(
        spec in prop_oneof![
            any::<String>(),
            "(red|drop-tail|codel|fq-codel|rde):?[a-z]{0,6}=?[-0-9.e]{0,8},?(min|max_p|ecn|target_ms|flows|quantum)=[-0-9.einfNatrue]{0,6}",
        ],
        packets in proptest::option::of(0u64..1000),
    ) {
        let limit = Limit { packets, bytes: None };
        if let Err(error) = discipline(&spec, limit) {
            let message = error.to_string();
            prop_assert!(!message.is_empty() && !message.contains(char::is_control), "{message:?}");
            prop_assert!(message.len() < 700, "{} bytes", message.len());
        }
    }
}
