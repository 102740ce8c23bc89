//! Promise: no schema, regex, grammar or answer makes an evaluation overflow a stack, hang, or take
//! memory without bound. What is too much for a bound ends as a verdict or a refusal that names it,
//! and nothing outside the document is ever asked for.

mod answers;
mod grammars;
mod inputs;
mod references;
mod regexes;
mod schemas;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::{EvaluateOptions, Evaluator};

/// Judges `text`; the verdict, in words, begins with `expected`: `valid`, `invalid KEYWORD`, `limit
/// WORDS` or `unsupported WORDS`.
fn check(what: &str, constraint: &Constraint, text: &str, expected: &str) {
    let verdict = Evaluator::new(EvaluateOptions::default()).judge_text(constraint, None, text);
    let words = match &verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid {
            reason: Reason::Schema { keyword, .. },
        } => format!("invalid {keyword}"),
        Verdict::Invalid { reason } => format!("invalid {}", reason.name()),
        Verdict::NotScored {
            why: NotScored::Limit { what },
        } => format!("limit {what}"),
        Verdict::NotScored {
            why: NotScored::Unsupported { what },
        } => format!("unsupported {what}"),
        Verdict::NotScored { why } => why.name().to_owned(),
    };
    assert!(words.starts_with(expected), "{what}: {words}");
}

/// An array of so many items.
fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

/// An object of so many members.
fn members(count: usize, member: impl Fn(usize) -> String) -> String {
    format!(
        "{{{}}}",
        (0..count).map(member).collect::<Vec<_>>().join(",")
    )
}
