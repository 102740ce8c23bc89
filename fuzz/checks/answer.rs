//! What counts as the answer: under a schema that allows all, right is what another reader of JSON
//! takes too.
//!
//! Bytes: the answer, a NUL, a reference of function calls.

use std::sync::Arc;

use serde_json::Value;
use sobench_core::constraint::{AlwaysTrue, Constraint};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator, call, legacy};

use super::draw::Draw;

pub(crate) fn check(bytes: &[u8]) {
    let (text, reference) = Draw::new(bytes).two_texts();
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    let anything = Constraint::JsonSchema(Arc::new(Value::Bool(true)));
    let other = serde_json::from_str::<Value>(&text);
    let verdict = evaluator.judge_text(&anything, None, &text);
    match (&verdict, &other) {
        (Verdict::Valid, Ok(_)) | (Verdict::NotScored { .. }, _) => {}
        // The other reader keeps the last of two members.
        (
            Verdict::Invalid {
                reason: Reason::DuplicateKey { .. },
            },
            Ok(_),
        ) => {}
        (Verdict::Invalid { .. }, Err(_)) => {}
        (verdict, other) => panic!("{verdict:?} and {other:?} of {text:?}"),
    }
    is_placed(&verdict, &text);
    let object = evaluator.judge_text(&Constraint::JsonObject(AlwaysTrue), None, &text);
    assert!(
        object != Verdict::Valid || verdict == Verdict::Valid,
        "an object that is no JSON: {text:?}"
    );
    // The script's formula takes less than JSON and more: that it says something is all that is
    // asked.
    assert!(legacy::vllm_correct(&anything, &text).is_some());
    let _ = call::agrees(&reference, &text);
}

/// A reason that names a byte names one where a character begins.
fn is_placed(verdict: &Verdict, text: &str) {
    let Verdict::Invalid { reason } = verdict else {
        return;
    };
    if let Reason::NotJson { byte, .. }
    | Reason::ExtraText { byte }
    | Reason::LoneSurrogate { byte } = reason
    {
        assert!(text.is_char_boundary(*byte), "byte {byte} of {text:?}");
    }
}
