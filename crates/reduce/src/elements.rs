//! The elements of a JSON Schema that can be left out, and the schema with some of them only: what
//! stands around a kept element stays, so that it keeps its place and its type, and no reference breaks.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sobench_core::schema_keywords::{LITERAL_KEYWORDS, NAME_MAPS};
use sobench_core::schema_part::{pointer_name, pointer_token};

/// Keywords whose value is a schema.
const SCHEMAS: [&str; 10] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
];

/// Where subschemas are that count only if something refers to them.
const DEFINITIONS: [&str; 2] = ["/$defs/", "/definitions/"];

/// How the value of a keyword holds schemas.
enum Holds<'a> {
    /// By name or position.
    Schemas(Vec<(String, &'a Value)>),
    One(&'a Value),
    Nothing,
}

fn holds<'a>(keyword: &str, value: &'a Value) -> Holds<'a> {
    match value {
        _ if LITERAL_KEYWORDS.contains(&keyword) => Holds::Nothing,
        // An empty one is an element itself, and so are names by name (`dependencies`).
        Value::Object(members)
            if NAME_MAPS.contains(&keyword) && !members.values().all(Value::is_array) =>
        {
            let members = members.iter();
            Holds::Schemas(
                members
                    .map(|(name, value)| (pointer_token(name), value))
                    .collect(),
            )
        }
        Value::Object(_) if SCHEMAS.contains(&keyword) => Holds::One(value),
        Value::Array(items)
            if !items.is_empty()
                && matches!(
                    keyword,
                    "anyOf" | "oneOf" | "allOf" | "prefixItems" | "items"
                ) =>
        {
            let items = items.iter().enumerate();
            Holds::Schemas(
                items
                    .map(|(place, value)| (place.to_string(), value))
                    .collect(),
            )
        }
        _ => Holds::Nothing,
    }
}

/// The JSON pointers of all elements of a schema, which are its keywords and whole subschemas; each after
/// what it stands in.
pub fn elements(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(schema, "", &mut found);
    found
}

fn collect(schema: &Value, at: &str, found: &mut Vec<String>) {
    let Value::Object(members) = schema else {
        return;
    };
    // Keywords first: a subschema without its own keywords is the smaller cause.
    for (keyword, value) in members.iter().filter(|(keyword, _)| *keyword != "type") {
        if matches!(holds(keyword, value), Holds::Nothing) {
            found.push(format!("{at}/{}", pointer_token(keyword)));
        }
    }
    for (keyword, value) in members {
        let place = format!("{at}/{}", pointer_token(keyword));
        let mut add = |place: String, value: &Value| {
            found.push(place.clone());
            collect(value, &place, found);
        };
        match holds(keyword, value) {
            Holds::Schemas(children) => {
                for (name, child) in children {
                    add(format!("{place}/{name}"), child);
                }
            }
            Holds::One(child) => add(place, child),
            Holds::Nothing => {}
        }
    }
}

/// The schema with these elements, what they stand in, the types there, and what they refer to.
pub fn with_only(schema: &Value, kept: &[String]) -> Value {
    let kept = Kept::new(schema, kept);
    kept.pruned(schema, "")
}

/// Where a place of the schema is in [`with_only`]: branches that are left out no longer count.
pub fn place_in(schema: &Value, kept: &[String], place: &str) -> String {
    let kept = Kept::new(schema, kept);
    let (mut at, mut moved) = (String::new(), String::new());
    for segment in place.split('/').skip(1) {
        let number = segment.parse::<usize>().ok();
        let number = number.filter(|_| schema.pointer(&at).is_some_and(Value::is_array));
        let before = number.map(|number| {
            let kept = (0..number).filter(|other| kept.has(&format!("{at}/{other}")));
            kept.count().to_string()
        });
        moved.push('/');
        moved.push_str(before.as_deref().unwrap_or(segment));
        at.push('/');
        at.push_str(segment);
    }
    moved
}

struct Kept(BTreeSet<String>);

impl Kept {
    fn new(schema: &Value, elements: &[String]) -> Self {
        let mut references = Vec::new();
        collect_references(schema, "", &mut references);
        let mut kept = Self(BTreeSet::new());
        let mut open: Vec<String> = elements.to_vec();
        while let Some(place) = open.pop() {
            if !kept.0.insert(place.clone()) {
                continue;
            }
            for (at, target) in &references {
                // What is referred to is there, and what is in a definition is referred to.
                if *at == place {
                    open.push(target.clone());
                }
            }
            let is_inside = |target: &str| is_at_or_in(&place, target);
            // A reference from inside a definition does not reach it. Members are there without one.
            let from_outside = |(at, target): &&(String, String)| {
                DEFINITIONS.iter().any(|name| target.contains(name)) && !is_at_or_in(at, target)
            };
            let outside = || references.iter().filter(from_outside);
            let is_reached =
                |target: &str| outside().any(|(at, other)| other == target && kept.0.contains(at));
            let unreached = outside().find(|(_, target)| is_inside(target) && !is_reached(target));
            open.extend(unreached.map(|(at, _)| at.clone()));
        }
        kept
    }

