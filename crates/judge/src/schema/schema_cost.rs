//! Estimates the cost of a schema before the validator compiles it: the number of schemas to
//! compile, and their nesting. Without the estimate, a small schema could make the compiler use all
//! memory or the validator run for years (`docs/decisions/judge-bounds.md`).
//!
//! There are two kinds of subschemas: *in-place* ones apply to the same value (`allOf`, `if`,
//! `$ref` ...), the others to its children. Only in-place ones can multiply without a larger
//! document, or form a cycle.
//!
//! References are resolved by the validator's registry and followed like its compiler follows them:
//! a schema is compiled once per base URI and chain of resources through which it is reached, and a
//! reference to a schema that is being compiled refers back to it. Any difference would allow
//! schemas to bypass the limits.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Retrieve, ValidationError};
use referencing::{Draft, Error, List, Registry, Resolver, Uri, uri};
use serde_json::{Map, Value};

use super::{truncate_message, unusable_reason};
use sobench_core::verdict::NotScored;

/// Maximum number of schemas that the validator may compile: those of the largest accepted schema,
/// with a margin for schemas that are compiled several times.
const MAX_COMPILED_SCHEMAS: usize = 300_000;

/// Maximum total length of the resource chains of all schemas: the validator walks the chain of
/// each.
const MAX_SCOPE_ENTRIES: usize = 8_000_000;

/// Maximum number of in-place schemas that all `unevaluatedProperties` and `unevaluatedItems` of a
/// schema evaluate together.
const MAX_UNEVALUATED_SCHEMAS: u64 = 50_000;

/// The registry's URI of a document without `$id`.
const DEFAULT_BASE_URI: &str = "json-schema:///";

/// Upper bounds of the cost of a schema.
#[derive(Debug)]
pub(super) struct SchemaCost {
    /// Number of schemas that the validator compiles.
    pub schema_count: usize,
    /// Maximum nesting of in-place schemas.
    pub in_place_depth: usize,
    /// Maximum number of schemas evaluated between two reads of the document.
    pub max_schemas_between_reads: u64,
    /// Number of schemas that `unevaluatedProperties` and `unevaluatedItems` evaluate. The
    /// validator compiles a copy for each: the in-place schemas and, for targets of references, all
    /// schemas inside them.
    pub unevaluated_schemas: u64,
    /// Patterns of `patternProperties`.
    pub name_patterns: Vec<String>,
    /// Maximum number of these patterns in one schema.
    pub max_name_patterns: usize,
}

impl SchemaCost {
    /// Estimates the cost of `schema`.
    ///
    /// # Errors
    /// A reference that is unresolvable, external or cyclic in place, or more schemas than the
    /// limits allow.
    pub(super) fn estimate(schema: &Value) -> Result<Self, NotScored> {
        let draft = Draft::default().detect(schema);
        let resource = draft.create_resource_ref(schema);
        let mut base =
            uri::from_str(resource.id().unwrap_or(DEFAULT_BASE_URI)).map_err(reference_error)?;
        let external_documents = ExternalDocuments::default();
        let registry = Registry::new()
            .retriever(external_documents.clone())
            .draft(draft)
            .add(base.as_str(), resource);
        let registry = registry
            .and_then(|registry| registry.prepare())
            .map_err(reference_error)?;
        if !registry.contains_resource(base.as_str()) {
            base.set_fragment(None);
        }
        let resolver = registry
            .resolver(base)
            .in_subresource(resource)
            .map_err(reference_error)?;
        let external_uris = std::mem::take(
            &mut *external_documents
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        );
        let mut graph = SchemaGraph {
            in_any_draft: mentions_unevaluated(schema),
            external_uris,
            ..SchemaGraph::default()
        };
        let context = graph.context_for(resolver, draft, None);
        graph.node_id(schema, &context, None, None);
        graph.explore()?;
        graph.total_cost()
    }
}

