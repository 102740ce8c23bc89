//! Any generated instance of a generated schema is valid, however it is spelt; with one keyword
//! broken it is not, and the reason names the place. From Draft 4 to 2020-12.

use std::cell::RefCell;
use std::collections::BTreeMap;

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};

use super::breaks::{Break, breaks};
use super::shape::Shape;
use super::source::{self, Source};
use super::spelling::{Liberty, spell};
use super::write;
use crate::suite::corpus::Draft;

/// Generated schemas.
const CASES: usize = 1_500;

/// Instances of each.
const INSTANCES: usize = 2;

/// Breaks that are tried of each instance.
const MAX_BREAKS: usize = 8;

/// Keywords that have to have been broken and named.
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
        let liberty = if self.draft == Draft::Draft4 {
            Liberty::PlainNumbers
        } else {
            Liberty::All
        };
        let text = spell(value, source, liberty);
        let verdict = self.evaluator.judge_text(
            &Constraint::JsonSchema(self.schema.clone().into()),
            None,
            &text,
        );
        (text, verdict)
    }

    fn wrong(&self, text: &str, verdict: &Verdict, expected: &str) -> String {
        format!("{}\n{text}\n{verdict:?}\nexpected: {expected}", self.schema)
    }
}

/// The keyword that `verdict` names, if it is the broken one, at its place.
fn named<'v>(verdict: &'v Verdict, expected: &Break) -> Option<&'v str> {
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

/// Counts broken keywords by draft.
type Counts = BTreeMap<(Draft, String), usize>;

fn holds(source: &mut Source, counts: &mut Counts) -> Result<(), String> {
    let draft = Draft::ALL[source.below(Draft::ALL.len())];
    let shape = Shape::draw(source, 3);
    let schema = write::schema(&shape, draft);
    let mut case = Case {
        draft,
        schema,
        evaluator: Evaluator::new(EvaluateOptions::default()),
    };
    for _ in 0..INSTANCES {
        let value = shape.sample(source);
        let (text, verdict) = case.judge(&value, source);
        if verdict != Verdict::Valid {
            return Err(case.wrong(&text, &verdict, "valid"));
        }
        let found = breaks(&shape, &value, draft);
        for index in source.order(found.len()).into_iter().take(MAX_BREAKS) {
            let expected = &found[index];
            let (text, verdict) = case.judge(&expected.value, source);
            let Some(keyword) = named(&verdict, expected) else {
                return Err(case.wrong(
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
fn generated_instances_are_valid_and_single_breaks_are_named() {
    let counts = RefCell::new(Counts::new());
    source::check(0x0B5E_55ED, CASES, |source| {
        holds(source, &mut counts.borrow_mut())
    });
    let counts = counts.into_inner();
    for draft in Draft::ALL {
        let broken: Vec<&str> = counts
            .keys()
            .filter(|(of, _)| *of == draft)
            .map(|(_, keyword)| keyword.as_str())
            .collect();
        assert!(broken.len() >= 20, "{}: only {broken:?}", draft.folder());
    }
    for keyword in KEYWORDS {
        let times: usize = counts
            .iter()
            .filter(|((_, of), _)| of == keyword)
            .map(|(_, times)| times)
            .sum();
        assert!(times > 2, "{keyword} was broken {times} times");
    }
}
