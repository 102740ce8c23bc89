//! What a schema can ask of a validator, worked out before anything is validated. Knows where keywords hold schemas; judges nothing.
//!
//! Two kinds of subschemas matter: those *in place*, which are held against the same value (`allOf`, `if`, `$ref` ...), and those of
//! a value's children. Only the former can multiply without the document growing, nest without it, or lead back to where they began.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

/// Keywords with one schema that is held against the same value.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];

/// Keywords with an array of such schemas.
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Keywords with an object of such schemas.
const IN_PLACE_MAPS: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Keywords with a schema, or an array of schemas, for children.
const CHILDREN: [&str; 9] = [
    "items",
    "prefixItems",
    "additionalItems",
    "contains",
    "additionalProperties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Keywords with an object of schemas for children.
const CHILD_MAPS: [&str; 2] = ["properties", "patternProperties"];

/// Keywords that refer to a schema elsewhere.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// Keywords that say nothing of a value; every other one but those in place looks at it.
const SILENT: [&str; 20] = [
    "$schema",
    "$id",
    "id",
    "$anchor",
    "$dynamicAnchor",
    "$recursiveAnchor",
    "$vocabulary",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "contentSchema",
    "then",
    "else",
];

/// Objects that a reference out of the document may bring in: no published meta-schema has as many.
const META_SCHEMA_OBJECTS: usize = 400;

/// The size of a value, counted without recursion.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// How deep containers lie inside one another.
    pub nesting: usize,
    /// Values of any kind.
    pub values: usize,
    /// Bytes of all strings, names and numbers.
    pub bytes: usize,
}

impl Size {
    /// Measures `value`, and stops where it has more than `most` values.
    pub(super) fn of(value: &Value, most: usize) -> Self {
        let mut size = Self::default();
        let mut pending = vec![(value, 0)];
        while let Some((value, depth)) = pending.pop() {
            size.nesting = size.nesting.max(depth);
            size.values += 1;
            if size.values > most {
                break;
            }
            match value {
                Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(members) => {
                    size.bytes += members.keys().map(String::len).sum::<usize>();
                    pending.extend(members.values().map(|member| (member, depth + 1)));
                }
                Value::String(text) => size.bytes += text.len(),
                Value::Number(number) => size.bytes += number.as_str().len(),
                Value::Bool(_) | Value::Null => {}
            }
        }
        size
    }
}

/// What a schema asks for, at most.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Demand<'a> {
    /// Schemas that can lie inside one another in place, counted generously.
    pub in_place: usize,
    /// Schemas that may be gone through between two looks at the document.
    pub between_looks: u64,
    /// Schemas in place that `unevaluatedProperties` and `unevaluatedItems` have to ask, each time that they are met: the validator
    /// writes them out when it is built.
    pub unevaluated: u64,
    /// References, each of which the validator resolves when it is built.
    pub references: usize,
    /// Patterns for names of members.
    pub name_patterns: Vec<&'a str>,
    /// Of these, how many the schema with the most of them has.
    pub most_name_patterns: usize,
    /// A schema that leads back to itself in place, as its JSON pointer or reference.
    pub circle: Option<String>,
}

impl<'a> Demand<'a> {
    /// Works out what `schema` asks for.
    pub(super) fn of(schema: &'a Value) -> Self {
        let mut survey = Survey::new(schema);
        survey.explore(schema);
        survey.demand()
    }
}

/// One reachable schema.
struct Part<'a> {
    /// The parts held against the same value.
    in_place: Vec<usize>,
    /// Whether it looks at the value itself.
    looks: bool,
    /// Whether it asks what the parts in place have evaluated.
    asks_others: bool,
    /// The last reference that led here, for people.
    reached_by: Option<&'a str>,
}

struct Survey<'a> {
    /// Schemas by the end of their `$id`, and by anchor.
    names: HashMap<&'a str, Vec<&'a Value>>,
    root: &'a Value,
    ref_hides_siblings: bool,
    /// Parts by the address of their schema.
    numbers: HashMap<usize, usize>,
    parts: Vec<Part<'a>>,
    pending: Vec<(&'a Value, &'a Value)>,
    outward: usize,
    references: usize,
    name_patterns: Vec<&'a str>,
    most_name_patterns: usize,
}

