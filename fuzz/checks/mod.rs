//! Fuzz checks, one file per parser: each takes arbitrary bytes and panics if a property is
//! violated.
//!
//! Run by the targets of `cargo fuzz`, and by the test suite on all inputs that ever violated a
//! property and on some others (`fixtures/fuzz`).

use sobench_core::constraint::Constraint;
use sobench_judge::{Compiled, Evaluator, JudgeSettings};

mod answer;
mod delta;
mod draw;
mod ebnf;
mod gate;
mod lark;
mod notation;
mod recogniser;
mod regex;
mod run_log;
mod schema;
mod server_metrics;
mod sse;
mod texts;

/// A constraint, compiled.
fn compiled(constraint: &Constraint) -> Compiled {
    Evaluator::new(JudgeSettings::default()).compile(constraint)
}

/// Panics if the bytes violate a property.
pub(crate) type Check = fn(&[u8]);

/// All checks by target name, which is also the name of the fixture folder.
pub(crate) const CHECKS: [(&str, Check); 11] = [
    ("sse", sse::check),
    ("delta", delta::check),
    ("lark", lark::check),
    ("ebnf", ebnf::check),
    ("recogniser", recogniser::check),
    ("regex", regex::check),
    ("answer", answer::check),
    ("schema", schema::check),
    ("run_log", run_log::check),
    ("gate", gate::check),
    ("server_metrics", server_metrics::check),
];

/// Runs the check of this name.
pub(crate) fn run(name: &str, bytes: &[u8]) {
    let (_, check) = CHECKS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("each target has a check of its name");
    check(bytes);
}
