//! Generated instances of generated schemas are valid in every spelling. With one violated keyword
//! they are invalid, and the reason names the location. Drafts 4 to 2020-12.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Evaluator, JudgeSettings, judge_text};

use super::shape::Shape;
use super::source::{self, Source};
use super::spelling::{SpellingFreedom, spell};
use super::violations::{Violation, violations};
use super::write;
use crate::suite::corpus::Draft;

/// Number of generated schemas.
const CASES: usize = 1_500;

/// Number of instances per schema.
const INSTANCES: usize = 2;

/// Maximum number of tested violations per instance.
const MAX_VIOLATIONS: usize = 8;

/// Keywords that must be covered by violations.
const KEYWORDS: [&str; 24] = [
    "additionalProperties",
    "anyOf",
    "const",
    "contains",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "false",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "propertyNames",
    "type",
    "uniqueItems",
];

struct Case {
    draft: Draft,
    schema: Value,
    evaluator: Evaluator,
}

impl Case {
    fn judge(&mut self, value: &Value, source: &mut Source) -> (String, Verdict) {
        let freedom = if self.draft == Draft::Draft4 {
            SpellingFreedom::PlainNumbers
        } else {
            SpellingFreedom::All
        };
        let text = spell(value, source, freedom);
        let constraint = Constraint::JsonSchema(self.schema.clone().into());
        let verdict = judge_text(&self.evaluator.compile(&constraint), &text);
        (text, verdict)
    }

    fn failure_message(&self, text: &str, verdict: &Verdict, expected: &str) -> String {
        format!("{}\n{text}\n{verdict:?}\nexpected: {expected}", self.schema)
    }
}

/// The reported keyword, if keyword and location are the expected ones.
fn reported_keyword<'v>(verdict: &'v Verdict, expected: &Violation) -> Option<&'v str> {
    let Verdict::Invalid {
        reason:
            Reason::Schema {
                keyword,
                instance_path,
                ..
            },
    } = verdict
    else {
        return None;
    };
    (*instance_path == expected.path && expected.keywords.contains(&keyword.as_str()))
        .then_some(keyword)
}

/// Number of violations by draft and keyword.
type Counts = BTreeMap<(Draft, String), usize>;

fn check_schema(source: &mut Source, counts: &mut Counts) -> Result<(), String> {
    let draft = Draft::ALL[source.below(Draft::ALL.len())];
    let shape = Shape::draw(source, 3);
    let schema = write::schema(&shape, draft);
    let mut case = Case {
        draft,
        schema,
        evaluator: Evaluator::new(JudgeSettings::default()),
    };
    for _ in 0..INSTANCES {
        let value = shape.sample(source);
        let (text, verdict) = case.judge(&value, source);
        if verdict != Verdict::Valid {
            return Err(case.failure_message(&text, &verdict, "valid"));
        }
        let found = violations(&shape, &value, draft);
        for index in source
            .permutation(found.len())
            .into_iter()
            .take(MAX_VIOLATIONS)
        {
            let expected = &found[index];
            let (text, verdict) = case.judge(&expected.value, source);
            let Some(keyword) = reported_keyword(&verdict, expected) else {
                return Err(case.failure_message(
                    &text,
                    &verdict,
                    &format!("{:?} at {:?}", expected.keywords, expected.path),
                ));
            };
            *counts.entry((draft, keyword.to_owned())).or_default() += 1;
        }
    }
    Ok(())
}

#[test]
fn generated_instances_are_valid_and_single_violations_are_reported() {
    let counts = RefCell::new(Counts::new());
    source::check(0x0B5E_55ED, CASES, |source| {
        check_schema(source, &mut counts.borrow_mut())
    });
    let counts = counts.into_inner();
    for draft in Draft::ALL {
        let broken: Vec<&str> = counts
            .keys()
            .filter(|(other, _)| *other == draft)
            .map(|(_, keyword)| keyword.as_str())
            .collect();
        assert!(broken.len() >= 20, "{}: only {broken:?}", draft.folder());
    }
    for keyword in KEYWORDS {
        let times: usize = counts
            .iter()
            .filter(|((_, other), _)| other == keyword)
            .map(|(_, times)| times)
            .sum();
        assert!(times > 2, "{keyword} was violated {times} times");
    }
}
