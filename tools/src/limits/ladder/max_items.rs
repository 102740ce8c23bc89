//! The bound `maxItems` of an array.

use super::{ConstraintKind, LadderSpec, TRIPLING, object_with};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "max-items",
    label: "maxItems",
    unit: "maxItems",
    sizes: TRIPLING,
    kind: ConstraintKind::JsonSchema,
    build: |bound, nonce, _| {
        object_with(
            nonce,
            &format!(r#"{{"type":"array","items":{{"type":"integer"}},"maxItems":{bound}}}"#),
        )
    },
};
