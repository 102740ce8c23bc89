//! The schemas that are asked about, read from `schemas/features.jsonl`. Knows no server.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MARKS;
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// One line a feature.
const SHIPPED: &str = include_str!("../../../../schemas/features.jsonl");

/// Every so many samples one is asked for nothing in particular: a model may find what nobody
/// thought of.
const FREE_EVERY: usize = 4;

/// A keyword or trap of JSON Schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// Names it, e.g. `pattern-look-ahead`.
    pub id: String,
    /// The keyword that it is about.
    pub keyword: String,
    pub schema: Value,
    /// Texts that the schema allows.
    pub valid: Vec<String>,
    /// Texts that break it, and nothing else in it.
    pub violating: Vec<String>,
}

/// The features that ship, in the order of reports.
///
/// # Panics
/// Never: a test reads the shipped file.
pub fn shipped() -> Vec<Feature> {
    let read =
        |line| serde_json::from_str(line).expect("a test reads every line of the shipped file");
    SHIPPED.lines().map(read).collect()
}

/// Those of the features whose id begins with one of `wanted`, or whose keyword is one of them; all
/// where nothing is wanted.
///
/// # Errors
/// A usage error for a word that chooses none.
pub fn chosen(wanted: &[String]) -> Result<Vec<Feature>> {
    let is_meant = |feature: &Feature, word: &String| {
        feature.id.starts_with(word.as_str()) || feature.keyword == *word
    };
    let all = shipped();
    if let Some(word) = wanted
        .iter()
        .find(|word| !all.iter().any(|feature| is_meant(feature, word)))
    {
        let mut keywords: Vec<&str> = all.iter().map(|feature| feature.keyword.as_str()).collect();
        keywords.sort_unstable();
        keywords.dedup();
        return Err(
            Error::usage(format!("no feature is about this keyword: {word}")).hint(format!(
                "the beginning of a feature's name, or one of {}",
                keywords.join(", ")
            )),
        );
    }
    Ok(all
        .into_iter()
        .filter(|feature| wanted.is_empty() || wanted.iter().any(|word| is_meant(feature, word)))
        .collect())
}

impl Feature {
    /// The constraint that is sent and judged by.
    pub fn constraint(&self) -> Arc<Constraint> {
        Arc::new(Constraint::JsonSchema(Arc::new(self.schema.clone())))
    }