fn reference_error(error: Error) -> NotScored {
    NotScored::Unsupported {
        what: unusable_reason(&ValidationError::from(error)),
    }
}

/// Resolves each external document to an empty one without opening anything, and records its URI.
#[derive(Clone, Default)]
struct ExternalDocuments(Arc<Mutex<HashSet<String>>>);

impl Retrieve for ExternalDocuments {
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

/// How a keyword applies its subschemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Application {
    /// To the same value, by a reference.
    Reference,
    /// To the same value.
    InPlace,
    /// To children of the value.
    Children,
}

/// How `keyword` applies subschemas in `draft`. Without a draft: in any draft.
fn application(
    keyword: &str,
    draft: Option<Draft>,
    members: &Map<String, Value>,
) -> Option<Application> {
    let is_since = |first: Draft| draft.is_none_or(|draft| draft >= first);
    let (application, is_keyword) = match keyword {
        "$ref" => (Application::Reference, true),
        "$dynamicRef" => (Application::Reference, is_since(Draft::Draft202012)),
        "$recursiveRef" => (
            Application::Reference,
            draft.is_none_or(|draft| draft == Draft::Draft201909),
        ),
        "not" | "allOf" | "anyOf" | "oneOf" | "dependencies" => (Application::InPlace, true),
        "if" => (Application::InPlace, is_since(Draft::Draft7)),
        "then" | "else" => (
            Application::InPlace,
            is_since(Draft::Draft7) && members.contains_key("if"),
        ),
        "dependentSchemas" => (Application::InPlace, is_since(Draft::Draft201909)),
        "items" | "additionalProperties" | "properties" | "patternProperties" => {
            (Application::Children, true)
        }
        "additionalItems" => (
            Application::Children,
            members.get("items").is_some_and(Value::is_array),
        ),
        "contains" | "propertyNames" => (Application::Children, is_since(Draft::Draft6)),
        "unevaluatedItems" | "unevaluatedProperties" => {
            (Application::Children, is_since(Draft::Draft201909))
        }
        "prefixItems" => (Application::Children, is_since(Draft::Draft202012)),
        _ => return None,
    };
    is_keyword.then_some(application)
}

/// The subschemas in the value of a keyword. The validator refuses values of a wrong type.
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

fn is_before_2019(draft: Draft) -> bool {
    matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
}

/// Whether the validator reads the value before it evaluates an in-place schema. More keywords read
/// it, but not with every argument: `uniqueItems: false` is not compiled, `minimum` is evaluated
/// last.
fn reads_first(members: &Map<String, Value>, draft: Draft) -> bool {
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

fn has_unevaluated(members: &Map<String, Value>) -> bool {
    members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems")
}

fn mentions_unevaluated(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(mentions_unevaluated),
        Value::Object(members) => {
            has_unevaluated(members) || members.values().any(mentions_unevaluated)
        }
        _ => false,
    }
}

/// A compiled schema.
#[derive(Default)]
struct Node<'r> {
    /// In-place subschemas.
    in_place: Vec<usize>,
    /// Whether it reads the value before it evaluates them.
    reads_first: bool,
    /// Whether it evaluates them again for `unevaluatedProperties` or `unevaluatedItems`.
    has_unevaluated: bool,
    /// The first reference to this schema, for messages.
    reached_by: Option<&'r str>,
    /// Number of schemas inside it in the text, including itself.
    size: u64,
    /// The enclosing schema. `None` for the target of a reference.
    outer: Option<usize>,
}

/// Context in which a schema is reached.
#[derive(Clone)]
struct Context<'r> {
    resolver: Resolver<'r>,
    draft: Draft,
    /// Id of the combination of base URI, draft and resource chain.
    id: usize,
    /// The last followed reference.
    entry: Option<usize>,
}

/// A followed reference.
struct Entry {
    alias: usize,
    node: usize,
    before: Option<usize>,
}

/// Base URI, resource chain, draft.
type ContextKey = (Arc<Uri<String>>, List<Uri<String>>, Draft);

