//! Choices: the answer is one of them, byte for byte. Nothing is trimmed, no case is folded.

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