    /// The request of a sample: it spells out an answer that breaks the schema, each one in turn;
    /// every fourth is free.
    pub fn case(&self, sample: usize, constraint: &Arc<Constraint>, output_len: u32) -> Case {
        let prompt = match self.violating.as_slice() {
            texts if !texts.is_empty() && sample % FREE_EVERY != FREE_EVERY - 1 => {
                let text = &texts[sample % texts.len()];
                let [before, after] = MARKS;
                format!(
                    "Answer with exactly the text between the marks, without the marks: {before}{text}{after}"
                )
            }
            _ => format!("Make up a JSON document, number {sample}, and answer with it alone."),
        };
        Case::new(
            format!("feature-{}-{sample}", self.id),
            Prompt::Text(prompt.into()),
            Some(Arc::clone(constraint)),
            output_len,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_judge::{EvaluateOptions, Evaluator};

    /// What JSON Schema cannot see, because a parser has thrown it away by then.
    const BEYOND_SCHEMAS: &str = "duplicate members";

    fn by_the_library(schema: &Value, text: &str) -> bool {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(schema)
            .unwrap();
        serde_json::from_str(text).is_ok_and(|document| validator.is_valid(&document))
    }

    #[test]
    fn every_example_is_what_it_is_said_to_be_by_two_judges() {
        let mut evaluator = Evaluator::new(EvaluateOptions::default());
        for feature in shipped() {
            assert!(
                !feature.valid.is_empty() && !feature.violating.is_empty(),
                "{}",
                feature.id
            );
            let constraint = feature.constraint();
            for text in &feature.valid {
                assert_eq!(
                    evaluator.judge_text(&constraint, None, text),
                    Verdict::Valid,
                    "{}: {text}",
                    feature.id
                );
                assert!(
                    by_the_library(&feature.schema, text),
                    "{}: {text}",
                    feature.id
                );
            }
            for text in &feature.violating {
                let verdict = evaluator.judge_text(&constraint, None, text);
                assert!(
                    matches!(verdict, Verdict::Invalid { .. }),
                    "{}: {text}: {verdict:?}",
                    feature.id
                );
                let is_duplicate = matches!(
                    verdict,
                    Verdict::Invalid {
                        reason: Reason::DuplicateKey { .. }
                    }
                );
                assert_eq!(
                    is_duplicate,
                    feature.keyword == BEYOND_SCHEMAS,
                    "{}: {text}",
                    feature.id
                );
                assert_eq!(
                    by_the_library(&feature.schema, text),
                    is_duplicate,
                    "{}: {text}",
                    feature.id
                );
                assert!(
                    !MARKS.iter().any(|mark| text.contains(mark)),
                    "{}: {text}",
                    feature.id
                );
            }
        }
    }

    #[test]
    fn ids_are_names_and_keywords_cover_the_standard() {
        let features = shipped();
        let ids: HashSet<&str> = features.iter().map(|feature| feature.id.as_str()).collect();
        assert_eq!(ids.len(), features.len());
        for keyword in [
            "type",
            "enum",
            "const",
            "required",
            "properties",
            "additionalProperties",
            "patternProperties",
            "propertyNames",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependentSchemas",
            "items",
            "prefixItems",
            "contains",
            "minContains",
            "maxContains",
            "uniqueItems",
            "minItems",
            "maxItems",
            "unevaluatedProperties",
            "unevaluatedItems",
            "minLength",
            "maxLength",
            "pattern",
            "format",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "allOf",
            "anyOf",
            "oneOf",
            "not",
            "if",
            "$ref",
            "$anchor",
            "$dynamicRef",
        ] {
            assert!(
                features.iter().any(|feature| feature.keyword == keyword),
                "{keyword}"
            );
        }
        for kind in [
            "string", "integer", "number", "boolean", "null", "array", "object",
        ] {
            assert!(ids.contains(format!("type-{kind}").as_str()), "{kind}");
        }
    }

    #[test]
    fn prompts_ask_for_each_violation_in_turn_and_now_and_then_for_nothing() {
        let feature = shipped()
            .into_iter()
            .find(|feature| feature.id == "enum")
            .unwrap();
        let constraint = feature.constraint();
        let prompts: Vec<String> = (0..8)
            .map(|sample| match feature.case(sample, &constraint, 9).prompt {
                Prompt::Text(text) => text.to_string(),
                _ => panic!("a text"),
            })
            .collect();
        for text in &feature.violating {
            assert!(
                prompts
                    .iter()
                    .any(|prompt| prompt.ends_with(&format!("<<<{text}>>>"))),
                "{prompts:?}"
            );
        }
        assert_eq!(
            prompts
                .iter()
                .filter(|prompt| !prompt.contains(MARKS[0]))
                .count(),
            2
        );
    }

    #[test]
    fn words_choose_by_name_and_by_keyword() {
        let ids = |wanted: &[&str]| -> Vec<String> {
            let wanted: Vec<String> = wanted.iter().map(|&word| word.to_owned()).collect();
            chosen(&wanted)
                .unwrap()
                .into_iter()
                .map(|feature| feature.id)
                .collect()
        };
        assert_eq!(ids(&["if"]), ["if-then", "if-then-else"]);
        assert_eq!(
            ids(&["allOf-objects", "$anchor"]),
            ["allOf-objects", "anchor"]
        );
        assert_eq!(ids(&[]).len(), shipped().len());
        let error = chosen(&["maxLenght".to_owned()]).unwrap_err();
        assert!(error.exit_code() == 2 && error.hint.unwrap().contains("maxLength"));
    }
}
