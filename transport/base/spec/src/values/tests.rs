use super::*;

const PARAMETERS: &[SpecParameter] = &[
    SpecParameter::number("alpha", "packets", 0.5, 10.0, Some(1.0)),
    SpecParameter::number("beta", "packets", 0.0, 10.0, Some(3.0)),
    SpecParameter::count("iw", "packets", 2, 100, None),
    SpecParameter::choice("mood", "a word", &["bold", "shy"], Some("shy")),
    SpecParameter::choice("side", "a word", &["left", "right"], None),
    SpecParameter::flag("ecn", "marks", false),
];

fn parse(text: &str) -> Result<SpecValues, SpecError> {
    SpecValues::parse("vegas", PARAMETERS, Some(text))
}

#[test]
fn what_is_not_given_has_its_default() {
    let values = SpecValues::parse("vegas", PARAMETERS, None).unwrap();
    assert_eq!((values.number("alpha"), values.number("beta")), (1.0, 3.0));
    assert_eq!(values.optional_count::<u16>("iw"), None);
    assert_eq!(values.optional_choice("side", &[1, 2]), None);
    assert_eq!((values.word("mood"), values.flag("ecn")), ("shy", false));
    let values = parse("iw=4,alpha=2.5,ecn=true,mood=bold").unwrap();
    assert_eq!((values.number("alpha"), values.number("beta")), (2.5, 3.0));
    assert_eq!(values.count::<u16>("iw"), 4);
    assert_eq!((values.word("mood"), values.flag("ecn")), ("bold", true));
}

#[test]
fn a_choice_is_the_value_in_the_place_of_its_word() {
    for (text, chosen) in [("mood=bold", 'b'), ("mood=shy", 's'), ("iw=2", 's')] {
        let values = parse(text).unwrap();
        assert_eq!(values.choice("mood", &['b', 's']), chosen, "{text}");
    }
}

#[test]
fn a_count_may_be_written_as_any_whole_number() {
    for text in ["iw=50", "iw=5e1", "iw=50.0", "iw=+50"] {
        assert_eq!(parse(text).unwrap().count::<u8>("iw"), 50, "{text}");
    }
}

#[test]
fn every_mistake_gets_one_line_that_says_what_would_be_right() {
    let number = "use a number from 0.5 to 10";
    let count = "use a whole number from 2 to 100";
    let known = "use one of alpha, beta, iw, mood, side, ecn";
    let not_key_value = "is not key=value; write vegas:alpha=NUMBER,...";
    for (text, message) in [
        (
            "alpa=1",
            format!("vegas has no parameter \"alpa\": did you mean alpha? {known}"),
        ),
        ("", format!("vegas: \"\" {not_key_value}")),
        ("alpha", format!("vegas: \"alpha\" {not_key_value}")),
        ("alpha=1,", format!("vegas: \"\" {not_key_value}")),
        (
            "alpha=x",
            format!("vegas: alpha=x is not a number; {number}"),
        ),
        ("alpha=", format!("vegas: alpha= is not a number; {number}")),
        (
            "alpha=NaN",
            format!("vegas: alpha=NaN is not a number; {number}"),
        ),
        (
            "alpha=inf",
            format!("vegas: alpha=inf is not a number; {number}"),
        ),
        (
            "alpha=1=2",
            format!("vegas: alpha=1=2 is not a number; {number}"),
        ),
        (
            "alpha=1\n2",
            format!("vegas: alpha=1\\n2 is not a number; {number}"),
        ),
        (
            "alpha=0.4",
            format!("vegas: alpha=0.4 is not allowed; {number}"),
        ),
        (
            "alpha=-1",
            format!("vegas: alpha=-1 is not allowed; {number}"),
        ),
        (
            "alpha=1e9",
            format!("vegas: alpha=1e9 is not allowed; {number}"),
        ),
        ("iw=2.5", format!("vegas: iw=2.5 is not allowed; {count}")),
        ("iw=1", format!("vegas: iw=1 is not allowed; {count}")),
        ("iw=-2", format!("vegas: iw=-2 is not allowed; {count}")),
        ("iw=two", format!("vegas: iw=two is not a number; {count}")),
        (
            "mood=1",
            "vegas: mood=1 is not allowed; use one of bold, shy".to_owned(),
        ),
        (
            "ecn=1",
            "vegas: ecn=1 is not allowed; use true or false".to_owned(),
        ),
        (
            "alpha=1,alpha=1",
            "vegas: alpha is given twice; give it once".to_owned(),
        ),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.to_string(), message, "for {text:?}");
    }
}

#[test]
fn a_long_word_is_repeated_in_part() {
    let error = parse(&format!("{}=1", "x".repeat(1000))).unwrap_err();
    assert!(error.to_string().len() < 130, "{error}");
}

#[test]
fn values_that_contradict_each_other_are_named() {
    let values = parse("alpha=5").unwrap();
    let error = values.in_order("alpha", "beta").expect_err("5 > 3");
    assert_eq!(
        error.to_string(),
        "vegas: alpha=5 is above beta=3; make alpha the smaller"
    );
    let equal = parse("alpha=3").unwrap();
    assert_eq!(equal.in_order("alpha", "beta"), Ok(()));
    let error = equal.below(("alpha", 3.0), ("beta", 3.0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "vegas: alpha=3 is not below beta=3; make alpha the smaller"
    );
    assert_eq!(equal.below(("alpha", 3.0), ("beta", 3.5)), Ok(()));
}

#[test]
fn parameters_that_do_not_go_together_are_named() {
    let values = parse("alpha=1,mood=shy").unwrap();
    assert!(values.is_given("alpha") && !values.is_given("beta"));
    assert!(!values.is_given("no such parameter"));
    assert_eq!(values.exclude("alpha", "beta"), Ok(()));
    assert_eq!(values.require("alpha", "mood"), Ok(()));
    assert_eq!(values.require("iw", "beta"), Ok(()));
    let both = values.exclude("alpha", "mood").unwrap_err();
    assert_eq!(
        both.to_string(),
        "vegas: alpha means nothing with mood; give one of them"
    );
    let alone = values.require("alpha", "iw").unwrap_err();
    assert_eq!(
        alone.to_string(),
        "vegas: alpha means nothing without iw; give both"
    );
}

#[test]
fn a_check_of_the_rows_own_begins_with_its_name() {
    let refusal = parse("alpha=1").unwrap().refusal("no; do otherwise");
    assert_eq!(refusal.to_string(), "vegas: no; do otherwise");
}
