//! Any schema and any answer: a verdict, always the same one, and the same however the answer is
//! spelt, with its reason.
//!
//! Bytes: a schema, a NUL, an answer.

use std::sync::Arc;

use serde_json::Value;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};

use super::draw::Draw;

pub(crate) fn check(bytes: &[u8]) {
    let (schema, answer) = Draw::new(bytes).two_texts();
    let Ok(schema) = serde_json::from_str::<Value>(&schema) else {
        return;
    };
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let constraint = Constraint::JsonSchema(Arc::new(schema));
    let verdict = evaluator.judge_text(&constraint, None, &answer);
    assert_eq!(
        Evaluator::new(EvaluateOptions::default()).judge_text(&constraint, None, &answer),
        verdict,
        "a second time"
    );
    let Ok(value) = serde_json::from_str::<Value>(&answer) else {
        return;
    };
    // Other reasons are about the text: a name that is there twice, a byte that is none.
    if let Verdict::Valid
    | Verdict::Invalid {
        reason: Reason::Schema { .. },
    } = verdict
    {
        let spelt = serde_json::to_string_pretty(&value).expect("a value can be written");
        assert_eq!(
            evaluator.judge_text(&constraint, None, &spelt),
            verdict,
            "spelt with white space: {answer}"
        );
    }
}