impl<'a> Survey<'a> {
    fn new(root: &'a Value) -> Self {
        let mut names: HashMap<&str, Vec<&Value>> = HashMap::new();
        let mut pending = vec![root];
        while let Some(value) = pending.pop() {
            match value {
                Value::Array(items) => pending.extend(items),
                Value::Object(members) => {
                    for key in ["$id", "id", "$anchor", "$dynamicAnchor"] {
                        if let Some(name) = members.get(key).and_then(Value::as_str) {
                            names.entry(last_segment(name)).or_default().push(value);
                        }
                    }
                    pending.extend(members.values());
                }
                _ => {}
            }
        }
        let ref_hides_siblings = matches!(Draft::default().detect(root), Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        Self {
            names,
            root,
            ref_hides_siblings,
            numbers: HashMap::new(),
            parts: Vec::new(),
            pending: Vec::new(),
            outward: 0,
            references: 0,
            name_patterns: Vec::new(),
            most_name_patterns: 0,
        }
    }

    /// Finds all parts that can be reached from `schema`.
    fn explore(&mut self, schema: &'a Value) {
        self.number(schema, schema, None);
        let mut next = 0;
        while next < self.pending.len() {
            let (schema, base) = self.pending[next];
            if let Value::Object(members) = schema {
                self.explore_object(next, members, if is_resource(members) { schema } else { base });
            }
            next += 1;
        }
    }

    fn explore_object(&mut self, part: usize, members: &'a Map<String, Value>, base: &'a Value) {
        let hidden = self.ref_hides_siblings && members.contains_key("$ref");
        let mut in_place = Vec::new();
        for (key, value) in members {
            let key = key.as_str();
            if hidden && key != "$ref" {
                continue;
            }
            if REFERENCES.contains(&key) {
                self.references += 1;
                if let Some(reference) = value.as_str() {
                    let targets = self.targets(key, reference, base);
                    in_place.extend(targets.into_iter().map(|(target, base)| self.number(target, base, Some(reference))));
                }
            } else if IN_PLACE.contains(&key) {
                in_place.push(self.number(value, base, None));
            } else if IN_PLACE_LISTS.contains(&key) {
                in_place.extend(value.as_array().into_iter().flatten().map(|schema| self.number(schema, base, None)));
            } else if IN_PLACE_MAPS.contains(&key) {
                in_place
                    .extend(value.as_object().into_iter().flat_map(Map::values).map(|schema| self.number(schema, base, None)));
            } else if CHILDREN.contains(&key) {
                let schemas = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                for schema in schemas {
                    self.number(schema, base, None);
                }
            } else if CHILD_MAPS.contains(&key) {
                let schemas = value.as_object();
                if key == "patternProperties" {
                    self.most_name_patterns = self.most_name_patterns.max(schemas.map_or(0, Map::len));
                    self.name_patterns.extend(schemas.into_iter().flat_map(Map::keys).map(String::as_str));
                }
                for schema in schemas.into_iter().flat_map(Map::values) {
                    self.number(schema, base, None);
                }
            }
        }
        let looks = |key: &str| {
            !IN_PLACE.contains(&key)
                && !IN_PLACE_LISTS.contains(&key)
                && !REFERENCES.contains(&key)
                && !SILENT.contains(&key)
                && is_keyword(key)
        };
        self.parts[part].looks = !hidden && members.keys().any(|key| looks(key));
        self.parts[part].asks_others = members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems");
        self.parts[part].in_place = in_place;
    }

    /// The number of a schema's part, which is made on its first mention.
    fn number(&mut self, schema: &'a Value, base: &'a Value, reference: Option<&'a str>) -> usize {
        let next = self.parts.len();
        let number = *self.numbers.entry(std::ptr::from_ref(schema) as usize).or_insert(next);
        if number == next {
            self.parts.push(Part { in_place: Vec::new(), looks: false, asks_others: false, reached_by: reference });
            self.pending.push((schema, base));
        }
        number
    }

    /// The schemas that a reference may lead to, each with its resource: more than one where names are alike, or where it is only
    /// known during a validation.
    fn targets(&mut self, keyword: &str, reference: &'a str, base: &'a Value) -> Vec<(&'a Value, &'a Value)> {
        let (resource, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let bases = match resource {
            "" if keyword == "$recursiveRef" => vec![base, self.root],
            "" => vec![base],
            name => self.named(name),
        };
        if bases.is_empty() {
            self.outward += 1;
        }
        let mut found = Vec::new();
        for base in bases {
            if fragment.is_empty() || fragment.starts_with('/') {
                // A pointer that leads nowhere is the validator's to refuse.
                let pointer = percent_decoded(fragment);
                found.extend(base.pointer(&pointer).map(|target| (target, base)));
            } else if let Some(named) = self.names.get(fragment) {
                found.extend(named.iter().map(|target| (*target, base)));
            }
        }
        found
    }

    /// The schemas whose `$id` is `uri`, else those that it may be.
    fn named(&self, uri: &str) -> Vec<&'a Value> {
        let alike = self.names.get(last_segment(uri)).map_or(&[][..], Vec::as_slice);
        let is_exact = |schema: &&&Value| ["$id", "id"].iter().any(|key| schema.get(*key).and_then(Value::as_str) == Some(uri));
        let exact: Vec<&Value> = alike.iter().filter(is_exact).copied().collect();
        if exact.is_empty() { alike.to_vec() } else { exact }
    }

    fn demand(self) -> Demand<'a> {
        let in_place = self.parts.iter().filter(|part| !part.in_place.is_empty()).count();
        let (order, circle) = self.innermost_first();
        let (mut between, mut in_all) = (vec![1_u64; self.parts.len()], vec![1_u64; self.parts.len()]);
        let (mut between_looks, mut unevaluated) = (0, 0_u64);
        for part in order {
            let Part { in_place, looks, asks_others, .. } = &self.parts[part];
            let sum = |of: &[u64]| in_place.iter().fold(1_u64, |sum, inner| sum.saturating_add(of[*inner]));
            in_all[part] = sum(&in_all);
            between_looks = between_looks.max(sum(&between));
            between[part] = if *looks { 0 } else { sum(&between) };
            unevaluated = unevaluated.saturating_add(if *asks_others { in_all[part] } else { 0 });
        }
        Demand {
            in_place: in_place + self.outward * META_SCHEMA_OBJECTS,
            between_looks,
            unevaluated,
            references: self.references,
            most_name_patterns: self.most_name_patterns,
            circle: circle.map(|part| self.parts[part].reached_by.unwrap_or("#").to_owned()),
            name_patterns: self.name_patterns,
        }
    }

