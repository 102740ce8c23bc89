//! The bound of a repetition in a regular expression.

use super::{LadderSpec, Payload};
use sobench_core::constraint::Constraint;

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "regex-repeats",
    label: "regex repeats",
    unit: "repeats in a regex",
    sizes: &[
        1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000,
    ],
    kind: "regex",
    build: |bound, nonce, _| {
        let pattern = format!("{nonce}(?:[a-z]|[0-9][0-9]){{1,{bound}}}");
        Payload::Constraint(Constraint::Regex(pattern.into()))
    },
};
