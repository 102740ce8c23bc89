//! Judging of answers: under a schema that allows everything, exactly the texts that serde_json
//! accepts are valid. The scanner passes over no other text.
//!
//! Bytes: the answer, a NUL, a reference of function calls.

use std::sync::Arc;

use serde_json::Value;
use sobench_core::constraint::{AlwaysTrue, Constraint};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::json_scan::Scanner;
use sobench_judge::{function_calls, judge_text, vllm_formula};

use super::compiled;
use super::draw::Draw;

pub(crate) fn check(bytes: &[u8]) {
    let (text, reference) = Draw::new(bytes).two_texts();
    let anything = Constraint::JsonSchema(Arc::new(Value::Bool(true)));
    let parsed = serde_json::from_str::<Value>(&text);
    let verdict = judge_text(&compiled(&anything), &text);
    match (&verdict, &parsed) {
        (Verdict::Valid, Ok(_)) | (Verdict::NotScored { .. }, _) => {}
        // serde_json keeps the last of duplicate keys.
        (
            Verdict::Invalid {
                reason:
                    Reason::DuplicateKey { .. }
                    | Reason::TooLong { .. }
                    | Reason::TooDeep { .. }
                    | Reason::RunawayWhitespace { .. },
            },
            Ok(_),
        ) => {}
        (Verdict::Invalid { .. }, Err(_)) => {}
        (verdict, parsed) => panic!("{verdict:?} and {parsed:?} of {text:?}"),
    }
    check_reason_position(&verdict, &text);
    let mut scanner = Scanner::new(&text).with_repeated_names();
    let is_passed = scanner.value().is_some() && scanner.is_at_end();
    assert!(
        !is_passed || parsed.is_ok(),
        "the scanner passes over what is not JSON: {text:?}"
    );
    let object = compiled(&Constraint::JsonObject(AlwaysTrue));
    assert!(
        !object.accepts(&text) || verdict == Verdict::Valid,
        "a valid object that is not valid JSON: {text:?}"
    );
    // The script's formula differs from JSON, so only the presence of a result is checked.
    assert!(vllm_formula::vllm_correct(&anything, &text).is_some());
    let _ = function_calls::matches_reference(&reference, None, &text);
}

/// The byte of a reason must be a character boundary.
fn check_reason_position(verdict: &Verdict, text: &str) {
    let Verdict::Invalid { reason } = verdict else {
        return;
    };
    if let Reason::NotJson { byte, .. }
    | Reason::ExtraText { byte, .. }
    | Reason::LoneSurrogate { byte } = reason
    {
        assert!(text.is_char_boundary(*byte), "byte {byte} of {text:?}");
    }
}
