//! The correctness formula of vLLM's `benchmark_serving_structured_output.py`, to line figures up with its old result files.
//!
//! It does not look at the schema: JSON is whatever stands between the first `{` and the last `}`, once all blanks and newlines are
//! gone (those inside strings, too), as far as `json.loads` takes it; a regex is content with a prefix; grammars are not judged.
//! Never used for a verdict of ours.

use super::json::{self, Dialect};
use super::regex;
use crate::constraint::Constraint;

/// What the script would have said to `text`; `None` where it says nothing (grammars, structural tags), or where its regex cannot be
/// followed here.
///
/// Counted as CPython 3.11 counts: integers of over 4,300 digits and nesting of nearly 1,000 are not read by `json.loads`.
pub fn vllm_correct(constraint: &Constraint, text: &str) -> Option<bool> {
    match constraint {
        Constraint::JsonSchema(_) | Constraint::JsonObject(_) => Some(loads_something(text)),
        Constraint::Choice(choices) => Some(choices.iter().any(|choice| choice == text)),
        Constraint::Regex(pattern) => regex::package_match(pattern, text),
        Constraint::Grammar { .. } | Constraint::StructuralTag(_) => None,
    }
}

/// `re.search(r"\{.*\}", text.replace("\n", "").replace(" ", ""))`, then `json.loads`.
fn loads_something(text: &str) -> bool {
    let squeezed = text.replace(['\n', ' '], "");
    let (Some(start), Some(end)) = (squeezed.find('{'), squeezed.rfind('}')) else { return false };
    if end < start {
        return false;
    }
    let candidate = &squeezed[start..=end];
    // `json.loads` takes one document with white space behind it; here the last byte is a bracket.
    json::read(candidate, 0, Dialect::Python).is_ok_and(|document| document.end == candidate.len())
}
