//! Schema validation: verdicts are repeatable, and independent of the white space of the answer.
//!
//! Bytes: a schema, a NUL, an answer.

use std::sync::Arc;

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};

use super::compiled;
use super::draw::Draw;
use sobench_judge::judge_text;

pub(crate) fn check(bytes: &[u8]) {
    let (schema, answer) = Draw::new(bytes).two_texts();
    let Ok(schema) = serde_json::from_str::<Value>(&schema) else {
        return;
    };
    let constraint = Constraint::JsonSchema(Arc::new(schema));
    let once = compiled(&constraint);
    let verdict = judge_text(&once, &answer);
    assert_eq!(
        judge_text(&compiled(&constraint), &answer),
        verdict,
        "not repeatable"
    );
    let Ok(value) = serde_json::from_str::<Value>(&answer) else {
        return;
    };
    // Other reasons concern the text, such as duplicate keys.
    if let Verdict::Valid
    | Verdict::Invalid {
        reason: Reason::Schema { .. },
    } = verdict
    {
        let pretty = serde_json::to_string_pretty(&value).expect("a value can be written");
        assert_eq!(
            judge_text(&once, &pretty),
            verdict,
            "with white space: {answer}"
        );
    }
}
