use super::*;

static ROWS: [Row<u8>; 2] = [
    Row {
        name: "vegas",
        summary: "",
        parameters: &[SpecParameter::number("alpha", "packets", 0.5, 10.0, None)],
        build: 1,
    },
    Row {
        name: "cubic",
        summary: "",
        parameters: &[],
        build: 2,
    },
];

#[test]
fn a_spec_finds_its_row_and_sets_its_values() {
    let (row, values) = find("controller", &ROWS, "vegas:alpha=2").unwrap();
    assert_eq!((row.build, values.number("alpha")), (1, 2.0));
    assert_eq!(find("controller", &ROWS, "cubic").unwrap().0.build, 2);
}

#[test]
fn an_application_can_extend_a_table() {
    let own = [Row {
        name: "mine",
        summary: "",
        parameters: &[],
        build: 3,
    }];
    let (row, _) = find("controller", ROWS.iter().chain(&own), "mine").unwrap();
    assert_eq!(row.build, 3);
}

#[test]
fn a_wrong_spec_gets_one_line_that_says_what_would_be_right() {
    for (spec, message) in [
        (
            "vega",
            "unknown controller \"vega\": did you mean vegas? use one of vegas, cubic",
        ),
        ("", "unknown controller \"\": use one of vegas, cubic"),
        (
            "Vegas\n",
            "unknown controller \"Vegas\\n\": did you mean vegas? use one of vegas, cubic",
        ),
        ("cubic:", "cubic takes no parameters: write \"cubic\" alone"),
        (
            "vegas:alpha=2;beta=4",
            "\"vegas:alpha=2;beta=4\" has a semicolon; separate with commas: vegas:alpha=2,beta=4",
        ),
        (
            "vegas,alpha=2",
            "\"vegas,alpha=2\" has a comma where one controller belongs; write NAME or NAME:KEY=VALUE,...",
        ),
        (
            "vegas:alpha=2,cubic",
            "vegas: \"cubic\" is not key=value; write vegas:alpha=NUMBER,...",
        ),
    ] {
        let error = find("controller", &ROWS, spec).expect_err(spec);
        assert_eq!(error.to_string(), message, "for {spec:?}");
    }
}