/// Graph of the schemas that are reachable from a schema.
#[derive(Default)]
struct SchemaGraph<'r> {
    nodes: Vec<Node<'r>>,
    name_patterns: HashSet<&'r str>,
    max_name_patterns: usize,
    /// Whether keywords of all drafts count: `unevaluatedProperties` evaluates them regardless of
    /// the draft.
    in_any_draft: bool,
    /// URIs of external documents.
    external_uris: HashSet<String>,
    pending: Vec<(&'r Value, Context<'r>)>,
    /// Node ids by the memory address of the schema and the id of the context.
    node_ids: HashMap<(usize, usize), usize>,
    contexts: HashMap<ContextKey, usize>,
    aliases: HashMap<Arc<Uri<String>>, usize>,
    entries: Vec<Entry>,
    /// Total length of the resource chains of all nodes.
    scopes: usize,
}

impl<'r> SchemaGraph<'r> {
    fn explore(&mut self) -> Result<(), NotScored> {
        let mut next = 0;
        while next < self.pending.len() {
            let (schema, context) = self.pending[next].clone();
            if let Value::Object(members) = schema {
                self.explore_object(next, members, &context)?;
            }
            if self.nodes.len() > MAX_COMPILED_SCHEMAS || self.scopes > MAX_SCOPE_ENTRIES {
                let what = format!(
                    "schema with over {MAX_COMPILED_SCHEMAS} subschemas, counted once per reference path"
                );
                return Err(NotScored::Limit { what });
            }
            next += 1;
        }
        // Inner schemas have higher ids.
        for node in (0..self.nodes.len()).rev() {
            if let Some(outer) = self.nodes[node].outer {
                self.nodes[outer].size += self.nodes[node].size;
            }
        }
        Ok(())
    }

    fn explore_object(
        &mut self,
        node: usize,
        members: &'r Map<String, Value>,
        context: &Context<'r>,
    ) -> Result<(), NotScored> {
        let draft = context.draft;
        let is_ref_only = is_before_2019(draft) && members.contains_key("$ref");
        let ignores_siblings = is_ref_only && !self.in_any_draft;
        for (key, value) in members
            .iter()
            .filter(|(key, _)| !ignores_siblings || *key == "$ref")
        {
            let Some(application) =
                application(key, (!self.in_any_draft).then_some(draft), members)
            else {
                continue;
            };
            if application == Application::Reference {
                if let Some(reference) = value.as_str() {
                    let inner = self.follow_reference(key, reference, context)?;
                    self.nodes[node].in_place.push(inner);
                }
                continue;
            }
            if key == "patternProperties" {
                let patterns = value.as_object();
                self.max_name_patterns = self.max_name_patterns.max(patterns.map_or(0, Map::len));
                self.name_patterns
                    .extend(patterns.into_iter().flat_map(Map::keys).map(String::as_str));
            }
            for schema in schemas(key, value) {
                let inner = self
                    .inner_node(node, schema, context)
                    .map_err(reference_error)?;
                if application == Application::InPlace {
                    self.nodes[node].in_place.push(inner);
                }
            }
        }
        self.nodes[node].reads_first = !is_ref_only && reads_first(members, draft);
        self.nodes[node].has_unevaluated = !is_before_2019(draft) && has_unevaluated(members);
        Ok(())
    }

    /// Returns the node of a schema inside `outer`.
    fn inner_node(
        &mut self,
        outer: usize,
        schema: &'r Value,
        context: &Context<'r>,
    ) -> Result<usize, Error> {
        let draft = context.draft.detect(schema);
        let resource = draft.create_resource_ref(schema);
        if draft == context.draft && resource.id().is_none() {
            return Ok(self.node_id(schema, context, Some(outer), None));
        }
        let resolver = context.resolver.in_subresource(resource)?;
        let inner = self.context_for(resolver, draft, context.entry);
        Ok(self.node_id(schema, &inner, Some(outer), None))
    }

