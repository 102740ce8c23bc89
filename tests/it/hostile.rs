//! Promise: no schema, regex, grammar or answer makes an evaluation or an engine overflow a stack, hang, or take memory without bound.
//! What is too much for a bound ends as a verdict or a refusal that names it, and nothing outside the document is ever asked for.

mod answers;
mod engines;
mod grammars;
mod references;
mod regexes;
mod schemas;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sobench::constraint::{Constraint, GrammarDialect};
use sobench::evaluate::{EvaluateOptions, Evaluator};
use sobench::verdict::{NotScored, Reason, Verdict};

/// Judges `text`; the verdict, in words, begins with `expected`: `valid`, `invalid KEYWORD`, `limit WORDS` or `unsupported WORDS`.
fn check(what: &str, constraint: &Constraint, text: &str, expected: &str) {
    let verdict = Evaluator::new(EvaluateOptions::default()).judge_text(constraint, None, text);
    let words = match &verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason: Reason::Schema { keyword, .. } } => format!("invalid {keyword}"),
        Verdict::Invalid { reason } => format!("invalid {}", reason.name()),
        Verdict::NotScored { why: NotScored::Limit { what } } => format!("limit {what}"),
        Verdict::NotScored { why: NotScored::Unsupported { what } } => format!("unsupported {what}"),
        Verdict::NotScored { why } => why.name().to_owned(),
    };
    assert!(words.starts_with(expected), "{what}: {words}");
}

fn schema(value: Value) -> Constraint {
    Constraint::JsonSchema(Arc::new(value))
}

fn regex(pattern: &str) -> Constraint {
    Constraint::Regex(pattern.into())
}

fn lark(text: &str) -> Constraint {
    Constraint::Grammar { dialect: GrammarDialect::Lark, text: text.into() }
}

fn ebnf(text: &str) -> Constraint {
    Constraint::Grammar { dialect: GrammarDialect::Ebnf, text: text.into() }
}

/// An array of so many items.
fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

/// An object of so many members.
fn members(count: usize, member: impl Fn(usize) -> String) -> String {
    format!("{{{}}}", (0..count).map(member).collect::<Vec<_>>().join(","))
}

/// `leaf` behind `depth` definitions, each of which asks twice for the one below: `2^depth` of it in a few kilobytes.
fn doubling(depth: usize, keyword: &str, leaf: Value) -> Value {
    let mut definitions = Map::from_iter([("a0".to_owned(), leaf)]);
    for index in 1..=depth {
        let below = json!({ "$ref": format!("#/$defs/a{}", index - 1) });
        definitions.insert(format!("a{index}"), json!({ keyword: [below, below] }));
    }
    json!({ "$defs": definitions, "$ref": format!("#/$defs/a{depth}") })
}

/// `leaf` behind a row of references.
fn chain(links: usize, leaf: Value) -> Value {
    let mut definitions = Map::from_iter([("a0".to_owned(), leaf)]);
    for index in 1..=links {
        definitions.insert(format!("a{index}"), json!({ "$ref": format!("#/$defs/a{}", index - 1) }));
    }
    json!({ "$defs": definitions, "$ref": format!("#/$defs/a{links}") })
}

/// Schemas by name, made for each of so many numbers.
fn numbered(count: usize, schema: impl Fn(usize) -> Value) -> Map<String, Value> {
    (0..count).map(|index| (format!("p{index}"), schema(index))).collect()
}
