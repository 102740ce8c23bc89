//! The page of files, from the contracts: what members there are, of what type, and what is said of
//! them. Knows no file by name.

use std::fs;

use serde_json::{Map, Value};
use sobench_testkit::in_package;

use super::table;

/// The folder of the contracts, from the package's root.
const FOLDER: &str = "schemas/contracts";

pub(super) fn page() -> String {
    let mut names: Vec<String> = fs::read_dir(in_package(FOLDER))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let intro = "The contracts are JSON Schemas; these tables are taken from them. *Always* marks members that are always there, where what they are \
                 in is. `[]` is each item of a list, `*` any name.\n";
    names
        .iter()
        .fold(intro.to_owned(), |page, name| page + &section(name))
}

fn section(file: &str) -> String {
    let contract: Value =
        serde_json::from_str(&fs::read_to_string(in_package(FOLDER).join(file)).unwrap()).unwrap();
    let text = |key: &str| contract[key].as_str().unwrap_or_default();
    let name = file
        .strip_suffix(".schema.json")
        .expect("a contract is named so");
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

/// A table of what is in a schema, or its type where it has no members.
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
            .map(|(name, it)| (name.clone(), it))
    };
    let patterns = object("patternProperties").map(|(pattern, it)| (format!("/{pattern}/"), it));
    let others =
        Some(("*".to_owned(), &schema["additionalProperties"])).filter(|(_, it)| it.is_object());
    for (name, member) in object("properties").chain(patterns).chain(others) {
        let place = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        let is_always = schema["required"]
            .as_array()
            .is_some_and(|names| names.iter().any(|it| *it == name));
        let described = member["description"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let row = vec![
            format!("`{place}`"),
            kind(file, member),
            if is_always { "yes" } else { "" }.to_owned(),
            described,
        ];
        // Alternatives of one object often share members.
        if !rows.contains(&row) {
            rows.push(row);
        }
        collect(file, &place, member, rows);
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

/// The type of a member in words; a link where it is described elsewhere on the page.
fn kind(file: &str, schema: &Value) -> String {
    let list = |values: &Vec<Value>| {
        values
            .iter()
            .map(|it| format!("`{it}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    if let Some(part) = schema["$ref"]
        .as_str()
        .and_then(|it| it.strip_prefix("#/$defs/"))
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
            .map(|it| kind(file, it))
            .filter(|it| !it.is_empty())
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

/// The anchor that Markdown renderers make of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|it| it.is_alphanumeric() || " -_".contains(*it))
        .collect::<String>();
    kept.replace(' ', "-")
}