    /// Returns the node that a reference refers to.
    fn follow_reference(
        &mut self,
        keyword: &str,
        reference: &'r str,
        context: &Context<'r>,
    ) -> Result<usize, NotScored> {
        if reference.is_empty() {
            return Err(NotScored::Unsupported {
                what: format!("{keyword} is empty, which the validator ignores"),
            });
        }
        let base = context.resolver.base_uri();
        let alias = context
            .resolver
            .resolve_uri(&base.borrow(), reference)
            .map_err(reference_error)?;
        if let Some(external_uri) = alias
            .as_str()
            .split('#')
            .next()
            .filter(|uri| self.external_uris.contains(*uri))
        {
            let shown_uri = external_uri
                .strip_prefix(DEFAULT_BASE_URI)
                .unwrap_or(external_uri);
            return Err(NotScored::Unsupported {
                what: truncate_message(&format!("$ref to {shown_uri} is outside the document")),
            });
        }
        let resolved = match keyword {
            "$recursiveRef" => context.resolver.lookup_recursive_ref(),
            _ => context.resolver.lookup(reference),
        };
        let (schema, resolver, draft) = resolved.map_err(reference_error)?.into_inner();
        let mut inner = self.context_for(resolver, draft, context.entry);
        if let Some(&known) = self
            .node_ids
            .get(&(std::ptr::from_ref(schema) as usize, inner.id))
        {
            return Ok(known);
        }
        let next = self.aliases.len();
        let alias = *self.aliases.entry(alias).or_insert(next);
        if alias < next {
            let mut entry_id = context.entry;
            while let Some(entry) = entry_id.map(|entry| &self.entries[entry]) {
                if entry.alias == alias {
                    return Ok(entry.node);
                }
                entry_id = entry.before;
            }
        }
        self.entries.push(Entry {
            alias,
            node: self.nodes.len(),
            before: context.entry,
        });
        inner.entry = Some(self.entries.len() - 1);
        Ok(self.node_id(schema, &inner, None, Some(reference)))
    }

    fn context_for(
        &mut self,
        resolver: Resolver<'r>,
        draft: Draft,
        entry: Option<usize>,
    ) -> Context<'r> {
        let scope = resolver.dynamic_scope();
        let next = self.contexts.len();
        let id = *self
            .contexts
            .entry((resolver.base_uri(), scope, draft))
            .or_insert(next);
        Context {
            resolver,
            draft,
            id,
            entry,
        }
    }

    /// Returns the node id of a schema, creating the node on first use.
    fn node_id(
        &mut self,
        schema: &'r Value,
        context: &Context<'r>,
        outer: Option<usize>,
        reached_by: Option<&'r str>,
    ) -> usize {
        let next = self.nodes.len();
        let id = *self
            .node_ids
            .entry((std::ptr::from_ref(schema) as usize, context.id))
            .or_insert(next);
        if id == next {
            self.nodes.push(Node {
                reached_by,
                size: 1,
                outer,
                ..Node::default()
            });
            self.pending.push((schema, context.clone()));
            self.scopes += context.resolver.dynamic_scope().iter().count();
        }
        id
    }

    fn total_cost(&self) -> Result<SchemaCost, NotScored> {
        let nodes = &self.nodes;
        let order = topological_order(nodes).map_err(|node| {
            let reference = nodes[node].reached_by.unwrap_or("#");
            let what = "$ref refers back to itself without descending into the document, which JSON Schema leaves undefined";
            NotScored::Unsupported { what: truncate_message(&format!("{what}: {reference}")) }
        })?;
        let (mut schemas_between_reads, mut evaluated, mut depth) = (
            vec![1_u64; nodes.len()],
            vec![1_u64; nodes.len()],
            vec![1; nodes.len()],
        );
        let (mut max_schemas_between_reads, mut unevaluated_schemas) = (0, 0_u64);
        for node in order {
            let Node {
                in_place,
                reads_first,
                has_unevaluated,
                ..
            } = &nodes[node];
            let sum = in_place.iter().fold(1_u64, |sum, &inner| {
                sum.saturating_add(schemas_between_reads[inner])
            });
            max_schemas_between_reads = max_schemas_between_reads.max(sum);
            schemas_between_reads[node] = if *reads_first { 0 } else { sum };
            evaluated[node] = in_place.iter().fold(1, |sum, &inner| {
                let outside_node_size = if nodes[inner].outer == Some(node) {
                    0
                } else {
                    nodes[inner].size
                };
                sum.saturating_add(evaluated[inner])
                    .saturating_add(outside_node_size)
            });
            unevaluated_schemas = unevaluated_schemas.saturating_add(if *has_unevaluated {
                evaluated[node]
            } else {
                0
            });
            depth[node] = 1 + in_place
                .iter()
                .map(|&inner| depth[inner])
                .max()
                .unwrap_or(0);
        }
        if unevaluated_schemas > MAX_UNEVALUATED_SCHEMAS {
            let what = format!(
                "schema with over {MAX_UNEVALUATED_SCHEMAS} subschemas to evaluate for unevaluatedProperties and unevaluatedItems"
            );
            return Err(NotScored::Limit { what });
        }
        Ok(SchemaCost {
            schema_count: nodes.len(),
            in_place_depth: depth.into_iter().max().unwrap_or(0),
            max_schemas_between_reads,
            unevaluated_schemas,
            name_patterns: self
                .name_patterns
                .iter()
                .map(|pattern| (*pattern).to_owned())
                .collect(),
            max_name_patterns: self.max_name_patterns,
        })
    }
}

