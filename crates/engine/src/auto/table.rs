//! vLLM's rule for `auto`, as a table. Knows which engine is asked when, and asks it through a
//! function; opens none.
//!
//! After vLLM 0.33, `SamplingParams._validate_structured_outputs`. Its checks of the request itself
//! (empty choice, NUL in a regex) come before the rule, and are a server's. What a constraint does
//! not get from the row that decides, it gets nowhere: vLLM does not go on to the next row.

use serde_json::Value;

use crate::{EngineError, EngineName, Route};
use sobench_core::constraint::Constraint;

/// Longest part of an engine's refusal that is quoted in the reason for another one.
const MAX_QUOTED_CHARS: usize = 160;

/// One row: under this condition the constraint goes to this engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) when: When,
    pub(super) engine: EngineName,
    /// The row in a few words, for people.
    pub(super) why: &'static str,
}

/// When a row decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// In vLLM for a tokenizer that cannot be loaded here; kept so that the table is whole.
    NeverHere(&'static str),
    /// If the engine's check passes; otherwise the next row is looked at.
    EngineTakesIt,
    /// If the schema has a member `patternProperties` anywhere, be it the keyword or a property of
    /// that name.
    PatternProperties,
    /// Always.
    Otherwise,
}

/// The rule, first row that decides. `PatternProperties` and `Otherwise` decide also where their
/// engine then refuses.
pub(super) const ROWS: [Row; 5] = [
    Row {
        when: When::NeverHere("no tokenizer of Mistral's tekken kind is read"),
        engine: EngineName::Guidance,
        why: "Lark grammar under a tekken tokenizer",
    },
    Row {
        when: When::EngineTakesIt,
        engine: EngineName::Xgrammar,
        why: "xgrammar is asked first and takes it",
    },
    Row {
        when: When::NeverHere("no tokenizer of Mistral's older kind is read"),
        engine: EngineName::Outlines,
        why: "xgrammar refuses, and guidance has no Mistral tokenizer before tekken",
    },
    Row {
        when: When::PatternProperties,
        engine: EngineName::Outlines,
        why: "the schema has patternProperties, which go to outlines",
    },
    Row {
        when: When::Otherwise,
        engine: EngineName::Guidance,
        why: "guidance takes what xgrammar does not",
    },
];

/// Which engine the rule names, and why. `check` is an engine's check of a request.
///
/// # Errors
/// The refusal of the row that decided, with the words of all that were asked.
pub(super) fn decide(
    constraint: &Constraint,
    check: impl Fn(EngineName) -> Result<(), EngineError>,
) -> Result<Route, EngineError> {
    let mut refusals: Vec<(EngineName, EngineError)> = Vec::new();
    for row in ROWS {
        let applies = match row.when {
            When::NeverHere(_) => false,
            When::EngineTakesIt | When::Otherwise => true,
            When::PatternProperties => {
                matches!(constraint, Constraint::JsonSchema(schema) if has_pattern_properties(schema))
            }
        };
        if !applies {
            continue;
        }
        match check(row.engine) {
            Ok(()) => {
                return Ok(Route {
                    engine: row.engine,
                    why: reason(&row, &refusals),
                });
            }
            Err(error) => refusals.push((row.engine, error)),
        }
        if row.when != When::EngineTakesIt {
            break;
        }
    }
    Err(refusal(refusals))
}

fn reason(row: &Row, refusals: &[(EngineName, EngineError)]) -> String {
    refusals
        .iter()
        .fold(row.why.to_owned(), |why, (engine, error)| {
            let words = error.to_string();
            let quoted: String = words.chars().take(MAX_QUOTED_CHARS).collect();
            let more = if quoted.len() < words.len() {
                " ..."
            } else {
                ""
            };
            format!("{why} ({} refuses: {quoted}{more})", engine.name())
        })
}

/// What is said where nobody takes it: of the kind of the last refusal, as vLLM answers with it.
fn refusal(refusals: Vec<(EngineName, EngineError)>) -> EngineError {
    let asked: Vec<String> = super::ENGINES
        .into_iter()
        .map(
            |engine| match refusals.iter().find(|(refused, _)| *refused == engine) {
                Some((_, error)) => format!("{}: {error}", engine.name()),
                None => format!("{}: not asked by the rule", engine.name()),
            },
        )
        .collect();
    let words = format!("no engine takes it; {}", asked.join("; "));
    match refusals.into_iter().last() {
        Some((_, EngineError::Unsupported { feature, .. })) => {
            EngineError::Unsupported { feature, words }
        }
        Some((_, EngineError::TooLarge { .. })) => EngineError::TooLarge { words },
        Some((_, EngineError::Crashed { .. })) => EngineError::Crashed { words },
        Some((_, EngineError::Busy { .. })) => EngineError::Busy { words },
        Some((_, EngineError::Invalid { .. })) | None => EngineError::Invalid { words },
    }
}

