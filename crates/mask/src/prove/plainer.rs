//! Constraints that say the same, or nearly, in fewer words: what a reference names in its place,
//! shorter patterns, smaller limits, fewer choices and rules. Whether what was proved of the first
//! is true of them, too, is for others to find out. Knows no engine.

use serde_json::{Number, Value, json};

use super::simpler::{chunks, is_plain, refers, without};
use crate::corpus::tags::{BY_NAME, VALUES};
use sobench_core::constraint::Constraint;

/// Keywords whose number is a limit.
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

/// Pieces of one pattern that are tried: down to the 256th part of it.
const MAX_PIECES: usize = 510;

/// The plainer constraint of this number. Each has fewer references, a shorter pattern, a smaller
/// number or fewer parts, so that taking one after the other comes to an end.
pub(super) fn plainer(constraint: &Constraint, number: usize) -> Option<Constraint> {
    match constraint {
        Constraint::JsonSchema(schema) => Some(Constraint::JsonSchema(
            changes(schema)
                .into_iter()
                .nth(number)?
                .made_in(schema)?
                .into(),
        )),
        Constraint::Regex(pattern) => shorter(pattern)
            .nth(number)
            .map(|it| Constraint::Regex(it.into())),
        Constraint::Choice(choices) => {
            let range = chunks(choices.len()).into_iter().nth(number)?;
            Some(Constraint::Choice(without(choices, range).into()))
        }
        Constraint::Grammar { dialect, text } => {
            let lines: Vec<&str> = text.lines().collect();
            let range = chunks(lines.len()).into_iter().nth(number)?;
            Some(Constraint::Grammar {
                dialect: *dialect,
                text: without(&lines, range).join("\n").into(),
            })
        }
        _ => None,
    }
}

/// What can be changed in a schema, where, by JSON pointers.
enum Change {
    Put {
        at: String,
        value: Value,
    },
    /// A schema that references name by a path of the author's, which goes to `$defs` by this name.
    Move {
        from: String,
        name: String,
    },
}

impl Change {
    fn made_in(self, schema: &Value) -> Option<Value> {
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
                point_to(
                    &mut changed,
                    &format!("#{from}"),
                    &format!("#/$defs/{name}"),
                );
            }
        }
        Some(changed)
    }
}

