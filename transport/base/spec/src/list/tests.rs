use proptest::prelude::*;

use super::*;

#[test]
fn commas_separate_parameters_and_specs() {
    for (list, specs) in [
        ("cubic", &["cubic"][..]),
        ("cubic,bbr", &["cubic", "bbr"]),
        ("vegas:alpha=2", &["vegas:alpha=2"]),
        (
            "vegas:alpha=2,beta=4,cubic",
            &["vegas:alpha=2,beta=4", "cubic"],
        ),
        (
            "cubic, vegas:alpha=2, beta=4, vegas:alpha=1",
            &["cubic", "vegas:alpha=2,beta=4", "vegas:alpha=1"],
        ),
    ] {
        assert_eq!(split_list(list).unwrap(), specs, "{list}");
    }
}

#[test]
fn a_wrong_list_gets_one_line_that_says_what_would_be_right() {
    for (list, message) in [
        (
            "vegas:alpha=2;beta=4",
            "\"vegas:alpha=2;beta=4\" has a semicolon; separate with commas: vegas:alpha=2,beta=4",
        ),
        (
            "cubic,beta=4",
            "\"beta=4\" is a parameter of no name; write cubic:beta=4",
        ),
        (
            "beta=4",
            "\"beta=4\" is a parameter of no name; write NAME:beta=4",
        ),
        (
            "cubic,,bbr",
            "\"cubic,,bbr\" has an empty element; remove a comma, or write a name",
        ),
        (
            "",
            "\"\" has an empty element; remove a comma, or write a name",
        ),
    ] {
        assert_eq!(split_list(list).unwrap_err().to_string(), message);
    }
}

proptest! {
    #[test]
    fn a_list_of_specs_is_split_as_it_was_joined(
        specs in prop::collection::vec("[a-z]{1,5}(:[a-z]=[0-9](,[a-z]=[0-9]){0,3})?", 1..5)
    ) {
        prop_assert_eq!(split_list(&specs.join(",")).unwrap(), specs);
    }

    #[test]
    fn any_text_is_a_list_or_an_error_of_one_line(text in "\\PC{0,60}|[a-z:=,; ]{0,20}") {
        if let Err(error) = split_list(&text) {
            prop_assert_eq!(error.to_string().lines().count(), 1);
        }
    }
}