    fn has(&self, place: &str) -> bool {
        self.0
            .range(place.to_owned()..)
            .next()
            .is_some_and(|first| is_at_or_in(first, place))
            || self
                .0
                .range(format!("{place}/")..)
                .next()
                .is_some_and(|first| is_at_or_in(first, place))
    }

    fn pruned(&self, schema: &Value, at: &str) -> Value {
        let Value::Object(members) = schema else {
            return schema.clone();
        };
        let mut left = Map::new();
        for (keyword, value) in members {
            let place = format!("{at}/{}", pointer_token(keyword));
            let in_place = |name: &str| format!("{place}/{name}");
            let of_children = |children: Vec<(String, &Value)>| -> Vec<(String, Value)> {
                let mut children = children;
                children.retain(|(name, _)| self.has(&in_place(name)));
                let pruned = children.into_iter();
                pruned
                    .map(|(name, child)| {
                        let child = self.pruned(child, &in_place(&name));
                        (pointer_name(&name), child)
                    })
                    .collect()
            };
            let value = match holds(keyword, value) {
                Holds::Nothing => {
                    let is_kept = keyword == "type" || self.0.contains(&place);
                    is_kept.then(|| value.clone())
                }
                Holds::One(child) => self.has(&place).then(|| self.pruned(child, &place)),
                Holds::Schemas(children) => {
                    let children = of_children(children);
                    (!children.is_empty()).then(|| match value {
                        Value::Array(_) => children.into_iter().map(|(_, child)| child).collect(),
                        _ => children.into_iter().collect(),
                    })
                }
            };
            left.extend(value.map(|value| (keyword.clone(), value)));
        }
        drop_missing_names(&mut left, members);
        Value::Object(left)
    }
}

/// Names of members that were left out are not required.
fn drop_missing_names(left: &mut Map<String, Value>, whole: &Map<String, Value>) {
    let properties = |members: &Map<String, Value>, name: &str| {
        let properties = members.get("properties");
        properties.is_some_and(|properties| properties.get(name).is_some())
    };
    let Some(Value::Array(names)) = left.get("required") else {
        return;
    };
    let is_left = |name: &&Value| {
        name.as_str()
            .is_none_or(|name| !properties(whole, name) || properties(left, name))
    };
    let names: Vec<Value> = names.iter().filter(is_left).cloned().collect();
    match names.is_empty() {
        true => drop(left.remove("required")),
        false => drop(left.insert("required".to_owned(), names.into())),
    }
}

/// Whether a place is another one, or in it.
pub fn is_at_or_in(place: &str, other: &str) -> bool {
    let rest = place.strip_prefix(other);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a reference to a place in the schema has no target.
pub fn has_broken_reference(schema: &Value) -> bool {
    let mut references = Vec::new();
    collect_references(schema, "", &mut references);
    let is_broken = |(_, target): &(String, String)| {
        target.starts_with('/') && schema.pointer(target).is_none()
    };
    references.iter().any(is_broken)
}

fn collect_references(value: &Value, at: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let place = format!("{at}/{}", pointer_token(name));
                match value.as_str().and_then(|target| target.strip_prefix('#')) {
                    Some(target) if name == "$ref" => found.push((place, target.to_owned())),
                    _ => collect_references(value, &place, found),
                }
            }
        }
        Value::Array(items) => {
            for (number, value) in items.iter().enumerate() {
                collect_references(value, &format!("{at}/{number}"), found);
            }
        }
        _ => {}
    }
}

/// The subschema at a place as a schema of its own, with the definitions of the root.
pub fn alone(schema: &Value, place: &str) -> Option<Value> {
    let mut part = schema.pointer(place)?.clone();
    if let (Value::Object(members), Value::Object(root)) = (&mut part, schema) {
        for name in ["$defs", "definitions"] {
            if let Some(definitions) = root.get(name)
                && !place.is_empty()
            {
                members.entry(name).or_insert_with(|| definitions.clone());
            }
        }
    }
    Some(part)
}

/// The places of the subschemas that a place stands in, the root first, and its own if it is one.
pub fn subschemas_around(schema: &Value, place: &str) -> Vec<String> {
    let mut places: Vec<String> = elements(schema)
        .into_iter()
        .filter(|other| {
            is_at_or_in(place, other) && schema.pointer(other).is_some_and(Value::is_object)
        })
        .collect();
    places.insert(0, String::new());
    places
}

