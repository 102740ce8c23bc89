//! Finds every schema that the validator will compile, and how they lie in one another. Knows which keywords hold schemas in which
//! draft; judges nothing and sums up nothing (`shape.rs` does).
//!
//! References are resolved by the registry that the validator itself uses, and followed as its compiler follows them: a schema is
//! compiled once for each base URI and each row of resources that it is reached through, and a reference to what is being compiled
//! leads back there. Whatever we took otherwise would be a way past every bound that is worked out from this.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use jsonschema::ValidationError;
use referencing::{Draft, Error, List, Resolver, Uri, uri};
use serde_json::{Map, Value};

use super::compiled::unusable;
use super::outside;
use crate::verdict::NotScored;

/// Schemas that the validator may compile: those of the largest schema that is taken, and some that are compiled more than once.
const MAX_PARTS: usize = 300_000;

/// Resources that all schemas together may have been reached through: the validator goes through the row of each.
const MAX_SCOPES: usize = 8_000_000;

/// Where a keyword has its schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// A text that refers to one, held against the same value.
    Reference,
    /// Itself, held against the same value.
    InPlace,
    /// In an array, held against the same value.
    InPlaceList,
    /// In an object, held against the same value.
    InPlaceMap,
    /// Itself or in an array, for children.
    Children,
    /// In an object, for children.
    ChildMap,
}

/// Where `keyword` has schemas in `draft`; without a draft, where it has them in any.
fn holds(keyword: &str, draft: Option<Draft>, members: &Map<String, Value>) -> Option<Holds> {
    let since = |first: Draft| draft.is_none_or(|draft| draft >= first);
    let (holds, is_keyword) = match keyword {
        "$ref" => (Holds::Reference, true),
        "$dynamicRef" => (Holds::Reference, since(Draft::Draft202012)),
        "$recursiveRef" => (Holds::Reference, draft.is_none_or(|draft| draft == Draft::Draft201909)),
        "not" => (Holds::InPlace, true),
        "if" => (Holds::InPlace, since(Draft::Draft7)),
        "then" | "else" => (Holds::InPlace, since(Draft::Draft7) && members.contains_key("if")),
        "allOf" | "anyOf" | "oneOf" => (Holds::InPlaceList, true),
        "dependencies" => (Holds::InPlaceMap, true),
        "dependentSchemas" => (Holds::InPlaceMap, since(Draft::Draft201909)),
        "items" | "additionalProperties" => (Holds::Children, true),
        "additionalItems" => (Holds::Children, members.get("items").is_some_and(Value::is_array)),
        "contains" | "propertyNames" => (Holds::Children, since(Draft::Draft6)),
        "unevaluatedItems" | "unevaluatedProperties" => (Holds::Children, since(Draft::Draft201909)),
        "prefixItems" => (Holds::Children, since(Draft::Draft202012)),
        "properties" | "patternProperties" => (Holds::ChildMap, true),
        _ => return None,
    };
    is_keyword.then_some(holds)
}

fn is_old(draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
}

/// Whether the validator looks at the value here before it goes on to any schema in place. There are more keywords that do, but not
/// with every argument: `uniqueItems: false` is not compiled, `minimum` comes after all others.
fn looks(members: &Map<String, Value>, draft: Draft) -> bool {
    let has = |key: &str, enough: fn(&Value) -> bool| members.get(key).is_some_and(enough);
    draft != Draft::Unknown
        && (has("type", |_| true)
            || has("enum", |_| true)
            || (draft != Draft::Draft4 && has("const", |_| true))
            || has("required", |names| names.as_array().is_some_and(|names| !names.is_empty()))
            || has("properties", |schemas| schemas.as_object().is_some_and(|schemas| !schemas.is_empty())))
}

/// A schema as it is compiled.
pub(super) struct Part {
    /// The parts held against the same value.
    pub in_place: Vec<Inner>,
    /// Whether it looks at the value before it asks those.
    pub looks: bool,
    /// Whether it asks what the parts in place have evaluated.
    pub asks_others: bool,
    /// The reference that led here first, for people.
    pub reached_by: Option<String>,
    /// Parts that lie within it in the text of the schema, and itself.
    pub size: u64,
    /// The part in which it lies.
    outer: Option<usize>,
}

