//! Estimates the states that xgrammar unrolls from repetitions, and refuses constraints that would
//! take minutes to compile.
//!
//! xgrammar unrolls a bounded repetition into states, up to [`MAX_UNROLLED`] at either end, and
//! walks the vocabulary for each. A state that allows nearly any character takes about 22 ms with
//! 100,000 tokens, a state that allows a digit almost nothing. This module counts the former. The
//! estimate is tuned to accept constraints that take less than about ten seconds; the compile
//! timeout catches its errors. Reasons: docs/decisions/engine-size-limits.md.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::error::EngineError;
use crate::input::Input;
use sobench_core::constraint::Constraint;
use sobench_grammar::pattern::{Member, Pattern, Syntax, Token};

/// Maximum number of states that allow nearly any character in one constraint.
pub(super) const MAX_WIDE_STATES: f64 = 600.0;

/// Repetitions up to this bound are unrolled completely.
const MAX_UNROLLED: u64 = 128;

/// Cost of a larger repetition beside its first [`MAX_UNROLLED`] states.
const TAIL_COST: f64 = 75.0;

/// Cost of a state that allows letters, relative to a wide state.
const LETTER_COST: f64 = 0.2;

/// Counted properties (number of properties times the maximum number present) that cost as much as
/// a wide state.
const PROPERTIES_PER_STATE: f64 = 40.0;

/// Refuses a constraint that is unrolled to more than [`MAX_WIDE_STATES`].
///
/// # Errors
/// [`EngineError::TooLarge`].
pub(super) fn refuse_explosive(constraint: &Constraint) -> Result<(), EngineError> {
    let states = match Input::new(constraint) {
        Ok(Input::Schema(value) | Input::StructuralTag(value)) => {
            let mut repetitions = Repetitions::default();
            repetitions.walk(value);
            repetitions.states()
        }
        // Groups become rules, and a rule is unrolled once regardless of its repetitions.
        Ok(Input::Regex(text)) => pattern_states(text, Groups::Shared),
        // Without its strings, the repetitions of a grammar parse like those of a pattern.
        Ok(Input::Grammar(_, text)) => {
            pattern_states(&STRING_LITERALS.replace_all(text, ""), Groups::Shared)
        }
        Ok(Input::AnyObject | Input::Choice(_)) | Err(_) => 0.0,
    };
    if states <= MAX_WIDE_STATES {
        return Ok(());
    }
    let message = format!(
        "xgrammar would unroll the repetitions into about {states:.0} states over the whole vocabulary, the limit is \
         {MAX_WIDE_STATES}"
    );
    Err(EngineError::TooLarge { message })
}

/// Repetitions of a JSON Schema. Equal ones are compiled once.
#[derive(Default)]
struct Repetitions<'a> {
    lengths: BTreeSet<(u64, Option<u64>)>,
    patterns: BTreeSet<&'a str>,
    counted_properties: f64,
}

