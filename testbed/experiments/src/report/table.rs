//! The claims for a terminal.

use evenkeel_testbed::report::picture::digits;
use serde_json::Value;

use super::document::Document;
use crate::evaluate::claims::Verdict;

/// The claims, one on a line under their figures, then the counts.
pub(super) fn table(document: &Document) -> String {
    let mut text = String::new();
    let mut before = "";
    for row in &document.claims {
        if row.experiment != before {
            text += &format!("{}\n", row.experiment);
            before = &row.experiment;
        }
        let mark = match row.verdict {
            Verdict::Holds => "holds         ",
            Verdict::Differs => "differs       ",
            Verdict::DoesNotHold => "does not hold ",
        };
        text += &format!("  {mark} {}: {}\n", row.figure, row.claim);
        let mut parts = Vec::new();
        for (name, value) in [
            ("paper", &row.paper_value),
            ("ns-2", &row.ns2_value),
            ("here", &row.value),
        ] {
            if !value.is_null() {
                parts.push(format!("{name} {}", plain(value)));
            }
        }
        text += &format!("                   {}\n", parts.join("; "));
    }
    let count = |verdict| {
        document
            .claims
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    };
    text + &format!(
        "{} claims: {} hold, {} differ for a reason that a run confirms, {} do not hold; {} were not run\n",
        document.claims.len(),
        count(Verdict::Holds),
        count(Verdict::Differs),
        count(Verdict::DoesNotHold),
        document.not_run.len(),
    )
}

/// A value in words: numbers with four digits, lists with commas.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(words) => words.clone(),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), digits),
        Value::Array(values) => {
            let nested = values.iter().any(Value::is_array);
            let texts: Vec<String> = values.iter().map(plain).collect();
            texts.join(if nested { "; " } else { ", " })
        }
        other => other.to_string(),
    }
}