/// A part held against the same value as another one.
#[derive(Clone, Copy)]
pub(super) struct Inner {
    pub part: usize,
    /// Whether a reference leads there.
    pub is_referred: bool,
}

/// How a part is reached.
#[derive(Clone)]
struct Context<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
    /// The same for the same base, draft and row of resources.
    number: usize,
    /// Resources in the row.
    scopes: usize,
    /// The last reference that was followed to get here.
    entry: Option<usize>,
}

/// A reference that was followed.
struct Entry {
    alias: usize,
    part: usize,
    before: Option<usize>,
}

type Row = List<Uri<String>>;

/// What is reached from a schema.
#[derive(Default)]
pub(super) struct Survey<'r> {
    pub parts: Vec<Part>,
    /// Schemas that refer to others.
    pub referring: HashSet<usize>,
    /// Patterns for names of members.
    pub name_patterns: HashSet<&'r str>,
    /// Of these, how many the schema with the most of them has.
    pub most_name_patterns: usize,
    /// Whether keywords count in every draft: what `unevaluatedProperties` asks, it asks so.
    in_any_draft: bool,
    pending: Vec<(&'r Value, Context<'r>)>,
    /// Parts by the address of their schema and the number of their context.
    numbers: HashMap<(usize, usize), usize>,
    contexts: HashMap<(Arc<Uri<String>>, Row, Draft), usize>,
    aliases: HashMap<Arc<Uri<String>>, usize>,
    entries: Vec<Entry>,
    scopes: usize,
}

/// Builds the registry that the validator will build for `schema`, and goes through what is reached from there.
pub(super) fn with_survey<T>(schema: &Value, use_it: impl FnOnce(&Survey<'_>) -> T) -> Result<T, NotScored> {
    let draft = Draft::default().detect(schema);
    let resource = draft.create_resource_ref(schema);
    let mut base = uri::from_str(resource.id().unwrap_or("json-schema:///")).map_err(refused)?;
    let registry = outside::registry(base.as_str(), draft, resource).map_err(refused)?;
    if !registry.contains_resource(base.as_str()) {
        base.set_fragment(None);
    }
    let resolver = registry.resolver(base).in_subresource(resource).map_err(refused)?;
    let mut survey = Survey { in_any_draft: may_ask_others(schema, draft), ..Survey::default() };
    let context = survey.context(resolver, draft, None);
    survey.number(schema, &context, None, None);
    survey.explore()?;
    Ok(use_it(&survey))
}

fn refused(error: Error) -> NotScored {
    NotScored::Unsupported { what: unusable(&ValidationError::from(error)) }
}

/// Whether `unevaluatedProperties` or `unevaluatedItems` may count anywhere: in the later drafts, and where `$schema` leads to one.
fn may_ask_others(schema: &Value, draft: Draft) -> bool {
    let (mut asks, mut switches) = (false, !is_old(draft));
    let mut pending = vec![schema];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => {
                asks |= asks_others(members);
                switches |= !std::ptr::eq(value, schema) && members.contains_key("$schema");
                pending.extend(members.values());
            }
            _ => {}
        }
    }
    asks && switches
}

fn asks_others(members: &Map<String, Value>) -> bool {
    members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems")
}

