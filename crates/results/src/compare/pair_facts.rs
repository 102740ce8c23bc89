//! What pairs of requests are grouped by, from a run log.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;

use crate::metrics::judgement::Cause;
use sobench_core::constraint::Constraint;
use sobench_core::tools::Tool;
use sobench_facts::columns::Distinct;
use sobench_reduce::keywords::keywords_in_schema;

/// How a request ended: with a correct answer, or why it is not correct.
pub type Ended = std::result::Result<(), Cause>;

/// The ways in which a request can end, in the order of tables.
pub const ENDED: [Ended; 5] = [
    Ok(()),
    Err(Cause::Invalid),
    Err(Cause::Truncated),
    Err(Cause::Refused),
    Err(Cause::Failed),
];

/// The word for an end.
pub fn ended_name(end: Ended) -> &'static str {
    end.map_or_else(Cause::name, |()| "valid")
}

/// What a run log says of a request beside its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairFacts {
    pub ended: Ended,
    /// Whether the answer came as a stream.
    pub streamed: bool,
    /// The tool that the answer calls first.
    pub tool: Option<String>,
    pub constraint: Option<Arc<ConstraintFacts>>,
}

impl Distinct for PairFacts {}

/// What pairs are grouped by of a constraint.
#[derive(Debug)]
pub struct ConstraintFacts {
    pub(super) hash: u64,
    /// The name of its kind.
    pub(super) kind: &'static str,
    /// The title of a schema, or a request that has the constraint.
    pub(super) name: Arc<str>,
    pub(super) bytes: usize,
    pub(super) keywords: Vec<Arc<str>>,
    /// The keywords of each tool.
    pub(super) tools: HashMap<String, Vec<Arc<str>>>,
}

impl PartialEq for ConstraintFacts {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Eq for ConstraintFacts {}

impl Hash for ConstraintFacts {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl ConstraintFacts {
    /// Of the constraint with this hash ([`sobench_facts::constraint_hash`]), of a request with this id.
    pub fn new(constraint: &Constraint, hash: u64, case: &str) -> Self {
        let schema = constraint.schema();
        let title = schema.and_then(|schema| schema.get("title")?.as_str());
        let tools = constraint.tools().map(|tools| &tools.tools[..]);
        let of_tool = |tool: &Tool| {
            let known = tool.parameters().map(keywords);
            (tool.name.clone(), known.unwrap_or_default())
        };
        Self {
            hash,
            kind: constraint.kind(),
            name: title.map_or_else(|| format!("that of {case}").into(), Arc::from),
            bytes: constraint.text().len(),
            keywords: schema.map_or_else(Vec::new, |schema| keywords(schema)),
            tools: tools.unwrap_or_default().iter().map(of_tool).collect(),
        }
    }
}

fn keywords(schema: &Value) -> Vec<Arc<str>> {
    let keywords = keywords_in_schema(schema).into_iter();
    keywords.map(Arc::from).collect()
}
