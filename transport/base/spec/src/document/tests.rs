//! Tests of reading documents as a whole: every mistake gets a message at its line.

use proptest::collection::vec;
use proptest::prelude::*;
use serde::Deserialize;

use super::tree::{Value, parse_value};
use super::*;
use crate::keys;
use crate::quantity::Unit;

#[derive(Debug, PartialEq, Deserialize)]
struct Flow {
    controller: Located<String>,
    #[serde(default)]
    count: u8,
    #[serde(default, deserialize_with = "rate")]
    rate: Option<u64>,
    #[serde(default)]
    stops: Option<Vec<f64>>,
    #[serde(default)]
    mood: Mood,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mood {
    #[default]
    Bold,
    Shy,
}

#[derive(Debug, Deserialize)]
struct Scenario {
    flows: Vec<Flow>,
}

keys! {
    rate: u64 = whole(Unit::BitsPerSecond, 1..=1_000_000_000);
    label: String = name(NAME_LENGTH);
}

fn scenario(text: &str, overrides: &[&str]) -> Result<Vec<Flow>, String> {
    let read = || {
        let mut root = parse(text)?;
        for text in overrides {
            set(&mut root, text)?;
        }
        read::<Scenario>(&root)
    };
    let refused = |fault: Fault| format!("{}: {}", fault.place("f"), fault.message);
    read().map(|scenario| scenario.flows).map_err(refused)
}

#[test]
fn a_table_becomes_a_type_and_its_strings_know_their_lines() {
    let text = "[[flows]]\ncontroller = \"reno\"\nrate = \"5 Mb/s\"\nmood = \"shy\"\n";
    let flows = scenario(text, &["flows.0.count=3"]).unwrap();
    assert_eq!(flows[0].controller.origin, Origin::Line(2));
    assert_eq!((flows[0].rate, flows[0].count), (Some(5_000_000), 3));
    assert_eq!((&flows[0].stops, &flows[0].mood), (&None, &Mood::Shy));
    let flows = scenario(text, &["flows.0.controller=cubic"]).unwrap();
    let origin = Origin::Override("flows.0.controller=cubic".into());
    assert_eq!(flows[0].controller.origin, origin);
}

#[test]
fn every_mistake_is_told_with_its_line_and_what_would_be_right() {
    let with = |line: &str| format!("[[flows]]\ncontroller = \"reno\"\n{line}\n");
    for (line, message) in [
        (
            "colour = 1",
            "f:3: unknown key \"colour\" in flows; use one of controller, count, rate, stops, mood",
        ),
        (
            "count = 1.5",
            "f:3: count is a number with a fraction; it must be u8",
        ),
        (
            "count = nan",
            "f:3: count is no finite number; it must be u8",
        ),
        (
            "rate = inf",
            "f:3: rate is no finite number; it must be a whole number",
        ),
        ("count = true", "f:3: count is true or false; it must be u8"),
        (
            "rate = 0",
            "f:3: rate = 0 is out of range; use 1 to 1000000000",
        ),
        (
            "rate = 1.5",
            "f:3: rate is a number with a fraction; it must be a whole number",
        ),
        (
            "rate = \"x\"",
            "f:3: rate: 'x' is no bitrate; write for example 3M or 500k",
        ),
        ("stops = 1", "f:3: stops is an integer; it must be an array"),
        (
            "stops = [1.0,\n \"x\"]",
            "f:4: stops is a string; it must be f64",
        ),
        (
            "mood = \"sad\"",
            "f:3: mood = \"sad\" is unknown; use one of \"bold\", \"shy\"",
        ),
        (
            "mood = 1",
            "f:3: mood is an integer; it must be a string in quotes",
        ),
    ] {
        assert_eq!(scenario(&with(line), &[]).unwrap_err(), message);
    }
    let missing = scenario("\n[[flows]]\n", &[]).unwrap_err();
    assert_eq!(missing, "f:2: flows has no controller; add one");
    let wrong = scenario(&with(""), &["flows.0.count=many"]).unwrap_err();
    let message = "--set flows.0.count=many: count is a string; it must be u8";
    assert_eq!(wrong, message);
}

#[test]
fn an_array_has_a_bound() {
    let text = "[[flows]]\ncontroller = \"reno\"\n".repeat(1001);
    let message = scenario(&text, &[]).unwrap_err();
    assert!(
        message.contains("1001 elements, which are too many"),
        "{message}"
    );
}

#[test]
fn two_types_share_a_table_and_refuse_what_neither_knows() {
    #[derive(Debug, Deserialize)]
    #[serde(rename = "[[files]]")]
    struct File {
        path: Located<String>,
    }
    #[derive(Debug, Deserialize)]
    struct Count {
        count: u8,
    }
    #[derive(Debug, Deserialize)]
    struct Source {
        files: Vec<Located<Joined<File, Count>>>,
    }
    let source = |text: &str| {
        let root = parse(&format!("\n[[files]]\n{text}")).unwrap();
        read::<Source>(&root).map_err(|fault| format!("{}: {}", fault.origin.line(), fault.message))
    };
    let files = source("count = 2\npath = \"x\"").unwrap().files;
    let Joined(file, Count { count }) = &files[0].value;
    assert_eq!(files[0].origin, Origin::Line(2));
    assert_eq!((file.path.origin.line(), *count), (4, 2));
    for (text, message) in [
        (
            "count = 2\npath = \"x\"\nsize = 1",
            "5: unknown key \"size\" in [[files]]; use one of path, count",
        ),
        ("count = 2", "2: [[files]] has no path; add one"),
        (
            "count = []\npath = \"x\"",
            "3: count is an array; it must be u8",
        ),
    ] {
        assert_eq!(source(text).unwrap_err(), message);
    }
    let root = parse("files = [3]").unwrap();
    let fault = read::<Source>(&root).unwrap_err();
    assert_eq!(fault.message, "[[files]] is an integer; it must be a table");
}

#[test]
fn a_name_is_good_in_file_names_too() {
    #[derive(Debug, Deserialize)]
    struct Router {
        #[serde(deserialize_with = "label")]
        name: String,
    }
    for (name, good) in [
        ("r1", true),
        ("a.b-c_d", true),
        ("-a", false),
        ("a/b", false),
        ("", false),
    ] {
        let root = parse(&format!("name = {name:?}")).unwrap();
        let router = read::<Router>(&root).map(|router| router.name);
        assert_eq!(router.ok().as_deref(), good.then_some(name));
    }
}

#[test]
fn every_value_knows_its_line() {
    #[derive(Deserialize)]
    struct Root {
        a: Located<u8>,
        b: Located<B>,
        d: Vec<Located<D>>,
    }
    #[derive(Deserialize)]
    struct B {
        c: Located<String>,
    }
    #[derive(Deserialize)]
    struct D {
        #[serde(default)]
        e: Vec<Located<u8>>,
    }
    let text = "a = 1\n\n[b]\nc = \"x\"\n[[d]]\n[[d]]\ne = [\n 1,\n 2]\n";
    let root: Root = read(&parse(text).unwrap()).unwrap();
    assert_eq!(
        (root.a.origin, root.b.origin),
        (Origin::Line(1), Origin::Line(3))
    );
    assert_eq!(root.b.value.c.origin, Origin::Line(4));
    assert_eq!(root.d[1].origin, Origin::Line(6));
    assert_eq!(root.d[1].value.e[1].origin, Origin::Line(9));
}

#[test]
fn a_syntax_error_names_its_line() {
    let fault = parse("a = 1\nb = = 2\n").unwrap_err();
    assert_eq!(fault.origin, Origin::Line(2));
    assert!(fault.message.starts_with("not TOML: "), "{}", fault.message);
}

#[test]
fn an_override_that_is_not_toml_is_a_string() {
    let origin = Origin::Override("x".into());
    let value = |text| parse_value(text, &origin).unwrap().value;
    assert_eq!(value("3"), Value::Integer(3));
    assert_eq!(value("2.5"), Value::Float(2.5));
    assert_eq!(value("true"), Value::Boolean(true));
    assert_eq!(value("reno"), Value::String("reno".into()));
    assert_eq!(
        value("vegas:alpha=2"),
        Value::String("vegas:alpha=2".into())
    );
    assert_eq!(value("\"reno\""), Value::String("reno".into()));
    assert_eq!(value(""), Value::String(String::new()));
}

/// Lines that are TOML more often than arbitrary text.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("[[flows]]".to_owned()),
        "(controller|count|rate|stops|mood|x) = (-?[0-9]{1,25}(\\.5)?|\"[a-z0-9 ]{0,9}\"|true|nan|\\[1, \\{\\}\\]|1979-05-27)",
        "\\PC{0,20}",
    ];
    vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_at_one_of_its_lines(
        text in prop_oneof![lines(), any::<String>()], change in ".*",
    ) {
        let root = parse(&text).and_then(|mut root| {
            let _ = set(&mut root, &change);
            set(&mut root, "flows.0.count=2")?;
            Ok(root)
        });
        let result = root.and_then(|root| read::<Scenario>(&root));
        if let Err(Fault { origin, message }) = result {
            prop_assert!(!message.is_empty());
            if let Origin::Line(line) = origin {
                prop_assert!((1..=text.matches('\n').count() + 1).contains(&line));
            }
        }
    }

    #[test]
    fn all_mistakes_are_the_first_one_and_what_is_wrong_without_it(text in lines()) {
        if let Ok(root) = parse(&text) {
            let (_, faults) = read_all::<Scenario>(&root);
            let faults = faults.in_order();
            match read::<Scenario>(&root) {
                Ok(_) => prop_assert_eq!(faults, []),
                Err(first) => prop_assert!(faults.contains(&first), "{:?}", faults),
            }
        }
    }
}