/// vLLM's `has_guidance_unsupported_json_features`: down through objects, and through lists whose
/// items are objects.
fn has_pattern_properties(schema: &Value) -> bool {
    let Value::Object(members) = schema else {
        return false;
    };
    members.contains_key("patternProperties")
        || members.values().any(|value| match value {
            Value::Object(_) => has_pattern_properties(value),
            Value::Array(items) => items.iter().any(has_pattern_properties),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use EngineName::{Guidance, Outlines, Xgrammar};
    use sobench_core::constraint::{AlwaysTrue, GrammarDialect};

    fn schema(value: Value) -> Constraint {
        Constraint::JsonSchema(Arc::new(value))
    }

    fn pattern() -> Constraint {
        schema(json!({"patternProperties": {"a": {}}}))
    }

    /// Decides with engines that take what they are said to, and says who was asked.
    fn run(
        constraint: &Constraint,
        takers: &[EngineName],
    ) -> (Result<Route, EngineError>, Vec<EngineName>) {
        let asked = RefCell::new(Vec::new());
        let route = decide(constraint, |engine| {
            asked.borrow_mut().push(engine);
            let words = format!("{} has none", engine.name());
            takers
                .contains(&engine)
                .then_some(())
                .ok_or(EngineError::Unsupported {
                    feature: "x".into(),
                    words,
                })
        });
        (route, asked.into_inner())
    }

    #[test]
    fn every_row_decides_as_vllm_does() {
        let plain = schema(json!({"type": "object", "properties": {"a": {"not": {}}}}));
        let lark = Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: "start: \"a\"".into(),
        };
        let others = [
            lark,
            Constraint::Regex("a".into()),
            Constraint::Choice(Arc::new(["a".to_owned()])),
            Constraint::JsonObject(AlwaysTrue),
            Constraint::StructuralTag(Arc::new(json!({"patternProperties": {}}))),
        ];
        let all = [Xgrammar, Outlines, Guidance];
        let pattern = pattern();
        let mut table = vec![
            (&plain, &all[..], Some(Xgrammar), &[Xgrammar][..]),
            (
                &plain,
                &[Outlines, Guidance],
                Some(Guidance),
                &[Xgrammar, Guidance],
            ),
            (&plain, &[Outlines], None, &[Xgrammar, Guidance]),
            (&pattern, &all[..], Some(Xgrammar), &[Xgrammar]),
            (
                &pattern,
                &[Outlines, Guidance],
                Some(Outlines),
                &[Xgrammar, Outlines],
            ),
            (&pattern, &[Guidance], None, &[Xgrammar, Outlines]),
        ];
        for other in &others {
            table.push((other, &all[..], Some(Xgrammar), &[Xgrammar]));
            table.push((
                other,
                &[Outlines, Guidance],
                Some(Guidance),
                &[Xgrammar, Guidance],
            ));
            table.push((other, &[Outlines], None, &[Xgrammar, Guidance]));
        }
        for (constraint, takers, engine, asked) in table {
            let (route, who) = run(constraint, takers);
            assert_eq!(
                (route.ok().map(|route| route.engine), who.as_slice()),
                (engine, asked),
                "{constraint:?} {takers:?}"
            );
        }
    }

    #[test]
    fn rows_that_never_apply_say_why_and_the_last_always_does() {
        let never = ROWS.iter().filter(
            |row| matches!(row.when, When::NeverHere(because) if because.contains("tokenizer")),
        );
        assert_eq!(
            (never.count(), ROWS[ROWS.len() - 1].when),
            (2, When::Otherwise)
        );
    }

    #[test]
    fn pattern_properties_are_found_where_vllm_looks() {
        for (value, found) in [
            (json!({"patternProperties": {}}), true),
            (
                json!({"properties": {"a": {"anyOf": [{"patternProperties": {}}]}}}),
                true,
            ),
            (
                json!({"properties": {"patternProperties": {"type": "null"}}}),
                true,
            ),
            (json!({"enum": [[{"patternProperties": {}}]]}), false),
            (json!({"const": "patternProperties"}), false),
            (json!(true), false),
        ] {
            assert_eq!(has_pattern_properties(&value), found, "{value}");
        }
    }

    #[test]
    fn reasons_and_refusals_carry_the_words_of_who_was_asked() {
        let why = run(&pattern(), &[Outlines]).0.unwrap().why;
        assert_eq!(
            why,
            "the schema has patternProperties, which go to outlines (xgrammar refuses: xgrammar has none)"
        );
        let error = run(&pattern(), &[Guidance]).0.unwrap_err();
        let words = "no engine takes it; xgrammar: xgrammar has none; outlines: outlines has none; guidance: not asked by the rule";
        assert_eq!(
            error,
            EngineError::Unsupported {
                feature: "x".into(),
                words: words.into()
            }
        );
    }
}
