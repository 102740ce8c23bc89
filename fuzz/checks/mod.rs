//! What must hold of any bytes whatever, one file a reader: each check takes the bytes and panics
//! where a promise is broken.
//!
//! The targets of `cargo fuzz` call these, and so does the test suite, on every input that was ever
//! found to break one and on a few that did not (`fixtures/fuzz`). Knows the library's public face
//! alone.

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
mod sse;
mod texts;

/// Panics where the bytes break a promise.
pub(crate) type Check = fn(&[u8]);

/// Every check by its target's name, which is also the name of its folder of fixtures.
pub(crate) const CHECKS: [(&str, Check); 10] = [
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
];

/// Runs the check of this name.
pub(crate) fn run(name: &str, bytes: &[u8]) {
    let (_, check) = CHECKS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a target is named as its check is");
    check(bytes);
}
