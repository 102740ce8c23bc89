//! Reductions of constraints: inlined references, shorter patterns, smaller limits, fewer choices
//! and rules. The caller checks whether a finding still reproduces.

use serde_json::{Number, Value, json};

use crate::schema::{chunks, has_references, needs_no_escaping, without_range};
use crate::tag;
use sobench_core::constraint::Constraint;
use sobench_core::schema_keywords::{LITERAL_KEYWORDS, NAME_MAPS};
use sobench_core::schema_part::pointer_token;

/// Keywords with a numeric limit.
const LIMITS: [&str; 13] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minContains",
    "maxContains",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Maximum pieces of a pattern that are tried: down to 1/256 of it.
const MAX_PIECES: usize = 510;

/// The n-th reduction of a constraint. Each has fewer references, a shorter pattern, a smaller
/// number or fewer parts, so repeated reduction terminates.
pub fn reduced_constraint(constraint: &Constraint, number: usize) -> Option<Constraint> {
    match constraint {
        Constraint::JsonSchema(schema) => Some(Constraint::JsonSchema(
            simpler_schema(schema, number)?.into(),
        )),
        Constraint::Regex(pattern) => shorter_patterns(pattern)
            .nth(number)
            .map(|pattern| Constraint::Regex(pattern.into())),
        Constraint::Choice(choices) => {
            let range = chunks(choices.len()).into_iter().nth(number)?;
            Some(Constraint::Choice(without_range(choices, range).into()))
        }
        Constraint::Grammar { dialect, text } => {
            let lines: Vec<&str> = text.lines().collect();
            let range = chunks(lines.len()).into_iter().nth(number)?;
            Some(Constraint::Grammar {
                dialect: *dialect,
                text: without_range(&lines, range).join("\n").into(),
            })
        }
        Constraint::StructuralTag(tag) => Some(Constraint::StructuralTag(
            tag::reduced_tag(tag, number)?.into(),
        )),
        _ => None,
    }
}

/// The n-th change of a schema that makes it simpler.
pub fn simpler_schema(schema: &Value, number: usize) -> Option<Value> {
    schema_changes(schema)
        .into_iter()
        .nth(number)?
        .apply_to(schema)
}

/// A change of a schema at a JSON pointer.
enum Change {
    Put {
        at: String,
        value: Value,
    },
    /// Moves a referenced schema to `$defs` under this name.
    Move {
        from: String,
        name: String,
    },
}

impl Change {
    fn apply_to(self, schema: &Value) -> Option<Value> {
        let mut changed = schema.clone();
        match self {
            Self::Put { at, value } => *changed.pointer_mut(&at)? = value,
            Self::Move { from, name } => {
                let definitions = changed
                    .as_object_mut()?
                    .entry("$defs")
                    .or_insert_with(|| json!({}));
                definitions
                    .as_object_mut()?
                    .insert(name.clone(), schema.pointer(&from)?.clone());
                redirect_references(
                    &mut changed,
                    &format!("#{from}"),
                    &format!("#/$defs/{name}"),
                );
            }
        }
        Some(changed)
    }
}

fn schema_changes(schema: &Value) -> Vec<Change> {
    let mut all = Vec::new();
    let mut open = vec![(String::new(), schema)];
    while let Some((path, next)) = open.pop() {
        match next {
            Value::Object(keywords) => {
                if let Some(Value::String(reference)) = keywords.get("$ref") {
                    all.extend(inline_reference(
                        schema,
                        &path,
                        reference,
                        keywords.len() == 1,
                    ));
                }
                for (keyword, value) in keywords {
                    let place = format!("{path}/{}", pointer_token(keyword));
                    let put = |value: Value| Change::Put {
                        at: place.clone(),
                        value,
                    };
                    all.extend(simpler_values(keyword, value).into_iter().map(put));
                    match value {
                        _ if LITERAL_KEYWORDS.contains(&keyword.as_str()) => {}
                        Value::Object(named) if NAME_MAPS.contains(&keyword.as_str()) => {
                            open.extend(named.iter().map(|(name, schema)| {
                                (format!("{place}/{}", pointer_token(name)), schema)
                            }));
                        }
                        value => open.push((place, value)),
                    }
                }
            }
            Value::Array(items) => open.extend(
                items
                    .iter()
                    .enumerate()
                    .map(|(at, item)| (format!("{path}/{at}"), item)),
            ),
            _ => {}
        }
    }
    all
}

/// Inlines a referenced schema; if that contains references itself, moves it to `$defs`.
fn inline_reference(
    schema: &Value,
    path: &str,
    reference: &str,
    stands_alone: bool,
) -> Option<Change> {
    let pointer = reference
        .strip_prefix('#')
        .filter(|pointer| !pointer.is_empty())?;
    let target = schema.pointer(pointer)?;
    if stands_alone && !has_references(target) {
        return Some(Change::Put {
            at: path.to_owned(),
            value: target.clone(),
        });
    }
    let (first, last) = pointer[1..].split_once('/')?;
    let is_taken = schema
        .get("$defs")
        .is_some_and(|definitions| definitions.get(last).is_some());
    let can_move = !NAME_MAPS.contains(&first) && !is_taken && needs_no_escaping(last);
    can_move.then(|| Change::Move {
        from: pointer.to_owned(),
        name: last.to_owned(),
    })
}