#[test]
fn reading_goes_on_behind_each_mistake_and_tells_no_consequence_of_one() {
    let text = "[[flows]]\ncontroller = 1\ncount = -1\ncolour = 1\nstops = [1, \"x\", 2, \"y\"]\n\
                [[flows]]\ncount = 3\n[[flows]]\ncontroller = \"reno\"\nmood = \"sad\"\n";
    let root = parse(text).unwrap();
    let (scenario, faults) = read_all::<Scenario>(&root);
    let [flow] = &scenario.unwrap().flows[..] else {
        panic!("a flow whose mood may be left out is left");
    };
    assert_eq!(
        (&flow.controller.value[..], &flow.mood),
        ("reno", &Mood::Bold)
    );
    let whole = [1, 6, 8].map(|line| faults.is_whole(&Origin::Line(line)));
    assert_eq!(whole, [false, true, false]);
    assert!(faults.is_wrong(&Origin::Line(1), "stops"));
    let faults = faults.in_order();
    let told: Vec<_> = faults
        .iter()
        .map(|fault| root.path(&fault.origin))
        .collect();
    let paths = [
        "flows.0.controller",
        "flows.0.count",
        "flows.0.colour",
        "flows.0.stops",
        "flows.0.stops",
        "flows.1",
        "flows.2.mood",
    ];
    assert_eq!(told, paths, "{faults:?}");
}

#[test]
fn a_line_has_the_path_to_its_value() {
    let text = "a = 1\n[b.c]\nd = [\n1,\n2]\n[[e]]\n[[e]]\nf = [[1], [2]]\n\
                g = [{ h = 1 }]\n[e.i]\n\"j.k\" = 1\n\n";
    let root = parse(text).unwrap();
    let path = |line: usize| root.path(&Origin::Line(line));
    let paths: Vec<_> = (1..=12).map(path).collect();
    let expected = [
        "a",
        "b",
        "b.c.d",
        "b.c.d.0",
        "b.c.d.1",
        "e.0",
        "e.1",
        "e.1.f",
        "e.1.g.0",
        "e.1.i",
        "e.1.i.j.k",
        "",
    ];
    assert_eq!(paths, expected);
}
