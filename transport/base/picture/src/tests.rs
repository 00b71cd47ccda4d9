use super::*;

fn line(style: Style, values: &[Option<f64>]) -> Line {
    let points = values.iter().enumerate();
    Line {
        name: "reno & more".into(),
        colour: 0,
        style,
        points: points.map(|(x, y)| Point::new(x as f64, *y)).collect(),
    }
}

fn picture(x: Axis, lines: Vec<Line>) -> Picture {
    Picture {
        title: String::new(),
        x,
        y_label: "a < b".into(),
        y_from: None,
        warmup_s: 0.0,
        panels: vec![lines],
    }
}

#[test]
fn pictures_are_well_formed_whatever_is_missing() {
    let words = || {
        Axis::Words(
            "flows".into(),
            vec!["10".into(), "20".into(), "<30>".into()],
        )
    };
    let numbers = || Axis::Numbers("flows".into(), vec![0.0, 1.0, 2.0], false);
    let values = [Some(0.2), None, Some(0.4)];
    for (axis, style) in [
        (words(), Style::Bars),
        (numbers(), Style::Marked),
        (words(), Style::Marked),
    ] {
        let lines = vec![
            line(style, &values),
            line(Style::Dotted, &[Some(0.3), None, None]),
        ];
        let svg = picture(axis, lines).file();
        roxmltree::Document::parse(&svg).expect("well-formed");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
    let gap = picture(
        Axis::Time(0.0, 3.0),
        vec![line(Style::Plain, &[Some(1.0), None, Some(1.0)])],
    );
    let svg = gap.inline();
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let drawn = document
        .descendants()
        .find(|node| node.attribute("class") == Some("line c0"));
    let path = drawn.and_then(|node| node.attribute("d")).expect("a line");
    assert_eq!(path.matches('M').count(), 2, "a gap parts a line: {svg}");
}

#[test]
fn an_area_goes_down_to_the_axis() {
    let lines = vec![line(Style::Area, &[Some(1.0), Some(3.0), None, Some(2.0)])];
    let svg = picture(Axis::Time(0.0, 3.0), lines).inline();
    let document = roxmltree::Document::parse(&svg).expect("well-formed");
    let drawn = document
        .descendants()
        .find(|node| node.attribute("class") == Some("bar c0"));
    let path = drawn.and_then(|node| node.attribute("d")).expect("an area");
    // The axis is 280 half pixels down.
    assert!(
        path.starts_with("M124 560l0-") && path.matches(" 560").count() == 2,
        "{path}"
    );
}

#[test]
fn words_below_an_axis_are_parted_in_the_middle_if_they_are_long() {
    assert_eq!(parted("Reno", 15), ["Reno"]);
    assert_eq!(
        parted("Reno + gamma + delta", 15),
        ["Reno + gamma", "+ delta"]
    );
    assert_eq!(parted("unparted", 3), ["unparted"]);
}

#[test]
fn ticks_are_round_numbers_within_the_range() {
    let scale = Axis::Time(0.0, 97.0).scale(false);
    assert_eq!(scale.ticks(5.0), [0.0, 20.0, 40.0, 60.0, 80.0]);
    let log = Axis::Numbers(String::new(), vec![10.0, 2000.0], true).scale(false);
    assert_eq!(log.ticks(5.0), [10.0, 100.0, 1000.0]);
    assert_eq!(log.at(10.0), LEFT);
}

#[test]
fn points_that_do_not_show_are_left_out_of_a_path() {
    let straight: Vec<_> = (0..100).map(|at| (at, 2 * at)).collect();
    assert_eq!(path_of(&straight), "M0 0l99 198");
    assert_eq!(path_of(&[(0, 0), (5, 9), (10, 0)]), "M0 0l5 9 5-9");
    assert_eq!(path_of(&[]), "");
}

#[test]
fn numbers_show_four_digits() {
    assert_eq!(digits(0.123_456), "0.1235");
    assert_eq!(digits(19.0), "19");
    assert_eq!(digits(-5_234.9), "-5235");
    assert_eq!(digits(0.000_012), "0.000012");
    assert_eq!(digits(1e-9), "1.000e-9");
    assert_eq!(digits(0.0), "0");
}
