//! The schemas of the APIs (`schemas/wire`), compiled for the check of frames.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use serde_json::Value;

/// The schemas of the APIs.
#[derive(Default)]
pub(crate) struct Api {
    nodes: Vec<Node>,
    /// Kinds of frames, with the numbers of their nodes.
    roots: HashMap<String, usize>,
    /// Types of the events of responses.
    pub(crate) events: HashSet<String>,
    /// Types of the events of messages.
    pub(crate) messages: HashSet<String>,
}

/// A schema of types, required members and values.
#[derive(Default)]
pub(crate) struct Node {
    /// Names of types; empty for any.
    types: Vec<String>,
    pub(crate) values: Vec<Value>,
    pub(crate) required: Vec<String>,
    /// Members and items, with the numbers of their nodes.
    pub(crate) properties: Vec<(String, usize)>,
    pub(crate) items: Option<usize>,
    /// Alternatives with the values of their `type`, but for null.
    pub(crate) branches: Vec<(Vec<Value>, usize)>,
    /// Whether null is one of the alternatives.
    has_null: bool,
}

pub(crate) static API: LazyLock<Api> = LazyLock::new(|| {
    let mut api = Api::default();
    api.events = api.read(include_str!("../../../schemas/wire/openai.json"));
    api.messages = api.read(include_str!("../../../schemas/wire/anthropic.json"));
    api
});

impl Api {
    /// Adds the schemas of a file. Returns its types of events.
    fn read(&mut self, text: &str) -> HashSet<String> {
        let file: Value = serde_json::from_str(text).expect("the schema of an API is JSON");
        let mut compiler = Compiler {
            defs: &file["$defs"],
            known: HashMap::new(),
            nodes: std::mem::take(&mut self.nodes),
        };
        for (kind, schema) in file["roots"].as_object().into_iter().flatten() {
            self.roots.insert(kind.clone(), compiler.compile(schema));
        }
        self.nodes = compiler.nodes;
        texts(&file["events"]).collect()
    }

    pub(crate) fn root(&self, kind: &str) -> usize {
        self.roots[kind]
    }

    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }
}

impl Node {
    /// Whether a value has one of the types.
    pub(crate) fn takes(&self, value: &Value) -> bool {
        let is = |kind: &String| match kind.as_str() {
            "null" => value.is_null(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => true,
        };
        match self.branches.is_empty() {
            true => self.types.is_empty() || self.types.iter().any(is),
            false => self.has_null || !value.is_null(),
        }
    }
}

fn texts(value: &Value) -> impl Iterator<Item = String> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(|text| Some(text.as_str()?.to_owned()))
}

struct Compiler<'a> {
    defs: &'a Value,
    known: HashMap<&'a str, usize>,
    nodes: Vec<Node>,
}

impl<'a> Compiler<'a> {
    /// The number of the node of a schema.
    fn compile(&mut self, schema: &'a Value) -> usize {
        let name = schema["$ref"].as_str();
        if let Some(known) = name.and_then(|name| self.known.get(name)) {
            return *known;
        }
        let number = self.nodes.len();
        self.nodes.push(Node::default());
        self.known.extend(name.map(|name| (name, number)));
        let schema = self.resolved(schema);
        let branches = schema["anyOf"].as_array().into_iter().flatten();
        let branches: Vec<&Value> = branches.collect();
        let types: Vec<String> = match &schema["type"] {
            Value::String(kind) => vec![kind.clone()],
            kinds => texts(kinds).collect(),
        };
        let is_null = |branch: &Value| branch["type"] == "null";
        let has_null = branches.iter().any(|branch| is_null(branch));
        let mut alternatives = Vec::new();
        for branch in branches.into_iter().filter(|branch| !is_null(branch)) {
            let node = self.compile(branch);
            let kinds = self.resolved(branch)["properties"]["type"]["enum"].as_array();
            alternatives.push((kinds.cloned().unwrap_or_default(), node));
        }
        let members = schema["properties"].as_object().into_iter().flatten();
        let properties = members
            .map(|(name, schema)| (name.clone(), self.compile(schema)))
            .collect();
        self.nodes[number] = Node {
            types,
            values: schema["enum"].as_array().cloned().unwrap_or_default(),
            required: texts(&schema["required"]).collect(),
            properties,
            items: schema.get("items").map(|items| self.compile(items)),
            branches: alternatives,
            has_null,
        };
        number
    }

    /// The definition that a schema refers to, or the schema itself.
    fn resolved(&self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(name) => &self.defs[name.trim_start_matches("#/$defs/")],
            None => schema,
        }
    }
}
