//! No schema, regex, grammar or answer makes an evaluation overflow a stack, hang, or use unlimited
//! memory. Exceeded limits result in a verdict or a refusal that names the limit, and nothing
//! outside of the document is fetched.

mod answers;
mod grammars;
mod inputs;
mod references;
mod regexes;
mod schemas;

use sobench_core::constraint::Constraint;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::{Evaluator, JudgeSettings, judge_text};

/// Judges `text`. The verdict as text must start with `expected`: `valid`, `invalid KEYWORD`,
/// `limit NAME` or `unsupported REASON`.
fn check(what: &str, constraint: &Constraint, text: &str, expected: &str) {
    let constraint = Evaluator::new(JudgeSettings::default()).compile(constraint);
    let verdict = judge_text(&constraint, text);
    let verdict_text = match &verdict {
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
    assert!(verdict_text.starts_with(expected), "{what}: {verdict_text}");
}

/// An array of `count` items.
fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

/// An object of `count` members.
fn members(count: usize, member: impl Fn(usize) -> String) -> String {
    format!(
        "{{{}}}",
        (0..count).map(member).collect::<Vec<_>>().join(",")
    )
}
