//! The JSON Schema features to test, from `schemas/features.jsonl`.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_judge::Evaluator;

/// One feature per line.
const SHIPPED: &str = include_str!("../../shipped/features.jsonl");

/// A keyword or edge case of JSON Schema.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Feature {
    /// The name, for example `pattern-look-ahead`.
    pub id: String,
    /// The tested keyword.
    pub keyword: String,
    pub schema: Value,
    /// Texts that the schema allows. If it allows none, a server should refuse it.
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

    /// Whether it tests duplicate member names, which JSON Schema does not see.
    pub fn is_about_duplicates(&self) -> bool {
        self.keyword == "duplicate members"
    }

    /// The schema without the tested keyword, as a constraint. A model that breaks the keyword if
    /// it is left out would also break it where a server ignores it. `None` if the texts that break
    /// the keyword break something else as well.
    pub fn constraint_without_keyword(&self, evaluator: &mut Evaluator) -> Option<Arc<Constraint>> {
        let schema = without_keyword(&self.schema, &self.keyword);
        if schema == self.schema {
            return None;
        }
        let constraint = Constraint::JsonSchema(Arc::new(schema));
        let compiled = evaluator.compile(&constraint);
        let mut texts = self.violating.iter();
        texts
            .all(|text| compiled.accepts(text))
            .then(|| Arc::new(constraint))
    }
}

/// Removes a keyword from a schema and its subschemas. Names of properties are kept.
fn without_keyword(schema: &Value, keyword: &str) -> Value {
    match schema {
        Value::Object(members) => members
            .iter()
            .filter(|(name, _)| *name != keyword)
            .map(|(name, inner)| {
                let inner = match (name.as_str(), inner) {
                    ("properties" | "$defs" | "patternProperties", Value::Object(named)) => named
                        .iter()
                        .map(|(name, inner)| (name.clone(), without_keyword(inner, keyword)))
                        .collect(),
                    ("enum" | "const", _) => inner.clone(),
                    _ => without_keyword(inner, keyword),
                };
                (name.clone(), inner)
            })
            .collect(),
        Value::Array(items) => items
            .iter()
            .map(|item| without_keyword(item, keyword))
            .collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_judge::{JudgeSettings, judge_text};

    use serde_json::json;

    use super::super::MARKS;

    /// Not visible to JSON Schema, because a parser drops duplicates.
    const BEYOND_SCHEMAS: &str = "duplicate members";

    /// Whether the schema refers to one that does not exist, so that no text can be judged.
    fn is_unresolvable(feature: &Feature) -> bool {
        feature.id.starts_with("ref-missing") || feature.id.starts_with("ref-remote")
    }

    fn is_valid_by_jsonschema(schema: &Value, text: &str) -> bool {
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(schema)
            .unwrap();
        serde_json::from_str(text).is_ok_and(|document| validator.is_valid(&document))
    }

    #[test]
    fn examples_are_valid_or_violating_by_two_judges() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        for feature in shipped() {
            assert!(!feature.violating.is_empty(), "{}", feature.id);
            let constraint = evaluator.compile(&feature.constraint());
            if is_unresolvable(&feature) {
                assert!(constraint.not_scorable().is_some(), "{}", feature.id);
                continue;
            }
            for text in &feature.valid {
                assert!(constraint.accepts(text), "{}: {text}", feature.id);
                assert!(
                    is_valid_by_jsonschema(&feature.schema, text),
                    "{}: {text}",
                    feature.id
                );
            }
            for text in &feature.violating {
                let verdict = judge_text(&constraint, text);
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
    fn a_keyword_is_removed_wherever_it_is_a_keyword() {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        let mut without = |id: &str| {
            let feature = shipped().into_iter().find(|feature| feature.id == id);
            let constraint = feature
                .unwrap()
                .constraint_without_keyword(&mut evaluator)?;
            match &*constraint {
                Constraint::JsonSchema(schema) => Some((**schema).clone()),
                _ => panic!("a schema"),
            }
        };
        let free = json!({"type": "object", "properties": {"v": {}}, "required": ["v"], "additionalProperties": false});
        assert_eq!(without("not"), Some(free));
        // The texts break the syntax of JSON, not a keyword.
        assert_eq!(without("empty-schema"), None);
        assert_eq!(
            without_keyword(
                &json!({"properties": {"not": {"not": {}}}, "not": 1, "enum": [{"not": 1}]}),
                "not"
            ),
            json!({"properties": {"not": {}}, "enum": [{"not": 1}]})
        );
        let removable = shipped()
            .iter()
            .filter(|feature| feature.constraint_without_keyword(&mut evaluator).is_some())
            .count();
        assert!(removable * 3 > shipped().len() * 2, "{removable}");
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
        assert_eq!(ids(&["if"]), ["if-then", "if-then-else", "if-then-trap"]);
        assert_eq!(
            ids(&["allOf-objects", "$anchor"]),
            ["allOf-objects", "anchor"]
        );
        assert_eq!(ids(&[]).len(), shipped().len());
        let error = select_features(&["maxLenght".to_owned()]).unwrap_err();
        assert!(error.exit_code() == 2 && error.hint.unwrap().contains("maxLength"));
    }
}
