//! What a schema can ask of a validator, worked out before anything is validated. Knows how schemas lie in one another, and nothing of
//! what they say.
//!
//! Two kinds of subschemas matter: those *in place*, which are held against the same value (`allOf`, `if`, `$ref` ...), and those of
//! a value's children. Only the former can multiply without the document growing, nest without it, or lead back to where they began.

use serde_json::Value;

use super::survey::{Part, Survey, with_survey};
use crate::verdict::NotScored;

/// What a schema asks for, at most.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Schemas that the validator compiles.
    pub parts: usize,
    /// Schemas that can lie inside one another in place.
    pub in_place: usize,
    /// Schemas that may be gone through between two looks at the document.
    pub between_looks: u64,
    /// Schemas that `unevaluatedProperties` and `unevaluatedItems` have to ask, each time that they are met: the validator writes them
    /// out when it is built, those in place and, where a reference leads there, all that lies in them.
    pub unevaluated: u64,
    /// Schemas that refer to others, which the validator resolves when it is built.
    pub references: usize,
    /// Patterns for names of members.
    pub name_patterns: Vec<String>,
    /// Of these, how many the schema with the most of them has.
    pub most_name_patterns: usize,
    /// A schema that leads back to itself in place, as its JSON pointer or reference.
    pub circle: Option<String>,
}

impl Demand {
    /// Works out what `schema` asks for; without an answer where a reference leads nowhere, or too many of them anywhere.
    pub(super) fn of(schema: &Value) -> Result<Self, NotScored> {
        with_survey(schema, Self::sum_up)
    }

    fn sum_up(survey: &Survey<'_>) -> Self {
        let parts = &survey.parts;
        let (order, circle) = innermost_first(parts);
        let (mut between, mut in_all) = (vec![1_u64; parts.len()], vec![1_u64; parts.len()]);
        let mut depth = vec![1; parts.len()];
        let (mut between_looks, mut unevaluated) = (0, 0_u64);
        for part in order {
            let Part { in_place, looks, asks_others, .. } = &parts[part];
            let sum = in_place.iter().fold(1_u64, |sum, inner| sum.saturating_add(between[inner.part]));
            between_looks = between_looks.max(sum);
            between[part] = if *looks { 0 } else { sum };
            in_all[part] = in_place.iter().fold(1, |sum, inner| {
                let lies_in_it = if inner.is_referred { parts[inner.part].size } else { 0 };
                sum.saturating_add(in_all[inner.part]).saturating_add(lies_in_it)
            });
            unevaluated = unevaluated.saturating_add(if *asks_others { in_all[part] } else { 0 });
            depth[part] = 1 + in_place.iter().map(|inner| depth[inner.part]).max().unwrap_or(0);
        }
        Self {
            parts: parts.len(),
            in_place: depth.into_iter().max().unwrap_or(0),
            between_looks,
            unevaluated,
            references: survey.referring.len(),
            name_patterns: survey.name_patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
            most_name_patterns: survey.most_name_patterns,
            circle: circle.map(|part| parts[part].reached_by.clone().unwrap_or_else(|| "#".to_owned())),
        }
    }
}

/// All parts, each after those in place below it, and one that leads back to itself if there is any: a walk in depth, without
/// recursion.
fn innermost_first(parts: &[Part]) -> (Vec<usize>, Option<usize>) {
    let (mut order, mut circle) = (Vec::new(), None);
    let mut done = vec![false; parts.len()];
    let mut on_path = done.clone();
    for first in 0..parts.len() {
        let mut path = vec![(first, 0)];
        while let Some((part, next)) = path.pop() {
            if next == 0 && done[part] {
                continue;
            }
            if next == 0 && std::mem::replace(&mut on_path[part], true) {
                circle.get_or_insert(part);
                continue;
            }
            if let Some(inner) = parts[part].in_place.get(next) {
                path.extend([(part, next + 1), (inner.part, 0)]);
                continue;
            }
            (on_path[part], done[part]) = (false, true);
            order.push(part);
        }
    }
    (order, circle)
}
#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn demand(schema: &Value) -> Demand {
        Demand::of(schema).unwrap()
    }

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
        assert_eq!(demand(&doubling(json!({}))).between_looks, u64::MAX);
        assert_eq!(demand(&doubling(json!(false))).between_looks, u64::MAX);
        let mut asking = doubling(json!({ "properties": {} }));
        assert_eq!(demand(&asking).unevaluated, 0);
        asking["unevaluatedProperties"] = json!(false);
        assert_eq!(demand(&asking).unevaluated, u64::MAX);
        for (schema, between_looks) in [
            (json!({}), 1),
            (json!({ "type": "null" }), 1),
            (json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "const": 1 } } }), 2),
            (json!({ "anyOf": [true, false, { "not": {} }] }), 5),
            (json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/a", "allOf": [{}, {}, {}], "a": {} }), 2),
        ] {
            assert_eq!(demand(&schema).between_looks, between_looks, "{schema}");
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
            (json!({ "$dynamicAnchor": "n", "allOf": [{ "$dynamicRef": "#n" }] }), Some("#n")),
            (json!({ "$id": "https://example.com/x/a.json", "if": { "$ref": "a.json" } }), Some("a.json")),
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
            assert_eq!(demand(&schema).circle.as_deref(), circle, "{schema}");
        }
    }

    #[test]
    fn nesting_in_place_and_references_are_counted() {
        let schema = json!({ "allOf": [{ "not": { "type": "null" } }], "items": { "$ref": "#/$defs/a" }, "$defs": { "a": {} } });
        let demand = demand(&schema);
        assert_eq!((demand.in_place, demand.references, demand.parts), (3, 1, 5));
    }

    #[test]
    fn what_is_asked_through_references_counts_with_what_lies_in_it() {
        let large = json!({ "properties": { "a": {}, "b": {}, "c": {} } });
        let schema = |inner: Value| json!({ "$defs": { "a": large }, "allOf": [inner], "unevaluatedProperties": false });
        assert_eq!(demand(&schema(json!({ "$ref": "#/$defs/a" }))).unevaluated, 1 + 1 + (4 + 1));
        assert_eq!(demand(&schema(large.clone())).unevaluated, 1 + 1);
    }

    #[test]
    fn only_what_always_looks_counts_as_a_look() {
        let twice = |members: Value| {
            let mut schema = json!({ "anyOf": [{ "not": {} }] });
            schema.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
            json!({ "allOf": [schema, schema] })
        };
        for (members, between_looks) in [
            (json!({ "type": "object" }), 3),
            (json!({ "required": ["a"] }), 3),
            (json!({ "required": [] }), 7),
            (json!({ "uniqueItems": false }), 7),
            (json!({ "minimum": 1 }), 7),
            (json!({ "minContains": 1 }), 7),
            (json!({ "additionalProperties": true }), 7),
            (json!({ "format": "unheard-of" }), 7),
        ] {
            assert_eq!(demand(&twice(members.clone())).between_looks, between_looks, "{members}");
        }
    }
}
