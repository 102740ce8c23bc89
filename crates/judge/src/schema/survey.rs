//! Cost of a schema, worked out before the validator compiles it: the schemas that it will compile,
//! and how they lie in one another. Without that a small schema makes the compiler take all memory,
//! or the validator run for years (`docs/decisions/judge-bounds.md`).
//!
//! Two kinds of subschemas matter: those *in place*, which apply to the same value (`allOf`, `if`,
//! `$ref` ...), and those of a value's children. Only the former can multiply without the document
//! growing, or lead back to where they began.
//!
//! References are resolved by the registry that the validator itself uses, and followed as its
//! compiler follows them: a schema is compiled once for each base URI and each row of resources
//! that it is reached through, and a reference to what is being compiled leads back there. A
//! difference between the two would be a way past every bound that is worked out here.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Retrieve, ValidationError};
use referencing::{Draft, Error, List, Registry, Resolver, Uri, uri};
use serde_json::{Map, Value};

use super::{clipped, unusable};
use sobench_core::verdict::NotScored;

/// Schemas that the validator may compile: those of the largest schema that is taken, and some that
/// are compiled more than once.
const MAX_PARTS: usize = 300_000;

/// Resources that all schemas together may have been reached through: the validator goes through
/// the row of each.
const MAX_SCOPES: usize = 8_000_000;

/// Schemas in place that all `unevaluatedProperties` and `unevaluatedItems` of a schema have to ask
/// together.
const MAX_UNEVALUATED: u64 = 50_000;

/// The registry's address of a document without one of its own.
const NO_BASE: &str = "json-schema:///";

/// What a schema asks for, at most.
#[derive(Debug)]
pub(super) struct Cost {
    /// Schemas that the validator compiles.
    pub parts: usize,
    /// Schemas that can lie inside one another in place.
    pub in_place: usize,
    /// Schemas that may be gone through between two looks at the document.
    pub between_looks: u64,
    /// Schemas that `unevaluatedProperties` and `unevaluatedItems` ask. The validator compiles a
    /// copy of them for each: those in place and, where a reference leads there, all that lies in
    /// them.
    pub unevaluated: u64,
    /// Patterns for names of members.
    pub name_patterns: Vec<String>,
    /// Of these, how many the schema with the most of them has.
    pub most_name_patterns: usize,
}

impl Cost {
    /// Works out what `schema` asks for.
    ///
    /// # Errors
    /// A reference that leads nowhere, out of the document or back to itself in place; more schemas
    /// than the bounds allow.
    pub(super) fn of(schema: &Value) -> Result<Self, NotScored> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let mut base = uri::from_str(resource.id().unwrap_or(NO_BASE)).map_err(refused)?;
        let outside = Outside::default();
        let registry = Registry::new()
            .retriever(outside.clone())
            .draft(draft)
            .add(base.as_str(), resource);
        let registry = registry
            .and_then(|registry| registry.prepare())
            .map_err(refused)?;
        if !registry.contains_resource(base.as_str()) {
            base.set_fragment(None);
        }
        let resolver = registry
            .resolver(base)
            .in_subresource(resource)
            .map_err(refused)?;
        let outside =
            std::mem::take(&mut *outside.0.lock().unwrap_or_else(PoisonError::into_inner));
        let mut survey = Survey {
            in_any_draft: mentions_unevaluated(schema),
            outside,
            ..Survey::default()
        };
        let context = survey.context(resolver, draft, None);
        survey.number(schema, &context, None, None);
        survey.explore()?;
        survey.sum_up()
    }
}

fn refused(error: Error) -> NotScored {
    NotScored::Unsupported {
        what: unusable(&ValidationError::from(error)),
    }
}

/// Takes each document outside of the schema's own for an empty one, without opening anything, and
/// keeps its address.
#[derive(Clone, Default)]
struct Outside(Arc<Mutex<HashSet<String>>>);

impl Retrieve for Outside {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(uri.as_str().to_owned());
        Ok(Value::Bool(true))
    }
}

