//! Custom corpora in JSON Lines, one constraint with instances per line, and the shipped corpus in
//! the same format.
//!
//! `{"name"?, "tags"?, "constraint": {...}, "instances"?: [{"data": any} or {"text": text}, each
//! with "valid"?: bool]}`. The constraint may also be given by the fields of the dataset `custom`;
//! other fields of that dataset are ignored, and its `completion` becomes an instance without a
//! label. Unknown fields are errors, since they may be typing mistakes.

use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Content, Entry, Instance, Sink, files};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::input::{json, lines};
use sobench_data::dataset::custom;
use sobench_data::dataset::file::read_lines;

/// The shipped workloads.
const SHIPPED: &str = include_str!("../../../shipped/workloads.jsonl");

pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<()> {
    for (name, path) in files(path, &[".jsonl", ".ndjson"])? {
        let lines = match read_lines(&path) {
            Ok(lines) => lines,
            Err(error) => {
                sink.report_unreadable(&error.what);
                continue;
            }
        };
        for line in lines {
            match line {
                Ok((number, line)) => take_line(&line, number, &name, sink),
                Err(error) => sink.report_unreadable(&error.what),
            }
        }
    }
    Ok(())
}

pub(super) fn read_shipped(sink: &mut Sink) {
    lines(SHIPPED).for_each(|(number, line)| take_line(line, number, "shipped", sink));
}

fn take_line(line: &str, number: usize, file: &str, sink: &mut Sink) {
    sink.repeated
        .scan(line, |_| format!("{file}, line {number}"));
    let entry = parse_entry(line, || format!("{file}#{number}"));
    sink.add_or_report(entry.map_err(|message| format!("{file}, line {number}: {message}")));
}

fn parse_entry(
    line: &str,
    default_name: impl Fn() -> String,
) -> std::result::Result<Entry, String> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| format!("not JSON: {}", json::message_without_line(&error)))?;
    let members = value.as_object().ok_or("a line must be an object")?;
    let known = |name: &str| OWN_FIELDS.contains(&name) || custom::is_field(name);
    if let Some(unknown) = members.keys().find(|name| !known(name)) {
        return Err(format!(
            "unknown field: {unknown}; a line has {}, or the fields of the dataset custom",
            OWN_FIELDS.join(", ")
        ));
    }
    let inline = custom::constraint(members)?;
    let constraint = match (members.get("constraint"), inline) {
        (Some(Value::Object(inner)), None) => parse_constraint(inner)?,
        (Some(Value::Object(_)), Some(inline)) => {
            return Err(format!("both constraint and {} are given", inline.kind()));
        }
        (Some(_), _) => {
            return Err(format!(
                "constraint must be an object with one of {}",
                custom::CONSTRAINTS.join(", ")
            ));
        }
        (None, inline) => inline
            .ok_or_else(|| format!("no constraint: none of {}", custom::CONSTRAINTS.join(", ")))?,
    };
    let name = match members.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        Some(_) => return Err("name must be a string".to_owned()),
        None => default_name(),
    };
    let tags = match (members.get("tags"), constraint.schema()) {
        (Some(tags), _) => custom::texts("tags", tags)?,
        (None, Some(schema)) => sobench_reduce::keywords::keywords_in_schema(schema),
        (None, None) => vec![constraint.kind().to_owned()],
    };
    let instances = parse_instances(line, members, &constraint)?;
    Ok(Entry {
        name,
        tags,
        constraint,
        instances,
    })
}

/// Fields of a line beyond those of the dataset `custom`.
const OWN_FIELDS: [&str; 4] = ["name", "tags", "constraint", "instances"];

fn parse_constraint(members: &Map<String, Value>) -> std::result::Result<Constraint, String> {
    let kinds = || custom::CONSTRAINTS.join(", ");
    if let Some(unknown) = members
        .keys()
        .find(|name| !custom::CONSTRAINTS.contains(&name.as_str()))
    {
        return Err(format!(
            "unknown field in constraint: {unknown}; expected one of {}",
            kinds()
        ));
    }
    custom::constraint(members)?
        .ok_or_else(|| format!("constraint is empty; expected one of {}", kinds()))
}

/// Fields that are read as raw text: a parsed number may lose its spelling.
#[derive(Deserialize)]
struct RawLine<'a> {
    #[serde(borrow)]
    instances: Vec<RawInstance<'a>>,
}

#[derive(Deserialize)]
struct RawInstance<'a> {
    #[serde(borrow, default, deserialize_with = "deserialize_some")]
    data: Option<&'a RawValue>,
}

/// Distinguishes `null` from an absent field.
fn deserialize_some<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn parse_instances(
    line: &str,
    members: &Map<String, Value>,
    constraint: &Constraint,
) -> std::result::Result<Vec<Instance>, String> {
    let mut instances = Vec::new();
    match members.get("instances") {
        Some(Value::Array(list)) => {
            if let Some(place) = list.iter().position(|item| !item.is_object()) {
                return Err(format!("instance {place}: an instance must be an object"));
            }
            let raw: RawLine<'_> = serde_json::from_str(line)
                .map_err(|error| format!("instances: {}", json::message_without_line(&error)))?;
            for (number, (item, raw)) in list.iter().zip(raw.instances).enumerate() {
                instances.push(
                    parse_instance(item, raw.data, constraint)
                        .map_err(|message| format!("instance {number}: {message}"))?,
                );
            }
        }
        Some(_) => return Err("instances must be a list".to_owned()),
        None => {}
    }
    if let Some(Value::String(completion)) = members.get("completion") {
        instances.push(Instance {
            content: Content::Text(completion.clone()),
            label: None,
        });
    }
    Ok(instances)
}

fn parse_instance(
    item: &Value,
    data: Option<&RawValue>,
    constraint: &Constraint,
) -> std::result::Result<Instance, String> {
    let members = item.as_object().ok_or("an instance must be an object")?;
    if let Some(unknown) = members
        .keys()
        .find(|name| !matches!(name.as_str(), "data" | "text" | "valid" | "description"))
    {
        return Err(format!("unknown field: {unknown}"));
    }
    let label = match members.get("valid") {
        Some(Value::Bool(valid)) => Some(*valid),
        Some(_) => return Err("valid must be true or false".to_owned()),
        None => None,
    };
    let content = match (data, members.get("text")) {
        (Some(data), None) if constraint.is_json() => Content::json(data),
        (Some(_), None) => return Err("data is for json and json_object; use text".to_owned()),
        (None, Some(Value::String(text))) => Content::Text(text.clone()),
        (None, Some(_)) => return Err("text must be a string".to_owned()),
        _ => return Err("an instance needs data or text".to_owned()),
    };
    Ok(Instance { content, label })
}