impl<'r> Survey<'r> {
    fn explore(&mut self) -> Result<(), NotScored> {
        let mut next = 0;
        while next < self.pending.len() {
            let (schema, context) = self.pending[next].clone();
            if let Value::Object(members) = schema {
                self.explore_object(next, schema, members, &context)?;
            }
            if self.parts.len() > MAX_PARTS || self.scopes > MAX_SCOPES {
                let what = format!("schema of over {MAX_PARTS} schemas, counted for each way to refer to them");
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
        schema: &'r Value,
        members: &'r Map<String, Value>,
        context: &Context<'r>,
    ) -> Result<(), NotScored> {
        let draft = context.draft;
        let hidden = is_old(draft) && members.contains_key("$ref");
        let hides = hidden && !self.in_any_draft;
        let mut in_place = Vec::new();
        for (key, value) in members.iter().filter(|(key, _)| !hides || *key == "$ref") {
            let Some(holds) = holds(key, (!self.in_any_draft).then_some(draft), members) else { continue };
            if holds == Holds::Reference {
                self.referring.insert(std::ptr::from_ref(schema) as usize);
                if let Some(reference) = value.as_str() {
                    if reference.is_empty() {
                        let what = format!("{key} is empty, which the validator passes over");
                        return Err(NotScored::Unsupported { what });
                    }
                    let inner = self.follow(key, reference, context).map_err(refused)?;
                    in_place.push(Inner { part: inner, is_referred: true });
                }
                continue;
            }
            if key == "patternProperties" {
                let patterns = value.as_object();
                self.most_name_patterns = self.most_name_patterns.max(patterns.map_or(0, Map::len));
                self.name_patterns.extend(patterns.into_iter().flat_map(Map::keys).map(String::as_str));
            }
            for inner in schemas(holds, value) {
                let number = self.below(part, inner, context).map_err(refused)?;
                if matches!(holds, Holds::InPlace | Holds::InPlaceList | Holds::InPlaceMap) {
                    in_place.push(Inner { part: number, is_referred: false });
                }
            }
        }
        let part = &mut self.parts[part];
        part.looks = !hidden && looks(members, draft);
        part.asks_others = !is_old(draft) && asks_others(members);
        part.in_place = in_place;
        Ok(())
    }

    /// The part of a schema that lies in `outer`.
    fn below(&mut self, outer: usize, schema: &'r Value, context: &Context<'r>) -> Result<usize, Error> {
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
    fn follow(&mut self, keyword: &str, reference: &'r str, context: &Context<'r>) -> Result<usize, Error> {
        let base = context.resolver.base_uri();
        let alias = context.resolver.resolve_uri(&base.borrow(), reference)?;
        let resolved = match keyword {
            "$recursiveRef" => context.resolver.lookup_recursive_ref()?,
            _ => context.resolver.lookup(reference)?,
        };
        let (schema, resolver, draft) = resolved.into_inner();
        let mut inner = self.context(resolver, draft, context.entry);
        if let Some(&known) = self.numbers.get(&(std::ptr::from_ref(schema) as usize, inner.number)) {
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
        self.entries.push(Entry { alias, part: self.parts.len(), before: context.entry });
        inner.entry = Some(self.entries.len() - 1);
        Ok(self.number(schema, &inner, None, Some(reference)))
    }

    fn context(&mut self, resolver: Resolver<'r>, draft: Draft, entry: Option<usize>) -> Context<'r> {
        let row = resolver.dynamic_scope();
        let scopes = row.iter().count();
        self.scopes += scopes;
        let next = self.contexts.len();
        let number = *self.contexts.entry((resolver.base_uri(), row, draft)).or_insert(next);
        Context { resolver, draft, number, scopes, entry }
    }

    /// The number of a schema's part, which is made on its first mention.
    fn number(&mut self, schema: &'r Value, context: &Context<'r>, outer: Option<usize>, reached_by: Option<&str>) -> usize {
        let next = self.parts.len();
        let number = *self.numbers.entry((std::ptr::from_ref(schema) as usize, context.number)).or_insert(next);
        if number == next {
            let reached_by = reached_by.map(str::to_owned);
            self.parts.push(Part { in_place: Vec::new(), looks: false, asks_others: false, reached_by, size: 1, outer });
            self.pending.push((schema, context.clone()));
            self.scopes += context.scopes;
        }
        number
    }
}

/// The schemas in the value of a keyword; what is none is left to the validator to refuse.
fn schemas(holds: Holds, value: &Value) -> Vec<&Value> {
    let found: Vec<&Value> = match (holds, value) {
        (Holds::InPlaceList | Holds::Children, Value::Array(schemas)) => schemas.iter().collect(),
        (Holds::InPlaceMap | Holds::ChildMap, Value::Object(schemas)) => schemas.values().collect(),
        (Holds::InPlace | Holds::Children, schema) => vec![schema],
        _ => Vec::new(),
    };
    found.into_iter().filter(|schema| schema.is_object() || schema.is_boolean()).collect()
}
