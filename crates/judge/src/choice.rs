//! Judges choices: the answer must equal one of them byte for byte, without trimming and case
//! folding.

use sobench_core::verdict::{Reason, Verdict};

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