/// Topological order of all nodes, in-place subschemas first, or a node on an in-place cycle. Not
/// recursive.
fn topological_order(nodes: &[Node<'_>]) -> Result<Vec<usize>, usize> {
    #[derive(Clone, Copy)]
    enum State {
        New,
        OnPath,
        Done,
    }
    let (mut order, mut states) = (Vec::new(), vec![State::New; nodes.len()]);
    for first in 0..nodes.len() {
        let mut path = vec![(first, 0)];
        while let Some((node, next)) = path.pop() {
            match (next, states[node]) {
                (0, State::Done) => continue,
                (0, State::OnPath) => return Err(node),
                _ => states[node] = State::OnPath,
            }
            if let Some(&inner) = nodes[node].in_place.get(next) {
                path.extend([(node, next + 1), (inner, 0)]);
            } else {
                states[node] = State::Done;
                order.push(node);
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
    fn keywords_that_always_read_the_value_are_distinguished() {
        for (schema, max_schemas_between_reads) in [
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
                SchemaCost::estimate(&schema)
                    .unwrap()
                    .max_schemas_between_reads,
                max_schemas_between_reads,
                "{schema}"
            );
        }
    }

    #[test]
    fn schemas_nesting_and_unevaluated_schemas_are_counted() {
        let cost = |schema: &Value| SchemaCost::estimate(schema).unwrap();
        let schema = json!({ "allOf": [{ "not": { "type": "null" } }], "items": { "$ref": "#/$defs/a" }, "$defs": { "a": {} } });
        assert_eq!(
            (cost(&schema).in_place_depth, cost(&schema).schema_count),
            (3, 5)
        );
        // References count with all schemas inside their targets.
        let large = json!({ "properties": { "a": {}, "b": {}, "c": {} } });
        let with_unevaluated = |inner: &Value| json!({ "$defs": { "a": large }, "allOf": [inner], "unevaluatedProperties": false });
        assert_eq!(
            cost(&with_unevaluated(&json!({ "$ref": "#/$defs/a" }))).unevaluated_schemas,
            1 + 1 + (4 + 1)
        );
        assert_eq!(cost(&with_unevaluated(&large)).unevaluated_schemas, 1 + 1);
    }
}
