//! Removes values that depend on the clock or the machine from an output.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use super::commands::Kept;

/// Suffixes of JSON members with measured values.
const MEASURED: [&str; 8] = [
    "_ns",
    "_us",
    "_per_s",
    "_bytes",
    "_per_second",
    "_by_mean",
    "_by_p99",
    "_per_position",
];
/// Names of JSON members that are measured, describe the machine or the date, or occur in the
/// outputs of saved rows.
const REMOVED: [&str; 8] = [
    "us",
    "date",
    "host",
    "memory",
    "peak_known",
    "compile",
    "masks",
    "definitions",
];

/// Suffixes of members that exist only on a busy machine.
const BUSY_MACHINE_ONLY: [&str; 2] = [".doubts", ".distrust"];

/// The text without variable values.
pub(super) fn steady(text: &str, kept: Kept) -> String {
    match (kept, json_values(text)) {
        (Kept::Whole, _) => text.to_owned(),
        (Kept::Keys, Some(values)) => {
            let mut paths = BTreeSet::new();
            values
                .iter()
                .for_each(|value| add_paths(value, "", &mut paths));
            paths.into_iter().map(|path| path + "\n").collect()
        }
        (Kept::Keys, None) => "(depends on the clock)\n".to_owned(),
        (Kept::Outcomes, Some(mut values)) => {
            values.iter_mut().for_each(strip);
            values.iter().map(|value| format!("{value:#}\n")).collect()
        }
        (Kept::Outcomes, None) => without_machine(text),
    }
}

/// Parses one JSON value, or one per line.
fn json_values(text: &str) -> Option<Vec<Value>> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let lines = || {
        text.lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()
            .ok()
    };
    serde_json::from_str(text).map_or_else(|_| lines(), |value| Some(vec![value]))
}

fn add_paths(value: &Value, at: &str, paths: &mut BTreeSet<String>) {
    let kind = match value {
        _ if BUSY_MACHINE_ONLY.iter().any(|end| at.ends_with(end)) => "(depends on the machine)",
        Value::Object(members) => {
            members
                .iter()
                .for_each(|(name, member)| add_paths(member, &format!("{at}.{name}"), paths));
            "object"
        }
        Value::Array(items) => {
            let is_nested = |item: &&Value| item.is_object() || item.is_array();
            items
                .iter()
                .filter(is_nested)
                .for_each(|item| add_paths(item, &format!("{at}[]"), paths));
            "array"
        }
        // A figure is null if there are too few samples.
        Value::Null | Value::Number(_) => "number or null",
        Value::Bool(_) => "bool",
        Value::String(_) => "string",
    };
    paths.insert(format!("{} {kind}", if at.is_empty() { "." } else { at }));
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| {
                !REMOVED.contains(&name.as_str()) && !MEASURED.iter().any(|end| name.ends_with(end))
            });
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Replaces machine, date and duration. Continuation lines are indented.
fn without_machine(text: &str) -> String {
    let line = Regex::new(r"(?m)^(machine|wall time): .*(\n  .*)*$").unwrap();
    let date = Regex::new(r"\b\d{8}-\d{6}\b").unwrap();
    date.replace_all(&line.replace_all(text, "$1: <machine>"), "<date>")
        .into_owned()
}