    /// All parts, each after those in place below it, and one that leads back to itself if there is any: a walk in depth, without
    /// recursion.
    fn innermost_first(&self) -> (Vec<usize>, Option<usize>) {
        let (mut order, mut circle) = (Vec::new(), None);
        let mut done = vec![false; self.parts.len()];
        let mut on_path = done.clone();
        for first in 0..self.parts.len() {
            let mut path = vec![(first, 0)];
            while let Some((part, next)) = path.pop() {
                if next == 0 && done[part] {
                    continue;
                }
                if next == 0 && std::mem::replace(&mut on_path[part], true) {
                    circle.get_or_insert(part);
                    continue;
                }
                if let Some(&inner) = self.parts[part].in_place.get(next) {
                    path.extend([(part, next + 1), (inner, 0)]);
                    continue;
                }
                (on_path[part], done[part]) = (false, true);
                order.push(part);
            }
        }
        (order, circle)
    }
}

fn is_resource(members: &Map<String, Value>) -> bool {
    ["$id", "id"].iter().any(|key| members.get(*key).and_then(Value::as_str).is_some_and(|id| !id.starts_with('#')))
}

/// The end of a URI, by which schemas are found: `./a.json`, `a.json` and `https://example.com/a.json` are taken for one, which can
/// only make a schema seem to ask for more.
fn last_segment(uri: &str) -> &str {
    let uri = uri.split_once('#').map_or(uri, |(before, after)| if before.is_empty() { after } else { before });
    uri.rsplit(['/', ':']).next().unwrap_or(uri)
}

fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.bytes();
    while let Some(byte) = rest.next() {
        let mut ahead = rest.clone();
        let mut digit = || ahead.next().and_then(|digit| char::from(digit).to_digit(16));
        match (byte, digit(), digit()) {
            (b'%', Some(high), Some(low)) => {
                bytes.push((high * 16 + low) as u8);
                rest = ahead;
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a validator does something for a member of this name.
fn is_keyword(key: &str) -> bool {
    const OTHERS: [&str; 23] = [
        "type",
        "enum",
        "const",
        "multipleOf",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxContains",
        "minContains",
        "maxProperties",
        "minProperties",
        "required",
        "dependentRequired",
        "format",
        "contentEncoding",
        "contentMediaType",
    ];
    OTHERS.contains(&key) || CHILDREN.contains(&key) || CHILD_MAPS.contains(&key) || IN_PLACE_MAPS.contains(&key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_multiplies_in_place_is_told_from_what_looks_first() {
        let doubling = |leaf: Value| {
            let mut definitions = Map::from_iter([("a0".to_owned(), leaf)]);
            for index in 1..=70 {
                let inner = json!({ "$ref": format!("#/$defs/a{}", index - 1) });
                definitions.insert(format!("a{index}"), json!({ "allOf": [inner, inner] }));
            }
            json!({ "$defs": definitions, "$ref": "#/$defs/a70" })
        };
        assert_eq!(Demand::of(&doubling(json!({}))).between_looks, u64::MAX);
        assert_eq!(Demand::of(&doubling(json!(false))).between_looks, u64::MAX);
        let mut asking = doubling(json!({ "properties": {} }));
        assert_eq!(Demand::of(&asking).unevaluated, 0);
        asking["unevaluatedProperties"] = json!(false);
        assert_eq!(Demand::of(&asking).unevaluated, u64::MAX);
        for (schema, between_looks) in [
            (json!({}), 1),
            (json!({ "type": "null" }), 1),
            (json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "const": 1 } } }), 2),
            (json!({ "anyOf": [true, false, { "not": {} }] }), 5),
            (json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/a", "allOf": [{}, {}, {}], "a": {} }), 2),
        ] {
            assert_eq!(Demand::of(&schema).between_looks, between_looks, "{schema}");
        }
    }

    #[test]
    fn circles_are_found_in_place_and_nowhere_else() {
        for (schema, circle) in [
            (json!({ "$ref": "#" }), Some("#")),
            (json!({ "anyOf": [{ "$ref": "#" }, { "type": "null" }] }), Some("#")),
            (
                json!({ "$ref": "#/$defs/a", "$defs": { "a": { "not": { "$ref": "#/$defs/b" } }, "b": { "$ref": "#/$defs/a" } } }),
                Some("#/$defs/a"),
            ),
            (json!({ "$dynamicAnchor": "n", "allOf": [{ "$dynamicRef": "#n" }] }), Some("#")),
            (json!({ "$id": "https://example.com/x/a.json", "if": { "$ref": "a.json" } }), Some("#")),
            (json!({ "$ref": "#/a%25b~1c", "a%b/c": { "$ref": "#/a%25b~1c" } }), Some("#/a%25b~1c")),
            (json!({ "items": { "$ref": "#" } }), None),
            (json!({ "properties": { "a": { "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] } } }), None),
            (json!({ "$defs": { "a": { "$ref": "#/$defs/a" } } }), None),
            (json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }), None),
            (json!({ "const": { "$ref": "#" } }), None),
            (
                json!({ "$id": "urn:strict", "$dynamicAnchor": "node", "$ref": "urn:tree", "$defs": { "tree": {
                    "$id": "urn:tree", "$dynamicAnchor": "node", "items": { "$dynamicRef": "#node" } } } }),
                None,
            ),
        ] {
            assert_eq!(Demand::of(&schema).circle.as_deref(), circle, "{schema}");
        }
    }

    #[test]
    fn nesting_in_place_and_references_are_counted() {
        let schema = json!({ "allOf": [{ "not": { "type": "null" } }], "items": { "$ref": "urn:elsewhere" } });
        let demand = Demand::of(&schema);
        assert_eq!((demand.in_place, demand.references), (2 + META_SCHEMA_OBJECTS, 1));
        let size = Size::of(&json!({ "ab": [1, "cde", null] }), 100);
        assert_eq!((size.nesting, size.values, size.bytes), (2, 5, 6));
        assert_eq!(Size::of(&json!([1, 2, 3, 4]), 2).values, 3);
    }
}