impl<'a> Repetitions<'a> {
    fn walk(&mut self, value: &'a Value) {
        match value {
            Value::Object(members) => {
                self.add_object(members);
                members.values().for_each(|value| self.walk(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.walk(value)),
            _ => {}
        }
    }

    fn add_object(&mut self, members: &'a Map<String, Value>) {
        let number = |key: &str| members.get(key).and_then(Value::as_u64);
        let object = |key: &str| members.get(key).and_then(Value::as_object);
        let is_string = match members.get("type") {
            Some(Value::String(name)) => name == "string",
            Some(Value::Array(names)) => names.iter().any(|name| name == "string"),
            _ => false,
        };
        let lengths = (number("minLength").unwrap_or(0), number("maxLength"));
        // Lengths next to a pattern or a format are ignored.
        if is_string
            && lengths != (0, None)
            && !members.contains_key("pattern")
            && !members.contains_key("format")
        {
            self.lengths.insert(lengths);
        }
        self.patterns
            .extend(members.get("pattern").and_then(Value::as_str));
        self.patterns.extend(
            object("patternProperties")
                .into_iter()
                .flat_map(|patterns| patterns.keys())
                .map(String::as_str),
        );
        let properties = object("properties").map_or(0, Map::len) as f64;
        if let Some(most) = number("maxProperties").or_else(|| {
            number("minProperties")
                .filter(|least| *least > 0)
                .map(|_| u64::MAX)
        }) {
            self.counted_properties += properties * properties.min(most as f64);
        }
    }

    fn states(&self) -> f64 {
        let lengths: f64 = self
            .lengths
            .iter()
            .map(|&(least, most)| unrolled_states(least, most))
            .sum();
        let patterns = self
            .patterns
            .iter()
            .map(|pattern| pattern_states(pattern, Groups::Copied));
        lengths + patterns.sum::<f64>() + self.counted_properties / PROPERTIES_PER_STATE
    }
}

/// Cost of a repetition, in states of the repeated part. Required states cost half as much as
/// optional ones.
fn unrolled_states(least: u64, most: Option<u64>) -> f64 {
    let short = |most: u64| most as f64 - least.min(most) as f64 / 2.0;
    match most {
        None => least.min(MAX_UNROLLED) as f64 / 2.0,
        Some(most) if most <= MAX_UNROLLED => short(most),
        Some(_) if least < MAX_UNROLLED => TAIL_COST + short(MAX_UNROLLED),
        Some(_) => TAIL_COST,
    }
}

/// Whether each iteration of a repeated group has its own states.
#[derive(Clone, Copy, PartialEq)]
enum Groups {
    Shared,
    Copied,
}

/// Matches string literals of a grammar.
static STRING_LITERALS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#""(?:[^"\\]|\\.)*""#).expect("the pattern is a constant, and a test uses it")
});

/// Cost of the repetitions of a pattern. Invalid patterns cost nothing: the library refuses them.
fn pattern_states(text: &str, groups: Groups) -> f64 {
    let Ok(pattern) = Pattern::parse(text, Syntax::Ecma, usize::MAX) else {
        return 0.0;
    };
    let mut outer_sums: Vec<f64> = Vec::new();
    // Cost of the current group so far, cost of its last part, and whether that part is a group.
    let (mut sum, mut last, mut is_group) = (0.0, 0.0, false);
    for token in &pattern.tokens {
        match token {
            Token::Open(_) => outer_sums.push(std::mem::take(&mut sum)),
            Token::Close => {
                (last, is_group) = (sum, true);
                sum += outer_sums.pop().unwrap_or(0.0);
            }
            Token::Repeat(repeat) => {
                let is_shared = is_group && groups == Groups::Shared;
                let copies = if is_shared {
                    1.0
                } else {
                    unrolled_states(repeat.least.into(), repeat.most.map(u64::from))
                };
                sum += last * (copies - 1.0).max(0.0);
                last *= copies.max(1.0);
            }
            Token::Class { negated, members } => {
                (last, is_group) = (
                    if *negated {
                        1.0
                    } else {
                        members.iter().map(member_cost).fold(0.0, f64::max)
                    },
                    false,
                );
                sum += last;
            }
            Token::Character(_) | Token::Alternate | Token::Assertion(_) | Token::Reference(_) => {
                (last, is_group) = (0.0, false);
            }
        }
    }
    sum
}

