//! Changes of structural tags: departures undone in the tag, and reductions of a witness.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::constraint::simpler_schema;
use crate::keywords::keywords_in_schema;
use crate::schema::{chunks, without_piece, without_range};
use sobench_core::schema_keywords::LITERAL_KEYWORDS;

/// Members of formats with lists that can be shorter.
const LISTS: [&str; 7] = [
    "tags",
    "elements",
    "rules",
    "structures",
    "triggers",
    "excludes",
    "end",
];

/// Members of formats that can be left out.
const OPTIONS: [&str; 8] = [
    "at_least_one",
    "stop_after_first",
    "any_order",
    "loop",
    "excludes",
    "max_chars",
    "max_tokens",
    "max_whitespace_cnt",
];

/// Members that hold a JSON Schema; the second one is that of the older form.
const SCHEMAS: [&str; 2] = ["json_schema", "schema"];

/// The tag without `any_order`; `None` if it has none.
pub fn with_fixed_order(tag: &Value) -> Option<Value> {
    let mut changed = tag.clone();
    let mut is_changed = false;
    for format in formats(tag) {
        let members = changed.pointer_mut(&format).and_then(Value::as_object_mut);
        if let Some(members) = members
            && members.get("any_order") == Some(&Value::Bool(true))
        {
            members.insert("any_order".to_owned(), false.into());
            is_changed = true;
        }
    }
    is_changed.then_some(changed)
}

/// The tag with `additionalProperties: true` in schemas of objects that say nothing about it;
/// `None` if there is no such schema.
pub fn with_open_objects(tag: &Value) -> Option<Value> {
    let mut changed = tag.clone();
    let mut is_changed = false;
    for schema in schemas(tag) {
        if let Some(schema) = changed.pointer_mut(&schema) {
            is_changed |= open_objects(schema);
        }
    }
    is_changed.then_some(changed)
}

fn open_objects(schema: &mut Value) -> bool {
    match schema {
        Value::Array(items) => {
            let mut is_changed = false;
            for item in items {
                is_changed |= open_objects(item);
            }
            is_changed
        }
        Value::Object(members) => {
            let is_object = members.get("properties").is_some_and(Value::is_object)
                || members.get("type").is_some_and(|kind| kind == "object");
            let mut is_changed = is_object && !members.contains_key("additionalProperties");
            for (keyword, value) in members.iter_mut() {
                if !LITERAL_KEYWORDS.contains(&keyword.as_str()) {
                    is_changed |= open_objects(value);
                }
            }
            if is_object {
                members
                    .entry("additionalProperties")
                    .or_insert(Value::Bool(true));
            }
            is_changed
        }
        _ => false,
    }
}

/// The n-th reduction of a tag. Each has a shorter list, fewer options, a format in place of the
/// list of it alone, or a smaller schema, so repeated reduction terminates.
pub fn reduced_tag(tag: &Value, number: usize) -> Option<Value> {
    let formats = formats(tag);
    let at = |path: &str| tag.pointer(path);
    let lists = formats.iter().flat_map(|path| {
        LISTS.into_iter().flat_map(move |name| {
            let list = at(path).and_then(|format| format.get(name)?.as_array());
            let ranges = list.map_or_else(Vec::new, |list| chunks(list.len()));
            ranges.into_iter().filter_map(move |range| {
                let shorter = without_range(list?, range);
                let shorter = (!shorter.is_empty()).then_some(shorter)?;
                replaced(tag, &format!("{path}/{name}"), shorter.into())
            })
        })
    });
    let single = formats.iter().filter_map(|path| {
        let format = at(path)?;
        let elements = format.get("elements").and_then(Value::as_array);
        let content = match elements.map(Vec::as_slice) {
            Some([element]) => element,
            _ if has_type(format, &["optional", "star", "plus", "repeat"]) => {
                format.get("content")?
            }
            _ => return None,
        };
        replaced(tag, path, content.clone())
    });
    let options = formats.iter().flat_map(|path| {
        OPTIONS.into_iter().filter_map(move |name| {
            let mut members: Map<String, Value> = at(path)?.as_object()?.clone();
            members.shift_remove(name)?;
            replaced(tag, path, members.into())
        })
    });
    let schemas = schemas(tag).into_iter().flat_map(|path| {
        let schema = at(&path);
        let pieces = (0..).map_while(move |piece| without_piece(schema?, piece));
        let simpler = (0..).map_while(move |change| simpler_schema(schema?, change));
        pieces
            .chain(simpler)
            .filter_map(move |smaller| replaced(tag, &path, smaller))
    });
    lists
        .chain(single)
        .chain(options)
        .chain(schemas)
        .nth(number)
}