fn redirect_references(schema: &mut Value, from: &str, to: &str) {
    let mut open = vec![schema];
    while let Some(next) = open.pop() {
        if let Some(Value::String(reference)) = next.get_mut("$ref")
            && reference == from
        {
            to.clone_into(reference);
        }
        match next {
            Value::Object(members) => open.extend(members.values_mut()),
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
}

/// Simpler values of a keyword.
fn simpler_values(keyword: &str, value: &Value) -> Vec<Value> {
    match value {
        Value::String(pattern) if keyword == "pattern" => {
            shorter_patterns(pattern).map(Value::from).collect()
        }
        Value::Object(members) if keyword == "patternProperties" => {
            let renamed = |name: &String, short: String| -> Option<Value> {
                let name = |member: &String| {
                    if member == name {
                        short.clone()
                    } else {
                        member.clone()
                    }
                };
                (!members.contains_key(&short)).then(|| {
                    members
                        .iter()
                        .map(|(member, value)| (name(member), value.clone()))
                        .collect()
                })
            };
            members
                .keys()
                .flat_map(|name| {
                    shorter_patterns(name).filter_map(move |short| renamed(name, short))
                })
                .collect()
        }
        Value::Array(types) if keyword == "type" && types.len() == 1 => types.clone(),
        Value::Number(number) if LIMITS.contains(&keyword) => smaller_numbers(number)
            .into_iter()
            .map(Value::from)
            .collect(),
        _ => Vec::new(),
    }
}

/// The pattern without halves, quarters and so on of its characters, down to single characters or
/// the limit.
fn shorter_patterns(pattern: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = pattern.chars().collect();
    let pieces = chunks(characters.len()).into_iter().take(MAX_PIECES);
    pieces.map(move |range| without_range(&characters, range).into_iter().collect())
}

/// Small non-negative integers with a shorter spelling, or of equal length and less.
fn smaller_numbers(number: &Number) -> Vec<u64> {
    let half = number.as_u64().map(|number| number / 2);
    let mut all: Vec<u64> = [0, 1, 2]
        .into_iter()
        .chain(half.filter(|half| *half > 2))
        .collect();
    all.retain(|candidate| {
        let (length, before) = (candidate.to_string().len(), number.to_string().len());
        length < before
            || (length == before && number.as_u64().is_some_and(|number| *candidate < number))
    });
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::constraint::{AlwaysTrue, GrammarDialect};

    fn schemas(schema: &Value) -> Vec<Value> {
        let constraint = Constraint::JsonSchema(Arc::new(schema.clone()));
        let all = (0..).map_while(|number| reduced_constraint(&constraint, number));
        all.map(|constraint| match constraint {
            Constraint::JsonSchema(schema) => Value::clone(&schema),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn references_are_inlined_or_moved_to_defs() {
        let a = json!({"items": {"$ref": "#/a~1b/0"}, "a/b": [{"type": "null"}]});
        assert_eq!(
            schemas(&a),
            [json!({"items": {"type": "null"}, "a/b": [{"type": "null"}]})]
        );
        // A recursive schema is moved to the definitions.
        let list = json!({"$ref": "#/x/list", "x": {"list": {"items": {"$ref": "#/x/list"}}}});
        let moved = json!({"$ref": "#/$defs/list", "x": {"list": {"items": {"$ref": "#/$defs/list"}}},
            "$defs": {"list": {"items": {"$ref": "#/$defs/list"}}}});
        assert_eq!(schemas(&list), [moved.clone(), moved]);
        assert_eq!(
            schemas(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#"}}}})),
            [] as [Value; 0]
        );
    }

    #[test]
    fn patterns_shrink_and_numeric_limits_decrease() {
        let number = |number: f64| smaller_numbers(&Number::from_f64(number).unwrap());
        assert_eq!(
            (
                smaller_numbers(&100.into()),
                smaller_numbers(&4.into()),
                smaller_numbers(&1.into())
            ),
            (vec![0, 1, 2, 50], vec![0, 1, 2], vec![0])
        );
        assert_eq!(
            (number(6.75), number(1e-9), smaller_numbers(&0.into())),
            (vec![0, 1, 2], vec![0, 1, 2], vec![])
        );
        assert_eq!(
            schemas(&json!({"pattern": "ab"})),
            [json!({"pattern": "b"}), json!({"pattern": "a"})]
        );
        let named =
            schemas(&json!({"patternProperties": {"é|x": {"const": {"minimum": 5}}, "x": true}}));
        let names = named.iter().map(|schema| {
            schema["patternProperties"]
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        });
        let expected = [
            ["é|", "x"],
            ["|x", "x"],
            ["éx", "x"],
            ["é|", "x"],
            ["é|x", ""],
        ];
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(
            schemas(&json!({"type": ["null"], "items": {"type": ["null", "string"]}}))[0]["type"],
            "null"
        );
        // A member of that name is no keyword.
        assert!(schemas(&json!({"properties": {"pattern": {}, "minimum": {}}})).is_empty());
    }

    #[test]
    fn regexes_choices_and_grammars_lose_pieces() {
        let all = |constraint: Constraint| -> Vec<Constraint> {
            (0..)
                .map_while(|number| reduced_constraint(&constraint, number))
                .collect()
        };
        assert_eq!(
            all(Constraint::Regex("ab".into())),
            [Constraint::Regex("b".into()), Constraint::Regex("a".into())]
        );
        let choices = |choices: &[&str]| {
            Constraint::Choice(choices.iter().map(|choice| (*choice).to_owned()).collect())
        };
        assert_eq!(
            all(choices(&["a", "b"])),
            [choices(&["b"]), choices(&["a"])]
        );
        let grammar = |text: &str| Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: text.into(),
        };
        assert_eq!(
            all(grammar("a ::= b\nb ::= \"\"")),
            [grammar("b ::= \"\""), grammar("a ::= b")]
        );
        assert_eq!(all(Constraint::JsonObject(AlwaysTrue)), []);
    }
}