/// How a keyword applies the schemas that it holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// By a text that refers to one, to the same value.
    Reference,
    /// To the same value.
    InPlace,
    /// To children of the value.
    Children,
}

/// How `keyword` applies schemas in `draft`; without a draft, how it does in any.
fn holds(keyword: &str, draft: Option<Draft>, members: &Map<String, Value>) -> Option<Holds> {
    let since = |first: Draft| draft.is_none_or(|draft| draft >= first);
    let (holds, is_keyword) = match keyword {
        "$ref" => (Holds::Reference, true),
        "$dynamicRef" => (Holds::Reference, since(Draft::Draft202012)),
        "$recursiveRef" => (
            Holds::Reference,
            draft.is_none_or(|draft| draft == Draft::Draft201909),
        ),
        "not" | "allOf" | "anyOf" | "oneOf" | "dependencies" => (Holds::InPlace, true),
        "if" => (Holds::InPlace, since(Draft::Draft7)),
        "then" | "else" => (
            Holds::InPlace,
            since(Draft::Draft7) && members.contains_key("if"),
        ),
        "dependentSchemas" => (Holds::InPlace, since(Draft::Draft201909)),
        "items" | "additionalProperties" | "properties" | "patternProperties" => {
            (Holds::Children, true)
        }
        "additionalItems" => (
            Holds::Children,
            members.get("items").is_some_and(Value::is_array),
        ),
        "contains" | "propertyNames" => (Holds::Children, since(Draft::Draft6)),
        "unevaluatedItems" | "unevaluatedProperties" => {
            (Holds::Children, since(Draft::Draft201909))
        }
        "prefixItems" => (Holds::Children, since(Draft::Draft202012)),
        _ => return None,
    };
    is_keyword.then_some(holds)
}

/// The schemas in the value of a keyword. Values of a wrong type are left to the validator to
/// refuse.
fn schemas<'r>(keyword: &str, value: &'r Value) -> Vec<&'r Value> {
    let found: Vec<&Value> = match (keyword, value) {
        (
            "properties" | "patternProperties" | "dependencies" | "dependentSchemas",
            Value::Object(map),
        ) => map.values().collect(),
        (_, Value::Array(list)) => list.iter().collect(),
        _ => vec![value],
    };
    found
        .into_iter()
        .filter(|schema| schema.is_object() || schema.is_boolean())
        .collect()
}

fn is_old(draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
}

/// Whether the validator looks at the value here before it goes on to any schema in place. There
/// are more keywords that do, but not with every argument: `uniqueItems: false` is not compiled,
/// `minimum` comes after all others.
fn looks(members: &Map<String, Value>, draft: Draft) -> bool {
    let has = |key: &str, enough: fn(&Value) -> bool| members.get(key).is_some_and(enough);
    draft != Draft::Unknown
        && (has("type", |_| true)
            || has("enum", |_| true)
            || (draft != Draft::Draft4 && has("const", |_| true))
            || has("required", |names| {
                names.as_array().is_some_and(|names| !names.is_empty())
            })
            || has("properties", |schemas| {
                schemas
                    .as_object()
                    .is_some_and(|schemas| !schemas.is_empty())
            }))
}

fn asks_others(members: &Map<String, Value>) -> bool {
    members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems")
}

fn mentions_unevaluated(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(mentions_unevaluated),
        Value::Object(members) => {
            asks_others(members) || members.values().any(mentions_unevaluated)
        }
        _ => false,
    }
}

/// A schema as it is compiled.
#[derive(Default)]
struct Part<'r> {
    /// The parts that apply to the same value.
    in_place: Vec<usize>,
    /// Whether it looks at the value before it asks those.
    looks: bool,
    /// Whether it asks what the parts in place have evaluated.
    asks_others: bool,
    /// The reference that led here first, for messages.
    reached_by: Option<&'r str>,
    /// Parts that lie within it in the text of the schema, and itself.
    size: u64,
    /// The part in which it lies; none for the target of a reference.
    outer: Option<usize>,
}