fn changes(schema: &Value) -> Vec<Change> {
    let mut all = Vec::new();
    let mut open = vec![(String::new(), schema)];
    while let Some((path, next)) = open.pop() {
        match next {
            Value::Object(keywords) => {
                if let Some(Value::String(reference)) = keywords.get("$ref") {
                    all.extend(without_reference(
                        schema,
                        &path,
                        reference,
                        keywords.len() == 1,
                    ));
                }
                for (keyword, value) in keywords {
                    let place = format!("{path}/{}", escaped(keyword));
                    let put = |value: Value| Change::Put {
                        at: place.clone(),
                        value,
                    };
                    all.extend(of_keyword(keyword, value).into_iter().map(put));
                    match value {
                        _ if VALUES.contains(&keyword.as_str()) => {}
                        Value::Object(named) if BY_NAME.contains(&keyword.as_str()) => {
                            open.extend(
                                named
                                    .iter()
                                    .map(|(name, it)| (format!("{place}/{}", escaped(name)), it)),
                            );
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

/// A schema in place of the reference to it; or, where it refers on, among the definitions where it
/// is not.
fn without_reference(
    schema: &Value,
    path: &str,
    reference: &str,
    stands_alone: bool,
) -> Option<Change> {
    let pointer = reference
        .strip_prefix('#')
        .filter(|pointer| !pointer.is_empty())?;
    let target = schema.pointer(pointer)?;
    if stands_alone && !refers(target) {
        return Some(Change::Put {
            at: path.to_owned(),
            value: target.clone(),
        });
    }
    let (first, last) = pointer[1..].split_once('/')?;
    let is_taken = schema.get("$defs").is_some_and(|it| it.get(last).is_some());
    let can_move = !BY_NAME.contains(&first) && !is_taken && is_plain(last);
    can_move.then(|| Change::Move {
        from: pointer.to_owned(),
        name: last.to_owned(),
    })
}

fn point_to(schema: &mut Value, from: &str, to: &str) {
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

/// What a keyword may say instead.
fn of_keyword(keyword: &str, value: &Value) -> Vec<Value> {
    match value {
        Value::String(pattern) if keyword == "pattern" => {
            shorter(pattern).map(Value::from).collect()
        }
        Value::Object(members) if keyword == "patternProperties" => {
            let renamed = |name: &String, short: String| -> Option<Value> {
                let name = |it: &String| {
                    if it == name {
                        short.clone()
                    } else {
                        it.clone()
                    }
                };
                (!members.contains_key(&short)).then(|| {
                    members
                        .iter()
                        .map(|(it, value)| (name(it), value.clone()))
                        .collect()
                })
            };
            members
                .keys()
                .flat_map(|name| shorter(name).filter_map(move |short| renamed(name, short)))
                .collect()
        }
        Value::Array(types) if keyword == "type" && types.len() == 1 => types.clone(),
        Value::Number(number) if LIMITS.contains(&keyword) => {
            smaller(number).into_iter().map(Value::from).collect()
        }
        _ => Vec::new(),
    }
}

/// The pattern without halves, quarters and so on of its characters, down to each alone or as many
/// as are tried.
fn shorter(pattern: &str) -> impl Iterator<Item = String> {
    let characters: Vec<char> = pattern.chars().collect();
    let pieces = chunks(characters.len()).into_iter().take(MAX_PIECES);
    pieces.map(move |range| without(&characters, range).into_iter().collect())
}

/// Whole numbers from zero on that are written shorter, or are less at the same length.
fn smaller(number: &Number) -> Vec<u64> {
    let half = number.as_u64().map(|it| it / 2);
    let mut all: Vec<u64> = [0, 1, 2]
        .into_iter()
        .chain(half.filter(|half| *half > 2))
        .collect();
    all.retain(|it| {
        let (length, before) = (it.to_string().len(), number.to_string().len());
        length < before || (length == before && number.as_u64().is_some_and(|number| *it < number))
    });
    all
}

fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::constraint::{AlwaysTrue, GrammarDialect};

    fn schemas(schema: &Value) -> Vec<Value> {
        let constraint = Constraint::JsonSchema(Arc::new(schema.clone()));
        let all = (0..).map_while(|number| plainer(&constraint, number));
        all.map(|it| match it {
            Constraint::JsonSchema(schema) => Value::clone(&schema),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn a_reference_gives_way_to_what_it_names() {
        let a = json!({"items": {"$ref": "#/a~1b/0"}, "a/b": [{"type": "null"}]});
        assert_eq!(
            schemas(&a),
            [json!({"items": {"type": "null"}, "a/b": [{"type": "null"}]})]
        );
        // What refers to itself cannot, and goes to where definitions are.
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
    fn patterns_get_shorter_and_limits_smaller() {
        let number = |number: f64| smaller(&Number::from_f64(number).unwrap());
        assert_eq!(
            (smaller(&100.into()), smaller(&4.into()), smaller(&1.into())),
            (vec![0, 1, 2, 50], vec![0, 1, 2], vec![0])
        );
        assert_eq!(
            (number(6.75), number(1e-9), smaller(&0.into())),
            (vec![0, 1, 2], vec![0, 1, 2], vec![])
        );
        assert_eq!(
            schemas(&json!({"pattern": "ab"})),
            [json!({"pattern": "b"}), json!({"pattern": "a"})]
        );
        let named =
            schemas(&json!({"patternProperties": {"é|x": {"const": {"minimum": 5}}, "x": true}}));
        let names = named.iter().map(|it| {
            it["patternProperties"]
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
    fn texts_of_other_constraints_lose_pieces() {
        let all = |constraint: Constraint| -> Vec<Constraint> {
            (0..)
                .map_while(|number| plainer(&constraint, number))
                .collect()
        };
        assert_eq!(
            all(Constraint::Regex("ab".into())),
            [Constraint::Regex("b".into()), Constraint::Regex("a".into())]
        );
        let choices = |choices: &[&str]| {
            Constraint::Choice(choices.iter().map(|it| (*it).to_owned()).collect())
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
