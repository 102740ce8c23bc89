//! The bound of a repetition in a regular expression.

use super::{LadderSpec, Payload, TRIPLING};
use sobench_core::constraint::{Constraint, ConstraintKind};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "regex-repeats",
    label: "regex repeats",
    unit: "repeats in a regex",
    sizes: TRIPLING,
    kind: ConstraintKind::Regex,
    build: |bound, nonce, _| {
        let pattern = format!("{nonce}(?:[a-z]|[0-9][0-9]){{1,{bound}}}");
        Payload::Constraint(Constraint::Regex(pattern.into()))
    },
};
