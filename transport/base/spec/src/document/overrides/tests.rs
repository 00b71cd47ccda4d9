use super::super::tree::parse;
use super::*;

fn after(document: &str, text: &str) -> Result<Node, String> {
    let mut root = parse(document).unwrap();
    set(&mut root, text).map_err(|fault| fault.message)?;
    Ok(root)
}

fn value(node: &Node, path: &[&str]) -> Value {
    let path: Vec<String> = path.iter().map(ToString::to_string).collect();
    let found = node.at(&path).expect("something is there");
    found.value.clone()
}

#[test]
fn an_override_replaces_a_value_in_an_array_of_tables() {
    let root = after("[[a]]\nx = 1\n[[a]]\nx = 2\n", "a.1.x=5").unwrap();
    assert_eq!(value(&root, &["a", "0", "x"]), Value::Integer(1));
    assert_eq!(value(&root, &["a", "1", "x"]), Value::Integer(5));
}

#[test]
fn an_override_adds_a_key_and_the_tables_on_its_way() {
    let root = after("[[a]]\n", "a.0.reverse.rate = 7").unwrap();
    assert_eq!(
        value(&root, &["a", "0", "reverse", "rate"]),
        Value::Integer(7)
    );
}

#[test]
fn a_value_may_hold_equal_signs() {
    let root = after("", "c=gaimd:alpha=1,beta=0.5").unwrap();
    assert_eq!(
        value(&root, &["c"]),
        Value::String("gaimd:alpha=1,beta=0.5".into())
    );
}

#[test]
fn an_index_out_of_range_is_refused_with_the_elements_there_are() {
    let text = "[[a]]\n[[a]]\n";
    assert_eq!(
        after(text, "a.2.x=1").unwrap_err(),
        "there is no a.2: a has the elements a.0 to a.1"
    );
    assert_eq!(
        after(text, "a.x=1").unwrap_err(),
        "there is no a.x: a has the elements a.0 to a.1"
    );
    assert_eq!(
        after("a = []", "a.0=1").unwrap_err(),
        "there is no a.0: a is empty"
    );
}

#[test]
fn nothing_is_set_below_a_plain_value() {
    let message = after("a = 1", "a.b=1").unwrap_err();
    assert_eq!(
        message,
        "a is an integer, there is nothing below it; set a itself"
    );
}

#[test]
fn an_override_without_a_value_is_refused() {
    assert!(after("", "seed").unwrap_err().contains("there is no value"));
}
