//! Judges choices: the answer must equal one of them byte for byte, without trimming and case
//! folding.

use sobench_core::verdict::{Reason, Verdict};

/// Why no continuation of `text` can be one of `choices`.
pub(super) fn final_violation(choices: &[String], text: &str) -> Option<Reason> {
    let may_become = choices.iter().any(|choice| choice.starts_with(text));
    (!may_become).then_some(Reason::Choice)
}

/// Whether `text` is one of `choices`.
pub(super) fn judge(choices: &[String], text: &str) -> Verdict {
    if choices.iter().any(|choice| choice == text) {
        return Verdict::Valid;
    }
    let reason = if text.is_empty() {
        Reason::Empty
    } else {
        Reason::Choice
    };
    Verdict::Invalid { reason }
}
