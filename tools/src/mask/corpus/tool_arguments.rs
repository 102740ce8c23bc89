//! Draws arguments of tools that match the schemas of their parameters.
//!
//! Only the keywords of the shipped tools are known. Tests compare the drawn values with the judge.

use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

use sobench_pycompat::random::PythonRandom;

/// Nesting from which no optional members and further items are drawn.
const MAX_DEPTH: usize = 4;

/// Texts of strings without a pattern or format.
const TEXTS: [&str; 8] = [
    "Quarterly review",
    "blue",
    "Porto, Rua das Flores 12",
    "café “Zero”",
    "a/b\\c",
    "Please call back on Monday.\nThank you!",
    "x < y && y > 0",
    "東京",
];

/// Members of `schema` that are drawn, in its order.
pub(super) fn draw(schema: &Value, random: &mut PythonRandom) -> Value {
    Drawer {
        root: schema,
        random,
    }
    .value(schema, 0)
}

struct Drawer<'a> {
    root: &'a Value,
    random: &'a mut PythonRandom,
}

impl Drawer<'_> {
    fn value(&mut self, schema: &Value, depth: usize) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let target = reference
                .strip_prefix('#')
                .map(|path| self.root.pointer(path));
            return target
                .flatten()
                .cloned()
                .map_or(Value::Null, |target| self.value(&target, depth + 1));
        }
        if let Some(allowed) = schema["enum"].as_array() {
            return allowed[self.random.choice(allowed.len())].clone();
        }
        if let Some(schemas) = schema["anyOf"].as_array() {
            // Recursive schemas end with their last alternative.
            let index = if depth < MAX_DEPTH {
                self.random.choice(schemas.len())
            } else {
                schemas.len() - 1
            };
            return self.value(&schemas[index], depth);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds[self.random.choice(kinds.len())].as_str(),
            kind => kind.as_str(),
        };
        match kind {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("integer") => self.integer(schema).into(),
            Some("number") => (self.integer(schema) as f64 + 0.5).into(),
            Some("boolean") => (self.random.choice(2) == 0).into(),
            Some("string") => self.string(schema).into(),
            _ => Value::Null,
        }
    }

    fn object(&mut self, schema: &Value, depth: usize) -> Value {
        let required = schema["required"].as_array();
        let is_required = |name: &str| {
            required.is_some_and(|required| required.iter().any(|member| member == name))
        };
        let mut members = Map::new();
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            if is_required(name) || (depth < MAX_DEPTH && self.random.choice(2) == 0) {
                members.insert(name.clone(), self.value(member, depth + 1));
            }
        }
        members.into()
    }

    fn array(&mut self, schema: &Value, depth: usize) -> Value {
        let least = schema["minItems"].as_u64().unwrap_or(0);
        let most = schema["maxItems"].as_u64().unwrap_or(u64::MAX);
        let is_unique = schema["uniqueItems"] == true;
        let more = if depth < MAX_DEPTH && !is_unique {
            self.random.choice(3) as u64
        } else {
            0
        };
        let items = (0..(least + more).min(most)).map(|_| self.value(&schema["items"], depth + 1));
        items.collect()
    }

    fn integer(&mut self, schema: &Value) -> i64 {
        let exclusive = schema["exclusiveMinimum"].as_f64().map(|least| least + 1.0);
        let least = schema["minimum"]
            .as_f64()
            .or(exclusive)
            .unwrap_or(0.0)
            .ceil() as i64;
        let most = schema["maximum"]
            .as_f64()
            .map_or(least + 1000, |most| most as i64 - 1);
        let range = usize::try_from(most - least).unwrap_or(0);
        least + self.random.choice(range.max(1)) as i64
    }

    fn string(&mut self, schema: &Value) -> String {
        match (schema["pattern"].as_str(), schema["format"].as_str()) {
            (Some(pattern), _) => {
                let mut text = String::new();
                if let Ok(hir) = regex_syntax::parse(pattern) {
                    self.matching(&hir, &mut text);
                }
                text
            }
            (None, Some("date")) => format!("2026-11-{:02}", 1 + self.random.choice(30)),
            (None, Some("date-time")) => format!("2026-11-24T{:02}:30:00Z", self.random.choice(24)),
            (None, Some("email")) => "ana.petrova@example.org".to_owned(),
            _ => {
                let text = TEXTS[self.random.choice(TEXTS.len())];
                let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
                text.chars()
                    .take(usize::try_from(most).unwrap_or(usize::MAX))
                    .collect()
            }
        }
    }

    /// Appends a text that matches.
    fn matching(&mut self, hir: &Hir, text: &mut String) {
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => text.push_str(&String::from_utf8_lossy(&literal.0)),
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.ranges();
                let range = ranges[self.random.choice(ranges.len())];
                let size = u32::from(range.end()) - u32::from(range.start()) + 1;
                let drawn = self.random.below(u64::from(size)) as u32;
                text.extend(char::from_u32(u32::from(range.start()) + drawn));
            }
            HirKind::Class(Class::Bytes(class)) => {
                text.extend(
                    class
                        .ranges()
                        .first()
                        .map(|range| char::from(range.start())),
                );
            }
            HirKind::Repetition(repetition) => {
                let most = repetition.max.unwrap_or(repetition.min + 3);
                let more = self.random.choice((most - repetition.min) as usize + 1) as u32;
                for _ in 0..repetition.min + more {
                    self.matching(&repetition.sub, text);
                }
            }
            HirKind::Capture(capture) => self.matching(&capture.sub, text),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.matching(part, text)),
            HirKind::Alternation(parts) => {
                let drawn = self.random.choice(parts.len());
                self.matching(&parts[drawn], text);
            }
        }
    }
}

/// Arguments that violate the schema, with what is wrong in them.
pub(super) fn violations(schema: &Value, arguments: &Value) -> Vec<(&'static str, Value)> {
    let mut wrong = vec![("no object", json!([arguments]))];
    let Some(members) = arguments.as_object() else {
        return wrong;
    };
    let required = schema["required"].as_array();
    if let Some(name) = required.and_then(|required| required.last()?.as_str()) {
        let mut fewer = members.clone();
        fewer.remove(name);
        wrong.push(("required member missing", fewer.into()));
        let mut other = members.clone();
        other.insert(name.to_owned(), json!({"unexpected": [1]}));
        let accepts_objects = schema["properties"][name]["type"] == "object";
        if !accepts_objects && schema["properties"][name].get("type").is_some() {
            wrong.push(("wrong type", other.into()));
        }
    }
    if schema["additionalProperties"] == false {
        let mut more = members.clone();
        more.insert("unexpected".to_owned(), 1.into());
        wrong.push(("unknown member", more.into()));
    }
    wrong
}
