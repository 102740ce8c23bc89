//! An `enum` of strings.

use super::{ConstraintKind, LadderSpec, Payload, object_with, word};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "enum-size",
    label: "enum",
    unit: "values of an enum",
    sizes: &[
        1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000,
    ],
    kind: ConstraintKind::JsonSchema,
    build: |size, nonce, _| -> Payload {
        let values: Vec<String> = (0..size)
            .map(|index| format!(r#""{}""#, word(index)))
            .collect();
        object_with(nonce, &format!(r#"{{"enum":[{}]}}"#, values.join(",")))
    },
};
