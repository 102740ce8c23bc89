//! The user's own corpus: JSON Lines, a constraint with instances a line; and the shipped one,
//! which is written the same way.
//!
//! `{"name"?, "tags"?, "constraint": {...}, "instances"?: [{"data": any} or {"text": text}, each
//! with "valid"?: bool]}`. The constraint may also stand in the line itself, as in the dataset
//! `custom`, whose other members are passed over; its `completion` is an instance without a label.
//! A member that neither knows is an error: it may be a slip of the pen.

use std::path::Path;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Content, Entry, Instance, Sink, files, tags};
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::input::{json, lines};
use sobench_data::dataset::custom;
use sobench_data::dataset::file::read_lines;

/// The workloads inside this program.
const SHIPPED: &str = include_str!("../../../../fixtures/mask/workloads.jsonl");

pub(super) fn read(path: &Path, sink: &mut Sink) -> Result<()> {
    for (name, path) in files(path, &[".jsonl", ".ndjson"])? {
        let lines = match read_lines(&path) {
            Ok(lines) => lines,
            Err(error) => {
                sink.unreadable(&error.what);
                continue;
            }
        };
        for line in lines {
            match line {
                Ok((number, line)) => take(&line, number, &name, sink),
                Err(error) => sink.unreadable(&error.what),
            }
        }
    }
    Ok(())
}

pub(super) fn shipped(sink: &mut Sink) {
    lines(SHIPPED).for_each(|(number, line)| take(line, number, "shipped", sink));
}

fn take(line: &str, number: usize, file: &str, sink: &mut Sink) {
    sink.repeated
        .look(line, |_| format!("{file}, line {number}"));
    let entry = entry(line, || format!("{file}#{number}"));
    sink.entry_or_reason(entry.map_err(|words| format!("{file}, line {number}: {words}")));
}

fn entry(line: &str, default_name: impl Fn() -> String) -> std::result::Result<Entry, String> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| format!("not JSON: {}", json::in_line(&error)))?;
    let members = value.as_object().ok_or("a line has to be an object")?;
    let known = |name: &str| OWN_FIELDS.contains(&name) || custom::FIELDS.contains(&name);
    if let Some(unknown) = members.keys().find(|name| !known(name)) {
        return Err(format!(
            "unknown member {unknown}; a line has {}, or what the dataset custom has",
            OWN_FIELDS.join(", ")
        ));
    }
    let beside = custom::constraint(members)?;
    let constraint = match (members.get("constraint"), beside) {
        (Some(Value::Object(inner)), None) => inner_constraint(inner)?,
        (Some(Value::Object(_)), Some(beside)) => {
            return Err(format!("constraint, and {} beside it", beside.kind()));
        }
        (Some(_), _) => {
            return Err(format!(
                "constraint has to be an object with one of {}",
                custom::CONSTRAINTS.join(", ")
            ));
        }
        (None, beside) => beside
            .ok_or_else(|| format!("no constraint: none of {}", custom::CONSTRAINTS.join(", ")))?,
    };
    let name = match members.get("name") {
        Some(Value::String(name)) if !name.is_empty() => name.clone(),
        Some(_) => return Err("name has to be a text".to_owned()),
        None => default_name(),
    };
    let tags = match (members.get("tags"), &constraint) {
        (Some(tags), _) => custom::texts("tags", tags)?,
        (None, Constraint::JsonSchema(schema)) => tags::of_schema(schema),
        (None, other) => vec![other.kind().to_owned()],
    };
    let instances = instances(line, members, &constraint)?;
    Ok(Entry {
        name,
        tags,
        constraint,
        instances,
    })
}

/// What a line of one's own may have beside the members of the dataset `custom`.
const OWN_FIELDS: [&str; 4] = ["name", "tags", "constraint", "instances"];

fn inner_constraint(members: &Map<String, Value>) -> std::result::Result<Constraint, String> {
    let kinds = || custom::CONSTRAINTS.join(", ");
    if let Some(unknown) = members
        .keys()
        .find(|name| !custom::CONSTRAINTS.contains(&name.as_str()))
    {
        return Err(format!(
            "unknown member {unknown} of constraint; it has one of {}",
            kinds()
        ));
    }
    custom::constraint(members)?
        .ok_or_else(|| format!("constraint is empty; it has one of {}", kinds()))
}

/// What of a line is kept as it is written: a number in a tree of values may have lost its
/// spelling.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    instances: Vec<WrittenInstance<'a>>,
}

#[derive(Deserialize)]
struct WrittenInstance<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
}

/// A `null` is a value like any other.
fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn instances(
    line: &str,
    members: &Map<String, Value>,
    constraint: &Constraint,
) -> std::result::Result<Vec<Instance>, String> {
    let mut found = Vec::new();
    match members.get("instances") {
        Some(Value::Array(list)) => {
            if let Some(place) = list.iter().position(|item| !item.is_object()) {
                return Err(format!("instance {place}: an instance has to be an object"));
            }
            let written: Written<'_> = serde_json::from_str(line)
                .map_err(|error| format!("instances: {}", json::in_line(&error)))?;
            for (number, (item, written)) in list.iter().zip(written.instances).enumerate() {
                found.push(
                    instance(item, written.data, constraint)
                        .map_err(|words| format!("instance {number}: {words}"))?,
                );
            }
        }
        Some(_) => return Err("instances has to be a list".to_owned()),
        None => {}
    }
    if let Some(Value::String(completion)) = members.get("completion") {
        found.push(Instance {
            content: Content::Text(completion.clone()),
            label: None,
        });
    }
    Ok(found)
}

fn instance(
    item: &Value,
    data: Option<&RawValue>,
    constraint: &Constraint,
) -> std::result::Result<Instance, String> {
    let members = item.as_object().ok_or("an instance has to be an object")?;
    if let Some(unknown) = members
        .keys()
        .find(|name| !matches!(name.as_str(), "data" | "text" | "valid" | "description"))
    {
        return Err(format!("no such field: {unknown}"));
    }
    let label = match members.get("valid") {
        Some(Value::Bool(valid)) => Some(*valid),
        Some(_) => return Err("valid has to be true or false".to_owned()),
        None => None,
    };
    let content = match (data, members.get("text")) {
        (Some(data), None) if constraint.is_json() => Content::json(data),
        (Some(_), None) => return Err("data is for json and json_object; give the text".to_owned()),
        (None, Some(Value::String(text))) => Content::Text(text.clone()),
        (None, Some(_)) => return Err("text has to be a text".to_owned()),
        _ => return Err("an instance has data or text".to_owned()),
    };
    Ok(Instance { content, label })
}
