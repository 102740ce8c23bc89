//! The length of a regular expression: an alternation of words.

use super::{LadderSpec, Payload, word};
use sobench_core::constraint::{Constraint, ConstraintKind};

/// Bytes of a word with its bar.
const WORD_BYTES: u64 = 9;

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "regex-size",
    label: "regex",
    unit: "bytes of a regex",
    sizes: &[
        30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
    ],
    kind: ConstraintKind::Regex,
    build: |bytes, nonce, _| {
        let words: Vec<String> = (0..(bytes / WORD_BYTES).max(1)).map(word).collect();
        let pattern = format!("{nonce}(?:{})", words.join("|"));
        Payload::Constraint(Constraint::Regex(pattern.into()))
    },
};