/// The schema without the keyword or member at a place.
pub fn without(schema: &Value, place: &str) -> Option<Value> {
    let (parent, name) = place.rsplit_once('/')?;
    let name = pointer_name(name);
    let mut changed = schema.clone();
    match changed.pointer_mut(parent)? {
        Value::Object(members) => drop(members.shift_remove(&name)?),
        Value::Array(items) => {
            let place: usize = name.parse().ok()?;
            (place < items.len()).then(|| items.remove(place))?;
        }
        _ => return None,
    }
    // A removed member is not required.
    if let Some((owner, "properties")) = parent.rsplit_once('/')
        && let Some(Value::Object(owner)) = changed.pointer_mut(owner)
        && let Some(Value::Array(names)) = owner.get_mut("required")
    {
        names.retain(|required| required != name.as_str());
        if names.is_empty() {
            owner.shift_remove("required");
        }
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(schema: &Value, places: &[&str]) -> Value {
        let elements: Vec<String> = places.iter().map(|place| (*place).to_owned()).collect();
        with_only(schema, &elements)
    }

    #[test]
    fn kept_elements_keep_their_place_and_types() {
        let schema = json!({
            "type": "object", "title": "t", "required": ["a", "b", "z"],
            "properties": {
                "a": {"type": "string", "maxLength": 9, "minLength": 1},
                "b": {"type": "array", "items": {"type": "object", "properties": {"c/d": {"enum": [1]}}}}
            },
            "additionalProperties": false
        });
        let found: Vec<String> = elements(&schema);
        assert_eq!(
            found,
            [
                "/title",
                "/required",
                "/additionalProperties",
                "/properties/a",
                "/properties/a/maxLength",
                "/properties/a/minLength",
                "/properties/b",
                "/properties/b/items",
                "/properties/b/items/properties/c~1d",
                "/properties/b/items/properties/c~1d/enum"
            ]
        );
        assert_eq!(
            kept(&schema, &["/properties/a/maxLength", "/required"]),
            json!({"type": "object", "required": ["a", "z"], "properties": {"a": {"type": "string", "maxLength": 9}}})
        );
        assert_eq!(
            kept(&schema, &["/properties/b/items/properties/c~1d/enum"]),
            json!({"type": "object", "properties": {"b": {"type": "array", "items": {"type": "object",
                "properties": {"c/d": {"enum": [1]}}}}}})
        );
        let everything: Vec<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(kept(&schema, &everything), schema);
        assert_eq!(kept(&schema, &[]), json!({"type": "object"}));
        let branches = json!({"anyOf": [{"a": 1}, {"b": 1}, {"oneOf": [{}, {"minimum": 2}]}]});
        let element = "/anyOf/2/oneOf/1/minimum".to_owned();
        let only = with_only(&branches, std::slice::from_ref(&element));
        assert_eq!(only, json!({"anyOf": [{"oneOf": [{"minimum": 2}]}]}));
        let place = place_in(&branches, std::slice::from_ref(&element), &element);
        assert_eq!(place, "/anyOf/0/oneOf/0/minimum");
        assert!(elements(&json!(true)).is_empty());
    }

    #[test]
    fn references_are_kept_whole() {
        let schema = json!({
            "properties": {"x": {"$ref": "#/$defs/a"}, "y": {"$ref": "#/$defs/b"}},
            "$defs": {"a": {"type": "object", "properties": {"next": {"$ref": "#/$defs/b"}}}, "b": {"type": "string", "pattern": "p", "maxLength": 3}}
        });
        // A definition that a kept keyword stands in is reached, and what is referred to is there.
        assert_eq!(
            kept(&schema, &["/$defs/b/pattern"]),
            json!({"properties": {"y": {"$ref": "#/$defs/b"}}, "$defs": {"b": {"type": "string", "pattern": "p"}}})
        );
        assert_eq!(
            kept(&schema, &["/properties/x/$ref"]),
            json!({"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "object"}}})
        );
        let cycle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}});
        assert_eq!(kept(&cycle, &["/$defs/a/$ref"]), cycle);
    }

    #[test]
    fn parts_stand_alone_and_can_be_left_out() {
        let schema = json!({"required": ["a"], "properties": {"a": {"items": {"type": "null"}}}, "$defs": {"d": true}});
        assert_eq!(
            alone(&schema, "/properties/a/items").unwrap(),
            json!({"type": "null", "$defs": {"d": true}})
        );
        assert_eq!(alone(&schema, "").unwrap(), schema);
        assert_eq!(
            subschemas_around(&schema, "/properties/a/items/type"),
            ["", "/properties/a", "/properties/a/items"]
        );
        assert_eq!(
            without(&schema, "/properties/a").unwrap(),
            json!({"properties": {}, "$defs": {"d": true}})
        );
        assert_eq!(without(&schema, "/properties/b"), None);
        assert_eq!(
            without(&json!({"anyOf": [true, false]}), "/anyOf/0").unwrap(),
            json!({"anyOf": [false]})
        );
    }
}