/// How a part is reached.
#[derive(Clone)]
struct Context<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
    /// The same for the same base, draft and row of resources.
    number: usize,
    /// The last reference that was followed to get here.
    entry: Option<usize>,
}

/// A reference that was followed.
struct Entry {
    alias: usize,
    part: usize,
    before: Option<usize>,
}

/// Base, row of resources, draft.
type ContextKey = (Arc<Uri<String>>, List<Uri<String>>, Draft);

/// What is reached from a schema.
#[derive(Default)]
struct Survey<'r> {
    parts: Vec<Part<'r>>,
    name_patterns: HashSet<&'r str>,
    most_name_patterns: usize,
    /// Whether keywords count in every draft: what `unevaluatedProperties` asks, it asks so.
    in_any_draft: bool,
    /// Addresses of documents that the schema refers to and does not hold.
    outside: HashSet<String>,
    pending: Vec<(&'r Value, Context<'r>)>,
    /// Parts by the address of their schema and the number of their context.
    numbers: HashMap<(usize, usize), usize>,
    contexts: HashMap<ContextKey, usize>,
    aliases: HashMap<Arc<Uri<String>>, usize>,
    entries: Vec<Entry>,
    /// Resources in the rows of all parts.
    scopes: usize,
}

impl<'r> Survey<'r> {
    fn explore(&mut self) -> Result<(), NotScored> {
        let mut next = 0;
        while next < self.pending.len() {
            let (schema, context) = self.pending[next].clone();
            if let Value::Object(members) = schema {
                self.explore_object(next, members, &context)?;
            }
            if self.parts.len() > MAX_PARTS || self.scopes > MAX_SCOPES {
                let what = format!(
                    "schema of over {MAX_PARTS} schemas, counted for each way to refer to them"
                );
                return Err(NotScored::Limit { what });
            }
            next += 1;
        }
        // What lies within another part has a higher number.
        for part in (0..self.parts.len()).rev() {
            if let Some(outer) = self.parts[part].outer {
                self.parts[outer].size += self.parts[part].size;
            }
        }
        Ok(())
    }

    fn explore_object(
        &mut self,
        part: usize,
        members: &'r Map<String, Value>,
        context: &Context<'r>,
    ) -> Result<(), NotScored> {
        let draft = context.draft;
        let hidden = is_old(draft) && members.contains_key("$ref");
        let hides = hidden && !self.in_any_draft;
        for (key, value) in members.iter().filter(|(key, _)| !hides || *key == "$ref") {
            let Some(holds) = holds(key, (!self.in_any_draft).then_some(draft), members) else {
                continue;
            };
            if holds == Holds::Reference {
                if let Some(reference) = value.as_str() {
                    let inner = self.follow(key, reference, context)?;
                    self.parts[part].in_place.push(inner);
                }
                continue;
            }
            if key == "patternProperties" {
                let patterns = value.as_object();
                self.most_name_patterns = self.most_name_patterns.max(patterns.map_or(0, Map::len));
                self.name_patterns
                    .extend(patterns.into_iter().flat_map(Map::keys).map(String::as_str));
            }
            for schema in schemas(key, value) {
                let inner = self.below(part, schema, context).map_err(refused)?;
                if holds == Holds::InPlace {
                    self.parts[part].in_place.push(inner);
                }
            }
        }
        self.parts[part].looks = !hidden && looks(members, draft);
        self.parts[part].asks_others = !is_old(draft) && asks_others(members);
        Ok(())
    }

    /// The part of a schema that lies in `outer`.
    fn below(
        &mut self,
        outer: usize,
        schema: &'r Value,
        context: &Context<'r>,
    ) -> Result<usize, Error> {
        let draft = context.draft.detect(schema);
        let resource = draft.create_resource_ref(schema);
        if draft == context.draft && resource.id().is_none() {
            return Ok(self.number(schema, context, Some(outer), None));
        }
        let resolver = context.resolver.in_subresource(resource)?;
        let inner = self.context(resolver, draft, context.entry);
        Ok(self.number(schema, &inner, Some(outer), None))
    }

