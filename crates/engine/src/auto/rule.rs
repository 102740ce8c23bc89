//! vLLM's rule for `auto` as a table of conditions and engines.
//!
//! Source: vLLM 0.33, `SamplingParams._validate_structured_outputs`. Its checks of the request
//! itself (empty choice, NUL in a regex) run before the rule and belong to the server. If the
//! engine of the deciding row refuses, the constraint is refused: vLLM does not continue with the
//! next row.

use serde_json::Value;

use crate::{EngineError, EngineName, Route};
use sobench_core::constraint::Constraint;

/// Maximum characters of an engine's refusal that are quoted in the reason for another engine.
const MAX_QUOTED_CHARS: usize = 160;

/// One row: constraints that meet this condition are routed to this engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    pub(super) condition: Condition,
    pub(super) engine: EngineName,
    /// Description of the row in reports.
    pub(super) why: &'static str,
}

/// Condition of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Never met here: vLLM applies the row to a tokenizer that cannot be loaded here, for this
    /// reason. Kept so that the table is complete.
    Never(&'static str),
    /// Met if the engine's check passes.
    EngineAccepts,
    /// Met if the schema has a member `patternProperties` anywhere, as a keyword or as a property
    /// name.
    PatternProperties,
    /// Always met.
    Otherwise,
}

/// The rule. The first row whose condition is met decides. The engine of a row `PatternProperties`
/// or `Otherwise` may still refuse the constraint.
pub(super) const RULES: [Rule; 5] = [
    Rule {
        condition: Condition::Never("Mistral's tekken tokenizers are not supported"),
        engine: EngineName::Guidance,
        why: "Lark grammar under a tekken tokenizer",
    },
    Rule {
        condition: Condition::EngineAccepts,
        engine: EngineName::Xgrammar,
        why: "xgrammar is tried first and accepts it",
    },
    Rule {
        condition: Condition::Never("Mistral's tokenizers before tekken are not supported"),
        engine: EngineName::Outlines,
        why: "xgrammar refuses, and guidance has no Mistral tokenizer before tekken",
    },
    Rule {
        condition: Condition::PatternProperties,
        engine: EngineName::Outlines,
        why: "schemas with patternProperties are routed to outlines",
    },
    Rule {
        condition: Condition::Otherwise,
        engine: EngineName::Guidance,
        why: "guidance is the fallback for xgrammar",
    },
];

/// Selects the engine for a constraint and returns the reason. `check` validates the constraint
/// with an engine.
///
/// # Errors
/// The refusal of the deciding row, with the messages of all engines that were tried.
pub(super) fn select_engine(
    constraint: &Constraint,
    check: impl Fn(EngineName) -> Result<(), EngineError>,
) -> Result<Route, EngineError> {
    let mut refusals: Vec<(EngineName, EngineError)> = Vec::new();
    for rule in RULES {
        let applies = match rule.condition {
            Condition::Never(_) => false,
            Condition::EngineAccepts | Condition::Otherwise => true,
            Condition::PatternProperties => constraint
                .schema()
                .is_some_and(|schema| has_pattern_properties(schema)),
        };
        if !applies {
            continue;
        }
        match check(rule.engine) {
            Ok(()) => {
                return Ok(Route {
                    engine: rule.engine,
                    why: reason(&rule, &refusals),
                });
            }
            Err(error) => refusals.push((rule.engine, error)),
        }
        if rule.condition != Condition::EngineAccepts {
            break;
        }
    }
    Err(refusal(refusals))
}

fn reason(rule: &Rule, refusals: &[(EngineName, EngineError)]) -> String {
    refusals
        .iter()
        .fold(rule.why.to_owned(), |why, (engine, error)| {
            let message = error.to_string();
            let quoted: String = message.chars().take(MAX_QUOTED_CHARS).collect();
            let more = if quoted.len() < message.len() {
                " ..."
            } else {
                ""
            };
            format!("{why} ({} refuses: {quoted}{more})", engine.name())
        })
}

/// Error if no engine accepts the constraint. Its kind is that of the last refusal, as in vLLM.
fn refusal(refusals: Vec<(EngineName, EngineError)>) -> EngineError {
    let tried: Vec<String> = super::ENGINES
        .into_iter()
        .map(
            |engine| match refusals.iter().find(|(refused, _)| *refused == engine) {
                Some((_, error)) => format!("{}: {error}", engine.name()),
                None => format!("{}: not tried by the rule", engine.name()),
            },
        )
        .collect();
    let message = format!("no engine accepts it; {}", tried.join("; "));
    match refusals.into_iter().last() {
        Some((_, EngineError::Unsupported { feature, .. })) => {
            EngineError::Unsupported { feature, message }
        }
        Some((_, EngineError::TooLarge { .. })) => EngineError::TooLarge { message },
        Some((_, EngineError::Crashed { .. })) => EngineError::Crashed { message },
        Some((_, EngineError::Busy { .. })) => EngineError::Busy { message },
        Some((_, EngineError::Invalid { .. })) | None => EngineError::Invalid { message },
    }
}

/// vLLM's `has_guidance_unsupported_json_features`: descends through objects, and through lists
/// whose items are objects.
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

    /// Selects between engines of which `accepting` accept the constraint. Also returns the engines
    /// that were tried.
    fn run(
        constraint: &Constraint,
        accepting: &[EngineName],
    ) -> (Result<Route, EngineError>, Vec<EngineName>) {
        let tried = RefCell::new(Vec::new());
        let route = select_engine(constraint, |engine| {
            tried.borrow_mut().push(engine);
            let message = format!("{} has none", engine.name());
            accepting
                .contains(&engine)
                .then_some(())
                .ok_or(EngineError::Unsupported {
                    feature: "x".into(),
                    message,
                })
        });
        (route, tried.into_inner())
    }

    #[test]
    fn every_rule_selects_as_vllm_does() {
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
        for (constraint, accepting, engine, tried) in table {
            let (route, found) = run(constraint, accepting);
            assert_eq!(
                (route.ok().map(|route| route.engine), found.as_slice()),
                (engine, tried),
                "{constraint:?} {accepting:?}"
            );
        }
    }

    #[test]
    fn unreachable_rules_have_a_reason_and_the_last_rule_always_applies() {
        let never = RULES.iter().filter(
            |rule| matches!(rule.condition, Condition::Never(because) if because.contains("tokenizer")),
        );
        assert_eq!(
            (never.count(), RULES[RULES.len() - 1].condition),
            (2, Condition::Otherwise)
        );
    }

    #[test]
    fn pattern_properties_are_searched_like_vllm_does() {
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
    fn reasons_and_refusals_quote_the_tried_engines() {
        let why = run(&pattern(), &[Outlines]).0.unwrap().why;
        assert_eq!(
            why,
            "schemas with patternProperties are routed to outlines (xgrammar refuses: xgrammar has none)"
        );
        let error = run(&pattern(), &[Guidance]).0.unwrap_err();
        let message = "no engine accepts it; xgrammar: xgrammar has none; outlines: outlines has none; guidance: not tried by the rule";
        assert_eq!(
            error,
            EngineError::Unsupported {
                feature: "x".into(),
                message: message.into()
            }
        );
    }
}
