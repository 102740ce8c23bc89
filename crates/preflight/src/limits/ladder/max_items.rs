//! The bound `maxItems` of an array.

use super::{LadderSpec, object_with};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "max-items",
    label: "maxItems",
    unit: "maxItems",
    sizes: &[
        1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000,
    ],
    kind: "json",
    build: |bound, nonce, _| {
        object_with(
            nonce,
            &format!(r#"{{"type":"array","items":{{"type":"integer"}},"maxItems":{bound}}}"#),
        )
    },
};
