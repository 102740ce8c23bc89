//! The page of file formats, generated from the contracts: members, types and descriptions.

use std::fs;

use serde_json::{Map, Value};
use sobench_testkit::repository_path;

use super::table;

/// The folder of the contracts, relative to the package root.
const FOLDER: &str = "schemas/contracts";

pub(super) fn page() -> String {
    let mut names: Vec<String> = fs::read_dir(repository_path(FOLDER))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let intro = "The contracts are JSON Schemas, and these tables are generated from them. *Always* marks required members. \
                 `[]` is each item of a list, `*` any name.\n";
    names
        .iter()
        .fold(intro.to_owned(), |page, name| page + &section(name))
}

fn section(file: &str) -> String {
    let contract: Value =
        serde_json::from_str(&fs::read_to_string(repository_path(FOLDER).join(file)).unwrap())
            .unwrap();
    let text = |key: &str| contract[key].as_str().unwrap_or_default();
    let name = file
        .strip_suffix(".schema.json")
        .expect("contracts end in .schema.json");
    let mut section = format!(
        "\n## {}\n[`{file}`](../../{FOLDER}/{file}). {}\n",
        text("title"),
        text("description")
    );
    section.push_str(&members(name, &contract));
    for (part, schema) in contract["$defs"].as_object().into_iter().flatten() {
        let described = schema["description"].as_str().unwrap_or_default();
        section.push_str(&format!(
            "\n### {}\n{described}\n{}",
            heading(name, part),
            members(name, schema)
        ));
    }
    section
}

fn heading(file: &str, part: &str) -> String {
    format!("{file}: {part}")
}

/// A table of the members of a schema, or its type if it has none.
fn members(file: &str, schema: &Value) -> String {
    let mut rows = Vec::new();
    collect(file, "", schema, &mut rows);
    match rows.is_empty() {
        true => format!("\n{}\n", kind(file, schema)),
        false => format!("\n{}", table(&["member", "type", "always", "is"], &rows)),
    }
}

fn collect(file: &str, path: &str, schema: &Value, rows: &mut Vec<Vec<String>>) {
    let empty = Map::new();
    let object = |key: &str| {
        schema[key]
            .as_object()
            .unwrap_or(&empty)
            .iter()
            .map(|(name, member)| (name.clone(), member))
    };
    let patterns =
        object("patternProperties").map(|(pattern, member)| (format!("/{pattern}/"), member));
    let others = Some(("*".to_owned(), &schema["additionalProperties"]))
        .filter(|(_, member)| member.is_object());
    for (name, member) in object("properties").chain(patterns).chain(others) {
        let member_path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let is_required = schema["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|required| *required == name));
        let described = member["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let row = vec![
            format!("`{member_path}`"),
            kind(file, member),
            if is_required { "yes" } else { "" }.to_owned(),
            described,
        ];
        // Alternatives of one object often share members.
        if !rows.contains(&row) {
            rows.push(row);
        }
        collect(file, &member_path, member, rows);
    }
    if schema["items"].is_object() {
        collect(file, &format!("{path}[]"), &schema["items"], rows);
    }
    for choice in ["anyOf", "oneOf"]
        .iter()
        .flat_map(|key| schema[*key].as_array().into_iter().flatten())
    {
        collect(file, path, choice, rows);
    }
}

/// The type of a member, with a link if it is described elsewhere on the page.
fn kind(file: &str, schema: &Value) -> String {
    let list = |values: &Vec<Value>| {
        values
            .iter()
            .map(|value| format!("`{value}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(part) = schema["$ref"]
        .as_str()
        .and_then(|reference| reference.strip_prefix("#/$defs/"))
    {
        return format!("[{part}](#{})", anchor(&heading(file, part)));
    }
    if let Some(value) = schema.get("const") {
        return format!("`{value}`");
    }
    if let Some(values) = schema["enum"].as_array() {
        return list(values);
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let mut kinds: Vec<String> = Vec::new();
        for kind in choices
            .iter()
            .map(|choice| kind(file, choice))
            .filter(|kind| !kind.is_empty())
        {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        return kinds.join(" or ");
    }
    let types = match &schema["type"] {
        Value::String(one) => one.clone(),
        Value::Array(several) => several
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(" or "),
        _ => String::new(),
    };
    match schema["items"].is_object() && !kind(file, &schema["items"]).is_empty() {
        true => types.replace(
            "array",
            &format!("array of {}", kind(file, &schema["items"])),
        ),
        false => types,
    }
}

/// The anchor that Markdown renderers generate for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .collect::<String>();
    kept.replace(' ', "-")
}
