//! The bound `maxLength` of a string.

use super::{ConstraintKind, LadderSpec, TRIPLING, object_with};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "max-length",
    label: "maxLength",
    unit: "maxLength",
    sizes: TRIPLING,
    kind: ConstraintKind::JsonSchema,
    build: |bound, nonce, _| {
        object_with(
            nonce,
            &format!(r#"{{"type":"string","maxLength":{bound}}}"#),
        )
    },
};