/// Cost of a class member, relative to a wide state.
fn member_cost(member: &Member) -> f64 {
    match member {
        Member::Set {
            letter: 'W' | 'S' | 'D',
            ..
        } => 1.0,
        Member::Set { letter: 'w', .. } => LETTER_COST,
        Member::Range(first, _) if first.is_alphabetic() => LETTER_COST,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use sobench_core::constraint::GrammarDialect;

    #[track_caller]
    fn check(constraint: &Constraint, refused: bool) {
        let result = refuse_explosive(constraint);
        assert_eq!(
            matches!(result, Err(EngineError::TooLarge { .. })),
            refused,
            "{constraint:?}: {result:?}"
        );
    }

    /// `count` strings with different bounds.
    fn strings(count: u64) -> Value {
        let properties: Map<String, Value> = (0..count)
            .map(|index| {
                (
                    format!("p{index}"),
                    json!({ "type": "string", "maxLength": 200 + index }),
                )
            })
            .collect();
        json!({ "type": "object", "properties": properties })
    }

    fn integers(count: u64, bound: &str, value: u64) -> Value {
        let properties: Map<String, Value> = (0..count)
            .map(|index| (format!("p{index}"), json!({ "type": "integer" })))
            .collect();
        json!({ "type": "object", "properties": properties, bound: value })
    }

    #[test]
    fn schemas_that_compile_much_longer_than_ten_seconds_are_refused() {
        let pattern = |text: &str| json!({ "type": "string", "pattern": text });
        for (schema, refused) in [
            (json!({ "type": "string", "maxLength": 1_000_000 }), false),
            (
                json!({ "type": "array", "items": { "type": "string", "maxLength": 1000 }, "maxItems": 100_000 }),
                false,
            ),
            (strings(2), false),
            (strings(20), true),
            (
                json!({ "type": "array", "items": { "allOf": [strings(20)] } }),
                true,
            ),
            (
                json!([{ "type": "string", "maxLength": 300 }, { "type": ["null", "string"], "maxLength": 300 }]),
                false,
            ),
            (integers(100, "maxProperties", 50), false),
            (integers(1000, "maxProperties", 5), false),
            (integers(400, "minProperties", 1), true),
            (integers(400, "minProperties", 0), false),
            (pattern("^.{1,500}$"), false),
            (pattern("^[a-z]{1,50}(-[a-z]{1,50}){0,50}$"), false),
            (pattern("^([a-z]{1,63}\\.){1,127}[a-z]{2,63}$"), true),
            (pattern("^(([0-9a-zA-Z]{1,100}x){1,100})$"), true),
            (pattern("^(.{1,30}x){1,30}$"), true),
            (pattern("^[0-9]{1,10000}(a{100}){100}$"), false),
            (
                json!({ "patternProperties": { "^(.{1,99}x){1,99}$": true } }),
                true,
            ),
            (
                json!({ "type": "structural_tag", "format": { "type": "regex", "pattern": "(.{1,99}x){1,99}" } }),
                true,
            ),
        ] {
            check(&Constraint::JsonSchema(Arc::new(schema.clone())), refused);
            check(&Constraint::StructuralTag(Arc::new(schema)), refused);
        }
    }

    #[test]
    fn groups_in_regexes_and_grammars_are_unrolled_once() {
        let wide = |count: u64| -> String {
            (0..count)
                .map(|index| format!("[^a]{{1,{}}} \"a\" ", 300 + index))
                .collect()
        };
        for (text, refused) in [
            ("(.{1,30}x){1,30}".to_owned(), false),
            ("(((a{1,200}){1,200}){1,200}){1,200}".to_owned(), false),
            ("\\w+@\\w+\\.com\\n".to_owned(), false),
            (wide(2), false),
            (wide(6), true),
            (
                "([^\\]]{1,200}\\W{9,200})\\S{5,200}[\\D]{200,300}[^a-z]{200}{,}{x}".to_owned(),
                true,
            ),
            (")]}{1,({(((.{1,200}".to_owned(), false),
            ("[".to_owned(), false),
            (String::new(), false),
        ] {
            check(&Constraint::Regex(text.as_str().into()), refused);
        }
        for (text, refused) in [
            (format!("root ::= {}", wide(6)), true),
            (format!("root ::= {}", wide(2)), false),
            (
                "root ::= \"[^a]{1,300}.{1,300}\\\".{1,300}.{1,300}.{1,300}\"".to_owned(),
                false,
            ),
        ] {
            check(
                &Constraint::Grammar {
                    dialect: GrammarDialect::Ebnf,
                    text: text.into(),
                },
                refused,
            );
        }
        check(&Constraint::Choice([".{1,300}".repeat(9)].into()), false);
    }
}
