use proptest::prelude::*;

use super::*;

fn value(text: &str) -> Option<f64> {
    let mut lookup = |reference: &Reference| match reference.name.as_str() {
        "n" if reference.selectors.is_empty() => Some(10.0),
        "cov" if reference.selectors == [("protocol".into(), "reno+red".into())] => Some(0.25),
        "path.rate" => Some(8.0),
        _ => None,
    };
    Expression::parse(text)
        .expect("an expression")
        .evaluate(&mut lookup)
}

#[test]
fn products_bind_tighter_than_sums_and_operators_read_from_the_left() {
    assert_eq!(value("1 + 2*3 - 4/2/2"), Some(6.0));
    assert_eq!(value("-(1+2)*-n"), Some(30.0));
    assert_eq!(value("2e-3*1.5E3"), Some(3.0));
}

#[test]
fn references_name_axes_and_their_values() {
    assert_eq!(value("100*cov[ protocol = reno+red ]"), Some(25.0));
    assert_eq!(value("path.rate/n"), Some(0.8));
    let parsed = Expression::parse("a[x=1, y=0.5]/b").unwrap();
    let names: Vec<_> = parsed.references().iter().map(|r| r.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(parsed.references()[0].selectors.len(), 2);
}

#[test]
fn what_has_no_value_leaves_the_whole_without_one() {
    assert_eq!(value("unknown + 1"), None);
    assert_eq!(value("1/(n-10)"), None);
}

#[test]
fn nonsense_is_refused_with_its_place() {
    for text in [
        "", "1 +", "(1", "a[", "a[x]", "a[=1]", "1 2", "a b", "1.2.3", "$",
    ] {
        assert!(Expression::parse(text).is_err(), "{text:?}");
    }
    assert!(Expression::parse("1 2").unwrap_err().contains("'2'"));
    assert!(Expression::parse(&"(".repeat(300)).is_err());
}

#[test]
fn numbers_print_without_what_binary_fractions_add() {
    assert_eq!(number_text(0.1 * 3.0), "0.3");
    assert_eq!(number_text(10.0), "10");
    assert_eq!(number_text(0.31), "0.31");
}

proptest! {
    #[test]
    fn any_text_is_an_expression_or_an_error_of_one_line(text in "[-a-c0-9eE+*/() .\\[\\]=,\n\u{e9}]{0,60}") {
        if let Err(message) = Expression::parse(&text) {
            prop_assert_eq!(message.lines().count(), 1);
        }
    }
}