    /// The part that a reference leads to.
    fn follow(
        &mut self,
        keyword: &str,
        reference: &'r str,
        context: &Context<'r>,
    ) -> Result<usize, NotScored> {
        if reference.is_empty() {
            return Err(NotScored::Unsupported {
                what: format!("{keyword} is empty, which the validator passes over"),
            });
        }
        let base = context.resolver.base_uri();
        let alias = context
            .resolver
            .resolve_uri(&base.borrow(), reference)
            .map_err(refused)?;
        if let Some(outside) = alias
            .as_str()
            .split('#')
            .next()
            .filter(|address| self.outside.contains(*address))
        {
            let address = outside.strip_prefix(NO_BASE).unwrap_or(outside);
            return Err(NotScored::Unsupported {
                what: clipped(&format!("$ref to {address} is outside the document")),
            });
        }
        let resolved = match keyword {
            "$recursiveRef" => context.resolver.lookup_recursive_ref(),
            _ => context.resolver.lookup(reference),
        };
        let (schema, resolver, draft) = resolved.map_err(refused)?.into_inner();
        let mut inner = self.context(resolver, draft, context.entry);
        if let Some(&known) = self
            .numbers
            .get(&(std::ptr::from_ref(schema) as usize, inner.number))
        {
            return Ok(known);
        }
        let next = self.aliases.len();
        let alias = *self.aliases.entry(alias).or_insert(next);
        if alias < next {
            let mut entered = context.entry;
            while let Some(entry) = entered.map(|entry| &self.entries[entry]) {
                if entry.alias == alias {
                    return Ok(entry.part);
                }
                entered = entry.before;
            }
        }
        self.entries.push(Entry {
            alias,
            part: self.parts.len(),
            before: context.entry,
        });
        inner.entry = Some(self.entries.len() - 1);
        Ok(self.number(schema, &inner, None, Some(reference)))
    }

    fn context(
        &mut self,
        resolver: Resolver<'r>,
        draft: Draft,
        entry: Option<usize>,
    ) -> Context<'r> {
        let row = resolver.dynamic_scope();
        let next = self.contexts.len();
        let number = *self
            .contexts
            .entry((resolver.base_uri(), row, draft))
            .or_insert(next);
        Context {
            resolver,
            draft,
            number,
            entry,
        }
    }

    /// The number of a schema's part, which is made on its first mention.
    fn number(
        &mut self,
        schema: &'r Value,
        context: &Context<'r>,
        outer: Option<usize>,
        reached_by: Option<&'r str>,
    ) -> usize {
        let next = self.parts.len();
        let number = *self
            .numbers
            .entry((std::ptr::from_ref(schema) as usize, context.number))
            .or_insert(next);
        if number == next {
            self.parts.push(Part {
                reached_by,
                size: 1,
                outer,
                ..Part::default()
            });
            self.pending.push((schema, context.clone()));
            self.scopes += context.resolver.dynamic_scope().iter().count();
        }
        number
    }

    fn sum_up(&self) -> Result<Cost, NotScored> {
        let parts = &self.parts;
        let order = innermost_first(parts).map_err(|part| {
            let circle = parts[part].reached_by.unwrap_or("#");
            let what = "$ref that leads back to itself without going into the document, which JSON Schema leaves undefined";
            NotScored::Unsupported { what: clipped(&format!("{what}: {circle}")) }
        })?;
        let (mut between, mut asked, mut depth) = (
            vec![1_u64; parts.len()],
            vec![1_u64; parts.len()],
            vec![1; parts.len()],
        );
        let (mut between_looks, mut unevaluated) = (0, 0_u64);
        for part in order {
            let Part {
                in_place,
                looks,
                asks_others,
                ..
            } = &parts[part];
            let sum = in_place
                .iter()
                .fold(1_u64, |sum, &inner| sum.saturating_add(between[inner]));
            between_looks = between_looks.max(sum);
            between[part] = if *looks { 0 } else { sum };
            asked[part] = in_place.iter().fold(1, |sum, &inner| {
                let lies_in_it = if parts[inner].outer == Some(part) {
                    0
                } else {
                    parts[inner].size
                };
                sum.saturating_add(asked[inner]).saturating_add(lies_in_it)
            });
            unevaluated = unevaluated.saturating_add(if *asks_others { asked[part] } else { 0 });
            depth[part] = 1 + in_place
                .iter()
                .map(|&inner| depth[inner])
                .max()
                .unwrap_or(0);
        }
        if unevaluated > MAX_UNEVALUATED {
            let what = format!(
                "schema with over {MAX_UNEVALUATED} schemas to ask for what is unevaluated"
            );
            return Err(NotScored::Limit { what });
        }
        Ok(Cost {
            parts: parts.len(),
            in_place: depth.into_iter().max().unwrap_or(0),
            between_looks,
            unevaluated,
            name_patterns: self
                .name_patterns
                .iter()
                .map(|pattern| (*pattern).to_owned())
                .collect(),
            most_name_patterns: self.most_name_patterns,
        })
    }
}