fn has_type(format: &Value, names: &[&str]) -> bool {
    let kind = format.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| names.contains(&kind))
}

fn replaced(tag: &Value, path: &str, value: Value) -> Option<Value> {
    let mut changed = tag.clone();
    *changed.pointer_mut(path)? = value;
    Some(changed)
}

/// The types of formats, the options that are set, and the keywords of the schemas.
pub fn formats_and_keywords(tag: &Value) -> Vec<String> {
    let mut names = BTreeSet::new();
    for path in formats(tag) {
        let Some(Value::Object(members)) = tag.pointer(&path) else {
            continue;
        };
        if let Some(kind) = members.get("type").and_then(Value::as_str) {
            names.insert(kind.to_owned());
        }
        let is_set = |name: &&str| members.get(*name).is_some_and(|value| value == true);
        names.extend(OPTIONS.into_iter().filter(is_set).map(str::to_owned));
    }
    names.remove("structural_tag");
    let keywords = schemas(tag).into_iter().flat_map(|path| {
        let schema = tag.pointer(&path);
        schema.map_or_else(Vec::new, keywords_in_schema)
    });
    let keywords: BTreeSet<String> = keywords.collect();
    names.into_iter().chain(keywords).collect()
}

/// JSON pointers to all formats and tags, outer ones first, and to the tag itself.
fn formats(tag: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = std::collections::VecDeque::from([(String::new(), tag)]);
    while let Some((path, next)) = open.pop_front() {
        match next {
            Value::Object(members) => {
                let inner = members
                    .iter()
                    .filter(|(name, _)| !SCHEMAS.contains(&name.as_str()));
                open.extend(inner.map(|(name, value)| (format!("{path}/{name}"), value)));
                found.push(path);
            }
            Value::Array(items) => open.extend(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| (format!("{path}/{at}"), item)),
            ),
            _ => {}
        }
    }
    found
}

/// JSON pointers to all schemas.
fn schemas(tag: &Value) -> Vec<String> {
    let schema_in = |path: String| {
        let name = SCHEMAS.into_iter().find(|name| {
            tag.pointer(&path)
                .is_some_and(|format| format.get(name).is_some())
        })?;
        Some(format!("{path}/{name}"))
    };
    formats(tag).into_iter().filter_map(schema_in).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tag() -> Value {
        json!({"type": "structural_tag", "format": {"type": "sequence", "elements": [
            {"type": "triggered_tags", "triggers": ["<"], "at_least_one": true, "tags": [
                {"begin": "<a>", "content": {"type": "json_schema", "any_order": true, "json_schema": {"type": "object", "properties": {"x": {"enum": [{"type": "object"}]}}}}, "end": "</a>"},
                {"begin": "<b>", "content": {"type": "any_text"}, "end": "</b>"}]}]}})
    }

    #[test]
    fn departures_are_undone_in_the_tag() {
        let content = "/format/elements/0/tags/0/content";
        let ordered = with_fixed_order(&tag()).unwrap();
        assert_eq!(ordered.pointer(content).unwrap()["any_order"], false);
        assert_eq!(with_fixed_order(&ordered), None);
        let open = with_open_objects(&tag()).unwrap();
        let schema = &open.pointer(content).unwrap()["json_schema"];
        assert_eq!(schema["additionalProperties"], true);
        assert_eq!(
            schema["properties"]["x"],
            json!({"enum": [{"type": "object"}]})
        );
        assert_eq!(with_open_objects(&open), None);
    }

    #[test]
    fn reductions_end_in_a_small_tag() {
        let mut smallest = tag();
        let mut steps = 0;
        while let Some(smaller) = reduced_tag(&smallest, 0) {
            assert_ne!(smaller, smallest);
            smallest = smaller;
            steps += 1;
            assert!(steps < 100, "{smallest}");
        }
        let all: Vec<Value> = (0..)
            .map_while(|number| reduced_tag(&tag(), number))
            .collect();
        for expected in [
            "/format/elements/0/tags/1",
            "/format/elements/0/at_least_one",
        ] {
            assert!(
                all.iter()
                    .any(|smaller| smaller.pointer(expected).is_none()),
                "{expected}"
            );
        }
        assert!(
            all.iter()
                .any(|smaller| smaller["format"]["type"] == "triggered_tags")
        );
    }

    #[test]
    fn formats_options_and_keywords_are_named() {
        assert_eq!(
            formats_and_keywords(&tag()),
            [
                "any_order",
                "any_text",
                "at_least_one",
                "json_schema",
                "sequence",
                "triggered_tags",
                "enum",
                "properties",
                "type:object"
            ]
        );
    }
}
