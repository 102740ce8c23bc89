//! Small constraints that are expensive. Also included by the tests of the engines.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sobench_core::constraint::{Constraint, GrammarDialect};

pub(crate) fn schema(value: Value) -> Constraint {
    Constraint::JsonSchema(Arc::new(value))
}

pub(crate) fn regex(pattern: &str) -> Constraint {
    Constraint::Regex(pattern.into())
}

pub(crate) fn lark(text: &str) -> Constraint {
    Constraint::Grammar {
        dialect: GrammarDialect::Lark,
        text: text.into(),
    }
}

pub(crate) fn ebnf(text: &str) -> Constraint {
    Constraint::Grammar {
        dialect: GrammarDialect::Ebnf,
        text: text.into(),
    }
}

/// `leaf` behind `depth` definitions, each of which refers twice to the next: `2^depth` evaluations
/// from a few kilobytes.
pub(crate) fn doubling(depth: usize, keyword: &str, leaf: Value) -> Value {
    let mut definitions = Map::from_iter([("a0".to_owned(), leaf)]);
    for index in 1..=depth {
        let below = json!({ "$ref": format!("#/$defs/a{}", index - 1) });
        definitions.insert(format!("a{index}"), json!({ keyword: [below, below] }));
    }
    json!({ "$defs": definitions, "$ref": format!("#/$defs/a{depth}") })
}

/// `leaf` behind a chain of references.
pub(crate) fn chain(links: usize, leaf: Value) -> Value {
    let mut definitions = Map::from_iter([("a0".to_owned(), leaf)]);
    for index in 1..=links {
        definitions.insert(
            format!("a{index}"),
            json!({ "$ref": format!("#/$defs/a{}", index - 1) }),
        );
    }
    json!({ "$defs": definitions, "$ref": format!("#/$defs/a{links}") })
}

/// Schemas by name, one for each index below `count`.
pub(crate) fn numbered(count: usize, schema: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count)
        .map(|index| (format!("p{index}"), schema(index)))
        .collect()
}