/// All parts, each after those in place below it; or a part that leads back to itself in place.
/// Walks without recursion.
fn innermost_first(parts: &[Part<'_>]) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy)]
    enum State {
        New,
        OnPath,
        Done,
    }
    let (mut order, mut states) = (Vec::new(), vec![State::New; parts.len()]);
    for first in 0..parts.len() {
        let mut path = vec![(first, 0)];
        while let Some((part, next)) = path.pop() {
            match (next, states[part]) {
                (0, State::Done) => continue,
                (0, State::OnPath) => return Err(part),
                _ => states[part] = State::OnPath,
            }
            if let Some(&inner) = parts[part].in_place.get(next) {
                path.extend([(part, next + 1), (inner, 0)]);
            } else {
                states[part] = State::Done;
                order.push(part);
            }
        }
    }
    Ok(order)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keywords_that_always_look_at_the_value_are_told_from_others() {
        for (schema, between_looks) in [
            (json!({}), 1),
            (
                json!({ "anyOf": [{ "type": "null" }, { "$ref": "#/$defs/a" }], "$defs": { "a": { "const": 1 } } }),
                2,
            ),
            (json!({ "anyOf": [true, false, { "not": {} }] }), 5),
            (
                json!({ "$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/a", "allOf": [{}, {}, {}], "a": {} }),
                2,
            ),
            (
                json!({ "allOf": [{ "required": ["a"], "not": {} }, { "required": ["a"], "not": {} }] }),
                2,
            ),
            (
                json!({ "allOf": [{ "required": [], "not": {} }, { "required": [], "not": {} }] }),
                5,
            ),
        ] {
            assert_eq!(
                Cost::of(&schema).unwrap().between_looks,
                between_looks,
                "{schema}"
            );
        }
    }

    #[test]
    fn parts_nesting_and_what_is_asked_are_counted() {
        let cost = |schema: &Value| Cost::of(schema).unwrap();
        let schema = json!({ "allOf": [{ "not": { "type": "null" } }], "items": { "$ref": "#/$defs/a" }, "$defs": { "a": {} } });
        assert_eq!((cost(&schema).in_place, cost(&schema).parts), (3, 5));
        // References count with what lies in their targets.
        let large = json!({ "properties": { "a": {}, "b": {}, "c": {} } });
        let asking = |inner: &Value| json!({ "$defs": { "a": large }, "allOf": [inner], "unevaluatedProperties": false });
        assert_eq!(
            cost(&asking(&json!({ "$ref": "#/$defs/a" }))).unevaluated,
            1 + 1 + (4 + 1)
        );
        assert_eq!(cost(&asking(&large)).unevaluated, 1 + 1);
    }
}
