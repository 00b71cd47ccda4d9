//! Figures and series as CSV (RFC 4180), for spreadsheets and notebooks.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;

use super::series::Series;

/// A row for each object, with a column for each path to a value in any of them, such as
/// `rtt_ms.p50`: those of `first`, then the others in alphabetical order. What is null or missing is
/// an empty cell.
///
/// # Panics
/// If an object has keys that are no strings.
pub(super) fn of_objects(objects: &[impl Serialize], first: &[&str]) -> String {
    let cells = |object| {
        let object = serde_json::to_value(object).expect("documents have string keys only");
        let mut cells = BTreeMap::new();
        flatten("", &object, &mut cells);
        cells
    };
    let rows: Vec<BTreeMap<String, String>> = objects.iter().map(cells).collect();
    let paths: BTreeSet<&String> = rows.iter().flat_map(BTreeMap::keys).collect();
    // What is null in one row may be an object in another.
    let leaf = |path: &&&String| {
        let below = format!("{path}.");
        !paths.iter().any(|other| other.starts_with(&below))
    };
    let others = paths.iter().filter(leaf).map(|path| path.as_str());
    let others = others.filter(|path| !first.contains(path));
    let columns: Vec<&str> = first.iter().copied().chain(others).collect();
    let mut text = columns.join(",") + "\r\n";
    for row in &rows {
        let cells = columns.iter().map(|column| row.get(*column));
        let cells: Vec<&str> = cells.map(|cell| cell.map_or("", String::as_str)).collect();
        text += &cells.join(",");
        text += "\r\n";
    }
    text
}

/// Writes a row for each value of each series: its interval's beginning in seconds, `flow` or `link`,
/// that one's name, the quantity as a path such as `path.grant_bps`, the value. Intervals without a
/// value have no row.
///
/// # Errors
/// If `to` cannot be written.
///
/// # Panics
/// If series have keys that are no strings.
pub(super) fn write_series(series: &Series, to: &mut impl Write) -> io::Result<()> {
    write!(to, "time_s,kind,name,quantity,value\r\n")?;
    for flow in &series.flows {
        write_one(series.interval_s, "flow", flow, to)?;
    }
    for link in &series.links {
        write_one(series.interval_s, "link", link, to)?;
    }
    Ok(())
}

fn write_one(
    interval_s: f64,
    kind: &str,
    series: &impl Serialize,
    to: &mut impl Write,
) -> io::Result<()> {
    let series = serde_json::to_value(series).expect("series have string keys only");
    let name = cell(&series["name"]);
    let mut quantities = Vec::new();
    find_series("", &series, &mut quantities);
    for (quantity, values) in quantities {
        let about = format!("{kind},{name},{quantity}");
        for (index, value) in values.iter().enumerate().filter(|(_, v)| v.is_number()) {
            // Intervals are whole milliseconds.
            let time_s = (index as f64 * interval_s * 1e3).round() / 1e3;
            write!(to, "{time_s},{about},{value}\r\n")?;
        }
    }
    Ok(())
}

/// The arrays of numbers below `value`, with their paths; lists of objects (transfers, samples) are
/// no series.
fn find_series<'v>(path: &str, value: &'v Value, found: &mut Vec<(String, &'v Vec<Value>)>) {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<_, _> = fields.iter().collect();
            for (key, value) in fields {
                find_series(&below(path, key), value, found);
            }
        }
        Value::Array(values) if !values.iter().any(Value::is_object) => {
            found.push((path.to_owned(), values));
        }
        _ => {}
    }
}

fn flatten(path: &str, value: &Value, cells: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&below(path, key), value, cells);
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                flatten(&below(path, &index.to_string()), value, cells);
            }
        }
        _ => {
            cells.insert(path.to_owned(), cell(value));
        }
    }
}

fn below(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}.{key}"),
    }
}

/// A value as a cell, in quotation marks if it needs them.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains(['"', ',', '\r', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_rows_and_paths_are_columns() {
        let objects = [
            json!({"name": "a,\"1\"", "rtt_ms": {"p50": 2.5}, "stop_s": 3, "error": null}),
            json!({"name": "b", "rtt_ms": null, "list": [1, true], "stamps": {}}),
        ];
        let expected = "name,error,list.0,list.1,rtt_ms.p50,stop_s\r\n\
                        \"a,\"\"1\"\"\",,,,2.5,3\r\n\
                        b,,1,true,,\r\n";
        assert_eq!(of_objects(&objects, &["name"]), expected);
    }
}
