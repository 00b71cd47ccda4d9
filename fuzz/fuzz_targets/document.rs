//! A TOML document and overrides of it: any text becomes a tree or a fault at one of its lines, and
//! any tree a link or a fault.
#![no_main]

use evenkeel_queue::description::{LinkDescription, LinkKeys};
use evenkeel_spec::document::{Fault, Origin, parse, read, set};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str)| {
    let (text, overrides) = input;
    let check = |fault: Fault| {
        assert!(!fault.message.is_empty());
        if let Origin::Line(line) = fault.origin {
            assert!((1..=text.matches('\n').count() + 1).contains(&line));
        }
    };
    let mut root = match parse(text) {
        Ok(root) => root,
        Err(fault) => return check(fault),
    };
    for line in overrides.lines() {
        if let Err(fault) = set(&mut root, line) {
            check(fault);
        }
    }
    let keys = read::<LinkKeys>(&root);
    if let Err(fault) = keys.and_then(|keys| keys.over(&LinkDescription::default())) {
        check(fault);
    }
});
