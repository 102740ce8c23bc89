//! Integration tests of the verdicts.

#![allow(
    clippy::disallowed_methods,
    reason = "tests start servers and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "helpers of tests may panic; clippy exempts only test functions"
)]

use sobench_core::answer::Answer;
use sobench_core::verdict::Verdict;
use sobench_judge::{Compiled, Ending, judge};

mod hostile;
mod properties;
mod shipped_suite;
mod suite;
mod verdicts;

/// The verdict on a complete answer with this text.
fn judge_text(constraint: &Compiled, text: &str) -> Verdict {
    let answer = Answer::from_text(text.to_owned());
    judge(constraint, &answer, Ending::COMPLETED)
}
