//! The JSON Schema features to test, from `schemas/features.jsonl`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::MARKS;
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};

/// One feature per line.
const SHIPPED: &str = include_str!("../../shipped/features.jsonl");

/// Every fourth sample does not request a specific text, to find other violations.
const FREE_SAMPLE_INTERVAL: usize = 4;

/// A keyword or edge case of JSON Schema.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name, for example `pattern-look-ahead`.
    pub id: String,
    /// The tested keyword.
    pub keyword: String,
    pub schema: Value,
    /// Texts that the schema allows.
    pub valid: Vec<String>,
    /// Texts that break this keyword only.
    pub violating: Vec<String>,
}

/// The shipped features, in the order of reports.
///
/// # Panics
/// Never: a test parses the shipped file.
pub fn shipped() -> Vec<Feature> {
    let read =
        |line| serde_json::from_str(line).expect("a test parses every line of the shipped file");
    SHIPPED.lines().map(read).collect()
}

/// The features whose id starts with one of `wanted`, or whose keyword is one of them; all if
/// `wanted` is empty.
///
/// # Errors
/// A usage error for an entry that matches no feature.
pub fn select_features(wanted: &[String]) -> Result<Vec<Feature>> {
    let matches_entry = |feature: &Feature, entry: &String| {
        feature.id.starts_with(entry.as_str()) || feature.keyword == *entry
    };
    let all = shipped();
    if let Some(entry) = wanted
        .iter()
        .find(|entry| !all.iter().any(|feature| matches_entry(feature, entry)))
    {
        let mut keywords: Vec<&str> = all.iter().map(|feature| feature.keyword.as_str()).collect();
        keywords.sort_unstable();
        keywords.dedup();
        return Err(
            Error::usage(format!("unknown feature or keyword: {entry}")).hint(format!(
                "give the start of a feature's name, or one of {}",
                keywords.join(", ")
            )),
        );
    }
    Ok(all
        .into_iter()
        .filter(|feature| {
            wanted.is_empty() || wanted.iter().any(|entry| matches_entry(feature, entry))
        })
        .collect())
}

impl Feature {
    /// The constraint that is sent and judged.
    pub fn constraint(&self) -> Arc<Constraint> {
        Arc::new(Constraint::JsonSchema(Arc::new(self.schema.clone())))
    }

    /// The request of a sample. It requests one of the texts that break the schema, in turn; every
    /// fourth is free.
    pub fn case(&self, sample: usize, constraint: &Arc<Constraint>, output_len: u32) -> Case {
        let prompt = match self.violating.as_slice() {
            texts
                if !texts.is_empty()
                    && sample % FREE_SAMPLE_INTERVAL != FREE_SAMPLE_INTERVAL - 1 =>
            {
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

    /// Not visible to JSON Schema, because a parser drops duplicates.
    const BEYOND_SCHEMAS: &str = "duplicate members";

    fn is_valid_by_jsonschema(schema: &Value, text: &str) -> bool {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(schema)
            .unwrap();
        serde_json::from_str(text).is_ok_and(|document| validator.is_valid(&document))
    }

    #[test]
    fn examples_are_valid_or_violating_by_two_judges() {
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
                    is_valid_by_jsonschema(&feature.schema, text),
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
                    is_valid_by_jsonschema(&feature.schema, text),
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
    fn prompts_request_each_violation_in_turn_and_some_are_free() {
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
    fn features_are_selected_by_name_and_by_keyword() {
        let ids = |wanted: &[&str]| -> Vec<String> {
            let wanted: Vec<String> = wanted.iter().map(|&entry| entry.to_owned()).collect();
            select_features(&wanted)
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
        let error = select_features(&["maxLenght".to_owned()]).unwrap_err();
        assert!(error.exit_code() == 2 && error.hint.unwrap().contains("maxLength"));
    }
}
